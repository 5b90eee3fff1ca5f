"""Memory of the reference interpreter: validity of accesses, and their effect, byte by byte."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from wsemu.model.bound import Allocated, InElements
from wsemu.model.isa import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    ANYWHERE,
    AS_LOAD,
    AS_STORE,
    ATOMIC,
    ATOMICS,
    FIRST_ARRAY,
    FORBIDS_SHIFT,
    IN_ARRAY,
    IN_CONSTANT,
    IN_LOCAL,
    IN_SHARED,
    INDEX_BIAS,
    LANES,
    LOCAL,
    LOCAL_SHIFT,
    NO_STORE,
    NON_COHERENT,
    ON_STACK,
    OPERATIONS,
    OWN_SHARED,
    READ,
    ROW,
    SEGMENT_SHIFT,
    SERVED,
    SHARED,
    SIZE,
    STACK_UNIT,
    USES_OLD,
    WRITE,
)
from wsemu.reference.memory.atomics import atomics
from wsemu.reference.memory.costs import charge
from wsemu.reference.state import Segment, list_lanes
from wsemu.reference.sync import peers

if TYPE_CHECKING:
    from wsemu.reference.warp import WarpRun

_ALL_BITS = (1 << 64) - 1
Place = tuple[Segment, int, int]
"""segment, its number, offset in it"""


def find_segment(run: WarpRun, number: int) -> Segment | None:
    """Return the segment with a number, or None."""
    if number == SHARED:
        return run.cta.shared
    if number == LOCAL:
        return run.warp.local
    arrays = run.launch.arrays
    return arrays[number - FIRST_ARRAY] if FIRST_ARRAY <= number < FIRST_ARRAY + len(arrays) else None


def _is_in_window(run: WarpRun, offset: int, size: int) -> bool:
    """Return whether bytes are in the shared memory of a single CTA: the accessing CTA, or another CTA of its
    cluster."""
    launch = run.launch
    member, inside = divmod(offset, 1 << launch.window)
    own = launch.grouping.of(run.cta.number)[1]
    return (member == own or launch.clusters) and inside + size <= launch.shared_bytes


def locate(
    run: WarpRun,
    address: int,
    lane: int,
    size: int,
    writes: bool,
    alignment: int = 0,
    shared: bool | None = None,
    own: bool | None = None,
    forbidden: int = 0,
) -> Place | None:
    """Return the location of one lane's access, or None after reporting why it is invalid.

    `alignment` is the access size by default.  With `shared` True, the access must be in shared memory; with False, in
    an array.  With `own` True, it must be in the shared memory of its own CTA; with False, in that of another CTA (PTX
    ISA, "cp.async.bulk": `.shared::cta`, and from there to `.shared::cluster`).  `forbidden` are kinds of memory other
    than the state space that the access names.
    """
    alignment = alignment or size
    if ADDRESS_OUT <= address < 1 << 63:
        index = (address >> SEGMENT_SHIFT & (2 * INDEX_BIAS - 1)) - INDEX_BIAS
        _report_outside(run, lane, size, index=index)
        return None
    if address >> 63:
        _report_outside(run, lane, size, address=address - (1 << 64))
        return None
    wrapped = bool(address & ADDRESS_WRAPPED)
    address &= ~ADDRESS_WRAPPED
    number, offset = address >> SEGMENT_SHIFT, address & ((1 << SEGMENT_SHIFT) - 1)
    segment = find_segment(run, number)
    if segment is None:
        _report_outside(run, lane, size, address=address, segment=number)
        return None
    if forbidden & _kind(number, segment):
        _report_outside(run, lane, size, address=address, segment=number, bytes=len(segment.data), elsewhere=1)
        return None
    if number == LOCAL:
        return _locate_in_local(run, address, lane, size, writes, alignment, wrapped, anywhere=shared is None)
    elsewhere = number == SHARED and not _is_in_window(run, offset, size)
    elsewhere |= own is not None and own != (
        peers.member_rank(run, offset) == run.launch.grouping.of(run.cta.number)[1]
    )
    elsewhere |= shared is not None and shared != (number == SHARED)
    elsewhere |= offset + size > len(segment.data)
    if elsewhere or (isinstance(segment.writable, Allocated) and not segment.writable.allows(offset, size)):
        _report_outside(run, lane, size, address=address, segment=number, bytes=_extent(run, number, segment))
        return None
    if offset % alignment:
        _report_misaligned(run, lane, address, alignment, size)
        return None
    if writes and isinstance(segment.writable, InElements) and not segment.writable.allows(offset, size):
        _report_outside(run, lane, size, address=address, segment=number, bytes=len(segment.data), gap=1)
    if wrapped or (writes and not segment.writable):
        known = {"address": address, "segment": number, "bytes": _extent(run, number, segment)}
        if writes and not segment.writable:
            _report_outside(run, lane, size, readonly=1, **known)
            return None
        _report_outside(run, lane, size, wrapped=1, **known)
    return segment, number, offset


def _kind(number: int, segment: Segment) -> int:
    """Return the kind of memory of a segment."""
    if number in (SHARED, LOCAL):
        return IN_SHARED if number == SHARED else IN_LOCAL
    return IN_ARRAY if segment.writable else IN_CONSTANT


def _locate_in_local(
    run: WarpRun, address: int, lane: int, size: int, writes: bool, alignment: int, wrapped: bool, anywhere: bool
) -> Place | None:
    """Locate an address in local memory: each thread has its own local memory, and an address in it names its variable
    (PTX ISA, "Local State Space": private memory for each thread).  With `anywhere`, local memory is allowed."""
    variable, offset = divmod(address & ((1 << SEGMENT_SHIFT) - 1), 1 << LOCAL_SHIFT)
    thread = run.launch.program.local_bytes
    start, length, writable = _variable(run, variable, lane * thread)
    inside = offset - lane * thread - start
    found = {"address": address, "segment": LOCAL, "bytes": length}
    if not anywhere or inside < 0 or inside + size > length:
        _report_outside(run, lane, size, **found)
        return None
    if offset % alignment:
        _report_misaligned(run, lane, address, alignment, size)
        return None
    if writes and not writable:
        _report_outside(run, lane, size, readonly=1, **found)
        return None
    if wrapped:
        _report_outside(run, lane, size, wrapped=1, **found)
    return run.warp.local, LOCAL, offset


def _variable(run: WarpRun, number: int, thread: int) -> tuple[int, int, bool]:
    """Return (start, length, writable) of the variable with a number, in the memory of a thread that begins at
    `thread`.  The length is 0 if the variable no longer exists."""
    program = run.launch.program
    if not number & ON_STACK:
        if number == 0:
            return 0, program.local_bytes, True
        if number > len(program.locals):
            return 0, 0, True
        array = program.locals[number - 1]
        return array.offset, math.prod(array.shape) * array.dtype.itemsize, array.writable
    unit = number - ON_STACK
    if not STACK_UNIT <= unit * STACK_UNIT <= program.local_bytes:
        return unit * STACK_UNIT, 0, True
    at = thread + (unit - 1) * STACK_UNIT
    length, named, start = struct.unpack("<IHH", run.warp.local.data[at : at + 8])
    alive = named == unit and start * STACK_UNIT + length <= program.local_bytes
    return (start * STACK_UNIT, length, True) if alive else (unit * STACK_UNIT, 0, True)


def _report_misaligned(run: WarpRun, lane: int, address: int, alignment: int, size: int) -> None:
    run.cta.finding(
        "misaligned", run.group.pc, run.warp.number, 1 << lane,
        address=address, alignment=alignment, size=size, segment=address >> SEGMENT_SHIFT,
    )  # fmt: skip


def _extent(run: WarpRun, number: int, segment: Segment) -> int:
    return run.launch.shared_bytes if number == SHARED else len(segment.data)


def _report_outside(run: WarpRun, lane: int, size: int, **detail: int) -> None:
    full = {"size": size, "segment": 0, "bytes": 0, "wrapped": 0, "readonly": 0, **detail}
    run.cta.finding("out-of-bounds", run.group.pc, run.warp.number, 1 << lane, **full)


def check_written(run: WarpRun, places: dict[int, Place], size: int, unused: int = 0) -> None:
    """Report the lanes that read an uninitialized byte; a byte whose bit in `unused` is set does not count."""
    all_matter = not unused & (1 << size) - 1
    matter = [] if all_matter else [q for q in range(size) if not unused >> q & 1]
    bad = {}
    for lane, (segment, number, offset) in places.items():
        if segment.undefined and OPERATIONS[run.launch.operation_name(run.group.pc)].kind == "async":
            assert run.launch.undefined is not None
            run.launch.undefined.consume(run, lane, segment, offset, size)
        if segment.written is not None:
            written = segment.written[offset : offset + size]
            if 0 in (written if all_matter else [written[q] for q in matter]):
                bad[lane] = (number << SEGMENT_SHIFT) + offset
    if bad:
        first = min(bad)
        run.cta.finding(
            "uninitialized-read", run.group.pc, run.warp.number, sum(1 << lane for lane in bad),
            address=bad[first], size=size, segment=bad[first] >> SEGMENT_SHIFT,
        )  # fmt: skip


def _places(run: WarpRun, fields: list[int], lanes: int, size: int, kind: int) -> dict[int, Place]:
    """Return lane -> location, for the lanes whose access is valid."""
    places = {}
    bases = run.values(fields[3], "b64")
    addresses = {lane: bases[lane] + fields[6] & _ALL_BITS for lane in list_lanes(lanes)}
    own = True if fields[7] & OWN_SHARED else None
    forbidden = fields[7] >> FORBIDS_SHIFT & ANYWHERE
    run.launch.watch.executes(run, kind, addresses)
    for lane, address in addresses.items():
        place = locate(run, address, lane, size, kind != READ, own=own, forbidden=forbidden)
        if place is not None:
            places[lane] = place
    peers.touch(run, places)
    run.launch.watch.touch(run, kind, places, size)
    if objects := run.cta.live_objects:
        objects.report_clobbered(run, kind, {lane: (place, size) for lane, place in places.items()}, size, 0)
    return places


def load(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    element, count = _shape(name)
    places = _places(run, fields, lanes, element * count, READ)
    if fields[7] & NON_COHERENT:
        run.launch.watch.read_only.note(run, places, element * count, stores=False, unused=fields[7])
    check_written(run, places, element * count, fields[7])
    charge(run, places, element * count, "load", AS_LOAD)
    if run.launch.undefined is not None:
        run.launch.undefined.load(run, fields, lanes, places, element, count)
    for k in range(count):
        values = [0] * LANES
        for lane, (segment, _, offset) in places.items():
            at = offset + k * element
            values[lane] = int.from_bytes(segment.data[at : at + element], "little")
        run.write_lanes(fields[2] + k * ROW, "b", lanes, values)


def store(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    element, count = _shape(name)
    places = _places(run, fields, lanes, element * count, WRITE)
    run.launch.watch.read_only.note(run, places, element * count, stores=True)
    charge(run, places, element * count, "store", AS_STORE)
    values = {lane: _value(run, fields[2], lane, element, count) for lane in places}
    run.launch.watch.stores(run, places, values)
    for lane, (segment, _, offset) in places.items():
        put(segment, offset, values[lane])
    if run.launch.undefined is not None:
        run.launch.undefined.store(run, fields, places, element, count)


def atomic(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    type_ = ATOMICS[name][1]
    size = SIZE[type_]
    places = _places(run, fields, lanes, size, ATOMIC)
    if not fields[7] & NO_STORE:
        run.launch.watch.read_only.note(run, places, size, stores=True)
    if fields[7] & USES_OLD or not name.startswith("atom.exch"):  # otherwise it may be the first write
        check_written(run, places, size)
    charge(run, places, size, "atomic", fields[7] & SERVED)
    kept: dict[int, int] = {}
    if run.launch.undefined is not None:
        kept = run.launch.undefined.atomic(run, name, fields, lanes, places)
    for lane, (segment, _, offset) in places.items():
        old = int.from_bytes(segment.data[offset : offset + size], "little")
        new = atomics[name](old, run.read(fields[4], type_, lane), run.read(fields[5], type_, lane))
        if not fields[7] & NO_STORE:
            put(segment, offset, new.to_bytes(size, "little"))
        run.write(fields[2], type_, lane, old)
    if kept and run.launch.undefined is not None:
        run.launch.undefined.keep(run, places, size, kept)


def _shape(name: str) -> tuple[int, int]:
    """Return (bytes of an element, number of elements) of a load or store."""
    _, *vector, type_ = name.split(".")
    return SIZE[type_], int(vector[0][1:]) if vector else 1


def _value(run: WarpRun, row: int, lane: int, element: int, count: int) -> bytes:
    """Return the bytes that a lane stores: `count` elements in consecutive rows."""
    return b"".join(run.read(row + k * ROW, "b", lane).to_bytes(element, "little") for k in range(count))


def put(segment: Segment, offset: int, value: bytes) -> None:
    segment.data[offset : offset + len(value)] = value
    if segment.undefined:
        for at in range(offset, offset + len(value)):
            segment.undefined.pop(at, None)
    if segment.written is not None:
        segment.written[offset : offset + len(value)] = b"\1" * len(value)


def forget(segment: Segment, offset: int, size: int) -> None:
    """Mark bytes as uninitialized."""
    for at in range(offset, offset + size):
        segment.undefined.pop(at, None)
    if segment.written is not None:
        segment.written[offset : offset + size] = bytes(size)
