"""Distinguish numbers that are computed from a `wmma` fragment, such as its sum, from its elements.

A kernel may fill a fragment with such a number or scale all its elements by it, whatever the shapes of the two
fragments.  Then all elements depend on the other fragment through the same numbers.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from wsemu.frontend.assemble.graph import TRUE
from wsemu.model.isa import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from wsemu.frontend.assemble.graph import Block, Graph, Instruction, Register

    _State = dict[Register, frozenset[Any]]

MIN_ELEMENTS = 3
"""minimum elements from which a number is computed: a conversion packs two elements into one register"""
_MAX_NUMBERS = 2
"""maximum numbers that scale a fragment, such as the mean and the deviation of elements"""
UNKNOWN: frozenset[Any] = frozenset({None})
"""state of a register that no instruction has written"""
_NOTHING: frozenset[Any] = frozenset()
_LAST, _EARLIER = frozenset({"last"}), frozenset({"earlier"})
"""states of a register that depends on a number as its instruction last computed it, or as it did before"""


def solve_forward(graph: Graph, step: Callable[[_State, Instruction], None]) -> list[tuple[Block, _State]]:
    """Return the state of the registers at the start of each block that may be reached.  `step` updates a state."""
    blocks = {block.index: block for block in graph.blocks}
    first = graph.blocks[0].index
    entering: dict[int, _State] = {first: {}}
    pending = [first]
    while pending:
        index = pending.pop()
        state = dict(entering[index])
        for instruction in blocks[index].instructions:
            step(state, instruction)
        for target in blocks[index].successors:
            known = entering.get(target)
            joined = state if known is None else _join(known, state)
            if joined != known:
                entering[target] = dict(joined)
                pending.append(target)
    return [(block, entering[block.index]) for block in list(graph.blocks) if block.index in entering]


def _join(one: _State, other: _State) -> _State:
    return {r: one.get(r, UNKNOWN) | other.get(r, UNKNOWN) for r in (*one, *other)}


def is_arithmetic(instruction: Instruction) -> bool:
    """Return whether an instruction computes its results from its operands alone."""
    operation = OPERATIONS.get(instruction.operation)
    return operation is not None and operation.kind == "alu"


class _Value(NamedTuple):
    """The value that an instruction computes, or None for other values."""

    register: Register
    instruction: int


class Factors:
    """The numbers through which the operands of instructions depend on fragments."""

    def __init__(self, graph: Graph, made: Collection[Register], uses: Mapping[int, Iterable[Register]]) -> None:
        self._graph, self._made, self._uses = graph, made, uses
        self._inputs: dict[_Value, list[frozenset[Any]]] = {}
        """value -> for each operand of its instruction, the values that the operand may hold; None for another value"""
        self._instructions: dict[_Value, Instruction] = {}

    def depend_on_numbers(self, use: int, registers: Sequence[Register], fragment: Collection[Register]) -> bool:
        """Return whether the operands of a use depend on the registers of a fragment only through the same numbers,
        each of which is computed from several elements.  A number may be the result of a loop, such as a maximum."""
        given = self._operands.get(use)
        if given is None or len(registers) == 1:
            return False
        dependent = self._find_dependent(fragment)
        reached = [self._reach(given[register], dependent) for register in registers]
        elements = {value for value in dependent if value.register in fragment}
        ends = elements.union(set[_Value].intersection(*reached))
        found = {frozenset(self._reach(given[register], dependent, ends) & ends) for register in registers}
        numbers = next(iter(found))
        if len(found) > 1 or (len(numbers) > 1 and not self._are_alike(use, registers, dependent, numbers)):
            return False
        return len(numbers) <= _MAX_NUMBERS and all(
            self._is_number(number, dependent, elements) and self._is_last(number, use, registers) for number in numbers
        )  # fmt: skip

    def _are_alike(
        self, use: int, registers: Sequence[Register], dependent: Collection[_Value], numbers: Collection[_Value]
    ) -> bool:
        """Return whether the operands of a use are computed from several numbers by the same operations.  Otherwise,
        one element may depend on the first number, and another element on the second."""
        given = self._operands[use]
        forms = {self._form(given[register], dependent, numbers) for register in registers}
        return len(forms) == 1 and None not in forms

    def _form(
        self, values: frozenset[Any], dependent: Collection[_Value], numbers: Collection[_Value],
        within: frozenset[_Value] = frozenset(),
    ) -> Hashable:  # fmt: skip
        """Return how a value is computed from numbers: these, and the operations from them on.  None if it may be one
        of several values, or comes from an earlier iteration.  Values that do not depend on numbers have one form, but
        predicates, which may select one of the numbers, have different ones."""
        if not values.intersection(dependent):
            return "independent"
        if len(values) > 1 or values <= within:
            return None
        value: _Value = next(iter(values))
        if value in numbers:
            return value
        instruction = self._instructions[value]
        forms: list[Hashable] = []
        for register, sources in zip(instruction.operands, self._inputs[value], strict=True):
            if self._graph.types[register] == "p":
                forms.append(sources if sources.isdisjoint(UNKNOWN) else None)
            else:
                forms.append(self._form(sources, dependent, numbers, within | values))
        return None if None in forms else (instruction.operation, instruction.immediate, instruction.auxiliary, *forms)

    def _is_number(self, number: _Value, dependent: Collection[_Value], elements: Collection[_Value]) -> bool:
        """Return whether a value is computed from several elements; in a loop, on every path through an iteration."""
        reached = self._reach({number}, dependent)
        if len(reached & set(elements)) < MIN_ELEMENTS:
            return False
        if not any(value in self._reach(self._sources[value], dependent) for value in reached):
            return True
        combined = self._combine(reached, elements)
        numbers = reached - set(elements)
        while number in numbers:
            few = {
                value for value in numbers
                if len(combined[value]) < MIN_ELEMENTS and not self._sources[value] & reached <= numbers
            }  # fmt: skip
            if not few:
                return True
            numbers -= few
        return False

    def _combine(self, values: Collection[_Value], elements: Collection[_Value]) -> Mapping[_Value, frozenset[_Value]]:
        """Return the elements from which each value is computed on every path to it."""
        combined = {value: frozenset({value} if value in elements else ()) for value in values}
        grows = True
        while grows:
            grows = False
            for value in combined.keys() - set(elements):
                known = (
                    frozenset[_Value].intersection(*(combined.get(source, _NOTHING) for source in operand))
                    for operand in self._inputs[value]
                )
                before, combined[value] = combined[value], frozenset[_Value]().union(*known)
                grows |= before != combined[value]
        return combined

    def _is_last(self, number: _Value, use: int, registers: Sequence[Register]) -> bool:
        """Return whether the operands of a use depend on a number only as its instruction last computed it.  A loop may
        also keep the numbers of earlier iterations."""

        def step(state: _State, instruction: Instruction) -> None:
            read = _NOTHING.union(*(state.get(operand, UNKNOWN) for operand in instruction.operands))
            before = UNKNOWN if instruction.guard == TRUE else None
            if id(instruction) == number.instruction:
                read = UNKNOWN if read == UNKNOWN else _EARLIER
                kept = state.get(number.register, UNKNOWN)
                for register in [register for register, ages in state.items() if ages >= _LAST]:
                    state[register] = state[register] - (_LAST if before else _NOTHING) | _EARLIER
                state[number.register] = kept
            for register in instruction.results:
                new = read if is_arithmetic(instruction) and register not in self._made else UNKNOWN
                new = _LAST if _Value(register, id(instruction)) == number else new
                state[register] = new | (before or state.get(register, UNKNOWN))

        for block, state in solve_forward(self._graph, step):
            for instruction in block.instructions:
                if id(instruction) == use and any(state.get(r, UNKNOWN) >= _EARLIER for r in registers):
                    return False
                step(state, instruction)
        return True

    @cached_property
    def _sources(self) -> dict[_Value, frozenset[_Value]]:
        """values from which each value is computed, once `_operands` is known"""
        return {value: _NOTHING.union(*operands) - UNKNOWN for value, operands in self._inputs.items()}

    @cached_property
    def _operands(self) -> dict[int, _State]:
        """values of the operands of each use"""
        found: dict[int, _State] = {}
        for block, state in solve_forward(self._graph, self._step):
            for instruction in block.instructions:
                if id(instruction) in self._uses:
                    found[id(instruction)] = {r: state.get(r, UNKNOWN) for r in self._uses[id(instruction)]}
                self._step(state, instruction)
        return found

    def _step(self, state: _State, instruction: Instruction) -> None:
        read = [state.get(operand, UNKNOWN) for operand in instruction.operands]
        for register in instruction.results:
            value, new = _Value(register, id(instruction)), UNKNOWN
            if register in self._made or is_arithmetic(instruction):
                own = [] if register in self._made else read
                before = self._inputs.get(value, own)
                self._instructions[value] = instruction
                self._inputs[value] = [one | other for one, other in zip(before, own, strict=True)]
                new = frozenset({value})
            state[register] = new if instruction.guard == TRUE else new | state.get(register, UNKNOWN)

    def _find_dependent(self, fragment: Collection[Register]) -> set[_Value]:
        """Return the values that depend on the registers of a fragment, and those registers."""
        results: dict[_Value, list[_Value]] = defaultdict(list)
        for value, sources in self._sources.items():
            for source in sources:
                results[source].append(value)
        found = {value for value in self._sources if value.register in fragment}
        pending = list(found)
        while pending:
            new = set(results[pending.pop()]) - found
            found |= new
            pending += new
        return found

    def _reach(
        self, values: Iterable[_Value], within: Collection[_Value], ends: Collection[_Value] = ()
    ) -> set[_Value]:
        """Return the values of a set from which some values are computed, and these.  The search stops at `ends`."""
        found: set[_Value] = set()
        pending = list(values)
        while pending:
            value = pending.pop()
            if value in within and value not in found:
                found.add(value)
                pending += () if value in ends else self._sources[value]
        return found
