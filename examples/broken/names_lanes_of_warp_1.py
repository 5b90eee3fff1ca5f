"""Tmem wrong quarter: warp w of a CTA can only access lanes 32 (w % 4) to 32 (w % 4) + 31 of tensor memory.

Hardware: The hardware ignores the two bits and uses the lanes of the warp: the launch silently uses other data than it
names.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["names_lanes_of_warp_1"]
kernel[1, 128](np.zeros(128, np.uint32))
