"""A launch with its arguments in place, ready to run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple, dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program
    from wsemu.model.settings import Settings


NO_MEMORY: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
"""the bytes of a segment number that a launch does not use, although it uses higher ones"""


@dataclass(frozen=True, slots=True)
class BoundArray:
    """An array argument of a launch: its position in its segment, its layout, its name in the source."""

    name: str
    segment: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


class InElements:
    """A value for the writable flag of a segment that may be written only at the elements of its arrays."""

    __slots__ = ("covered",)

    def __init__(self, covered: npt.NDArray[np.uint8]) -> None:
        self.covered = covered
        """a 1 for each byte of an element"""

    def __index__(self) -> int:
        return 1

    def allows(self, offset: int, size: int) -> bool:
        """Return whether all of these bytes belong to elements."""
        return bool(self.covered[offset : offset + size].all())


class Allocated:
    """A value for the writable flag of a segment of device memory that may be written only in allocations."""

    __slots__ = ("covered", "hull", "written")

    def __init__(
        self,
        written: npt.NDArray[np.uint8] | None = None,
        covered: npt.NDArray[np.uint8] | None = None,
        hull: Sequence[int] = (),
    ) -> None:
        self.written = written
        """a 1 for each byte that was written before the launch; None: all bytes were"""
        self.hull = hull or (0, 0 if written is None else written.size)
        """offsets, in bytes, of the first written byte and of the end of the last one"""
        self.covered = covered
        """a 1 for each byte of an allocation; None: every byte belongs to an allocation"""

    def __index__(self) -> int:
        return 1

    def allows(self, offset: int, size: int) -> bool:
        """Return whether all of these bytes belong to allocations."""
        return self.covered is None or bool(self.covered[offset : offset + size].all())


class Account:
    """The effort that is left to decide a launch.  All methods draw from it, so that their limits do not add up."""

    __slots__ = ("left", "whole")

    def __init__(self, left: float, whole: Account | None = None) -> None:
        self.left, self.whole = left, whole

    def spend(self, effort: float) -> None:
        """Subtract the effort of some work."""
        self.left -= effort
        if self.whole is not None:
            self.whole.spend(effort)

    def part(self, effort: float) -> Account:
        """Return an account of a part of this one, from which both are spent."""
        return Account(effort, self)

    @property
    def is_spent(self) -> bool:
        return self.left <= 0 or (self.whole is not None and self.whole.is_spent)


UNLIMITED = Account(math.inf)


class Bound(NamedTuple):
    """A launch with its arguments in place, ready to run."""

    program: Program
    configuration: LaunchConfiguration
    names: tuple[str, ...]
    """names of the kernel's arguments"""
    rows: dict[int, Any]
    """values of parameter rows, by row"""
    segments: list[Any]
    """the bytes of each array, and whether they may be written"""
    arrays: list[BoundArray]
    uninitialized: frozenset[int]
    """segments whose contents count as uninitialized"""
    settings: Settings
    source: tuple[str, int, int] | None = None
    """file, first and last line of code that is not a Python function"""
    heap: Any = None
    """`wsemu.launch.heap.Heap` of a kernel that allocates memory, else None"""
    memory: DeviceMemory | None = None
    """device memory in which the kernel was launched, or None"""
    account: Account = UNLIMITED
    """the effort that is left to decide the launch"""
    is_other: bool = False
    """true if this is another program that decides a launch: it shares the account with the others of them"""

    @property
    def effort(self) -> float:
        """Return the multiple of a method's limits.  Another program of the launch may use a quarter of the effort that
        is left to these programs."""
        return max(self.account.left, 0.0) / 4 if self.is_other else float(self.settings.effort)

    @property
    def group(self) -> tuple[int, int, int]:
        """Return the number of CTAs that are co-resident along each axis: those of a cluster, or the whole grid of a
        cooperative launch."""
        return self.configuration.grid if self.program.cooperative else self.configuration.cluster
