import numpy as np

from wsemu import cuda


def upload(d, value, s):
    staging = cuda.pinned_array(256, np.float32)
    staging[:] = value
    d.copy_to_device(staging, stream=s)
    s.synchronize()  # fixed


d, s = cuda.device_array(256, np.float32), cuda.stream()
upload(d, 3.0, s)  # expect: freed-in-use
s.synchronize()
