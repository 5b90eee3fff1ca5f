"""Tmem uninitialized: after its allocation, tensor memory holds arbitrary values.

Hardware: The load returns the values of an earlier CTA.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["loads_what_nobody_stored"]
kernel[1, 128](np.zeros(128, np.uint32))
