"""The generations of the hardware: one row for each, with everything in which they differ.

A new architecture is a row of ARCHS.  The generation that introduced an operation is in the operation's row
(`effects.Family`); instructions of PTX text have a table of their own (`frontend/ptx/availability.py`).

Sources of the limits: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications; for sm_13
the edition of CUDA 6.5, the last that contains it.  Sources of the costs.  For sm_90 they are measurements with
hardware counters.  The rules for sm_70 are equal, except for atomics on shared memory, which were measured only on
sm_90.  For sm_13 and sm_20 they are the sections "Global Memory" and "Shared Memory" of the guide's chapter "Compute
Capabilities", edition of CUDA 5.0.  Sources of the limits of a multiprocessor: the same table; "Shared Memory" in the
chapters on 8.x and 9.0 for the bytes that the system reserves for each CTA; NVIDIA's whitepapers for the largest GPU.
Costs and sums of sm_100 and sm_120 were not measured: their rows have those of sm_90.
"""

from __future__ import annotations

from typing import Final

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

KIB = 1024
WARP = 32
"""number of threads of a warp"""


class Limits(NamedTuple):
    """The limits of a launch: one line of the guide's table.  Shared memory is in bytes per CTA."""

    threads: int
    """maximum threads of a CTA"""
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    static_shared: int
    """maximum shared memory declared in a kernel, in bytes"""
    shared: int
    """maximum static and dynamic shared memory together, in bytes, for a launch that opts in"""
    barriers: int
    """named barriers of a CTA"""

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.threads // WARP


class CostModel(NamedTuple):
    """The cost model of an architecture for the accesses of a warp.  Triples have one entry each for accesses of up to
    4, of 8 and of 16 bytes per lane.

    A shared access is performed in passes, each for a group of consecutive lanes.  The number of wavefronts of a pass
    is the number of distinct requested words in its busiest bank: one without a conflict.
    """

    banks: int
    """number of banks, 4 bytes wide"""
    pass_lanes: tuple[int, int, int]
    requests: tuple[int, int, int] = (1, 1, 1)
    """number of repetitions of a pass: once for each word of a lane, if a lane gets one word at a time"""
    extra: tuple[int, int, int] = (0, 0, 0)
    """additional wavefronts of a pass"""
    merges: bool = False
    """true if a pass of a load of 8 or 16 bytes serves twice the lanes when pairs of lanes have equal addresses: every
    lane l and lane l ^ 1, or every lane l and lane l ^ 2.  Inactive lanes do not count"""
    one_broadcast: bool = False
    """true if a wavefront can broadcast only one word to any number of lanes; of each other bank it gives one word to
    only one lane"""
    line: int = 32
    """minimum number of bytes that a transfer from or to global memory moves"""
    atomics: bool = False
    """true if the costs of atomics on shared memory are known: one lane of a bank at a time (`isa.SERVED`)"""
    halves: bool = False
    """true if each half of a warp moves segments of 128 bytes (64 for 2 bytes per lane, 32 for 1 byte), or the half or
    quarter of a segment that contains all bytes of its lanes"""


class Multiprocessor(NamedTuple):
    """The resources of a multiprocessor."""

    threads: int
    ctas: int
    shared: int
    """shared memory of a multiprocessor in bytes"""
    registers: int
    reserved: int
    """bytes of shared memory that the system reserves in each CTA"""
    most: int
    """number of multiprocessors of the largest GPU"""
    gpu: str
    """marketing name of the GPU"""


class TensorCore(NamedTuple):
    """The arithmetic of an architecture's tensor cores."""

    bits: int
    """number of bits that a term keeps below the largest exponent"""
    halves: bool
    """true if f16, bf16 and tf32 instructions with four registers of `a` are executed as two instructions with two
    registers each"""
    byte_bits: int
    """number of fraction bits of sums of e4m3 and e5m2, which add 16 products at once, and of their f32 results. 0
    means that both types are converted to f16.  Then the lower and the upper half of each register are added in turn,
    and the accumulator last, rounded to nearest"""


class Arch(NamedTuple):
    """A generation of the hardware.  No field has a default, so that each new row decides each of them."""

    name: str
    limits: Limits
    costs: CostModel
    multiprocessor: Multiprocessor
    tensor_core: TensorCore
    """tensor cores; for generations before sm_80, which have no instruction that depends on them, the value does not
    matter"""
    independent: bool
    """true if lanes of a warp may execute independently (independent thread scheduling)"""
    cluster: int
    """CTAs of the largest cluster that a kernel can request beyond the 8 that every GPU has; 1: no clusters"""

    @property
    def number(self) -> int:
        """Return the number of the architecture: 90 for sm_90."""
        return number_of(self.name)


def number_of(name: str) -> int:
    """Return the number of an architecture or target: 90 for `sm_90a`."""
    return int(name.removeprefix("sm_").rstrip("af"))


_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
_PASSES = (32, 16, 8)
_TESLA = CostModel(16, (16, 16, 16), requests=(1, 2, 4), one_broadcast=True, halves=True)
_FERMI = CostModel(32, _PASSES, extra=(0, 0, 1), line=128)
_VOLTA = CostModel(32, _PASSES, merges=True)
_HOPPER = _VOLTA._replace(atomics=True)
_SUMS_24 = TensorCore(24, halves=True, byte_bits=13)
_SUMS_25 = TensorCore(25, halves=False, byte_bits=0)


def _since_volta(
    name: str, shared: int, costs: CostModel, multiprocessor: Multiprocessor, sums: TensorCore, cluster: int = 1
) -> Arch:
    """Return a row with the values that all generations since sm_70 have in common.  `shared` is the static and dynamic
    shared memory of a CTA in bytes."""
    limit = Limits(1024, _BLOCK, _GRID, 48 * KIB, shared, 16)
    return Arch(name, limit, costs, multiprocessor, sums, independent=True, cluster=cluster)


# fmt: off
_ROWS = (
    # columns: limits of a CTA (threads, block, grid, static, static and dynamic shared memory, barriers); of a
    # multiprocessor (threads, CTAs, shared memory, registers, reserved bytes); multiprocessors of the largest GPU
    Arch("sm_13", Limits(512, (512, 512, 64), (65535, 65535, 1), 16 * KIB, 16 * KIB, 16), _TESLA,
         Multiprocessor(1024, 8, 16 * KIB, 16 * KIB, 0, 30, "GTX 285"), _SUMS_24, independent=False, cluster=1),
    Arch("sm_20", Limits(1024, _BLOCK, (65535, 65535, 65535), 48 * KIB, 48 * KIB, 16), _FERMI,
         Multiprocessor(1536, 8, 48 * KIB, 32 * KIB, 0, 16, "GTX 580"), _SUMS_24, independent=False, cluster=1),
    _since_volta("sm_70", 96 * KIB, _VOLTA, Multiprocessor(2048, 32, 96 * KIB, 64 * KIB, 0, 80, "V100"), _SUMS_24),
    _since_volta("sm_75", 64 * KIB, _VOLTA, Multiprocessor(1024, 16, 64 * KIB, 64 * KIB, 0, 72, "RTX 8000"), _SUMS_24),
    _since_volta("sm_80", 163 * KIB, _VOLTA, Multiprocessor(2048, 32, 164 * KIB, 64 * KIB, KIB, 108, "A100"), _SUMS_24),
    _since_volta("sm_86", 99 * KIB, _VOLTA, Multiprocessor(1536, 16, 100 * KIB, 64 * KIB, KIB, 84, "A40"), _SUMS_24),
    _since_volta("sm_89", 99 * KIB, _VOLTA, Multiprocessor(1536, 24, 100 * KIB, 64 * KIB, KIB, 142, "L40"), _SUMS_24),
    _since_volta("sm_90", 227 * KIB, _HOPPER, Multiprocessor(2048, 32, 228 * KIB, 64 * KIB, KIB, 132, "H100"), _SUMS_25,
                 cluster=16),
    _since_volta("sm_100", 227 * KIB, _HOPPER, Multiprocessor(2048, 32, 228 * KIB, 64 * KIB, KIB, 148, "B200"),
                 _SUMS_25, cluster=16),
    _since_volta("sm_120", 99 * KIB, _HOPPER, Multiprocessor(1536, 24, 100 * KIB, 64 * KIB, KIB, 188, "RTX PRO 6000"),
                 _SUMS_25, cluster=8),
)
# fmt: on
ARCHS: Final[dict[str, Arch]] = {row.name: row for row in _ROWS}
DEFAULT = "sm_90"
"""architecture of a launch that does not specify one"""
LATEST = "sm_100"
"""architecture with all instructions that are modeled, except those that only one architecture has"""


def arch_of(name: str) -> Arch:
    """Return the row of an architecture.  Raise UsageError if the table lacks it."""
    found = ARCHS.get(str(name))  # callers may pass anything
    if found is None:
        generation = str(name).rstrip("af")  # a target such as sm_90a
        known = [generation] if generation in ARCHS else [*ARCHS]
        raise UsageError(f"unknown arch {name!r}: use {'one of ' * (len(known) > 1)}{', '.join(known)}")
    return found


def limits(arch: str) -> Limits:
    """Return the limits of `arch`.  Raise UsageError if the table lacks it."""
    return arch_of(arch).limits
