"""The fix of `managed_memory_during_a_launch`: the host waits for the device first."""

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
sequence.synchronize()
sequence.write(other)
