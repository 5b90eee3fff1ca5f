"""Collector without fill: the second product may take a from the collector buffer, which nothing has filled.

Hardware: `use` and `lastuse` need an earlier `fill` of the operand that is still valid.  Without one, the operand of
the product is undefined.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["second_product_uses_a"]
kernel[1, 128](np.zeros(128, np.uint32))
