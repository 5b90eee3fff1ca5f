"""The fix of `two_streams_no_event`: an event orders the two streams."""

import numpy as np

from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor


d = cuda.device_array(256, np.float32)
first, second = cuda.stream(), cuda.stream()
ready = cuda.event(timing=False)
fill[2, 128, first](d, 3.0)
ready.record(first)
ready.wait(second)
scale[2, 128, second](d, 2.0)
cuda.synchronize()
