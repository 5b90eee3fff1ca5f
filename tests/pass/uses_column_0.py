"""The fix of `uses_column_0`: the address is the one that the allocation stores."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["uses_column_0"]
kernel[1, 128](np.zeros(128, np.uint32))
