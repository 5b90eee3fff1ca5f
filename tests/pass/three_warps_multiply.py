"""The fix of `three_warps_multiply`: it lets all four execute it."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["three_warps_multiply"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
