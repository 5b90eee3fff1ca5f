"""Sums: in shared memory, by `cuda.reduce`, and with the warp's shuffles."""

import numpy as np
from numba import cuda, int32, types

BLOCK = 128


@cuda.jit
def block_sum(data, out):
    tid = cuda.threadIdx.x
    i = cuda.grid(1)
    shr = cuda.shared.array(BLOCK, types.int32)
    shr[tid] = data[i] if i < data.size else 0
    cuda.syncthreads()
    s = 1
    while s < cuda.blockDim.x:
        if tid % (2 * s) == 0:
            shr[tid] += shr[tid + s]
        s *= 2
        cuda.syncthreads()
    if tid == 0:
        out[cuda.blockIdx.x] = shr[0]


@cuda.jit
def warp_sum(data, out):
    value = int32(data[cuda.grid(1)])
    offset = 16
    while offset > 0:
        value = int32(value + cuda.shfl_down_sync(0xFFFFFFFF, value, offset))
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


@cuda.reduce
def total(a, b):
    return a + b


data = np.arange(1000, dtype=np.int32)
parts = cuda.device_array(8, dtype=np.int32)
block_sum[8, BLOCK](data, parts)
assert parts.copy_to_host().sum() == data.sum()

result = cuda.to_device(np.zeros(1, np.int32))
warp_sum[8, 124 // 31 * 32](np.resize(data, 1024), result)
assert result[0] == np.resize(data, 1024).sum()

assert total(data) == data.sum()
assert total(data, init=5) == data.sum() + 5
assert total(cuda.to_device(data), size=10) == 45
assert total(np.array([], np.int32)) == 0
largest = cuda.Reduce(lambda a, b: max(a, b))
assert largest(data[::-1]) == 999
# expect: 4 kernels, 12 launches: 12 verified
