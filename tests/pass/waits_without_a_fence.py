"""The fix of `waits_without_a_fence`: a fence before the relaxed arrival, and one after the relaxed wait."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["waits_without_a_fence"]
kernel[1, 256](np.zeros(256, np.uint32))
