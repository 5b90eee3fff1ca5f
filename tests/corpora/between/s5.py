import numpy as np

from wsemu import cuda

s = cuda.external_stream(0x5EED)
a, b = cuda.device_array(64, np.float32), cuda.device_array(64, np.float32)
a.copy_to_device(np.ones(64, np.float32))
cuda.synchronize()  # fixed
b.copy_to_device(a, stream=s)  # expect: stream-race
s.synchronize()
