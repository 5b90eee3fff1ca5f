import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(gamma):
    gamma[0] = 3


@cuda.jit
def normalize(x, gamma, y):
    i = cuda.grid(1)
    ptx.griddepcontrol_wait()  # fixed
    factor = gamma[0]  # expect: missing-pdl-wait
    ptx.griddepcontrol_wait()  # bad
    y[i] = factor * x[i]


x, y, gamma = np.ones(64, np.float32), np.zeros(64, np.float32), np.zeros(1, np.float32)
sequence = wsemu.Sequence()
sequence.launch(produce, 1, 1, (gamma,), stream="s")
sequence.launch(normalize, 2, 32, (x, gamma, y), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
