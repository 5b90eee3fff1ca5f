"""Convert PTX registers to values that are assigned once, with phis at joins.

PTX may assign a register any number of times.  The following passes (copies, contraction, rows) need values that are
assigned once, before each use.  Phis are on the iterated dominance frontier of a register's assignments, if they are
needed.

Registers that are written under a guard keep their old value in lanes whose guard is false, and are not converted.  A
register that may be read before it is written is undefined (`Graph.undefined`), and 0 here.  (Cytron et al.,
"Efficiently computing static single assignment form and the control dependence graph", TOPLAS 1991.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.flow import Liveness, immediate_post_dominators, predecessors, reachable
from wsemu.frontend.assemble.graph import TRUE, Instruction, Phi
from wsemu.frontend.assemble.simplify import assignments, fixed_registers
from wsemu.frontend.ptx.steps import move

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wsemu.frontend.assemble.graph import Block, Graph, Register

Values = dict["Register", "Register"]
"""value of each PTX register at a position"""
ALWAYS = (TRUE, False)
"""guard of an instruction that all lanes execute"""


def assign_once(graph: Graph, given: Iterable[Register] = ()) -> None:
    """Rewrite the blocks of a graph, and drop unreachable ones.  The first block must have no predecessors; `given` are
    registers that have their values before it."""
    blocks = {block.index: block for block in graph.blocks}
    kept = reachable(blocks)
    graph.blocks[:] = [block for block in graph.blocks if block.index in kept]
    blocks = {block.index: block for block in graph.blocks}
    again = {register for register, count in assignments(graph.blocks).items() if count > 1}
    guarded = {
        register
        for block in graph.blocks
        for instruction in block.instructions
        if instruction.guard
        for register in instruction.results
    }
    liveness = Liveness(graph.blocks, fixed_registers(graph) | set(given), again | guarded)
    written = guarded - _read_elsewhere(graph, guarded)
    undefined = [register for register in liveness.before(0) if register not in written]
    candidates = (again | set(undefined)) - guarded
    if candidates:
        _Renaming(graph, blocks, liveness, candidates).run()
    graph.blocks[0].instructions[:0] = [
        Instruction(move(graph.types[register]), (register,), (_undefined_register(graph, register),))
        for register in undefined
        if register in guarded
    ]


def _read_elsewhere(graph: Graph, guarded: set[Register]) -> set[Register]:
    """Return the registers that lanes may read without having written them just before.

    Excluded are reads under the same guard as the last write in the same block, by which a lowering passes a value
    between its steps.
    """
    found: set[Register] = set()
    for block in graph.blocks:
        under: dict[Register, tuple[Register, bool]] = {}
        for instruction in block.instructions:
            guard = instruction.guard, instruction.negated
            read = guarded.intersection(instruction.operands)
            found.update(register for register in read if under.get(register) not in (ALWAYS, guard))
            found.update(guarded.intersection((guard[0],)) if under.get(guard[0]) != ALWAYS else ())
            for register in instruction.results:
                for other in [other for other, own in under.items() if own[0] == register]:
                    del under[other]
                if register in guarded and under.get(register) != ALWAYS:
                    under[register] = guard
        found.update(guarded.intersection((block.predicate,)) if under.get(block.predicate) != ALWAYS else ())
    return found


def _undefined_register(graph: Graph, register: Register) -> Register:
    """Return the register that represents the contents of a register before any write."""
    type_ = graph.types[register]
    if register in graph.zeros:
        return graph.constant(type_, False if type_ == "p" else 0)
    made = graph.new(type_)
    graph.undefined[made] = _name(graph, register)
    return made


def _name(graph: Graph, register: Register) -> str:
    """Return the name of a register in the source; empty if the source does not declare it."""
    for first, count, name in graph.declared:
        if first <= register < first + max(count, 1):
            return f"{name}{register - first}" if count else name
    return ""


class _Renaming:
    """Renames the registers in `candidates`."""

    def __init__(self, graph: Graph, blocks: dict[int, Block], liveness: Liveness, candidates: set[Register]) -> None:
        self.graph = graph
        self.blocks = blocks
        self.candidates = candidates
        self.before = predecessors(blocks)
        self.needed = liveness.before_all(candidates)
        # dominators are the post-dominators of the reversed graph
        self.dominator = immediate_post_dominators(self.before)
        self.after: dict[int, Values] = {}
        """block -> values at its end"""

    def run(self) -> None:
        """Place phis, then rename registers block by block, each block after the one that dominates it; finally
        complete the phis."""
        phis = self._phis()
        for index in self._order():
            block = self.blocks[index]
            made = phis.get(index, {})
            if index == 0:
                values = {register: _undefined_register(self.graph, register) for register in self.needed[index]}
            else:
                source = self.after[self.dominator[index]]
                values = {
                    register: made[register].result if register in made else source[register]
                    for register in self.needed[index]
                }
            block.phis = list(made.values())
            self._rename(block, values)
            self.after[index] = values
        for index, made in phis.items():
            for way in self.before[index]:
                source = self.after[way]
                for register, phi in made.items():
                    phi.incoming[way] = source[register]

    def _phis(self) -> dict[int, dict[Register, Phi]]:
        """Return block -> register -> the phi that it needs there."""
        frontier = self._frontiers()
        needed = {index: set(self.needed[index]) for meetings in frontier.values() for index in meetings}
        assigned: dict[Register, set[int]] = {register: {0} for register in self.needed[0]}
        for index, block in self.blocks.items():
            for instruction in block.instructions:
                for register in instruction.results:
                    if register in self.candidates:
                        assigned.setdefault(register, set()).add(index)
        found: dict[int, dict[Register, Phi]] = {}
        for register, places in assigned.items():
            pending = list(places)
            while pending:
                for index in frontier.get(pending.pop(), ()):
                    made = found.setdefault(index, {})
                    if register in needed[index] and register not in made:
                        made[register] = Phi(self.graph.new(self.graph.types[register]), {})
                        pending.append(index)
        return found

    def _frontiers(self) -> dict[int, list[int]]:
        """Return, for each block, the blocks that it leads to but does not dominate: joins."""
        found: dict[int, dict[int, None]] = {}
        for index, ways in self.before.items():
            for way in ways if len(ways) > 1 else ():
                while way != self.dominator[index]:
                    found.setdefault(way, {})[index] = None
                    way = self.dominator[way]
        return {index: list(meetings) for index, meetings in found.items()}

    def _order(self) -> Iterator[int]:
        """Yield blocks, each after its dominator."""
        below: dict[int, list[int]] = {}
        for index, dominator in self.dominator.items():
            below.setdefault(dominator, []).append(index)
        stack = [0]
        while stack:
            index = stack.pop()
            yield index
            stack.extend(below.get(index, ()))

    def _rename(self, block: Block, values: Values) -> None:
        """Replace registers in a block by values; afterwards `values` holds those at the end of the block."""
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
