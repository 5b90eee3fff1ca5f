"""Values that the host gives to `__device__` and `__constant__` variables of PTX files: `cudaMemcpyToSymbol`."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.ptx.syntax import Symbol
from wsemu.launch.ptx.arguments import POINTER, fit
from wsemu.launch.ptx.demangle import demangle
from wsemu.model.data import NamedTuple, replace
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from wsemu.frontend.ptx import Module, Parameter
    from wsemu.frontend.ptx.syntax import Variable
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.program import ConstantArray, Program

_SHOWN = 8
"""names of variables that a message lists"""


class _Value(NamedTuple):
    """The value of a variable."""

    array: npt.NDArray[Any]
    live: bool
    """true if the stores of launches into it persist"""
    pointers: tuple[tuple[int, npt.NDArray[Any]], ...] = ()
    """(byte, the array whose address is there)"""


class Variables:
    """The variables of linked files, and the values that the host has set."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._modules = modules
        self._values: dict[str, _Value] = {}
        self._made: dict[int, tuple[Program, Program]] = {}

    def set(self, values: Mapping[str, Any]) -> None:
        """Give values to variables.  If one value does not fit, raise UsageError and change no variable."""
        known = _parameters(self._modules)
        made = {}
        for name, value in values.items():
            found = _find_variable(name, known)
            made[found] = _value(known[found], name, value)
        self._values |= made
        self._made.clear()

    def placeable(self, spaces: Sequence[str] = ("global",)) -> dict[str, int]:
        """Return the variables of these spaces that have an address: the bytes of each, by its name in PTX."""
        from wsemu.frontend.ptx.variables import contents

        return {name: contents(variable).nbytes for name, variable in _placeable(self._modules, spaces).items()}

    def place(self, memory: DeviceMemory, addresses: Mapping[str, int] | None = None) -> dict[str, int]:
        """Allocate the `__device__` variables in a device memory, with their initial contents, and return the address
        of each by its PTX name.  Variables that contain addresses of functions or constants are allocated by each
        launch.

        `addresses` are the caller's allocations for variables by PTX name; they may include `__constant__` variables.
        """
        from wsemu.frontend.ptx.variables import contents

        placed = _placeable(self._modules, ("global", "const") if addresses is not None else ("global",))
        if addresses is None:
            addresses = {name: memory.allocate(contents(v).nbytes, demangle(name).name) for name, v in placed.items()}
        placed = {name: variable for name, variable in placed.items() if name in addresses}
        for name, variable in placed.items():
            data = contents(variable)
            words = data.view(np.uint64) if any(isinstance(item, Symbol) for item in variable.initial) else data
            for n, item in enumerate(variable.initial):
                if isinstance(item, Symbol):
                    words[n] = addresses[item.name] + item.offset
            memory.write(addresses[name], data)
            self._values[name] = _Value(memory.view(addresses[name], data.dtype), True)
        self._made.clear()
        return dict(addresses)

    @property
    def values(self) -> dict[str, _Value]:
        """Return the values of variables that the host has set, by name in PTX."""
        return self._values

    def move_arrays(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Variables:
        """Return these variables with their arrays replaced by `move`."""
        made = Variables(self._modules)
        made._values = {
            name: _Value(move(value.array), value.live, tuple((at, move(array)) for at, array in value.pointers))
            for name, value in self._values.items()
        }
        return made

    def enter(self, program: Program) -> None:
        """Record the PTX names of a program's variables, since reports rename them."""
        program.derived["variables"] = [array.name for array in program.constant_arrays]

    def with_values(self, program: Program) -> Program:
        """Return the program with the values that the host has set; the program itself if it uses none of them."""
        if self._values.keys().isdisjoint(program.derived.get("variables", ())):
            return program
        made = self._made.get(id(program))
        if made is None:
            names = program.derived["variables"]
            arrays = [self._with_value(array, name) for array, name in zip(program.constant_arrays, names, strict=True)]
            other = replace(program, constant_arrays=arrays)
            made = self._made[id(program)] = program, other
        return made[1]

    def _with_value(self, array: ConstantArray, name: str) -> ConstantArray:
        value = self._values.get(name)
        if value is None:
            return array
        return array._replace(array=value.array, live=value.live, addresses=(), pointers=value.pointers)


def _parameters(modules: Sequence[Module]) -> dict[str, Parameter]:
    """Return the variables of files by their names in PTX, in the form of parameters."""
    from wsemu.frontend.ptx import Parameter, variable_size

    found: dict[str, Parameter] = {}
    for module in modules:
        for variable in module.file.variables.values():
            size = variable_size(variable)
            if variable.space in ("global", "const") and size and variable.linkage != "extern":
                whole = "b8" if variable.shape or variable.vector > 1 else variable.type
                found.setdefault(variable.name, Parameter(variable.name, whole, size, variable.alignment or 1))
    return found


def _placeable(modules: Sequence[Module], spaces: Sequence[str] = ("global",)) -> dict[str, Variable]:
    """Return the variables of these spaces, by name, whose initializers contain no addresses except of each other."""
    from wsemu.frontend.ptx import variable_size

    found: dict[str, Variable] = {}
    for module in modules:
        for variable in module.file.variables.values():
            if variable.space in spaces and variable_size(variable) and variable.linkage != "extern":
                found.setdefault(variable.name, variable)
    while True:
        kept = {name: v for name, v in found.items() if all(_is_placed(v, item, found) for item in v.initial)}
        if len(kept) == len(found):
            return kept
        found = kept


def _is_placed(variable: Variable, item: object, placed: Mapping[str, Variable]) -> bool:
    """Return whether an item of an initializer is a number or the complete address of one of the variables."""
    if not isinstance(item, Symbol):
        return True
    return item.name in placed and not item.mask and variable.type in ("u64", "s64", "b64")


def _find_variable(name: str, known: Mapping[str, Parameter]) -> str:
    """Return the variable with a name: its name in PTX, its C++ name, or the last part of the C++ name."""
    if name in known:
        return name
    shown = {one: demangle(one).name for one in known}
    for short in (False, True):
        found = [one for one, text in shown.items() if (text.rpartition("::")[2] if short else text) == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"`{name}` is the name of {len(found)} variables: {_list_names(shown[f] for f in found)}")
    near = difflib.get_close_matches(name, shown.values(), 1, 0.6)
    if near:
        raise UsageError(f"no variable `{name}` to set: did you mean `{near[0]}`?")
    raise UsageError(
        f"no variable `{name}` to set: there is {_list_names(shown.values()) or 'none in .global or .const'}"
    )


def _list_names(names: Any) -> str:
    names = [f"`{name}`" for name in names]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _value(parameter: Parameter, name: str, value: Any) -> _Value:
    where = f"`{name}`, a variable of {parameter.bytes:,} bytes,"
    if isinstance(value, (list, range)):
        raise UsageError(f"{where} is set to a {type(value).__name__}: give a NumPy array, whose type says its bytes")
    is_number = parameter.type != "b8" or parameter.bytes == 1
    if isinstance(value, np.ndarray) and not (is_number and parameter.bytes == POINTER and value.ndim):
        return _array(parameter, where, value)
    if not is_number and isinstance(value, np.generic):
        value = value.tobytes()
    fitted = fit(parameter, where, value)
    if isinstance(fitted, np.ndarray):
        return _Value(np.zeros(POINTER, np.uint8), False, ((0, fitted),))
    if fitted.maps:
        raise UsageError(f"{where} is set to a tensor map: pass that as an argument")
    if fitted.blocks:
        raise UsageError(f"{where} has a list in it, which is memory with pointers: pass that as an argument")
    pointers = tuple((at, array) for at, _, array in fitted.arrays)
    return _Value(np.frombuffer(bytearray(fitted.data), np.uint8), False, pointers)


def _array(parameter: Parameter, where: str, value: npt.NDArray[Any]) -> _Value:
    if value.dtype.hasobject:
        raise UsageError(f"{where} is set to an array of Python objects: give one of numbers, or of records")
    if value.nbytes != parameter.bytes:
        shape = ",".join(map(str, value.shape))
        raise UsageError(f"{where} is set to {value.dtype}[{shape}], of {value.nbytes:,}: give an array of as many")
    if not value.flags.c_contiguous:
        raise UsageError(f"{where} is set to an array with gaps: give a contiguous one, `np.ascontiguousarray(x)`")
    return _Value(value.reshape(-1), True)
