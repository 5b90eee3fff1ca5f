"""Python's builtins on numbers, tuples and arrays, with Numba-CUDA's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wsemu.frontend.python import complex_arithmetic, text, views
from wsemu.frontend.python.arithmetic import binary, compare, floor_quotient, floor_remainder, unary
from wsemu.frontend.python.library.calls import (
    NOTHING,
    convert_arguments,
    handles,
    integer,
    known_constant,
    positional,
    scalar,
)
from wsemu.frontend.python.library.inlined import inline_function
from wsemu.frontend.python.library.written import rounding
from wsemu.frontend.python.scalars import (
    both,
    cast,
    choose,
    compute,
    constant,
    describe,
    literal,
    number,
    part_type,
    scalar_cast,
    truth,
    widen_half,
)
from wsemu.frontend.python.values import (
    ArrayValue,
    ComplexValue,
    FlatValue,
    PatternValue,
    RangeValue,
    Scalar,
    Static,
    TextValue,
    TupleValue,
    Value,
)
from wsemu.language.numbers import (
    EIGHTS,
    HALVES,
    boolean,
    complex64,
    complex128,
    float32,
    float64,
    int32,
    int64,
    uint64,
)
from wsemu.language.promotion import Signature, resolve, same, select, unify
from wsemu.language.times import is_time


@handles(abs)
def absolute(call: Any) -> Value:
    """Lower `abs`: the result has the type of x; for a complex number it is a float."""
    (x,) = positional(call, "abs", 1)
    operand = number(x, "`abs`")
    if isinstance(operand, ComplexValue):
        return complex_arithmetic.absolute(call.b, operand)
    if is_time(operand.type) or operand.type in EIGHTS:
        return unary(call.b, "abs", operand)
    signature = resolve("abs", operand.type)
    assert signature is not None
    operand = scalar_cast(call.b, operand, signature.result)
    return magnitude(call.b, operand)


def magnitude(b: Any, x: Scalar) -> Scalar:
    """Return |x| of a real number, in its type."""
    if x.type.kind == "u":
        return x
    if x.type in HALVES:
        return scalar_cast(b, compute(b, "abs.f32", float32, widen_half(b, x)), x.type)
    return compute(b, f"abs.{x.type.suffix}", x.type, x)


@handles(min)
def minimum(call: Any) -> Value:
    return _extreme(call, "min", "<")


@handles(max)
def maximum(call: Any) -> Value:
    return _extreme(call, "max", ">")


def _extreme(call: Any, name: str, relation: str) -> Value:
    """Return the smallest or largest argument, or item of a tuple, in the common type of all.

    If one of two floats is a nan, return the other one; otherwise, as in Python, a later item replaces an earlier one
    only if the comparison holds.
    """
    items = call.args
    if call.kwargs:
        raise call.error(f"`{name}` takes no argument `{next(iter(call.kwargs))}`", "give the numbers by position")
    if len(items) == 1 and isinstance(items[0], TupleValue):
        items = list(items[0].items)
    elif len(items) < 2:
        kind = call.unsupported_error if items and isinstance(items[0], ArrayValue) else call.error
        raise kind(f"`{name}` needs two or more numbers, or a tuple of them", "search an array with a loop")
    numbers = [scalar(call, x, f"`{name}`") for x in items]
    if not numbers:
        raise call.error(f"`{name}` of an empty tuple", "give it an item")
    if len(numbers) == 2 and len(call.args) == 2 and all(x.type in (float32, float64) for x in numbers):
        wide = unify(numbers[0].type, numbers[1].type)
        assert wide is not None
        return compute(call.b, f"{name}.{wide.register}", wide, *(scalar_cast(call.b, x, wide) for x in numbers))
    best = numbers[0]
    for x in numbers[1:]:
        type_ = unify(best.type, x.type)
        if type_ is None:
            raise call.error(f"`{name}` is not defined for {best.type} and {x.type}", "convert one of them")
        best, x = scalar_cast(call.b, best, type_), scalar_cast(call.b, x, type_)
        if type_.kind in "iu" and not is_time(type_):
            best = compute(call.b, f"{name}.{type_.suffix}", type_, best, x)
        else:
            best = choose(call.b, compare(call.b, relation, x, best), x, best)
    return best


_ROUND = (Signature(int64, (float32,)), Signature(int64, (float64,)))
_ROUND_TO = (Signature(float32, (float32, int64)), Signature(float64, (float64, int64)))


@handles(round)
def lower_round(call: Any) -> Value:
    """Lower `round`: to the nearest integer, halves to even, as int64; or to decimal digits, as a float."""
    arguments = positional(call, "round", 1, 2)
    if len(arguments) == 1:
        _, (x,) = convert_arguments(call, "round", _ROUND, *arguments)
        return _nearest(call.b, scalar_cast(call.b, x, float64))
    signature, (x, digits) = convert_arguments(call, "round", _ROUND_TO, *arguments)
    if digits.literal is None:
        wide = inline_function(call, rounding.to_digits, scalar_cast(call.b, x, float64), digits)
        return cast(call.b, wide, signature.result)
    return _round_to(call.b, x, int(digits.literal), signature)


def _nearest(b: Any, x: Scalar) -> Scalar:
    return compute(b, "cvt.rni.s64.f64", int64, x)


def _round_to(b: Any, x: Scalar, digits: int, signature: Signature) -> Scalar:
    """Scale, round, scale back in float64; numbers that are too large to scale are unchanged."""

    def op(name: str, *operands: Scalar) -> Scalar:
        return compute(b, f"{name}.f64", float64, *operands)

    wide = scalar_cast(b, x, float64)
    first = constant(float64, _decimal_power(abs(digits) - 22 if digits > 22 else abs(digits)))
    second = constant(float64, 1e22 if digits > 22 else 1.0)
    scaled = op("mul", op("mul", wide, first), second) if digits >= 0 else op("div", wide, first)
    nearest = scalar_cast(b, _nearest(b, scaled), float64)
    half = compute(b, "setp.eq.f64", boolean, op("abs", op("sub", scaled, nearest)), constant(float64, 0.5))
    even = scalar_cast(b, _nearest(b, op("mul", scaled, constant(float64, 0.5))), float64)
    whole = choose(b, half, op("add", even, even), nearest)
    value = op("div", op("div", whole, second), first) if digits >= 0 else op("mul", whole, first)
    limit = constant(float64, float("inf"))
    finite = both(
        b,
        compute(b, "setp.lt.f64", boolean, op("abs", wide), limit),
        compute(b, "setp.neu.f64", boolean, op("abs", scaled), limit),
    )
    return choose(b, finite, scalar_cast(b, value, signature.result), x)


def _decimal_power(exponent: int) -> float:
    """Return 10.0 ** exponent, by repeated squaring in float64."""
    result, square = 1.0, 10.0
    while exponent:
        if exponent & 1:
            result *= square
        exponent >>= 1
        square = square * square if exponent else square
    return result


@handles(int)
def to_int(call: Any) -> Value:
    """Lower `int`: an integer keeps its type; a float or bool becomes int64."""
    (x,) = positional(call, "int", 1)
    value = scalar(call, x, "`int`")
    return value if value.type.kind in "iu" and value.type not in EIGHTS else scalar_cast(call.b, value, int64)


@handles(float)
def to_float(call: Any) -> Value:
    """Lower `float`: a float keeps its type; an integer becomes float64."""
    (x,) = positional(call, "float", 1)
    if isinstance(x, Static) and isinstance(x.object, str):
        try:
            return known_constant(float(x.object))
        except ValueError:
            raise call.error(f"`float` cannot read {x.object!r}", 'write a number, "inf" or "nan"') from None
    value = scalar(call, x, "`float`")
    if value.type.kind == "b":
        raise call.error("`float` of a bool is not part of Numba-CUDA", "write `float(int(...))`")
    return value if value.type.kind == "f" else scalar_cast(call.b, value, float64)


@handles(bool)
def to_bool(call: Any) -> Value:
    """Return whether x is nonzero."""
    (x,) = positional(call, "bool", 1)
    return truth(call.b, x)


@handles(complex)
def to_complex(call: Any) -> Value:
    """Lower `complex`: complex64 from float32 parts, complex128 from any others."""
    numbers = [number(x, "`complex`") for x in positional(call, "complex", 1, 2)]
    for x in numbers:
        if x.type.kind == "b" or x.type in HALVES:
            raise call.error(f"`complex` of a {x.type} is not part of Numba-CUDA", "convert it with `np.float32(...)`")
    type_ = complex64 if all(x.type is float32 for x in numbers) else complex128
    if len(numbers) == 1:
        return cast(call.b, numbers[0], type_)
    real, imag = (scalar_cast(call.b, scalar(call, x, "`complex`"), part_type(type_)) for x in numbers)
    return ComplexValue(type_, real, imag)


@handles(divmod)
def quotient_and_remainder(call: Any) -> Value:
    """Lower `divmod`: (x // y, x % y)."""
    left, right = (scalar(call, x, "`divmod`") for x in positional(call, "divmod", 2))
    signature = resolve("divmod", left.type, right.type)
    assert signature is not None
    x, y = (scalar_cast(call.b, v, signature.result) for v in (left, right))
    return TupleValue((floor_quotient(call.b, x, y), floor_remainder(call.b, x, y)))


@handles(pow)
def power(call: Any) -> Value:
    """Lower `pow`: x ** y."""
    x, y = positional(call, "pow", 2)
    return binary(call.b, "**", x, y)


@handles(sum)
def total(call: Any) -> Value:
    """Lower `sum`: the items of a tuple are added to the int 0."""
    items, *start = positional(call, "sum", 1, 2)
    if not isinstance(items, TupleValue):
        kind = call.unsupported_error if isinstance(items, ArrayValue) else call.error
        raise kind(f"`sum` needs a tuple, not {describe(items)}", "add the elements in a loop")
    result: Value = start[0] if start else literal(0)
    for item in items.items:
        result = binary(call.b, "+", result, item)
    return result


@handles(len)
def length(call: Any) -> Value:
    """Lower `len`: items of a tuple, rows of an array, numbers of a range."""
    (x,) = positional(call, "len", 1)
    match x:
        case TupleValue():
            return known_constant(len(x.items))
        case ArrayValue():
            return x.shape[0]
        case PatternValue() if hasattr(x.cls, "_fields"):
            return known_constant(len(x.fields))
        case FlatValue():
            size: Scalar = views.element_count(call.b, x.array)
            return size
        case RangeValue():
            return _range_length(call.b, x)
        case TextValue():
            return text.length(call.b, x)
        case Static() if isinstance(x.object, (str, bytes, tuple)):
            return known_constant(len(x.object))
    raise call.error(f"`len` of {describe(x)}", "give it a tuple or an array")


def _range_length(b: Any, x: RangeValue) -> Value:
    zero = constant(x.start.type, 0)
    down = compare(b, "<", x.step, zero)
    distance = _distance(b, x, down)
    step = choose(b, down, _subtract(b, zero, x.step), x.step)
    count = floor_quotient(b, scalar_cast(b, _subtract(b, _add(b, distance, step), constant(step.type, 1)), int64),
                           scalar_cast(b, step, int64))  # fmt: skip
    return compute(b, "max.s64", int64, count, constant(int64, 0))


def _distance(b: Any, x: RangeValue, down: Scalar) -> Scalar:
    """Return stop - start, or start - stop for a range that counts down."""
    return choose(b, down, _subtract(b, x.start, x.stop), _subtract(b, x.stop, x.start))


def _add(b: Any, x: Scalar, y: Scalar) -> Scalar:
    return compute(b, f"add.b{x.type.bits}", x.type, x, y)


def _subtract(b: Any, x: Scalar, y: Scalar) -> Scalar:
    return compute(b, f"sub.b{x.type.bits}", x.type, x, y)


_RANGE = tuple(s for n in (1, 2, 3) for s in same((int32, int64, uint64), n))


@handles(range)
def numbers_of_range(call: Any) -> Value:
    """Lower `range`: its type is int32 if no argument is wider, uint64 if all are unsigned, otherwise int64."""
    values = [integer(call, x, "`range`") for x in positional(call, "range", 1, 2, 3)]
    signature = select(_RANGE, tuple(x.type for x in values))
    assert signature is not None
    type_ = signature.result
    numbers = [scalar_cast(call.b, x, type_) for x in values]
    start = constant(type_, 0) if len(numbers) == 1 else numbers[0]
    stop = numbers[0] if len(numbers) == 1 else numbers[1]
    step = numbers[2] if len(numbers) == 3 else constant(type_, 1)
    if step.literal == 0:
        raise call.error("`range` with a step of 0", "give a step other than 0")
    return RangeValue(start, stop, step)


@handles(print)
def show(call: Any) -> Value:
    """Lower `print` to nothing: the order of the output of a GPU's threads is undefined."""
    return NOTHING


Casting = Callable[[Any], Value]


def casting(name: str, type_: Any) -> Casting:
    """Return the handler for calls of a number type, such as `np.float32(x)`."""

    def convert(call: Any) -> Value:
        (x,) = positional(call, name, 1)
        if isinstance(x, (ArrayValue, TupleValue)):
            raise call.error(f"`{name}` converts one number, not {describe(x)}", "convert element by element")
        return cast(call.b, x, type_)

    return convert
