"""Registers that a `wgmma` under way has, followed through the text (PTX ISA, "wgmma.fence", "wgmma.wait_group").

Between a `wgmma.mma_async` and the wait that covers its group its accumulators must not be read or written, nor its
registers of `a` written; and what a `wgmma` reads must have been ordered by a `wgmma.fence` since it was last touched,
but for accumulators of a `wgmma` of the same shape.  What is found may happen on some way through the kernel.  A move
hands on what holds for its source: the compiler makes none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.flow import predecessors, reachable
from wsemu.model.matrix import COLUMNS, WGMMA, vector_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.frontend.assemble.graph import Block, Graph, Instruction, Register

Bits = int
"""a set of registers"""
Shape = tuple[str, int]
_OLDEST = 9
"""groups that are told apart: `wait_group` of more waits for none of them"""
_TOUCHED = "uses registers of a `wgmma` that is under way"
_UNFENCED = "uses registers that no `wgmma.fence` has ordered"


class _State(NamedTuple):
    """Before an instruction."""

    touched: Bits
    """since the last fence"""
    flying: dict[tuple[int, Shape | None], Bits]
    """(groups since, shape; None: of `a`) -> registers"""

    def joined(self, other: _State) -> _State:
        flying = dict(self.flying)
        for key, bits in other.flying.items():
            flying[key] = flying.get(key, 0) | bits
        return _State(self.touched | other.touched, flying)


def _bits(registers: tuple[Register, ...]) -> Bits:
    total = 0
    for register in registers:
        total |= 1 << register
    return total


def hazards(graph: Graph) -> Iterator[tuple[Instruction, str]]:
    """Instructions that touch what they should not, in order, and what is wrong."""
    if not any(i.operation in WGMMA for block in graph.blocks for i in block.instructions):
        return
    blocks = {block.index: block for block in graph.blocks}
    blocks = {index: blocks[index] for index in reachable(blocks)}
    before = predecessors(blocks)
    after: dict[int, _State] = {}
    start = _State(-1, {})
    pending = list(blocks)
    while pending:
        index = pending.pop(0)
        state = _entering(index, before, after, start)
        state = _run(blocks[index], state)
        if after.get(index) != state:
            after[index] = state
            pending += [s for s in blocks[index].successors if s not in pending]
    for index, block in blocks.items():
        state = _entering(index, before, after, start)
        for instruction in block.instructions:
            wrong = _wrong(instruction, state)
            if wrong:
                yield instruction, wrong
            state = _step(instruction, state)


def _entering(index: int, before: dict[int, list[int]], after: dict[int, _State], start: _State) -> _State:
    states = [after[way] for way in before[index] if way in after]
    if index == 0 or not states:
        states.append(start)
    found = states[0]
    for state in states[1:]:
        found = found.joined(state)
    return found


def _run(block: Block, state: _State) -> _State:
    for instruction in block.instructions:
        state = _step(instruction, state)
    return state


def _parts(instruction: Instruction) -> tuple[Bits, Bits, Shape]:
    """Registers of `a`, accumulators, and the shape of a `wgmma`."""
    name, auxiliary = instruction.operation, instruction.auxiliary
    _, of_a, of_b, of_c = vector_counts(name, auxiliary)
    own = () if WGMMA[name].shared else instruction.operands[:of_a]
    sums = instruction.operands[of_a + of_b : of_a + of_b + of_c]
    part = WGMMA[name].part
    return _bits(own), _bits((*sums, *instruction.results)), (f"{part.d}.k{part.k}", auxiliary & COLUMNS)


def _wrong(instruction: Instruction, state: _State) -> str:
    name = instruction.operation
    flying = state.flying.items()
    if name in WGMMA:
        own, sums, shape = _parts(instruction)
        chained = 0
        for (_, of), bits in flying:
            if of == shape:
                chained |= bits
            elif bits & sums or (of is not None and bits & own):
                return _TOUCHED
        if chained & own:
            return _TOUCHED
        return _UNFENCED if state.touched & (own | sums & ~chained) else ""
    if name.startswith("mov."):
        return ""
    reads, writes = _bits(instruction.operands), _bits(instruction.results)
    for (_, of), bits in flying:
        if bits & writes or (of is not None and bits & reads):
            return _TOUCHED
    return ""


def _step(instruction: Instruction, state: _State) -> _State:
    name = instruction.operation
    touched, flying = state
    if name in WGMMA:
        own, sums, shape = _parts(instruction)
        flying = {key: bits & ~sums for key, bits in flying.items()}
        flying[0, shape] = flying.get((0, shape), 0) | sums
        flying[0, None] = flying.get((0, None), 0) | own
    elif name == "wgmma.fence":
        touched = 0
    elif name == "wgmma.commit":
        older: dict[tuple[int, Shape | None], Bits] = {}
        for (age, of), bits in flying.items():
            key = min(age + 1, _OLDEST), of
            older[key] = older.get(key, 0) | bits
        flying = older
    elif name == "wgmma.wait":
        flying = {key: bits for key, bits in flying.items() if key[0] <= instruction.immediate}
    elif name.startswith("mov."):
        (to,), (source,) = instruction.results, instruction.operands

        def moved(bits: Bits) -> Bits:
            return bits & ~(1 << to) | (bits >> source & 1) << to

        touched = moved(touched)
        flying = {key: moved(bits) for key, bits in flying.items()}
    else:
        touched |= _bits(instruction.operands) | _bits(instruction.results)
    return _State(touched, {key: bits for key, bits in flying.items() if bits})
