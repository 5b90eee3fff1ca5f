import numpy as np
from kernels import fill

from wsemu import cuda

d, h = cuda.to_device(np.ones(256, np.float32)), cuda.pinned_array(256, np.float32)
first, second = cuda.stream(), cuda.stream()
h[:] = 1
d.copy_to_device(h, stream=first)
first.synchronize()  # fixed
h[:] = 2  # expect: host-race
d.copy_to_host(h, stream=first)
first.synchronize()  # fixed
fill[2, 128, second](d, 3.0)  # expect: stream-race
cuda.synchronize()
