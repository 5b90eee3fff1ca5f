"""Incomplete: the old value of an atomic reaches a branch of other threads through shared memory.

The program is right or wrong by schedule alone: one run does not tell.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def old_value_through_shared_memory(counter, y):
    tickets = cuda.shared.array(8, np.int32)
    t = cuda.threadIdx.x
    tickets[t] = cuda.atomic.add(counter, 0, 1)
    cuda.syncthreads()
    if tickets[7 - t] < 4:  # expect: incomplete
        y[t] = 1


old_value_through_shared_memory[1, 8](np.zeros(1, np.int32), np.zeros(8, np.int32))
