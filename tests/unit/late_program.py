"""A kernel that waits too late, and a right one, for programs whose reports are tested."""

KERNELS = """\
import numpy as np
from wsemu import cuda, ptx

@cuda.jit
def late(x, y):
    tile = cuda.shared.array(64, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        tile[lane] = x[lane]
        ptx.bar_arrive(1, 64)
    else:
        y[lane] = tile[lane] + tile[lane + 32]
        ptx.bar_sync(1, 64)

@cuda.jit
def good(x):
    x[cuda.threadIdx.x] += 1

"""
