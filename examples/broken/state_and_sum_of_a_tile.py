"""Strong vector: a tile's state and its sum are published as a vector of two words, as in CUB.

Hardware: no error is raised; an aligned vector is one access.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx")).only()
kernel[2, 1](np.zeros(1, np.uint64), np.zeros(1, np.uint32))
