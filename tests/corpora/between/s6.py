import numpy as np
from kernels import add

from wsemu import cuda

weights = cuda.to_device(np.ones(1024, np.float32))
s = cuda.external_stream(0x5EED)
out = cuda.device_array(1024, np.float32)
uploaded = cuda.event()  # fixed
uploaded.record()  # fixed
uploaded.wait(s)  # fixed
add[8, 128, s](weights, weights, out)  # expect: stream-race
s.synchronize()
