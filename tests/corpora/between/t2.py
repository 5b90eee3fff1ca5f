import numpy as np
from kernels import fill, scale

from wsemu import cuda

blocking, other = cuda.stream(), cuda.external_stream(0x5EED)  # bad
blocking, other = cuda.stream(), cuda.stream()  # fixed
d = cuda.device_array(64, np.float32)
fill[2, 32, blocking](d, 1.0)
scale[2, 32](d, 2.0)
scale[2, 32, other](d, 3.0)  # expect: stream-race
cuda.synchronize()
