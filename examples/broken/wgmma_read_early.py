"""Wgmma-register: accumulators are doubled before the wait for the `wgmma` that computes them."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["wgmma_read_early"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
