"""Floating point: results rounded once, the nans of the hardware, and the functions of the C library."""

from __future__ import annotations

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    F32,
    F64,
    I32,
    I64,
    Body,
    Builder,
    Value,
    declare_function,
    element,
    like,
    llvm,
    same,
)


def fused_multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return llvm(b, "llvm.fma", x.type, x, y, z)


def unary_intrinsic(name: str) -> Body:
    return lambda b, x: llvm(b, name, x.type, x)


CANONICAL_NAN = 0x7FFFFFFF
"""nan that arithmetic on f32 returns (PTX ISA, "Floating-Point Comparisons" and "Floating Point Instructions")"""


QUIET, MADE = 1 << 51, -0x8000000000000
"""for f64: the bit that arithmetic sets in a nan, and the nan that operations on numbers produce, as on an H200"""


def canonical(body: Body, order: tuple[int, ...] = ()) -> Body:
    """Return `body` with the hardware's nans.

    A nan result of f32 is the one canonical nan. A nan result of f64 is the nan of the first operand in `order` that is
    one, or a new nan (measured on an H200); without an order, it is the CPU's.
    """

    def result(b: Builder, *operands: Value) -> Value:
        r = body(b, *operands)
        if element(r.type) != F32:
            return _propagate_nan(b, r, [operands[n] for n in order]) if order else r
        return _with_nan(b, b.fcmp_unordered("uno", r, r), r)

    if order:
        NUMBERS[result] = body
    return result


NUMBERS: dict[Body, Body] = {}
"""body whose f64 nans come from its operands -> its variant for operands without nans"""


def _propagate_nan(b: Builder, r: Value, operands: list[Value]) -> Value:
    """Return r, or the hardware's nan instead; nans are rare, so they have a separate path."""
    u = b.bitcast(r, like(r.type, I64))
    nan = b.fcmp_unordered("uno", r, r)
    here, there, after = b.block, b.append_basic_block("nan"), b.append_basic_block("number")
    lanes = getattr(nan.type, "count", 1)
    any_ = b.icmp_unsigned("!=", b.bitcast(nan, ir.IntType(lanes)), ir.Constant(ir.IntType(lanes), 0))
    b.cbranch(any_, there, after)
    b.position_at_end(there)
    made = same(u, MADE)
    for x in reversed(operands):
        own = b.or_(b.bitcast(x, u.type), same(u, QUIET))
        made = b.select(b.fcmp_unordered("uno", x, x), own, made)
    made = b.select(nan, made, u)
    b.branch(after)
    b.position_at_end(after)
    found = b.phi(u.type)
    found.add_incoming(u, here)
    found.add_incoming(made, there)
    return b.bitcast(found, r.type)


def _with_nan(b: Builder, where: Value, r: Value) -> Value:
    """Return the canonical nan or r, selected as integers, because LLVM does not distinguish nans."""
    u = b.bitcast(r, like(r.type, I32))
    return b.bitcast(b.select(where, same(u, CANONICAL_NAN), u), r.type)


def square_root(b: Builder, x: Value) -> Value:
    r = llvm(b, "llvm.sqrt", x.type, x)
    if element(x.type) != F32:
        return _propagate_nan(b, r, [x])
    # tests bits: LLVM would simplify "a nan if x < 0, otherwise the root of x" to the root
    u = b.bitcast(r, like(r.type, I32))
    return _with_nan(b, b.icmp_signed(">", b.and_(u, same(u, 0x7FFFFFFF)), same(u, 0x7F800000)), r)


def flush_subnormal(b: Builder, x: Value) -> Value:
    u = b.bitcast(x, like(x.type, I32))
    tiny = b.icmp_unsigned("==", b.and_(u, same(u, 0x7F800000)), same(u, 0))
    return b.bitcast(b.select(tiny, b.and_(u, same(u, -0x80000000)), u), x.type)


def number_min_max(relation: str) -> Body:
    """Return IEEE minimumNumber or maximumNumber with -0 < +0."""

    def body(b: Builder, x: Value, y: Value) -> Value:
        bits = like(x.type, I32 if element(x.type) == F32 else I64)
        r = b.select(b.fcmp_ordered(relation, x, y), x, y)
        join = b.or_ if relation == "<" else b.and_
        r = b.select(b.fcmp_ordered("==", x, y), b.bitcast(join(b.bitcast(x, bits), b.bitcast(y, bits)), x.type), r)
        r = b.select(b.fcmp_unordered("uno", x, x), y, r)
        return b.select(b.fcmp_unordered("uno", y, y), x, r)

    return body


def _python_divmod(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return x // y and x % y of Python floats in one lane, without the exception for y == 0."""
    zero = same(x, 0.0)
    mod = b.frem(x, y)
    quotient = b.fdiv(b.fsub(x, mod), y)
    nonzero = b.fcmp_unordered("!=", mod, zero)
    opposite = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", mod, zero))
    adjust = b.and_(nonzero, opposite)
    mod = b.select(adjust, b.fadd(mod, y), mod)
    quotient = b.select(adjust, b.fsub(quotient, same(x, 1.0)), quotient)
    mod = b.select(nonzero, mod, llvm(b, "llvm.copysign", x.type, zero, y))
    floor = llvm(b, "llvm.floor", x.type, quotient)
    up = b.fcmp_ordered(">", b.fsub(quotient, floor), same(x, 0.5))
    floor = b.select(up, b.fadd(floor, same(x, 1.0)), floor)
    signed_zero = llvm(b, "llvm.copysign", x.type, zero, b.fdiv(x, y))
    floor = b.select(b.fcmp_unordered("!=", quotient, zero), floor, signed_zero)
    by_zero = b.fcmp_ordered("==", y, zero)
    return b.select(by_zero, b.fdiv(x, y), floor), mod


def library(name: str) -> Body:
    """Return the body that calls the C library's function in double, and rounds to the operand's type."""

    def body(b: Builder, *args: Value) -> Value:
        t = args[0].type
        wide = [a if t == F64 else b.fpext(a, F64) for a in args]
        if name == "rsqrt":
            r = b.fdiv(ir.Constant(F64, 1.0), llvm(b, "llvm.sqrt", F64, *wide))
        else:
            signature = ir.FunctionType(F64, [F64] * len(args))
            r = b.call(declare_function(b.module, signature, name), wide)
        return r if t == F64 else b.fptrunc(r, t)

    return body
