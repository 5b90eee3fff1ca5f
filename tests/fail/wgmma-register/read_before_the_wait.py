"""Wgmma register: accumulators are doubled while the `wgmma` that makes them may still be under way.

Hardware: undefined; `ptxas` waits there by itself where it sees it, and says so.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["read_before_the_wait"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
