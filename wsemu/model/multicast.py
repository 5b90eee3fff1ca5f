"""Multicast addresses: an address that represents the same offset in one array on each of several GPUs.

On a GPU, a multicast object maps an address to memory of each of its devices.  Here each such address of a launch is in
a segment of its own.  The segment has no memory, so that only `multimem` can use the address; its number identifies the
argument.  The front end knows the arguments, and computes the address in each replica (`frontend/ptx/multimem.py`).

Reference: PTX ISA, "Multimem addresses".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.model.isa import SEGMENT_SHIFT

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_REPLICAS = 8
_FIRST = 0x4D0000
"""first segment of multicast addresses"""
MOST_FIELDS = 512
"""maximum number of multicast addresses in one argument"""


def replica_name(name: str, number: object) -> str:
    """Return the name of a replica of the argument `name`."""
    return f"{name}.replicas[{number}]"


class Replicated(NamedTuple):
    """A multicast address, which begins at byte `offset` of an argument, and has `size` replicas."""

    offset: int
    first: int
    """number of its first replica among the replicas of the argument"""
    size: int

    def address(self, argument: int, number: int) -> int:
        """Return the multicast address with this `number` in an argument."""
        return (_FIRST + argument * MOST_FIELDS + number) << SEGMENT_SHIFT


class Multicast:
    """A multicast address of several replicas: pass it where a kernel takes the address of a multicast object.

    The replicas are the arrays of the GPUs, in the order of their ranks: contiguous, of one type and one size, and in
    separate memory.  The instructions `multimem.ld_reduce`, `multimem.st` and `multimem.red` access all of them.  No
    other instruction may use the address.
    """

    __slots__ = ("replicas",)

    def __init__(self, *replicas: npt.NDArray[Any]) -> None:
        if not 1 <= len(replicas) <= MOST_REPLICAS:
            raise UsageError(f"multicast of {len(replicas)} arrays: give one for each GPU, {MOST_REPLICAS} at most")
        for n, one in enumerate(replicas):
            if not isinstance(one, np.ndarray):
                raise UsageError(f"multicast: replica {n} is a {type(one).__name__}: give NumPy arrays")
            if not one.flags.c_contiguous or one.dtype.hasobject:
                raise UsageError(f"multicast: replica {n} is not contiguous: give contiguous arrays of numbers")
        first = replicas[0]
        other = next((n for n, one in enumerate(replicas) if (one.dtype, one.size) != (first.dtype, first.size)), None)
        if other is not None:
            raise UsageError(
                f"multicast: replica {other} has {replicas[other].size} {replicas[other].dtype}, the first one "
                f"{first.size} {first.dtype}: give arrays of one size"
            )
        for n, one in enumerate(replicas):
            same = next((m for m in range(n) if np.may_share_memory(one, replicas[m])), None)
            if same is not None:
                raise UsageError(f"multicast: replicas {same} and {n} share memory: give each GPU an array of its own")
        self.replicas = replicas
