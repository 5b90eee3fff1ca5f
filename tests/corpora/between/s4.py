import numpy as np
from kernels import fill, scale

from wsemu import cuda

s = cuda.external_stream(0x5EED)
a, b = cuda.device_array(64, np.float32), cuda.device_array(64, np.float32)
fill[2, 32, s](a, 1.0)
b.copy_to_device(a)  # bad  # expect: stream-race
b.copy_to_device(a, stream=s)  # fixed
scale[2, 32, s](b, 2.0)  # expect: stream-race
s.synchronize()
