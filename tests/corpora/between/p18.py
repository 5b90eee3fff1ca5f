import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    i = cuda.grid(1)
    x[i] = i


@cuda.jit
def consume(x, y):
    ptx.griddepcontrol_launch_dependents()  # bad
    ptx.griddepcontrol_wait()  # fixed
    i = cuda.grid(1)
    y[i] = 2 * x[i]  # expect: missing-pdl-wait


x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 64, (x,), stream="s")
sequence.launch(consume, 2, 64, (x, y), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.copy(y, np.zeros(128, np.float32), stream="s")
sequence.synchronize("s")
