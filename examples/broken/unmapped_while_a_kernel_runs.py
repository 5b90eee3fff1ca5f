"""Freed in use: the block of `cuda.mapped` ends while the kernel may still run.

Memory is freed or unregistered while a launch or copy may still use it, because nothing orders that operation before
the free, or an operation uses the memory afterwards.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor


stream, h = cuda.stream(), np.ones(256, np.float32)
with cuda.mapped(h, stream=stream) as m:
    scale[2, 128, stream](m, 3.0)
stream.synchronize()
