"""Wgmma divergence: the last warp of the warpgroup leaves a `wgmma` out.

Hardware: undefined.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["three_warps_multiply"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
