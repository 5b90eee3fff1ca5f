"""Wgmma-divergence: the last warp of the warpgroup skips a `wgmma`."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["wgmma_three_warps"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
