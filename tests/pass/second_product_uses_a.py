"""The fix of `second_product_uses_a`: the first product fills the collector buffer."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["second_product_uses_a"]
kernel[1, 128](np.zeros(128, np.uint32))
