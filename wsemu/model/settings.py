"""Settings of every launch unless the call overrides them: set by the command line, read by `check`."""

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
from wsemu.model.heap import SIZE

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
    """From where on costly accesses are worth a warning: what an instruction costs, over what it needs at least."""

    bank_conflict: float = 1.5
    """wavefronts of a shared access"""
    uncoalesced: float = 2.0
    """sectors of a global access"""


MAX_EFFORT = 10_000
"""times the usual number of orders of atomics"""
FIX_BUDGET = 2.0
"""seconds, where nothing else is asked for"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults of a launch."""

    arch: str = DEFAULT
    """whose limits and memory cost model hold; a key of `arch.ARCHS`"""
    arch_chosen: bool = False
    """true if the user named the architecture; any other than the default counts as named"""
    mma: Sums = "hardware"
    """sums of matrix instructions: as the architecture's tensor cores round, or `exact`, rounded once"""
    clc: Assignment = "robin"
    """CTAs that take the work of the clusters that `clusterlaunchcontrol` cancels"""
    sms: int = 0
    """multiprocessors of the GPU; 0: as many as the largest GPU of the architecture has"""
    ranks: int = 1
    """GPUs of one host among which the CTAs of a launch are divided"""
    heap: int = SIZE
    """bytes of the heap from which kernels allocate memory"""
    fma: bool = True
    """contract a * b + c as the compiler does"""
    budget: int = 1_000_000_000
    """warp instructions after which a launch ends as `incomplete`"""
    effort: int = 1
    """multiple of the usual number of interleavings of atomics that are tried before a launch ends as `incomplete`"""
    engine: Engine = "vm"
    numba_ptx: bool = True
    """take a kernel that the front end does not read through the PTX that Numba-CUDA makes of it, where it is there"""
    lockstep: bool = False
    """the lanes of a warp run together, as before sm_70: no `intra-warp-race` between instructions"""
    strict: bool = False
    """note what is right, and looks like a mistake; codes that are `strict` count as errors"""
    corners: bool = False
    """run some CTAs of a grid whose CTAs are alike, and show that the result also holds for the other CTAs"""
    every: bool = False
    """say for which other launches a verified one speaks: all contents of arrays, all trip counts of loops"""
    checkers: frozenset[str] = field(default_factory=lambda: frozenset(CHECKERS))
    """enabled checkers; keys of `codes.CHECKERS`"""
    fail_on: frozenset[str] = frozenset()
    """codes of warnings that count as errors"""
    allow_incomplete: bool = False
    """an `incomplete` launch counts as verified for exit codes and for tests; its report is the same"""
    kernels: tuple[str, ...] = ()
    """names of the kernels that are checked, with `*` and `?`, or `regex:` and an expression; empty: all kernels"""
    suppressions: tuple[Suppression, ...] = ()
    """findings that are accepted, besides those that comments in the source accept"""
    baseline: Baseline | None = None
    """findings that were accepted on one day; None: no such file"""
    thresholds: Thresholds = Thresholds()
    cta_order: CtaOrder = "ascending"
    """CTAs run one after the other in this order; the report is the same"""
    managed: Managed = "concurrent"
    """use of managed memory: host and device at once, or never at the same time (`exclusive`)"""
    pageable: Pageable = "promised"
    """order of asynchronous copies of memory that is not pinned: what CUDA promises, or what drivers do (`usual`)"""
    fix_budget: float = field(default_factory=lambda: FIX_BUDGET)
    """seconds in which edits of the kernel are tried for a report that is shown; 0: no edit is tried"""

    def wants(self, kernel: str) -> bool:
        """Return whether a kernel of this name is checked."""
        return not self.kernels or any(matches(kernel, pattern) for pattern in self.kernels)


NO_KERNELS = ("",)
"""patterns that no name has"""
REGEX = "regex:"
"""start of a pattern that is a regular expression"""


def matches(name: str, pattern: str) -> bool:
    """Return whether a name has a pattern: one with `*` and `?`, or `regex:` and what the name contains."""
    if pattern.startswith(REGEX):
        return re.search(pattern.removeprefix(REGEX), name) is not None
    return fnmatchcase(name, pattern)


_current: ContextVar[Settings] = ContextVar("wsemu_settings")


def current() -> Settings:
    """The settings in force here."""
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
    """`settings` hold inside the `with` block."""
    token = _current.set(settings)
    try:
        yield settings
    finally:
        _current.reset(token)
