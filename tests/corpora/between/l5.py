import numpy as np
from kernels import scale

from wsemu import cuda

s, h = cuda.stream(), np.ones(256, np.float32)
with cuda.mapped(h, stream=s) as m:  # expect: freed-in-use
    scale[2, 128, s](m, 3.0)
    s.synchronize()  # fixed
s.synchronize()
