"""Tmem double free: `tcgen05.dealloc` needs an address that `tcgen05.alloc` returned, the same number of columns, and
one call.

Hardware: The hardware stops with a trap if the columns are not allocated, or if no allocation begins there.  It does
not notice a wrong number of columns within the columns of the CTA.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["releases_its_neighbour"]
kernel[1, 128](np.zeros(128, np.uint32))
