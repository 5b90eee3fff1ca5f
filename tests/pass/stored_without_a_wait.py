"""The fix of `stored_without_a_wait`: the store is waited for."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["stored_without_a_wait"]
kernel[1, 256](np.zeros(256, np.uint32))
