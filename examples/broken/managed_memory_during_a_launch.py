"""Managed access: the host writes managed memory while a kernel runs, on a system where only one of them may.

On systems whose `concurrentManagedAccess` is 0 (Windows, WSL 2, older Tegra), the host must not access any managed
memory while any kernel runs, even if the kernel does not use it.
"""

import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


x, other = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence = wsemu.Sequence(managed="exclusive")
sequence.declare(other, "other", "managed")
sequence.launch(fill, 2, 32, (x, 1.0), stream="s")
sequence.write(other)
