import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def cast(bias, bias32):
    i = cuda.threadIdx.x
    bias32[i] = bias[i]


@cuda.jit
def route(logits, bias32, out):
    i = cuda.threadIdx.x
    ptx.griddepcontrol_wait()  # fixed
    early = bias32[i]  # expect: missing-pdl-wait
    ptx.griddepcontrol_wait()  # bad
    out[i] = logits[i] + early


bias, bias32, logits, out = np.ones(64), *(np.zeros(64, np.float32) for _ in range(3))
sequence = wsemu.Sequence()
sequence.launch(cast, 1, 64, (bias, bias32), stream="s")
sequence.launch(route, 1, 64, (logits, bias32, out), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
