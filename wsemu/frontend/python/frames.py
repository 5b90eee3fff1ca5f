"""Frames of the walk: the state for each open function and loop."""

from __future__ import annotations

from types import CodeType
from typing import Any

from wsemu.frontend.assemble.graph import Block, Register
from wsemu.frontend.python.joining import Edge, Environment
from wsemu.frontend.python.source import Source
from wsemu.frontend.python.values import Static, Value
from wsemu.model.data import dataclass, field

NONE = Static(None)


class Widen(Exception):
    """The body of a loop widened a variable: the body has to be walked again."""


class Unreachable(Exception):
    """Evaluation cannot continue: the call just walked never returns."""


@dataclass(slots=True, eq=False)
class Loop:
    """An open loop: edges of its `continue` and `break` statements, and the names that its body assigns."""

    names: tuple[str, ...]
    continues: list[Edge] = field(default_factory=list)
    breaks: list[Edge] = field(default_factory=list)
    unrolled: bool = False
    """true if it is one iteration of a loop over a tuple"""


@dataclass(slots=True, eq=False)
class Frame:
    """A function being walked."""

    source: Source
    globals: dict[str, Any]
    cells: dict[str, Any]
    assigned: frozenset[str]
    code: CodeType | None
    maker: Frame | None = None
    """the function around a nested one"""
    outer: Environment = field(default_factory=dict)
    """variables of `maker`, the enclosing function"""
    builds: str = ""
    """name of the object that an `__init__` fills in"""
    returns: list[tuple[Block, Value]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    undefined: set[str] = field(default_factory=set)
    """names that a loop reads before their assignment further down in its body"""
    env: Environment = field(default_factory=dict)
    """its variables, saved while a called function is walked"""
    arguments: Environment = field(default_factory=dict)
    """values of the function's parameters"""
    last: Environment = field(default_factory=dict)
    """last value assigned to each variable, on any path"""
    made: dict[Register, tuple[int, int]] = field(default_factory=dict)
    """address of each local array that ends with the function -> its offset and size in the thread's local memory"""
    within: Frame | None = None
    """the function into whose source Numba-CUDA inlines this one"""
    constants: dict[str, Value] = field(default_factory=dict)
    """host objects that the function names"""

    @property
    def home(self) -> Frame:
        """The function with which this one's local arrays end."""
        return self if self.within is None else self.within.home
