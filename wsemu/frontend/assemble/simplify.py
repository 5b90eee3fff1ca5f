"""Simplify a graph before rows are assigned: dead blocks, trivial phis, copies, dead code, critical edges.

The graph itself is unchanged; everything here works on copies of its blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.flow import ALU, predecessors, reachable
from wsemu.frontend.assemble.graph import TRUE, Block, Graph, Instruction, Phi, Register
from wsemu.model.data import replace
from wsemu.model.isa import ATOMICS, PARTS_SHIFT, SIZE, USES_OLD, access_shape, first_element
from wsemu.model.matrix import VECTORS, WGMMA, vector_counts

if TYPE_CHECKING:
    from collections.abc import Iterable

_PAIR, _PAIR_BYTES = "x2", 4
"""end of the name of an atomic of two packed elements (`f16x2`), and its bytes"""
_EQUALITY = {"setp.eq.b32": True, "setp.ne.b32": False}
"""compares of integers, with whether they are true for equal numbers"""
Blocks = dict[int, Block]
"""block index -> block, in layout order"""


def fixed_registers(graph: Graph) -> set[Register]:
    """Return the registers whose rows are never written: constants, parameters, special values, addresses of constant
    arrays, and those that represent undefined values."""
    named = (*graph.specials.values(), *graph.constant_arrays, *graph.undefined)
    return {TRUE, *graph.constants.values(), *graph.parameters, *named}


def simplify_blocks(graph: Graph) -> Blocks:
    """Return working copies of the blocks that can run, without copies and without code whose result is unused."""
    blocks = _reachable_copies(graph)
    assigned = assignments(blocks.values())
    alias = _aliases(blocks, assigned, fixed_registers(graph))
    if alias:
        rename(blocks, alias)
    blocks = _merge_blocks(blocks)
    _drop_negations(blocks, assigned)
    remove_dead_code(blocks)
    return blocks


def clear_unread_sums(graph: Graph, blocks: Blocks) -> None:
    """Replace undefined accumulators of a `wgmma` by zeros if its `scale-d` is always false: it does not read them.

    Compiled code rarely clears the accumulators of the first product of a sum.  Without this, each such kernel would
    run a second time to find what the undefined registers reach."""
    if not graph.undefined or not any(i.operation in WGMMA for block in blocks.values() for i in block.instructions):
        return
    never = _false_predicates(graph, blocks)
    for block in blocks.values():
        for index, one in enumerate(block.instructions):
            if one.operation not in WGMMA or one.operands[-1] not in never or one.guard != TRUE:
                continue
            *others, scale = one.operands
            first = len(others) - len(one.results)
            cleared = (graph.constant("b32", 0) if r in graph.undefined else r for r in others[first:])
            block.instructions[index] = replace(one, operands=(*others[:first], *cleared, scale))


def _false_predicates(graph: Graph, blocks: Blocks) -> set[Register]:
    """Return the predicates that are false, or compare two constants with this result."""
    value_of = {
        register: int(value) & 0xFFFFFFFF for (type_, value), register in graph.constants.items() if type_ == "b32"
    }
    never = {register for (type_, value), register in graph.constants.items() if type_ == "p" and not value}
    assigned = assignments(blocks.values())
    for block in blocks.values():
        for one in block.instructions:
            relation = _EQUALITY.get(one.operation)
            known = all(r in value_of for r in one.operands)
            if relation is None or not known or one.guard != TRUE or assigned[one.results[0]] > 1:
                continue
            left, right = (value_of[r] for r in one.operands)
            if (left == right) is not relation:
                never.add(one.results[0])
    return never


def assignments(blocks: Iterable[Block]) -> dict[Register, int]:
    """Return the number of assignments to each register, phis included."""
    count: dict[Register, int] = {}
    for block in blocks:
        for phi in block.phis:
            count[phi.result] = count.get(phi.result, 0) + 1
        for instruction in block.instructions:
            for register in instruction.results:
                count[register] = count.get(register, 0) + 1
    return count


def _reachable_copies(graph: Graph) -> Blocks:
    """Return copies of the reachable blocks; branches on a constant and branches with one target become jumps."""
    decided = {register: bool(value) for (type_, value), register in graph.constants.items() if type_ == "p"}
    decided[TRUE] = True
    blocks: Blocks = {}
    for block in graph.blocks:
        copy = Block(
            block.index, [*block.phis], [*block.instructions], block.successors, block.predicate,
            block.span, block.stack, block.end, block.trap,
        )  # fmt: skip
        if len(block.successors) == 2:
            taken, other = block.successors
            if block.predicate in decided:
                copy.successors = (taken if decided[block.predicate] else other,)
            elif taken == other:
                copy.successors = (taken,)
        if len(copy.successors) == 1:
            copy.end, copy.predicate = "jump", TRUE
        blocks[block.index] = copy
    kept = reachable(blocks)
    if len(kept) < len(blocks):
        blocks = {index: block for index, block in blocks.items() if index in kept}
    before = predecessors(blocks)
    for index, block in blocks.items():
        if block.phis:
            block.phis = [
                Phi(phi.result, {source: phi.incoming[source] for source in before[index]}) for phi in block.phis
            ]
    return blocks


def _aliases(blocks: Blocks, assigned: dict[Register, int], fixed: set[Register]) -> dict[Register, Register]:
    """Return register -> the register that it only renames: phis with one value, and moves from a register that is
    assigned once."""
    alias: dict[Register, Register] = {}

    def find(register: Register) -> Register:
        while register in alias:
            register = alias[register]
        return register

    for block in blocks.values():
        for instruction in block.instructions:
            if instruction.operation[:4] == "mov." and not instruction.guard:
                result, source = instruction.results[0], instruction.operands[0]
                if assigned[result] == 1 and (source in fixed or assigned.get(source) == 1):
                    alias[result] = source
    phis = [phi for block in blocks.values() for phi in block.phis]
    changed = bool(phis)
    while changed:
        changed = False
        for phi in phis:
            if phi.result not in alias:
                values = {find(register) for register in phi.incoming.values()} - {phi.result}
                if len(values) == 1:
                    alias[phi.result] = values.pop()
                    changed = True
    return {register: find(register) for register in alias}


def _merge_blocks(blocks: Blocks) -> Blocks:
    """Merge each block with its only successor if that successor has no other predecessor."""
    before = predecessors(blocks)
    result = dict(blocks)
    joined: dict[int, int] = {}
    for index in blocks:
        block = result.get(index)
        while block is not None and len(block.successors) == 1:
            after = result.get(block.successors[0])
            if after is None or after.index in (0, index) or len(before[after.index]) > 1 or after.phis:
                break
            block.instructions += after.instructions
            block.successors, block.predicate = after.successors, after.predicate
            block.span, block.stack, block.end, block.trap = after.span, after.stack, after.end, after.trap
            joined[after.index] = index
            del result[after.index]
    if joined:
        for block in result.values():
            for phi in block.phis:
                for source in [source for source in phi.incoming if source in joined]:
                    last = source
                    while last in joined:
                        last = joined[last]
                    phi.incoming[last] = phi.incoming.pop(source)
    return result


def rename(blocks: Blocks, alias: dict[Register, Register]) -> None:
    """Replace each register r by alias[r] everywhere, after which the instructions and phis that define r are
    unused."""
    get = alias.get
    for block in blocks.values():
        block.predicate = get(block.predicate, block.predicate)
        block.phis = [
            Phi(phi.result, {source: get(register, register) for source, register in phi.incoming.items()})
            for phi in block.phis
            if phi.result not in alias
        ]
        for at, instruction in enumerate(block.instructions):
            operands = instruction.operands
            if instruction.guard in alias or any(register in alias for register in operands):
                block.instructions[at] = Instruction(
                    instruction.operation,
                    instruction.results,
                    tuple([get(register, register) for register in operands]),
                    instruction.immediate,
                    instruction.auxiliary,
                    get(instruction.guard, instruction.guard),
                    instruction.negated,
                    instruction.span,
                    instruction.stack,
                    instruction.array,
                    instruction.element,
                )


def _drop_negations(blocks: Blocks, assigned: dict[Register, int]) -> None:
    """Replace a branch on `not p` by a branch on p with swapped targets."""
    negated: dict[Register, Register] = {}
    for block in blocks.values():
        for instruction in block.instructions:
            if instruction.operation == "not.pred" and not instruction.guard:
                result, source = instruction.results[0], instruction.operands[0]
                if assigned[result] == 1 and assigned.get(source, 0) <= 1:
                    negated[result] = source
    if negated:
        for block in blocks.values():
            while block.predicate in negated:
                block.predicate = negated[block.predicate]
                block.successors = block.successors[::-1]


def remove_dead_code(blocks: Blocks) -> None:
    """Drop ALU operations and phis whose results influence no memory access, barrier, branch or other effect, and mark
    the exchanges whose results do influence one, and the pairs that may be observed as two accesses."""
    sources: dict[Register, list[Iterable[Register]]] = {}
    needed: set[Register] = set()
    for block in blocks.values():
        needed.add(block.predicate)
        for phi in block.phis:
            sources.setdefault(phi.result, []).append(phi.incoming.values())
        for instruction in block.instructions:
            if instruction.operation in ALU:
                made = sources.setdefault(instruction.results[0], [])
                made.append(instruction.operands)
                if instruction.guard:
                    made.append((instruction.guard,))
            else:
                needed.update(instruction.operands)
                needed.add(instruction.guard)
    stack = list(needed)
    while stack:
        for registers in sources.get(stack.pop(), ()):
            for register in registers:
                if register not in needed:
                    needed.add(register)
                    stack.append(register)
    whole = _arrays_of_whole_words(blocks)
    for block in blocks.values():
        if block.phis:
            block.phis = [phi for phi in block.phis if phi.result in needed]
        block.instructions = [
            _mark_atomic(instruction, needed, whole)
            for instruction in block.instructions
            if instruction.operation not in ALU or instruction.results[0] in needed
        ]


def _arrays_of_whole_words(blocks: Blocks) -> set[str | None]:
    """Return the arrays with atomics of 4 bytes or more that are one access; None among them: any array."""
    return {
        instruction.array
        for block in blocks.values()
        for instruction in block.instructions
        if instruction.operation in ATOMICS
        and not instruction.operation.endswith(_PAIR)
        and access_shape(instruction.operation)[1] >= _PAIR_BYTES
    }


def _mark_atomic(instruction: Instruction, needed: set[Register], whole: set[str | None]) -> Instruction:
    """Return an atomic with its marks: USES_OLD for an exchange whose result is needed, and the number of parts for a
    pair, if the launch may observe them."""
    name = instruction.operation
    used = not needed.isdisjoint(instruction.results)
    if name.startswith("atom.exch.") and used:
        return replace(instruction, auxiliary=instruction.auxiliary | USES_OLD)
    met = whole if instruction.array is None else whole & {instruction.array, None}
    if name in ATOMICS and name.endswith(_PAIR) and (used or met):
        return replace(instruction, auxiliary=instruction.auxiliary | 1 << PARTS_SHIFT)
    return instruction


def split_critical_edges(blocks: Blocks) -> Blocks:
    """Insert a block into every edge from a branch to a block with phis, right after the branch."""
    if not any(block.phis for block in blocks.values()):
        return blocks
    result: Blocks = {}
    fresh = max(blocks) + 1
    for index, block in blocks.items():
        result[index] = block
        if len(block.successors) == 2:
            successors = list(block.successors)
            for side in (1, 0):
                target = blocks[successors[side]]
                if target.phis:
                    result[fresh] = Block(fresh, successors=(target.index,), span=block.span, stack=block.stack)
                    for phi in target.phis:
                        phi.incoming[fresh] = phi.incoming.pop(index)
                    successors[side] = fresh
                    fresh += 1
            block.successors = (successors[0], successors[1])
    return result


def used_registers(blocks: Iterable[Block]) -> set[Register]:
    """Return every register that is read somewhere."""
    used: set[Register] = {TRUE}
    for block in blocks:
        used.add(block.predicate)
        for phi in block.phis:
            used.update(phi.incoming.values())
        for instruction in block.instructions:
            used.update(instruction.operands)
            used.add(instruction.guard)
    return used


def vectors(instruction: Instruction) -> list[tuple[Register, ...]]:
    """Return the registers that need consecutive rows: first those of the result, then of each operand; empty if there
    are none."""
    name, first = instruction.operation, first_element(instruction.operation)
    if first >= 0:
        return [instruction.results, instruction.operands[first:] if not instruction.results else ()]
    if name not in VECTORS:
        return []
    found, at = [instruction.results], 0
    for count in vector_counts(name, instruction.auxiliary)[1:]:
        found.append(instruction.operands[at : at + count])
        at += count
    return found


Failing = dict[int, set[int]]
"""identity of an instruction -> which of its `vectors` cannot occupy consecutive rows"""


def spread_vectors(blocks: Blocks, failing: Failing, graph_types: list[str]) -> None:
    """Give vectors new registers, with moves to or from the old ones."""
    for block in blocks.values():
        if not any(id(instruction) in failing for instruction in block.instructions):
            continue
        code: list[Instruction] = []
        for instruction in block.instructions:
            which = failing.get(id(instruction))
            code.extend(_spread(instruction, which, graph_types) if which else (instruction,))
        block.instructions = code


def _spread(instruction: Instruction, which: set[int], types: list[str]) -> list[Instruction]:
    """Return one instruction with new registers for some of its vectors, and the moves that it needs."""
    place = {"span": instruction.span, "stack": instruction.stack}
    guard = {"guard": instruction.guard, "negated": instruction.negated}
    before: list[Instruction] = []
    after: list[Instruction] = []
    results, operands = instruction.results, list(instruction.operands)
    found = vectors(instruction)
    at = max(first_element(instruction.operation), 0)
    for number, registers in enumerate(found):
        type_ = f"b{8 * SIZE[types[registers[0]]]}" if registers else ""
        fresh = tuple([_new_register(types, type_) for _ in registers]) if number in which else registers
        moved = list(zip(registers, fresh, strict=True)) if number in which else []
        if number:
            operands[at : at + len(registers)] = fresh
            at += len(registers)
            before += [Instruction(f"mov.{type_}", (new,), (old,), **place) for old, new in moved]  # type: ignore[arg-type]
        else:
            results = fresh
            after += [Instruction(f"mov.{type_}", (old,), (new,), **guard, **place) for old, new in moved]  # type: ignore[arg-type]
    return [*before, replace(instruction, results=results, operands=tuple(operands)), *after]


def _new_register(types: list[str], type_: str) -> Register:
    types.append(type_)
    return len(types) - 1
