"""Tmem address unpublished: `tcgen05.alloc` stores the address of the allocation to shared memory with a plain store.

Hardware: The warp reads arbitrary bytes, and uses other columns.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["address_without_a_barrier"]
kernel[1, 128](np.zeros(128, np.uint32))
