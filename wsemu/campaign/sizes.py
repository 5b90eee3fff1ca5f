"""Choose sizes at which programs with loops, tiles and pipelines often break, from numbers in the kernel.

A kernel's bytecode shows the numbers at which its behavior may change: constants in comparisons, divisors and masks,
steps of loops, and threads of a CTA.  It also shows extents of shared arrays; the first of several extents is the depth
of a pipeline.  Each number is tried together with its neighbors on both sides, as are two and three times a tile size
or depth. 0, 1 and a few primes are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import dataclass, field
from wsemu.model.isa import NAMES, OPERATIONS
from wsemu.model.launch_shape import LaunchConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wsemu.model.program import Program

PRIMES = (2, 3, 5, 7, 13, 31, 61, 127, 251)
MOST_DEPTH = 16
"""maximum stages of a pipeline; a larger first extent of a shared array is taken as a tile size"""
MOST_SIZE = 1 << 20
"""maximum size; a larger constant is taken as a mask or an address"""
_DIVIDES = ("div", "rem", "floordiv", "floormod")


@dataclass(slots=True)
class Reading:
    """Numbers at which the behavior of a launch may change."""

    compared: set[int] = field(default_factory=set)
    """numbers with which values are compared"""
    tiles: set[int] = field(default_factory=set)
    """divisors, steps of loops, extents"""
    depths: set[int] = field(default_factory=set)
    """numbers of stages of pipelines"""

    def add(self, other: Reading) -> None:
        self.compared |= other.compared
        self.tiles |= other.tiles
        self.depths |= other.depths


def read(program: Program, configuration: LaunchConfiguration) -> Reading:
    """Return the sizes that a launch of a program reveals."""
    found = Reading(tiles={n for n in (configuration.threads, *configuration.block) if n > 1})
    for array in program.shared:
        first, *rest = array.shape or (1,)
        depth = rest and 1 < first <= MOST_DEPTH
        (found.depths if depth else found.tiles).add(first)
        found.tiles.update(rest)
    constants = {row: int(value) for row, type_, value in program.constants if type_ in ("b32", "b64")}
    for fields in program.code.tolist():
        name = NAMES[fields[0]]
        operands = len(OPERATIONS[name].operands)
        known = [constants[row] for row in fields[3 : 3 + operands] if row in constants]
        _operation(name, fields, known, found)
    for numbers in (found.compared, found.tiles, found.depths):
        numbers.intersection_update([n for n in numbers if 1 < n <= MOST_SIZE])
    return found


def _operation(name: str, fields: list[int], known: list[int], found: Reading) -> None:
    """Add the sizes that one instruction reveals, given its constant operands."""
    word, _, type_ = name.partition(".")
    if word == "setp" and not type_.split(".")[-1].startswith("f"):
        found.compared.update(known)
    elif word in _DIVIDES and not type_.startswith("f"):
        found.tiles.update(known)
    elif word == "shr":
        found.tiles.update(1 << n for n in known if 0 < n < 20)
    elif word == "and":
        found.tiles.update(n + 1 for n in known if n > 0 and n & n + 1 == 0)
    elif word == "add" and fields[2] in fields[3:5]:
        found.tiles.update(known)


def edges(reading: Reading, most: int) -> list[int]:
    """Return the sizes up to `most` at which the behavior may change, ascending."""
    multiples = {k * n for n in reading.tiles | reading.depths for k in (1, 2, 3)}
    together = {tile * other for tile in reading.tiles for other in reading.depths | reading.compared}
    near = {n + step for n in multiples | together | reading.compared for step in (-1, 0, 1)}
    return sorted(n for n in {0, 1, *PRIMES, *near} if 0 <= n <= most)


def limit_sizes(sizes: Iterable[int], reading: Reading, most: int) -> list[int]:
    """Return at most `most` of these sizes: sizes next to numbers of the kernel come first, and small ones before large
    ones."""
    wanted = sorted(set(sizes))
    near = {n + step for n in reading.compared | reading.tiles | reading.depths for step in (-1, 0, 1)}
    ranked = sorted(wanted, key=lambda n: (n > 1 and n not in near, n))
    return sorted(ranked[:most])


def smaller(value: int) -> Iterator[int]:
    """Yield smaller candidates for a size, the smallest first."""
    tried = set()
    for n in (*range(min(value, 9)), *(value >> k for k in range(value.bit_length(), 0, -1)), value - 1):
        if 0 <= n < value and n not in tried:
            tried.add(n)
            yield n
