"""An access to shared memory of a cta of the cluster that may have exited."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def leaves_too_early(x, y):
    s = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    ptx.cluster_sync()
    peer = ptx.mapa(s, ptx.cluster_ctarank() ^ 1)
    y[cuda.grid(1)] = peer[t]  # expect: dsmem-after-exit


leaves_too_early[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
