import numpy as np

from wsemu import cuda


@cuda.jit
def publish(data, flag):
    i = cuda.grid(1)
    data[i] = i
    cuda.threadfence_system()
    cuda.syncthreads()
    if i == 0:
        cuda.atomic.exch(flag, 0, 1)


data, flag = cuda.mapped_array(32, np.float32), cuda.mapped_array(1, np.int32)
flag[0] = 0
s = cuda.stream()
publish[1, 32, s](data, flag)
s.synchronize()  # fixed
while flag[0] == 0:  # expect: host-race
    pass
print(data.sum())  # expect: host-race
