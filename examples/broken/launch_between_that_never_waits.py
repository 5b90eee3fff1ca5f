"""Pdl transitive: a launch between producer and consumer never waits, so the wait of the consumer does not cover the
producer.

`griddepcontrol.wait` waits for the launch directly before, and for the launches for which that one waited.
"""

import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    ptx.griddepcontrol_launch_dependents()
    i = cuda.grid(1)
    x[i] = i


@cuda.jit
def between(z):
    i = cuda.grid(1)
    z[i] = 1


@cuda.jit
def consume(x, y):
    ptx.griddepcontrol_wait()
    i = cuda.grid(1)
    y[i] = 2 * x[i]


x, y, z = (np.zeros(64, np.float32) for _ in range(3))
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 32, (x,), stream="s")
sequence.launch(between, 2, 32, (z,), stream="s", pdl=True)
sequence.launch(consume, 2, 32, (x, y), stream="s", pdl=True)
