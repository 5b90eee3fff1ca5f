"""Tmem columns: tensor memory is allocated and released in powers of two from 32 to 512 columns.

Hardware: The behavior is undefined.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["allocates_48_columns"]
kernel[1, 128](np.zeros(128, np.uint32))
