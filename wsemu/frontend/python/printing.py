"""Lower `print` in a kernel: its text and values become an operation that shows them, in Numba-CUDA's formats."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from wsemu.frontend.python.library import lookup as library
from wsemu.frontend.python.scalars import describe, register, reinterpret, scalar_cast
from wsemu.frontend.python.values import ComplexValue, Scalar, Static, TupleValue, Value
from wsemu.language.markers import Namespace
from wsemu.language.numbers import float64, int64, uint64
from wsemu.model.isa import PRINTED

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker

MOST = 32
"""maximum number of values of the GPU's `printf` (CUDA C++ Programming Guide, "Formatted Output"); with more, only the
format is printed"""
_RAW = {"%i": "%lld", "%u": "%llu", "%f": "%f", "%b": "%s"}


def call(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Emit the operation that shows the values of one `print`."""
    if kwargs:
        raise w.error(node, f"`print` takes no argument `{next(iter(kwargs))}` in a kernel", "give values alone")
    parts: list[str] = []
    values: list[Scalar] = []
    for n, value in enumerate(args):
        parts += [" "] * bool(n)
        _item(w, node, value, parts, values)
    parts.append("\n")
    if len(args) > MOST or len(values) >= 1 << PRINTED:
        parts, values = [_RAW.get(part, part) for part in parts], []
        w.notes.append(f"a `print` of more than {MOST} values writes its format, as on a GPU")
    number = len(w.b.graph.prints)
    w.b.graph.prints.append(tuple(parts))
    w.at(node)
    for n, scalar in enumerate(values or [Scalar(int64, None, 0)]):
        w.b.effect("show", (register(w.b, scalar),), immediate=number << PRINTED | n)
    return Static(None)


def _item(w: Walker, node: ast.Call, value: Value, parts: list[str], values: list[Scalar]) -> None:
    match value:
        case Scalar():
            kind, bits = _format_specifier(w, value)
            parts.append(kind)
            values.append(bits)
        case TupleValue():
            parts.append("(")
            for n, item in enumerate(value.items):
                parts += [", "] * bool(n)
                _item(w, node, item, parts, values)
            parts.append(",)" if len(value.items) == 1 else ")")
        case Static() if isinstance(value.object, str):
            parts.append(value.object.replace("%", "%%"))
        case Static() if isinstance(value.object, Namespace) and dir(value.object) == ["x", "y", "z"]:
            axes = [library.marker_value(w.b, getattr(value.object, axis)) for axis in "xyz"]
            _item(w, node, TupleValue(tuple(axis for axis in axes if axis is not None)), parts, values)
        case ComplexValue():
            raise w.error(node, f"`print` of a {value.type} is not part of Numba-CUDA", "print its .real and .imag")
        case _:
            raise w.operand_error(
                node, f"`print` of {describe(value)}", "print numbers, tuples of them, and text", value
            )


def _format_specifier(w: Walker, value: Scalar) -> tuple[str, Scalar]:
    """Return the format of a number, and its 64 bits."""
    if value.type.kind == "f":
        return "%f", reinterpret(scalar_cast(w.b, value, float64), int64)
    kind = {"u": "%u", "b": "%b"}.get(value.type.kind, "%i")
    return kind, scalar_cast(w.b, value, uint64 if kind == "%u" else int64)
