"""Wgmma unfenced: accumulators are scaled between two `wgmma`, and only before the first one is a fence.

Hardware: undefined; the values depend on what `ptxas` makes of it.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["scaled_without_a_fence"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
