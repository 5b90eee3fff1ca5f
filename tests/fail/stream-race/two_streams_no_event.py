"""Stream race: a kernel on one stream, its consumer on another, and no event between them.

Hardware: the second kernel may read the array before or while the first one writes it; mostly it sees the old values.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor


d = cuda.device_array(256, np.float32)
first, second = cuda.stream(), cuda.stream()
fill[2, 128, first](d, 3.0)
scale[2, 128, second](d, 2.0)  # expect: stream-race
cuda.synchronize()
