"""Number the allocations that addresses were computed from, while the kernel runs.

After a join of paths, or a selection, the value of an address does not show its allocation: the end of one variable may
be the start of the next one.  So each register that may hold addresses in several allocations gets a second register.
It has the number of the allocation from which the address was computed.  The number is 0 if the allocation is unknown,
because the address was loaded or came from another lane.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.companions import insert_companions, list_writers, under_guard
from wsemu.frontend.ptx.provenance import CARRIES, passed_operands, propagate_provenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wsemu.frontend.assemble.graph import Graph, Instruction, Register


class Origins:
    """The allocations, as bits, that each register of a graph may hold addresses in."""

    def __init__(self, graph: Graph, given: Mapping[Register, int]) -> None:
        """`given`: registers with an address in one allocation, which is a bit."""
        self._graph, self._given = graph, given
        self._codes = [code for block in graph.blocks for code in block.instructions]
        held = propagate_provenance(graph, dict(given))
        subtracts = (code for code in self._codes if code.operation.startswith("sub."))
        self._distances = {id(code) for code in subtracts if all(held.get(operand) for operand in code.operands)}
        """identities of the instructions that subtract an address from another one"""
        self.held = propagate_provenance(graph, dict(given), self._distances)
        self._writers = list_writers(graph)
        self._numbers: dict[Register, Register] = {}

    @functools.cached_property
    def passes_addresses(self) -> bool:
        """True if the kernel stores an address, or passes one to other lanes, or a variable contains one."""
        passed = (row for code in self._codes for row in passed_operands(code))
        arrays = self._graph.constant_arrays.values()
        return any(self.held.get(row) for row in passed) or any(array.addresses for array in arrays)

    @functools.cached_property
    def received_registers(self) -> Mapping[Register, int]:
        """The registers that may hold addresses which were loaded, or came from other lanes or in a structure."""
        rows = {row: 1 for code in self._codes if code.operation not in CARRIES for row in code.results}
        rows.update((row, 1) for row, parameter in self._graph.parameters.items() if parameter.part == "bytes")
        return propagate_provenance(self._graph, rows)

    @functools.cached_property
    def _known_registers(self) -> set[Register]:
        """The registers whose values are always computed from one of the given registers."""
        known = set(self.held)
        uses: dict[Register, list[Register]] = defaultdict(list)
        for code in self._codes:
            for source in self._list_sources(code):
                uses[source].extend(code.results)
        pending = list(known)
        while pending:
            register = pending.pop()
            if register in known and not all(self._keeps(code, register, known) for code in self._writers[register]):
                known.discard(register)
                pending += uses[register]
        return known

    def _keeps(self, code: Instruction, register: Register, known: set[Register]) -> bool:
        """Return whether an instruction that writes a register computes it from known addresses."""
        if register in self._given:
            return len(self._writers[register]) == 1
        sources = self._list_sources(code)
        return bool(sources) and all(source in known for source in sources)

    def _list_sources(self, code: Instruction) -> tuple[Register, ...]:
        """Return the operands one of which has the address from which the result is computed; none if they are
        unknown."""
        if code.operation not in CARRIES or id(code) in self._distances:
            return ()
        if code.operation.startswith("selp"):
            return tuple(code.operands[:2])
        found = [operand for operand in code.operands if self.held.get(operand)]
        return (found[0],) if len(found) == 1 else ()

    def is_known(self, registers: Iterable[Register]) -> bool:
        """Return whether registers always hold addresses in allocations with numbers."""
        return self._known_registers.issuperset(registers)

    def number_register(self, register: Register) -> Register | None:
        """Return the register with the number of an address's allocation: 1 + its bit; None if there is only one."""
        if register in self._known_registers and self.held[register].bit_count() == 1:
            return None
        if register not in self._numbers:
            self._numbers[register] = self._graph.new("b32")
            for code in self._writers[register]:
                for source in self._list_sources(code):
                    if self.held.get(source):
                        self.number_register(source)
        return self._numbers[register]

    def insert_code(self) -> None:
        """Compute the numbers before each instruction that computes their addresses."""
        insert_companions(self._graph, self._numbers.values(), self._number_results)

    def _number_results(self, code: Instruction) -> list[Instruction]:
        numbered = [self._numbers[result] for result in code.results if result in self._numbers]
        if not numbered:
            return []
        operands = [self._number(source) for source in self._list_sources(code)] or [self._graph.constant("b32", 0)]
        chooses = len(operands) == 2
        operation = "selp.b32" if chooses else "mov.b32"
        return [under_guard(code, operation, number, *operands, *code.operands[2:3] * chooses) for number in numbered]

    def _number(self, source: Register) -> Register:
        """Return the register with the number of an operand's allocation."""
        if source in self._numbers:
            return self._numbers[source]
        bits = self.held.get(source, 0)
        return self._graph.constant("b32", bits.bit_length())
