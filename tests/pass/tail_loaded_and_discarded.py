"""No false alarm: all lanes load a row of which a part is written, and a select discards the rest."""

import numpy as np

from wsemu import cuda


@cuda.jit
def tail_loaded_and_discarded(x, y):
    row = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 24:
        row[t] = x[t]
    cuda.syncwarp()
    value = row[t]
    y[t] = value if t < 24 else np.float32(0)


tail_loaded_and_discarded[1, 32](np.ones(24, np.float32), np.zeros(32, np.float32))
