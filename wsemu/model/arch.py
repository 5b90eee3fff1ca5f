"""The generations of the hardware, one row each: whatever differs between them.

A new architecture is a row of ARCHS.  Which operations came with which one is in the rows of these (`effects.Family`);
instructions of PTX text have a table of their own (`frontend/ptx/availability.py`).

Sources of the limits: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications; for sm_13
the edition of CUDA 6.5, the last that has it.  Sources of the costs.  For sm_90 they are measurements with hardware
counters.  The rules for sm_70 are equal, except for atomics on shared memory, which were measured only on sm_90.  For
sm_13 and sm_20 they are the sections "Global Memory" and "Shared Memory" of the guide's chapter "Compute Capabilities",
edition of CUDA 5.0.  Sources of what a multiprocessor holds: the same table; "Shared Memory" of the chapters on 8.x and
9.0 for what the system reserves of each CTA; NVIDIA's whitepapers for the largest GPU.  Costs and sums of sm_100 are
those of sm_90: none was measured.
"""

from __future__ import annotations

from typing import Final

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

KIB = 1024
WARP = 32
"""number of threads of a warp"""


class Limits(NamedTuple):
    """One line of the table.  Shared memory in bytes per CTA."""

    threads: int
    """maximum threads of a CTA"""
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    static_shared: int
    """maximum shared memory declared in a kernel, in bytes"""
    shared: int
    """static and dynamic together, where the launch opts in"""
    barriers: int
    """named barriers of a CTA"""

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.threads // WARP


class CostModel(NamedTuple):
    """The cost model of an architecture for the accesses of a warp. Triples are for 4 (or less), 8 and 16 bytes a lane.

    A shared access takes passes of some lanes each, the first lanes first.  A pass takes as many wavefronts as its most
    wanted bank has distinct words to give, and without a conflict one.
    """

    banks: int
    """number of banks, 4 bytes wide"""
    pass_lanes: tuple[int, int, int]
    requests: tuple[int, int, int] = (1, 1, 1)
    """number of repetitions of a pass: once for each word of a lane, if a lane gets one word at a time"""
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


class Multiprocessor(NamedTuple):
    """The resources of a multiprocessor."""

    threads: int
    ctas: int
    shared: int
    """shared memory of a multiprocessor in bytes"""
    registers: int
    reserved: int
    """bytes of shared memory that the system takes for itself from each CTA"""
    most: int
    """multiprocessors of the largest GPU"""
    gpu: str
    """marketing name of that GPU"""


class TensorCore(NamedTuple):
    """The arithmetic of an architecture's tensor cores."""

    bits: int
    """number of bits that a term keeps below the largest exponent"""
    halves: bool
    """f16, bf16 and tf32 instructions of four registers of `a` are two of two, one after the other"""
    byte_bits: int
    """fraction bits of sums of e4m3 and e5m2, of which 16 k are added at once, and of their f32 results; 0: both are
    converted to f16, and each register's lower and upper halves are added up one after the other, the accumulator last,
    to nearest"""


class Arch(NamedTuple):
    """A generation.  No field has a default: whoever adds one decides each of them."""

    name: str
    limits: Limits
    costs: CostModel
    multiprocessor: Multiprocessor
    tensor_core: TensorCore
    """tensor cores; before sm_80 no launch depends on them, since no instruction would differ"""
    independent: bool
    """lanes of a warp may run apart (independent thread scheduling)"""
    cluster: int
    """CTAs of the largest cluster, where a kernel asks for more than the 8 that every GPU has; 1: it has no clusters"""

    @property
    def number(self) -> int:
        """90 of sm_90."""
        return number_of(self.name)


def number_of(name: str) -> int:
    """Return the number of an architecture or target: 90 of `sm_90a`."""
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
    """A row of what all since sm_70 have in common; `shared`: bytes of a CTA, static and dynamic."""
    limit = Limits(1024, _BLOCK, _GRID, 48 * KIB, shared, 16)
    return Arch(name, limit, costs, multiprocessor, sums, independent=True, cluster=cluster)


# fmt: off
_ROWS = (
    # of a CTA: threads, block, grid, static, static and dynamic shared memory, barriers
    # of a multiprocessor: threads, CTAs, shared memory, registers, reserved; multiprocessors of the largest GPU
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
)
# fmt: on
ARCHS: Final[dict[str, Arch]] = {row.name: row for row in _ROWS}
DEFAULT = "sm_90"
"""architecture of a launch that names none"""
LATEST = _ROWS[-1].name
"""it has all instructions that are modelled"""


def arch_of(name: str) -> Arch:
    """Return the row of an architecture; UsageError for one that the table lacks."""
    found = ARCHS.get(str(name))  # whatever a caller gives
    if found is None:
        generation = str(name).rstrip("af")  # of a target such as sm_90a
        known = [generation] if generation in ARCHS else [*ARCHS]
        raise UsageError(f"unknown arch {name!r}: use {'one of ' * (len(known) > 1)}{', '.join(known)}")
    return found


def limits(arch: str) -> Limits:
    """Return the limits of `arch`; UsageError for one that the table lacks."""
    return arch_of(arch).limits
