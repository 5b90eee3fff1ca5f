"""Tmem unallocated: an instruction uses columns of tensor memory that the CTA has not allocated, or has released.

Hardware: Another CTA on the multiprocessor may own the columns. With `-g` the assembler adds a check that stops the
launch.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["stores_beside_its_columns"]
kernel[1, 128](np.zeros(128, np.uint32))
