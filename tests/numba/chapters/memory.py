"""Memory: copies to and from the device, shared, local and constant arrays, two arrays in dynamic shared memory."""

import numpy as np
from numba import cuda, float32

WEIGHTS = np.array([0.25, 0.5, 0.25], dtype=np.float32)


@cuda.jit
def smooth(source, target):
    tile = cuda.shared.array(66, dtype=float32)
    near = cuda.local.array(3, dtype=float32)
    weights = cuda.const.array_like(WEIGHTS)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + 1] = source[i]
    if t == 0:
        tile[0] = source[max(i - 1, 0)]
    if t == 63:
        tile[65] = source[min(i + 1, source.size - 1)]
    cuda.syncthreads()
    for k in range(3):
        near[k] = tile[t + k] * weights[k]
    target[i] = near[0] + near[1] + near[2]


@cuda.jit
def split(values, kinds):
    numbers = cuda.shared.array(0, dtype=np.float32)
    flags = cuda.shared.array(0, dtype=np.int32)[64:]
    t = cuda.threadIdx.x
    numbers[t] = values[t]
    flags[t] = values[t] > 0
    cuda.syncthreads()
    values[t] = numbers[63 - t]
    kinds[t] = flags[63 - t]


host = np.sin(np.arange(128, dtype=np.float32))
source = cuda.to_device(host)
target = cuda.device_array_like(source)
smooth[2, 64](source, target)
edge = np.concatenate([host[:1], host, host[-1:]])
assert np.allclose(target.copy_to_host(), 0.25 * edge[:-2] + 0.5 * host + 0.25 * edge[2:])

values = cuda.to_device(host[:64])
kinds = cuda.device_array(64, dtype=np.int32)
split[1, 64, 0, 64 * 4 + 64 * 4](values, kinds)
assert (values.copy_to_host() == host[63::-1]).all()
assert (kinds.copy_to_host() == (host[63::-1] > 0)).all()

with cuda.pinned(host):
    cuda.to_device(host).copy_to_host()
mapped = cuda.mapped_array(4)
mapped[:] = 3
assert mapped.sum() == 12
assert cuda.managed_array((2, 2)).shape == (2, 2)
# expect: 2 kernels, 2 launches: 2 verified
