import numpy as np

from wsemu import cuda


@cuda.jit
def hand_over(data, flag, out):
    if cuda.blockIdx.x == 0:
        data[0] = 3
        cuda.threadfence_system()
        flag[0] = 1  # bad
        cuda.atomic.exch(flag, 0, 1)  # fixed
    else:
        while flag[0] == 0:  # bad  # expect: race
            pass  # bad
        while cuda.atomic.add(flag, 0, 0) == 0:  # fixed
            pass  # fixed
        cuda.threadfence_system()
        out[0] = data[0]  # expect: race


data, out = (cuda.to_device(np.zeros(1, np.float32)) for _ in range(2))
flag = cuda.mapped_array(1, np.int32)
flag[0] = 0
hand_over[2, 1](data, flag, out)
cuda.synchronize()
