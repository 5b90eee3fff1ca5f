import numpy as np
from kernels import add

from wsemu import cuda

x, out = cuda.managed_array(64, np.float32), cuda.device_array(64, np.float32)
x[:] = 1
add[2, 32](x, x, out)
cuda.synchronize()  # fixed
x[:] = 7  # expect: host-race
cuda.synchronize()
