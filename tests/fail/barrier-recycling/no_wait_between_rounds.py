"""Barrier recycling: two compute warps give the empty buffer round after round, and nothing keeps one of
them from giving twice.

Reported: flashinfer PR 4732 in its plain form; ThunderKittens and cutlass 2418 have wrong numbers of arrivals too.
Hardware: a generation is completed by two arrivals of one warp and the DMA warp, and the other warp's arrival opens the
next one.
"""

from wsemu import cuda, ptx

ROUNDS = 2


@cuda.jit
def no_wait_between_rounds():
    warp = cuda.threadIdx.x // 32
    for _ in range(ROUNDS):
        if warp == 0:
            ptx.bar_sync(1, 96)
        else:
            ptx.bar_arrive(1, 96)  # expect: barrier-recycling


no_wait_between_rounds[1, 96]()
