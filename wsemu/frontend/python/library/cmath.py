"""The module `cmath`: computed in complex128 by the functions of `written`, in the type of the argument."""

from __future__ import annotations

import cmath
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.library.calls import handles, positional
from wsemu.frontend.python.library.inlined import inline_function
from wsemu.frontend.python.library.written import complex_functions as written
from wsemu.frontend.python.scalars import cast, number, part_type, scalar_cast
from wsemu.frontend.python.values import ComplexValue, Scalar, TupleValue, Value
from wsemu.language.numbers import NumberType, boolean, complex64, complex128, float32, float64

if TYPE_CHECKING:
    from collections.abc import Callable

UNARY = "exp log10 sqrt cos sin tan cosh sinh tanh acos asin atan acosh asinh atanh".split()
TESTS = "isnan isinf isfinite".split()


def as_complex(call: Any, x: Value, name: str) -> ComplexValue:
    """Return a number as the complex number that `cmath` uses: complex64 for complex64 and float32."""
    value = number(x, f"`{name}`")
    if isinstance(value, ComplexValue):
        return value
    made = cast(call.b, value, complex64 if value.type is float32 else complex128)
    assert isinstance(made, ComplexValue)
    return made


def apply(call: Any, function: Callable[..., Any], *values: ComplexValue) -> Value:
    """Apply a function of `written` to complex numbers; results have the precision of the first argument."""
    result = inline_function(call, function, *(cast(call.b, z, complex128) for z in values))
    return narrow_result(call, result, values[0].type)


def narrow_result(call: Any, result: Value, type_: NumberType) -> Value:
    """Return a double-precision result in the precision of `type_`."""
    match result:
        case TupleValue():
            return TupleValue(tuple(narrow_result(call, item, type_) for item in result.items))
        case ComplexValue():
            return cast(call.b, result, type_)
        case Scalar() if result.type is not boolean:
            return scalar_cast(call.b, result, part_type(type_))
    return result


def _enter(name: str, function: Callable[..., Any]) -> None:
    @handles(getattr(cmath, name))
    def unary(call: Any) -> Value:
        (x,) = positional(call, f"cmath.{name}", 1)
        return apply(call, function, as_complex(call, x, f"cmath.{name}"))


for _name in (*UNARY, *TESTS, "phase", "polar"):
    _enter(_name, getattr(written, _name))


@handles(cmath.log)
def logarithm(call: Any) -> Value:
    """Lower the logarithm: natural, or to a base."""
    values = [as_complex(call, x, "cmath.log") for x in positional(call, "cmath.log", 1, 2)]
    return apply(call, written.log if len(values) == 1 else written.log_of_base, *values)


@handles(cmath.rect)
def from_polar(call: Any) -> Value:
    """Return the complex number with a magnitude and an angle."""
    parts = [number(x, "`cmath.rect`") for x in positional(call, "cmath.rect", 2)]
    type_ = complex64 if all(x.type is float32 for x in parts) else complex128
    return narrow_result(call, inline_function(call, written.rect, *(cast(call.b, x, float64) for x in parts)), type_)
