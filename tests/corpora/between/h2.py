import numpy as np
from kernels import fill

from wsemu import cuda


def last_element(d, s):
    value = cuda.pinned_array(1, np.float32)
    d[-1:].copy_to_host(value, stream=s)
    s.synchronize()  # fixed
    return value[0]  # expect: host-race


d, s = cuda.device_array(256, np.float32), cuda.stream()
fill[2, 128, s](d, 3.0)
print(last_element(d, s))  # expect: freed-in-use
