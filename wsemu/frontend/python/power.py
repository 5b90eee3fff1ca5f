"""`x ** y` as Numba-CUDA computes it.

With an integer exponent: by repeated squaring in the type of the result.  Numba's code returns a float64 and converts
it back, so that an integer power is exact only up to 2**53 and saturates beyond 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.python import complex_arithmetic
from wsemu.frontend.python.scalars import FALSE, Number, both, cast, choose, compute, constant, negate, scalar_cast
from wsemu.frontend.python.values import ComplexValue, Scalar
from wsemu.language.numbers import boolean, float64

if TYPE_CHECKING:
    from wsemu.frontend.python.builder import Builder
    from wsemu.language.promotion import Signature

CUTOFF = 0x10000
"""exponents above this value go to the library's pow, in float64"""


def raise_to(b: Builder, x: Number, y: Number, signature: Signature) -> Number:
    """Return `x ** y` with the types of `signature`."""
    result, (_, second) = signature.result, signature.operands
    if result.kind == "c":
        base, exponent = cast(b, x, result), cast(b, y, result)
        assert isinstance(base, ComplexValue)
        assert isinstance(exponent, ComplexValue)
        return complex_arithmetic.power(b, base, exponent)
    assert isinstance(x, Scalar)
    assert isinstance(y, Scalar)
    base, exponent = scalar_cast(b, x, result), scalar_cast(b, y, second)
    if exponent.type.kind == "f":
        return compute(b, f"pow.{result.register}", result, base, exponent)
    if exponent.literal is not None:
        return _known_exponent(b, base, int(exponent.literal))
    return _any_exponent(b, base, exponent)


def _multiply(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return compute(b, f"mul.{x.type.register}", x.type, x, y)


def _known_exponent(b: Builder, base: Scalar, exponent: int) -> Scalar:
    """Return a power with a known exponent, by the products that a loop over the bits of the exponent would compute."""
    size = abs(exponent)
    if size > CUTOFF:
        wide = scalar_cast(b, base, float64)
        value = compute(b, "pow.f64", float64, wide, constant(float64, float(exponent)))
        return _finish(b, base, value, constant(boolean, exponent < 0))
    if size == 0:
        return constant(base.type, 1)
    result, square = None, base
    while True:
        if size & 1:
            result = square if result is None else _multiply(b, result, square)
        size >>= 1
        if not size:
            break
        square = _multiply(b, square, square)
    assert result is not None
    if exponent >= 0 and base.type.kind == "f":
        return result
    if exponent < 0 and base.type.kind == "f":  # 1.0 / float64(result), rounded to float32, is the rounded reciprocal
        return compute(b, f"rcp.{base.type.register}", base.type, result)
    value = scalar_cast(b, result, float64)
    if exponent < 0:
        value = compute(b, "rcp.f64", float64, value)
    return _finish(b, base, value, constant(boolean, exponent < 0))


def _any_exponent(b: Builder, base: Scalar, exponent: Scalar) -> Scalar:
    """Return a power with an unknown exponent, by an unrolled loop over 17 bits; a negative exponent gives the
    reciprocal."""
    type_, signed = exponent.type, exponent.type.kind == "i"
    bits = type_.bits
    zero = constant(type_, 0)
    invert = compute(b, f"setp.lt.{type_.suffix}", boolean, exponent, zero) if signed else FALSE
    size = choose(b, invert, compute(b, f"neg.b{bits}", type_, exponent), exponent)
    large = compute(b, f"setp.gt.{type_.suffix}", boolean, size, constant(type_, CUTOFF))
    result, square = constant(base.type, 1), base
    for bit in range(CUTOFF.bit_length()):
        chosen = compute(b, f"and.b{bits}", type_, size, constant(type_, 1 << bit))
        taken = compute(b, f"setp.ne.b{bits}", boolean, chosen, zero)
        result = choose(b, taken, _multiply(b, result, square), result)
        if bit < CUTOFF.bit_length() - 1:
            square = _multiply(b, square, square)
    value = scalar_cast(b, result, float64)
    value = choose(b, invert, compute(b, "rcp.f64", float64, value), value)
    by_library = compute(b, "pow.f64", float64, scalar_cast(b, base, float64), scalar_cast(b, exponent, float64))
    return _finish(b, base, choose(b, large, by_library, value), invert)


def _finish(b: Builder, base: Scalar, value: Scalar, invert: Scalar) -> Scalar:
    """Convert the float64 to the type of the result; integers have their own rules for negative exponents."""
    type_ = base.type
    result = scalar_cast(b, value, type_)
    if type_.kind == "f" or invert.literal is False:
        return result
    zero, lowest = constant(type_, 0), constant(type_, -1 << (type_.bits - 1))

    def is_not(x: int) -> Scalar:
        return compute(b, f"setp.ne.b{type_.bits}", boolean, base, constant(type_, x))

    vanishes = both(b, invert, both(b, is_not(1), is_not(-1)))
    result = choose(b, vanishes, zero, result)
    return choose(b, both(b, invert, negate(b, is_not(0))), lowest, result)
