"""The fix of `three_warps`: warp 1 tells warp 2 on a third barrier that it has left the first generation."""

from wsemu import cuda, ptx


@cuda.jit
def three_warps():
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        ptx.bar_arrive(0, 64)
        ptx.bar_arrive(1, 64)
    elif warp == 1:
        ptx.bar_sync(0, 64)
        ptx.bar_arrive(2, 64)
        ptx.bar_sync(0, 64)
    else:
        ptx.bar_sync(1, 64)
        ptx.bar_sync(2, 64)
        ptx.bar_arrive(0, 64)


three_warps[1, 96]()
