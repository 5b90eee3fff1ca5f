import numpy as np

from wsemu import cuda

d, h, s = cuda.device_array(256, np.float32), np.ones(256, np.float32), cuda.stream()
d.copy_to_device(h, stream=s)
s.synchronize()  # fixed
h[:] = 2  # expect: host-race
s.synchronize()
