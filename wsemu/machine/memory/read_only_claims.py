"""The host's side of `read_only.py`: the threads that loaded bytes as read-only, and the threads that wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine import state as layout
from wsemu.machine.state import address_of
from wsemu.model.isa import SEGMENT_SHIFT
from wsemu.model.read_only import Claim, findings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from wsemu.machine.vm import Machine
    from wsemu.model.outcome import RawFinding

    Offsets = npt.NDArray[np.int64]
MOST = 1 << 18
"""maximum number of bytes in a launch whose accesses are determined: each has at most two claims"""


def written_bytes(machines: Sequence[Mapping[int, npt.NDArray[np.uint8]]]) -> dict[int, Offsets]:
    """Return, by segment, the offsets of bytes that were both loaded as read-only and written.

    `machines` are the marks of the machines that ran parts of a launch.
    """
    found = {}
    for number in machines[0] if machines else ():
        marks = machines[0][number]
        for other in machines[1:]:
            marks = marks | other[number]
        offsets = np.flatnonzero(marks == layout.LOADED | layout.STORED)
        if len(offsets):
            found[number] = offsets
    return found


class Claims:
    """Room for the claims of a machine that is about to run."""

    def __init__(self, machine: Machine, written: Mapping[int, Offsets]) -> None:
        self.machine = machine
        self.written: dict[int, Offsets] = {}
        self.entries: dict[int, npt.NDArray[np.uint32]] = {}
        self.table = np.zeros(2 * MOST, layout.CLAIM)
        left = MOST
        for number, marks in machine.marks.items():
            offsets = written.get(number, np.zeros(0, np.int64))[:left]
            left -= len(offsets)
            marks[offsets] = layout.LOADED | layout.STORED
            if len(offsets):
                self.written[number] = offsets
                self.entries[number] = np.zeros((2, int(machine.segments[number]["bytes"])), np.uint32)
                machine.segments[number]["claims"] = address_of(self.entries[number])
        state = machine.state[0]
        state["claims"], state["claim_room"] = address_of(self.table), len(self.table)

    def findings(self) -> list[RawFinding]:
        """Return one finding for each two instructions, with the first bytes that they share."""
        claimed = {}
        for number, offsets in self.written.items():
            loads, stores = self.entries[number][:, offsets].astype(np.int64) - 1
            known = (loads >= 0) & (stores >= 0)
            for offset, load, store in zip(offsets[known], loads[known], stores[known], strict=True):
                claimed[(number << SEGMENT_SHIFT) + int(offset)] = (int(load), int(store))
        rows = self.table[: int(self.machine.state[0]["claim_count"])].tolist()
        table = [Claim(pc, *self.machine.actor(group, warp), *rest) for pc, group, warp, *rest in rows]
        return findings(self.machine.program, table, claimed)
