import numpy as np
from kernels import add, fill

from wsemu import cuda

streams = [cuda.stream() for _ in range(2)]
last = cuda.stream()
x, y, out = (cuda.device_array(64, np.float32) for _ in range(3))
done = [cuda.event()] * 2  # bad
done = [cuda.event() for _ in range(2)]  # fixed
for s, array, event in zip(streams, (x, y), done, strict=True):
    fill[2, 32, s](array, 1.0)
    event.record(s)
for event in done:
    event.wait(last)
add[2, 32, last](x, y, out)  # expect: stream-race
cuda.synchronize()
