"""Undefined-register: the register of a sum is not set to zero before the loop that adds to it."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx")).only()
kernel[1, 32](np.ones(100, np.uint32), np.zeros(32, np.uint32), 100)
