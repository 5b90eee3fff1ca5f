"""The fix of `loads_what_nobody_stored`: the load reads what was stored."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["loads_what_nobody_stored"]
kernel[1, 128](np.zeros(128, np.uint32))
