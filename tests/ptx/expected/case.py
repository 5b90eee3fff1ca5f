"""A launch of a kernel of this folder, and what it must leave in its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Extent = int | tuple[int, ...]


class Out:
    """An array argument that the kernel writes."""

    def __init__(
        self, expected: Any, start: Any = None, ulp: int = 0, relative: float = 0.0, absolute: Any = 0.0
    ) -> None:
        """`start` is what is there before: an array, or by default bytes that no kernel leaves there by chance.  Floats
        may differ by `ulp` units in the last place, the factor `relative` and the amount `absolute`, a number or an
        array, together; everything else is equal in its bits.
        """
        self.expected: NDArray[Any] = np.ascontiguousarray(expected)
        if start is None:
            size = self.expected.nbytes
            start = np.full(size, 0xA5, np.uint8).view(self.expected.dtype).reshape(self.expected.shape)
        self.start: NDArray[Any] = np.array(np.broadcast_to(start, self.expected.shape), dtype=self.expected.dtype)
        self.ulp = ulp
        self.relative = relative
        self.absolute = absolute

    def difference(self, got: NDArray[Any]) -> str:
        """The first place where `got` is not as expected; empty if there is none."""
        want = self.expected
        if self.ulp or self.relative:
            space = self.ulp * np.spacing(np.abs(want)) + self.relative * np.abs(want) + self.absolute
            wrong = ~(np.abs(got - want) <= space) & ~(np.isnan(got) & np.isnan(want)) & (got != want)
        else:
            bits = f"V{want.itemsize}"
            wrong = np.array(got.view(bits) != want.view(bits))
            if want.dtype.kind == "f":
                wrong &= ~(np.isnan(got) & np.isnan(want))
        if not wrong.any():
            return ""
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        return f"{int(wrong.sum())} of {want.size} differ, the first at {at}: {got[at]!r}, expected {want[at]!r}"


@dataclass(frozen=True)
class Case:
    """A launch."""

    source: str
    """of the .cu file, without its extension"""
    kernel: str
    """as written in C++, without parameters"""
    arguments: Callable[[], list[Any]]
    """makes the arguments; those the kernel writes are Out, the other arrays must stay as they are"""
    grid: Extent
    block: Extent
    shared: int = 0
    """bytes of dynamic shared memory"""
    verdict: str = "verified"
    warnings: tuple[str, ...] = ()
    """codes of the warnings that there must be"""
    says: str = ""
    """what a note of the report, or of an error, must name; if it is given, the contents of the arrays do not
    matter"""

    @property
    def name(self) -> str:
        return f"{self.source}-{self.kernel}" + f"-{self.says}" * bool(self.says)


CASES: list[Case] = []


def case(source: str, kernel: str, grid: Extent, block: Extent, **more: Any) -> Callable[..., Callable[[], list[Any]]]:
    """Adds a launch, whose arguments the function below makes."""

    def add(arguments: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
        CASES.append(Case(source, kernel, arguments, grid, block, **more))
        return arguments

    return add
