"""Wgmma register: registers of `a` are written for the next `wgmma` after a wait that leaves its group under way.

Hardware: undefined; `ptxas` waits there by itself where it sees it, and says so.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["one_group_more_than_meant"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
