"""Tmem grow: a CTA must not allocate more columns than in its previous allocation.

Hardware: The behavior is undefined: the allocations may block each other.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["allocates_more_the_second_time"]
kernel[1, 128](np.zeros(128, np.uint32))
