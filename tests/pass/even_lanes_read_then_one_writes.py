"""No false alarm: every second lane reads a word, these meet, and one of them writes it."""

import numpy as np

from wsemu import cuda


@cuda.jit
def even_lanes_read_then_one_writes(y):
    word = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        word[0] = 5
    cuda.syncwarp()
    if t % 2 == 0:
        y[t] = word[0]
        cuda.syncwarp(0x55555555)
        if t == 0:
            word[0] = 9


even_lanes_read_then_one_writes[1, 32](np.zeros(32, np.int32))
