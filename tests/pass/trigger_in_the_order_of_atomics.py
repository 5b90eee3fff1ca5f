"""The fix of `trigger_in_the_order_of_atomics`: a barrier of the CTA orders the store before the trigger."""

import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    if cuda.threadIdx.x == 0:
        x[0] = 1
        cuda.threadfence()
    cuda.syncthreads()
    if cuda.threadIdx.x == 32:
        ptx.griddepcontrol_launch_dependents()


@cuda.jit
def consume(x, y):
    if cuda.threadIdx.x == 0:
        y[0] = 2 * x[0]


x, y = np.zeros(1, np.int32), np.zeros(1, np.int32)
sequence = wsemu.Sequence()
sequence.launch(produce, 1, 64, (x,), stream="s")
sequence.launch(consume, 1, 64, (x, y), stream="s", pdl=True)
