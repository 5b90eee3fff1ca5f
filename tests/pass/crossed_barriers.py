"""The fix of `crossed_barriers`: the same order in both warps."""

from wsemu import cuda, ptx


@cuda.jit
def crossed_barriers():
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)
        ptx.bar_sync(2, 64)
    else:
        ptx.bar_sync(1, 64)
        ptx.bar_sync(2, 64)


crossed_barriers[1, 64]()
