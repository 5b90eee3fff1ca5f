import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    ptx.griddepcontrol_launch_dependents()
    i = cuda.grid(1)
    x[i] = i


@cuda.jit
def aside(z):
    ptx.griddepcontrol_launch_dependents()
    ptx.griddepcontrol_wait()  # fixed
    i = cuda.grid(1)
    z[i] = 1


@cuda.jit
def consume(x, y):
    ptx.griddepcontrol_wait()
    i = cuda.grid(1)
    y[i] = 2 * x[i]  # expect: pdl-transitive


x, y, z = (np.zeros(128, np.float32) for _ in range(3))
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 64, (x,), stream="s")
sequence.launch(aside, 2, 64, (z,), stream="s", pdl=True)
sequence.launch(consume, 2, 64, (x, y), stream="s", pdl=True)  # expect: pdl-transitive
sequence.synchronize("s")
