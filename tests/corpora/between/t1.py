import numpy as np
from kernels import fill

from wsemu import cuda

d, h, e, s = cuda.device_array(64, np.float32), cuda.pinned_array(64, np.float32), cuda.event(), cuda.stream()
fill[2, 32, s](d, 3.0)
d.copy_to_host(h, stream=s)
e.record(s)
e.query()  # bad
while not e.query():  # fixed
    pass  # fixed
print(h.sum())  # expect: host-race
