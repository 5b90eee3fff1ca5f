"""Pdl nc: a dependent launch uses the read-only cache to load data that the previous launch writes, after its wait.

Hardware: the load gave stale bytes in 116 of 120 runs.
"""

import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    i = cuda.grid(1)
    x[i] = i


@cuda.jit
def consume(x, y):
    ptx.griddepcontrol_wait()
    i = cuda.grid(1)
    y[i] = 2 * ptx.ld_nc(x, i)  # expect: pdl-nc


x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 32, (x,), stream="s")
sequence.launch(consume, 2, 32, (x, y), stream="s", pdl=True)  # expect: pdl-nc
