"""The fix of `sixteen_lanes_multiply`: one lane multiplies."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["sixteen_lanes_multiply"]
kernel[1, 128](np.zeros(128, np.uint32))
