"""The fix of `graph_of_freed_memory`: the memory is freed after the last launch."""

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
sequence.begin_capture("s", "work")
sequence.launch(fill, 2, 32, (x, 1.0), stream="s")
sequence.end_capture("s", "work")
sequence.launch_graph("work", stream="s")
sequence.synchronize("s")
sequence.free(x)
