"""The fix of `dispatch_beyond`: kinds beyond the last one count as the last one."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["dispatch"]
kernel[1, 32](np.arange(32, dtype=np.uint32) % 3, np.zeros(32, np.uint32))
