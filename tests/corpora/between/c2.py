import numpy as np
from kernels import fill

from wsemu import cuda

s, h, total = cuda.stream(), cuda.pinned_array(64, np.float32), cuda.pinned_array(1, np.float64)
d = cuda.device_array(64, np.float32)


def add_up(stream, status, argument):
    total[0] = h.sum()


fill[2, 32, s](d, 2.0)
d.copy_to_host(h, stream=s)
s.add_callback(add_up)
s.synchronize()  # fixed
print(total[0])  # expect: host-race
