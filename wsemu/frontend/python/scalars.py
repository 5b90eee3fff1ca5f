"""Numbers as values of the front end: literals, conversions, selection.

An operation on known numbers is computed at compile time (`folding`); an operation on other numbers is emitted.  A
literal is held as a Python number within its type's range: signed or unsigned int, float rounded to the type, bool.
"""

from __future__ import annotations

import enum
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.python import folding
from wsemu.frontend.python.values import ArrayValue, ComplexValue, RecordValue, Scalar, Static, TupleValue, Value
from wsemu.language.numbers import (
    HALVES,
    NUMBERS,
    NumberType,
    bfloat16,
    boolean,
    complex128,
    float16,
    float32,
    float64,
    int64,
    uint16,
    uint32,
    uint64,
)
from wsemu.language.promotion import number_type
from wsemu.language.times import NAT, is_date, is_time, ratio
from wsemu.model.data import replace
from wsemu.model.errors import KernelError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.python.builder import Builder

Number = Scalar | ComplexValue
TRUE, FALSE = (Scalar(boolean, None, value, True) for value in (True, False))


def constant(type_: NumberType, value: int | float | bool) -> Scalar:
    """Return a known number of this type; `value` is wrapped, rounded or tested for truth as in a conversion."""
    if type_.kind == "b":
        return TRUE if value else FALSE
    if type_ is bfloat16:
        return Scalar(type_, None, folding.bfloat16_value(folding.bfloat16_bits(float(value))))
    if type_.kind == "f":
        return Scalar(type_, None, folding.round_to(float(value), type_.bits))
    return Scalar(type_, None, folding.wrap(int(value), type_.bits, type_.kind == "i"))


def literal(value: Any) -> Number:
    """Return a host number as Numba types it: int is int64 (or uint64), float is float64, `np.float32(3)` is
    float32."""
    if isinstance(value, np.generic):
        return _numpy_literal(value)
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, float):
        return Scalar(float64, None, float(value), True)
    if isinstance(value, complex):
        parts = (Scalar(float64, None, part) for part in (value.real, value.imag))
        return ComplexValue(complex128, *parts)
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 64:
        raise KernelError(f"integer {number} does not fit into 64 bits", remedy="use a float, or a smaller integer")
    members = type(value) if isinstance(value, enum.IntEnum) else None
    return Scalar(int64 if number < 1 << 63 else uint64, None, number, True, members)


def _numpy_literal(value: np.generic) -> Number:
    type_ = number_type(value.dtype)
    if type_ is None:
        raise KernelError(
            f"{value!r} of dtype {value.dtype} is no number of a kernel", remedy="use a number of up to 64 bits"
        )
    if type_.kind == "c":
        part = part_type(type_)
        host = complex(value)
        return ComplexValue(type_, constant(part, host.real), constant(part, host.imag))
    return Scalar(type_, None, int(value.view(np.int64)) if is_time(type_) else value.item())


def part_type(type_: NumberType) -> NumberType:
    """Return the type of the real part: float32 for complex64."""
    return float32 if type_.bits == 64 else float64


def register(b: Builder, x: Scalar) -> Register:
    """Return the register that holds `x`; a literal gets one."""
    if x.register is not None:
        return x.register
    assert x.literal is not None, "a scalar has a register or a literal"
    value = x.literal
    if x.type is bfloat16:
        value = folding.wrap(folding.bfloat16_bits(float(value)), 16, True)
    elif x.type.kind in "iu":  # equal bit patterns share a constant
        value = folding.wrap(int(value), x.type.bits, True)
    made: Register = b.constant(x.type.register, value)
    return made


def compute(b: Builder, operation: str, result: NumberType, *operands: Scalar, immediate: int = 0) -> Scalar:
    """Return the result of a bytecode `operation` on `operands`, as a number of type `result`; folded if all operands
    are known."""
    if not immediate and folding.foldable(operation) and all(x.literal is not None for x in operands):
        value = folding.evaluate(operation, tuple(x.literal for x in operands))
        if value is not None:
            return constant(result, value)
    registers = [register(b, x) for x in operands]
    return Scalar(result, b.emit(operation, *registers, immediate=immediate))


def describe(x: Value) -> str:
    """Return the kind of `x`, for messages."""
    match x:
        case Scalar() | ComplexValue():
            return x.type.name
        case TupleValue():
            return f"a tuple of {len(x.items)}"
        case ArrayValue():
            return f"array `{x.name}`"
        case RecordValue():
            return f"record `{x.name}`"
        case Static():
            return (
                f"{x.object!r}"
                if isinstance(x.object, (str, type(None)))
                else f"`{getattr(x.object, '__name__', x.object)}`"
            )
    return type(x).__name__.removesuffix("Value").lower()


def refusal(message: str, remedy: str, *values: Value) -> KernelError:
    """Return the error for an operation on unsupported values: UnsupportedError if Numba may support them."""
    kind = UnsupportedError if any(map(_is_of_numba_alone, values)) else KernelError
    return kind(message, remedy=remedy)


def _is_of_numba_alone(x: Value) -> bool:
    """Return whether a value is of a kind that Numba supports and the emulator does not."""
    if isinstance(x, TupleValue):
        return any(map(_is_of_numba_alone, x.items))
    if isinstance(x, Static):
        return isinstance(x.object, (enum.Enum, enum.EnumMeta))
    return False


def number(x: Value, what: str) -> Number:
    """Return `x` if it is a number; otherwise raise an error that names `what` requires one."""
    if isinstance(x, (Scalar, ComplexValue)):
        return x
    remedy = "index it to get an element" if isinstance(x, ArrayValue) else "give a number"
    raise refusal(f"{what} needs a number, not {describe(x)}", remedy, x)


# -- conversions -----------------------------------------------------------------------------------------------------


def cast(b: Builder, x: Value, to: NumberType) -> Number:
    """Convert `x` to type `to`, as an assignment to an element or `np.float32(x)` does.

    Integers wrap.  A float becomes an integer by truncation, saturating at the type's range; nan gives 0, or only the
    sign bit if one of the types has 64 bits.  As in compiled code, 8-bit integers saturate at 16 bits and then wrap,
    and float16 rounds to the nearest integer.
    """
    source = number(x, f"conversion to {to}")
    if isinstance(source, ComplexValue):
        if to.kind != "c":
            raise KernelError(f"a {source.type} does not convert to {to}", remedy="take its .real or .imag")
        part = part_type(to)
        return ComplexValue(to, scalar_cast(b, source.real, part), scalar_cast(b, source.imag, part))
    if to.kind == "c":
        part = part_type(to)
        return ComplexValue(to, scalar_cast(b, source, part), constant(part, 0.0))
    return scalar_cast(b, source, to)


SPECIAL_CASTS: dict[NumberType, Callable[[Builder, Scalar, NumberType], Scalar]] = {}
"""number type -> function for conversions from and to it, entered by the module that defines the type"""


def scalar_cast(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    """Return the result of `cast` between real numbers."""
    if x.type is to:
        return x
    if is_time(x.type) or is_time(to):
        return _time_to_time(b, x, to)
    special = SPECIAL_CASTS.get(x.type) or SPECIAL_CASTS.get(to)
    if special is not None:
        return special(b, x, to)
    if to.kind == "b":
        return truth(b, x)
    return _CASTS[x.type.kind if x.type.kind in "bf" else "i", to.kind if to.kind == "f" else "i"](b, x, to)


def _time_to_time(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    """Convert a date or duration to a finer unit; NaT is unchanged."""
    if not (is_time(x.type) and is_time(to) and is_date(x.type) == is_date(to)):
        raise KernelError(f"a {x.type} does not convert to {to}", remedy="pass the array as `array.view(np.int64)`")
    factor = ratio(x.type, to)
    raw = Scalar(int64, x.register, x.literal)
    if factor != 1:
        missing = compute(b, "setp.eq.b64", boolean, raw, constant(int64, NAT))
        raw = choose(b, missing, raw, compute(b, "mul.b64", int64, raw, constant(int64, factor)))
    return Scalar(to, raw.register, raw.literal)


def _bool_to_integer(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    return compute(b, f"selp.b{to.bits}", to, constant(to, 1), constant(to, 0), x)


def _bool_to_float(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    wide = float32 if to in HALVES else to
    return scalar_cast(b, compute(b, f"selp.f{wide.bits}", wide, constant(wide, 1), constant(wide, 0), x), to)


def _integer_to_integer(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    if x.literal is not None:
        return constant(to, x.literal)
    if x.type.bits == to.bits:
        return Scalar(to, x.register)
    sign = "s" if to.bits < x.type.bits or x.type.kind == "i" else "u"
    return compute(b, f"cvt.b{to.bits}.{sign}{x.type.bits}", to, x)


def _integer_to_float(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    if to is bfloat16:
        return to_bfloat16(b, x)
    wide = float64 if to is float16 else to
    return scalar_cast(b, compute(b, f"cvt.rn.f{wide.bits}.{x.type.suffix}", wide, x), to)


def _float_to_integer(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    if x.type is float16:
        return compute(b, f"cvt.rni.{to.suffix}.f32", to, widen_half(b, x))
    if x.type is bfloat16:
        return _float_to_integer(b, widen_half(b, x), to)
    if to.bits == 8:
        wide = NUMBERS["int16" if to.kind == "i" else "uint16"]
        return scalar_cast(b, scalar_cast(b, x, wide), to)
    return compute(b, f"cvt.rzi.{to.suffix}.f{x.type.bits}", to, x)


def _with_sticky_bits(b: Builder, x: Scalar) -> Scalar:
    """Return a 64-bit integer that float64 represents exactly and that rounds to the same bfloat16: in an integer of 33
    or more bits, the last 16 are merged into the bit above them."""
    low, bit = constant(x.type, 0xFFFF), constant(x.type, 1 << 16)
    rest = compute(b, "setp.ne.b64", boolean, compute(b, "and.b64", x.type, x, low), constant(x.type, 0))
    high = compute(b, "and.b64", x.type, x, constant(x.type, ~0xFFFF))
    gathered = choose(b, rest, compute(b, "or.b64", x.type, high, bit), high)
    upper = compute(b, f"shr.{x.type.suffix}", x.type, x, constant(x.type, 32))
    small = compute(b, "setp.eq.b64", boolean, upper, constant(x.type, 0))
    if x.type.kind == "i":
        small = either(b, small, compute(b, "setp.eq.b64", boolean, upper, constant(x.type, -1)))
    return choose(b, small, x, gathered)


def to_bfloat16(b: Builder, x: Scalar, mode: str = "rn") -> Scalar:
    """Return a number as bfloat16, rounded once: to nearest even, or with `mode` "rz", "rd" or "ru" toward zero, down
    or up.

    A nan becomes 0x7FFF (PTX ISA, `cvt`).
    """
    if x.type.kind != "f":
        x = scalar_cast(b, _with_sticky_bits(b, x) if x.type.bits == 64 else x, float64)
    if x.literal is not None and mode == "rn":
        return constant(bfloat16, x.literal)
    single = scalar_cast(b, x, float32)
    bits = to_odd(b, x, single) if x.type is float64 else reinterpret(single, uint32)
    sixteen, one = constant(uint32, 16), constant(uint32, 1)
    upper = compute(b, "shr.u32", uint32, bits, sixteen)
    if mode == "rn":
        last = compute(b, "and.b32", uint32, upper, one)
        tie = compute(b, "add.b32", uint32, last, constant(uint32, 0x7FFF))
        rounded = compute(b, "shr.u32", uint32, compute(b, "add.b32", uint32, bits, tie), sixteen)
    else:
        lower = compute(b, "and.b32", uint32, bits, constant(uint32, 0xFFFF))
        away = compute(b, "setp.ne.b32", boolean, lower, constant(uint32, 0))
        negative = compute(b, "setp.ge.u32", boolean, bits, constant(uint32, 1 << 31))
        away = {"rz": FALSE, "rd": both(b, away, negative), "ru": both(b, away, negate(b, negative))}[mode]
        rounded = choose(b, away, compute(b, "add.b32", uint32, upper, one), upper)
    no_number = compute(b, "setp.neu.f32", boolean, single, single)
    chosen = choose(b, no_number, constant(uint32, 0x7FFF), rounded)
    return reinterpret(scalar_cast(b, chosen, uint16), bfloat16)


def to_odd(b: Builder, x: Scalar, single: Scalar) -> Scalar:
    """Return the bits of the float64 `x`, whose nearest float32 is `single`, as a float32 rounded to odd, so that a
    later rounding knows the side of the exact value."""
    bits, one = reinterpret(single, uint32), constant(uint32, 1)
    back = scalar_cast(b, single, float64)
    beyond = compute(b, "setp.gt.f64", boolean, *(compute(b, "abs.f64", float64, y) for y in (back, x)))
    cut = choose(b, beyond, compute(b, "sub.b32", uint32, bits, one), bits)
    inexact = compute(b, "setp.neu.f64", boolean, back, x)
    return choose(b, inexact, compute(b, "or.b32", uint32, cut, one), bits)


def _from_bfloat16(b: Builder, x: Scalar) -> Scalar:
    """Return a bfloat16 as float32: its bits are the upper half."""
    if x.literal is not None:
        return constant(float32, x.literal)
    bits = compute(b, "shl.b32", uint32, scalar_cast(b, reinterpret(x, uint16), uint32), constant(uint32, 16))
    return reinterpret(bits, float32)


def _float_to_float(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    if to is bfloat16:
        return to_bfloat16(b, x)
    if x.type is bfloat16:
        return scalar_cast(b, _from_bfloat16(b, x), to)
    return compute(b, f"cvt.f{to.bits}.f{x.type.bits}", to, x)


_CASTS = {
    ("b", "i"): _bool_to_integer,
    ("b", "f"): _bool_to_float,
    ("i", "i"): _integer_to_integer,
    ("i", "f"): _integer_to_float,
    ("f", "i"): _float_to_integer,
    ("f", "f"): _float_to_float,
}


def widen_half(b: Builder, x: Scalar) -> Scalar:
    """Return a float16 or bfloat16 as float32, the type of its arithmetic; any other float is unchanged."""
    return scalar_cast(b, x, float32) if x.type in HALVES else x


def truth(b: Builder, x: Value) -> Scalar:
    """Return `bool(x)`: true for a nonzero number (and nan), and for a tuple with items; for a host object by Python's
    rules."""
    match x:
        case Scalar():
            return _scalar_truth(b, x)
        case ComplexValue():
            return either(b, _scalar_truth(b, x.real), _scalar_truth(b, x.imag))
        case TupleValue():
            return TRUE if x.items else FALSE
        case Static() if x.object is None or isinstance(x.object, (str, bytes)):
            return TRUE if x.object else FALSE
    remedy = "compare an element or its size" if isinstance(x, ArrayValue) else "write a comparison"
    raise KernelError(f"{describe(x)} is neither true nor false", remedy=remedy)


def _scalar_truth(b: Builder, x: Scalar) -> Scalar:
    if x.type.kind == "b":
        return x
    if x.type.kind == "f":
        wide = widen_half(b, x)
        return compute(b, f"setp.neu.f{wide.type.bits}", boolean, wide, constant(wide.type, 0))
    return compute(b, f"setp.ne.b{x.type.bits}", boolean, x, constant(x.type, 0))


# -- predicates and selection ----------------------------------------------------------------------------------------


def both(b: Builder, p: Scalar, q: Scalar) -> Scalar:
    """Return p and q."""
    if p.literal is not None:
        return q if p.literal else FALSE
    if q.literal is not None:
        return p if q.literal else FALSE
    return compute(b, "and.pred", boolean, p, q)


def either(b: Builder, p: Scalar, q: Scalar) -> Scalar:
    """Return p or q."""
    if p.literal is not None:
        return TRUE if p.literal else q
    if q.literal is not None:
        return TRUE if q.literal else p
    return compute(b, "or.pred", boolean, p, q)


def negate(b: Builder, p: Scalar) -> Scalar:
    """Return not p."""
    return compute(b, "not.pred", boolean, p)


def differ(b: Builder, p: Scalar, q: Scalar) -> Scalar:
    """Return whether p and q differ."""
    return compute(b, "xor.pred", boolean, p, q)


def choose(b: Builder, condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    """Return `x` if `condition` holds, else `y`; both have the same type."""
    assert x.type is y.type, f"{x.type} and {y.type}"
    if condition.literal is not None:
        return x if condition.literal else y
    name = "pred" if x.type.kind == "b" else f"f{x.type.bits}" if x.type in (float32, float64) else f"b{x.type.bits}"
    return compute(b, f"selp.{name}", x.type, x, y, condition)


def choose_number(b: Builder, condition: Scalar, x: Number, y: Number) -> Number:
    """Return the result of `choose` for real and complex numbers of one type."""
    if isinstance(x, ComplexValue):
        assert isinstance(y, ComplexValue)
        return ComplexValue(x.type, choose(b, condition, x.real, y.real), choose(b, condition, x.imag, y.imag))
    assert isinstance(y, Scalar)
    chosen = choose(b, condition, x, y)
    if x.enumeration is y.enumeration is None:
        return chosen
    return replace(chosen, enumeration=x.enumeration if x.enumeration is y.enumeration else None)


def reinterpret(x: Scalar, to: NumberType) -> Scalar:
    """Reinterpret the bits of a scalar as another type of the same width."""
    if x.literal is None:
        return Scalar(to, x.register)
    if x.type is bfloat16:
        return constant(to, folding.bfloat16_bits(float(x.literal)))
    source = np.dtype(x.type.name).type(x.literal)
    if to is bfloat16:
        return constant(to, folding.bfloat16_value(int(source.view(np.uint16))))
    return Scalar(to, None, source.view(np.dtype(to.name)).item())
