"""The device: which there is, what it can do, contexts, what is cleaned up later."""

import numpy as np
from numba import cuda

assert cuda.is_available()
assert len(cuda.gpus) == 1
cuda.select_device(0)
device = cuda.get_current_device()
assert device.id == 0
assert device.compute_capability >= (7, 0)
assert device.WARP_SIZE == 32
assert cuda.current_context().device.uuid.startswith("GPU-")
free, total = cuda.current_context().get_memory_info()
assert 0 < free <= total
with cuda.gpus[0], cuda.defer_cleanup():
    x = cuda.to_device(np.zeros(32))


@cuda.jit
def set_index(x):
    x[cuda.threadIdx.x] = cuda.laneid


set_index[1, device.WARP_SIZE](x)
cuda.synchronize()
assert (x.copy_to_host() == np.arange(32)).all()
assert cuda.detect()
cuda.close()
# expect: 1 kernel, 1 launch: 1 verified
