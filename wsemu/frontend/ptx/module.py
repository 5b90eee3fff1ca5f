"""A PTX file and the kernels in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeVar

from wsemu.frontend.ptx.sizes import TYPE_BYTES, variable_size
from wsemu.frontend.ptx.source import Source
from wsemu.frontend.ptx.sources import find_sources
from wsemu.frontend.ptx.syntax import Function, Variable
from wsemu.model.data import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.frontend.ptx.syntax import File

Kind = Literal["address", "value", "number"]
"""kind of argument to which a parameter is bound: an array by its address, or bytes; `number`: bytes that contain no
address"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel."""

    name: str
    type: str
    """type as in PTX: u64, f32, ...; b8 for an array of bytes, which is a structure by value"""
    bytes: int
    alignment: int
    """alignment of the parameter in bytes"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel of a PTX file."""

    name: str
    parameters: tuple[Parameter, ...]
    maxntid: tuple[int, ...]
    """maximum threads of a CTA by dimension, if PTX declares them"""
    reqntid: tuple[int, ...]
    """threads of a CTA by dimension, if PTX requires a number"""
    cluster: tuple[int, ...]
    """CTAs of a cluster by dimension, if PTX requires a number"""
    explicit: bool
    """true if the launch must specify the size of its clusters"""
    line: int
    end_line: int
    """last line of its text in the PTX, from 1"""


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file: its kernels by name."""

    file: File
    source: Source
    entries: dict[str, Entry]
    paths: dict[int, str | None] = field(default_factory=dict)
    """number of a source file -> its location, None if it does not exist"""
    hidden: dict[int, str] = field(default_factory=dict)
    """number of a source file that must not be shown -> its location"""
    symbols: Symbols | None = None
    """symbols that the linked files define, None if there is only one file"""

    def function(self, name: str) -> tuple[Module, Function] | None:
        """Return the function with a name, and the file that defines it; only a declaration if no file does."""
        own = self.file.functions.get(name)
        found = self.symbols.functions.get(name) if self.symbols is not None else None
        if found is not None and (own is None or own.body is None or own.linkage in _EXPORTED):
            return found
        return (self, own) if own is not None else None

    def variable(self, name: str) -> tuple[Module, Variable] | None:
        """Return the variable with a name, and the file that defines it; only a declaration if no file does."""
        own = self.file.variables.get(name)
        found = self.symbols.variables.get(name) if self.symbols is not None else None
        if found is not None and own is not None and own.linkage in ("extern", *_EXPORTED):
            return found
        return (self, own) if own is not None else None


_T = TypeVar("_T", Function, Variable)
_EXPORTED = ("visible", "weak", "common")
"""linkage of symbols that other files may refer to (PTX ISA, "Linking Directives")"""


@dataclass(slots=True)
class Symbols:
    """Symbols that several files define for each other, by name."""

    functions: dict[str, tuple[Module, Function]] = field(default_factory=dict)
    variables: dict[str, tuple[Module, Variable]] = field(default_factory=dict)


def link(modules: Sequence[Module]) -> tuple[Module, ...]:
    """Return the files, each with the definitions of the others.  A definition that is not weak takes precedence,
    otherwise the first weak one.  Raise a KernelError if a function or variable has two definitions that are not
    weak."""
    symbols = Symbols()
    linked = tuple(replace(module, symbols=symbols) for module in modules)
    for module in linked:
        for function in module.file.functions.values():
            if function.body is not None and function.linkage in _EXPORTED:
                _define(symbols.functions, module, function)
        for variable in module.file.variables.values():
            if variable.linkage in _EXPORTED:
                _define(symbols.variables, module, variable)
    return linked


def _define(into: dict[str, tuple[Module, _T]], module: Module, what: _T) -> None:
    known = into.get(what.name)
    if known is None or (known[1].linkage != "visible" and what.linkage == "visible"):
        into[what.name] = module, what
    elif known[1].linkage == what.linkage == "visible":
        other = known[0].source.place(known[1].at)
        raise module.source.error(what.at, f"`{what.name}` is defined in {other}, too", "link one of the two files")


def parse(text: str, file: str, roots: Sequence[str] = ()) -> Module:
    """Return the kernels of PTX text.

    `file` is its path, for messages and for the search for sources, which also considers the folders `roots`.
    KernelError names line and column of an error.
    """
    from wsemu.frontend.ptx.parser import parse_file

    return make_module(parse_file(text, file), text, file, roots)


def make_module(tree: File, text: str, file: str, roots: Sequence[str] = ()) -> Module:
    """Return the module of a parsed text, with the sources that exist now."""
    source = Source(text, file)
    folder = os.path.dirname(file)
    paths, hidden = find_sources(tree.sources, folder, roots)
    entries = {function.name: _entry(function, source) for function in tree.functions.values() if function.is_entry}
    return Module(tree, source, entries, paths, hidden)


def _entry(function: Function, source: Source) -> Entry:
    parameters = tuple(
        Parameter(v.name, v.type, variable_size(v), v.alignment or TYPE_BYTES.get(v.type, 8))
        for v in function.parameters
    )
    directives = function.directives
    return Entry(
        function.name,
        parameters,
        directives["maxntid"].values if "maxntid" in directives else (),
        directives["reqntid"].values if "reqntid" in directives else (),
        directives["reqnctapercluster"].values if "reqnctapercluster" in directives else (),
        "explicitcluster" in directives,
        source.position(function.at)[0],
        source.position(function.end)[0],
    )
