"""Vector operations on 32 int64 at once: the shadow cells of an access, or the clocks of 32 warps.

A *cell* records the accesses to its bytes:

    `bit 63`    SET: bits 27 - 60 are the number of a set of accesses (`shadow.py`), or with bit 61 the cell is one of
                READERS (`readers.py`).
    `bit 62`    ATOMIC: an atomic access, or a set that has one.
    `34 - 61`   Interval of the warp, or number of the asynchronous operation, counted through all CTAs.
    `27 - 33`   Warp, and the proxy if it is an asynchronous operation; in wide groups up to bit 36 or 38.
    `22 - 26`   Lowest lane of the access.
    `17 - 21`   Highest lane of the access.
    `0 - 16`    Instruction.

A cell of 0 means that there was no access. (log, first) describes the lanes of an access to consecutive cells: cell j
belongs to lane first + (j >> log), and `spread` more lanes touch the same cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    I32,
    I64,
    all_zero,
    each_lane,
    go_on_if,
    halves,
    numbers,
    pointer,
    same,
    splat,
)
from wsemu.machine.lowering import emitted
from wsemu.machine.memory.cell_bits import (
    ATOMIC_BIT,
    BUT_WARPS,
    HIGH_SHIFT,
    LANE_BITS,
    LOW_SHIFT,
    WARP_SHIFT,
    WHO,
)
from wsemu.model.isa import LANES

if TYPE_CHECKING:
    from collections.abc import Sequence

    Value = Any
    Builder = Any

VECTOR = ir.VectorType(I64, LANES)
MASK = ir.VectorType(ir.IntType(1), LANES)
FOUR = ir.VectorType(I64, 4)
ALL = -1
"""mask of all 32 lanes"""
NO_MOMENT = -1
"""a value that no READERS cell has"""
IOTA = numbers(I64, range(LANES))
FEW = 8
"""number of int64 in a register of the CPU"""


def _load(b: Builder, address: Value) -> Value:
    return b.load(pointer(b, address, VECTOR), align=8)


def _store(b: Builder, address: Value, value: Value, mask: Value) -> None:
    """Store the elements of `mask`; the others keep their value."""
    place, bits = pointer(b, address, VECTOR), b.trunc(mask, I32)
    with b.if_else(b.icmp_signed("==", bits, I32(-1)), likely=True) as (full, partial):
        with full:
            b.store(value, place, align=8)
        with partial:
            b.store(b.select(b.bitcast(bits, MASK), value, b.load(place, align=8)), place, align=8)


def _bits(b: Builder, comparison: Value) -> Value:
    return b.zext(b.bitcast(comparison, I32), I64)


def _lanes(b: Builder, log: Value, first: Value) -> Value:
    return b.add(b.lshr(IOTA, splat(b, log)), splat(b, first))


def _field(b: Builder, v: Value, shift: int) -> Value:
    return b.and_(b.lshr(v, same(v, shift)), same(v, 31))


def _with_lanes(b: Builder, base: Value, low: Value, high: Value) -> Value:
    lanes = b.or_(b.shl(low, same(low, LOW_SHIFT)), b.shl(high, same(high, HIGH_SHIFT)))
    return b.or_(lanes, splat(b, base))


def _same_key(b: Builder, address: Value, bits: Value, key: Value) -> Value:
    return _bits(b, b.icmp_signed("==", b.and_(_load(b, address), splat(b, bits)), splat(b, key)))


def _fill(b: Builder, address: Value, mask: Value, base: Value, log: Value, first: Value, spread: Value) -> None:
    low = _lanes(b, log, first)
    _store(b, address, _with_lanes(b, base, low, b.add(low, splat(b, spread))), mask)


def _widen(b: Builder, address: Value, mask: Value, base: Value, log: Value, first: Value, spread: Value) -> None:
    old, low = _load(b, address), _lanes(b, log, first)
    high = b.add(low, splat(b, spread))
    old_low, old_high = _field(b, old, LOW_SHIFT), _field(b, old, HIGH_SHIFT)
    low = b.select(b.icmp_unsigned("<", old_low, low), old_low, low)
    high = b.select(b.icmp_unsigned(">", old_high, high), old_high, high)
    _store(b, address, _with_lanes(b, base, low, high), mask)


def _strays(b: Builder, address: Value, log: Value, first: Value) -> Value:
    v, lane = _load(b, address), _lanes(b, log, first)
    other = b.or_(
        b.icmp_unsigned("!=", _field(b, v, LOW_SHIFT), lane), b.icmp_unsigned("!=", _field(b, v, HIGH_SHIFT), lane)
    )
    return _bits(b, other)


def _zero(b: Builder, v: Value) -> Value:
    return b.zext(all_zero(b, v), I64)


def _uniform(b: Builder, address: Value, bits: Value, key: Value) -> Value:
    return _zero(b, b.and_(b.xor(_load(b, address), splat(b, key)), splat(b, bits)))


def _owned_cells(b: Builder, address: Value, log: Value, first: Value) -> Value:
    v, lane = _load(b, address), _lanes(b, log, first)
    mine = b.or_(b.shl(lane, same(lane, LOW_SHIFT)), b.shl(lane, same(lane, HIGH_SHIFT)))
    return _zero(b, b.and_(b.xor(v, mine), same(v, LANE_BITS)))


def _none(b: Builder, v: Value) -> Value:
    """Return whether four numbers are 0."""
    return b.icmp_unsigned("==", b.bitcast(v, ir.IntType(256)), ir.Constant(ir.IntType(256), 0))


def _some(b: Builder, lanes: Value) -> Value:
    """Return whether any of four truth values holds."""
    return b.not_(_none(b, b.sext(lanes, ir.VectorType(I64, 4))))


def _unknown(b: Builder, v: Value, shift: Value, clock: Value, w: Value, floor: Value, synced: Value) -> Value:
    """Return which of four cells have an atomic, a set, READERS, or an access that warp w has not observed."""

    def all_four(number: Value) -> Value:
        return splat(b, number, 4)

    other = b.or_(b.icmp_signed("<", v, same(v, 0)), b.icmp_signed(">=", v, same(v, ATOMIC_BIT)))
    one = b.select(other, same(v, 0), v)  # the actor bits of a set are no index of a clock
    actor = b.lshr(b.and_(one, all_four(b.sub(b.shl(I64(1), shift), I64(1)))), same(v, WARP_SHIFT))
    interval = b.lshr(one, all_four(shift))
    seen = same(v, 0)
    for k in range(4):
        at = b.add(clock, b.shl(b.extract_element(actor, I32(k)), I64(3)))
        seen = b.insert_element(seen, b.load(pointer(b, at, I64)), I32(k))
    seen = b.select(b.icmp_signed("==", actor, all_four(w)), all_four(synced), seen)
    late = b.or_(b.icmp_signed(">", interval, seen), b.icmp_signed("<=", interval, all_four(floor)))
    return b.and_(b.or_(late, other), b.icmp_signed("!=", v, same(v, 0)))


def _fours(b: Builder, n: Value, carried: Sequence[Value], body: Any) -> Value:
    """Return 1 if `body(j, carried, bad)` ends for each j below n: it returns the carried values, or branches to the
    block `bad`."""
    before = b.block
    loop, good, bad, end = (b.function.append_basic_block(name) for name in ("four", "good", "bad", "fours"))
    b.branch(loop)
    b.position_at_end(loop)
    j = b.phi(I64)
    kept = [b.phi(value.type) for value in carried]
    new = body(j, kept, bad)
    onward = b.add(j, I64(1))
    for phi, first, following in zip((j, *kept), (I64(0), *carried), (onward, *new), strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", onward, n), loop, good)
    for block in (good, bad):
        b.position_at_end(block)
        b.branch(end)
    b.position_at_end(end)
    result = b.phi(I64)
    result.add_incoming(I64(1), good)
    result.add_incoming(I64(0), bad)
    return result


def _unless(b: Builder, fine: Value, otherwise: Any) -> None:
    """Continue if `fine` holds, or after `otherwise` ends."""
    onward, other = (b.function.append_basic_block(name) for name in ("fine", "other"))
    b.cbranch(fine, onward, other)
    b.position_at_end(other)
    otherwise()
    b.branch(onward)
    b.position_at_end(onward)


def _all_known(
    b: Builder, cells: Value, n: Value, shift: Value, clock: Value, w: Value, floor: Value, synced: Value
) -> Value:
    def four(j: Value, kept: list[Value], bad: Value) -> list[Value]:
        v = b.load(pointer(b, b.add(cells, b.shl(j, I64(5))), FOUR), align=8)

        def look() -> None:
            go_on_if(b, b.not_(_some(b, _unknown(b, v, shift, clock, w, floor, synced))), bad)

        _unless(b, _none(b, b.and_(b.xor(v, kept[0]), same(v, WHO))), look)
        return [splat(b, b.extract_element(v, I32(3)), 4)]

    return _fours(b, n, [ir.Constant(FOUR, [0] * 4)], four)


def _reread(
    b: Builder, cells: Value, n: Value, shift: Value, clock: Value, w: Value, floor: Value, synced: Value,
    moment: Value, base: Value, log: Value, to: Value,
) -> Value:  # fmt: skip
    there = b.icmp_signed("!=", moment, I64(NO_MOMENT))
    bit = b.shl(I64(1), w)

    def four(j: Value, _: list[Value], bad: Value) -> list[Value]:
        v = b.load(pointer(b, b.add(cells, b.shl(j, I64(5))), FOUR), align=8)
        readers = b.icmp_signed("==", b.and_(v, same(v, BUT_WARPS)), splat(b, moment, 4))
        own = b.icmp_signed("==", b.and_(v, same(v, WHO)), splat(b, b.and_(base, I64(WHO)), 4))
        joined = b.or_(readers, b.and_(own, splat(b, there, 4)))
        fresh = b.icmp_signed("==", v, same(v, 0))

        def look() -> None:
            unknown = b.and_(_unknown(b, v, shift, clock, w, floor, synced), b.not_(joined))
            go_on_if(b, b.not_(_some(b, unknown)), bad)

        _unless(b, b.not_(_some(b, b.not_(b.or_(joined, fresh)))), look)
        lane = b.lshr(b.add(splat(b, b.shl(j, I64(2)), 4), numbers(I64, range(4))), splat(b, log, 4))
        lanes = b.or_(b.shl(lane, same(lane, LOW_SHIFT)), b.shl(lane, same(lane, HIGH_SHIFT)))
        shared = b.or_(b.select(readers, v, splat(b, moment, 4)), splat(b, bit, 4))
        new = b.select(joined, shared, b.or_(lanes, splat(b, base, 4)))
        b.store(new, pointer(b, b.add(to, b.shl(j, I64(5))), FOUR), align=8)
        return []

    return _fours(b, n, [], four)


def _join_reads(b: Builder, cells: Value, w: Value, moment: Value, base: Value) -> Value:
    place = pointer(b, cells, VECTOR)
    v = b.load(place, align=8)
    readers = b.icmp_signed("==", b.and_(v, same(v, BUT_WARPS)), splat(b, moment))
    own = b.icmp_signed("==", b.and_(v, same(v, WHO)), splat(b, b.and_(base, I64(WHO))))
    own = b.and_(own, splat(b, b.icmp_signed("!=", moment, I64(NO_MOMENT))))
    joined, fresh = b.or_(readers, own), b.icmp_signed("==", v, same(v, 0))
    usual = b.icmp_signed("==", b.bitcast(b.or_(joined, fresh), I32), I32(-1))
    with b.if_then(usual):
        shared = b.or_(b.select(readers, v, splat(b, moment)), splat(b, b.shl(I64(1), w)))
        lanes = numbers(I64, [lane << LOW_SHIFT | lane << HIGH_SHIFT for lane in range(LANES)])
        b.store(b.select(joined, shared, b.or_(lanes, splat(b, base))), place, align=8)
    return b.zext(usual, I64)


def _fill_unit(b: Builder, address: Value, base: Value) -> None:
    lanes = numbers(I64, [lane << LOW_SHIFT | lane << HIGH_SHIFT for lane in range(LANES)])
    b.store(b.or_(lanes, splat(b, base)), pointer(b, address, VECTOR), align=8)


def _put(b: Builder, address: Value, mask: Value, value: Value) -> None:
    _store(b, address, splat(b, value), mask)


def _add(b: Builder, address: Value, mask: Value, bits: Value) -> None:
    _store(b, address, b.or_(_load(b, address), splat(b, bits)), mask)


def _union(b: Builder, address: Value, mask: Value) -> Value:
    v = _load(b, address)
    v = b.select(b.bitcast(b.trunc(mask, I32), MASK), v, same(v, 0))
    return _reduce_cells(b, v, b.or_)


def _unit(b: Builder, addresses: Value, mask: Value, lane: Value, log_size: Value) -> Value:
    """Return 1 if the active lanes' addresses in a row have the pattern UNIT; `lane` is one of these lanes."""
    v = _load(b, addresses)
    start = b.sub(b.load(pointer(b, b.add(addresses, b.shl(lane, I64(3))), I64)), b.shl(lane, log_size))
    unit = b.bitcast(b.icmp_signed("==", v, b.add(b.shl(IOTA, splat(b, log_size)), splat(b, start))), I32)
    return b.zext(b.icmp_signed("==", b.or_(unit, b.not_(b.trunc(mask, I32))), I32(-1)), I64)


def _place(b: Builder, addresses: Value, bias: Value, grain: Value, cells: Value, lane: Value) -> Value:
    """Return the cell of a lane: its address in a row, plus bias, in units of 1 << grain bytes."""
    address = b.load(pointer(b, b.add(addresses, b.shl(lane, I64(3))), I64))
    return pointer(b, b.add(cells, b.shl(b.ashr(b.add(address, bias), grain), I64(3))), I64)


def _gather(b: Builder, addresses: Value, mask: Value, bias: Value, grain: Value, cells: Value, to: Value) -> None:
    def move(lane: Value) -> None:
        value = b.load(_place(b, addresses, bias, grain, cells, lane))
        b.store(value, pointer(b, b.add(to, b.shl(lane, I64(3))), I64))

    each_lane(b, b.trunc(mask, I32), move)


def _scatter(b: Builder, addresses: Value, mask: Value, bias: Value, grain: Value, cells: Value, from_: Value) -> None:

    def value(lane: Value) -> Value:
        return b.load(pointer(b, b.add(from_, b.shl(lane, I64(3))), I64))

    def move(lane: Value) -> None:
        b.store(value(lane), _place(b, addresses, bias, grain, cells, lane))

    each_lane(b, b.trunc(mask, I32), move)


def _differ(b: Builder, address: Value, other: Value) -> Value:
    return _bits(b, b.icmp_signed("!=", _load(b, address), _load(b, other)))


def _join(b: Builder, clock: Value, other: Value) -> None:
    v, u = _load(b, clock), _load(b, other)
    b.store(b.select(b.icmp_signed(">", u, v), u, v), pointer(b, clock, VECTOR), align=8)


def _few(b: Builder, *places: Value) -> list[Value]:
    """Load FEW numbers from each address."""
    return [b.load(pointer(b, place, ir.VectorType(I64, FEW)), align=8) for place in places]


def _join_few(b: Builder, clock: Value, other: Value) -> None:
    v, u = _few(b, clock, other)
    b.store(b.select(b.icmp_signed(">", u, v), u, v), pointer(b, clock, v.type), align=8)


def _behind(b: Builder, clock: Value, needed: Value) -> Value:
    return _bits(b, b.icmp_signed("<", _load(b, clock), _load(b, needed)))


def _lag_bits(b: Builder, clock: Value, needed: Value) -> Value:
    v, u = _few(b, clock, needed)
    return b.zext(b.bitcast(b.icmp_signed("<", v, u), ir.IntType(FEW)), I64)


def _copy_few(b: Builder, to: Value, other: Value) -> None:
    (v,) = _few(b, other)
    b.store(v, pointer(b, to, v.type), align=8)


def _less_few(b: Builder, clock: Value, by: Value) -> None:
    v, d = _few(b, clock, by)
    b.store(b.sub(v, d), pointer(b, clock, v.type), align=8)


def _later_few(b: Builder, numbers_: Value, others: Value, by: Value) -> Value:
    v, u, d = _few(b, numbers_, others, by)
    return b.zext(all_zero(b, b.xor(b.sub(v, u), d)), I64)


def _join_bits(b: Builder, to: Value, other: Value) -> None:
    b.store(b.or_(_load(b, to), _load(b, other)), pointer(b, to, VECTOR), align=8)


def _join_some(b: Builder, to: Value, other: Value, mask: Value) -> None:
    v, u = _load(b, to), _load(b, other)
    _store(b, to, b.select(b.icmp_signed(">", u, v), u, v), mask)


def _beyond(b: Builder, needed: Value, known: Value) -> Value:
    return b.sub(I64(1), _zero(b, b.and_(_load(b, needed), b.not_(_load(b, known)))))


def _copy(b: Builder, to: Value, other: Value) -> None:
    b.store(_load(b, other), pointer(b, to, VECTOR), align=8)


def _reduce_cells(b: Builder, v: Value, choose: Any) -> Value:
    """Reduce 32 numbers to one."""
    n = LANES
    while n > 1:
        n //= 2
        low, high = halves(n)
        v = choose(b.shuffle_vector(v, v, low), b.shuffle_vector(v, v, high))
    return b.extract_element(v, I32(0))


def _extreme(relation: str) -> Any:
    def body(b: Builder, address: Value, mask: Value, lane: Value) -> Value:
        v = _load(b, address)
        one = b.load(pointer(b, b.add(address, b.shl(lane, I64(3))), I64))
        v = b.select(b.bitcast(b.trunc(mask, I32), MASK), v, splat(b, one))
        return _reduce_cells(b, v, lambda x, y: b.select(b.icmp_signed(relation, x, y), x, y))

    return body


def _least(b: Builder, address: Value, mask: Value) -> Value:
    v = b.select(b.bitcast(b.trunc(mask, I32), MASK), _load(b, address), numbers(I64, [1 << 60] * LANES))
    return _reduce_cells(b, v, lambda x, y: b.select(b.icmp_signed("<", x, y), x, y))


def _ordered_bits(b: Builder, clock: Value, needed: Value) -> Value:
    v, u = _load(b, clock), _load(b, needed)
    return _bits(b, b.and_(b.icmp_signed("!=", u, same(u, 0)), b.icmp_signed("<=", u, v)))


at_least = emitted(lambda b, cells, v: _bits(b, b.icmp_signed(">=", _load(b, cells), splat(b, v))))
"""at_least(numbers, v): mask of the 32 numbers that are v or more"""
same_key = emitted(_same_key)
"""same_key(cells, bits, key): mask of the cells that equal `key` in these bits"""
fill = emitted(_fill)
"""fill(cells, mask, base, log, first, spread): store an access by the lanes (log, first, spread) in the cells of
mask"""
widen = emitted(_widen)
"""widen: like `fill`, but adds to the lanes that are in the cells"""
strays = emitted(_strays)
"""strays(cells, log, first): mask of the cells whose recorded lanes are not exactly the lane of (log, first)"""
put = emitted(_put)
"""put(cells, mask, value): store a value in the cells of a mask"""
add = emitted(_add)
"""add(cells, mask, bits): set these bits in the cells of mask"""
union = emitted(_union)
"""union(cells, mask): the bits that are set in any cell of mask"""
unit = emitted(_unit)
gather = emitted(_gather)
"""gather(addresses, mask, bias, grain, cells, to): load the cells of scattered lanes into 32 numbers"""
scatter = emitted(_scatter)
"""scatter(addresses, mask, bias, grain, cells, from): write them back; if lanes share a cell, the last lane's stays"""
differ = emitted(_differ)
"""differ(places, others): mask of the 32 numbers that differ from 32 others"""
uniform = emitted(_uniform)
"""uniform(cells, bits, key): 1 if all 32 cells equal key in these bits"""
owned = emitted(_owned_cells)
"""owned(cells, log, first): 1 if each of 32 cells was accessed by exactly the lane of (log, first)"""
all_known = emitted(_all_known)
"""all_known(cells, n, shift, clock, w, floor, synced): 1 if warp w has observed all accesses in n times four cells,
none of which has an atomic, a set or READERS. It has observed other warps by its clock, its own lanes up to `synced`,
and other CTAs up to `floor`. `shift` is INTERVAL_SHIFT, because emitted code does not know the width of a group"""
join_reads = emitted(_join_reads)
"""join_reads(cells, w, moment, base): `reread` of 32 cells, one per lane, in place; 1 if all have reads of this moment,
or of this warp in its current interval, or no reads; otherwise 0, and nothing is done"""
reread = emitted(_reread)
"""reread(cells, n, shift, clock, w, floor, synced, moment, base, log, to): 1 if each cell meets one of three
conditions: `all_known` holds for it, it has only reads by warp w in its current interval, or it is READERS of `moment`.
The cells after a read by contiguous lanes, 1 << log cells each, are stored at `to`; see `readers.together`"""
fill_unit = emitted(_fill_unit)
"""fill_unit(cells, base): store an access by all lanes, each in its own cell"""
join = emitted(_join)
"""join(clock, other): keep the later interval of each warp"""
join_few = emitted(_join_few)
"""join_few(clock, other): the same for FEW warps"""
behind = emitted(_behind)
"""behind(clock, needed): mask of the warps whose interval in `clock` is lower than needed"""
behind_few = emitted(_lag_bits)
"""behind_few(clock, needed): the same for FEW warps"""
copy_few = emitted(_copy_few)
"""copy_few(to, other): copy FEW numbers"""
less_few = emitted(_less_few)
"""less_few(clock, by): subtract FEW numbers from others"""
later_few = emitted(_later_few)
"""later_few(clock, other, by): 1 if each of FEW numbers is the other number plus that of `by`"""
join_bits = emitted(_join_bits)
"""join_bits(to, other): union of 32 sets of 64 bits each"""
join_some = emitted(_join_some)
"""join_some(clock, other, mask): join only the numbers of mask"""
beyond = emitted(_beyond)
"""beyond(needed, known): 1 if one of 32 sets of 64 bits has an element that the other set lacks"""
copy = emitted(_copy)
"""copy(to, other): copy 32 numbers"""
least = emitted(_least)
"""least(clock, mask): the least number of mask; 1 << 60 if the mask is empty"""
lowest_of = emitted(_extreme("<"))
"""lowest_of(numbers, mask, lane): the least number of mask, of which `lane` is an element"""
highest_of = emitted(_extreme(">"))
reached = emitted(_ordered_bits)
"""reached(clock, needed): mask of the nonzero numbers in `needed` that the clock has reached"""
