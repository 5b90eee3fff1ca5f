"""NumPy in kernels: scalar types as conversions, and Numba-CUDA's ufuncs on numbers.

A ufunc uses the first of its loops to whose type all operands can be cast; so int32 stays int32, unlike with operators.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wsemu.frontend.python import complex_arithmetic, times
from wsemu.frontend.python.arithmetic import compare
from wsemu.frontend.python.library import cmath as library_cmath
from wsemu.frontend.python.library import math as library_math
from wsemu.frontend.python.library.builtins import casting
from wsemu.frontend.python.library.calls import FUNCTIONS, Handler, handles, positional, scalar
from wsemu.frontend.python.library.written import complex_functions
from wsemu.frontend.python.scalars import (
    both,
    cast,
    choose,
    choose_number,
    compute,
    constant,
    differ,
    either,
    negate,
    scalar_cast,
    truth,
)
from wsemu.frontend.python.values import ComplexValue, Scalar, Value
from wsemu.language.numbers import (
    HALVES,
    NUMBERS,
    NumberType,
    boolean,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wsemu.language.promotion import REAL, number_type
from wsemu.language.times import is_time

_LOOPS = (boolean, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32, float64)
"""NumPy's ufunc loops, in its order"""
_INTEGERS = _LOOPS[1:9]
_LOGIC = _LOOPS[:9]


def loop(call: Any, name: str, types: tuple[NumberType, ...], operands: list[Scalar]) -> NumberType:
    """Return the first of `types` to which every operand can be cast safely; if an operand is a float, an integer can
    be cast to any float type."""
    kinds = {x.type.kind for x in operands}
    mixed = "f" in kinds and bool(kinds & {"i", "u"})
    halves = any(x.type in HALVES for x in operands)
    for type_ in () if halves else types:
        if all(
            (mixed and x.type.kind in "iu" and type_.kind == "f") or np.can_cast(x.type.name, type_.name)
            for x in operands
        ):
            return type_
    raise (call.unsupported_error if halves else call.error)(
        f"`{name}` is not defined for {', '.join(x.type.name for x in operands)}", "convert the operands"
    )


def _operands(call: Any, name: str, count: int, types: tuple[NumberType, ...]) -> list[Scalar]:
    numbers = [scalar(call, x, f"`{name}`") for x in positional(call, name, count)]
    type_ = loop(call, name, types, numbers)
    return [scalar_cast(call.b, x, type_) for x in numbers]


# -- functions of floats ---------------------------------------------------------------------------------------------

_UNARY: dict[np.ufunc, str] = {
    np.sin: "sin", np.cos: "cos", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan",
    np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh", np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh",
    np.log: "log", np.log2: "log2", np.log10: "log10",
}  # fmt: skip


_COMPLEX = frozenset("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh log log2 log10".split())
"""functions that also have loops for complex numbers"""


def _enter_unary(ufunc: np.ufunc, operation: str) -> None:
    name = f"np.{ufunc.__name__}"

    @handles(ufunc)
    def unary(call: Any) -> Value:
        if operation in _COMPLEX and len(call.args) == 1 and isinstance(call.args[0], ComplexValue):
            return library_cmath.apply(call, getattr(complex_functions, operation), call.args[0])
        (x,) = _operands(call, name, 1, REAL)
        return library_math.apply(call.b, operation, x)


for _function, _operation in _UNARY.items():
    _enter_unary(_function, _operation)


def _enter_scaling(ufunc: np.ufunc, factor: float) -> None:
    name = f"np.{ufunc.__name__}"

    @handles(ufunc)
    def scaling(call: Any) -> Value:
        (x,) = _operands(call, name, 1, REAL)
        return library_math.scale(call.b, x, factor)


for _scaling, _factor in {
    np.deg2rad: math.pi / 180.0, np.radians: math.pi / 180.0, np.rad2deg: 180.0 / math.pi, np.degrees: 180.0 / math.pi,
}.items():  # fmt: skip
    _enter_scaling(_scaling, _factor)


def _enter_binary(ufunc: np.ufunc, operation: str) -> None:
    name = f"np.{ufunc.__name__}"

    @handles(ufunc)
    def binary(call: Any) -> Value:
        x, y = _operands(call, name, 2, REAL)
        return compute(call.b, f"{operation}.{x.type.register}", x.type, x, y)


_enter_binary(np.arctan2, "atan2")
_enter_binary(np.hypot, "hypot")
_enter_binary(np.divide, "div")


@handles(np.isnat)
def is_not_a_time(call: Any) -> Value:
    """Return whether a date or a duration is `NaT`."""
    (x,) = positional(call, "np.isnat", 1)
    value = scalar(call, x, "`np.isnat`")
    if not is_time(value.type):
        raise call.error(f"`np.isnat` of a {value.type}", "give a date or a duration")
    return times.is_nat(call.b, value)


@handles(np.isnan)
def is_nan(call: Any) -> Value:
    if len(call.args) == 1 and isinstance(call.args[0], ComplexValue):
        return library_cmath.apply(call, complex_functions.isnan, call.args[0])
    (x,) = _operands(call, "np.isnan", 1, _LOOPS)
    return library_math.is_nan(call.b, x) if x.type.kind == "f" else constant(boolean, False)


@handles(np.conjugate)
def conjugate(call: Any) -> Value:
    if len(call.args) == 1 and isinstance(call.args[0], ComplexValue):
        return complex_arithmetic.conjugate(call.b, call.args[0])
    (x,) = _operands(call, "np.conjugate", 1, (*_INTEGERS, *REAL))
    return x


# -- the larger and the smaller --------------------------------------------------------------------------------------


def _enter_extreme(ufunc: np.ufunc, relation: str, keeps_nan: bool) -> None:
    """Enter an extreme.  `maximum` returns a nan (the first one), `fmax` the other operand; both return the first of
    two equal numbers."""
    name = f"np.{ufunc.__name__}"

    @handles(ufunc)
    def extreme(call: Any) -> Value:
        if any(isinstance(x, ComplexValue) for x in call.args):
            return _complex_extreme(call, relation, keeps_nan, *positional(call, name, 2))
        x, y = _operands(call, name, 2, _LOOPS)
        result = choose(call.b, compare(call.b, relation, x, y), x, y)
        if x.type.kind != "f":
            return result
        odd = library_math.is_nan(call.b, x if keeps_nan else y)
        rest = choose(call.b, odd, x, y)
        either_odd = either(call.b, library_math.is_nan(call.b, x), library_math.is_nan(call.b, y))
        return choose(call.b, either_odd, rest, result)


def _complex_extreme(call: Any, relation: str, keeps_nan: bool, left: Value, right: Value) -> Value:
    """Return the extreme of two complex numbers, in the order of `np.less`."""
    x, y = (library_cmath.as_complex(call, value, "np.maximum") for value in (left, right))
    type_ = x.type if x.type.bits >= y.type.bits else y.type
    first, second = cast(call.b, x, type_), cast(call.b, y, type_)
    result = choose_number(call.b, _compare_complex(call, relation, first, second), first, second)
    odd = [library_cmath.apply(call, complex_functions.isnan, z) for z in (first, second)]  # type: ignore[arg-type]
    rest = choose_number(call.b, odd[0] if keeps_nan else odd[1], first, second)  # type: ignore[arg-type]
    return choose_number(call.b, either(call.b, odd[0], odd[1]), rest, result)  # type: ignore[arg-type]


_EXTREMES: dict[np.ufunc, tuple[str, bool]] = {
    np.maximum: (">=", True), np.minimum: ("<=", True), np.fmax: (">=", False), np.fmin: ("<=", False),
}  # fmt: skip
for _function, (_relation, _keeps) in _EXTREMES.items():
    _enter_extreme(_function, _relation, _keeps)


# -- bits, comparisons, logic ----------------------------------------------------------------------------------------


def _enter_bits(ufunc: np.ufunc, operation: str, types: tuple[NumberType, ...]) -> None:
    name = f"np.{ufunc.__name__}"

    @handles(ufunc)
    def bits(call: Any) -> Value:
        operands = _operands(call, name, ufunc.nin, types)
        type_ = operands[0].type
        suffix = "pred" if type_.kind == "b" else type_.suffix if operation == "shr" else f"b{type_.bits}"
        return compute(call.b, f"{operation}.{suffix}", type_, *operands)


_BITS: dict[np.ufunc, tuple[str, tuple[NumberType, ...]]] = {
    np.bitwise_and: ("and", _LOGIC), np.bitwise_or: ("or", _LOGIC), np.bitwise_xor: ("xor", _LOGIC),
    np.invert: ("not", _LOGIC), np.left_shift: ("shl", _INTEGERS), np.right_shift: ("shr", _INTEGERS),
}  # fmt: skip
for _function, (_operation, _types) in _BITS.items():
    _enter_bits(_function, _operation, _types)


def _enter_comparison(ufunc: np.ufunc, op: str) -> None:
    name = f"np.{ufunc.__name__}"

    @handles(ufunc)
    def comparison(call: Any) -> Value:
        if any(isinstance(x, ComplexValue) for x in call.args):
            return _compare_complex(call, op, *positional(call, name, 2))
        numbers = [scalar(call, x, f"`{name}`") for x in positional(call, name, 2)]
        if {x.type.name for x in numbers} == {"int64", "uint64"}:
            return _compare_signs(call.b, op, *numbers)
        type_ = loop(call, name, _LOOPS, numbers)
        return compare(call.b, op, *(scalar_cast(call.b, x, type_) for x in numbers))


def _compare_complex(call: Any, op: str, left: Value, right: Value) -> Scalar:
    """Compare complex numbers: by the real parts, then by the imaginary parts."""
    x, y = (library_cmath.as_complex(call, value, "np.less") for value in (left, right))
    type_ = x.type if x.type.bits >= y.type.bits else y.type
    first, second = (cast(call.b, value, type_) for value in (x, y))
    assert isinstance(first, ComplexValue)
    assert isinstance(second, ComplexValue)
    if op in ("==", "!="):
        return complex_arithmetic.equal(call.b, op, first, second)
    strict = op[0]
    ahead = compare(call.b, strict, first.real, second.real)
    same = compare(call.b, "==", first.real, second.real)
    return either(call.b, ahead, both(call.b, same, compare(call.b, op, first.imag, second.imag)))


def _compare_signs(b: Any, op: str, x: Scalar, y: Scalar) -> Scalar:
    """Compare int64 with uint64 by value: a negative number is less than any uint64."""
    signed = x if x.type.kind == "i" else y
    zero = constant(signed.type, 0)
    below = compare(b, "<", signed, zero)
    unsigned = NUMBERS["uint64"]
    by_value = compare(b, op, scalar_cast(b, x, unsigned), scalar_cast(b, y, unsigned))
    against_zero = compare(b, op, *(v if v is signed else zero for v in (x, y)))
    return either(b, both(b, below, against_zero), both(b, negate(b, below), by_value))


_COMPARISONS: dict[np.ufunc, str] = {
    np.less: "<", np.less_equal: "<=", np.greater: ">", np.greater_equal: ">=", np.equal: "==", np.not_equal: "!=",
}  # fmt: skip
for _function, _op in _COMPARISONS.items():
    _enter_comparison(_function, _op)


def _enter_logic(ufunc: np.ufunc, operation: Any) -> None:
    name = f"np.{ufunc.__name__}"

    @handles(ufunc)
    def logic(call: Any) -> Value:
        result: Scalar = operation(call.b, *(truth(call.b, x) for x in positional(call, name, ufunc.nin)))
        return result


_LOGICAL: dict[np.ufunc, Any] = {
    np.logical_and: both, np.logical_or: either, np.logical_xor: differ, np.logical_not: negate,
}  # fmt: skip
for _function, _logic in _LOGICAL.items():
    _enter_logic(_function, _logic)


# -- what Numba-CUDA lacks -------------------------------------------------------------------------------------------

_INSTEAD = {
    "sqrt": "math.sqrt(x)", "exp": "math.exp(x)", "exp2": "math.exp2(x)", "expm1": "math.expm1(x)",
    "log1p": "math.log1p(x)", "absolute": "abs(x)", "fabs": "math.fabs(x)", "floor": "math.floor(x)",
    "ceil": "math.ceil(x)", "trunc": "math.trunc(x)", "rint": "round(x)", "power": "x ** y", "add": "x + y",
    "subtract": "x - y", "multiply": "x * y", "floor_divide": "x // y", "remainder": "x % y", "fmod": "math.fmod(x, y)",
    "negative": "-x", "square": "x * x", "sign": "(x > 0) - (x < 0)", "isinf": "math.isinf(x)",
    "isfinite": "math.isfinite(x)", "copysign": "math.copysign(x, y)", "cbrt": "cuda.cbrt(x)", "reciprocal": "1 / x",
    "divmod": "divmod(x, y)", "ldexp": "math.ldexp(x, n)", "frexp": "math.frexp(x)", "modf": "math.modf(x)",
    "nextafter": "math.nextafter(x, y)",
}  # fmt: skip


def absent(ufunc: np.ufunc) -> Handler:
    """Return the handler of a ufunc that Numba-CUDA lacks: an error with a remedy."""

    def refuse(call: Any) -> Value:
        instead = _INSTEAD.get(ufunc.__name__)
        remedy = f"write `{instead}`" if instead else "write it with operators and the functions of `math`"
        raise call.error(f"`np.{ufunc.__name__}` is not part of Numba-CUDA", remedy)

    return refuse


for _member in vars(np).values():
    if isinstance(_member, np.ufunc) and _member not in FUNCTIONS:
        FUNCTIONS[_member] = absent(_member)
for _type in (np.dtype(c).type for c in "?bhilqBHILQefdFD"):
    _number = number_type(_type)
    assert _number is not None
    FUNCTIONS[_type] = casting(f"np.{_type.__name__}", _number)
