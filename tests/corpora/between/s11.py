import numpy as np
from kernels import fill, scale

from wsemu import cuda

first, second = cuda.stream(), cuda.stream()
d, filled = cuda.device_array(64, np.float32), cuda.event()
filled.wait(second)  # bad
fill[2, 32, first](d, 3.0)
filled.record(first)
filled.wait(second)  # fixed
scale[2, 32, second](d, 2.0)  # expect: stream-race
cuda.synchronize()
