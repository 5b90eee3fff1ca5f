"""Conversions between 8-bit floats and other numbers in kernels, by the arithmetic of CUDA's `cuda_fp8.hpp`.

A float16, bfloat16 or float32, and an integer after conversion to float32, is converted by `cvt.rn.satfinite` (PTX
ISA): a nan becomes 0x7F. A float64 is rounded once; a nan keeps its sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.python import scalars
from wsemu.frontend.python.scalars import choose, compute, constant, reinterpret, scalar_cast
from wsemu.frontend.python.values import Scalar
from wsemu.language.numbers import (
    EIGHTS,
    boolean,
    float32,
    float64,
    fp8_e4m3,
    fp8_e5m2,
    int32,
    uint8,
    uint32,
    uint64,
)
from wsemu.model.data import NamedTuple
from wsemu.model.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.python.builder import Builder
    from wsemu.language.numbers import NumberType


class _Form(NamedTuple):
    mantissa: int
    bias: int
    most: int
    """bits of the largest number"""
    beyond: int
    """bits of the first float32 that rounds beyond it"""
    overflow: int
    """code of an overflow if the result is not clamped to the largest number"""
    infinity: int
    """maximum bits of a number; larger ones are nans"""


_FORMS = {
    fp8_e4m3: _Form(3, 7, 0x7E, 0x43E80001, 0x7F, 0x7E),
    fp8_e5m2: _Form(2, 15, 0x7B, 0x47700000, 0x7C, 0x7C),
}


def convert_float8(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    """Convert `x` to type `to`; one of the two types is an 8-bit float."""
    if to not in EIGHTS:
        return _number(b, x, to)
    if x.type in EIGHTS:
        raise KernelError(f"a {x.type} does not convert to {to}", remedy="convert it to float32 first")
    wide = x if x.type is float64 else scalar_cast(b, x, float32)
    return _reinterpret_small(b, round_to_float8(b, wide, to), to)


def _reinterpret_small(b: Builder, bits: Scalar, to: NumberType) -> Scalar:
    small = scalar_cast(b, bits, uint8)
    return Scalar(to, small.register, small.literal)


def round_to_float8(b: Builder, x: Scalar, to: NumberType, saturate: bool = True) -> Scalar:
    """Return the bits, as uint32, of a float32 or float64 rounded to nearest even as `to`.  A number out of range
    becomes the largest number; without `saturate`, it becomes infinity, or nan if the type has no infinity."""
    form = _FORMS[to]
    single = scalar_cast(b, x, float32)
    bits = scalars.to_odd(b, x, single) if x.type is float64 else reinterpret(single, uint32)
    size, dropped = _op(b, "and", bits, 0x7FFFFFFF), 23 - form.mantissa
    odd = _op(b, "and", _op(b, "shr", size, dropped), 1)
    tie = compute(b, "add.b32", uint32, _op(b, "add", size, (1 << dropped - 1) - 1), odd)
    normal = _op(b, "sub", _op(b, "shr", tie, dropped), 127 - form.bias << form.mantissa)
    # adding a number whose last bit has the weight of a subnormal's rounds the sum to that bit
    unit = constant(uint32, 127 + 23 + 1 - form.bias - form.mantissa << 23)
    sum_ = compute(b, "add.f32", float32, reinterpret(size, float32), reinterpret(unit, float32))
    small = compute(b, "sub.b32", uint32, reinterpret(sum_, uint32), unit)
    found = choose(b, _relation(b, "lt", size, 128 - form.bias << 23), small, normal)
    over = constant(uint32, form.most if saturate else form.overflow)
    found = choose(b, _relation(b, "ge", size, form.beyond), over, found)
    sign = _op(b, "and", _op(b, "shr", bits, 24), 0x80)
    signed = compute(b, "or.b32", uint32, found, sign)
    no_number = compute(b, "setp.neu.f32", boolean, single, single)
    return choose(b, no_number, _nan_test(b, x, form), signed)


def _nan_test(b: Builder, x: Scalar, form: _Form) -> Scalar:
    if x.type is not float64:
        return constant(uint32, 0x7F)
    bits = reinterpret(x, uint64)
    upper = scalar_cast(b, compute(b, "shr.u64", uint64, bits, constant(uint64, 32)), uint32)
    sign = _op(b, "and", _op(b, "shr", upper, 24), 0x80)
    if form.mantissa == 3:
        return _op(b, "or", sign, 0x7F)
    return compute(b, "or.b32", uint32, _op(b, "or", sign, 0x7E), _op(b, "and", _op(b, "shr", upper, 18), 3))


def _number(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    bits = scalar_cast(b, Scalar(uint8, x.register, x.literal), uint32)
    size = _op(b, "and", bits, 0x7F)
    if to is boolean:
        return _relation(b, "ne", size, 0)
    form = _FORMS[x.type]
    moved = reinterpret(_op(b, "shl", size, 23 - form.mantissa), float32)
    scale = reinterpret(constant(uint32, 127 + 127 - form.bias << 23), float32)
    exact = reinterpret(compute(b, "mul.f32", float32, moved, scale), uint32)
    if form.infinity == form.overflow:
        exact = choose(b, _relation(b, "eq", size, form.infinity), constant(uint32, 0x7F800000), exact)
    signed = compute(b, "or.b32", uint32, exact, _op(b, "shl", _op(b, "and", bits, 0x80), 24))
    no_number = _relation(b, "gt", size, form.infinity)
    wide = reinterpret(choose(b, no_number, constant(uint32, 0x7FFFFFFF), signed), float32)
    return _clamp_to_int8(b, wide, to) if to.kind in "iu" and to.bits == 8 else scalar_cast(b, wide, to)


def _clamp_to_int8(b: Builder, x: Scalar, to: NumberType) -> Scalar:
    """Return a float32 as the nearest 8-bit integer; 0 for a nan."""
    least, most = (-128, 127) if to.kind == "i" else (0, 255)
    whole = scalar_cast(b, x, int32)
    low, high = constant(int32, least), constant(int32, most)
    whole = choose(b, compute(b, "setp.lt.s32", boolean, whole, low), low, whole)
    return scalar_cast(b, choose(b, compute(b, "setp.gt.s32", boolean, whole, high), high, whole), to)


def _op(b: Builder, name: str, x: Scalar, y: int) -> Scalar:
    spelling = {"shr": "shr.u32"}.get(name, f"{name}.b32")
    return compute(b, spelling, uint32, x, constant(uint32, y))


def _relation(b: Builder, name: str, x: Scalar, y: int) -> Scalar:
    return compute(b, f"setp.{name}.{'b32' if name in ('eq', 'ne') else 'u32'}", boolean, x, constant(uint32, y))


def store_float8(b: Builder, x: Scalar, saturate: Scalar, form: Scalar) -> Scalar:
    """Lower `cvt_float_to_fp8` and `cvt_double_to_fp8`: the bits as uint8; `saturate` is 0 for NOSAT, `form` 0 for
    E4M3."""

    def one(to: NumberType) -> Scalar:
        return _choose_lazily(
            b, saturate, lambda: round_to_float8(b, x, to, saturate=False), lambda: round_to_float8(b, x, to)
        )

    return scalar_cast(b, _choose_lazily(b, form, lambda: one(fp8_e4m3), lambda: one(fp8_e5m2)), uint8)


def _choose_lazily(b: Builder, which: Scalar, zero: Callable[[], Scalar], other: Callable[[], Scalar]) -> Scalar:
    if which.literal is not None:
        return other() if which.literal else zero()
    return choose(b, compute(b, "setp.ne.b64", boolean, which, constant(which.type, 0)), other(), zero())


scalars.SPECIAL_CASTS.update(dict.fromkeys(EIGHTS, convert_float8))
