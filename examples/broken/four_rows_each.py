"""Clc after failure: each CTA requests four rows, whatever the responses contain.

Hardware: PTX leaves a request undefined after the CTA has observed that one failed.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["four_rows_each"]
kernel[3, 64](np.zeros((3, 64), np.uint32))
