import numpy as np
from kernels import blur, fill

from wsemu import cuda

x, out = cuda.device_array(128, np.float32), cuda.device_array(128, np.float32)
streams, done = [cuda.stream() for _ in range(2)], [cuda.event() for _ in range(2)]
for k, s in enumerate(streams):
    fill[2, 32, s](x[64 * k : 64 * (k + 1)], k)
    done[k].record(s)
for k, s in enumerate(streams):
    done[1 - k].wait(s)  # fixed
    blur[2, 32, s](x, out, 64 * k, 64 * (k + 1))  # expect: stream-race
cuda.synchronize()
