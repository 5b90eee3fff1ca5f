"""Missing pdl wait: the thread that reads does not wait for the atomic of the one that has waited.

Hardware: another order of the atomics is another schedule.
"""

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
        cuda.atomic.add(count, 0, 1)
    elif cuda.threadIdx.x == 32:
        cuda.atomic.add(count, 0, 1)  # may come before the other one
        y[0] = x[0]  # expect: missing-pdl-wait


x, count, y = np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
sequence = wsemu.Sequence()
sequence.launch(produce, 1, 64, (x,), stream="s")
sequence.launch(consume, 1, 64, (x, count, y), stream="s", pdl=True)  # expect: missing-pdl-wait
