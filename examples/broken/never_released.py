"""Tmem leak: a CTA must release all tensor memory that it has allocated before it ends.

Hardware: The columns stay allocated: a later CTA on the multiprocessor may wait for them forever.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["never_released"]
kernel[1, 128](np.zeros(128, np.uint32))
