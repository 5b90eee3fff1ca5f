"""The fix of `pool_memory_of_another_stream`: the second stream waits for an event after the allocation."""

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
sequence.record("allocated", stream="first")
sequence.wait("allocated", stream="second")
sequence.launch(fill, 2, 32, (x, 1.0), stream="second")
