import numpy as np
from kernels import add, fill

from wsemu import cuda

producer, consumer = cuda.stream(), cuda.stream()
shared, out, ready = cuda.device_array(64, np.float32), cuda.device_array(64, np.float32), cuda.event()
seen = set()
for k in range(2):
    fill[2, 32, producer](shared, k)
    ready.record(producer)
    if id(shared) not in seen:  # bad
        ready.wait(consumer)  # bad
    ready.wait(consumer)  # fixed
    seen.add(id(shared))
    add[2, 32, consumer](shared, shared, out)  # expect: stream-race
    consumer.synchronize()
cuda.synchronize()
