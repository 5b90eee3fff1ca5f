"""The functions of module `math` that Numba-CUDA supports.

float32 stays float32, also in floor, ceil and trunc; integers become float64.  Functions of the C library are evaluated
in float64 and rounded; the results of a GPU may differ by a few units in the last place.
"""

from __future__ import annotations

import math
from typing import Any

from wsemu.frontend.python.library.builtins import magnitude
from wsemu.frontend.python.library.calls import convert_arguments, handles, positional
from wsemu.frontend.python.scalars import (
    both,
    choose,
    compute,
    constant,
    either,
    negate,
    reinterpret,
    scalar_cast,
    widen_half,
)
from wsemu.frontend.python.values import Scalar, TupleValue, Value
from wsemu.language.numbers import HALVES, NUMBERS, boolean, float32, float64, int32, int64, uint64
from wsemu.language.promotion import REAL, Signature, same

_INTEGERS = (Signature(float64, (int64,)), Signature(float64, (uint64,)))
_UNARY = (*_INTEGERS, *same(REAL, 1))
_UNARY_HALF = (*_UNARY, *same(HALVES, 1))
_PAIRS = (Signature(float64, (int64, int64)), Signature(float64, (uint64, uint64)), *same(REAL, 2))
_TESTS = tuple(Signature(boolean, (t,)) for t in (int64, uint64, *REAL))

FUNCTIONS_OF_ONE = {
    math.sin: "sin", math.cos: "cos", math.tan: "tan", math.asin: "asin", math.acos: "acos", math.atan: "atan",
    math.sinh: "sinh", math.cosh: "cosh", math.tanh: "tanh", math.asinh: "asinh", math.acosh: "acosh",
    math.atanh: "atanh", math.exp: "exp", math.exp2: "exp2", math.expm1: "expm1", math.log: "log", math.log2: "log2",
    math.log10: "log10", math.log1p: "log1p", math.erf: "erf", math.erfc: "erfc", math.lgamma: "lgamma",
    math.sqrt: "sqrt",
    math.gamma: "tgamma",
    math.fabs: "abs",
    math.ceil: "cvt.rpi",
    math.floor: "cvt.rmi",
    math.trunc: "cvt.rzi",
}  # fmt: skip
"""function -> operation, without the type"""
_HALF = frozenset(
    (math.sin, math.cos, math.ceil, math.floor, math.sqrt, math.log, math.log2, math.log10, math.exp, math.fabs,
     math.trunc, math.exp2, math.tanh)
)  # fmt: skip


def apply(b: Any, operation: str, x: Scalar) -> Scalar:
    """Apply a function of one float, in its type; floats of 16 bits through float32."""
    if x.type in HALVES:
        return scalar_cast(b, apply(b, operation, widen_half(b, x)), x.type)
    f = x.type.register
    return compute(b, f"{operation}.{f}.{f}" if operation.startswith("cvt") else f"{operation}.{f}", x.type, x)


def _enter(function: Any, operation: str) -> None:
    cases = _UNARY_HALF if function in _HALF else _UNARY

    @handles(function)
    def unary(call: Any) -> Value:
        name = f"math.{function.__name__}"
        signature, (x,) = convert_arguments(call, name, cases, *positional(call, name, 1))
        return apply(call.b, operation, scalar_cast(call.b, x, signature.result))


for _function, _operation in FUNCTIONS_OF_ONE.items():
    _enter(_function, _operation)


def _enter_scaling(function: Any, factor: float) -> None:
    @handles(function)
    def scaling(call: Any) -> Value:
        name = f"math.{function.__name__}"
        signature, (x,) = convert_arguments(call, name, _UNARY, *positional(call, name, 1))
        return scale(call.b, scalar_cast(call.b, x, signature.result), factor)


def scale(b: Any, x: Scalar, factor: float) -> Scalar:
    """Return factor * x, with the factor rounded to the type of x."""
    return compute(b, f"mul.{x.type.register}", x.type, constant(x.type, factor), x)


_enter_scaling(math.radians, math.pi / 180.0)
_enter_scaling(math.degrees, 180.0 / math.pi)


# -- tests -----------------------------------------------------------------------------------------------------------


def is_nan(b: Any, x: Scalar) -> Scalar:
    """Return whether a float is a nan."""
    return compute(b, f"setp.neu.{x.type.register}", boolean, x, x)


def _is_infinite(b: Any, x: Scalar) -> Scalar:
    return compute(b, f"setp.eq.{x.type.register}", boolean, magnitude(b, x), constant(x.type, math.inf))


def _is_finite(b: Any, x: Scalar) -> Scalar:
    return compute(b, f"setp.lt.{x.type.register}", boolean, magnitude(b, x), constant(x.type, math.inf))


def _enter_test(function: Any, test: Any, of_integers: bool) -> None:
    @handles(function)
    def lower_test(call: Any) -> Value:
        name = f"math.{function.__name__}"
        _, (x,) = convert_arguments(call, name, _TESTS, *positional(call, name, 1))
        result: Scalar = test(call.b, x) if x.type.kind == "f" else constant(boolean, of_integers)
        return result


_enter_test(math.isnan, is_nan, False)
_enter_test(math.isinf, _is_infinite, False)
_enter_test(math.isfinite, _is_finite, True)


# -- two operands ----------------------------------------------------------------------------------------------------

FUNCTIONS_OF_TWO = {
    math.atan2: ("atan2", _PAIRS),
    math.hypot: ("hypot", _PAIRS),
    math.copysign: ("copysign", same(REAL, 2)),
    math.fmod: ("fmod", same(REAL, 2)),
}


def _enter_binary(function: Any, operation: str, cases: tuple[Signature, ...]) -> None:
    @handles(function)
    def binary(call: Any) -> Value:
        name = f"math.{function.__name__}"
        signature, operands = convert_arguments(call, name, cases, *positional(call, name, 2))
        type_ = signature.result
        return compute(
            call.b, f"{operation}.{type_.register}", type_, *(scalar_cast(call.b, x, type_) for x in operands)
        )


for _function, (_operation, _cases) in FUNCTIONS_OF_TWO.items():
    _enter_binary(_function, _operation, _cases)

_POWERS = (*same(REAL, 2), *(Signature(f, (f, int32)) for f in REAL))


@handles(math.pow)
def power(call: Any) -> Value:
    """Lower `pow`: x to the power y; an int32 exponent keeps float32."""
    signature, (x, y) = convert_arguments(call, "math.pow", _POWERS, *positional(call, "math.pow", 2))
    if y.type.kind == "f":
        return compute(call.b, f"pow.{signature.result.register}", signature.result, x, y)
    wide = compute(call.b, "pow.f64", float64, scalar_cast(call.b, x, float64), scalar_cast(call.b, y, float64))
    return scalar_cast(call.b, wide, signature.result)


@handles(math.modf)
def fraction_and_whole(call: Any) -> Value:
    """Lower `modf`: (fraction, whole part), both with the sign of x."""
    cases = tuple(Signature(t, (t,)) for t in (float64, float32))
    signature, (x,) = convert_arguments(call, "math.modf", cases, *positional(call, "math.modf", 1))
    type_, f = signature.result, signature.result.register
    whole = compute(call.b, f"cvt.rzi.{f}.{f}", type_, x)
    exact = compute(call.b, f"setp.eq.{f}", boolean, whole, x)
    zero = compute(call.b, f"copysign.{f}", type_, constant(type_, 0.0), x)
    return TupleValue((choose(call.b, exact, zero, compute(call.b, f"sub.{f}", type_, x, whole)), whole))


class _Bits:
    """The layout of a float type, and integer operations on its bits."""

    def __init__(self, b: Any, x: Scalar) -> None:
        self.b, self.type = b, x.type
        self.mantissa, self.bias = (23, 127) if x.type is float32 else (52, 1023)
        self.integer = NUMBERS[f"int{x.type.bits}"]

    def __call__(self, name: str, *operands: Scalar) -> Scalar:
        suffix = self.integer.suffix if name in ("shr", "abs", "min", "max") else f"b{self.type.bits}"
        return compute(self.b, f"{name}.{suffix}", self.integer, *operands)

    def constant(self, value: int) -> Scalar:
        return constant(self.integer, value)

    def float(self, name: str, *operands: Scalar) -> Scalar:
        return compute(self.b, f"{name}.{self.type.register}", self.type, *operands)

    def power_of_two(self, exponent: Scalar) -> Scalar:
        """Return the power of two with a biased exponent."""
        return reinterpret(self("shl", exponent, self.constant(self.mantissa)), self.type)


@handles(math.frexp)
def mantissa_and_exponent(call: Any) -> Value:
    """Lower `frexp`: (m, e) with x = m * 2**e and 0.5 <= |m| < 1; e is int32."""
    cases = same(REAL, 1)
    _, (x,) = convert_arguments(call, "math.frexp", cases, *positional(call, "math.frexp", 1))
    b, bits = call.b, _Bits(call.b, x)
    f, shift = x.type.register, bits.mantissa + (1 if x.type is float32 else 2)
    small = compute(b, f"setp.lt.{f}", boolean, bits.float("abs", x), constant(x.type, 2.0 ** (1 - bits.bias)))
    normal = choose(b, small, bits.float("mul", x, constant(x.type, 2.0**shift)), x)
    pattern = reinterpret(normal, bits.integer)
    ones = (1 << (x.type.bits - 1 - bits.mantissa)) - 1
    field = bits("and", bits("shr", pattern, bits.constant(bits.mantissa)), bits.constant(ones))
    zero = compute(b, f"setp.eq.{f}", boolean, x, constant(x.type, 0.0))
    special = either(b, zero, compute(b, f"setp.eq.b{x.type.bits}", boolean, field, bits.constant(ones)))
    offset = choose(b, small, bits.constant(1 - bits.bias - shift), bits.constant(1 - bits.bias))
    exponent = choose(b, special, bits.constant(0), bits("add", field, offset))
    cleared = bits("and", pattern, bits.constant(~(ones << bits.mantissa)))
    half = reinterpret(bits("or", cleared, bits.constant((bits.bias - 1) << bits.mantissa)), x.type)
    mantissa = choose(b, special, bits.float("add", normal, normal), half)
    return TupleValue((mantissa, scalar_cast(b, exponent, int32)))


@handles(math.ldexp)
def scaled_by_power(call: Any) -> Value:
    """Lower `ldexp`: x * 2**n by at most four products with powers of two, as in the device library."""
    cases = tuple(Signature(f, (f, int32)) for f in REAL)
    _, (x, n) = convert_arguments(call, "math.ldexp", cases, *positional(call, "math.ldexp", 2))
    b, bits = call.b, _Bits(call.b, x)
    limit, near = (278, 101) if x.type is float32 else (2099, 217)
    n = scalar_cast(b, n, bits.integer)
    n = bits("max", bits("min", n, bits.constant(limit)), bits.constant(-limit))
    total = bits("add", n, bits.constant(4 * bits.bias))
    quarter = bits("shr", total, bits.constant(2))
    rest = bits("sub", total, bits("mul", quarter, bits.constant(3)))
    close = compute(b, f"setp.lt.{bits.integer.suffix}", boolean, bits("abs", n), bits.constant(near))
    first = bits.power_of_two(choose(b, close, bits("add", n, bits.constant(bits.bias)), rest))
    other = choose(b, close, constant(x.type, 1.0), bits.power_of_two(quarter))
    value = bits.float("mul", x, first)
    for _ in range(3):
        value = bits.float("mul", value, other)
    return value


@handles(math.remainder)
def ieee_remainder(call: Any) -> Value:
    """Lower `remainder`: x - n * y for the integer n nearest to x / y, halves to even; exact."""
    _, (x, y) = convert_arguments(call, "math.remainder", same(REAL, 2), *positional(call, "math.remainder", 2))
    b, f, type_ = call.b, x.type.register, x.type

    def op(name: str, *operands: Scalar) -> Scalar:
        return compute(b, f"{name}.{f}", type_, *operands)

    def test(relation: str, p: Scalar, q: Scalar) -> Scalar:
        return compute(b, f"setp.{relation}.{f}", boolean, p, q)

    size, divisor = op("abs", x), op("abs", y)
    double = op("add", divisor, divisor)
    reduced = op("fmod", size, double)  # reduce to below 2 |y|; if 2 |y| is infinite, |x| is unchanged
    reduced = choose(b, test("eq", divisor, constant(type_, math.inf)), size, reduced)

    def beyond_half(value: Scalar, relation: str) -> Scalar:
        """Return value > divisor / 2 (or >=), without losing the last bit of a subnormal divisor."""
        tiny = test("lt", divisor, constant(type_, 2.0**-125 if type_ is float32 else 2.0**-1021))
        exact = test(relation, op("add", value, value), divisor)
        halved = test(relation, value, op("mul", divisor, constant(type_, 0.5)))
        return choose(b, tiny, exact, halved)

    once = choose(b, beyond_half(reduced, "gt"), op("sub", reduced, divisor), reduced)
    both_times = both(b, beyond_half(reduced, "gt"), beyond_half(once, "ge"))
    value = choose(b, both_times, op("sub", once, divisor), once)
    negative = test("lt", op("copysign", constant(type_, 1.0), x), constant(type_, 0.0))  # also for -0
    value = choose(b, negative, op("neg", value), value)
    undefined = either(b, negate(b, _is_finite(b, x)), either(b, is_nan(b, y), test("eq", y, constant(type_, 0.0))))
    return choose(b, undefined, constant(type_, math.nan), value)


@handles(math.nextafter)
def neighbour(call: Any) -> Value:
    """Lower `nextafter`: the next float after x in the direction of y."""
    _, (x, y) = convert_arguments(call, "math.nextafter", same(REAL, 2), *positional(call, "math.nextafter", 2))
    b, bits, f = call.b, _Bits(call.b, x), x.type.register

    def test(relation: str, p: Scalar, q: Scalar) -> Scalar:
        return compute(b, f"setp.{relation}.{f}", boolean, p, q)

    zero = constant(x.type, 0.0)
    away = compute(b, "xor.pred", boolean, test("lt", x, y), test("lt", x, zero))
    pattern = reinterpret(x, bits.integer)
    stepped = bits("add", pattern, choose(b, away, bits.constant(1), bits.constant(-1)))
    least = bits.float("copysign", reinterpret(bits.constant(1), x.type), y)
    value = choose(b, test("eq", x, zero), least, reinterpret(stepped, x.type))
    value = choose(b, test("eq", x, y), y, value)
    unordered = either(b, is_nan(b, x), is_nan(b, y))
    return choose(b, unordered, bits.float("add", x, y), value)
