"""Rules for the declarations of a PTX file (PTX ISA chapters 5, 7 and 11), as ptxas 13.0 applies them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.sizes import TYPE_BYTES, variable_size
from wsemu.frontend.ptx.syntax import Number

if TYPE_CHECKING:
    from wsemu.frontend.ptx.source import Source
    from wsemu.frontend.ptx.syntax import Directive, File, Function, Variable

_TARGETS = frozenset(
    "10 11 12 13 20 21 30 32 35 37 50 52 53 60 61 62 70 72 75 80 86 87 88 89 90 100 101 103 107 110 120 121".split()
)
_OPTIONS = frozenset(("texmode_unified", "texmode_independent", "texmode_raw", "debug", "map_f64_to_f32"))
"""options of `.target` that these architectures have"""
_MAX_VECTOR_BYTES, _MAX_CONSTANT_BYTES = 16, 1 << 16
_INITIALIZED = frozenset(("global", "const"))
"""state spaces whose variables may have an initial value"""
_ATTRIBUTES = frozenset((".managed", ".unified"))
_EXCLUSIVE = (("reqntid", "maxntid"), ("reqnctapercluster", "maxclusterrank"))
"""directives that exclude each other"""
_OF_FUNCTIONS = frozenset(("noreturn", "abi_preserve", "abi_preserve_control"))
"""directives that only device functions have"""
_OF_KERNELS = frozenset(
    "maxnreg maxntid reqntid minnctapersm maxnctapersm maxclusterrank reqnctapercluster explicitcluster "
    "blocksareclusters".split()
)
"""directives that only kernels have"""


def check_target(source: Source, at: int, target: str, options: list[str]) -> None:
    """Raise a KernelError for a target or an option that does not exist."""
    found = re.fullmatch(r"sm_(\d+)[af]?", target)
    if found is not None and found[1] not in _TARGETS:
        raise source.error(at, f"`.target` does not know {target}", "name an architecture such as sm_90")
    for option in options:
        if option not in _OPTIONS and not option.startswith("sm_"):
            raise source.error(at, f"`.target` has no option {option}", "remove it")


def check_alignment(source: Source, at: int, alignment: int) -> None:
    """Raise a KernelError for an alignment other than a power of two."""
    if alignment <= 0 or alignment & (alignment - 1):
        raise source.error(at, f"an alignment of {alignment}: only powers of two are valid", "write 1, 2, 4, 8 or 16")


def check_attributes(source: Source, at: int, space: str, names: list[str]) -> None:
    """Raise a KernelError for attributes that the state space does not have."""
    for name in names:
        if name not in _ATTRIBUTES:
            raise source.error(at, f"`.attribute` has no {name}", "write `.managed`, or remove it")
        if name == ".unified":
            raise source.error(at, "`.attribute(.unified)` is not modelled", "declare the variable without it")
        if space != "global":
            raise source.error(at, f"a variable in .{space} memory has no attribute {name}", "declare it in .global")


def check_variable(source: Source, variable: Variable) -> None:
    """Raise a KernelError for a variable that its state space or type does not permit."""
    name, at = variable.name, variable.at
    if variable.type == "pred" and variable.space != "reg":
        raise source.error(at, f"`{name}` is a predicate in .{variable.space} memory", "declare it in .reg")
    if variable.vector > 1 and variable.vector * TYPE_BYTES.get(variable.type, 0) > _MAX_VECTOR_BYTES:
        message = f"`{name}` is a vector of {variable.vector * TYPE_BYTES[variable.type] * 8} bits: at most 128"
        raise source.error(at, message, "use an array, or fewer elements")
    if variable.initial:
        _check_initial(source, variable)


def _check_initial(source: Source, variable: Variable) -> None:
    name, at = variable.name, variable.at
    if variable.linkage == "extern":
        raise source.error(at, f"`{name}` is extern and has an initial value", "initialize it where it is defined")
    if variable.space not in _INITIALIZED:
        message = f"`{name}` in .{variable.space} memory has an initial value"
        raise source.error(at, message, "store the value in the kernel")
    room = variable.vector * math.prod(variable.shape)
    if room and len(variable.initial) > room:
        message = f"`{name}` has {room:,} elements and {len(variable.initial):,} initial values"
        raise source.error(at, message, "remove values, or enlarge it")
    for value in variable.initial:
        if type(value) is not Number:
            continue
        if value.is_float_bits and variable.type[0] in "us":
            raise source.error(
                value.at, f"a floating-point value for `{name}` of type .{variable.type}", "write an integer"
            )
        if not value.is_float_bits and value.value and variable.type in ("f32", "f64"):
            raise source.error(value.at, f"an integer for `{name}` of type .{variable.type}", "write a decimal point")


def check_module_variable(source: Source, variable: Variable, version: str) -> None:
    """Raise a KernelError for a variable outside functions that belongs into one."""
    if variable.space in ("reg", "local") and not version.startswith(("1.", "2.")):
        message = f"`{variable.name}` in .{variable.space} is declared outside of functions"
        raise source.error(variable.at, message, "declare it in the function that uses it")


def check_function(source: Source, function: Function) -> None:
    """Raise a KernelError for directives and parameters that the function cannot have."""
    given = function.directives
    for one, other in _EXCLUSIVE:
        if one in given and other in given:
            raise source.error(given[other].at, f"`.{one}` and `.{other}` exclude each other", "remove one of them")
    for name, directive in given.items():
        _check_directive(source, function, name, directive)
    if "noreturn" in given and function.results:
        raise source.error(function.at, f"`{function.name}` has `.noreturn` and a result", "remove one of them")
    if function.is_entry:
        for parameter in function.parameters:
            if parameter.space != "param":
                message = f"`{parameter.name}`, a parameter of a kernel, is in .{parameter.space}"
                raise source.error(parameter.at, message, "declare it in .param")


def _check_directive(source: Source, function: Function, name: str, directive: Directive) -> None:
    if name in (_OF_FUNCTIONS if function.is_entry else _OF_KERNELS):
        kind = "a kernel" if function.is_entry else "a device function"
        raise source.error(directive.at, f"`.{name}` of {kind}", "remove it")
    if name == "maxnreg" and directive.values[:1] == (0,):
        raise source.error(directive.at, "`.maxnreg` of 0 registers", "write a number from 16 on")


def check_redeclared(source: Source, known: Function, function: Function) -> None:
    """Raise a KernelError for two declarations of a function that differ."""
    for what, one, other in (
        ("parameters", known.parameters, function.parameters),
        ("results", known.results, function.results),
    ):
        if [variable_size(v) for v in one] != [variable_size(v) for v in other]:
            message = f"`{function.name}` was declared before with other {what}"
            raise source.error(function.at, message, "make the declarations equal")


def check_file(source: Source, file: File, aliases: list[tuple[str, str, int]]) -> None:
    """Raise a KernelError for names that mean two things, for aliases of nothing, and for too many constants."""
    for name, function in file.functions.items():
        if name in file.variables:
            raise source.error(function.at, f"`{name}` is a variable and a function", "rename one of them")
    for alias, name, at in aliases:
        function_ = file.functions.get(name)
        if function_ is None or function_.body is None or function_.linkage == "weak":
            what = "a weak function" if function_ is not None and function_.linkage == "weak" else "not defined here"
            raise source.error(at, f"`{name}`, which `{alias}` stands for, is {what}", "name a function of this file")
    constants = [v for v in file.variables.values() if v.space == "const" and v.linkage != "extern"]
    size = sum(variable_size(v) for v in constants)
    if size > _MAX_CONSTANT_BYTES:
        message = f"{size:,} bytes of constants: at most {_MAX_CONSTANT_BYTES:,}"
        raise source.error(constants[-1].at, message, "declare the larger ones in .global")
