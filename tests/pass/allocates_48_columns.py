"""The fix of `allocates_48_columns`: 64 columns are allocated."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["allocates_48_columns"]
kernel[1, 128](np.zeros(128, np.uint32))
