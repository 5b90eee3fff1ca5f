"""Default settings of launches, which a call can override: the command line sets them, and `check` reads them."""

from __future__ import annotations

import functools
import re
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from wsemu.model.arch import DEFAULT
from wsemu.model.codes import CHECKERS
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UsageError, check_int
from wsemu.model.heap import SIZE
from wsemu.model.input_limits import INPUT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.baseline import Baseline
    from wsemu.model.suppression import Suppression

Engine = Literal["vm", "reference"]
CtaOrder = Literal["ascending", "descending"]
Assignment = Literal["robin", "one", "reverse"]
ASSIGNMENTS: tuple[Assignment, ...] = ("robin", "one", "reverse")
Sums = Literal["hardware", "exact"]
Managed = Literal["concurrent", "exclusive"]
Pageable = Literal["promised", "usual"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds above which costly accesses get a warning: the ratio of the cost to the minimum."""

    bank_conflict: float = 1.5
    """ratio of the wavefronts of a shared access to their minimum"""
    uncoalesced: float = 2.0
    """ratio of the sectors of a global access to their minimum"""


MAX_EFFORT = 10_000
"""maximum multiple of the usual number of orders of atomics"""
_LARGEST_HEAP = INPUT_LIMITS["heap-bytes"]
FIX_BUDGET = 2.0
"""default time for trying fixes, in seconds"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults of a launch."""

    arch: str = DEFAULT
    """architecture whose limits and memory cost model apply; a key of `arch.ARCHS`"""
    arch_chosen: bool = False
    """true if the user named the architecture; any architecture other than the default counts as named"""
    mma: Sums = "hardware"
    """rounding of sums of matrix instructions: that of the architecture's tensor cores, or `exact`, rounded once"""
    clc: Assignment = "robin"
    """choice of the CTAs that take over the clusters that `clusterlaunchcontrol` cancels"""
    sms: int = 0
    """number of multiprocessors of the GPU; 0: that of the largest GPU of the architecture"""
    ranks: int = 1
    """number of GPUs of one host among which the CTAs of a launch are divided"""
    heap: int = SIZE
    """size in bytes of the heap from which kernels allocate memory"""
    fma: bool = True
    """contract a * b + c to a fused multiply-add, as the compiler does"""
    budget: int = 1_000_000_000
    """warp instructions after which a launch ends as `incomplete`"""
    effort: int = 1
    """multiple of the usual number of interleavings of atomics that are tried before a launch ends as `incomplete`"""
    engine: Engine = "vm"
    numba_ptx: bool = True
    """use Numba-CUDA's PTX, if it is installed, for a kernel that the front end cannot compile"""
    lockstep: bool = False
    """run the lanes of a warp in lockstep, as before sm_70: no `intra-warp-race` between instructions"""
    strict: bool = False
    """note code that is correct but looks like a mistake, and treat codes that are `strict` as errors"""
    corners: bool = False
    """run only some CTAs of a grid of symmetric CTAs, if the result provably holds for the others"""
    every: bool = False
    """find the other launches for which a `verified` verdict holds: all contents of arrays, all trip counts of loops"""
    checkers: frozenset[str] = field(default_factory=lambda: frozenset(CHECKERS))
    """enabled checkers; keys of `codes.CHECKERS`"""
    fail_on: frozenset[str] = frozenset()
    """codes of warnings that count as errors"""
    allow_incomplete: bool = False
    """true if an `incomplete` launch counts as verified for exit codes and for tests; its report is the same"""
    kernels: tuple[str, ...] = ()
    """name patterns of the kernels to check, with `*` and `?`, or `regex:` and an expression; empty: all kernels"""
    suppressions: tuple[Suppression, ...] = ()
    """accepted findings, in addition to those that comments in the source accept"""
    baseline: Baseline | None = None
    """findings that a baseline file accepts; None: no such file"""
    thresholds: Thresholds = Thresholds()
    cta_order: CtaOrder = "ascending"
    """order in which CTAs run one after the other; it does not change the report"""
    managed: Managed = "concurrent"
    """use of managed memory: by host and device concurrently, or never at the same time (`exclusive`)"""
    pageable: Pageable = "promised"
    """order of asynchronous copies of memory that is not pinned: as CUDA guarantees, or as drivers behave (`usual`)"""
    fix_budget: float = field(default_factory=lambda: FIX_BUDGET)
    """time in seconds for trying edits of the kernel for a report that is shown; 0: try none"""

    def __post_init__(self) -> None:
        """Raise UsageError for a value that no launch can have."""
        if check_int(self.sms, "sms") < 0:
            raise UsageError(f"sms={self.sms}: give the number of multiprocessors, or 0 for the most there are")
        if self.clc not in ASSIGNMENTS:
            raise UsageError(f'no assignment {self.clc!r}: clc="robin", "one" or "reverse"')
        if check_int(self.budget, "budget") < 1:
            raise UsageError(f"budget of {self.budget:,} warp instructions: give 1 or more")
        if not 1 <= check_int(self.effort, "effort") <= MAX_EFFORT:
            raise UsageError(f"effort={self.effort:,}: give 1 to {MAX_EFFORT:,}")
        if check_int(self.ranks, "ranks") < 1:
            raise UsageError(f"ranks={self.ranks}: give the number of GPUs that the CTAs are divided among")
        if check_int(self.heap, "heap") < 1:
            raise UsageError(f"heap of {self.heap:,} bytes: give 1 or more")
        if self.heap > _LARGEST_HEAP.most:
            raise UsageError(f"{_LARGEST_HEAP.excess(self.heap)}; {_LARGEST_HEAP.remedy}")

    def wants(self, kernel: str) -> bool:
        """Return whether a kernel of this name is checked."""
        return not self.kernels or any(matches(kernel, pattern) for pattern in self.kernels)


NO_KERNELS = ("",)
"""patterns that match no name"""
REGEX = "regex:"
"""prefix of a pattern that is a regular expression"""


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern with `*` and `?`, or contains a match of a `regex:` pattern."""
    if pattern.startswith(REGEX):
        return re.search(pattern.removeprefix(REGEX), name) is not None
    return fnmatchcase(name, pattern)


_current: ContextVar[Settings] = ContextVar("wsemu_settings")


def current() -> Settings:
    """Return the settings in force."""
    chosen = _current.get(None)
    if chosen is None:
        chosen = _default(FIX_BUDGET)
    return chosen


@functools.lru_cache(maxsize=1)
def _default(fix_budget: float) -> Settings:
    """Return the settings of a program that specifies none."""
    return Settings(fix_budget=fix_budget)


@contextmanager
def using(settings: Settings) -> Iterator[Settings]:
    """Apply `settings` inside the `with` block."""
    token = _current.set(settings)
    try:
        yield settings
    finally:
        _current.reset(token)
