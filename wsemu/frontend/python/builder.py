"""Emission of a graph: pure operations are value-numbered and moved out of loops, other operations stay in their
position."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from wsemu.frontend.assemble.graph import Block, Graph, Instruction, Register
from wsemu.model.data import dataclass, field
from wsemu.model.isa import OPERATIONS

Key = tuple[str, tuple[Register, ...], int]


@dataclass(slots=True)
class Scope:
    """A region of the source whose code a dominating block leads to: a branch arm or a loop body."""

    preheader: Block | None = None
    """for a loop, the block for instructions that do not change inside"""
    entered: list[Key] = field(default_factory=list)
    made: list[Register] = field(default_factory=list)
    """registers of phis, loads and other effects in this scope"""


class Builder:
    """Appends instructions to `block`.

    A register's home is the depth of the scope in which it was defined; constants, parameters and special registers
    live at depth 0.  An operation whose operands all live outside a loop is put before that loop.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.block: Block = graph.block()
        self.scopes: list[Scope] = [Scope()]
        self.homes: dict[Register, int] = {}
        self.known: dict[Key, Register] = {}
        self.span = 0
        self.stack: tuple[int, ...] = ()
        self.before: Callable[[str], None] | None = None
        """callback for each non-arithmetic operation before it is emitted"""
        self.partial: dict[int, tuple[str, object]] = {}
        """id of a value that some path does not assign -> the variable, and the value itself, which keeps the id
        valid"""

    # -- registers ----------------------------------------------------------------------------------------------------
    def constant(self, type_: str, value: int | float | bool) -> Register:
        return self.graph.constant(type_, value)

    def special(self, name: str) -> Register:
        return self.graph.special(name)

    def new(self, type_: str) -> Register:
        """Return a register defined at the current depth."""
        register = self.graph.new(type_)
        self.homes[register] = len(self.scopes) - 1
        self.scopes[-1].made.append(register)
        return register

    # -- instructions -------------------------------------------------------------------------------------------------
    def emit(self, operation: str, *operands: Register, immediate: int = 0) -> Register:
        """Return the result of a pure operation: an existing register, or a new one in the outermost possible scope."""
        key = (operation, operands, immediate)
        found = self.known.get(key)
        if found is not None:
            return found
        depth = self._depth(operands)
        scope = self.scopes[depth + 1] if depth + 1 < len(self.scopes) else None
        block = self.block if scope is None or scope.preheader is None else scope.preheader
        result = self.graph.new(OPERATIONS[operation].result)
        self.homes[result] = depth
        block.instructions.append(
            Instruction(operation, (result,), operands, immediate, span=self.span, stack=self.stack)
        )
        self.known[key] = result
        self.scopes[depth].entered.append(key)
        return result

    def _depth(self, operands: tuple[Register, ...]) -> int:
        """Return the depth of the scope in which an operation on `operands` is computed."""
        here = len(self.scopes) - 1
        homes = self.homes
        least = max((homes.get(o, 0) for o in operands), default=0)
        for depth in range(least + 1, here + 1):
            if self.scopes[depth].preheader is not None:
                return depth - 1
        return here

    def effect(
        self,
        operation: str,
        operands: tuple[Register, ...] = (),
        results: tuple[str, ...] = (),
        immediate: int = 0,
        auxiliary: int = 0,
        array: str | None = None,
        element: str | None = None,
    ) -> tuple[Register, ...]:
        """Append an instruction that must not be moved; return new registers of the types `results`."""
        if self.before is not None:
            self.before(operation)
        made = tuple(self.new(t) for t in results)
        self.block.instructions.append(
            Instruction(
                operation,
                made,
                operands,
                immediate,
                auxiliary,
                span=self.span,
                stack=self.stack,
                array=array,
                element=element,
            )
        )
        return made

    # -- control ------------------------------------------------------------------------------------------------------
    def push(self, preheader: Block | None = None) -> None:
        """Enter a branch arm, or a loop body whose preheader is given."""
        self.scopes.append(Scope(preheader))

    def pop(self) -> None:
        """Leave the innermost scope.  Values computed in it are unknown afterwards, but may be parts of later
        values."""
        left = self.scopes.pop()
        depth = len(self.scopes) - 1
        for key in left.entered:
            self.homes[self.known.pop(key)] = depth
        for register in left.made:
            self.homes[register] = depth

    def unwind(self, depth: int) -> None:
        """Leave scopes until `depth` of them are open."""
        while len(self.scopes) > depth:
            self.pop()

    @contextlib.contextmanager
    def elsewhere(self, block: Block) -> Iterator[None]:
        """Emit inside at the end of another block, where no values are known."""
        kept = self.block, self.known, self.scopes
        self.block, self.known, self.scopes = block, {}, [Scope() for _ in self.scopes]
        try:
            yield
        finally:
            self.block, self.known, self.scopes = kept

    def open(self) -> Block:
        """Create a block into which the following instructions go."""
        dead = self.block.dead
        self.block = self.graph.block()
        self.block.dead = dead
        return self.block

    def dead_end(self) -> Block:
        """Create a block that control never reaches, as the end of an edge that only contributes types."""
        block = self.graph.block()
        block.dead = True
        return block

    def jump(self, source: Block, target: Block) -> None:
        source.successors = (target.index,)
        source.span, source.stack = self.span, self.stack

    def branch(self, source: Block, predicate: Register, taken: Block, other: Block) -> None:
        source.end = "bra"
        source.predicate = predicate
        source.successors = (taken.index, other.index)
        source.span, source.stack = self.span, self.stack

    def finish(self, source: Block, how: str, trap: int = 0) -> None:
        """End a block by `exit` or `trap`; see `Block.trap`."""
        source.end = how
        source.successors = ()
        source.trap = trap
        source.span, source.stack = self.span, self.stack
