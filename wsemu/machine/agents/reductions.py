"""Elements of `cp.reduce.async.bulk` in compiled code: a value in memory is combined with one of the source (T10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import F32, F64, I16, I32, I64
from wsemu.machine.lowering import emitted
from wsemu.model.isa import BULK_REDUCTIONS

if TYPE_CHECKING:
    from wsemu.machine.lowering import Builder, Value

BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64} | {f"{s}{n}": n for s in "usb" for n in (32, 64)}
QUIET = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}
"""bits of a nan result; for f64, the result has the bits of the operand's nan"""


def _as_float(b: Builder, value: Value, type_: str) -> Value:
    if type_ == "f64":
        return b.bitcast(value, F64)
    if type_ == "f32":
        return b.bitcast(b.trunc(value, I32), F32)
    if type_ == "bf16":
        return b.bitcast(b.shl(b.trunc(value, I32), I32(16)), F32)
    return b.fpext(b.bitcast(b.trunc(value, I16), ir.HalfType()), F32)


def _to_bits(b: Builder, value: Value, type_: str) -> Value:
    """Round a number to nearest even, and return the bits of the given type."""
    if type_ == "f64":
        return b.bitcast(value, I64)
    if type_ == "f32":
        return b.zext(b.bitcast(value, I32), I64)
    if type_ == "bf16":
        bits = b.bitcast(value, I32)
        odd = b.and_(b.lshr(bits, I32(16)), I32(1))
        return b.zext(b.lshr(b.add(b.add(bits, I32(0x7FFF)), odd), I32(16)), I64)
    return b.zext(b.bitcast(b.fptrunc(value, ir.HalfType()), I16), I64)


def combined_floats(b: Builder, what: str, type_: str, old: Value, new: Value) -> Value:
    """Return the bits of a sum, minimum or maximum."""
    x, y = _as_float(b, old, type_), _as_float(b, new, type_)
    if what == "add":
        total = b.fadd(x, y)
        bits = _to_bits(b, total, type_)
        return bits if type_ == "f64" else b.select(b.fcmp_unordered("uno", total, total), I64(QUIET[type_]), bits)
    # the number where one is none; -0 below +0
    ordered = b.fcmp_ordered("<" if what == "min" else ">", y, x)
    signed = b.icmp_signed("!=" if what == "min" else "==", b.and_(new, I64(0x8000)), I64(0))
    zeros = b.and_(b.fcmp_ordered("==", x, y), signed)
    no_old, no_new = b.fcmp_unordered("uno", x, x), b.fcmp_unordered("uno", y, y)
    result = b.select(b.or_(ordered, zeros), new, old)
    result = b.select(no_old, new, b.select(no_new, old, result))
    return b.select(b.and_(no_old, no_new), I64(QUIET[type_]), result)


def _integer(b: Builder, what: str, type_: str, old: Value, new: Value) -> Value:
    if what in ("and", "or", "xor"):
        return getattr(b, f"{what}_" if what != "xor" else what)(old, new)
    if what == "add":
        return b.add(old, new)
    if what in ("inc", "dec"):
        if what == "inc":
            return b.select(b.icmp_unsigned(">=", old, new), I64(0), b.add(old, I64(1)))
        wraps = b.or_(b.icmp_unsigned("==", old, I64(0)), b.icmp_unsigned(">", old, new))
        return b.select(wraps, new, b.sub(old, I64(1)))
    x, y = old, new
    if type_ == "s32":
        x, y = (b.sext(b.trunc(v, I32), I64) for v in (old, new))
    compare = b.icmp_signed if type_[0] == "s" else b.icmp_unsigned
    return b.select(compare("<" if what == "min" else ">", y, x), new, old)


@emitted
def combine_elements(b: Builder, number: Value, old: Value, new: Value) -> Any:
    """Combine two elements by BULK_REDUCTIONS[number], in the low bits."""
    end = b.function.append_basic_block("combined")
    other = b.function.append_basic_block("no_reduction")
    choice = b.switch(number, other)
    found = []
    for k, (what, type_) in enumerate(BULK_REDUCTIONS):
        block = b.function.append_basic_block(f"{what}_{type_}")
        choice.add_case(I64(k), block)
        b.position_at_end(block)
        make = combined_floats if type_ in ("f16", "bf16", "f32", "f64") else _integer
        found.append((make(b, what, type_, old, new), b.block))
        b.branch(end)
    b.position_at_end(other)
    b.branch(end)
    b.position_at_end(end)
    result = b.phi(I64)
    for value, block in [*found, (old, other)]:
        result.add_incoming(value, block)
    return result


@emitted
def element_bytes(b: Builder, number: Value) -> Any:
    """Bytes of an element of BULK_REDUCTIONS[number]."""
    result = I64(4)
    for k, (_, type_) in enumerate(BULK_REDUCTIONS):
        if BITS[type_] != 32:
            result = b.select(b.icmp_signed("==", number, I64(k)), I64(BITS[type_] // 8), result)
    return result
