"""Follow registers that hold an address on one path and a number on another one, while the kernel runs.

An access to shared or local memory at a number is out of bounds, because a GPU may begin these memories at any number.
If a register holds a number on every path, the access is known to be wrong (`reachable_memory.py`).  If it holds a
number on some paths only, it gets a second register with the kinds of memory from whose addresses it was computed.  An
access to another kind of memory goes out of bounds.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import Instruction
from wsemu.frontend.ptx.provenance import list_descriptors
from wsemu.frontend.ptx.reachable_memory import (
    ACCESSES,
    BASES,
    HAVE_OFFSET,
    NEEDED,
    describe_outside,
    find_kinds,
    replace_operand,
)
from wsemu.frontend.ptx.variables import WINDOW
from wsemu.model.addresses import LOOKED_UP
from wsemu.model.grid import FARTHEST
from wsemu.model.isa import ANYWHERE, FORBIDS_SHIFT, IN_LOCAL, IN_SHARED, OPERATIONS
from wsemu.model.shared_operands import IN_SHARED_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wsemu.frontend.assemble.graph import Graph, Register
    from wsemu.frontend.ptx.module import Kind

_KINDS = IN_SHARED | IN_LOCAL
"""memory whose addresses look like numbers"""
_MAX_DEPTH = 100
"""maximum instructions between the address of a variable and that of an access for a short proof"""
_Use = tuple[int, int, int]
"""operand that must be an address, its kind of memory, and what replaces the operand where it is a number"""


def forbid_numbers(graph: Graph, kinds: Sequence[Kind]) -> None:
    """Move accesses out of bounds in lanes in which the address is a number, if it is an address in other lanes or
    rounds."""
    if graph.specials.keys().isdisjoint(("shared", "dynamic", "local")):
        return
    writers = _list_writers(graph)
    if _Proof(graph, writers).covers_uses():
        return
    mixed = _Mixed(graph, writers, find_kinds(graph, kinds))
    for block in graph.blocks:
        block.instructions[:] = [each for code in block.instructions for each in (*mixed.select_addresses(code), code)]
    mixed.insert_code()


def _list_writers(graph: Graph) -> dict[Register, list[Instruction]]:
    writers: dict[Register, list[Instruction]] = defaultdict(list)
    for block in graph.blocks:
        for code in block.instructions:
            for result in code.results:
                writers[result].append(code)
    return writers


def _find_window(graph: Graph) -> Register:
    """Return the register with the number that `cvta.shared` adds to an address; -1 if there is none."""
    return graph.constants.get(("b64", WINDOW), -1)


def _list_uses(code: Instruction, window: Register) -> Iterator[_Use]:
    operation = OPERATIONS.get(code.operation)
    if operation is not None and operation.kind == "alu":
        if code.operation == "or.b64" and code.operands[1] == window:  # `cvta.shared`
            yield 0, IN_SHARED, 1 << FARTHEST
        return
    if operation is not None and operation.kind in ACCESSES:
        kind = NEEDED.get(code.auxiliary >> FORBIDS_SHIFT & ANYWHERE)
        if kind is not None:
            yield 0, kind, -code.immediate
    for number in IN_SHARED_MEMORY.get(code.operation, ()):
        yield number, IN_SHARED, -code.immediate if code.operation.startswith(HAVE_OFFSET) else 0
    for number in list_descriptors(code):
        yield number, IN_SHARED, describe_outside(code)


class _Proof:
    """A search for a computation of each address from the address of a variable, on every path.  Usually there is one,
    a few instructions long, and nothing is to be followed."""

    def __init__(self, graph: Graph, writers: Mapping[Register, Sequence[Instruction]]) -> None:
        self._graph, self._writers = graph, writers
        self._sources = {graph.specials[name]: kind for name, kind in BASES.items() if name in graph.specials}
        self._proven: dict[tuple[Register, int], bool] = {}
        """(register, kind of memory) -> whether it always holds such an address, if known or assumed"""

    def covers_uses(self) -> bool:
        """Return whether each operand that must be an address of shared or local memory is proven to be one."""
        window = _find_window(self._graph)
        return all(
            self._prove(code.operands[number], kind, 0)
            for block in self._graph.blocks
            for code in block.instructions
            for number, kind, _ in _list_uses(code, window)
        )

    def _prove(self, register: Register, kind: int, depth: int) -> bool:
        """Return whether a register always holds an address; in a loop, it is assumed while it is being proven."""
        if register in self._sources:
            return self._sources[register] == kind
        key = register, kind
        if key in self._proven:
            return self._proven[key]
        writers = self._writers.get(register, ())
        if not writers or depth > _MAX_DEPTH:
            return False
        known = len(self._proven)
        self._proven[key] = True
        for code in writers:
            every = all if _chooses(code) else any
            if not every(self._prove(source, kind, depth + 1) for source in _list_sources(code)) or not _computes(code):
                for assumed in list(self._proven)[known:]:  # these may rest on the assumption
                    self._proven[assumed] = False
                return False
        return True


class _Mixed:
    """The kinds of memory to which the address in each register may refer, and those to which it always refers."""

    def __init__(
        self, graph: Graph, writers: Mapping[Register, Sequence[Instruction]], held: Mapping[Register, int]
    ) -> None:
        self._graph, self._writers, self._held = graph, writers, held
        self._always = self._find_known()
        self._followed: dict[Register, Register] = {}
        """register -> the register with the kinds of memory"""
        self._window = _find_window(graph)

    def _find_known(self) -> dict[Register, int]:
        """Return the kinds of memory of which each register holds an address on every path."""
        always = {row: kinds & _KINDS for row, kinds in self._held.items() if kinds & _KINDS}
        uses: dict[Register, set[Register]] = defaultdict(set)
        for register in always:
            for code in self._writers.get(register, ()):
                for operand in code.operands:
                    uses[operand].add(register)
        pending = list(always)
        while pending:
            register = pending.pop()
            kinds = always[register]
            for code in self._writers.get(register, ()):
                kinds &= self._join(code, register, always)
            if kinds != always[register]:
                always[register] = kinds
                pending += uses[register]
        return always

    def _join(self, code: Instruction, result: Register, kinds_of: Mapping[Register, int]) -> int:
        """Return the kinds of a result, given those of the operands."""
        if not _computes(code):
            return self._held.get(result, 0)
        join = operator.and_ if _chooses(code) else operator.or_
        return functools.reduce(join, (kinds_of.get(source, 0) for source in _list_sources(code)))

    def select_addresses(self, code: Instruction) -> list[Instruction]:
        """Return the instructions before another one that replace its operands in lanes where they are numbers."""
        made = []
        for number, kind, outside in _list_uses(code, self._window):
            address, graph = code.operands[number], self._graph
            if not self._held.get(address, 0) & ~self._always.get(address, 0) & kind:
                continue
            kinds, found, chosen = graph.new("b32"), graph.new("p"), graph.new("b64")
            choices = address, graph.constant("b64", outside % (1 << 64)), found
            made += [
                _look_up(code, "and.b32", kinds, self._follow(address), graph.constant("b32", kind)),
                _look_up(code, "setp.ne.b32", found, kinds, graph.constant("b32", 0)),
                Instruction("selp.b64", (chosen,), choices, span=code.span, stack=code.stack),
            ]
            if _computes(code):  # the kinds of its result come from this operand
                self._followed[chosen] = graph.new("b32")
            replace_operand(code, number, chosen)
        return made

    def _follow(self, register: Register) -> Register:
        """Return the register with the kinds of memory from whose addresses a register was computed."""
        pending = [register]
        while pending:
            row = pending.pop()
            if row not in self._followed and not self._is_fixed(row):
                self._followed[row] = self._graph.new("b32")
                pending += [source for code in self._writers[row] for source in _list_sources(code)]
        return self._name_kinds(register)

    def _is_fixed(self, register: Register) -> bool:
        """Return whether a register holds addresses of the same kinds of memory on every path."""
        return self._always.get(register, 0) == self._held.get(register, 0) & _KINDS

    def _name_kinds(self, register: Register) -> Register:
        if register in self._followed:
            return self._followed[register]
        return self._graph.constant("b32", self._always.get(register, 0))

    def insert_code(self) -> None:
        """Compute the kinds before each instruction that computes the registers."""
        if not self._followed:
            return
        for block in self._graph.blocks:
            block.instructions[:] = [each for code in block.instructions for each in (*self._list_steps(code), code)]
        zero = self._graph.constant("b32", 0)
        first = [Instruction("mov.b32", (kinds,), (zero,), array=LOOKED_UP) for kinds in self._followed.values()]
        self._graph.blocks[0].instructions[:0] = first

    def _list_steps(self, code: Instruction) -> list[Instruction]:
        """Return the instructions that compute the kinds of the results of an instruction."""
        made: list[Instruction] = []
        for result in code.results:
            if result in self._followed:
                made += self._compute_kinds(result, code)
        return made

    def _compute_kinds(self, result: Register, code: Instruction) -> list[Instruction]:
        kinds, constant = self._followed[result], self._graph.constant
        if not _computes(code):
            return [_under_guard(code, "mov.b32", kinds, constant("b32", self._held.get(result, 0) & _KINDS))]
        sources = [self._name_kinds(source) for source in _list_sources(code)]
        if _chooses(code):
            return [_under_guard(code, "selp.b32", kinds, *sources, code.operands[2])]
        none = constant("b32", 0)
        joined, *others = [source for source in sources if source != none] or [none]
        made = []
        for source in others:
            both = self._graph.new("b32")
            made.append(_look_up(code, "or.b32", both, joined, source))
            joined = both
        return [*made, _under_guard(code, "mov.b32", kinds, joined)]


def _computes(code: Instruction) -> bool:
    """Return whether the results of an instruction depend on its operands alone."""
    operation = OPERATIONS.get(code.operation)
    return operation is not None and operation.kind == "alu"


def _chooses(code: Instruction) -> bool:
    return code.operation.startswith("selp.")


def _list_sources(code: Instruction) -> tuple[Register, ...]:
    """Return the operands one of which may contain the address that a result contains."""
    if not _computes(code):
        return ()
    return code.operands[:2] if _chooses(code) else code.operands


def _look_up(at: Instruction, operation: str, result: Register, *operands: Register) -> Instruction:
    """Return arithmetic whose result does not depend on where memory is located."""
    return Instruction(operation, (result,), operands, span=at.span, stack=at.stack, array=LOOKED_UP)


def _under_guard(at: Instruction, operation: str, result: Register, *operands: Register) -> Instruction:
    """Return such arithmetic under the guard of an instruction."""
    made = _look_up(at, operation, result, *operands)
    made.guard, made.negated = at.guard, at.negated
    return made
