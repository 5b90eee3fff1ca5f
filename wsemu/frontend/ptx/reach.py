"""Functions and variables that a kernel reaches by name, in all linked files; functions whose address is taken; and
functions that may call themselves."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.flow import strong_components
from wsemu.frontend.ptx.sizes import variable_size
from wsemu.frontend.ptx.syntax import Address, Block, Function, Instruction, Label, Name, Symbol, Vector
from wsemu.model.addresses import FIRST_FUNCTION, FUNCTION_STEP
from wsemu.model.input_limits import INPUT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from wsemu.frontend.ptx.module import Module
    from wsemu.frontend.ptx.syntax import Operand, Statement, Targets, Variable

_NAME = re.compile(r"[\w$.%]+", re.ASCII)
"""a name, or an opcode with its modifiers, which is not a name"""
_INDIRECT = re.compile(r"\.call(?:prototype|targets)\b")
_SHORT = re.compile(r"\bmov\.[bu]32\s+[^,;]+,\s*([A-Za-z_$][\w$]*)\s*;", re.ASCII)
_SHARED = re.compile(r"\.shared\b[^;]*?([\w$]+)\s*(?:\[[^;]*)?;", re.ASCII)
_QUIET = frozenset(
    "setp set selp mov cvt add sub mul and or xor not shl shr min max nanosleep membar fence bra".split()
)
"""operations that a polling loop may execute besides the load"""
ON_HEAP = "malloc", "free"
_RECURSION = INPUT_LIMITS["ptx-recursion"].most


def _short_names(home: Module, text: str) -> set[str]:
    """Return the names that a function moves into 32-bit registers, without those of shared memory."""
    shared = set(_SHARED.findall(text))
    found = set(_SHORT.findall(text)) - shared
    return {name for name in found if (known := home.variable(name)) is None or known[1].space == "const"}


def uses_heap(home: Module, names: Container[str]) -> bool:
    """Return whether one of these names, in a file, refers to the system's `malloc` or `free`."""
    found = [home.function(name) for name in ON_HEAP if name in names]
    return any(function is not None and function[1].body is None for function in found)


class Reached:
    """The functions and names that a kernel reaches.

    `allocates`: any address may be in a heap block.
    """

    def __init__(self, module: Module, kernel: Function, *, allocates: bool = False) -> None:
        self.functions: list[tuple[Module, Function]] = [(module, kernel)]
        self.names: dict[str, set[str]] = {}
        """PTX file -> the names used there"""
        self.modules: dict[str, Module] = {module.source.path: module}
        self._found = {id(kernel): (module, kernel)}
        self._symbols: dict[int, tuple[Module, Function]] = {}
        self._calls: dict[int, set[int]] = {}
        self._numbers: dict[int, int] | None = None
        self.copies_tiles = False
        """true if there are tensor copies"""
        self.short_names: set[str] = set()
        """variables outside of shared memory whose addresses are taken in 32 bits"""
        self.maps_addresses = False
        """true if addresses in the shared memory of other CTAs can occur (`mapa`)"""
        self.names_parameters = False
        """true if generic addresses of the kernel's parameters can occur (`cvta.param`)"""
        self.polls_shared = False
        """true if some loop only waits for a volatile load of shared memory"""
        self.allocates = allocates
        """true if the kernel uses `malloc` or `free`, so that addresses may be those of heap blocks"""
        for home, function in self.functions:  # the loop body extends this list
            self.short_names |= _short_names(home, home.file.text[function.at : function.end])
            self.copies_tiles |= home.file.text.find(".async.bulk.tensor", function.at, function.end) >= 0
            self.maps_addresses |= home.file.text.find("mapa", function.at, function.end) >= 0
            self.names_parameters |= home.file.text.find("cvta.param", function.at, function.end) >= 0
            if home.file.text.find("ld.volatile.shared", function.at, function.end) >= 0:
                self.polls_shared |= _polls(function.body)
            names = set(_NAME.findall(home.file.text, function.at, function.end))
            self.allocates |= uses_heap(home, names)
            self._calls[id(function)] = self._use(home, names)

    def _use(self, home: Module, names: set[str]) -> set[int]:
        """Record names that are used in a file; return the functions among them."""
        used = self.names.setdefault(home.source.path, set())
        self.modules.setdefault(home.source.path, home)
        functions = set()
        for name in sorted(names):
            found = home.function(name)
            if found is not None:
                functions.add(id(found[1]))
                self._reach(found)
            elif name not in used and (known := home.variable(name)) is not None:
                used.add(name)
                self._follow_initializer(*known)
        used |= names
        return functions

    def _reach(self, found: tuple[Module, Function]) -> None:
        if id(found[1]) not in self._found:
            self._found[id(found[1])] = found
            self.functions.append(found)

    def _follow_initializer(self, home: Module, variable: Variable) -> None:
        """Record the names in a variable's initializer as used, functions by their addresses."""
        named = {item.name for item in variable.initial if isinstance(item, Symbol)}
        if named:
            self._use(home, named)
        for name in sorted(named):
            found = home.function(name)
            if found is not None:
                self._symbols[id(found[1])] = found

    # -- addresses of functions ---------------------------------------------------------------------------------------
    def address(self, function: Function) -> int:
        """Return the number that represents a function."""
        return self.addresses()[id(function)]

    def addresses(self) -> dict[int, int]:
        """Return the address of each function whose address is taken, by the id of the function."""
        if self._numbers is None:
            taken = dict(self._symbols)
            for home, function in self.functions:
                for name in _values(function.body) if function.body is not None else ():
                    found = home.function(name)
                    if found is not None:
                        taken[id(found[1])] = found
            order = [function for _, function in self.functions if id(function) in taken]
            self._numbers = {id(function): FIRST_FUNCTION + FUNCTION_STEP * n for n, function in enumerate(order)}
        return self._numbers

    def callable(self) -> list[tuple[int, Module, Function]]:
        """Return (address, file, function) of the functions that a call through a register may reach."""
        taken = self.addresses()
        return [
            (taken[id(function)], home, function)
            for home, function in self.functions
            if id(function) in taken and function.body is not None
        ]

    # -- recursion ----------------------------------------------------------------------------------------------------
    def together(self, function: Function, other: Function) -> bool:
        """Return whether two functions may call each other, directly or through others; for one function, whether it
        may call itself."""
        cycle = self._cycles.get(id(function))
        return cycle is not None and cycle == self._cycles.get(id(other))

    @property
    def recursive(self) -> bool:
        """Return whether a reached function may call itself."""
        return bool(self._cycles)

    @functools.cached_property
    def _cycles(self) -> dict[int, int]:
        """Return id of a function that may call itself -> number of its group of mutually recursive functions."""
        calls = {number: sorted(self._called_functions(number)) for number in self._found}
        groups = strong_components(calls, calls)
        for group in groups:
            if len(group) > _RECURSION:
                home, function = self._found[min(group, key=lambda number: self._found[number][1].at)]
                raise home.source.excess("ptx-recursion", len(group), function.at)
        return {
            number: n for n, group in enumerate(groups) for number in group if len(group) > 1 or number in calls[number]
        }

    def _called_functions(self, number: int) -> set[int]:
        calls = self._calls.get(number, set())
        home, function = self._found[number]
        own = {number} if function.body is None or not _names_itself(home, function) else set()
        calls = calls - own
        if _INDIRECT.search(home.file.text, function.at, function.end):
            calls = calls | self.addresses().keys()
        return calls


def _names_itself(home: Module, function: Function) -> bool:
    """Return whether a function's name occurs in its own body."""
    assert function.body is not None
    return function.name in _NAME.findall(home.file.text, function.body.at, function.end)


def _values(body: Block) -> Iterator[str]:
    """Yield the names that occur as operands, but not as called functions."""
    for statement in body.statements:
        if isinstance(statement, Block):
            yield from _values(statement)
        elif isinstance(statement, Instruction):
            operands = list(statement.operands)
            if statement.opcode == "call":
                operands = [operand for operand in operands if isinstance(operand, Vector)]
            for operand in operands:
                yield from _operand_names(operand)


def _flat(body: Block) -> Iterator[Statement]:
    """Yield the statements of a body, including those of nested blocks."""
    for statement in body.statements:
        if isinstance(statement, Block):
            yield from _flat(statement)
        else:
            yield statement


def _polls(body: Block | None) -> bool:
    """Return whether some loop only repeats a volatile load of shared memory until it may continue."""
    begun: dict[str, bool] = {}
    """for each label after which only polls follow, whether they include a volatile load of shared memory"""
    for statement in _flat(body) if body is not None else ():
        if isinstance(statement, Label):
            begun[statement.name] = False
        elif isinstance(statement, Instruction):
            target = statement.operands[0] if statement.opcode == "bra" and statement.operands else None
            if isinstance(target, Name) and begun.get(target.text):
                return True
            if statement.opcode == "ld" and {"volatile", "shared"}.issubset(statement.modifiers):
                begun = dict.fromkeys(begun, True)
            elif statement.opcode not in _QUIET:
                begun = {}
    return False


def _operand_names(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Name):
        yield operand.text
    elif isinstance(operand, Address) and isinstance(operand.base, Name):
        yield operand.base.text
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from _operand_names(item)


def candidates(reached: Reached, targets: Targets) -> list[tuple[int, Module, Function]]:
    """Return the functions that a call with `.calltargets` or a `.callprototype` may reach."""
    if targets.prototype is None:
        return [found for found in reached.callable() if found[2].name in targets.labels]
    wanted = _form(targets.prototype.results), _form(targets.prototype.parameters)
    return [found for found in reached.callable() if (_form(found[2].results), _form(found[2].parameters)) == wanted]


def _form(variables: tuple[Variable, ...]) -> list[tuple[str, int]]:
    """Return the properties in which two declarations must agree."""
    return [(variable.space, variable_size(variable)) for variable in variables]
