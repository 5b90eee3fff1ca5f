"""Debugger stops: an operation before each statement shows the variables of the function, and has no other
effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.frontend.python.scalars import register, reinterpret, scalar_cast, widen_half
from wsemu.frontend.python.values import ArrayValue, ComplexValue, Scalar, Static, TupleValue, Value
from wsemu.language.numbers import bfloat16, float64, int64, uint64
from wsemu.model.isa import PRINTED, STOPS
from wsemu.model.program import Shown, Stop

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.python.walker import Walker

_MOST = 1 << PRINTED


def stop(w: Walker, *, breaks: bool = False) -> None:
    """Emit a stop before the current statement."""
    shown: list[tuple[str, Shown]] = []
    values: list[Register] = []
    for name, value in w.env.items():
        parts: list[Register] = []
        how = _describe_shown(w, value, parts)
        if how is not None and name.isidentifier() and len(values) + len(parts) < _MOST:
            shown.append((name, how))
            values += parts
    number = len(w.b.graph.stops)
    function = getattr(w.frame.source.node, "name", "<lambda>")
    w.b.graph.stops.append(Stop(function, tuple(shown), breaks))
    for n, bits in enumerate(values or [w.b.constant("b64", 0)]):
        w.b.effect("show", (bits,), immediate=number << PRINTED | n, auxiliary=STOPS)


def _describe_shown(w: Walker, value: Value, parts: list[Register]) -> Shown | None:
    match value:
        case Scalar(literal=None):
            plain = widen_half(w.b, value) if value.type is bfloat16 else value
            parts.append(_bits(w, plain))
            return Shown("number", np.dtype(plain.type.name))
        case Scalar() if value.type is bfloat16:
            return Shown("known", value.literal)
        case Scalar():
            return Shown("known", np.dtype(value.type.name).type(value.literal))
        case ComplexValue():
            parts += [_bits(w, value.real), _bits(w, value.imag)]
            return Shown("complex", np.dtype(value.type.name))
        case TupleValue():
            items = [_describe_shown(w, item, parts) for item in value.items]
            return None if None in items else Shown("tuple", tuple(items))
        case ArrayValue() if value.dtype.names is None and value.dtype.kind in "biufc":
            parts += [value.address, *(_bits(w, x) for x in (*value.shape, *value.strides))]
            return Shown("array", value.dtype, value.ndim)
        case Static() if value.object is None or isinstance(value.object, (str, bytes)):
            return Shown("known", value.object)
    return None


def _bits(w: Walker, value: Scalar) -> Register:
    """Return the 64 bits of a number; a float is converted to float64."""
    if value.type.kind == "f":
        return register(w.b, reinterpret(scalar_cast(w.b, value, float64), int64))
    return register(w.b, scalar_cast(w.b, value, uint64 if value.type.kind == "u" else int64))
