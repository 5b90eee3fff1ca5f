import numpy as np
from kernels import fill

from wsemu import cuda

d, h, s = cuda.device_array(256, np.float32), cuda.pinned_array(256, np.float32), cuda.stream()
fill[2, 128, s](d, 3.0)
d.copy_to_host(h, stream=s)
s.synchronize()  # fixed
print(h.sum())  # expect: host-race
