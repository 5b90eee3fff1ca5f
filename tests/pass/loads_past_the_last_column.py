"""The fix of `loads_past_the_last_column`: the store goes to the first column."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["loads_past_the_last_column"]
kernel[1, 128](np.zeros(128, np.uint32))
