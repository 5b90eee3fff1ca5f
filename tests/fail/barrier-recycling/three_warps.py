"""Barrier recycling: the last arrive of warp 2 belongs to the second generation of barrier 0, but can be counted in the
first one.

Warp 2 knows that warp 0 arrived on barrier 0, not that warp 1 did.  Some path leads from the first generation to the
second one, so that a check that asks for one path passes this; it can deadlock.
Hardware: when warp 1 is late, the arrivals of warps 0 and 2 complete the generation by themselves, and warp 1 waits for
ever.
"""

from wsemu import cuda, ptx


@cuda.jit
def three_warps():
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        ptx.bar_arrive(0, 64)
        ptx.bar_arrive(1, 64)
    elif warp == 1:
        ptx.bar_sync(0, 64)
        ptx.bar_sync(0, 64)
    else:
        ptx.bar_sync(1, 64)
        ptx.bar_arrive(0, 64)  # expect: barrier-recycling


three_warps[1, 96]()
