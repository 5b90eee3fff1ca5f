"""Undefined-register: a pair of halves is stored whose upper half nothing has written.

Hardware: nothing is raised; the upper half holds what was left in its register.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx")).only()
kernel[1, 32](np.zeros(32, np.uint32))
