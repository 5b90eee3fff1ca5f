import numpy as np
from kernels import fill

from wsemu import cuda

d, h, s = cuda.device_array(64, np.float32), cuda.pinned_array(64, np.float32), cuda.stream()
other = cuda.to_device(np.ones(64, np.float32))
fill[2, 32, s](d, 3.0)
d.copy_to_host(h, stream=s)
hidden = other.copy_to_host()  # fixed
print(h[0])  # expect: host-race
