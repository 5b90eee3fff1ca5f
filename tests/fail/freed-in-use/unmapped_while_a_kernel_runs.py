"""Freed in use: the block of `cuda.mapped` ends while the kernel may still run.

Hardware: the pages are unregistered under the kernel, which can fault.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor


stream, h = cuda.stream(), np.ones(256, np.float32)
with cuda.mapped(h, stream=stream) as m:  # expect: freed-in-use
    scale[2, 128, stream](m, 3.0)
stream.synchronize()
