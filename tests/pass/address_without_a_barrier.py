"""The fix of `address_without_a_barrier`: a barrier orders the address."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["address_without_a_barrier"]
kernel[1, 128](np.zeros(128, np.uint32))
