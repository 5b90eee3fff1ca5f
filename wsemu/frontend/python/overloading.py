"""Calls of functions with `@overload`: the types of the arguments, as Numba types, select the implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.values import ArrayValue, ComplexValue, RecordValue, Scalar, Static, TupleValue, Value
from wsemu.language import overloads
from wsemu.model.numba_library import load_numba

if TYPE_CHECKING:
    from types import FunctionType


def find_overload(function: Any, args: list[Value], kwargs: dict[str, Value]) -> FunctionType | None:
    """Return the function that `@overload` selects for a call; None if there is none."""
    choosers = overloads.of(function)
    if not choosers:
        return None
    types = [numba_type(value) for value in args]
    named = {name: numba_type(value) for name, value in kwargs.items()}
    for chooser in reversed(choosers):
        made = chooser(*types, **named)
        if made is not None:
            found: FunctionType = getattr(made, "py_func", made)
            return found
    return None


def numba_type(value: Value) -> Any:
    """Return Numba's type of a value."""
    types, from_dtype = load_numba("numba.core.types"), load_numba("numba.np.numpy_support").from_dtype

    match value:
        case Scalar() | ComplexValue():
            return getattr(types, value.type.name.replace("bool", "boolean"))
        case TupleValue():
            return types.Tuple([numba_type(item) for item in value.items])
        case ArrayValue():
            layout = "C" if value.ndim and value.strides[-1].literal == value.dtype.itemsize else "A"
            return types.Array(from_dtype(value.dtype), value.ndim, layout)
        case RecordValue():
            return from_dtype(value.dtype)
        case Static() if value.object is None:
            return types.none
        case Static() if isinstance(value.object, str):
            return types.StringLiteral(value.object)
    return types.undefined
