"""The syntax tree of PTX, as the parser produces it.  It contains only data; `at` is always an offset in the text.

Names are spelled as in the text: registers with their `%`, labels and symbols without quotes.  Chapter numbers are
those of the PTX ISA 9.0.
"""

from __future__ import annotations

from typing import Literal

from wsemu.model.data import NamedTuple, dataclass, field


# -- operands (chapter 6) --------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, label, variable or function."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Number:
    """A literal.  `is_float_bits` is 32 or 64 for the bits of a floating-point number, 0 for an integer."""

    value: int
    is_float_bits: Literal[0, 32, 64]
    at: int


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, with an offset in bytes; without brackets (`mov.u64 %rd1, table+8`) it is a value."""

    base: Name | Number
    offset: int
    at: int


@dataclass(frozen=True, slots=True)
class Vector:
    """`{%f1, %f2}`, or one of the parenthesized lists of a call."""

    items: tuple[Operand, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Both:
    """`%r1|%p1`: two results."""

    first: Operand
    second: Operand
    at: int


def split_results(destination: Operand) -> tuple[Operand, Operand | None]:
    """Return the destinations of an instruction's first and second result; None without a second one."""
    return (destination.first, destination.second) if isinstance(destination, Both) else (destination, None)


@dataclass(frozen=True, slots=True)
class Not:
    """`!%p1`."""

    name: Name
    at: int


@dataclass(frozen=True, slots=True)
class Minus:
    """`-%r1`, an operand of `vmad`."""

    name: Name
    at: int


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`, the destination of an unused result."""

    at: int


Operand = Name | Number | Address | Vector | Both | Not | Minus | Sink


# -- statements (chapters 4 and 9) -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Instruction:
    """`@!%p1 add.rn.f32 %f1, %f2, 0f3F800000;` has the opcode `add` and the modifiers `rn`, `f32`."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Name | None
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Location:
    """`.loc`: the source of the instructions that follow.  `inlined_at` is the call that they were inlined through."""

    file: int
    line: int
    column: int
    inlined_at: tuple[int, int, int] | None
    at: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable or function in an initializer, plus an offset in bytes; with a mask, `0xFF00(name)`,
    one byte of it."""

    name: str
    offset: int
    at: int
    mask: int = 0


@dataclass(frozen=True, slots=True)
class Variable:
    """A register, parameter or piece of memory, or `count` registers `name0`, `name1`, ...

    `shape` has the extents of an array, 0 for an open extent; `vector` is 2 or 4 for `.v2`, `.v4`.
    """

    space: str
    """reg, param, shared, global, const, local"""
    type: str
    name: str
    at: int
    vector: int = 1
    shape: tuple[int, ...] = ()
    alignment: int = 0
    """alignment in bytes; 0 if none is declared"""
    count: int = 0
    """size of a range of registers `%r<count>`; 0 for a single name"""
    initial: tuple[Number | Symbol, ...] = ()
    """elements in row-major order, up to the last given one"""
    linkage: str = ""
    """extern, visible, weak, common or nothing"""


@dataclass(frozen=True, slots=True)
class Prototype:
    """Results and parameters of a `.callprototype`; their names have no meaning."""

    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """`name: .branchtargets a, b;`, `name: .calltargets f, g;` or `name: .callprototype ...;`"""

    name: str
    labels: tuple[str, ...]
    """labels of a branch, or functions of a call"""
    at: int
    prototype: Prototype | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """`{ ... }`: a scope for the names declared in it."""

    statements: tuple[Statement, ...]
    at: int


@dataclass(frozen=True, slots=True)
class UsedBytes:
    """`.pragma "used_bytes_mask 15";`: the bytes that matter in a load by the next instruction; bit 0 is the first
    byte."""

    mask: int


@dataclass(frozen=True, slots=True)
class UnknownDirective:
    """An unknown directive, with its operands."""

    text: str
    at: int


Statement = Instruction | Label | Location | UsedBytes | Variable | Targets | Block | UnknownDirective


class Directive(NamedTuple):
    """The numbers in a directive."""

    values: tuple[int, ...]
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Function:
    """`.entry` or `.func`; `body` is None for a declaration."""

    name: str
    is_entry: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    body: Block | None
    directives: dict[str, Directive]
    """performance directives by name, such as maxntid"""
    linkage: str
    at: int
    end: int
    """position in the text after its last character"""


@dataclass(frozen=True, slots=True)
class File:
    """The tree of a PTX file."""

    path: str
    """path of the PTX itself, for messages"""
    text: str
    version: str
    target: str
    address_size: int
    debug: bool
    """true if compiled for a debugger: ptxas does not optimize such code"""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    """`.file` number -> path as given"""
    unknown: list[UnknownDirective] = field(default_factory=list)
    """unknown directives outside of functions"""
