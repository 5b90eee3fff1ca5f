"""`cuda.libdevice` in kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.library import math as library_math
from wsemu.frontend.python.library.builtins import magnitude
from wsemu.frontend.python.library.calls import converted, means, result
from wsemu.frontend.python.scalars import (
    choose,
    compute,
    constant,
    register,
    reinterpret,
    scalar_cast,
)
from wsemu.frontend.python.values import Scalar, Value
from wsemu.language import cuda_names as cuda
from wsemu.language.libdevice import TABLE, Function
from wsemu.language.numbers import NUMBERS, NumberType, boolean, float32, float64, int32
from wsemu.language.promotion import Signature

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction

DO_NOT_CONTRACT = 1
"""auxiliary of a product or sum that the assembler leaves as it is"""


# -- functions that are no single operation --------------------------------------------------------------------------


def _round(b: Any, x: Scalar) -> Scalar:
    """To the nearest integer, halves away from zero."""
    f = x.type.register
    whole = compute(b, f"cvt.rzi.{f}.{f}", x.type, x)
    rest = magnitude(b, compute(b, f"sub.{f}", x.type, x, whole))
    away = compute(b, f"add.{f}", x.type, whole, compute(b, f"copysign.{f}", x.type, constant(x.type, 1.0), x))
    return choose(b, compute(b, f"setp.ge.{f}", boolean, rest, constant(x.type, 0.5)), away, whole)


def _in_double(operation: str, *factors: float) -> Any:
    """An operation on a product in float64, rounded to the type of x."""

    def apply(b: Any, x: Scalar) -> Scalar:
        wide = scalar_cast(b, x, float64)
        for factor in factors:
            wide = compute(b, "mul.f64", float64, wide, constant(float64, factor))
        return scalar_cast(b, compute(b, f"{operation}.f64", float64, wide), x.type)

    return apply


def _turns(operation: str) -> Any:
    """sin or cos of pi * x, x reduced by whole turns first."""

    def apply(b: Any, x: Scalar) -> Scalar:
        wide = scalar_cast(b, x, float64)
        half = compute(b, "mul.f64", float64, wide, constant(float64, 0.5))
        whole = compute(b, "cvt.rni.f64.f64", float64, half)
        reduced = compute(b, "sub.f64", float64, wide, compute(b, "add.f64", float64, whole, whole))
        return scalar_cast(b, _in_double(operation, math.pi)(b, reduced), x.type)

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
    low = compute(b, "max.f32", float32, x, constant(float32, 0.0))  # nan gives 0
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
    "cospi": _turns("cos"),
    "sinpi": _turns("sin"),
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


def _apply(call: Any, function: Function, operands: list[Scalar], type_: NumberType) -> Scalar:
    if function.operation == "=bits":
        return reinterpret(operands[0], type_)
    if function.operation.startswith("="):
        value: Scalar = _SPECIAL[function.operation[1:]](call.b, *operands)
        return value
    known = all(x.literal is not None for x in operands)
    if function.uncontracted and not known:
        registers = tuple(register(call.b, x) for x in operands)
        (value_register,) = call.b.effect(
            function.operation, registers, results=(type_.register,), auxiliary=DO_NOT_CONTRACT
        )
        return result(type_, value_register)
    return compute(call.b, function.operation, type_, *operands)


def _enter(marker: KernelFunction, function: Function) -> None:
    type_ = NUMBERS[function.result]
    cases = (Signature(type_, tuple(NUMBERS[n] for n in function.operands)),)

    @means(marker)
    def device(call: Any, *values: Value) -> Value:
        _, operands = converted(call, marker.name, cases, *values)
        return _apply(call, function, operands, type_)


for _name, _function in TABLE.items():
    _enter(getattr(cuda.libdevice, _name), _function)
