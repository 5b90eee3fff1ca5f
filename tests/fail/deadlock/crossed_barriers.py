"""Deadlock: two warps meet at two barriers in opposite orders.

Hardware: hangs in every run.
"""

from wsemu import cuda, ptx


@cuda.jit
def crossed_barriers():
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)  # expect: deadlock
        ptx.bar_sync(2, 64)
    else:
        ptx.bar_sync(2, 64)  # expect: deadlock
        ptx.bar_sync(1, 64)


crossed_barriers[1, 64]()
