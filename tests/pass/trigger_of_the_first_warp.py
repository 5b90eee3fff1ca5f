"""The fix of `trigger_of_the_first_warp`: a barrier of the CTA comes between its stores, with a fence, and the trigger.

CUDA's headers promise that a fence before the trigger makes stores visible: a note.
"""

import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    i = cuda.grid(1)
    x[i] = i
    cuda.threadfence()
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        ptx.griddepcontrol_launch_dependents()


@cuda.jit
def consume(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i]


x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 64, (x,), stream="s")
sequence.launch(consume, 2, 64, (x, y), stream="s", pdl=True)
