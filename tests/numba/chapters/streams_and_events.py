"""Streams and events: work in order, waiting for each other, timing, callbacks."""

import numpy as np
from numba import cuda


@cuda.jit
def number(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = i


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


first, second = cuda.stream(), cuda.stream()
x = cuda.device_array(256, dtype=np.int32, stream=first)
number[2, 128, first](x)
ready = cuda.event()
ready.record(first)
ready.wait(second)
double[2, 128, second](x)
assert (x.copy_to_host(stream=second) == 2 * np.arange(256)).all()

before, after = cuda.event(timing=True), cuda.event(timing=True)
before.record()
double[2, 128](x)
after.record()
after.synchronize()
assert cuda.event_elapsed_time(before, after) >= 0
assert after.query()

seen = []
first.add_callback(lambda stream, status, what: seen.append(what), "done")
first.synchronize()
assert seen == ["done"]
for one in (cuda.default_stream(), cuda.legacy_default_stream(), cuda.per_thread_default_stream()):
    one.synchronize()
# expect: 2 kernels, 3 launches: 3 verified
