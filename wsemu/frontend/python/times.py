"""Dates and durations, `datetime64` and `timedelta64`: an int64 in a unit; the smallest int64 is NaT.

Results are Numba's: the result of two times has the finer of their units, which must divide the coarser one. A time is
converted to a finer unit implicitly, but never to a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.python.scalars import both, choose, compute, constant, either, negate, scalar_cast
from wsemu.frontend.python.values import Scalar
from wsemu.language.numbers import NumberType, boolean, float64, int64
from wsemu.language.promotion import number_type
from wsemu.language.times import NAT, is_date, is_time
from wsemu.model.errors import KernelError

if TYPE_CHECKING:
    from wsemu.frontend.python.builder import Builder


def _type(date: bool, like: np.dtype[Any]) -> NumberType:
    """Return the type of a date or duration in the unit of another one."""
    kind = "datetime64" if date else "timedelta64"
    found = number_type(np.dtype(kind + like.name.removeprefix("datetime64").removeprefix("timedelta64")))
    assert found is not None
    return found


def _raw(x: Scalar) -> Scalar:
    """Return the int64 of a time."""
    return _with_type(x, int64)


def _with_type(x: Scalar, type_: NumberType) -> Scalar:
    return Scalar(type_, x.register, x.literal)


def _is_nat(b: Builder, raw: Scalar) -> Scalar:
    return compute(b, "setp.eq.b64", boolean, raw, constant(int64, NAT))


def is_nat(b: Builder, x: Scalar) -> Scalar:
    """Return whether a time is NaT, as `np.isnat` does."""
    return _is_nat(b, _raw(x))


def _common(b: Builder, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar, np.dtype[Any]]:
    """Return the numbers of two times in the finer of their units, and its dtype."""
    durations = [_type(False, np.dtype(t.name)) for t in (x.type, y.type)]
    finer = np.promote_types(*(np.dtype(t.name) for t in durations))
    numbers = [_raw(scalar_cast(b, value, _type(is_date(value.type), finer))) for value in (x, y)]
    return numbers[0], numbers[1], finer


def binary(b: Builder, op: str, x: Scalar, y: Scalar) -> Scalar | None:
    """Return `x op y` if one operand is a time; None if the operation has no meaning."""
    if is_time(x.type) and is_time(y.type):
        return _lower_time_operation(b, op, x, y)
    if op == "*" and is_time(y.type):
        x, y = y, x
    if is_time(y.type) or is_date(x.type) or op not in ("*", "/", "//") or y.type.kind not in "iuf":
        return None
    return _scale_duration(b, op, x, y)


def _lower_time_operation(b: Builder, op: str, x: Scalar, y: Scalar) -> Scalar | None:
    dates = is_date(x.type), is_date(y.type)
    durations = op in ("/", "//", "%") and dates == (False, False)
    if not durations and (op, dates) not in _DATED:
        return None
    p, q, unit = _common(b, x, y)
    missing = either(b, _is_nat(b, p), _is_nat(b, q))
    if op == "/":
        quotient = compute(b, "div.f64", float64, scalar_cast(b, p, float64), scalar_cast(b, q, float64))
        return choose(b, missing, constant(float64, float("nan")), quotient)
    if durations:
        zero = compute(b, "setp.eq.b64", boolean, q, constant(int64, 0))
        operation = "floordiv.s64" if op == "//" else "floormod.s64"
        found = compute(b, operation, int64, p, q)
        empty = constant(int64, 0 if op == "//" else NAT)
        found = choose(b, either(b, missing, zero), empty, found)
        return found if op == "//" else _with_type(found, _type(False, unit))
    found = compute(b, "add.b64" if op == "+" else "sub.b64", int64, p, q)
    return _with_type(choose(b, missing, constant(int64, NAT), found), _type(_DATED[op, dates], unit))


_DATED = {
    ("+", (False, False)): False, ("+", (True, False)): True, ("+", (False, True)): True,
    ("-", (False, False)): False, ("-", (True, False)): True, ("-", (True, True)): False,
}  # fmt: skip
"""operator and which operands are dates -> whether the result is one"""


def _scale_duration(b: Builder, op: str, x: Scalar, y: Scalar) -> Scalar:
    """Multiply or divide a duration by a number: quotients of integers and products with floats are truncated."""
    raw = _raw(x)
    missing = _is_nat(b, raw)
    if y.type.kind == "f":
        operands = scalar_cast(b, raw, float64), scalar_cast(b, y, float64)
        wide = compute(b, "mul.f64" if op == "*" else "div.f64", float64, *operands)
        if op == "//":
            wide = compute(b, "cvt.rmi.f64.f64", float64, wide)
        outside = compute(b, "setp.neu.f64", boolean, compute(b, "sub.f64", float64, wide, wide), constant(float64, 0))
        found, missing = scalar_cast(b, wide, int64), either(b, missing, outside)
    elif op == "*":
        found = compute(b, "mul.b64", int64, raw, scalar_cast(b, y, int64))
    else:
        divisor = scalar_cast(b, y, int64)
        missing = either(b, missing, compute(b, "setp.eq.b64", boolean, divisor, constant(int64, 0)))
        found = compute(b, "floordiv.s64", int64, raw, divisor)
        if op == "/":  # round toward zero
            rest = compute(b, "floormod.s64", int64, raw, divisor)
            inexact = compute(b, "setp.ne.b64", boolean, rest, constant(int64, 0))
            negative = compute(b, "setp.lt.s64", boolean, found, constant(int64, 0))
            up = compute(b, "add.b64", int64, found, constant(int64, 1))
            found = choose(b, both(b, inexact, negative), up, found)
    return _with_type(choose(b, missing, constant(int64, NAT), found), x.type)


def compare(b: Builder, relation: str, x: Scalar, y: Scalar) -> Scalar:
    """Compare two dates or two durations; NaT is unequal to every time, and unordered."""
    if not (is_time(x.type) and is_time(y.type) and is_date(x.type) == is_date(y.type)):
        raise KernelError(f"`{relation}` is not defined for {x.type} and {y.type}", remedy="compare times with times")
    p, q, _ = _common(b, x, y)
    missing = either(b, _is_nat(b, p), _is_nat(b, q))
    names = {"<": "lt.s64", "<=": "le.s64", ">": "gt.s64", ">=": "ge.s64", "==": "eq.b64", "!=": "ne.b64"}
    holds = compute(b, f"setp.{names[relation]}", boolean, p, q)
    if relation == "!=":
        return choose(b, missing, constant(boolean, True), holds)
    return both(b, holds, negate(b, missing))


def unary(b: Builder, op: str, x: Scalar) -> Scalar | None:
    """Return `-x`, `+x` or `abs(x)` of a duration; NaT stays NaT.  Return None if the operation has no meaning."""
    if is_date(x.type) or op not in ("-", "+", "abs"):
        return None
    if op == "+":
        return x
    raw = _raw(x)  # in int64, the negative and the magnitude of NaT are NaT
    negative = compute(b, "sub.b64", int64, constant(int64, 0), raw)
    if op == "-":
        return _with_type(negative, x.type)
    below = compute(b, "setp.lt.s64", boolean, raw, constant(int64, 0))
    return _with_type(choose(b, below, negative, raw), x.type)
