"""The fix of `no_wait_between_rounds`: all warps sync, so that none can begin a round before all
have ended the last."""

from wsemu import cuda, ptx

ROUNDS = 2


@cuda.jit
def no_wait_between_rounds():
    for _ in range(ROUNDS):
        ptx.bar_sync(1, 96)


no_wait_between_rounds[1, 96]()
