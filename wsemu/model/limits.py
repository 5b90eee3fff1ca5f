"""What a launch may ask for and what its memory accesses cost, by architecture.

Sources of the limits: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications; for sm_13
the edition of CUDA 6.5, the last that has it.  Sources of the costs: for sm_90 measurements with hardware counters, to
which the rules for sm_70 are equal, but for atomics on shared memory, which were measured on sm_90 alone; for sm_13 and
sm_20 the sections "Global Memory" and "Shared Memory" of the guide's chapter "Compute Capabilities", edition of CUDA
5.0.
"""

from __future__ import annotations

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

KIB = 1024
WARP = 32
"""threads of a warp"""


class Limits(NamedTuple):
    """One line of the table.  Shared memory in bytes per CTA."""

    threads: int
    """threads of a CTA"""
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    static_shared: int
    """declared in the kernel"""
    shared: int
    """static and dynamic together, where the launch opts in"""
    barriers: int
    """named barriers of a CTA"""

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.threads // WARP


_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
LIMITS: dict[str, Limits] = {
    #               threads  block           grid                   static    static + dynamic  barriers
    "sm_13": Limits(512, (512, 512, 64), (65535, 65535, 1), 16 * KIB, 16 * KIB, 16),
    "sm_20": Limits(1024, _BLOCK, (65535, 65535, 65535), 48 * KIB, 48 * KIB, 16),
    "sm_70": Limits(1024, _BLOCK, _GRID, 48 * KIB, 96 * KIB, 16),
    "sm_75": Limits(1024, _BLOCK, _GRID, 48 * KIB, 64 * KIB, 16),
    "sm_80": Limits(1024, _BLOCK, _GRID, 48 * KIB, 163 * KIB, 16),
    "sm_86": Limits(1024, _BLOCK, _GRID, 48 * KIB, 99 * KIB, 16),
    "sm_89": Limits(1024, _BLOCK, _GRID, 48 * KIB, 99 * KIB, 16),
    "sm_90": Limits(1024, _BLOCK, _GRID, 48 * KIB, 227 * KIB, 16),
}
LATEST = "sm_90"
"""it has all instructions that are modelled"""


def limits(arch: str) -> Limits:
    """The limits of `arch`; UsageError for one that the table lacks."""
    found = LIMITS.get(str(arch))  # whatever a caller gives
    if found is None:
        raise UsageError(f"unknown arch {arch!r}: use one of {', '.join(LIMITS)}")
    return found


class CostModel(NamedTuple):
    """How an architecture serves the accesses of a warp.  Triples are for 4 (or less), 8 and 16 bytes a lane.

    A shared access takes passes of some lanes each, the first lanes first.  A pass takes as many wavefronts as its most
    wanted bank has distinct words to give, and without a conflict one.
    """

    banks: int
    """of 4 bytes"""
    pass_lanes: tuple[int, int, int]
    requests: tuple[int, int, int] = (1, 1, 1)
    """a pass is made so many times: once for each word of a lane, where a lane gets one word a time"""
    extra: tuple[int, int, int] = (0, 0, 0)
    """wavefronts that a pass takes on top"""
    merges: bool = False
    """loads of 8 and 16 bytes take passes of twice the lanes where every lane l has the address of lane l ^ 1, or
    every lane that of l ^ 2; inactive lanes have any address"""
    one_broadcast: bool = False
    """a wavefront gives one word to any number of lanes, and of each other bank one word to one lane"""
    line: int = 32
    """bytes of what is moved at least from global memory and to it"""
    atomics: bool = False
    """the costs of atomics on shared memory are known: one lane of a bank at a time (`isa.SERVED`)"""
    halves: bool = False
    """each half of a warp moves segments of 128 bytes (64 for 2 bytes a lane, 32 for 1 byte), or the half or quarter of
    one that has all the lanes' bytes in it"""


_PASSES = (32, 16, 8)
_VOLTA = CostModel(32, _PASSES, merges=True)
COSTS: dict[str, CostModel] = {
    "sm_13": CostModel(16, (16, 16, 16), requests=(1, 2, 4), one_broadcast=True, halves=True),
    "sm_20": CostModel(32, _PASSES, extra=(0, 0, 1), line=128),
    **dict.fromkeys(("sm_70", "sm_75", "sm_80", "sm_86", "sm_89"), _VOLTA),
    "sm_90": _VOLTA._replace(atomics=True),
}
