import numpy as np

from wsemu import cuda

d, s = cuda.device_array(256, np.float32), cuda.stream()
h = np.zeros(256, np.float32)


def prepare(stream, status, argument):
    h[:] = 3


s.add_callback(prepare)
s.synchronize()  # fixed
d.copy_to_device(h, stream=s)  # expect: host-race
s.synchronize()
