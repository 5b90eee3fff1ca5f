"""Steps that the lowerings of floating-point instructions share: flushing, saturation, halves, rounding.

Numbers of 16 bits are computed in a wider type and rounded once more.  If that could differ from rounding once, the
wide result is rounded to odd first (Boldo and Melquiond, "When double rounding is odd", 2005).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.steps import Steps

ROW = {"f16": "b16", "bf16": "b16", "f32": "b32", "f64": "b64"}
"""type -> type of the register"""
ONE = {"f32": 0x3F800000, "f64": 0x3FF0000000000000}
SIGN = {"f16": 1 << 15, "bf16": 1 << 15, "f32": 1 << 31, "f64": 1 << 63}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
LEAST_NORMAL = {"f16": 0x0400, "bf16": 0x0080, "f32": 0x00800000, "f64": 0x0010000000000000}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}


def number(e: Steps, t: str, pattern: int) -> Register:
    """Return a constant of type t, given by its bits."""
    return e.constant(ROW[t], pattern)


def flush_subnormal(e: Steps, t: str, x: Register) -> Register:
    """Return x, or a zero with its sign if x is subnormal."""
    if t == "f32":
        return e.emit("ftz.f32", x)
    row = ROW[t]
    zero = e.emit(f"and.{row}", x, number(e, t, SIGN[t]))
    exponent = e.emit(f"and.{row}", x, number(e, t, INFINITY[t]))
    return e.emit(f"selp.{row}", zero, x, e.emit(f"setp.eq.{row}", exponent, number(e, t, 0)))


def is_nan(e: Steps, t: str, x: Register) -> Register:
    """Return a predicate that is true for a nan."""
    return e.emit(f"setp.neu.{t}", x, x)


def saturate(e: Steps, t: str, x: Register) -> Register:
    """Return x limited to 0..1; a nan becomes +0 (`.sat`). t is f32 or f64."""
    return e.emit(f"min.{t}", e.emit(f"max.{t}", x, number(e, t, 0)), number(e, t, ONE[t]))


def clamp_negative(e: Steps, t: str, x: Register) -> Register:
    """Return x, or +0 if x is negative; a nan is unchanged (`.relu`). t is f32 or f64."""
    return e.emit(f"selp.{ROW[t]}", x, e.emit(f"max.{t}", x, number(e, t, 0)), is_nan(e, t, x))


# -- wide and narrow -------------------------------------------------------------------------------------------------
def widen_float(e: Steps, t: str, x: Register, to: str) -> Register:
    """Return a number of type t as f32 or f64, exactly."""
    if t == to:
        return x
    if t == "bf16":
        x, t = e.emit("shl.b32", e.emit("cvt.b32.u16", x), e.constant("b32", 16)), "f32"
    return x if t == to else e.emit(f"cvt.{to}.{t}", x)


def narrow_float(e: Steps, t: str, x: Register, to: str, rounding: str = "rn") -> Register:
    """Return a number of type t (f32, f64) as `to`, which is not wider."""
    if t == to:
        return x
    if to == "bf16":
        if t == "f32":
            return _brain_float(e, x, rounding, number(e, to, NAN[to]))
        cut = e.emit("shr.u32", e.emit("cvt.f32.f64", x), e.constant("b32", 16))  # a nan keeps the bits that fit
        return _brain_float(e, odd_single(e, x), rounding, e.emit("cvt.b16.s32", cut))
    nearest = e.emit(f"cvt.{to}.{t}", x)
    return nearest if rounding == "rn" else round_directed(e, t, x, to, nearest, rounding)


def odd_single(e: Steps, x: Register) -> Register:
    """Return an f64 as f32, rounded to odd: toward zero, with the last bit set if anything was lost.  A second rounding
    to bf16 then gives the same result as a single rounding."""
    down = round_directed(e, "f64", x, "f32", e.emit("cvt.f32.f64", x), "rz")
    inexact = e.emit("setp.ne.f64", e.emit("cvt.f64.f32", down), x)
    return e.emit("or.b32", down, e.emit("selp.b32", e.constant("b32", 1), e.constant("b32", 0), inexact))


def round_directed(e: Steps, t: str, x: Register, to: str, nearest: Register, rounding: str) -> Register:
    """Return `nearest`, which is x of type t rounded to nearest in `to`, or its neighbor if the rounding mode (rz, rm,
    rp) requires it.

    The neighbor has the next bit pattern: one up is away from zero.
    """
    back, row, minus = widen_float(e, to, nearest, t), ROW[to], e.constant(ROW[to], -1)
    if rounding == "rz":
        beyond = e.emit(f"setp.gt.{t}", e.emit(f"abs.{t}", back), e.emit(f"abs.{t}", x))
        return e.emit(f"selp.{row}", e.emit(f"add.{row}", nearest, minus), nearest, beyond)
    beyond = e.emit(f"setp.{'gt' if rounding == 'rm' else 'lt'}.{t}", back, x)
    negative = e.emit(f"setp.lt.s{row[1:]}", nearest, e.constant(row, 0))
    steps = (1, -1) if rounding == "rm" else (-1, 1)
    step = e.emit(f"selp.{row}", *(e.constant(row, s) for s in steps), negative)
    return e.emit(f"selp.{row}", e.emit(f"add.{row}", nearest, step), nearest, beyond)


def _brain_float(e: Steps, x: Register, rounding: str, nan: Register) -> Register:
    """Return an f32 as bf16, rounded once; `nan` is the result for a nan."""
    sixteen, upper = e.constant("b32", 16), x
    if rounding == "rn":
        odd = e.emit("bfe.u32", x, sixteen, e.constant("b32", 1))
        upper = e.emit("add.b32", e.emit("add.b32", x, e.constant("b32", 0x7FFF)), odd)
    elif rounding in ("rm", "rp"):  # away from zero for one sign, toward zero for the other
        away = e.constant("b32", 0xFFFF), e.constant("b32", 0)
        negative = e.emit("setp.lt.s32", x, e.constant("b32", 0))
        upper = e.emit("add.b32", x, e.emit("selp.b32", *(away if rounding == "rm" else away[::-1]), negative))
    short = e.emit("cvt.b16.s32", e.emit("shr.u32", upper, sixteen))
    return e.emit("selp.b16", nan, short, is_nan(e, "f32", x))
