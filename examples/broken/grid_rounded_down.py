"""Uninitialised device read: the grid is rounded down, so the last elements are never written, and the host uses them.

A launch, or the host after a copy, reads bytes of device memory that no copy and no launch has written since their
allocation.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


n = 300
d = cuda.device_array(n, np.float32)
fill[n // 128, 128](d, 1.0)
h = d.copy_to_host()
total = h.sum()
