"""NumPy's reductions of whole arrays, such as `np.sum(x)` and `x.mean()`: one thread reads all elements, in row order.

Types are Numba's: sums of integers are int64 or uint64, of floats in their own type; means, variances and deviations of
integers are float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.python.library.calls import array, handles
from wsemu.frontend.python.library.inlined import over_elements, walk_body
from wsemu.frontend.python.library.written import reductions as written
from wsemu.frontend.python.scalars import cast
from wsemu.frontend.python.values import ArrayValue, Value
from wsemu.language.numbers import NumberType, boolean, complex128, float64, int64, uint64
from wsemu.language.promotion import number_type
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


def _same(type_: NumberType) -> NumberType:
    return type_


def _total(type_: NumberType) -> NumberType:
    """Return the type of a sum or product."""
    return type_ if type_.kind in "fc" else uint64 if type_.kind == "u" else int64


def _mean(type_: NumberType) -> NumberType:
    return type_ if type_.kind in "fc" else float64


def _mean_type(type_: NumberType) -> NumberType:
    """Return the type of a mean without nans, which is computed in double precision."""
    return complex128 if type_.kind == "c" else float64


def _spread(type_: NumberType) -> NumberType:
    """Return the type of a variance or deviation."""
    return float64


class Reduction(NamedTuple):
    text: str
    result: Callable[[NumberType], NumberType]
    relation: str = ""


REDUCTIONS = {
    "sum": Reduction(written.SUM, _total),
    "prod": Reduction(written.PRODUCT, _total),
    "mean": Reduction(written.MEAN, _mean),
    "var": Reduction(written.VARIANCE, _spread),
    "std": Reduction(written.DEVIATION, _spread),
    "all": Reduction(written.ALL, lambda _: boolean),
    "any": Reduction(written.ANY, lambda _: boolean),
    "count_nonzero": Reduction(written.COUNT, lambda _: int64),
    "min": Reduction(written.EXTREME, _same, "<"),
    "max": Reduction(written.EXTREME, _same, ">"),
    "argmin": Reduction(written.PLACE, lambda _: int64, "<"),
    "argmax": Reduction(written.PLACE, lambda _: int64, ">"),
    "nansum": Reduction(written.NAN_SUM, _total),
    "nanprod": Reduction(written.NAN_PRODUCT, _total),
    "nanmean": Reduction(written.NAN_MEAN, _mean_type),
    "nanvar": Reduction(written.NAN_VARIANCE, _spread),
    "nanstd": Reduction(written.NAN_DEVIATION, _spread),
    "nanmin": Reduction(written.NAN_EXTREME, _same, "<"),
    "nanmax": Reduction(written.NAN_EXTREME, _same, ">"),
}


def reduce(call: Any, name: str, x: ArrayValue) -> Value:
    """Lower a reduction of all elements of an array, and return its result."""
    reduction = REDUCTIONS[name]
    element = number_type(x.dtype)
    if element is None:
        raise call.error(f"`np.{name}` of `{x.name}`, an array of {x.dtype}", "give an array of numbers")
    type_ = reduction.result(element)
    ufunc = {"<": "np.less(value, best)", ">": "np.greater(value, best)"}
    plain = f"value {reduction.relation} best"
    relation = ufunc.get(reduction.relation, "") if element.kind == "c" else plain
    body, assigned = over_elements(reduction.text.replace("{relation}", relation), x.ndim)
    space = {
        "np": np, "math": math, "range": range,
        **{other: _Reduced(other) for other in ("mean", "var", "nanmean", "nanvar")},
        "zero": _host(type_, 0), "one": _host(type_, 1), "zero_float": np.float64(0),
        "undefined": np.dtype(type_.name).type(math.nan) if type_.kind in "fc" else _host(type_, 0),
    }  # fmt: skip
    return cast(call.b, walk_body(call, body, assigned, space, {"x": x}), type_)


def _host(type_: NumberType, value: int) -> Any:
    return np.dtype(type_.name).type(value)


class _Reduced:
    """A reduction with the name that messages show."""

    def __init__(self, name: str) -> None:
        self.number = name

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reduced) and other.number == self.number


def _enter(name: str) -> None:
    @handles(getattr(np, name), _Reduced(name))
    def reduction(call: Any) -> Value:
        if call.kwargs or len(call.args) != 1:
            what = f"`{next(iter(call.kwargs))}=`" if call.kwargs else f"{len(call.args)} arguments"
            raise call.unsupported_error(f"`np.{name}` with {what}", "reduce a whole array, or write loops")
        return reduce(call, name, array(call, call.args[0], f"`np.{name}`"))


for _name in REDUCTIONS:
    _enter(_name)
