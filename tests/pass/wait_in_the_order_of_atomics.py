"""The fix of `wait_in_the_order_of_atomics`: the thread that reads polls until the other one has waited."""

import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    x[cuda.threadIdx.x] = 1
    ptx.griddepcontrol_launch_dependents()


@cuda.jit
def consume(x, count, y):
    if cuda.threadIdx.x == 0:
        ptx.griddepcontrol_wait()
        cuda.threadfence()
        cuda.atomic.add(count, 0, 1)
    elif cuda.threadIdx.x == 32:
        while cuda.atomic.add(count, 0, 0) == 0:
            pass
        cuda.threadfence()
        y[0] = x[0]


x, count, y = np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
sequence = wsemu.Sequence()
sequence.launch(produce, 1, 64, (x,), stream="s")
sequence.launch(consume, 1, 64, (x, count, y), stream="s", pdl=True)
