"""Operators on complex64 and complex128, by the formulas of Numba's implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.python.scalars import Number, both, choose, compute, constant, either
from wsemu.frontend.python.values import ComplexValue, Scalar
from wsemu.language.numbers import boolean

if TYPE_CHECKING:
    from wsemu.frontend.python.builder import Builder


class _Part:
    """Arithmetic on the parts of complex numbers: `f("mul", a, c)` in their float type."""

    def __init__(self, b: Builder, z: ComplexValue) -> None:
        self.b = b
        self.type = z.real.type
        self.zero = constant(self.type, 0.0)

    def __call__(self, name: str, *operands: Scalar) -> Scalar:
        return compute(self.b, f"{name}.{self.type.register}", self.type, *operands)

    def is_(self, relation: str, x: Scalar, y: Scalar) -> Scalar:
        return compute(self.b, f"setp.{relation}.{self.type.register}", boolean, x, y)


def binary(b: Builder, op: str, x: Number, y: Number) -> ComplexValue:
    """Return `x op y` for + - * /; a zero divisor gives nan (Numba's code ends the thread there)."""
    assert isinstance(x, ComplexValue)
    assert isinstance(y, ComplexValue)
    f = _Part(b, x)
    if op == "+":
        return ComplexValue(x.type, f("add", x.real, y.real), f("add", x.imag, y.imag))
    if op == "-":
        return ComplexValue(x.type, f("sub", x.real, y.real), f("sub", x.imag, y.imag))
    if op == "*":
        real = f("sub", f("mul", x.real, y.real), f("mul", x.imag, y.imag))
        return ComplexValue(x.type, real, f("add", f("mul", x.real, y.imag), f("mul", x.imag, y.real)))
    return _divide(f, x, y)


def _divide(f: _Part, x: ComplexValue, y: ComplexValue) -> ComplexValue:
    """Return the quotient as CPython computes it: scaled by the larger part of the divisor."""
    by_real = f.is_("ge", f("abs", y.real), f("abs", y.imag))
    large, small = choose(f.b, by_real, y.real, y.imag), choose(f.b, by_real, y.imag, y.real)
    ratio = f("div", small, large)
    scale = f("add", large, f("mul", small, ratio))
    first, second = choose(f.b, by_real, x.real, x.imag), choose(f.b, by_real, x.imag, x.real)
    real = f("add", first, f("mul", second, ratio))
    below, above = f("sub", x.imag, f("mul", x.real, ratio)), f("sub", f("mul", x.imag, ratio), x.real)
    imag = choose(f.b, by_real, below, above)
    return ComplexValue(x.type, f("div", real, scale), f("div", imag, scale))


def negative(b: Builder, z: ComplexValue) -> ComplexValue:
    """Return -z."""
    f = _Part(b, z)
    return ComplexValue(z.type, f("neg", z.real), f("neg", z.imag))


def conjugate(b: Builder, z: ComplexValue) -> ComplexValue:
    """Return z with the sign of its imaginary part flipped."""
    return ComplexValue(z.type, z.real, _Part(b, z)("neg", z.imag))


def absolute(b: Builder, z: ComplexValue) -> Scalar:
    """Return |z|, by hypot."""
    return _Part(b, z)("hypot", z.real, z.imag)


def equal(b: Builder, op: str, x: Number, y: Number) -> Scalar:
    """Return `x == y` or `x != y`, from both parts."""
    assert isinstance(x, ComplexValue)
    assert isinstance(y, ComplexValue)
    f = _Part(b, x)
    if op == "==":
        return both(b, f.is_("eq", x.real, y.real), f.is_("eq", x.imag, y.imag))
    return either(b, f.is_("neu", x.real, y.real), f.is_("neu", x.imag, y.imag))


def power(b: Builder, x: ComplexValue, y: ComplexValue) -> ComplexValue:
    """Return x ** y in polar form; 1 for a zero exponent, 0 if base and exponent both have a zero real part."""
    f = _Part(b, x)
    size = f("hypot", x.real, x.imag)
    angle = f("atan2", x.imag, x.real)
    turned = f.is_("neu", y.imag, f.zero)
    length = f("pow", size, y.real)
    length = choose(b, turned, f("div", length, f("exp", f("mul", angle, y.imag))), length)
    phase = f("mul", angle, y.real)
    phase = choose(b, turned, f("add", phase, f("mul", y.imag, f("log", size))), phase)
    real, imag = f("mul", length, f("cos", phase)), f("mul", length, f("sin", phase))
    real_exponent = f.is_("eq", y.real, f.zero)
    one = both(b, real_exponent, f.is_("eq", y.imag, f.zero))
    nothing = both(b, real_exponent, f.is_("eq", x.real, f.zero))
    real = choose(b, one, constant(f.type, 1.0), choose(b, nothing, f.zero, real))
    return ComplexValue(x.type, real, choose(b, either(b, one, nothing), f.zero, imag))
