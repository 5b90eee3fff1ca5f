"""Tmem misaligned lane: a load or store of shape `.32x32b` or `.16x32bx2` begins at a lane that is a multiple of 32,
one of another shape at a multiple of 16.

Hardware: The behavior is undefined.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["begins_at_lane_1"]
kernel[1, 128](np.zeros(128, np.uint32))
