"""Tmem double free: `tcgen05.dealloc` takes an address that `tcgen05.alloc` returned, and the same number of columns,
once.

Hardware: The hardware stops with a trap if the columns are not allocated, or if no allocation begins there. It does not
notice a wrong number of columns inside of those of the CTA.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["releases_its_neighbour"]
kernel[1, 128](np.zeros(128, np.uint32))
