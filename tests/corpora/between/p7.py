import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def use_scratch(scratch, x):
    ptx.griddepcontrol_launch_dependents()
    i = cuda.grid(1)
    x[i] = 1 + scratch[i]


@cuda.jit
def clear(scratch, x, y):
    i = cuda.grid(1)
    ptx.griddepcontrol_wait()  # fixed
    scratch[i] = 0  # expect: missing-pdl-wait
    ptx.griddepcontrol_wait()  # bad
    y[i] = x[i] + scratch[i]


scratch, x, y = (np.ones(128, np.float32) for _ in range(3))
sequence = wsemu.Sequence()
sequence.launch(use_scratch, 2, 64, (scratch, x), stream="s")
sequence.launch(clear, 2, 64, (scratch, x, y), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
