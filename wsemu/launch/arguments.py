"""The arguments of a launch as its kernel requires them: converted, prepared, their arrays ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.compiled import as_declared, parameter_names
from wsemu.model.errors import UsageError
from wsemu.model.numba_library import load_numba

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.launch.binding import Way
    from wsemu.model.program import Program


def prepare_arguments(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments of a launch as the kernel requires them."""
    if isinstance(arguments, (str, bytes)) or not hasattr(arguments, "__len__"):
        raise UsageError(f"args is {type(arguments).__name__}: give a tuple of the kernel's arguments")
    if isinstance(arguments, np.ndarray):
        raise UsageError("args is an array: give a tuple of the kernel's arguments, `(x,)`")
    return as_declared(kernel, _own_arrays(_apply_extensions(kernel, arguments)))


def _apply_extensions(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments as the kernel's `extensions` prepare them, the last extension first, as in Numba-CUDA."""
    extensions = getattr(kernel, "extensions", ())
    if not extensions:
        return arguments
    typeof, made = load_numba("numba").typeof, list(arguments)
    for n, value in enumerate(made):
        type_: Any = typeof(value)
        for extension in reversed(extensions):
            type_, value = extension.prepare_args(type_, value, stream=0, retr=[])
        made[n] = value
    return tuple(made)


_PLAIN = frozenset((np.ndarray, int, float, bool))


def _own_arrays(arguments: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments with NumPy arrays instead of records and of arrays of other libraries."""
    if _PLAIN.issuperset(map(type, arguments)):
        return arguments
    return tuple(map(_own_array, arguments))


def _own_array(value: Any) -> Any:
    """Return an argument with a NumPy array instead of an array of another library, or of a record."""
    from wsemu.model.device_array import as_cuda_array, is_foreign, is_lent, lent_array, record_array

    if isinstance(value, np.void):
        return record_array(value)
    if is_foreign(value):
        return as_cuda_array(value)
    return lent_array(value) if is_lent(value) and not isinstance(value, np.generic) else value


def find_arrays(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Yield the arrays that an argument contains (in a tensor map, texture, structure, list, tuple or pattern object),
    each with the path by which `bind` names it."""
    value = underlying_array(value)
    if isinstance(value, np.ndarray):
        yield way, value
    elif isinstance(value, tuple):
        for n, item in enumerate(value):
            yield from find_arrays(item, (*way, n))
    elif hasattr(value, "all_arrays"):  # packed, as in PTX
        yield from value.all_arrays()
    else:
        for name in getattr(value, "__dataclass_fields__", ()):
            yield from find_arrays(getattr(value, name), (*way, name))


def unwritten(kernel: Any, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the uninitialized arrays that the arguments contain, by name."""
    if _PLAIN.issuperset(map(type, arguments)):
        return {}
    held = [(number, way, array) for number, value in enumerate(arguments) for way, array in find_arrays(value)]
    blank = [one for one in held if is_blank(one[2])]
    if not blank:
        return {}
    from wsemu.launch.binding import part_name

    names = parameter_names(kernel, arguments)
    return {part_name(names[number], way): array for number, way, array in blank}


def captured_arrays(program: Program) -> list[Any]:
    """Return the uninitialized arrays that a program names, or whose addresses it contains."""
    if not program.constant_arrays:
        return []
    held = [array for c in program.constant_arrays for array in (c.array, *(array for _, array in c.pointers))]
    return [array for array in held if is_blank(array)]


def underlying_array(value: Any) -> Any:
    """Return the array of a tensor map, texture or surface; return any other argument unchanged."""
    return getattr(value, "mapped", value)


def is_blank(value: Any) -> bool:
    return getattr(underlying_array(value), "blank", False) is True
