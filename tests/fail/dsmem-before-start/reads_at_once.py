"""An access to shared memory of a cta of the cluster that may not have started."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def reads_at_once(x, y):
    s = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    peer = ptx.mapa(s, ptx.cluster_ctarank() ^ 1)
    peer[t] = 0  # expect: dsmem-before-start
    ptx.cluster_sync()
    y[cuda.grid(1)] = s[t]


reads_at_once[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
