import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def prologue(flag, x):
    ptx.griddepcontrol_launch_dependents()
    while cuda.atomic.add(flag, 0, 0) == 0:  # expect: deadlock
        pass
    x[0] = 1


@cuda.jit
def raise_flag(flag):
    cuda.atomic.exch(flag, 0, 1)
    ptx.griddepcontrol_wait()


flag, x = np.zeros(1, np.int32), np.zeros(1, np.float32)
sequence = wsemu.Sequence()
sequence.launch(raise_flag, 1, 1, (flag,), stream="s")  # fixed
sequence.launch(prologue, 1, 1, (flag, x), stream="s")  # fixed
sequence.launch(prologue, 1, 1, (flag, x), stream="s", pdl=True)  # bad
sequence.launch(raise_flag, 1, 1, (flag,), stream="s", pdl=True)  # bad
sequence.synchronize("s")
