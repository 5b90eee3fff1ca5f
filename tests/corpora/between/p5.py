import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def publish(x):
    i = cuda.grid(1)
    x[i] = i
    ptx.fence_proxy_async()  # fixed
    cuda.threadfence()
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        ptx.griddepcontrol_launch_dependents()


@cuda.jit
def consume(x, y):
    tile = cuda.shared.array(64, np.float32)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(bar, 0, 256)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 64 * cuda.blockIdx.x, 256, bar, 0)  # expect: proxy
    ptx.mbarrier_wait_parity(bar, 0, 0)
    y[64 * cuda.blockIdx.x + t] = tile[t]


x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
sequence = wsemu.Sequence()
sequence.launch(publish, 2, 64, (x,), stream="s")
sequence.launch(consume, 2, 64, (x, y), stream="s", pdl=True)  # expect: proxy
sequence.copy(y, np.zeros(128, np.float32), stream="s")
sequence.synchronize("s")
