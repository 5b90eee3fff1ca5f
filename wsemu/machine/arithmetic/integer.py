"""Integer operations: shifts, quotients, products, bit fields, and the address of an array element."""

from __future__ import annotations

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    I1,
    I8,
    I32,
    I64,
    Body,
    Builder,
    Value,
    choose_bit,
    constant,
    element,
    like,
    llvm,
    resize,
    same,
    width,
)
from wsemu.model.isa import ADDRESS_OUT, ADDRESS_WRAPPED, INDEX_BIAS, SEGMENT_SHIFT


def shift_left(b: Builder, x: Value, n: Value) -> Value:
    w = width(x)
    return b.select(b.icmp_unsigned(">=", n, same(n, w)), same(x, 0), b.shl(x, n))


def shift_right(signed: bool) -> Body:
    def body(b: Builder, x: Value, n: Value) -> Value:
        w = width(x)
        beyond = b.icmp_unsigned(">=", n, same(n, w))
        if signed:
            return b.ashr(x, b.select(beyond, same(n, w - 1), n))
        return b.select(beyond, same(x, 0), b.lshr(x, n))

    return body


def min_max(relation: str, signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        return b.select((b.icmp_signed if signed else b.icmp_unsigned)(relation, x, y), x, y)

    return body


def _safe_divisor(b: Builder, x: Value, y: Value, signed: bool) -> tuple[Value, Value, Value]:
    """Return y without the values that trap, whether y == 0, and whether the operation is MIN / -1."""
    zero = b.icmp_unsigned("==", y, same(y, 0))
    safe = b.select(zero, same(y, 1), y)
    overflow = ir.Constant(I1, 0)
    if signed:
        least = b.icmp_signed("==", x, same(x, -(1 << (width(x) - 1))))
        overflow = b.and_(least, b.icmp_signed("==", y, same(y, -1)))
        safe = b.select(overflow, same(y, 1), safe)
    return safe, zero, overflow


def divide(what: str, signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        safe, zero, _ = _safe_divisor(b, x, y, signed)
        if what == "div":
            return b.select(zero, same(x, -1), (b.sdiv if signed else b.udiv)(x, safe))
        return b.select(zero, same(x, -1), (b.srem if signed else b.urem)(x, safe))

    return body


def floor_divide(what: str, signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        safe, zero, overflow = _safe_divisor(b, x, y, signed)
        quotient = (b.sdiv if signed else b.udiv)(x, safe)
        remainder = b.sub(x, b.mul(quotient, safe))
        if signed:
            inexact = b.icmp_signed("!=", remainder, same(x, 0))
            opposite = b.icmp_signed("<", b.xor(remainder, safe), same(x, 0))
            adjust = b.and_(inexact, opposite)
            quotient = b.select(adjust, b.sub(quotient, same(x, 1)), quotient)
            remainder = b.select(adjust, b.add(remainder, safe), remainder)
        return b.select(b.or_(zero, overflow), same(x, 0), quotient if what == "div" else remainder)

    return body


def wide_product(signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        double = ir.IntType(2 * width(x))
        return b.mul(resize(b, x, double, signed), resize(b, y, double, signed))

    return body


def high_product(signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        product = wide_product(signed)(b, x, y)
        return b.trunc(b.lshr(product, same(product, width(x))), x.type)

    return body


def count_bits(what: str) -> Body:
    def body(b: Builder, x: Value) -> Value:
        if what == "brev":
            return llvm(b, "llvm.bitreverse", x.type, x)
        if what == "popc":
            return resize(b, llvm(b, "llvm.ctpop", x.type, x), I32, False)
        if what == "clz":
            return resize(b, llvm(b, "llvm.ctlz", x.type, x, I1(0)), I32, False)
        lowest = b.add(llvm(b, "llvm.cttz", x.type, x, I1(0)), same(x, 1))
        return resize(b, b.select(b.icmp_unsigned("==", x, same(x, 0)), same(x, 0), lowest), I32, False)

    return body


def _field(b: Builder, x: Value, *counts: Value) -> list[Value]:
    """Return position and length operands: their low 8 bits, extended to the width of x."""
    return [resize(b, b.and_(n, same(n, 255)), element(x.type), False) for n in counts]


def _low_bits(b: Builder, x: Value, n: Value) -> Value:
    return b.sub(shift_left(b, same(x, 1), n), same(x, 1))


def extract_field(signed: bool) -> Body:
    def body(b: Builder, x: Value, position: Value, length: Value) -> Value:
        position, length = _field(b, x, position, length)
        if not signed:
            return b.and_(shift_right(False)(b, x, position), _low_bits(b, x, length))
        w = same(x, width(x))
        end = b.add(position, length)
        end = b.select(b.icmp_unsigned(">", end, w), w, end)
        up = b.sub(w, end)
        moved = shift_right(True)(b, shift_left(b, x, up), b.add(up, position))
        return b.select(b.icmp_unsigned("==", length, same(x, 0)), same(x, 0), moved)

    return body


def insert_field(b: Builder, x: Value, into: Value, position: Value, length: Value) -> Value:
    position, length = _field(b, x, position, length)
    mask = shift_left(b, _low_bits(b, x, length), position)
    return b.or_(b.and_(into, b.not_(mask)), b.and_(shift_left(b, x, position), mask))


def permute_bytes(b: Builder, x: Value, y: Value, selector: Value) -> Value:
    both = b.or_(resize(b, x, I64, False), b.shl(resize(b, y, I64, False), constant(like(x.type, I64), 32)))
    result = same(x, 0)
    for k in range(4):
        nibble = b.lshr(selector, same(x, 4 * k))
        place = resize(b, b.shl(b.and_(nibble, same(x, 7)), same(x, 3)), I64, False)
        byte = resize(b, b.lshr(both, place), I8, False)
        filled = b.select(choose_bit(b, nibble, same(x, 8)), b.ashr(byte, same(byte, 7)), byte)
        result = b.or_(result, b.shl(resize(b, filled, I32, False), same(x, 8 * k)))
    return result


def index_address(signed: bool) -> Body:
    """Return the body for the address of an index that may be outside; `alu` has the usual case (`_index_case`)."""

    def body(b: Builder, index: Value, extent: Value, stride: Value, base: Value) -> Value:
        return _flagged_address(b, resize(b, index, I64, signed), extent, stride, base, signed)

    return body


def _flagged_address(b: Builder, i: Value, extent: Value, stride: Value, base: Value, signed: bool) -> Value:
    flag = same(i, 0)
    if signed:
        negative = b.icmp_signed("<", i, same(i, 0))
        i = b.select(negative, b.add(i, extent), i)
        flag = b.select(negative, same(i, ADDRESS_WRAPPED), same(i, 0))
    address = b.or_(b.add(base, b.mul(i, stride)), flag)
    original = b.select(b.icmp_unsigned("!=", flag, same(i, 0)), b.sub(i, extent), i)
    low, high = same(i, -INDEX_BIAS), same(i, INDEX_BIAS - 1)
    clamped = b.select(b.icmp_signed("<", original, low), low, original)
    clamped = b.select(b.icmp_signed(">", clamped, high), high, clamped)
    told = b.shl(b.add(clamped, same(i, INDEX_BIAS)), same(i, SEGMENT_SHIFT))
    out = b.or_(told, same(i, ADDRESS_OUT | 1 << (SEGMENT_SHIFT - 1)))
    out = b.select(b.icmp_unsigned(">=", base, same(i, ADDRESS_OUT)), base, out)  # keep the first index outside
    return b.select(b.icmp_unsigned(">=", i, extent), out, address)
