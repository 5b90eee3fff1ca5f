import numpy as np
from kernels import scale

from wsemu import cuda

s = cuda.external_stream(0x5EED)
d = cuda.to_device(np.ones(256, np.float32))
cuda.default_stream().synchronize()  # fixed
scale[2, 128, s](d, 2.0)  # expect: stream-race
s.synchronize()
