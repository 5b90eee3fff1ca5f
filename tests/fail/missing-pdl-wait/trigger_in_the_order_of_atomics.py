"""Missing pdl wait: an atomic of the warp that triggers may come before the one that follows the store.

Hardware: another order of the atomics is another schedule.
"""

import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x, count):
    if cuda.threadIdx.x == 0:
        x[0] = 1
        cuda.threadfence()
        cuda.atomic.add(count, 0, 1)
    elif cuda.threadIdx.x == 32:
        cuda.atomic.add(count, 0, 1)  # may come before the other one
        cuda.threadfence()
        ptx.griddepcontrol_launch_dependents()


@cuda.jit
def consume(x, y):
    if cuda.threadIdx.x == 0:
        y[0] = 2 * x[0]  # expect: missing-pdl-wait


x, count, y = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
sequence = wsemu.Sequence()
sequence.launch(produce, 1, 64, (x, count), stream="s")
sequence.launch(consume, 1, 64, (x, y), stream="s", pdl=True)  # expect: missing-pdl-wait
