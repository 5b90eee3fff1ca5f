"""The arguments of a launch as its kernel wants them: converted, prepared, their arrays ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.compiled import as_declared, parameter_names
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def prepared(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments of a launch as the kernel wants them."""
    if isinstance(arguments, (str, bytes)) or not hasattr(arguments, "__len__"):
        raise UsageError(f"args is {type(arguments).__name__}: give a tuple of the kernel's arguments")
    return as_declared(kernel, _own_arrays(_extended(kernel, arguments)))


def _extended(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments as the kernel's `extensions` prepare them, the last extension first, as in Numba-CUDA."""
    extensions = getattr(kernel, "extensions", ())
    if not extensions:
        return arguments
    from numba import typeof

    made = list(arguments)
    for n, value in enumerate(made):
        type_: Any = typeof(value)
        for extension in reversed(extensions):
            type_, value = extension.prepare_args(type_, value, stream=0, retr=[])
        made[n] = value
    return tuple(made)


_PLAIN = (np.ndarray, int, float, bool)


def _own_arrays(arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments, with arrays of ours for those of other libraries, and for records."""
    if all(type(value) in _PLAIN for value in arguments):
        return arguments
    return tuple(map(_own_array, arguments))


def _own_array(value: Any) -> Any:
    """An argument as an array of ours, where it is one of another library; a record as that of its memory."""
    from wsemu.model.device_array import as_cuda_array, is_foreign, is_lent, lent_array, record_array

    if isinstance(value, np.void):
        return record_array(value)
    if is_foreign(value):
        return as_cuda_array(value)
    return lent_array(value) if is_lent(value) and not isinstance(value, np.generic) else value


def unwritten(kernel: Any, arguments: Sequence[Any]) -> tuple[str, ...]:
    """The arguments that are device arrays which nothing has written yet."""
    blank = [is_blank(value) for value in arguments]
    if not any(blank):
        return ()
    names = parameter_names(kernel, arguments)
    return tuple(name for name, is_blank in zip(names, blank, strict=True) if is_blank)


def described(value: Any) -> Any:
    """The array of a tensor map, any other argument as it is."""
    return getattr(value, "mapped", value)


def is_blank(value: Any) -> bool:
    return getattr(described(value), "blank", False) is True
