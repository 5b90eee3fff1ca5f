import numpy as np
from kernels import add, fill

from wsemu import cuda

library, framework = cuda.external_stream(0x5EED), cuda.stream()
tensor, out = cuda.device_array(64, np.float32), cuda.device_array(64, np.float32)
fill[2, 32, library](tensor, 1.0)
ready = cuda.event()  # fixed
ready.record(library)  # fixed
ready.wait(framework)  # fixed
add[2, 32, framework](tensor, tensor, out)  # expect: stream-race
cuda.synchronize()
