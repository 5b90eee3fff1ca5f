"""The fix of `overwritten_while_it_is_read`: a wait ends the load before its warps meet the others."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["overwritten_while_it_is_read"]
kernel[1, 256](np.zeros(256, np.uint32))
