"""A kernel compiled for the arguments of a launch: once for each combination of their types, as Numba does."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

from wsemu.language.promotion import number_type
from wsemu.launch.code import Code
from wsemu.model.data import NamedTuple
from wsemu.model.errors import MistypedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from wsemu.frontend.python.values import TypedVariable
    from wsemu.language.numbers import NumberType
    from wsemu.model.program import Program


class Compiled(NamedTuple):
    """A kernel compiled for argument types."""

    program: Program
    names: tuple[str, ...]
    notes: tuple[str, ...]


_cache: weakref.WeakKeyDictionary[Any, dict[Any, Compiled]] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def nothing_compiled() -> Iterator[None]:
    """Compile kernels again inside the `with` block, and forget the results afterwards, because their sources are read
    differently there."""
    global _cache
    before, _cache = _cache, weakref.WeakKeyDictionary()
    try:
        yield
    finally:
        _cache = before


def compile_for_types(kernel: Any, arguments: Sequence[Any], fma: bool) -> Compiled:
    """Return the program of `kernel` for arguments of these types.  It is compiled once, as in Numba, so that globals
    are frozen."""
    if isinstance(kernel, Code):
        return Compiled(kernel.program(arguments, fma), kernel.names(arguments), kernel.notes)
    from wsemu.frontend.python.compile import argument_type

    function = getattr(kernel, "py_func", kernel)
    if getattr(function, "__code__", None) is None:
        raise UsageError(f"`{kernel!r}` is no kernel: give a function decorated with `@cuda.jit`")
    names = _function_parameters(function, arguments)
    types = tuple(map(argument_type, arguments, names))
    programs = _cache.setdefault(function, {})
    key = (types, fma, getattr(kernel, "registers", 0), _debug(kernel))
    result = programs.get(key)
    if result is None:
        result = programs[key] = compiled_anew(kernel, arguments, fma)
    return result


def compiled_anew(kernel: Any, arguments: Sequence[Any], fma: bool) -> Compiled:
    """Return the program of a Python function for arguments of these types, compiled from its current source."""
    from wsemu.frontend.python.compile import argument_type, compile_kernel

    names = parameter_names(kernel, arguments)
    types = tuple(map(argument_type, arguments, names))
    registers = getattr(kernel, "registers", 0)
    function = getattr(kernel, "py_func", kernel)
    made = compile_kernel(
        function, types, fma=fma, registers=registers, debug=_debug(kernel), link=linked_files(kernel)
    )
    return Compiled(made.program, names, tuple(made.notes))


def forget(function: Any) -> None:
    """Compile a function again at the next launch."""
    _cache.pop(function, None)


def compiled_signatures(function: Any) -> list[tuple[Any, ...]]:
    """Return the types of arguments for which a function has been compiled."""
    return list(dict.fromkeys(types for types, *_ in _cache.get(function, ())))


def variables(kernel: Any, arguments: Sequence[Any]) -> list[TypedVariable]:
    """Return the variables of a kernel for arguments of these types."""
    from wsemu.frontend.python.compile import argument_type, compile_kernel

    return compile_kernel(kernel.py_func, tuple(map(argument_type, arguments)), debug=_debug(kernel)).variables


def type_of_variable(function: Any, dtypes: Sequence[np.dtype[Any]], name: str) -> NumberType | None:
    """Return the type of a function's variable for numbers of these types."""
    from wsemu.frontend.python.compile import compile_kernel

    types = tuple(type_ for type_ in map(number_type, dtypes) if type_ is not None)
    found = compile_kernel(function, types).variables
    return next((number_type(variable.type) for variable in found if variable.name == name), None)


def _debug(kernel: Any) -> bool:
    """Return whether a kernel was declared with `debug=True`."""
    return bool(getattr(kernel, "options", {}).get("debug"))


def linked_files(kernel: Any) -> tuple[Any, ...]:
    """Return the files of a kernel's option `link`."""
    given = getattr(kernel, "options", {}).get("link")
    return () if given is None else tuple(given) if isinstance(given, (list, tuple, set)) else (given,)


def parameter_names(kernel: Any, arguments: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the parameters.  Raise UsageError if the number of arguments differs."""
    if isinstance(kernel, Code):
        return kernel.names(arguments)
    return _function_parameters(getattr(kernel, "py_func", kernel), arguments)


def _function_parameters(function: Any, arguments: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters, for this number of arguments."""
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    name = function.__name__
    if len(arguments) < len(names):
        raise MistypedError(
            f"`{name}` got {len(arguments)} of {len(names)} arguments: missing `{'`, `'.join(names[len(arguments) :])}`"
        )
    if len(arguments) > len(names):
        count = f"{len(names)} argument{'s' * (len(names) != 1)}"
        raise MistypedError(f"`{name}` takes {count} ({', '.join(names)}), not {len(arguments)}")
    return names


def as_declared(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments as the signatures of the kernel, or its code, require them."""
    if isinstance(kernel, Code):
        return kernel.fit(arguments)
    declared = getattr(kernel, "declared", ())
    if not declared:
        return arguments
    from wsemu.language.signatures import fit

    return fit(declared, arguments, kernel.__name__, parameter_names(kernel, arguments))
