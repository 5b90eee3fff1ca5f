"""Use before alloc: memory of a pool is used in a stream that does not wait for its allocation.

Memory from `cudaMallocAsync` exists for operations that happen after the allocation in its stream.
"""

import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


x = np.zeros(64, np.float32)
sequence = wsemu.Sequence()
sequence.allocate(x, stream="first")
sequence.launch(fill, 2, 32, (x, 1.0), stream="second")
