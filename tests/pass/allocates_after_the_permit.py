"""The fix of `allocates_after_the_permit`: the permit is given up behind the allocation."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["allocates_after_the_permit"]
kernel[1, 128](np.zeros(128, np.uint32))
