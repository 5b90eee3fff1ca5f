import numpy as np

from wsemu import cuda

d, h, s = cuda.device_array(256, np.float32), cuda.pinned_array(64, np.float32), cuda.stream()
for k, part in enumerate(d.split(64)):
    h[:] = k  # expect: host-race
    part.copy_to_device(h, stream=s)
    s.synchronize()  # fixed
s.synchronize()
