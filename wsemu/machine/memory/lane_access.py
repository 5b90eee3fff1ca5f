"""Loads, stores and atomics of 32 lanes as LLVM code: the pattern of their addresses, and the transfer of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from wsemu.machine.agents.reductions import combined_floats
from wsemu.machine.arithmetic.codegen import (
    ELEMENT,
    I1,
    I32,
    I64,
    MASK,
    Builder,
    Value,
    all_zero,
    declare_function,
    each_lane,
    halves,
    lane_loop,
    llvm,
    load_row,
    mangle_type,
    nothing,
    numbers,
    pointer,
    resize,
    same,
    splat,
    store_row,
    switch,
)
from wsemu.machine.arithmetic.floating import canonical
from wsemu.machine.lowering import emitted
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ATOMICS,
    FLUSHING_ADD,
    HALVES,
    LANES,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SIZE,
    memory_shape,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD, UNIT, SAME, AFFINE, SCATTERED = range(5)
"""pattern of an access's lanes: out of bounds or misaligned; all 32 lanes contiguous; one address; one stride between
all 32 lanes; any other"""
QUARTERS, ALIKE = 5, 6
"""pattern of scattered lanes: each group of eight is contiguous; each group of eight has one address"""


def _first_lane(b: Builder, registers: Value, a: Value, mask: Value) -> Value:
    """Return the address in row `a` of the lowest lane of `mask`."""
    lane = b.zext(llvm(b, "llvm.cttz", I32, mask, I1(0)), I64)
    return b.load(pointer(b, b.add(b.add(registers, a), b.shl(lane, I64(3))), I64))


@emitted
def simple_pattern(b: Builder, registers: Value, a: Value, mask: Value, log_size: Value) -> Value:
    """Return UNIT, SAME, or SCATTERED for any other pattern of the addresses in row `a`; bounds are not checked."""
    mask = resize(b, mask, I32, False)
    v = load_row(b, registers, a, "b64")
    distance = b.sub(v, splat(b, _first_lane(b, registers, a, mask)))
    iota = numbers(I64, range(LANES))
    steps = b.shl(iota, splat(b, log_size))
    unit = b.and_(b.bitcast(b.icmp_unsigned("==", distance, steps), I32), mask)
    before = b.block
    with b.if_then(b.icmp_signed("!=", unit, I32(-1))):
        equal = b.bitcast(b.icmp_unsigned("==", distance, same(distance, 0)), I32)
        one = b.icmp_signed("==", b.or_(equal, b.not_(mask)), I32(-1))
        other = b.select(one, I64(SAME), I64(SCATTERED))
        last = b.block
    result = b.phi(I64)
    result.add_incoming(I64(UNIT), before)
    result.add_incoming(other, last)
    return result


@emitted
def lane_pattern(b: Builder, registers: Value, a: Value, mask: Value, bias: Value, limit: Value, size: Value) -> Value:
    """Return BAD, AFFINE or SCATTERED for the addresses in row `a`; adding `bias` gives the offset in their segment."""
    mask = resize(b, mask, I32, False)
    v = load_row(b, registers, a, "b64")
    offset = b.add(v, splat(b, bias))
    low = b.and_(offset, splat(b, b.sub(size, I64(1))))
    wrong = b.or_(b.icmp_unsigned(">", offset, splat(b, limit)), b.icmp_unsigned("!=", low, same(low, 0)))
    bad = b.icmp_unsigned("!=", b.and_(b.bitcast(wrong, I32), mask), I32(0))
    stride = b.sub(b.extract_element(v, I32(1)), b.extract_element(v, I32(0)))
    # one stride between all neighbours: v[lane + 1] - v[lane], the last lane compared with itself
    onward = b.shuffle_vector(v, v, numbers(I32, [*range(1, LANES), LANES - 1]))
    even = b.bitcast(b.icmp_unsigned("==", b.sub(onward, v), splat(b, stride)), I32)
    all_on = b.icmp_signed("==", mask, I32(-1))
    affine = b.and_(all_on, b.icmp_signed("==", b.or_(even, I32(-(1 << (LANES - 1)))), I32(-1)))
    return b.select(bad, I64(BAD), b.select(affine, I64(AFFINE), I64(SCATTERED)))


@emitted
def own_pattern(
    b: Builder, registers: Value, a: Value, mask: Value, imm: Value, begin: Value, limit: Value, stride: Value,
    size: Value,
) -> Value:  # fmt: skip
    """Return BAD, UNIT or SCATTERED for the addresses in row `a`, to which `imm` is added.

    The valid range is `begin` to `begin + limit` in lane 0's part of local memory, and `stride` bytes further for each
    lane.
    """
    mask = resize(b, mask, I32, False)
    v = b.add(load_row(b, registers, a, "b64"), splat(b, imm))
    inside = b.sub(b.sub(v, splat(b, begin)), b.mul(numbers(I64, range(LANES)), splat(b, stride)))
    low = b.and_(v, splat(b, b.sub(size, I64(1))))
    wrong = b.or_(b.icmp_unsigned(">", inside, splat(b, limit)), b.icmp_unsigned("!=", low, same(low, 0)))
    bad = b.icmp_unsigned("!=", b.and_(b.bitcast(wrong, I32), mask), I32(0))
    unit = b.and_(b.icmp_unsigned("==", stride, size), b.icmp_signed("==", mask, I32(-1)))
    return b.select(bad, I64(BAD), b.select(unit, I64(UNIT), I64(SCATTERED)))


@emitted
def lanes_inside(b: Builder, registers: Value, a: Value, mask: Value, bias: Value, limit: Value, size: Value) -> Value:
    """Return the lanes of `mask` whose number in row `a`, plus bias, is a multiple of `size` from 0 to `limit`."""
    offset = b.add(load_row(b, registers, a, "b64"), splat(b, bias))
    low = b.and_(offset, splat(b, b.sub(size, I64(1))))
    inside = b.and_(b.icmp_unsigned("<=", offset, splat(b, limit)), b.icmp_unsigned("==", low, same(low, 0)))
    return b.zext(b.and_(b.bitcast(inside, I32), resize(b, mask, I32, False)), I64)


@emitted
def lanes_in_segment(b: Builder, registers: Value, a: Value, mask: Value, imm: Value, number: Value) -> Value:
    """Return the lanes of `mask` whose address, row `a` plus imm, has the segment `number` in its lower bits."""
    address = b.add(load_row(b, registers, a, "b64"), splat(b, imm))
    other = b.and_(b.xor(address, splat(b, b.shl(number, I64(SEGMENT_SHIFT)))), same(address, 0xFFFF << SEGMENT_SHIFT))
    equal = b.bitcast(b.icmp_unsigned("==", other, same(other, 0)), I32)
    return b.zext(b.and_(equal, resize(b, mask, I32, False)), I64)


@emitted
def lanes_with(b: Builder, place: Value, mask: Value, value: Value) -> Value:
    """Return the lanes of `mask` whose number in the table at `place` is `value`."""
    v = b.load(pointer(b, place, ir.VectorType(I64, LANES)), align=8)
    equal = b.bitcast(b.icmp_unsigned("==", v, splat(b, value)), I32)
    return b.zext(b.and_(equal, resize(b, mask, I32, False)), I64)


@emitted
def set_lanes(b: Builder, place: Value, mask: Value, value: Value) -> None:
    """Set the numbers at `place` of the lanes of `mask` to `value`."""
    _store_lanes(b, place, mask, splat(b, value))


@emitted
def set_offsets(b: Builder, place: Value, mask: Value, registers: Value, a: Value, bias: Value, bits: Value) -> None:
    """Set the numbers at `place` of the lanes of `mask` to row `a` plus bias, with `bits` set."""
    offset = b.add(load_row(b, registers, a, "b64"), splat(b, bias))
    _store_lanes(b, place, mask, b.or_(offset, splat(b, bits)))


def _store_lanes(b: Builder, place: Value, mask: Value, values: Value) -> None:
    to = pointer(b, place, values.type)
    lanes = b.bitcast(resize(b, mask, I32, False), MASK)
    b.store(b.select(lanes, values, b.load(to, align=8)), to, align=8)


@emitted
def other_banks(b: Builder, place: Value, bias: Value) -> Value:
    """Return whether the addresses at `place`, plus bias, are in words of 32 different banks."""
    v = b.load(pointer(b, place, ir.VectorType(I64, LANES)), align=8)
    bank = b.trunc(b.and_(b.lshr(b.add(v, splat(b, bias)), same(v, 2)), same(v, LANES - 1)), ir.VectorType(I32, LANES))
    bits, n = b.shl(same(bank, 1), bank), LANES
    while n > 1:
        n //= 2
        low, high = halves(n)
        bits = b.or_(b.shuffle_vector(bits, bits, low), b.shuffle_vector(bits, bits, high))
    return b.zext(b.icmp_signed("==", b.extract_element(bits, I32(0)), I32(-1)), I64)


@emitted
def all_inside(b: Builder, place: Value, bias: Value, limit: Value, size: Value) -> Value:
    """Return whether the numbers at `place`, plus bias, are multiples of `size` from 0 to `limit`."""
    v = b.load(pointer(b, place, ir.VectorType(I64, LANES)), align=8)
    offset = b.add(v, splat(b, bias))
    beyond = b.lshr(b.or_(offset, b.sub(splat(b, limit), offset)), same(v, 63))
    return b.zext(all_zero(b, b.or_(beyond, b.and_(offset, splat(b, b.sub(size, I64(1)))))), I64)


def _steps(b: Builder, place: Value, first: Value) -> Value:
    """Return the differences between 32 numbers and `first`."""
    v = b.load(pointer(b, place, ir.VectorType(I64, LANES)), align=8)
    return b.sub(v, splat(b, first))


@emitted
def keep_steps(b: Builder, place: Value, first: Value, to: Value) -> None:
    """Write the distances of the 32 numbers at `place` from `first`."""
    v = _steps(b, place, first)
    b.store(v, pointer(b, to, v.type), align=8)


@emitted
def matches_steps(b: Builder, place: Value, first: Value, steps: Value, mask: Value) -> Value:
    """Return whether the numbers of `mask` differ from `first` by the steps that `keep_steps` stored for others."""
    v = _steps(b, place, first)
    other = b.icmp_unsigned("!=", v, b.load(pointer(b, steps, v.type), align=8))
    return b.zext(b.icmp_unsigned("==", b.and_(b.bitcast(other, I32), b.trunc(mask, I32)), I32(0)), I64)


AT_ONCE = ((4, 1), (8, 1), (8, 2))
"""(bytes, elements) of the accesses that scattered lanes perform without a loop: others are rare, and their code would
take long to compile"""
MEMORY_NAMES = tuple(name for name, op in OPERATIONS.items() if op.kind in ("load", "store"))


def load_some(b: Builder, place: Value, lanes: Value, others: Value) -> Value:
    """Load the elements of some lanes, an i32 mask, from a vector in memory; `others` has those of the other lanes."""
    t = others.type
    name = f"llvm.masked.load.{mangle_type(t)}.{mangle_type(place.type)}"
    signature = ir.FunctionType(t, [place.type, I32, MASK, t])
    return b.call(declare_function(b.module, signature, name), [place, I32(1), b.bitcast(lanes, MASK), others])


def store_some(b: Builder, values: Value, place: Value, lanes: Value) -> None:
    """Store the elements of some lanes, an i32 mask."""
    name = f"llvm.masked.store.{mangle_type(values.type)}.{mangle_type(place.type)}"
    signature = ir.FunctionType(ir.VoidType(), [values.type, place.type, I32, MASK])
    b.call(declare_function(b.module, signature, name), [values, place, I32(1), b.bitcast(lanes, MASK)])


def load_side_by_side(b: Builder, address: Value, n: int, e: Any, lanes: int = LANES) -> list[Value]:
    """Load the rows of vectors of n elements that are contiguous in memory, lane after lane."""
    v = b.load(pointer(b, address, ir.VectorType(e, lanes * n)), align=1)
    if n == 1:
        return [v]
    picks = ([lane * n + j for lane in range(lanes)] for j in range(n))
    return [b.shuffle_vector(v, v, numbers(I32, picked)) for picked in picks]


def store_side_by_side(b: Builder, address: Value, parts: list[Value]) -> None:
    """Store the vectors of contiguous lanes: the inverse of the load."""
    while len(parts) > 1:  # interleave: for four rows first (0, 2) and (1, 3), then the two results
        half, m = len(parts) // 2, parts[0].type.count
        order = numbers(I32, [x for lane in range(m) for x in (lane, m + lane)])
        parts = [b.shuffle_vector(parts[i], parts[i + half], order) for i in range(half)]
    b.store(parts[0], pointer(b, address, parts[0].type), align=1)


class Piece(NamedTuple):
    """Lanes whose data are moved together."""

    lane: int
    """lane of the first element"""
    lanes: int
    step: int
    """distance of its address from that of lane 0"""
    alike: bool
    """true if the lanes have the same address; otherwise, they are contiguous"""


def pieces_of(steps: Sequence[int], size: int, *, alike: bool) -> list[Piece]:
    """Return the pieces of lanes with these distances and `size` bytes each; with `alike`, lanes of a piece may have
    one address."""

    def of(lane: int, n: int) -> list[Piece]:
        own = [step - steps[lane] for step in steps[lane : lane + n]]
        if own == [k * size for k in range(n)] or (alike and not any(own)):
            return [Piece(lane, n, steps[lane], n > 1 and not any(own))]
        return of(lane, n // 2) + of(lane + n // 2, n // 2)

    return of(0, LANES)


def load_pieces(b: Builder, first: Value, n: int, e: Any, pieces: Sequence[Piece]) -> list[Value]:
    """Load the rows of vectors of n elements; the vector of lane 0 is at `first`."""
    loaded: list[list[Value]] = []
    for piece in pieces:
        at = b.add(first, I64(piece.step))
        if piece.alike:
            each = (b.add(at, I64(j * e.width // 8)) for j in range(n))
            rows = [splat(b, b.load(pointer(b, one, e), align=1), piece.lanes) for one in each]
        else:
            rows = load_side_by_side(b, at, n, e, piece.lanes)
        loaded.append(rows)
        while len(loaded) > 1 and loaded[-1][0].type.count == loaded[-2][0].type.count:
            high, low = loaded.pop(), loaded.pop()
            order = numbers(I32, range(2 * low[0].type.count))
            loaded.append([b.shuffle_vector(*both, order) for both in zip(low, high, strict=True)])
    return loaded[0]


def store_pieces(b: Builder, first: Value, parts: Sequence[Value], pieces: Sequence[Piece]) -> None:
    """Store pieces, in the order of lanes: the inverse of the load."""
    for piece in pieces:
        lanes = numbers(I32, range(piece.lane, piece.lane + piece.lanes))
        own = [b.shuffle_vector(part, part, lanes) for part in parts]
        store_side_by_side(b, b.add(first, I64(piece.step)), own)


def move_lane(b: Builder, name: str, registers: Value, d: Value, a: Value, delta: Value, lane: Value) -> None:
    """Move the data of one lane of the access `name`; its host address is row a + delta."""
    store, size, n = memory_shape(name)
    e = ELEMENT[f"b{8 * size}"]
    address = b.add(b.load(pointer(b, b.add(b.add(registers, a), b.shl(lane, I64(3))), I64)), delta)
    for j in range(n):
        row = b.add(registers, b.add(d, I64(j * ROW)))
        register = pointer(b, b.add(row, b.mul(lane, I64(size))), e)
        memory = pointer(b, b.add(address, I64(j * size)), e)
        if store:
            b.store(b.load(register), memory, align=1)
        else:
            b.store(b.load(memory, align=1), register)


def transfer(
    b: Builder,
    name: str,
    pattern: Value,
    registers: Value,
    d: Value,
    a: Value,
    delta: Value,
    mask: Value,
    *,
    quarters: bool = False,
) -> None:
    """Move the data of one access whose addresses are valid: a lane's host address is row a + delta.

    `mask` is an i32. With `quarters`, the pattern may also be one of QUARTERS and ALIKE.
    """
    store, size, n = memory_shape(name)
    t = f"b{8 * size}"
    e = ELEMENT[t]
    rows = [b.add(registers, b.add(d, I64(j * ROW))) for j in range(n)]
    unit, one, rest, done = (b.function.append_basic_block(s) for s in ("unit", "one", "scattered", "moved"))

    def lane_address(lane: Value) -> Value:
        return b.add(b.load(pointer(b, b.add(b.add(registers, a), b.shl(lane, I64(3))), I64)), delta)

    choice = b.switch(pattern, rest)
    choice.add_case(I64(UNIT), unit)
    if not store:
        choice.add_case(I64(SAME), one)
    b.position_at_end(unit)
    places = [pointer(b, row, ir.VectorType(e, LANES)) for row in rows]
    if store:
        store_side_by_side(b, lane_address(I64(0)), [b.load(place, align=64) for place in places])
    else:
        for place, part in zip(places, load_side_by_side(b, lane_address(I64(0)), n, e), strict=True):
            b.store(part, place, align=64)
    b.branch(done)
    b.position_at_end(one)
    base = lane_address(b.zext(llvm(b, "llvm.cttz", I32, mask, I1(0)), I64))
    for j in range(0 if store else n):
        value = b.load(pointer(b, b.add(base, I64(j * size)), e), align=1)
        store_row(b, registers, b.add(d, I64(j * ROW)), t, splat(b, value), mask)
    b.branch(done)
    for way in (QUARTERS, ALIKE) if quarters and n != 3 else ():
        if way == ALIKE and store:
            continue
        block = b.function.append_basic_block("quarters")
        choice.add_case(I64(way), block)
        b.position_at_end(block)
        for first in range(0, LANES, LANES // 4):
            places = [b.add(row, I64(first * size)) for row in rows]
            _move_quarter(b, store, e, lane_address(I64(first)), places, way == ALIKE)
        b.branch(done)
    b.position_at_end(rest)

    def move(lane: Value) -> None:
        move_lane(b, name, registers, d, a, delta, lane)

    each_lane(b, mask, move, at_once=(size, n) in AT_ONCE)
    b.branch(done)
    b.position_at_end(done)


def _move_quarter(b: Builder, store: bool, e: Any, address: Value, rows: list[Value], alike: bool) -> None:
    """Move the data of eight lanes, of which the first lane's are at `address`."""
    places = [pointer(b, row, ir.VectorType(e, LANES // 4)) for row in rows]
    if store:
        store_side_by_side(b, address, [b.load(place, align=8) for place in places])
        return
    if alike:
        each = (b.add(address, I64(j * e.width // 8)) for j in range(len(rows)))
        parts = [splat(b, b.load(pointer(b, one, e), align=1), LANES // 4) for one in each]
    else:
        parts = load_side_by_side(b, address, len(rows), e, LANES // 4)
    for place, part in zip(places, parts, strict=True):
        b.store(part, place, align=8)


@emitted
def load_store(
    b: Builder, opcode: Value, pattern: Value, registers: Value, d: Value, a: Value, delta: Value, mask: Value
) -> None:
    """Call `transfer` for any load or store."""
    mask = resize(b, mask, I32, False)

    def case(name: str) -> None:
        transfer(b, name, pattern, registers, d, a, delta, mask)

    switch(b, opcode, MEMORY_NAMES, case, nothing)


@emitted
def move_lanes(b: Builder, opcode: Value, registers: Value, d: Value, a: Value, delta: Value, mask: Value) -> None:
    """Move the data of any load or store lane by lane, in less code than `load_store`; a lane's host address is row a +
    delta."""
    mask = resize(b, mask, I32, False)

    def case(name: str) -> None:
        lane_loop(b, mask, lambda lane: move_lane(b, name, registers, d, a, delta, lane))

    switch(b, opcode, MEMORY_NAMES, case, nothing)


def _combine(b: Builder, what: str, old: Value, operand: Value) -> Value:
    """Return the value that an atomic stores, for atomics that LLVM's atomicrmw does not have."""
    if what == "inc":
        return b.select(b.icmp_unsigned(">=", old, operand), same(old, 0), b.add(old, same(old, 1)))
    if what == "dec":
        wrap = b.or_(b.icmp_unsigned("==", old, same(old, 0)), b.icmp_unsigned(">", old, operand))
        return b.select(wrap, operand, b.sub(old, same(old, 1)))
    if what == FLUSHING_ADD:
        return _flushing_sum(b, old, operand)
    if what == "add.f":
        return _SUM(b, old, operand)
    relation = ">" if what.endswith("min.f") else "<"  # min.f, nanmin.f; max.f, nanmax.f
    if not what.startswith("nan"):
        return b.select(b.fcmp_ordered(relation, old, operand), operand, old)
    number = b.fcmp_ordered("ord", operand, operand)
    return b.select(b.and_(number, b.fcmp_unordered(relation, old, operand)), operand, old)


_SUM = canonical(lambda b, x, y: b.fadd(x, y), (1, 0))
ATOMIC_RMW = {
    "add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg",
    "min.s": "min", "max.s": "max", "min.u": "umin", "max.u": "umax",
}  # fmt: skip


def _flushing_sum(b: Builder, x: Value, y: Value) -> Value:
    def flush_result(value: Value) -> Value:
        bits = b.bitcast(value, I32)
        small = b.icmp_unsigned("==", b.and_(bits, I32(0x7F800000)), I32(0))
        return b.bitcast(b.select(small, b.and_(bits, I32(1 << 31)), bits), x.type)

    total = flush_result(b.fadd(flush_result(x), flush_result(y)))
    nan = b.bitcast(I32(0x7FFFFFFF), x.type)
    return b.select(b.fcmp_unordered("uno", total, total), nan, total)


def _combine_halves(b: Builder, name: str, old: Value, operand: Value) -> Value:
    """Combine values of f16 or bf16, or pairs of them."""
    what, type_ = ATOMICS[name][0].removesuffix(".f"), HALVES[name]
    result = I64(0)
    for shift in range(0, 8 * SIZE[ATOMICS[name][1]], 16):
        x, y = (b.and_(b.lshr(b.zext(v, I64), I64(shift)), I64(0xFFFF)) for v in (old, operand))
        part = b.and_(combined_floats(b, what, type_, x, y), I64(0xFFFF))
        result = b.or_(result, b.shl(part, I64(shift)))
    return b.trunc(result, old.type)


def _compare_exchange_loop(b: Builder, what: str, place: Value, t: str, operand: Value) -> Value:
    """Return the old value of an atomic built from compare-and-swap; `what` is its name if that is more specific."""
    e = ELEMENT[t]
    bits = ir.IntType(8 * SIZE[t])
    as_bits = b.bitcast(place, bits.as_pointer())
    function, before = b.function, b.block
    head, end = function.append_basic_block("swap"), function.append_basic_block("swapped")
    start = b.load(as_bits)
    b.branch(head)
    b.position_at_end(head)
    old = b.phi(bits)
    old.add_incoming(start, before)
    value = b.bitcast(old, e) if e != bits else old
    new = _combine_halves(b, what, value, operand) if what in HALVES else _combine(b, what, value, operand)
    result = b.cmpxchg(as_bits, old, b.bitcast(new, bits) if e != bits else new, "seq_cst")
    old.add_incoming(b.extract_value(result, 0), b.block)
    b.cbranch(b.extract_value(result, 1), end, head)
    b.position_at_end(end)
    return value


@emitted
def atomic(
    b: Builder, opcode: Value, registers: Value, d: Value, a: Value, x: Value, y: Value, delta: Value, mask: Value
) -> None:
    """Execute an atomic at valid addresses, lane by lane: a lane's host address is row a + delta."""
    mask = resize(b, mask, I32, False)

    def case(name: str) -> None:
        what, t = ATOMICS[name]
        e, size = ELEMENT[t], SIZE[t]

        def one_lane(lane: Value) -> None:
            def place(offset: Value, kind: Any, bytes_: int) -> Value:
                return pointer(b, b.add(b.add(registers, offset), b.mul(lane, I64(bytes_))), kind)

            target = pointer(b, b.add(b.load(place(a, I64, 8)), delta), e)
            operand = b.load(place(x, e, size))
            if what == "cas":
                old = b.extract_value(b.cmpxchg(target, operand, b.load(place(y, e, size)), "seq_cst"), 0)
            elif what in ATOMIC_RMW and name not in (*HALVES, FLUSHING_ADD):
                old = b.atomic_rmw(ATOMIC_RMW[what], target, operand, "seq_cst")
            else:
                old = _compare_exchange_loop(b, name if name in (*HALVES, FLUSHING_ADD) else what, target, t, operand)
            b.store(old, place(d, e, size))

        lane_loop(b, mask, one_lane)

    switch(b, opcode, tuple(ATOMICS), case, nothing)
