"""The fix of `grid_rounded_down`: the grid is rounded up."""

import numpy as np

from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


n = 300
d = cuda.device_array(n, np.float32)
fill[-(-n // 128), 128](d, 1.0)
h = d.copy_to_host()
total = h.sum()
