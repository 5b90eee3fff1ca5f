"""No false alarm: every round begins with a barrier and ends in a branch of some lanes, who meet the others there.

A loop that is left by the end of the kernel alone has no way out that its branches could meet at but its head.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def round_that_ends_in_a_branch(y):
    i, n = cuda.threadIdx.x, 0
    while True:
        cuda.syncthreads()
        n += 1
        if n >= 4:
            break
        if i == 0:
            y[n] = n


y = np.zeros(8, np.int32)
round_that_ends_in_a_branch[1, 64](y)
assert y.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
