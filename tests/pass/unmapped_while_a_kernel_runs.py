"""The fix of `unmapped_while_a_kernel_runs`: the host waits inside of the block."""

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
