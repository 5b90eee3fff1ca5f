import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def produce(x):
    i = cuda.grid(1)
    x[i] = i


@cuda.jit
def consume(x, y):
    t = cuda.threadIdx.x
    value = x[t]  # bad  # expect: missing-pdl-wait
    for k in range(4):
        ptx.griddepcontrol_wait()
        y[32 * k + t] = 2 * value  # bad
        value = x[(32 * (k + 1) + t) % 128]  # bad
        y[32 * k + t] = 2 * x[32 * k + t]  # fixed


x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 64, (x,), stream="s")
sequence.launch(consume, 1, 32, (x, y), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
