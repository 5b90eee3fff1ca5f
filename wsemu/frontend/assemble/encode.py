"""From a graph to flat bytecode: select the code, assign rows to registers, and determine where lanes reconverge.

The order of work: `simplify` (dead code, copies), `contract` (fma), `flow` (live ranges), `allocate` (rows), and here
phi moves, layout, reconvergence and encoding.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from wsemu.frontend.assemble.allocate import (
    PREDICATE_SLOT,
    Groups,
    Webs,
    assign,
    coalesce,
    parallel_copy,
    row_bytes,
    width,
)
from wsemu.frontend.assemble.contract import contract
from wsemu.frontend.assemble.flow import EXIT, Liveness, immediate_post_dominators
from wsemu.frontend.assemble.graph import TRUE, Block, Graph, Instruction, Register
from wsemu.frontend.assemble.service import choose_services, mark_without_effect
from wsemu.frontend.assemble.simplify import (
    Blocks,
    Failing,
    assignments,
    clear_unread_sums,
    fixed_registers,
    simplify_blocks,
    split_critical_edges,
    spread_vectors,
    used_registers,
    vectors,
)
from wsemu.model.data import replace
from wsemu.model.isa import ABORTS, FIELDS, OPCODE, OPERATIONS, ROW, WAITS, first_element
from wsemu.model.matrix import VECTORS, vector_counts
from wsemu.model.program import GIVES_UP, Constant, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Place = tuple[int, tuple[int, ...], str | None, str | None]
"""report data of a line of code: span, call stack, array, element"""
Fields = list[int]

_MOVE = {0: "mov.pred", 1: "mov.b8", 2: "mov.b16", 4: "mov.b32", 8: "mov.b64"}
_VECTOR_FIELDS = {
    "matrix": tuple(FIELDS.index(name) for name in ("a", "b", "imm", "c")),
    "async": tuple(FIELDS.index(name) for name in ("a", "b", "c", "imm")),
}
"""fields that hold the operands of a matrix operation: its vectors, then its last operand"""
_BRANCH, _JUMP, _JOIN, _EXIT, _TRAP = (OPCODE[name] for name in ("bra", "jump", "join", "exit", "trap"))


def assemble(graph: Graph, *, fma: bool = True, expand: Callable[[Graph, Blocks], None] | None = None) -> Program:
    """Return the flat program of a graph; `fma` contracts products and sums as the GPU compiler does.

    `expand` replaces `compound` operations by steps, in code that the compiler's first pass has optimized.
    """
    graph = replace(graph, types=list(graph.types), constants=dict(graph.constants))
    blocks = simplify_blocks(graph)
    clear_unread_sums(graph, blocks)
    if fma:
        contract(graph, blocks, optimised=expand is not None)
    if expand is not None:
        expand(graph, blocks)
    blocks = split_critical_edges(blocks)
    if any(instruction.operation in WAITS for block in blocks.values() for instruction in block.instructions):
        from wsemu.frontend.assemble.waits import mark_waits

        mark_waits(graph, blocks)
    types = graph.types
    fixed = fixed_registers(graph)
    registers, webs, groups = _webs(blocks, fixed, types)
    rows = _Rows(graph, types, _with_addresses(graph, fixed & used_registers(blocks.values())))
    rows.place(registers, webs, groups)
    choose_services(graph, blocks)
    mark_without_effect(graph, blocks)
    sections = {index: [_encode(i, rows.offset, types) for i in block.instructions] for index, block in blocks.items()}
    places = {
        index: [(i.span, i.stack, i.array, i.element) for i in block.instructions] for index, block in blocks.items()
    }
    _phi_moves(blocks, rows, sections, places)
    layout = _Layout(blocks, sections, places, rows.offset, graph.traps)
    return _program(graph, rows, layout)


def _with_addresses(graph: Graph, used: set[Register]) -> set[Register]:
    """Return the used registers, and the registers of arrays whose addresses are stored in used arrays."""
    pending = [register for register in graph.constant_arrays if register in used]
    while pending:
        for _, other, _ in graph.constant_arrays[pending.pop()].addresses:
            if other not in used:
                used.add(other)
                pending.append(other)
    return used


def _webs(blocks: Blocks, fixed: set[Register], types: list[str]) -> tuple[list[Register], Webs, Groups]:
    """Return registers, webs and vector groups; a vector access whose elements cannot be neighbors gets moves."""
    reassigned = {register for register, count in assignments(blocks.values()).items() if count > 1}
    ordered = list(blocks.values())
    alone = len(types)
    while True:
        ranges = Liveness(ordered, fixed, reassigned).ranges()
        registers = list(ranges)
        webs = coalesce(ordered, ranges, reassigned, alone)
        groups = Groups()
        failing: Failing = {}
        for instruction, number, elements in _required_vectors(ordered):
            if not fixed.isdisjoint(elements) or not groups.add([webs.find(r) for r in elements]):
                failing.setdefault(id(instruction), set()).add(number)
        if not failing:
            return registers, webs, groups
        spread_vectors(blocks, failing, types)


def _required_vectors(blocks: list[Block]) -> list[tuple[Instruction, int, tuple[Register, ...]]]:
    """Return the vectors of all instructions.  If there are matrix operations, the longest vectors come first, because
    shorter ones may be parts of them."""
    found = [
        (instruction, number, elements)
        for block in blocks
        for instruction in block.instructions
        for number, elements in enumerate(vectors(instruction))
        if len(elements) > 1
    ]
    if any(instruction.operation in VECTORS for instruction, _, _ in found):
        found.sort(key=lambda asked: -len(asked[2]))
    return found


class _Rows:
    """Byte offsets of all registers: first predicate slots, then rows that are never written, then the pools."""

    def __init__(self, graph: Graph, types: list[str], fixed: set[Register]) -> None:
        self.graph = graph
        self.types = types
        self.offset: dict[Register, int] = {TRUE: 0}
        self.fixed = sorted(fixed)
        self.bytes = 0
        self._scratch: dict[int, int] = {}

    def place(self, registers: list[Register], webs: Webs, groups: Groups) -> None:
        """Fill `offset` for every register."""
        places, counts = assign(webs, groups, self.types)
        always = self.graph.constants.get(("p", True))
        slots = 1
        base = {}
        for register in self.fixed:
            if self.types[register] == "p" and register != TRUE:
                self.offset[register] = 0 if register == always else slots * PREDICATE_SLOT
                slots += register != always
        base[0] = slots * PREDICATE_SLOT
        self._scratch[0] = base[0] + counts.get(0, 0) * PREDICATE_SLOT
        self.bytes = row_bytes(slots + counts.get(0, 0) + 1, 0)
        for register in self.fixed:
            if self.types[register] != "p":
                self.offset[register] = self.bytes
                self.bytes += ROW
        for size in sorted(counts):
            if size:
                base[size] = self.bytes
                self.bytes += row_bytes(counts[size], size)
        for register in registers:
            size = width(self.types[register])
            self.offset[register] = base[size] + places[webs.find(register)] * (ROW if size else PREDICATE_SLOT)

    def scratch(self, size: int) -> Iterator[int]:
        """Yield an unused row (or slot) of a width."""
        if size not in self._scratch:
            self._scratch[size] = self.bytes
            self.bytes += ROW
        yield self._scratch[size]


def _encode(instruction: Instruction, offset: dict[Register, int], types: list[str]) -> Fields:
    """Return the eight fields of one instruction."""
    operation = instruction.operation
    kind = OPERATIONS[operation].kind
    results, operands = instruction.results, instruction.operands
    fields = [
        OPCODE[operation],
        2 * offset[instruction.guard] + instruction.negated,
        0,
        0,
        0,
        0,
        instruction.immediate,
        0,
    ]
    if results:
        fields[2] = offset[results[0]]
    if kind == "alu":
        for at, register in enumerate(operands, 3):
            fields[at] = offset[register]
        return fields
    fields[7] = instruction.auxiliary
    if operation in VECTORS:
        *places, last = _VECTOR_FIELDS[kind]
        at = 0
        for field, count in zip(places, vector_counts(operation, instruction.auxiliary)[1:], strict=False):
            fields[field] = offset[operands[at]]
            at += count
        fields[last] = offset[operands[-1]]
    elif kind == "store":
        fields[2] = offset[operands[1]]
        fields[3] = offset[operands[0]]
    elif kind == "async" and (first := first_element(operation)) >= 0:
        fields[2] = offset[operands[first]]
        for at, register in enumerate(operands[:first], 3):
            fields[at] = offset[register]
    elif kind == "warp":  # the member mask is in c, even if unused operands before it are omitted
        for at, register in enumerate(operands[:-1], 3):
            fields[at] = offset[register]
        if operands:
            fields[5] = offset[operands[-1]]
        if len(results) > 1:
            fields[7] = offset[results[1]]
    elif kind == "barrier" and len(operands) == 2 and types[operands[1]] == "p":
        fields[3], fields[5] = offset[operands[0]], offset[operands[1]]
    else:
        for at, register in enumerate(operands, 3):
            fields[at] = offset[register]
    return fields


def _move(size: int, target: int, source: int) -> Fields:
    return [OPCODE[_MOVE[size]], 0, target, source, 0, 0, 0, 0]


def _phi_moves(blocks: Blocks, rows: _Rows, sections: dict[int, list[Fields]], places: dict[int, list[Place]]) -> None:
    """Append to each predecessor the moves for its successor's phis."""
    for block in blocks.values():
        wanted: dict[int, dict[int, dict[int, int]]] = {}
        for phi in block.phis:
            size = width(rows.types[phi.result])
            target = rows.offset[phi.result]
            for source, register in phi.incoming.items():
                if rows.offset[register] != target:
                    wanted.setdefault(source, {}).setdefault(size, {})[target] = rows.offset[register]
        for source, by_size in wanted.items():
            for size, moves in by_size.items():
                for target, origin in parallel_copy(moves, rows.scratch(size)):
                    sections[source].append(_move(size, target, origin))
                    places[source].append((blocks[source].span, blocks[source].stack, None, None))


class _Layout:
    """Blocks in their final order, with jumps threaded, joins placed and branch targets filled in."""

    def __init__(
        self,
        blocks: Blocks,
        sections: dict[int, list[Fields]],
        places: dict[int, list[Place]],
        offset: dict[Register, int],
        traps: list[str],
    ) -> None:
        self._blocks, self._traps = blocks, traps
        self._offset = offset
        self._forward = {index: self._through(index, sections) for index in blocks}
        self._ends = self._returns(sections)
        self._leaving: dict[int, tuple[bool, Block]] = {}
        """block with a branch, one side of which ends -> whether that is the side on which the predicate is false"""
        self._successors = self._thread_jumps()
        self._order = list(self._successors)
        self._meets = immediate_post_dominators(self._successors_that_end())
        self._joins = {self._meets[index] for index, following in self._successors.items() if len(following) == 2} - {
            EXIT
        }
        self.code: list[Fields] = []
        self.places: list[Place] = []
        self._pc: dict[int, int] = {}
        self._targets: list[tuple[int, int, int]] = []
        """(pc, field, block whose pc belongs there)"""
        for at, index in enumerate(self._order):
            following = self._order[at + 1] if at + 1 < len(self._order) else EXIT
            self._emit(index, following, sections[index], places[index])
        for pc, column, index in self._targets:
            self.code[pc][column] = self._pc[index]

    def _through(self, index: int, sections: dict[int, list[Fields]]) -> int:
        """Return the final target of a jump to this block, past blocks that only jump."""
        seen = {index}
        while not sections[index] and len(self._blocks[index].successors) == 1:
            index = self._blocks[index].successors[0]
            if index in seen:
                break
            seen.add(index)
        return index

    def _thread_jumps(self) -> dict[int, tuple[int, ...]]:
        """Return the successors of the blocks that remain, in layout order; the entry stays first."""
        following: dict[int, tuple[int, ...]] = {}
        stack = [0]
        while stack:
            index = stack.pop()
            if index not in following:
                targets = tuple(self._forward[successor] for successor in self._blocks[index].successors)
                if len(targets) == 2:
                    targets = self._stays(index, targets)
                following[index] = targets
                stack.extend(targets)
        return {index: following[index] for index in self._blocks if index in following}

    def _successors_that_end(self) -> dict[int, tuple[int, ...]]:
        """Return the successors without those from which every path ends the run: the lanes of the other successors
        reconverge without these lanes.  If this removes all successors, keep all."""
        ends = {index for index in self._successors if self._blocks[index].end == "trap"}
        found = len(ends)
        while found:
            more = {
                index
                for index, following in self._successors.items()
                if following and index not in ends and ends.issuperset(following)
            }
            ends |= more
            found = len(more)
        return {
            index: tuple(successor for successor in following if successor not in ends) or following
            for index, following in self._successors.items()
        }

    def _returns(self, sections: dict[int, list[Fields]]) -> set[int]:
        """Return the blocks of an early return: only one path leads to such a block, and the thread ends there.  The
        common end of the kernel is not such a block, because the lanes of a branch reconverge there."""
        ways = Counter(successor for block in self._blocks.values() for successor in block.successors)
        return {
            index
            for index, block in self._blocks.items()
            if block.end == "exit" and not block.successors and not sections[index] and ways[index] == 1
        }

    def _stays(self, index: int, targets: tuple[int, ...]) -> tuple[int, ...]:
        """Return a branch's successors without the one that only ends the thread: its lanes exit at once, by a guarded
        exit.

        As on the hardware, these lanes do not participate in the barriers that the other lanes reach.
        """
        taken, other = targets
        if taken == other:
            return targets[:1]
        if (taken in self._ends) != (other in self._ends):
            self._leaving[index] = other in self._ends, self._blocks[other if other in self._ends else taken]
            return (taken if other in self._ends else other,)
        return targets

    def _stop(self, block: Block) -> list[int]:
        """Return the trap that ends a block: a trap of the kernel itself, or one for a feature that is not modeled."""
        own = GIVES_UP in self._traps[block.trap]
        return [_TRAP, 0, 0, 0, 0, 0, block.trap, ABORTS if own else 0]

    def _emit(self, index: int, following: int, section: list[Fields], places: list[Place]) -> None:
        """Append one block; `following` is the block laid out after it."""
        block = self._blocks[index]
        self._pc[index] = len(self.code)
        place: Place = (block.span, block.stack, None, None)
        if index in self._joins:
            self._append([_JOIN, 0, 0, 0, 0, 0, 0, 0], place)
        self.code.extend(section)
        self.places.extend(places)
        successors = self._successors[index]
        if not successors:
            self._append(self._stop(block) if block.end == "trap" else [_EXIT, 0, 0, 0, 0, 0, 0, block.trap], place)
        elif len(successors) == 1:
            if index in self._leaving:
                negated, end = self._leaving[index]
                guard = 2 * self._offset[block.predicate] + negated
                left = (end.span, end.stack, None, None) if end.trap else place
                self._append([_EXIT, guard, 0, 0, 0, 0, 0, end.trap], left)
            self._jump(successors[0], following, place)
        else:
            self._branch(block, successors, following, place)

    def _append(self, fields: Fields, place: Place) -> None:
        self.code.append(fields)
        self.places.append(place)

    def _jump(self, target: int, following: int, place: Place) -> None:
        if target != following:
            self._targets.append((len(self.code), FIELDS.index("imm"), target))
            self._append([_JUMP, 0, 0, 0, 0, 0, 0, 0], place)

    def _branch(self, block: Block, successors: tuple[int, ...], following: int, place: Place) -> None:
        """Emit a `bra` whose sense lets control fall through to the next block in the layout."""
        taken, other = successors
        negated = taken == following
        if negated:
            taken, other = other, taken
        pc = len(self.code)
        meeting = self._meets[block.index]
        self._targets.append((pc, FIELDS.index("imm"), taken))
        if meeting != EXIT:
            self._targets.append((pc, FIELDS.index("c"), meeting))
        self._append([_BRANCH, 2 * self._offset[block.predicate] + negated, 0, 0, 0, -1, 0, 0], place)
        self._jump(other, following, place)


def _program(graph: Graph, rows: _Rows, layout: _Layout) -> Program:
    """Combine code, rows and tables into a program."""
    offset = rows.offset
    used = set(rows.fixed)
    undefined = [(offset[r], graph.types[r], name) for r, name in graph.undefined.items() if r in used]
    return Program(
        name=graph.name,
        code=np.array(layout.code, dtype=np.int64).reshape(-1, len(FIELDS)),
        register_bytes=rows.bytes,
        constants=[*_constants(graph, offset, used), *(Constant(row, type_, 0) for row, type_, _ in undefined)],
        undefined=undefined,
        parameters=[p._replace(row=offset[r]) for r, p in graph.parameters.items() if r in used],
        constant_arrays=[
            a._replace(row=offset[r], addresses=tuple((at, offset[other], more) for at, other, more in a.addresses))
            for r, a in graph.constant_arrays.items()
            if r in used
        ],
        specials={name: offset[register] for name, register in graph.specials.items() if register in used},
        shared_bytes=_static_bytes(graph),
        local_bytes=graph.local_bytes,
        shared=list(graph.shared),
        locals=list(graph.locals),
        uses_dynamic_shared=graph.uses_dynamic_shared,
        spans=list(graph.spans),
        span_of=[place[0] for place in layout.places],
        stack_of=[place[1] for place in layout.places],
        origins=dict(graph.origins),
        inner_spans=dict(graph.inner_spans),
        array_of=[place[2] for place in layout.places],
        element_of=[place[3] for place in layout.places],
        traps=list(graph.traps),
        prints=list(graph.prints),
        raises=list(graph.raises),
        stops=list(graph.stops),
        unmodelled=list(graph.unmodelled),
        shared_locals=list(graph.shared_locals),
        doubts=list(graph.doubts),
        sources_note=graph.sources_note,
        registers=graph.registers,
        shows_addresses=graph.shows_addresses,
    )


def _static_bytes(graph: Graph) -> int:
    """Return the bytes of static shared memory, rounded up to where dynamic shared memory may begin if there is any."""
    align = graph.dynamic_alignment if graph.uses_dynamic_shared and graph.dynamic_alignment > 16 else 1
    return -(-graph.shared_bytes // align) * align


def _constants(graph: Graph, offset: dict[Register, int], used: Iterable[Register]) -> Iterator[Constant]:
    """Yield the constants that the code reads; the true predicate is slot 0 and needs no entry."""
    for (type_, value), register in graph.constants.items():
        if register in used and offset[register]:
            yield Constant(offset[register], type_, float.fromhex(value) if isinstance(value, str) else value)
