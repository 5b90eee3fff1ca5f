"""Read-only written: a block loads, through the read-only cache, a counter that it has just increased.

Hardware: no error is raised; the load returns the contents of the cache line, which may be the old or the new value.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def counter_read_as_constant(totals, y):
    t = cuda.threadIdx.x
    cuda.atomic.add(totals, t, 1)
    cuda.syncthreads()
    y[t] = ptx.ld_nc(totals, t) > 0  # expect: read-only-written


counter_read_as_constant[1, 64](np.zeros(64, np.int32), np.zeros(64, np.bool_))
