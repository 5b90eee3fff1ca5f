"""Who loaded as read-only, and who wrote, the bytes that had both: the host's side of `read_only.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from wsemu import layout
from wsemu.bytecode import ATOMICS, NAMES, NON_COHERENT, OPERATIONS, SEGMENT_SHIFT, access_shape
from wsemu.layout import address_of
from wsemu.outcome import ATOMIC, READ, WRITE, RawFinding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.bytecode import Program
    from wsemu.execution import Machine

    Offsets = npt.NDArray[np.int64]
MOST = 1 << 18
"""bytes of a launch whose accesses are looked for: each makes two claims at most"""


def loads_read_only(program: Program) -> bool:
    """Whether a program has loads through the read-only cache."""
    return any(
        fields[7] & NON_COHERENT and OPERATIONS[NAMES[fields[0]]].kind == "load" for fields in program.code.tolist()
    )


class Claim(NamedTuple):
    """An access by a warp that was the first of its kind to some bytes; fields as of `layout.CLAIM`."""

    pc: int
    cta: int
    warp: int
    lanes: int
    interval: int


def findings(program: Program, claims: Sequence[Claim], claimed: Mapping[int, tuple[int, int]]) -> list[RawFinding]:
    """One for each two instructions, a load and what writes, told by the first two claims to have bytes in common.

    `claimed` has the numbers of the claims of load and store of each byte that had both, by its address; claims are in
    the order of the run.
    """
    first: dict[tuple[int, int], tuple[int, int, int]] = {}
    count: dict[tuple[int, int], int] = {}
    for address, (load, store) in claimed.items():
        key = claims[load].pc, claims[store].pc
        first[key] = min(first.get(key, (load, store, address)), (load, store, address))
        count[key] = count.get(key, 0) + 1
    return [
        _finding(program, claims[load], claims[store], address, load > store, count[key])
        for key, (load, store, address) in first.items()
    ]


def _finding(program: Program, load: Claim, store: Claim, address: int, later: bool, count: int) -> RawFinding:
    name = NAMES[int(program.code[store.pc, 0])]
    detail = {
        "address": address, "kind": READ, "other_kind": ATOMIC if name in ATOMICS else WRITE,
        "size": access_shape(NAMES[int(program.code[load.pc, 0])])[1], "interval": load.interval,
        "other_interval": store.interval, "other_cta": store.cta, "bytes": count, "later": int(later),
    }  # fmt: skip
    return RawFinding("read-only-written", load.pc, load.cta, load.warp, load.lanes, store.pc, store.warp, detail)


def written_bytes(machines: Sequence[Mapping[int, npt.NDArray[np.uint8]]]) -> dict[int, Offsets]:
    """The offsets of the bytes that were loaded as read-only and written, by segment, from the marks of machines that
    ran parts of a launch."""
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
        """One for each two instructions, told by the first bytes that they share."""
        claimed = {}
        for number, offsets in self.written.items():
            loads, stores = self.entries[number][:, offsets].astype(np.int64) - 1
            known = (loads >= 0) & (stores >= 0)
            for offset, load, store in zip(offsets[known], loads[known], stores[known], strict=True):
                claimed[(number << SEGMENT_SHIFT) + int(offset)] = (int(load), int(store))
        table = [Claim(*row) for row in self.table[: int(self.machine.state[0]["claim_count"])].tolist()]
        return findings(self.machine.program, table, claimed)
