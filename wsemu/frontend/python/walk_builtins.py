"""Python's builtins that need the walker; the others are in `library_builtins`."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.python import allocation, arithmetic, arrays, printing, stepping, views
from wsemu.frontend.python.library import lookup as library
from wsemu.frontend.python.scalars import constant, describe, literal, scalar_cast
from wsemu.frontend.python.values import (
    ArrayValue,
    ComplexValue,
    FlatValue,
    PatternValue,
    RangeValue,
    Scalar,
    SliceValue,
    Static,
    TupleValue,
    Value,
)
from wsemu.language.numbers import boolean, int32, int64, uint64
from wsemu.language.promotion import number_type, same, select
from wsemu.model.data import dataclass

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker

_RANGES = {count: same((int32, int64, uint64), count) for count in (1, 2, 3)}
"""number of arguments of `range` -> the signatures that Numba has for it"""
_LENGTH, _SMALLEST = library.FUNCTIONS[len], library.FUNCTIONS[min]


def _check_argument_count(
    w: Walker, node: ast.Call, name: str, args: list[Value], kwargs: dict[str, Value], *counts: int
) -> None:
    """Raise an error unless all arguments are positional, and their number is one of `counts`."""
    if kwargs or len(args) not in counts:
        problem = f"takes no argument `{next(iter(kwargs))}`" if kwargs else f"got {len(args)} arguments"
        raise w.error(node, f"`{name}` {problem}", f"give {' or '.join(map(str, counts))}, by position")


def _range(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(w, node, "range", args, kwargs, 1, 2, 3)
    numbers: list[Scalar] = []
    for n, value in enumerate(args):
        if not isinstance(value, Scalar) or value.type.kind not in "iub":
            raise w.error(
                node.args[min(n, len(node.args) - 1)], f"`range` of {describe(value)}", "convert it with `int(...)`"
            )
        numbers.append(value)
    signature = select(_RANGES[len(numbers)], tuple(x.type for x in numbers))
    type_ = int64 if signature is None else signature.result
    cast = [scalar_cast(w.b, x, type_) for x in numbers]
    start, stop = (constant(type_, 0), cast[0]) if len(cast) == 1 else (cast[0], cast[1])
    step = cast[2] if len(cast) == 3 else constant(type_, 1)
    if step.literal == 0:
        raise w.error(
            node.args[2] if len(node.args) == 3 else node, "`range` with a step of 0", "give a step other than 0"
        )
    return RangeValue(start, stop, step)


@dataclass(frozen=True, slots=True)
class Stepped(Value):
    """The sequence of a `for` loop, with `count` items: `item` returns item i."""

    count: Scalar
    item: Callable[[Scalar], Value]


def make_stepped(w: Walker, node: ast.expr, value: Value) -> Stepped:
    """Return an array, a range or a tuple as a sequence for a counting loop."""
    match value:
        case Stepped():
            return value
        case FlatValue():
            of = value.array
            return Stepped(views.element_count(w.b, of), lambda i: arrays.load(w.b, of, views.places(w.b, of, i)))
        case ArrayValue() if value.ndim:
            return Stepped(value.shape[0], lambda i: views.subscript(w.b, value, i))
        case RangeValue():
            count = _LENGTH(w.library_call("len", [value], {}))
            assert isinstance(count, Scalar)
            return Stepped(count, lambda i: _number_of_range(w, value, i))
    items = TupleValue(w.tuple_items(node, value))
    return Stepped(constant(int64, len(items.items)), lambda i: w.tuple_item(node, items, i))


def _number_of_range(w: Walker, span: RangeValue, i: Scalar) -> Value:
    distance = arithmetic.binary(w.b, "*", i, span.step)
    return arithmetic.cast(w.b, arithmetic.binary(w.b, "+", span.start, distance), span.start.type)


def _has_runtime_length(value: Value) -> bool:
    """Return whether the length is known only at run time, so that a loop must count."""
    if isinstance(value, ArrayValue):
        return not value.ndim or value.shape[0].literal is None
    if isinstance(value, RangeValue):
        return any(part.literal is None for part in (value.start, value.stop, value.step))
    return isinstance(value, (Stepped, FlatValue))


def _ndenumerate(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(w, node, "np.ndenumerate", args, kwargs, 1)
    of = args[0]
    if not isinstance(of, ArrayValue):
        raise w.error(node, f"`np.ndenumerate` of {describe(of)}", "give an array")

    def item(i: Scalar) -> Value:
        place = views.places(w.b, of, i)
        return TupleValue((TupleValue(tuple(place)), arrays.load(w.b, of, place)))

    return Stepped(views.element_count(w.b, of), item)


def _ndindex(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(w, node, "np.ndindex", args, kwargs, *range(1, max(len(args), 1) + 1))
    given = args[0].items if len(args) == 1 and isinstance(args[0], TupleValue) else tuple(args)
    shape = tuple(scalar_cast(w.b, arrays.as_index(w.b, x, "np.ndindex"), int64) for x in given)
    count: Value = constant(int64, 1)
    for extent in shape:
        count = arithmetic.binary(w.b, "*", count, extent)
    assert isinstance(count, Scalar)
    return Stepped(count, lambda i: TupleValue(tuple(views.indices_of_shape(w.b, shape, i))))


def _slice(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(w, node, "slice", args, kwargs, 1, 2, 3)
    parts: list[Any] = [None if isinstance(x, Static) and x.object is None else x for x in args]
    if any(x is not None and (not isinstance(x, Scalar) or x.type.kind == "f") for x in parts):
        raise w.error(node, "a slice bound is not an integer", "use integers")
    start, stop, step = {1: (None, *parts, None), 2: (*parts, None), 3: (*parts,)}[len(parts)]
    return w.checked_slice(SliceValue(start, stop, step))


def _lower_limits(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value], kind: Any) -> Value:
    """Lower `np.finfo` or `np.iinfo` of a type or a number."""
    _check_argument_count(w, node, f"np.{kind.__name__}", args, kwargs, 1)
    given = args[0]
    try:
        return Static(kind(np.dtype(given.type.name) if isinstance(given, Scalar) else allocation.host_dtype(given)))
    except ValueError as error:
        raise w.error(node, f"`np.{kind.__name__}`: {error}", "give a type of the other kind") from None


def _ord(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(w, node, "ord", args, kwargs, 1)
    given = args[0].object if isinstance(args[0], Static) else None
    if not isinstance(given, str) or len(given) != 1:
        raise w.unsupported_error(node, f"`ord` of {describe(args[0])}", "give one letter, known outside the kernel")
    return constant(int32, ord(given))


def _enumerate(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = kwargs.pop("start", literal(0))
    _check_argument_count(w, node, "enumerate", args, kwargs, 1, 2)
    start = args[1] if len(args) > 1 else start
    if _has_runtime_length(args[0]):
        whole = make_stepped(w, node, args[0])
        return Stepped(whole.count, lambda i: TupleValue((arithmetic.binary(w.b, "+", start, i), whole.item(i))))
    items = w.tuple_items(node, args[0])
    numbers = (arithmetic.binary(w.b, "+", start, literal(n)) for n in range(len(items)))
    return TupleValue(tuple(TupleValue((n, item)) for n, item in zip(numbers, items, strict=True)))


def _zip(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(
        w, node, "zip", args, {k: v for k, v in kwargs.items() if k != "strict"}, *range(1, max(len(args), 1) + 1)
    )
    if any(map(_has_runtime_length, args)):
        parts = [make_stepped(w, node, value) for value in args]
        counts: list[Value] = [part.count for part in parts]
        count = _SMALLEST(w.library_call("min", counts, {})) if len(counts) > 1 else counts[0]
        assert isinstance(count, Scalar)
        return Stepped(count, lambda i: TupleValue(tuple(part.item(i) for part in parts)))
    columns = [w.tuple_items(node, a) for a in args]
    return TupleValue(tuple(TupleValue(items) for items in zip(*columns, strict=False)))


def _tuple(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(w, node, "tuple", args, kwargs, 0, 1)
    return TupleValue(w.tuple_items(node, args[0]) if args else ())


def _reverse_items(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _check_argument_count(w, node, "reversed", args, kwargs, 1)
    return TupleValue(w.tuple_items(node, args[0])[::-1])


def _isinstance(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Decide `isinstance` at compile time, from the type of the value."""
    _check_argument_count(w, node, "isinstance", args, kwargs, 2)
    ok, types = w.to_host(args[1])
    wanted = types if isinstance(types, tuple) else (types,)
    if not ok or not all(isinstance(t, type) for t in wanted):
        raise w.error(node.args[1], "`isinstance` of unknown types", "give classes known outside the kernel")
    value = args[0]
    if isinstance(value, PatternValue):
        return constant(boolean, issubclass(value.cls, wanted))
    if isinstance(value, (Scalar, ComplexValue)):
        return constant(boolean, any(number_type(t) is value.type for t in wanted))
    if isinstance(value, Static):
        return constant(boolean, isinstance(value.object, wanted))
    return constant(boolean, isinstance(value, TupleValue) and tuple in wanted)


def _breakpoint(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Emit a stop of the debugger; without a debugger, nothing."""
    _check_argument_count(w, node, "breakpoint", args, kwargs, 0)
    if w.stepping:
        stepping.stop(w, breaks=True)
    return Static(None)


BUILTINS: dict[Any, Callable[..., Value]] = {
    range: _range, enumerate: _enumerate, zip: _zip, tuple: _tuple, reversed: _reverse_items, print: printing.call,
    isinstance: _isinstance, breakpoint: _breakpoint, np.ndenumerate: _ndenumerate, np.ndindex: _ndindex,
    slice: _slice, ord: _ord, np.finfo: functools.partial(_lower_limits, kind=np.finfo),
    np.iinfo: functools.partial(_lower_limits, kind=np.iinfo),
}  # fmt: skip
