"""The host's side of `sections`: their tables, and the counters of accesses that were not checked again.

This module needs no compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine.state import (
    CHANGE,
    FORESEEN,
    NOTED,
    NOWHERE,
    PERIOD,
    SECTION,
    SECTIONS,
    address_of,
    aligned_bytes,
    table,
)
from wsemu.model.isa import LANES, NAMES, OPERATIONS

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.program import Program

MOST_SECTIONS, MOST_ACCESSES, MOST_STEPS = 1 << 6, 1 << 14, 1 << 12
"""maximum numbers of sections, accesses and tuples of steps in one machine"""
MOST_TRIES = 1 << 8
"""maximum number of recordings that are begun, some of which are not finished"""
PERIOD_ACCESSES, PERIOD_CHANGES = 1 << 12, 1 << 10
"""maximum numbers of accesses and of changes of clocks in a period"""
LUCK = 1 << 5
"""maximum number of recorded periods that are not repeated"""
PC_SHIFT, WARP_SHIFT = 32, 49
"""shifts in a key of FORESEEN, which has the lanes in its lower bits; the instruction of any program fits between
them"""
PCS = (1 << (WARP_SHIFT - PC_SHIFT)) - 1
BY_VM = 1 << 62
"""flag of a key: the VM performed the access, whose lanes may have a pattern that blocks do not support"""
_COUNTS = ("lanes", "shared", "ideal_shared")


def may_have(program: Program) -> bool:
    """Return whether CTAs of a program may have sections; blocks of other programs have no code for them."""
    barriers = any(OPERATIONS[NAMES[opcode]].kind == "barrier" for opcode in program.opcodes)
    return barriers and not program.asynchronous


class Sections:
    """The recorded sections of one machine."""

    def __init__(self) -> None:
        self._sections = table(MOST_SECTIONS, SECTION)
        self._heads = table(MOST_SECTIONS, FORESEEN)
        accesses = MOST_ACCESSES + 2 * PERIOD_ACCESSES
        self._foreseen = table(accesses, FORESEEN)
        self._foreseen[0]["key"] = -1
        self._noted = table(accesses, NOTED)
        self._steps = aligned_bytes(8 * LANES * MOST_STEPS)  # aligned like registers
        self._latest: npt.NDArray[np.int64] = np.zeros(2 * MOST_STEPS, np.int64)
        self._periods, self._changes = table(2, PERIOD), table(2 * PERIOD_CHANGES, CHANGE)
        self._clocks = aligned_bytes(2 * PERIOD_CHANGES * 8 * LANES)
        self._saved, self._advance = np.zeros((LANES + 1, LANES), np.int64), np.zeros(LANES, np.int64)
        for number, period in enumerate(self._periods):
            period["first"], period["room"] = MOST_ACCESSES + number * PERIOD_ACCESSES, PERIOD_ACCESSES
            period["change"] = address_of(self._changes) + number * PERIOD_CHANGES * CHANGE.itemsize
            period["clocks"] = address_of(self._clocks) + number * PERIOD_CHANGES * 8 * LANES
        self._known = table(1, SECTIONS)
        fields = {
            "table": address_of(self._sections),
            "heads": address_of(self._heads),
            "room": MOST_SECTIONS,
            "foreseen": self.nowhere,
            "noted": address_of(self._noted),
            "accesses": 1,
            "access_room": MOST_ACCESSES,
            "steps": address_of(self._steps),
            "step_room": MOST_STEPS,
            "latest": address_of(self._latest),
            "latest_mask": len(self._latest) - 1,
            "last": -1,
            "most_tries": MOST_TRIES,
            "stale_low": NOWHERE,
            "start": self.nowhere,
            "periods": address_of(self._periods),
            "change_room": PERIOD_CHANGES,
            "advance": address_of(self._advance),
            "saved": address_of(self._saved),
            "luck": LUCK,
            "every": 1,
        }
        for name, value in fields.items():
            self._known[0][name] = value

    @property
    def nowhere(self) -> int:
        """Return the host address of the FORESEEN that represents no access."""
        return address_of(self._foreseen)

    @property
    def address(self) -> int:
        """Return the address of the SECTIONS."""
        return address_of(self._known)

    def settle(self, rows: npt.NDArray[Any]) -> None:
        """Add repeated sections to the counters in the ACCESS rows."""
        for section in self._sections[: int(self._known[0]["count"])]:
            often = int(section["uncounted"])
            if not often:
                continue
            section["uncounted"] = 0
            first = (int(section["first"]) - self.nowhere) // FORESEEN.itemsize
            accesses = slice(first, first + int(section["count"]))
            pcs = self._foreseen["key"][accesses] >> PC_SHIFT & PCS
            np.add.at(rows["executions"], pcs, often)
            for name in _COUNTS:
                np.add.at(rows[name], pcs, often * self._noted[name][accesses])
