"""Conversions between floats, and from floats to integers."""

from __future__ import annotations

from typing import Any

from wsemu.machine.arithmetic.codegen import (
    F32,
    F64,
    I16,
    I32,
    Body,
    Builder,
    Value,
    constant,
    element,
    like,
    llvm,
    resize,
    same,
)
from wsemu.machine.arithmetic.floating import canonical


def float_to_int(rounding: str, target: Any, signed: bool) -> Body:
    def body(b: Builder, x: Value) -> Value:
        number = llvm(b, rounding, x.type, x) if rounding else x
        t = like(x.type, target)
        r = llvm(b, f"llvm.fpto{'s' if signed else 'u'}i.sat", t, number, over=[t, x.type])
        if target.width < 64 and element(x.type) == F32:
            return r
        return b.select(b.fcmp_unordered("uno", x, x), same(r, -(1 << (target.width - 1))), r)

    return body


def half_to_float(b: Builder, h: Value) -> Value:
    u = resize(b, h, I32, False)
    f = like(u.type, F32)
    magnitude = b.shl(b.and_(u, same(u, 0x7FFF)), same(u, 13))
    # multiplication by 2^112 converts the exponent from the bias of half to that of float, also for subnormals
    v = b.bitcast(b.fmul(b.bitcast(magnitude, f), constant(f, 2.0**112)), u.type)
    special = b.icmp_unsigned(">=", magnitude, same(u, 0x7C00 << 13))
    v = b.select(special, b.or_(v, same(u, 0x7F800000)), v)
    return b.bitcast(b.or_(v, b.shl(b.and_(u, same(u, 0x8000)), same(u, 16))), f)


def float_to_half(b: Builder, x: Value) -> Value:
    """Round to nearest even, using integer operations."""
    u = b.bitcast(x, like(x.type, I32))
    sign = b.and_(u, same(u, -0x80000000))
    a = b.xor(u, sign)
    odd = b.and_(b.lshr(a, same(u, 13)), same(u, 1))
    normal = b.lshr(b.add(b.add(a, same(u, ((15 - 127) << 23) + 0xFFF)), odd), same(u, 13))
    # adding 0.5 makes the float adder round the bits of a subnormal half at the right position
    tiny = b.sub(b.bitcast(b.fadd(b.bitcast(a, x.type), constant(x.type, 0.5)), u.type), same(u, 0x3F000000))
    huge = b.select(b.icmp_unsigned(">", a, same(u, 0x7F800000)), same(u, 0x7E00), same(u, 0x7C00))
    r = b.select(b.icmp_unsigned(">=", a, same(u, 0x47800000)), huge, normal)
    r = b.select(b.icmp_unsigned("<", a, same(u, 0x38800000)), tiny, r)
    return resize(b, b.or_(r, b.lshr(sign, same(u, 16))), I16, False)


def single_to_half(b: Builder, x: Value) -> Value:
    """Round f32 to f16 to nearest even; every nan becomes the one that the hardware produces."""
    h, u = float_to_half(b, x), b.bitcast(x, like(x.type, I32))
    nan = b.icmp_signed(">", b.and_(u, same(u, 0x7FFFFFFF)), same(u, 0x7F800000))
    return b.select(nan, same(h, 0x7FFF), h)


def double_to_odd_float(b: Builder, x: Value) -> Value:
    """Convert a double to a float with rounding to odd: then a second rounding, to half, gives the result of a single
    rounding."""
    y = b.fptrunc(x, like(x.type, F32))
    error = b.fsub(x, b.fpext(y, x.type))
    v = b.bitcast(y, like(x.type, I32))
    even = b.icmp_unsigned("==", b.and_(v, same(v, 1)), same(v, 0))
    inexact = b.and_(b.fcmp_ordered("!=", error, same(x, 0.0)), even)
    away = b.icmp_unsigned("==", b.fcmp_ordered("<", error, same(x, 0.0)), b.icmp_signed("<", v, same(v, 0)))
    return b.bitcast(b.add(v, b.select(inexact, b.select(away, same(v, 1), same(v, -1)), same(v, 0))), y.type)


def _extend(b: Builder, x: Value) -> Value:
    return b.fpext(x, like(x.type, F64))


FLOAT_CONVERSIONS: dict[str, Body] = {
    "cvt.f32.f16": canonical(half_to_float),
    "cvt.f64.f16": lambda b, x: _extend(b, half_to_float(b, x)),
    "cvt.f16.f32": single_to_half,
    "cvt.f16.f64": lambda b, x: float_to_half(b, double_to_odd_float(b, x)),
    "cvt.f64.f32": _extend,
    "cvt.f32.f64": lambda b, x: b.fptrunc(x, like(x.type, F32)),
}
INTRINSIC_ROUNDING = {"rni": "llvm.rint", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}
