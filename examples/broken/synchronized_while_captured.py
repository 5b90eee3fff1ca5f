"""Capture violation: the host synchronizes with a stream that is captured.

A capture records work instead of running it, so calls that depend on running work are forbidden until it ends.
"""

import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


x = np.zeros(64, np.float32)
sequence = wsemu.Sequence()
sequence.begin_capture("s", "work")
sequence.launch(fill, 2, 32, (x, 1.0), stream="s")
sequence.synchronize("s")
sequence.end_capture("s", "work")
