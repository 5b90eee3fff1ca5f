"""The fix of `stores_beside_its_columns`: the store goes to columns that are allocated."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["stores_beside_its_columns"]
kernel[1, 128](np.zeros(128, np.uint32))
