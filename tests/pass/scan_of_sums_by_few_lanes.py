"""No false alarm: eight lanes that come from a barrier by one branch are active together, without `--strict`.

The mask of a shuffle is `activemask`, as in libraries from before sm_70; PTX does not promise that it names all eight.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def scan_of_sums_by_few_lanes(x, y):
    sums = cuda.shared.array(8, np.int32)
    i = cuda.threadIdx.x
    if i % 32 == 0:
        sums[i // 32] = x[i]
    cuda.syncthreads()
    if i < 8:
        mask = cuda.activemask()
        total = sums[i]
        for step in (1, 2, 4):
            before = cuda.shfl_up_sync(mask, total, step)
            if i >= step:
                total += before
        sums[i] = total
    cuda.syncthreads()
    y[i] = sums[i // 32]


x, y = np.ones(256, np.int32), np.zeros(256, np.int32)
scan_of_sums_by_few_lanes[1, 256](x, y)
assert (y == np.arange(256) // 32 + 1).all()
