"""Wgmma-unfenced: accumulators are scaled between two `wgmma`, without a fence before the second one."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["wgmma_no_fence"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
