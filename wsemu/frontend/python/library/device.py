"""`cuda.libdevice` in kernels."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.library import math as library_math
from wsemu.frontend.python.library.builtins import magnitude
from wsemu.frontend.python.library.calls import FUNCTIONS, convert_arguments, means, result, scalar
from wsemu.frontend.python.library.inlined import inline_function
from wsemu.frontend.python.library.written import libdevice as written
from wsemu.frontend.python.scalars import (
    cast,
    choose,
    compute,
    constant,
    register,
    reinterpret,
    scalar_cast,
)
from wsemu.frontend.python.values import Scalar, TupleValue, Value
from wsemu.language import cuda_names as cuda
from wsemu.language.libdevice import TABLE, Function
from wsemu.language.numbers import NUMBERS, NumberType, boolean, float32, float64, int32
from wsemu.language.promotion import Signature
from wsemu.model.data import replace

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction

DO_NOT_CONTRACT = 1
"""auxiliary of a product or sum that the assembler must not fuse"""
_UNSIGNED = re.compile(r"^cvt\.(?:rn\.f\d+|r[nzmp]i)\.u(\d+)")
"""a conversion from or to an unsigned integer"""
_INTEGRAL = re.compile(r"^cvt\.(rmi|rpi)\.([su]\d+)\.(f\d+)$")
"""a conversion to an integer that needs two steps"""


# -- functions of several operations ---------------------------------------------------------------------------------


def _round(b: Any, x: Scalar) -> Scalar:
    """Round to the nearest integer, halves away from zero."""
    f = x.type.register
    whole = compute(b, f"cvt.rzi.{f}.{f}", x.type, x)
    rest = magnitude(b, compute(b, f"sub.{f}", x.type, x, whole))
    away = compute(b, f"add.{f}", x.type, whole, compute(b, f"copysign.{f}", x.type, constant(x.type, 1.0), x))
    return choose(b, compute(b, f"setp.ge.{f}", boolean, rest, constant(x.type, 0.5)), away, whole)


def _compute_in_double(operation: str, *factors: float) -> Any:
    """Return the lowering of an operation on a product: it computes in float64, and rounds to the type of x."""

    def apply(b: Any, x: Scalar) -> Scalar:
        wide = scalar_cast(b, x, float64)
        for factor in factors:
            wide = compute(b, "mul.f64", float64, wide, constant(float64, factor))
        return scalar_cast(b, compute(b, f"{operation}.f64", float64, wide), x.type)

    return apply


def _turns(part: int) -> Any:
    """Return the lowering of sin (part 0) or cos (part 1) of pi * x, after whole turns are subtracted: results of 0 and
    1 are exact."""

    def apply(call: Any, x: Scalar) -> Scalar:
        both_parts = inline_function(call, written.sincospi, scalar_cast(call.b, x, float64))
        assert isinstance(both_parts, TupleValue)
        return scalar_cast(call.b, scalar(call, both_parts.items[part], "`sinpi`"), x.type)

    return apply


def exp10(b: Any, x: Scalar) -> Scalar:
    wide = compute(b, "pow.f64", float64, constant(float64, 10.0), scalar_cast(b, x, float64))
    return scalar_cast(b, wide, x.type)


def _rcbrt(b: Any, x: Scalar) -> Scalar:
    root = compute(b, "cbrt.f64", float64, scalar_cast(b, x, float64))
    return scalar_cast(b, compute(b, "rcp.f64", float64, root), x.type)


def _positive_difference(b: Any, x: Scalar, y: Scalar) -> Scalar:
    f = x.type.register
    difference = compute(b, f"sub.{f}", x.type, x, y)
    return choose(b, compute(b, f"setp.le.{f}", boolean, x, y), constant(x.type, 0.0), difference)


def _saturate(b: Any, x: Scalar) -> Scalar:
    low = compute(b, "max.f32", float32, x, constant(float32, 0.0))  # a nan gives 0
    return compute(b, "min.f32", float32, low, constant(float32, 1.0))


def _is_nan(b: Any, x: Scalar) -> Scalar:
    return scalar_cast(b, library_math.is_nan(b, x), int32)


def _against_infinity(relation: str) -> Any:
    def test(b: Any, x: Scalar) -> Scalar:
        holds = compute(b, f"setp.{relation}.{x.type.register}", boolean, magnitude(b, x), constant(x.type, math.inf))
        return scalar_cast(b, holds, int32)

    return test


def _product_of_24_bits(signed: bool) -> Any:
    def product(b: Any, *operands: Scalar) -> Scalar:
        eight = constant(int32, 8)
        shifted = (compute(b, "shl.b32", int32, x, eight) for x in operands)
        return compute(
            b, "mul.b32", int32, *(compute(b, f"shr.{'s' if signed else 'u'}32", int32, x, eight) for x in shifted)
        )

    return product


_SPECIAL: dict[str, Any] = {
    "round": _round,
    "exp10": exp10,
    "rcbrt": _rcbrt,
    "fdim": _positive_difference,
    "saturate": _saturate,
    "isnan": _is_nan,
    "isinf": _against_infinity("eq"),
    "isfinite": _against_infinity("lt"),
    "mul24": _product_of_24_bits(True),
    "umul24": _product_of_24_bits(False),
}


def _round_directed(b: Any, name: str, rounding: str, *x: Scalar) -> Scalar:
    """Return a sum, product, quotient, root or fma that is rounded toward zero (rz), down (rm) or up (rp)."""
    type_ = x[0].type
    one, minus = constant(type_, 1.0), constant(type_, -1.0)
    zero = constant(type_, 0.0 if rounding == "rm" else -0.0)  # preserves the sign of a zero product
    first, last = x[0], x[-1]
    operation, operands = {
        "add": ("fma", (first, one, last)),
        "sub": ("fma", (last, minus, first)),
        "mul": ("fma", (first, last, zero)),
        "rcp": ("div", (one, first)),
    }.get(name, (name, x))
    return compute(b, f"{operation}.{rounding}.{type_.register}", type_, *operands)


_TURNS = {"sinpi": _turns(0), "cospi": _turns(1)}


def _lower_math_call(call: Any, name: str, operands: list[Scalar]) -> Value:
    made: Value = FUNCTIONS[getattr(math, name)](replace(call, args=list(operands), kwargs={}))
    return made


def _lower_written(call: Any, operation: str, operands: list[Scalar]) -> Value:
    """Lower a function of `written`; floats become float64 if it computes in that, and integers are reinterpreted as
    the type after the colon."""
    name, _, integer = operation.partition(":")
    given = [scalar_cast(call.b, x, float64) if x.type is float32 and name in written.WIDE else x for x in operands]
    if integer:
        given = [reinterpret(x, NUMBERS[integer]) for x in given]
    return inline_function(call, getattr(written, name), *given)


def _apply(call: Any, function: Function, operands: list[Scalar], type_: NumberType) -> Value:
    kind, name = function.operation[0], function.operation[1:]
    if kind == "@":
        return _lower_written(call, name, operands)
    if kind == "=":
        if name == "bits":
            return reinterpret(operands[0], type_)
        if name.startswith("math."):
            return _lower_math_call(call, name.removeprefix("math."), operands)
        if "." in name:
            operation, _, rounding = name.partition(".")
            return _round_directed(call.b, operation, rounding, *operands)
        value: Scalar = _TURNS[name](call, *operands) if name in _TURNS else _SPECIAL[name](call.b, *operands)
        return value
    integral = _INTEGRAL.match(function.operation)
    if integral is not None:
        rounding, to, f = integral.groups()
        operands = [compute(call.b, f"cvt.{rounding}.{f}.{f}", operands[0].type, *operands)]
        function = function._replace(operation=f"cvt.rzi.{to}.{f}")
    unsigned = _UNSIGNED.search(function.operation)
    if unsigned is not None:  # Numba-CUDA declares these as signed
        wide = NUMBERS[f"uint{unsigned[1]}"]
        if operands[0].type.kind == "i":
            return compute(call.b, function.operation, type_, *(reinterpret(x, wide) for x in operands))
        return reinterpret(compute(call.b, function.operation, wide, *operands), type_)
    known = all(x.literal is not None for x in operands)
    if function.uncontracted and not known:
        registers = tuple(register(call.b, x) for x in operands)
        (value_register,) = call.b.effect(
            function.operation, registers, results=(type_.register,), auxiliary=DO_NOT_CONTRACT
        )
        return result(type_, value_register)
    return compute(call.b, function.operation, type_, *operands)


def _enter(marker: KernelFunction, function: Function) -> None:
    types = [NUMBERS[name] for name in function.result.split()]
    cases = (Signature(types[0], tuple(NUMBERS[n] for n in function.operands)),)

    @means(marker)
    def device(call: Any, *values: Value) -> Value:
        _, operands = convert_arguments(call, marker.name, cases, *values)
        made = _apply(call, function, operands, types[0])
        if isinstance(made, TupleValue):
            return TupleValue(tuple(cast(call.b, x, t) for x, t in zip(made.items, types, strict=True)))
        return cast(call.b, made, types[0])


for _name, _function in TABLE.items():
    _enter(getattr(cuda.libdevice, _name), _function)
