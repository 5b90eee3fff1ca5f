import threading

import numpy as np
from kernels import fill, scale

from wsemu import cuda

d = cuda.device_array(64, np.float32)


def produce():
    s = cuda.per_thread_default_stream()
    fill[2, 32, s](d, 1.0)
    s.synchronize()  # fixed


thread = threading.Thread(target=produce, name="worker")
thread.start()
thread.join()
scale[2, 32, cuda.per_thread_default_stream()](d, 2.0)  # expect: stream-race
cuda.synchronize()
