"""The fix of `never_released`: the columns are released."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["never_released"]
kernel[1, 128](np.zeros(128, np.uint32))
