"""The fix of `scaled_without_a_fence`: it has one before the second, too."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["scaled_without_a_fence"]
kernel[1, 128](np.ones(1024, np.float16), np.zeros(512, np.float32))
