"""Values of two racing accesses in a replay: lane by lane, and at an element that they share."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from wsemu.launch.replay.copies import ranges
from wsemu.model.data import dataclass, field
from wsemu.model.effects import effects_of
from wsemu.model.isa import LANES, NAMES, OFFSET_MASK, OPERATIONS, ROW, SEGMENT_SHIFT, access_shape
from wsemu.reference.arithmetic import to_unsigned
from wsemu.reference.memory.bounds import find_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.launch.replay.copies import Ranges
    from wsemu.model.program import Program
    from wsemu.reference.warp import WarpRun


_WORD = 4
"""bytes of a copy that are shown"""
_PIECE = 16
"""bytes that pieces of a copy have at most"""


class AccessValue(BaseModel):
    """One access of an element."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mark: str
    """`(1)` or `(2)`, or the lane if one store has several"""
    warp: int
    does: str
    """`load`, `store`, `atomic`"""
    value: str
    """value that was loaded or stored, or that an atomic left"""


@dataclass(slots=True)
class AccessRecord:
    """An executed access of a warp: the address of each lane, and the bytes that it loaded or stored."""

    warp: int
    does: str
    pc: int
    size: int
    """number of bytes per lane"""
    addresses: dict[int, int] = field(default_factory=dict)
    """addresses by lane; for an asynchronous operation by piece, since a lane may have several"""
    values: dict[int, bytes] = field(default_factory=dict)
    before: dict[int, bytes] = field(default_factory=dict)
    """bytes of each lane before the access"""
    source: AccessRecord | None = None
    """the read of a copy; the other fields then describe its write"""
    starts: dict[int, int] = field(default_factory=dict)
    """the highest lane at each address, computed on first use"""

    @property
    def sides(self) -> list[AccessRecord]:
        return [self] if self.source is None else [self, self.source]

    def at(self, address: int, size: int, values: dict[int, bytes]) -> bytes | None:
        """Return the bytes that it stores to an element.  If several lanes store to it, the value of the highest lane
        remains."""
        if not self.starts:
            self.starts = {start: lane for lane, start in sorted(self.addresses.items())}
        for offset in range(self.size - size + 1):
            lane = self.starts.get(address - offset)
            if lane in values:
                return values[lane][offset : offset + size]
        return None


def look(run: WarpRun, only: int = -1) -> Callable[[], AccessRecord] | None:
    """Record an access that lanes `only` of a warp are about to perform.  The returned function completes the record
    afterwards."""
    group, launch = run.warp.ready[-1], run.launch
    fields = launch.code[group.pc]
    lanes = group.lanes & only
    if fields[1]:
        holds = run.warp.predicates.get(fields[1] >> 1, 0)
        lanes &= ~holds if fields[1] & 1 else holds
    name = NAMES[fields[0]]
    if OPERATIONS[name].kind == "async":
        return _look_at_copy(run, name, lanes)
    operation, size = OPERATIONS[name], access_shape(name)[1]
    seen = AccessRecord(run.warp.number, operation.kind, group.pc, size)
    for lane in range(LANES):
        if lanes >> lane & 1:
            address = to_unsigned(run.read(fields[3], "b64", lane) + fields[6], 64)
            data = _memory(run, address, size)
            if data is not None:
                seen.addresses[lane], seen.before[lane] = address, data
    element = size // int(name.split(".")[1][1:]) if operation.kind != "atomic" and name.count(".") == 2 else size

    def after() -> AccessRecord:
        for lane, address in seen.addresses.items():
            if operation.kind == "atomic":
                seen.values[lane] = _memory(run, address, size) or b""
            else:  # an access of several elements has them in consecutive rows
                rows = (run.read(fields[2] + k * ROW, "b", lane) for k in range(size // element))
                seen.values[lane] = b"".join(value.to_bytes(element, "little") for value in rows)
        return seen

    return after


def _look_at_copy(run: WarpRun, name: str, lanes: int) -> Callable[[], AccessRecord] | None:
    """Record an asynchronous operation, or a store of zeros, which replay performs at its issue."""
    pc = run.warp.ready[-1].pc
    reads, writes = ranges(run, name, run.launch.code[pc], lanes)
    source = _pieces(run, "load", pc, reads)
    target = _pieces(run, "atomic" if effects_of(name).moves.combines else "store", pc, writes)
    seen = target if writes else source
    if writes and reads:
        seen.source = source

    def after() -> AccessRecord:
        for side in seen.sides:
            for piece, address in side.addresses.items():
                side.values[piece] = _memory(run, address, side.size) or b""
        return seen

    return after


def _pieces(run: WarpRun, does: str, pc: int, found: Ranges) -> AccessRecord:
    """Return ranges of bytes as aligned pieces of one size."""
    size = math.gcd(_PIECE, *(number for _, address, length in found for number in (address, length)))
    seen = AccessRecord(run.warp.number, does, pc, size)
    starts = [start for _, address, length in found for start in range(address, address + length, size)]
    for piece, start in enumerate(starts):
        data = _memory(run, start, size)
        if data is not None:
            seen.addresses[piece], seen.before[piece] = start, data
    return seen


def conflicting_sides(one: AccessRecord, other: AccessRecord, program: Program) -> tuple[AccessRecord, AccessRecord]:
    """Return the parts of two accesses that conflict; a copy has two parts, a read and a write."""
    for mine in one.sides:
        for yours in other.sides:
            if (mine.does, yours.does) != ("load", "load") and any(shared_elements(mine, yours, program)):
                return mine, yours
    return one, other


def _memory(run: WarpRun, address: int, size: int) -> bytes | None:
    """Return the bytes at an address, or None if no memory is there."""
    segment = find_segment(run, address >> SEGMENT_SHIFT)
    offset = address & OFFSET_MASK
    return None if segment is None or offset + size > len(segment.data) else bytes(segment.data[offset : offset + size])


def shared_elements(
    one: AccessRecord, other: AccessRecord, program: Program, apart: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield (address, bytes) of the elements that two accesses share, in the order of the second access's lanes; with
    `apart`, only elements that two different lanes share."""
    size = min(element(program, seen) for seen in (one, other))
    lanes: defaultdict[int, set[int]] = defaultdict(set)
    for lane, start in one.addresses.items():
        for k in range(0, one.size, size):
            lanes[start + k].add(lane)
    for lane, start in other.addresses.items():
        for address in range(start, start + other.size, size):
            if lanes[address] - ({lane} if apart else set()):
                yield address, size


def element(program: Program, seen: AccessRecord) -> int:
    """Return the number of bytes of an element of an access's array."""
    name = program.element_of[seen.pc]
    copies = OPERATIONS[NAMES[int(program.code[seen.pc, 0])]].kind == "async"
    return min(np.dtype(name).itemsize if name else _WORD if copies else seen.size, seen.size)


def element_values(
    order: Sequence[tuple[str, AccessRecord]], address: int, size: int, program: Program
) -> tuple[list[AccessValue], str]:
    """Return the values of two accesses, with their marks, at an element, and its value after them."""
    made, left = [], b""
    for mark, seen in order:
        value = seen.at(address, size, seen.values) or b""
        made.append(
            AccessValue(mark=mark, warp=seen.warp, does=seen.does, value=format_element(program, seen.pc, value))
        )
        left = left if seen.does == "load" and left else value
    return made, format_element(program, order[0][1].pc, left)


def exchange_accesses(first: AccessRecord, second: AccessRecord) -> tuple[AccessRecord, AccessRecord]:
    """Return two accesses of one warp as they would be in the opposite order; (1) and (2) keep their meaning.

    A load that came after a store then returns the previous value, and a load that came before it returns the stored
    value.
    """
    early, late = _copy(first), _copy(second)
    if late.does == "load":
        _reload(late, first, first.before)
    elif early.does == "load":
        _reload(early, second, second.values)
    return early, late


def _reload(load: AccessRecord, store: AccessRecord, source: dict[int, bytes]) -> None:
    """Replace the bytes of a load that a store overlaps."""
    for lane, start in load.addresses.items():
        data = bytearray(load.values[lane])
        for k in range(load.size):
            byte = store.at(start + k, 1, source)
            data[k : k + 1] = byte if byte is not None else data[k : k + 1]
        load.values[lane] = bytes(data)


def _copy(seen: AccessRecord) -> AccessRecord:
    return AccessRecord(seen.warp, seen.does, seen.pc, seen.size, seen.addresses, dict(seen.values), seen.before)


def split_lanes(seen: AccessRecord) -> list[tuple[str, AccessRecord]] | None:
    """Return two lanes of one store that write different values to one address, each as an access of its own."""
    stays: dict[int, int] = {address: lane for lane, address in seen.addresses.items()}
    for lane, address in seen.addresses.items():
        other = stays[address]
        if seen.values[lane] != seen.values[other]:
            return [(f"lane {one}", _lane(seen, one)) for one in (lane, other)]
    return None


def _lane(seen: AccessRecord, lane: int) -> AccessRecord:
    values, before = ({lane: whole[lane]} for whole in (seen.values, seen.before))
    return AccessRecord(seen.warp, seen.does, seen.pc, seen.size, {lane: seen.addresses[lane]}, values, before)


def format_element(program: Program, pc: int, value: bytes) -> str:
    """Return the bytes of an element as a number of its type."""
    name = program.element_of[pc]
    if not name or np.dtype(name).itemsize != len(value):
        return f"0x{int.from_bytes(value, 'little'):0{2 * len(value)}x}"
    return str(np.frombuffer(value, name)[0])
