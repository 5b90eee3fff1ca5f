"""Checks that many accesses of a block's instruction share are performed once, and their result is a *permit*.

`accesses` performs an access whose lanes have known distances. After a usual access, the instruction has a PERMIT: a
range of addresses at which such an access stays within the segment and has the same cost. For the next access with an
address in this range, only the cells are checked. A permit is valid until the next group begins or the host acts,
because until then its basis does not change: memory and size of the segment, and the enabled checks. Synchronization
objects may come and go, and are therefore checked each time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import I64, Builder, Value, numbers, pointer, splat
from wsemu.machine.lowering import compiled
from wsemu.machine.memory.cell_bits import (
    ATOMIC_BIT,
    BUT_LANES,
    BUT_WARPS,
    HIGH_SHIFT,
    LOW_SHIFT,
    WARPS,
    WHEN,
)
from wsemu.machine.memory.plans import part_of
from wsemu.machine.memory.readers import forgettable, is_readers, merge_own_reads, takes, together, unknown
from wsemu.machine.memory.shadow import behind, floor_of, is_ordered_before, note_range, now, touch_known
from wsemu.machine.records import access_at, machine_at, permit_at, segment_at
from wsemu.machine.scalars import load_i64
from wsemu.machine.state import READ_SO_FAR, SEGMENT, UNTRACKED
from wsemu.machine.sync.clobber import near_objects, objects_live
from wsemu.machine.tier.accesses import HOST, KIND, all_lanes
from wsemu.model.data import NamedTuple
from wsemu.model.isa import FIRST_ARRAY, LANES, LOCAL, OFFSET_MASK, READ, SEGMENT_SHIFT, SHARED

if TYPE_CHECKING:
    from wsemu.machine.tier.shapes import Steps

EACH = (8, 4, 1)
"""numbers of cells in a piece: longer pieces need less code; the compiler splits them into registers of the CPU"""
MOST_PIECES = 32
"""maximum number of pieces of an access that can have permits"""
OTHER_WRITE, OTHER_READ, OTHER_MOMENT = 1, 2, 4
"""flags that `scan` returns for cells: some last write, read, or moment of READERS differs from that of the first
cell"""
OTHER_WARPS = 32
"""bit from which on the result of `scan` has the bits in which READERS differ"""
MIXED = 7
"""number of accesses that are checked cell by cell after an access whose cells differed"""
FILL, ADD = 1, 2
"""updates of cells: store this access; add this warp to READERS"""


class Cells(NamedTuple):
    """The cells that an access with known distances touches, in pieces: contiguous cells, or one."""

    pieces: tuple[int, ...]
    """start of each piece, in bytes of shadow memory from the first lane's cell"""
    lanes: tuple[tuple[int, ...], ...]
    """for each cell of each piece, the lowest and the highest lane as a cell stores them"""
    apart: bool
    """true if no two lanes share a cell"""


def cells_of(steps: Steps, size: int, grain: int) -> Cells | None:
    """Return the cells of lanes that access `size` bytes each, in a segment with cells of 1 << grain bytes.

    Return None if there are too many cells, or if a lane's bytes are not aligned.
    """
    if any(step % size for step in steps):
        return None
    found: dict[int, list[int]] = {}
    for lane, step in enumerate(steps):
        for q in range(size >> grain):
            found.setdefault((step >> grain) + q, []).append(lane)
    cells = sorted(found)
    lanes = [min(found[at]) << LOW_SHIFT | max(found[at]) << HIGH_SHIFT for at in cells]
    each = next(n for n in EACH if _side_by_side(cells, n))
    starts = range(0, len(cells), each)
    if len(starts) > MOST_PIECES:
        return None
    apart = all(len(own) == 1 for own in found.values())
    return Cells(tuple(8 * cells[k] for k in starts), tuple(tuple(lanes[k : k + each]) for k in starts), apart)


def _side_by_side(cells: list[int], each: int) -> bool:
    """Return whether cells in order are contiguous runs of these lengths."""
    return len(cells) % each == 0 and all(b == a + 1 for k, (a, b) in enumerate(pairwise(cells), 1) if k % each)


# -- cells -------------------------------------------------------------------------------------------------------------


def scan(b: Builder, cells: Cells, writes: Value, reads: Value, written: Value, read: Value) -> Value:
    """Return flags for all cells, OTHER_WRITE and so on; the first lane's are at `writes` and `reads`, with these
    values."""
    width = len(cells.lanes[0])
    t = ir.VectorType(I64, width)
    differ = {plane: ir.Constant(t, [0] * width) for plane in (0, 1)}
    for offset in cells.pieces:
        for plane, (place, first) in enumerate(((writes, written), (reads, read))):
            v = b.load(pointer(b, b.add(place, I64(offset)), t), align=8)
            differ[plane] = b.or_(differ[plane], b.xor(v, splat(b, first, width)))
    bits = []
    for plane in differ.values():
        one = b.extract_element(plane, ir.IntType(32)(0))
        for k in range(1, width):
            one = b.or_(one, b.extract_element(plane, ir.IntType(32)(k)))
        bits.append(one)
    result = b.shl(bits[1], I64(OTHER_WARPS))
    for bit, which, of in ((OTHER_WRITE, 0, WHEN), (OTHER_READ, 1, BUT_LANES), (OTHER_MOMENT, 1, BUT_WARPS)):
        some = b.icmp_unsigned("!=", b.and_(bits[which], I64(of)), I64(0))
        result = b.or_(result, b.select(some, I64(bit), I64(0)))
    return result


def fill(b: Builder, cells: Cells, plane: Value, base: Value) -> None:
    """Store an access in the cells, each with its own lanes."""
    for offset, lanes in zip(cells.pieces, cells.lanes, strict=True):
        new = b.or_(numbers(I64, lanes), splat(b, base, len(lanes)))
        b.store(new, pointer(b, b.add(plane, I64(offset)), new.type), align=8)


def put(b: Builder, cells: Cells, plane: Value, value: Value, *, keep: bool) -> None:
    """Store `value` in each cell, or with `keep` add its bits."""
    for offset, lanes in zip(cells.pieces, cells.lanes, strict=True):
        new = splat(b, value, len(lanes))
        place = pointer(b, b.add(plane, I64(offset)), new.type)
        b.store(b.or_(new, b.load(place, align=8)) if keep else new, place, align=8)


def judge_cells(address, w, written, read, found, floor, kind):
    """Return the update of cells, or 0 if they need a closer look.

    The first cell has this last write and these reads, and `found` are the flags of all cells. The decision is that of
    `shadow.touch_alike` for observed accesses. A number below 0 replaces each cell of reads.
    """
    m = machine_at(address, 0)
    written &= WHEN
    if found & OTHER_WRITE or (written and not behind(m, w, written, floor)):
        return 0
    if is_readers(read):
        if found & OTHER_MOMENT:
            return 0
        if kind == READ and takes(m, w, read):
            return ADD
        warps = (read | found >> OTHER_WARPS) & WARPS
        if kind == READ:
            if forgettable(m, w, read, warps, floor):
                return FILL
            return merge_own_reads(m, w, read, warps, floor)
        return FILL if unknown(m, w, read, warps, floor) == 0 else 0
    read &= BUT_LANES
    if found & OTHER_READ or read < 0 or read & ATOMIC_BIT:
        return 0
    if read == 0 or behind(m, w, read, floor):
        return FILL
    return together(m, w, read) if kind == READ and not is_ordered_before(m, w, read, floor) else 0


# -- permits -----------------------------------------------------------------------------------------------------------


@compiled
def grant(m, permit, first, place, low, end, log_size, coarsest, finest, kind):
    """Create a permit after a usual access: the range of addresses at which others are usual as well.

    The lanes access the bytes from `low` to before `end`, as distances from the first lane's address; `place` is the
    host address of their distances.
    """
    number = first >> SEGMENT_SHIFT
    segment = segment_at(m.segments, number)
    judges = segment.tracked > (READ_SO_FAR if kind == READ else UNTRACKED)
    offset, start, stop, _ = part_of(m, number, first - (number << SEGMENT_SHIFT))
    above = first - offset
    if number == LOCAL:  # each lane has its own part
        low, end = 0, 0
        for lane in range(LANES):
            step = load_i64(place + 8 * lane) - load_i64(place) - lane * m.thread_bytes
            low = min(low, step)
            end = max(end, step)
        end += 1 << log_size
    grain = segment.grain
    if judges and (grain > coarsest or grain < finest or segment.watched):
        return
    lowest, highest = start - low, stop - end
    if offset < lowest or offset > highest:
        return
    mask = max((1 << log_size) - 1, 31 if number >= FIRST_ARRAY else 3)
    lowest = offset - ((offset - lowest) & ~mask)
    permit.low = above + lowest
    permit.span = highest - lowest + 1
    permit.mask = mask
    permit.start = lowest
    permit.segment = m.segments + SEGMENT_BYTES * number
    permit.judged = judges
    if judges:
        permit.grain = grain
        permit.writes = segment.writes + 8 * (lowest >> grain)
        permit.reads = segment.reads + 8 * (lowest >> grain)
    permit.group = m.group
    permit.floor = floor_of(m, number)


@compiled
def settle(row, permit):
    """Count the accesses that were performed by a permit, see `hot.settle`."""
    row.executions += permit.count
    row.lanes += LANES * permit.count
    row.shared += permit.count * permit.shared
    row.ideal_shared += permit.count * permit.ideal_shared
    row.sectors += permit.count * permit.sectors
    row.ideal_sectors += permit.count * permit.ideal_sectors
    permit.count = 0


def ask(address, w, pc, place, first, spot, shape, low, end, coarsest, finest):
    """Perform an access as `accesses.any_way` does, and create a permit; return the first lane's host address, or 0.

    The bytes begin at distance `low` from the address `first`, and end at `end`. `coarsest` and `finest` are the grains
    of cells for which permits are possible, and `spot` is the location of the permit.
    """
    m = machine_at(address, 0)
    row, permit = access_at(m.accesses, pc), permit_at(spot, 0)
    if permit.count:
        settle(row, permit)
    shared, ideal_shared, sectors, ideal_sectors = row.shared, row.ideal_shared, row.sectors, row.ideal_sectors
    host = all_lanes(m, w, pc, place, first, shape) & HOST
    permit.span = 0
    if host:
        permit.shared, permit.ideal_shared = row.shared - shared, row.ideal_shared - ideal_shared
        permit.sectors, permit.ideal_sectors = row.sectors - sectors, row.ideal_sectors - ideal_sectors
        grant(m, permit, first, place, low, end, shape & 255, coarsest, finest, shape >> KIND & 1)
    return host


def permit_offset(address, first, spot, low, end):
    """Return the distance of the address `first` from the least one of a permit; -1 if the permit does not include
    it."""
    m, permit = machine_at(address, 0), permit_at(spot, 0)
    offset = first - permit.low
    if permit.group != m.group or offset < 0 or offset >= permit.span or offset & permit.mask:
        return -1
    if objects_live(m) and first >> SEGMENT_SHIFT == SHARED:
        place = first & OFFSET_MASK
        if near_objects(m, place + low, place + end):
            return -1
    return offset


def touches(address, spot, offset, low, end):
    """Touch the cells of a permitted access; return 0 if there is no room for them.

    The parameters are those of `ask`, and `offset` is the result of `permit_offset`.
    """
    permit = permit_at(spot, 0)
    segment = segment_at(permit.segment, 0)
    cell, n = (permit.start + offset + low) >> permit.grain, (end - low) >> permit.grain
    if segment.low <= cell and cell + n <= segment.high:
        return 1
    return note_range(segment, cell, n)


def presently(address, w, pc):
    """Return the cell of an access by a warp now, without its lanes."""
    return now(machine_at(address, 0), w, pc)


def touched_known(address, w, pc, writes, reads, floor, kind, log):
    """Touch cells like `shadow.touch_known`."""
    m = machine_at(address, 0)
    return touch_known(m, w, writes, reads, kind, now(m, w, pc), floor, log)


SEGMENT_BYTES = SEGMENT.itemsize
known, entered, decided = compiled(touched_known), compiled(permit_offset), compiled(judge_cells)
asked, present, touched = compiled(ask), compiled(presently), compiled(touches)
