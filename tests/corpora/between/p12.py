import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def preprocess(o, do, sums):
    i = cuda.grid(1)
    sums[i] = o[i] * do[i]
    ptx.griddepcontrol_launch_dependents()


@cuda.jit
def backward(do, sums, dq):
    i = cuda.grid(1)
    ptx.griddepcontrol_wait()  # fixed
    dq[i] = do[i] - sums[i]  # expect: missing-pdl-wait


o, do, sums, dq = (np.ones(128, np.float32) for _ in range(4))
sequence = wsemu.Sequence()
sequence.launch(preprocess, 2, 64, (o, do, sums), stream="s")
sequence.launch(backward, 2, 64, (do, sums, dq), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
