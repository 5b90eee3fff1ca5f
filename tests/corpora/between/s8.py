import numpy as np
from kernels import scale

from wsemu import cuda

side, main = cuda.stream(), cuda.stream()
h, d = cuda.pinned_array(64, np.float32), cuda.device_array(64, np.float32)
h[:] = 1
d.copy_to_device(h, stream=side)
copied = cuda.event()  # fixed
copied.record(side)  # fixed
copied.wait(main)  # fixed
scale[2, 32, main](d, 2.0)  # expect: stream-race
cuda.synchronize()
