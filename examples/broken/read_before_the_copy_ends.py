"""Host race: an asynchronous copy into pinned memory is read before the stream is synchronized.

The host reads or writes memory that a launch or an asynchronous copy in flight uses.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


d, h = cuda.device_array(256, np.float32), cuda.pinned_array(256, np.float32)
stream = cuda.stream()
fill[2, 128, stream](d, 3.0)
d.copy_to_host(h, stream=stream)
total = h.sum()
