"""Invalid barrier: a kernel constructs an object for each buffer, from a number that only the launch knows; dma_id 8
would have barriers 16 and 17, which do not exist.

On the host, the object would be rejected: `dma_id is 8: give 0 to 7`.
"""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMASequential


@cuda.jit
def ninth_object(dma_id, x, y):
    tile = cuda.shared.array(32, np.float32)
    dma = CudaDMASequential(dma_id, 32, 32, 32, 128)
    if dma.owns_this_thread():
        dma.execute_dma(x, tile)
    else:
        dma.start_async_dma()
        dma.wait_for_dma_finish()
        y[cuda.threadIdx.x] = tile[cuda.threadIdx.x]


ninth_object[1, 64](8, np.arange(32, dtype=np.float32), np.zeros(32, np.float32))
