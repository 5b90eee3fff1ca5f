import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def partition(table):
    t = cuda.threadIdx.x
    table[t] = 64 * t


@cuda.jit
def merge(table, x, y):
    ptx.griddepcontrol_wait()  # fixed
    first = table[cuda.blockIdx.x]  # expect: missing-pdl-wait
    ptx.griddepcontrol_wait()  # bad
    i = first + cuda.threadIdx.x
    y[i] = 2 * x[i]


table, x, y = np.zeros(2, np.int32), np.ones(128, np.float32), np.zeros(128, np.float32)
sequence = wsemu.Sequence()
sequence.launch(partition, 1, 2, (table,), stream="s")
sequence.launch(merge, 2, 64, (table, x, y), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
