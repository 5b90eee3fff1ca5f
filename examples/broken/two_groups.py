"""Tmem cta group mixed: all `tcgen05` instructions of a kernel must have the same `.cta_group`.

Hardware: The behavior is undefined.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["two_groups"]
kernel[1, 128](np.zeros(128, np.uint32))
