"""Emit LLVM code that computes the sums of a tile of up to 16 x 8 elements.  Its vectors hold the 8 columns of a row,
or the 32 lanes of a register.

The operands of a tile are in a buffer (`BUFFER`), with each number separated into signed significand, exponent and
class (infinity or nan); next to these is the number as an f32.  In `a`, the element of register r, part x and lane l
has index ((r parts + x) 32 + l).  In `b`, row q = (register parts + x) 4 + t has 8 columns in the order `COLUMNS`,
which is their order in two registers of an accumulator.  An index k of the product is a triple (register of b, part,
t).  It belongs to the element (row g + 8 h) of `a` in register h + halves * group of lane 4 g + t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import I1, I32, I64, Builder, Value, llvm, pointer, resize, splat
from wsemu.machine.lowering import emitted
from wsemu.machine.matrix.shapes import (
    A_CLASS,
    A_EXPONENT,
    A_SIGNIFICAND,
    A_VALUE,
    B_CLASS,
    B_EXPONENT,
    B_SIGNIFICAND,
    B_VALUE,
    BEFORE,
    COLUMNS,
    KEPT,
    NUMBERS_ALONE,
    SUMS,
    N,
)
from wsemu.model.isa import LANES
from wsemu.model.matrix import LEAST_TOP

NOTHING = -20_000
"""exponent that represents zero: lower than the exponent of every product of other numbers"""
INFINITE, NAN, ABSENT = 1, 2, 3
"""classes of elements of `a` and `b`; absent ones of a sparse `a` multiply nothing"""
ENDLESS, SMALL = 1, 2
"""flags of an operand: some element is not finite; some element is a subnormal f32"""
LEAST_PLAIN, MOST_PLAIN = -100, 120
"""largest exponents of sums whose terms are normal numbers of f32"""
V8, V32 = ir.VectorType(I32, N), ir.VectorType(I32, LANES)
V8W, V8D, V32D = ir.VectorType(I64, N), ir.VectorType(ir.DoubleType(), N), ir.VectorType(ir.DoubleType(), LANES)
F32 = ir.FloatType()
V8F = ir.VectorType(F32, N)


class _Loop:
    """The state of a counted loop: the number of the current iteration, and the values that an iteration passes to the
    next."""

    def __init__(self, number: Value, values: list[Value]) -> None:
        self.number, self.values, self.then = number, values, values


@contextmanager
def _loop(b: Builder, start: Value, stop: Value, *values: Value) -> Iterator[_Loop]:
    """Emit a loop whose body may run zero times.  The body assigns the values of the next iteration to `then`; after
    the loop, `values` are those of the last iteration."""
    before = b.block
    head, body, end = (b.function.append_basic_block(name) for name in ("loop", "turn", "turned"))
    b.branch(head)
    b.position_at_end(head)
    held = [b.phi(value.type) for value in (start, *values)]
    for phi, value in zip(held, (start, *values), strict=True):
        phi.add_incoming(value, before)
    b.cbranch(b.icmp_signed("<", held[0], stop), body, end)
    b.position_at_end(body)
    loop = _Loop(held[0], held[1:])
    yield loop
    for phi, value in zip(held, (b.add(held[0], I64(1)), *loop.then), strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(end)


@contextmanager
def counted_loop(b: Builder, start: Value, stop: Value) -> Iterator[Value]:
    """Emit a loop over numbers, whose body may run zero times."""
    with _loop(b, start, stop) as loop:
        yield loop.number


def _all(b: Builder, value: Value, n: int) -> Value:
    """Return a vector that has a number in all its 32-bit elements."""
    return splat(b, resize(b, value, I32, True), n)


def _constant(vector: Any, value: int) -> Value:
    return ir.Constant(vector, [value] * vector.count)


def _at(b: Builder, address: Value, offset: Value, type_: Any) -> Value:
    return pointer(b, b.add(address, offset), type_)


class _Taken:
    """A vector of floating-point numbers, separated into signed significands, exponents and classes."""

    def __init__(
        self, b: Builder, x: Value, mantissa: Value, exponents: Value, bias: Value, infinite: Value, normal: Value
    ) -> None:
        """Separate `x`.  `mantissa` is the number of mantissa bits, `exponents` an exponent field of all ones.  If
        `normal` is set, subnormal numbers are represented like numbers of a wider type."""
        n = x.type.count
        zero = _constant(x.type, 0)
        width = _all(b, mantissa, n)
        hidden = b.shl(_constant(x.type, 1), width)
        man = b.and_(x, b.sub(hidden, _constant(x.type, 1)))
        ones = _all(b, exponents, n)
        field = b.and_(b.lshr(x, width), ones)
        top = b.lshr(x, width)
        negative = b.icmp_unsigned(">", top, ones)
        small = b.icmp_unsigned("==", field, zero)
        size = b.select(small, man, b.or_(man, hidden))
        exponent = b.sub(b.select(small, _constant(x.type, 1), field), _all(b, bias, n))
        wide = llvm(b, "llvm.ctlz", x.type, size, I1(0))
        up = b.sub(wide, b.sub(_constant(x.type, 31), width))
        up = b.select(b.and_(small, splat(b, b.icmp_unsigned("!=", normal, I64(0)), n)), up, zero)
        up = b.select(b.icmp_unsigned("==", size, zero), zero, up)
        exponent, size = b.sub(exponent, up), b.shl(size, up)
        full = b.icmp_unsigned("==", field, ones)
        nothing = b.icmp_unsigned("==", man, zero)
        has = splat(b, b.icmp_unsigned("!=", infinite, I64(0)), n)
        kind = b.select(nothing, _constant(x.type, INFINITE), _constant(x.type, NAN))
        all_set = b.icmp_unsigned("==", man, b.sub(hidden, _constant(x.type, 1)))
        kind = b.select(has, kind, b.select(all_set, _constant(x.type, NAN), zero))
        numbers = splat(b, b.icmp_unsigned("==", infinite, I64(NUMBERS_ALONE)), n)
        kind = b.select(numbers, zero, kind)
        self.kind = b.select(full, kind, zero)
        self.exponent = b.select(b.icmp_unsigned("==", size, zero), _constant(x.type, NOTHING), exponent)
        self.significand = b.select(negative, b.neg(size), size)
        wide_exponent = splat(b, b.icmp_unsigned("==", exponents, I64(255)), n)
        self.is_subnormal = b.and_(b.and_(small, wide_exponent), b.icmp_unsigned("!=", man, zero))
        self.value = _float_bits(b, self, x, mantissa, wide_exponent)


def _float_bits(b: Builder, taken: _Taken, x: Value, mantissa: Value, wide_exponent: Value) -> Value:
    """Return the bits of an f32 that is equal to a number, if it is finite.  `wide_exponent` is set for types with the
    exponents of f32: theirs are its upper bits."""
    n = x.type.count
    floats = ir.VectorType(F32, n)
    unit = b.sub(b.add(taken.exponent, _constant(x.type, 127)), _all(b, mantissa, n))
    unit = b.select(b.icmp_unsigned("==", taken.significand, _constant(x.type, 0)), _constant(x.type, 0), unit)
    scale = b.bitcast(b.shl(unit, _constant(x.type, 23)), floats)
    narrow = b.bitcast(b.fmul(b.sitofp(taken.significand, floats), scale), x.type)
    upper = b.shl(x, _all(b, b.sub(I64(23), mantissa), n))
    return b.select(wide_exponent, upper, narrow)


def _any(b: Builder, kinds: Value) -> Value:
    """Return 1 if some element is not 0."""
    bits = b.bitcast(b.icmp_unsigned("!=", kinds, _constant(kinds.type, 0)), ir.IntType(kinds.type.count))
    return b.zext(b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)), I64)


def _columns(lane: Callable[[int], int]) -> Value:
    return ir.Constant(V8, [lane(column) for column in COLUMNS])


def _put_a(b: Builder, to: Value, offset: int, at: Value, value: Value) -> None:
    b.store(value, _at(b, to, b.add(I64(offset), b.mul(at, I64(4 * LANES))), V32), align=4)


def _put_b(b: Builder, to: Value, offset: int, at: Value, value: Value) -> None:
    for t in range(4):
        row = b.shuffle_vector(value, value, _columns(lambda n, t=t: 4 * n + t))  # type: ignore[misc]
        place = b.add(b.mul(b.add(b.mul(at, I64(4)), I64(t)), I64(4 * N)), I64(offset))
        b.store(row, _at(b, to, place, V8), align=4)


def _part(b: Builder, row: Value, part: Value, width: Value) -> Value:
    """Return one element of each lane's register, with the bits above it cleared."""
    shift = _all(b, b.mul(part, width), LANES)
    spare = _all(b, b.sub(I64(32), width), LANES)
    return b.lshr(b.shl(b.lshr(row, shift), spare), spare)


@emitted
def take_floats(
    b: Builder, row: Value, to: Value, first: Value, parts: Value, width: Value, dropped: Value, of_b: Value,
    mantissa: Value, exponents: Value, bias: Value, infinite: Value, normal: Value,
) -> Value:  # fmt: skip
    """Separate the floating-point numbers in a register of `a` or `b`, part by part, beginning at index `first`.
    Return flags: ENDLESS, SMALL."""
    held = b.load(pointer(b, row, V32), align=4)
    with _loop(b, I64(0), parts, I64(0)) as loop:
        part = loop.number
        x = b.lshr(_part(b, held, part, width), _all(b, dropped, LANES))
        taken = _Taken(b, x, mantissa, exponents, bias, infinite, normal)
        at = b.add(first, part)
        values = (taken.significand, taken.exponent, taken.kind, taken.value)
        with b.if_else(b.icmp_unsigned("!=", of_b, I64(0))) as (is_b, is_a):
            with is_b:
                for offset, value in zip((B_SIGNIFICAND, B_EXPONENT, B_CLASS, B_VALUE), values, strict=True):
                    _put_b(b, to, offset, at, value)
            with is_a:
                for offset, value in zip((A_SIGNIFICAND, A_EXPONENT, A_CLASS, A_VALUE), values, strict=True):
                    _put_a(b, to, offset, at, value)
        small = b.mul(_any(b, b.zext(taken.is_subnormal, V32)), I64(SMALL))
        loop.then = [b.or_(b.or_(loop.values[0], _any(b, taken.kind)), small)]
    return loop.values[0]


@emitted
def take_integers(
    b: Builder, row: Value, to: Value, first: Value, parts: Value, width: Value, signed: Value, of_b: Value
) -> None:
    """Separate the integers in a register of `a` or `b`, part by part, beginning at index `first`."""
    held = b.load(pointer(b, row, V32), align=4)
    spare = _all(b, b.sub(I64(32), width), LANES)
    with counted_loop(b, I64(0), parts) as part:
        x = b.shl(_part(b, held, part, width), spare)
        x = b.select(splat(b, b.icmp_unsigned("!=", signed, I64(0))), b.ashr(x, spare), b.lshr(x, spare))
        at = b.add(first, part)
        with b.if_else(b.icmp_unsigned("!=", of_b, I64(0))) as (is_b, is_a):
            with is_b:
                _put_b(b, to, B_SIGNIFICAND, at, x)
            with is_a:
                _put_a(b, to, A_SIGNIFICAND, at, x)


@emitted
def take_doubles(b: Builder, row: Value, to: Value, first: Value, of_b: Value) -> None:
    """Separate the f64 numbers in a register of `a` or `b`, beginning at index `first`."""
    held = b.load(pointer(b, row, V32D), align=8)
    with b.if_else(b.icmp_unsigned("!=", of_b, I64(0))) as (is_b, is_a):
        with is_b:
            for t in range(4):
                x = b.shuffle_vector(held, held, _columns(lambda n, t=t: 4 * n + t))  # type: ignore[misc]
                place = b.mul(b.add(b.mul(first, I64(4)), I64(t)), I64(8 * N))
                b.store(x, _at(b, to, b.add(place, I64(B_SIGNIFICAND)), V8D), align=8)
        with is_a:
            place = b.add(b.mul(first, I64(8 * LANES)), I64(A_SIGNIFICAND))
            b.store(held, _at(b, to, place, V32D), align=8)


# -- accumulators ----------------------------------------------------------------------------------------------------


def _pair(b: Builder, low: Value, high: Value) -> Value:
    return b.shuffle_vector(low, high, ir.Constant(V8, list(range(N))))


def _half(b: Builder, whole: Value, first: int) -> Value:
    return b.shuffle_vector(whole, whole, ir.Constant(ir.VectorType(I32, 4), list(range(first, first + 4))))


@emitted
def load_sums(b: Builder, row: Value, to: Value, halves: Value, bytes_: Value) -> None:
    """Load accumulators of 2, 4 or 8 bytes from consecutive registers, beginning at `row`, into the buffer."""
    with counted_loop(b, I64(0), b.mul(halves, I64(8))) as i:
        half, g = b.lshr(i, I64(3)), b.and_(i, I64(7))
        end = b.function.append_basic_block("loaded")
        choice = b.switch(bytes_, end)
        for size in (2, 4, 8):
            block = b.function.append_basic_block(f"load{size}")
            choice.add_case(I64(size), block)
            b.position_at_end(block)
            four = ir.VectorType(I64 if size == 8 else I32, 4)
            first = b.mul(half, I64(256 if size == 2 else 512))
            place = b.add(first, b.mul(g, I64(32 if size == 8 else 16)))
            low = b.load(_at(b, row, place, four), align=8)
            if size == 2:
                high = b.lshr(low, _constant(four, 16))
                low = b.and_(low, _constant(four, 0xFFFF))
            else:
                high = b.load(_at(b, row, b.add(place, I64(256)), four), align=8)
            both = _pair(b, low, high)
            offset = b.add(b.mul(i, I64((8 if size == 8 else 4) * N)), I64(SUMS))
            b.store(both, _at(b, to, offset, both.type), align=8)
            b.branch(end)
        b.position_at_end(end)


@emitted
def store_sums(b: Builder, row: Value, to: Value, halves: Value, bytes_: Value, mask: Value) -> None:
    """Store the accumulators in the buffer to registers, for the lanes of `mask`."""
    with counted_loop(b, I64(0), b.mul(halves, I64(8))) as i:
        half, g = b.lshr(i, I64(3)), b.and_(i, I64(7))
        lanes = b.trunc(b.lshr(mask, b.mul(g, I64(4))), ir.IntType(4))
        chosen = b.bitcast(lanes, ir.VectorType(I1, 4))
        end = b.function.append_basic_block("stored")
        choice = b.switch(bytes_, end)
        for size in (2, 4, 8):
            block = b.function.append_basic_block(f"store{size}")
            choice.add_case(I64(size), block)
            b.position_at_end(block)
            four = ir.VectorType(I64 if size == 8 else I32, 4)
            offset = b.add(b.mul(i, I64((8 if size == 8 else 4) * N)), I64(SUMS))
            both = b.load(_at(b, to, offset, ir.VectorType(four.element, N)), align=8)
            low, high = _half(b, both, 0), _half(b, both, 4)
            first = b.mul(half, I64(256 if size == 2 else 512))
            place = b.add(first, b.mul(g, I64(32 if size == 8 else 16)))
            values = [(place, low), (b.add(place, I64(256)), high)]
            if size == 2:
                values = [(place, b.or_(low, b.shl(high, _constant(four, 16))))]
            for at, value in values:
                target = _at(b, row, at, four)
                b.store(b.select(chosen, value, b.load(target, align=8)), target, align=8)
            b.branch(end)
        b.position_at_end(end)


# -- sums ------------------------------------------------------------------------------------------------------------


class _Walk:
    """Gives access to the elements for each k of a step, for one row of the tile."""

    def __init__(
        self, b: Builder, to: Value, i: Value, halves: Value, parts: Value, columns: Value | None = None
    ) -> None:
        """Walk over the row `i`.  `columns` is the address of the buffer with `b`; None means `to`."""
        self.b, self.to, self.halves, self.parts = b, to, halves, parts
        self.columns = to if columns is None else columns
        self.half, self.g = b.lshr(i, I64(3)), b.and_(i, I64(7))

    def places(self, group: Value, part: Value, t: int) -> tuple[Value, Value]:
        """Return the index of the element of `a`, and the index of the row of `b`."""
        b = self.b
        register = b.add(self.half, b.mul(self.halves, group))
        block = b.add(b.mul(register, self.parts), part)
        a = b.add(b.mul(block, I64(LANES)), b.add(b.mul(self.g, I64(4)), I64(t)))
        row = b.add(b.mul(b.add(b.mul(group, self.parts), part), I64(4)), I64(t))
        return a, row

    def a(self, offset: int, at: Value, type_: Any = I32) -> Value:
        b, size = self.b, 8 if type_ != I32 else 4
        return splat(b, b.load(_at(b, self.to, b.add(b.mul(at, I64(size)), I64(offset)), type_)), N)

    def row(self, offset: int, at: Value, type_: Any = V8) -> Value:
        b, size = self.b, 8 if type_ != V8 else 4
        place = b.add(b.mul(at, I64(size * N)), I64(offset))
        return b.load(_at(b, self.columns, place, type_), align=size)

    def exponent(self, group: Value, part: Value, t: int) -> Value:
        at, row = self.places(group, part, t)
        return self.b.add(self.a(A_EXPONENT, at), self.row(B_EXPONENT, row))

    def pair(self, group: Value, part: Value, t: int) -> tuple[Value, Value]:
        """Return the significands of the element of `a` and of the row of `b`."""
        at, row = self.places(group, part, t)
        return self.a(A_SIGNIFICAND, at), self.row(B_SIGNIFICAND, row)

    def plain_term(self, group: Value, part: Value, t: int, scale: Value) -> Value:
        """Return a product as a signed integer, in units of 1 / `scale`, cut toward zero.  All its factors are normal
        numbers of f32 or zero, and it has at most 24 bits: it is exact before it is cut."""
        b = self.b
        at, row = self.places(group, part, t)
        first, second = (b.bitcast(x, V8F) for x in (self.a(A_VALUE, at), self.row(B_VALUE, row)))
        return b.fptosi(b.fmul(b.fmul(first, second), scale), V8)

    def term(self, group: Value, part: Value, t: int, top: Value, up: Value) -> Value:
        """Return a product as a signed integer, without the bits that are too far below the exponent `top` to be
        kept."""
        b = self.b
        first, second = self.pair(group, part, t)
        product = b.mul(first, second)
        negative = b.ashr(product, _constant(V8, 31))
        size = b.shl(b.sub(b.xor(product, negative), negative), up)
        return _shift_magnitude(b, size, b.sub(top, self.exponent(group, part, t)), negative)


def _shift_magnitude(b: Builder, size: Value, distance: Value, negative: Value) -> Value:
    """Shift a magnitude right by `distance`, truncated toward zero, and apply its sign."""
    most = _constant(V8, 31)
    shifted = b.lshr(size, b.select(b.icmp_unsigned("<", distance, most), distance, most))
    return b.sub(b.xor(shifted, negative), negative)


def _encode_sum(b: Builder, total: Value, unit: Value, half: Value, fraction: Value) -> Value:
    """Convert integers, given exactly as doubles and multiplied by 2 ** unit, to floats.  They become f32 truncated to
    `fraction` bits, or f16 rounded to nearest even if `half` is set."""
    bits = b.bitcast(total, V8W)
    one = _constant(V8W, 1)

    def wide(value: Value) -> Value:
        return splat(b, value, N)

    def either(of_half: int, of_single: int) -> Value:
        return wide(b.select(b.icmp_unsigned("!=", half, I64(0)), I64(of_half), I64(of_single)))

    negative = b.lshr(bits, _constant(V8W, 63))
    exponent = b.sub(b.and_(b.lshr(bits, _constant(V8W, 52)), _constant(V8W, 0x7FF)), _constant(V8W, 1023))
    exponent = b.add(exponent, b.sext(unit, V8W))
    size = b.or_(b.and_(bits, _constant(V8W, (1 << 52) - 1)), _constant(V8W, 1 << 52))
    least = either(-14, -126)
    held = b.select(b.icmp_signed(">", exponent, least), exponent, least)
    keep = wide(b.select(b.icmp_unsigned("!=", half, I64(0)), I64(10), fraction))
    down = b.add(b.sub(_constant(V8W, 52), keep), b.sub(held, exponent))
    down = b.select(b.icmp_signed("<", down, _constant(V8W, 63)), down, _constant(V8W, 63))
    number = b.lshr(size, down)
    rest = b.sub(size, b.shl(number, down))
    middle = b.shl(one, b.sub(down, one))
    odd = b.icmp_unsigned("!=", b.and_(number, one), _constant(V8W, 0))
    up = b.or_(b.icmp_unsigned(">", rest, middle), b.and_(b.icmp_unsigned("==", rest, middle), odd))
    up = b.and_(up, splat(b, b.icmp_unsigned("!=", half, I64(0)), N))
    number = b.add(number, b.zext(up, V8W))
    field = either(10, 23)
    bias = either(14, 126)
    result = b.add(b.shl(b.add(held, bias), field), b.shl(number, b.sub(field, keep)))
    infinity = either(0x7C00, 0x7F800000)
    result = b.select(b.icmp_signed("<", result, infinity), result, infinity)
    nothing = b.icmp_unsigned("==", b.shl(bits, one), _constant(V8W, 0))
    gone = b.icmp_unsigned("==", result, _constant(V8W, 0))
    result = b.or_(result, b.shl(negative, either(15, 31)))
    return b.trunc(b.select(b.or_(nothing, gone), _constant(V8W, 0), result), V8)


@emitted
def add_floats(
    b: Builder, to: Value, columns: Value, halves: Value, parts: Value, group: Value, groups: Value, part: Value,
    to_part: Value, up: Value, bits: Value, half: Value, fraction: Value, plain: Value,
) -> Value:  # fmt: skip
    """Add the products of the registers from `group` to `groups`, and of the parts from `part` to `to_part`, to all
    accumulators.  Each product is shifted left by `up`, so that `bits` bits remain below the largest exponent.  With
    `half`, accumulators are f16.  `columns` is the address of the buffer with `b`.  `plain`: accumulators are f32, and
    no operand is subnormal as an f32 or not finite.  Return 1 if some accumulator was not finite."""
    ranges = (group, groups, part, to_part)
    with _loop(b, I64(0), b.mul(halves, I64(8)), I64(0)) as rows:
        i = rows.number
        place = b.mul(i, I64(4 * N))
        before = b.load(_at(b, to, b.add(place, I64(SUMS)), V8), align=4)
        b.store(before, _at(b, to, b.add(place, I64(BEFORE)), V8), align=4)
        walk = _Walk(b, to, i, halves, parts, columns)
        products = _largest_exponent(b, walk, ranges)
        field = b.and_(b.lshr(before, _constant(V8, 23)), _constant(V8, 255))
        top = _larger(b, products, b.sub(field, _constant(V8, 127)))
        inside = b.and_(
            b.icmp_signed(">=", top, _constant(V8, LEAST_PLAIN)), b.icmp_signed("<=", top, _constant(V8, MOST_PLAIN))
        )
        every = b.icmp_unsigned("==", b.bitcast(inside, ir.IntType(N)), ir.Constant(ir.IntType(N), (1 << N) - 1))
        target = _at(b, to, b.add(place, I64(SUMS)), V8)
        with b.if_else(b.and_(every, b.icmp_unsigned("!=", plain, I64(0)))) as (quick, careful):
            with quick:
                b.store(_sum_plainly(b, walk, ranges, before, top, bits), target, align=4)
                left = b.block
            with careful:
                result, kind = _sum_carefully(b, walk, ranges, before, products, (up, bits, half, fraction))
                b.store(result, target, align=4)
                endless, right = _any(b, kind), b.block
        found = b.phi(I64)
        found.add_incoming(I64(0), left)
        found.add_incoming(endless, right)
        rows.then = [b.or_(rows.values[0], found)]
    return rows.values[0]


# -- sums without rounding ---------------------------------------------------------------------------------------------

UNIT = 28
"""the lowest bit of a span represents 2 ** -UNIT"""
WIDEST = 8
"""maximum number of bits of a span whose products, and sums of them, f32 represents without rounding"""
V16F = ir.VectorType(F32, 16)


@emitted
def find_span(
    b: Builder, to: Value, significands: Value, exponents: Value, count: Value, mantissa: Value
) -> Value:  # fmt: skip
    """Return the bits that some element has, as fixed-point numbers of 64 bits; a negative number if some element needs
    others.  `count` is the number of elements in units of 8."""
    with _loop(b, I64(0), count, _constant(V8W, 0)) as loop:
        (found,) = loop.values
        place = b.mul(loop.number, I64(4 * N))
        x = b.load(_at(b, to, b.add(significands, place), V8), align=4)
        negative = b.ashr(x, _constant(V8, 31))
        size = b.sub(b.xor(x, negative), negative)
        up = b.load(_at(b, to, b.add(exponents, place), V8), align=4)
        up = b.add(up, _all(b, b.sub(I64(UNIT), mantissa), N))
        nothing = b.icmp_unsigned("==", size, _constant(V8, 0))
        inside = b.icmp_unsigned("<=", up, _all(b, b.sub(I64(62), mantissa), N))
        bits = b.shl(b.zext(size, V8W), b.zext(b.select(inside, up, _constant(V8, 0)), V8W))
        bits = b.select(inside, bits, _constant(V8W, -1 << 63))
        loop.then = [b.or_(found, b.select(nothing, _constant(V8W, 0), bits))]
    return llvm(b, "llvm.vector.reduce.or", I64, loop.values[0])


@emitted
def add_multiples(
    b: Builder, rows: Value, columns: Value, sums: Value, distance: Value, count: Value, adds: Value, low: Value
) -> Value:  # fmt: skip
    """Add products to 16 x 8 sums without rounding, and return 1; if some sum is not a small multiple of the products'
    unit, do nothing and return 0.

    `rows` is the address of `count` columns of 16 elements of `a`, `columns` that of the buffer with `b`.  A column of
    sums begins `distance` bytes after the previous one.  `low` is the lowest bit of the elements."""
    exponent = b.trunc(b.add(b.mul(b.sub(I64(UNIT), low), I64(2)), I64(127)), I32)
    scale = b.bitcast(splat(b, b.shl(exponent, I32(23)), 16), V16F)
    integers = splat(b, ir.Constant(F32, 1.5 * 2.0**23), 16)
    most = splat(b, ir.Constant(F32, 2.0**22), 16)
    keep = splat(b, b.icmp_unsigned("!=", adds, I64(0)), 16)
    places = [pointer(b, b.add(sums, b.mul(distance, I64(column))), V16F) for column in COLUMNS]
    good = ir.Constant(ir.VectorType(I1, 16), [1] * 16)
    before = []
    for place in places:
        held = b.select(keep, b.load(place, align=4), ir.Constant(V16F, [0.0] * 16))
        before.append(held)
        scaled = b.fmul(held, scale)
        whole = b.fcmp_ordered("==", b.fsub(b.fadd(scaled, integers), integers), scaled)
        small = b.fcmp_ordered("<=", llvm(b, "llvm.fabs", V16F, scaled), most)
        good = b.and_(good, b.and_(whole, small))
    every = b.icmp_unsigned("==", b.bitcast(good, ir.IntType(16)), ir.Constant(ir.IntType(16), 0xFFFF))
    with b.if_then(every):
        for first in (0, 4):
            with _loop(b, I64(0), count, *before[first : first + 4]) as loop:
                a = b.load(_at(b, rows, b.mul(loop.number, I64(64)), V16F), align=4)
                row = b.add(columns, b.add(b.mul(loop.number, I64(4 * N)), I64(B_VALUE)))
                then = []
                for q, total in enumerate(loop.values, first):
                    x = b.load(_at(b, row, I64(4 * q), F32), align=4)
                    then.append(b.fadd(total, b.fmul(a, splat(b, x, 16))))
                loop.then = then
            for place, total in zip(places[first : first + 4], loop.values, strict=True):
                b.store(b.fadd(total, ir.Constant(V16F, [0.0] * 16)), place, align=4)  # -0 becomes 0
    return b.zext(every, I64)


_Ranges = tuple[Value, Value, Value, Value]
"""first and last register, first and last part of the products that a step adds"""


def _larger(b: Builder, x: Value, y: Value) -> Value:
    return b.select(b.icmp_signed(">", x, y), x, y)


def _largest_exponent(b: Builder, walk: _Walk, ranges: _Ranges) -> Value:
    """Return the largest exponent of the products of a row, column by column."""
    group, groups, part, to_part = ranges
    with _loop(b, group, groups, _constant(V8, 2 * NOTHING)) as outer:
        with _loop(b, part, to_part, *outer.values) as inner:
            (top,) = inner.values
            for t in range(4):
                top = _larger(b, walk.exponent(outer.number, inner.number, t), top)
            inner.then = [top]
        outer.then = inner.values
    (top,) = outer.values
    return top


def _sum_terms(
    b: Builder, ranges: _Ranges, own: Value, term: Callable[[Value, Value, int], Value]
) -> tuple[Value, Value]:
    """Return two integers whose sum is that of all terms and `own`."""
    group, groups, part, to_part = ranges
    with _loop(b, group, groups, _constant(V8, 0), own) as outer:
        with _loop(b, part, to_part, *outer.values) as inner:
            sums = list(inner.values)
            for t in range(4):
                sums[t & 1] = b.add(sums[t & 1], term(outer.number, inner.number, t))
            inner.then = sums
        outer.then = inner.values
    even, odd = outer.values
    return even, odd


def _power(b: Builder, exponent: Value) -> Value:
    """Return powers of two as f32, for exponents of normal numbers."""
    return b.bitcast(b.shl(b.add(exponent, _constant(V8, 127)), _constant(V8, 23)), V8F)


def _sum_plainly(b: Builder, walk: _Walk, ranges: _Ranges, before: Value, top: Value, bits: Value) -> Value:
    """Return the sums of a row of which every term, once scaled, is a number of f32 or cut to zero: products are exact
    in f32, and the sum is a normal number or zero."""
    unit = b.sub(top, _all(b, bits, N))
    scale = _power(b, b.neg(unit))
    own = b.fptosi(b.fmul(b.bitcast(before, V8F), scale), V8)
    even, odd = _sum_terms(b, ranges, own, lambda group, part, t: walk.plain_term(group, part, t, scale))
    total = b.fadd(b.sitofp(even, V8D), b.sitofp(odd, V8D))
    cut = b.and_(b.bitcast(total, V8W), _constant(V8W, -1 << 29))
    single = b.fptrunc(b.bitcast(cut, V8D), V8F)
    return b.bitcast(b.fmul(single, _power(b, unit)), V8)


def _sum_carefully(
    b: Builder, walk: _Walk, ranges: _Ranges, before: Value, products: Value, how: tuple[Value, Value, Value, Value]
) -> tuple[Value, Value]:
    """Return the sums of a row of any numbers, and the classes of its accumulators."""
    up, bits, half, fraction = how

    def select_by_format(of_half: int, of_single: int) -> Value:
        return b.select(b.icmp_unsigned("!=", half, I64(0)), I64(of_half), I64(of_single))

    mantissa = select_by_format(10, 23)
    c = _Taken(b, before, mantissa, select_by_format(31, 255), select_by_format(15, 127), I64(1), I64(0))
    least = _all(b, select_by_format(LEAST_TOP["f16"], LEAST_TOP["f32"]), N)
    top = _larger(b, products, _larger(b, c.exponent, least))
    own, shift = _align_accumulator(b, c, top, bits, mantissa), _all(b, up, N)
    sums = _sum_terms(b, ranges, own, lambda group, part, t: walk.term(group, part, t, top, shift))
    even, odd = (b.sitofp(value, V8D) for value in sums)
    unit = b.sub(top, _all(b, bits, N))
    return _encode_sum(b, b.fadd(even, odd), unit, half, fraction), c.kind


def _align_accumulator(b: Builder, c: _Taken, top: Value, bits: Value, mantissa: Value) -> Value:
    """Return an accumulator as a signed integer, aligned to the exponent `top` of the sum."""
    negative = b.ashr(c.significand, _constant(V8, 31))
    size = b.sub(b.xor(c.significand, negative), negative)
    excess = b.sub(bits, mantissa)
    up = b.select(b.icmp_signed(">", excess, I64(0)), excess, I64(0))
    distance = b.add(b.sub(top, c.exponent), _all(b, b.sub(up, excess), N))
    return _shift_magnitude(b, b.shl(size, _all(b, up, N)), distance, negative)


@emitted
def add_integers(
    b: Builder, to: Value, columns: Value, halves: Value, parts: Value, groups: Value, how: Value, clamped: Value
) -> None:
    """Add all products to the accumulators.  With `how` 1 or 2, a product is the number of set bits in the exclusive
    or, or in the and, of its operands.  `columns` is the address of the buffer with `b`."""
    plain, exclusive = (splat(b, b.icmp_unsigned("==", how, I64(n)), N) for n in (0, 1))
    clamp = splat(b, b.icmp_unsigned("!=", clamped, I64(0)), N)
    with counted_loop(b, I64(0), b.mul(halves, I64(8))) as i:
        walk = _Walk(b, to, i, halves, parts, columns)
        with _loop(b, I64(0), groups, _constant(V8, 0)) as outer:
            with _loop(b, I64(0), parts, *outer.values) as inner:
                (total,) = inner.values
                for t in range(4):
                    first, second = walk.pair(outer.number, inner.number, t)
                    ones = b.select(exclusive, b.xor(first, second), b.and_(first, second))
                    count = llvm(b, "llvm.ctpop", V8, ones)
                    total = b.add(total, b.select(plain, b.mul(first, second), count))
                inner.then = [total]
            outer.then = inner.values
        place = _at(b, to, b.add(b.mul(i, I64(4 * N)), I64(SUMS)), V8)
        before, (total,) = b.load(place, align=4), outer.values
        held = llvm(b, "llvm.sadd.sat", V8, before, total)
        b.store(b.select(clamp, held, b.add(before, total)), place, align=4)


@emitted
def add_doubles(b: Builder, to: Value, halves: Value, groups: Value) -> None:
    """Multiply and add the products in order of k, each rounded to nearest even."""
    with counted_loop(b, I64(0), b.mul(halves, I64(8))) as i:
        walk = _Walk(b, to, i, halves, I64(1))
        place = _at(b, to, b.add(b.mul(i, I64(8 * N)), I64(SUMS)), V8D)
        with _loop(b, I64(0), groups, b.load(place, align=8)) as loop:
            (total,) = loop.values
            for t in range(4):
                at, row = walk.places(loop.number, I64(0), t)
                x = walk.a(A_SIGNIFICAND, at, ir.DoubleType())
                total = _fused_multiply_add(b, x, walk.row(B_SIGNIFICAND, row, V8D), total)
            loop.then = [total]
        b.store(loop.values[0], place, align=8)


def _fused_multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return x y + z.  A nan in y, z or x is the result, in this order of preference; without one, a nan is the
    canonical one."""
    result = llvm(b, "llvm.fma", V8D, x, y, z)
    nan = _constant(V8W, 0x7FF8000000000000)
    for operand in (x, z, y):
        quiet = b.or_(b.bitcast(operand, V8W), _constant(V8W, 1 << 51))
        nan = b.select(b.fcmp_unordered("uno", operand, operand), quiet, nan)
    return b.select(b.fcmp_unordered("uno", result, result), b.bitcast(nan, V8D), result)


# -- to nearest ------------------------------------------------------------------------------------------------------


@emitted
def keep_sums(b: Builder, to: Value, halves: Value) -> None:
    """Set the accumulators aside and restart them from 0."""
    with counted_loop(b, I64(0), b.mul(halves, I64(8))) as i:
        place = b.add(to, b.mul(i, I64(4 * N)))
        b.store(b.load(_at(b, place, I64(SUMS), V8), align=4), _at(b, place, I64(KEPT), V8), align=4)
        b.store(_constant(V8, 0), _at(b, place, I64(SUMS), V8), align=4)


@emitted
def add_kept(b: Builder, to: Value, halves: Value, half: Value) -> None:
    """Add the accumulators that were set aside, rounded to nearest even."""
    with counted_loop(b, I64(0), b.mul(halves, I64(8))) as i:
        place = b.add(to, b.mul(i, I64(4 * N)))
        target = _at(b, place, I64(SUMS), V8)
        x, y = b.load(target, align=4), b.load(_at(b, place, I64(KEPT), V8), align=4)
        with b.if_else(b.icmp_unsigned("!=", half, I64(0))) as (halves_, singles):
            with halves_:
                b.store(_sum_of_halves(b, x, y), target, align=4)
            with singles:
                single = ir.VectorType(ir.FloatType(), N)
                total = b.fadd(b.bitcast(x, single), b.bitcast(y, single))
                number = b.fcmp_ordered("ord", total, total)
                b.store(b.select(number, b.bitcast(total, V8), _constant(V8, 0x7FFFFFFF)), target, align=4)


def _sum_of_halves(b: Builder, x: Value, y: Value) -> Value:
    total = _constant(V8W, 0)
    infinite, nan = _constant(V8, 0), _constant(V8, 0)
    for bits in (x, y):
        taken = _Taken(b, bits, I64(10), I64(31), I64(15), I64(1), I64(0))
        up = b.add(taken.exponent, _constant(V8, 14))
        up = b.select(b.icmp_signed(">", up, _constant(V8, 0)), up, _constant(V8, 0))
        total = b.add(total, b.shl(b.sext(taken.significand, V8W), b.sext(up, V8W)))
        sign = b.select(b.icmp_signed("<", taken.significand, _constant(V8, 0)), _constant(V8, 2), _constant(V8, 1))
        endless = b.icmp_unsigned("==", taken.kind, _constant(V8, INFINITE))
        infinite = b.or_(infinite, b.select(endless, sign, _constant(V8, 0)))
        nan = b.or_(nan, b.and_(taken.kind, _constant(V8, NAN)))
    result = _encode_sum(b, b.sitofp(total, V8D), _constant(V8, -24), I64(1), I64(10))
    for kind, bits in ((1, 0x7C00), (2, 0xFC00), (3, 0x7FFF)):
        result = b.select(b.icmp_unsigned("==", infinite, _constant(V8, kind)), _constant(V8, bits), result)
    return b.select(b.icmp_unsigned("!=", nan, _constant(V8, 0)), _constant(V8, 0x7FFF), result)
