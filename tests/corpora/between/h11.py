import numpy as np

from wsemu import cuda

d, s = cuda.to_device(np.ones(256, np.float32)), cuda.stream()
buffer = cuda.pinned_array(256, np.float32)
d.copy_to_host(buffer, stream=s)
s.synchronize()  # fixed
del buffer  # expect: freed-in-use
s.synchronize()
