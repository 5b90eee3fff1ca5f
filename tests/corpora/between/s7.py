import numpy as np
from kernels import fill

from wsemu import cuda

s = cuda.external_stream(0x5EED)
d = cuda.device_array(64, np.float32)
fill[2, 32, s](d, 3.0)
s.synchronize()  # fixed
print(d.copy_to_host().sum())  # expect: stream-race
