"""Registers of PTX to values that are assigned once, with phis where ways meet.

PTX assigns registers as often as it likes.  What follows (copies, contraction, rows) knows more of a value that is
assigned once, before each of its uses.  A block that several ways lead to gets a phi for each register that is needed
there and has more than one value; phis that turn out to be of one value fall to the assembler's cleaning.

Registers written under a guard keep their old value in the lanes without it, and stay as they are.  What may be read
before it is written is 0.
(Braun et al., "Simple and efficient construction of static single assignment form", CC 2013, with liveness known.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.flow import Liveness, predecessors, reachable
from wsemu.frontend.graph import Instruction, Phi
from wsemu.frontend.simplify import assignments, fixed_registers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.frontend.graph import Block, Graph, Register

Values = dict["Register", "Register"]
"""register of PTX -> its value at a place"""


def assign_once(graph: Graph) -> None:
    """Rewrite the blocks of a graph; unreachable ones are dropped.  Nothing may lead to the first block."""
    blocks = {block.index: block for block in graph.blocks}
    kept = reachable(blocks)
    graph.blocks[:] = [block for block in graph.blocks if block.index in kept]
    blocks = {block.index: block for block in graph.blocks}
    again = {register for register, count in assignments(graph.blocks).items() if count > 1}
    liveness = Liveness(graph.blocks, fixed_registers(graph), again)
    undefined = liveness.before(0)
    guarded = {
        register
        for block in graph.blocks
        for instruction in block.instructions
        if instruction.guard
        for register in instruction.results
    }
    candidates = (again | set(undefined)) - guarded
    if candidates:
        _Renaming(graph, blocks, liveness, candidates).run()
    graph.blocks[0].instructions[:0] = [
        Instruction(_move(graph.types[register]), (register,), (_zero(graph, register),))
        for register in undefined
        if register in guarded
    ]


def _move(type_: str) -> str:
    return "mov.pred" if type_ == "p" else f"mov.{type_}"


def _zero(graph: Graph, register: Register) -> Register:
    type_ = graph.types[register]
    return graph.constant(type_, False if type_ == "p" else 0)


class _Renaming:
    """Values for the registers in `candidates`."""

    def __init__(self, graph: Graph, blocks: dict[int, Block], liveness: Liveness, candidates: set[Register]) -> None:
        self.graph = graph
        self.blocks = blocks
        self.candidates = candidates
        self.before = predecessors(blocks)
        self.needed = liveness.before_all(candidates)
        self.after: dict[int, Values] = {}
        """block -> values at its end"""

    def run(self) -> None:
        """Rename block by block, each after one that leads to it; then fill in the phis."""
        phis: dict[int, list[tuple[Register, Phi]]] = {}
        for index in self._order():
            block = self.blocks[index]
            values: Values = {}
            ways = self.before[index]
            if index == 0:
                values = {register: _zero(self.graph, register) for register in self.needed[index]}
            elif len(ways) == 1:
                source = self.after[ways[0]]
                values = {register: source[register] for register in self.needed[index]}
            else:
                made = phis[index] = [
                    (register, Phi(self.graph.new(self.graph.types[register]), {})) for register in self.needed[index]
                ]
                block.phis = [phi for _, phi in made]
                values = {register: phi.result for register, phi in made}
            self._rename(block, values)
            self.after[index] = values
        for index, made in phis.items():
            for way in self.before[index]:
                source = self.after[way]
                for register, phi in made:
                    phi.incoming[way] = source[register]

    def _order(self) -> Iterator[int]:
        """Blocks, each after a predecessor of it."""
        seen = {0}
        stack = [0]
        while stack:
            index = stack.pop()
            yield index
            for successor in self.blocks[index].successors:
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)

    def _rename(self, block: Block, values: Values) -> None:
        """Read and assign values instead of registers; `values` becomes those at the end of the block."""
        candidates, get, types = self.candidates, values.get, self.graph.types
        for instruction in block.instructions:
            if values:
                instruction.operands = tuple([get(register, register) for register in instruction.operands])
                if instruction.guard:
                    instruction.guard = get(instruction.guard, instruction.guard)
            for n, register in enumerate(instruction.results):
                if register in candidates:
                    value = values[register] = self.graph.new(types[register])
                    results = instruction.results
                    instruction.results = (*results[:n], value, *results[n + 1 :])
        block.predicate = get(block.predicate, block.predicate)
