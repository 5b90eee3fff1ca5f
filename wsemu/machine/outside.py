"""Operations of other families, which `isa.enter` adds, and the functions with which the VM executes them.

A family has memory that is zero when a CTA starts: `numbers`, of 64 bits each, and `rows` as in `lane_clocks.py`, for
the clocks that were released to its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine import build
from wsemu.machine.state import address_of
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UnsupportedError
from wsemu.model.isa import N_OPERATIONS, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from wsemu.model.outcome import ObjectWait

    Numbers = npt.NDArray[np.int64]


class Family(NamedTuple):
    """The operations of one kind of object."""

    kind: str
    entries: Mapping[str, Callable[..., int]]
    """operation -> a function in the VM's language with the int64 arguments (machine, warp, pc, lanes, memory, again),
    see `outside` in asynchronous.py"""
    numbers: int = 0
    rows: int = 0
    wait: Callable[[Numbers, list[int], int, int, int], ObjectWait] | None = None
    """(memory, instruction, warp, pc, lanes that wait there) -> the object for which they wait"""


FAMILIES: dict[str, Family] = {}
"""table of these operations: operation -> its family"""


def enter(family: Family) -> None:
    FAMILIES.update(dict.fromkeys(family.entries, family))


def leave(kind: str) -> None:
    for name in [name for name, family in FAMILIES.items() if family.kind == kind]:
        del FAMILIES[name]


def _size(family: Family, row_bytes: int) -> int:
    return family.numbers + family.rows * row_bytes // 8


class Objects:
    """The memory of a machine for the operations of other families that its program uses."""

    def __init__(self, opcodes: Iterable[int], row_bytes: int) -> None:
        names = [NAMES[opcode] for opcode in sorted(opcodes) if opcode >= N_OPERATIONS]
        for name in names:
            if name not in FAMILIES:
                raise UnsupportedError(f"`{name}` has no compiled meaning", remedy="use the reference engine")
        sizes = {FAMILIES[name].kind: _size(FAMILIES[name], row_bytes) for name in names}
        self.block = np.zeros(sum(sizes.values()), np.int64)
        parts = np.split(self.block, np.cumsum([*sizes.values()])[:-1])
        self.memory = dict(zip(sizes, parts, strict=True))
        self.table = np.zeros((len(NAMES) - N_OPERATIONS, 2), np.int64)
        for name in names:
            family = FAMILIES[name]
            entry = build.from_outside(name, family.entries[name])
            self.table[NAMES.index(name) - N_OPERATIONS] = entry, address_of(self.memory[family.kind])

    def wait(self, row: list[int], warp: int, pc: int, lanes: int) -> ObjectWait | None:
        """Return the object for which lanes wait at an instruction."""
        family = FAMILIES[NAMES[row[0]]]
        return family.wait(self.memory[family.kind], row, warp, pc, lanes) if family.wait else None
