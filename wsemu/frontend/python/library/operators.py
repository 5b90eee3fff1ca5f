"""The module `operator`: its functions are Python's operators, on their types."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import arithmetic
from wsemu.frontend.python.library.calls import NOTHING, handles, positional
from wsemu.frontend.python.scalars import negate, truth

if TYPE_CHECKING:
    from wsemu.frontend.python.values import Value

BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
}  # fmt: skip
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
UNARY = {"neg": "-", "pos": "+", "invert": "~", "inv": "~"}


def _enter_binary(name: str, op: str) -> None:
    in_place = getattr(operator, f"i{name.rstrip('_')}")

    @handles(getattr(operator, name), in_place)
    def binary(call: Any) -> Value:
        x, y = positional(call, f"operator.{name}", 2)
        return arithmetic.binary(call.b, op, x, y)


def _enter_comparison(name: str, op: str) -> None:
    @handles(getattr(operator, name))
    def comparison(call: Any) -> Value:
        x, y = positional(call, f"operator.{name}", 2)
        return arithmetic.compare(call.b, op, x, y)


def _enter_unary(name: str, op: str) -> None:
    @handles(getattr(operator, name))
    def unary(call: Any) -> Value:
        (x,) = positional(call, f"operator.{name}", 1)
        return arithmetic.unary(call.b, op, x)


for _name, _op in BINARY.items():
    _enter_binary(_name, _op)
for _name, _op in COMPARISONS.items():
    _enter_comparison(_name, _op)
for _name, _op in UNARY.items():
    _enter_unary(_name, _op)


@handles(operator.truth)
def is_true(call: Any) -> Value:
    (x,) = positional(call, "operator.truth", 1)
    return truth(call.b, x)


@handles(operator.not_)
def is_false(call: Any) -> Value:
    (x,) = positional(call, "operator.not_", 1)
    return negate(call.b, truth(call.b, x))


@handles(operator.getitem)
def item(call: Any) -> Value:
    container, index = positional(call, "operator.getitem", 2)
    made: Value = call.walker.subscript(call.walker.node, container, index)
    return made


@handles(operator.setitem)
def set_item(call: Any) -> Value:
    container, index, value = positional(call, "operator.setitem", 3)
    call.walker.store_item(call.walker.node, container, index, value)
    return NOTHING
