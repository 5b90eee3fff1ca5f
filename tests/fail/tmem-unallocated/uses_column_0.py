"""Tmem unallocated: a kernel uses column 0 of tensor memory, whichever columns its allocation gets.

Hardware: Another CTA on the multiprocessor may own the columns. With `-g` the assembler adds a check that stops the
launch.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["uses_column_0"]
kernel[1, 128](np.zeros(128, np.uint32))
