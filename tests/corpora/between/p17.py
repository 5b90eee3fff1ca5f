import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    ptx.griddepcontrol_launch_dependents()
    i = cuda.grid(1)
    x[i] = i


@cuda.jit
def step(x, y):
    ptx.griddepcontrol_launch_dependents()
    ptx.griddepcontrol_wait()
    i = cuda.grid(1)
    y[i] = 2 * x[i]


@cuda.jit
def last(x, y, z):
    ptx.griddepcontrol_launch_dependents()
    ptx.griddepcontrol_wait()  # fixed
    i = cuda.grid(1)
    z[i] = x[i] + y[i]  # expect: missing-pdl-wait


x, y, z = (np.zeros(128, np.float32) for _ in range(3))
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 64, (x,), stream="s")
sequence.launch(step, 2, 64, (x, y), stream="s", pdl=True)
sequence.launch(last, 2, 64, (x, y, z), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
