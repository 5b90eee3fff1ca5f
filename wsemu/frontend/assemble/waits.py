"""Classify tests of an mbarrier's phase into waits that block and tests that only peek: the assembler's last analysis
of a kernel.

`mbarrier.test_wait` and `try_wait` test once; programs wait by repeating the test.  The result depends on the schedule,
and so does the program that uses it, except in these shapes:

    retry   `while not try_wait(bar, phase): pass`.  After a failure the lane only repeats the test, any number of
            times; after a success nothing shows how often it was repeated.  The wait then *blocks* (`BLOCKS`).
    repeat  `try_wait(bar, phase) or try_wait(bar, phase) or ...`: an unrolled retry loop.  After a failure the lane
            only repeats the test at another location, and the continuation is the same whichever test succeeds.  The
            first test then blocks, and the others are never reached.
    peek    `if not try_wait(bar, phase): wait(bar, phase)`, where the second one blocks.  The result only decides
            whether to execute a wait that would return immediately (`PEEK`).
    keep    a peek with other code before the second wait, which may then be for another phase.  The run compares the
            two (`kept_tests.py`).
    ignore  `try_wait(bar, phase)` alone.  If a program ignores the result, the test may have failed, and a failure
            acquires nothing.  So the test counts as a failure (`PEEK`).

To find the first three, the analysis follows the code after the test, once with each result; registers are expressions
over their contents at the test.  A path to a trap counts as unreachable if a clock, a count of tries, or a second try
at another location leads to it: a watchdog that gives up.  Any other test polls, and stays unmarked.

Detects: retry loops with pauses, counters that die, clocks, several paths, unrolled ones; peeks whose result goes
through registers and loops.
Does not detect: a loop that reads memory or exchanges lanes between its tries; these poll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from wsemu.frontend.assemble.flow import ALU, Liveness, predecessors
from wsemu.frontend.assemble.graph import TRUE, Block, Graph, Instruction, Register
from wsemu.frontend.assemble.kept_tests import Place, check_kept_tests
from wsemu.frontend.assemble.simplify import Blocks, assignments, fixed_registers
from wsemu.model.data import NamedTuple, replace
from wsemu.model.isa import ABORTS, BLOCKS, OPERATIONS, PEEK, TRY, WAIT_RELAXED, WAITS
from wsemu.model.program import GIVES_UP

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

_TOLD_ON = frozenset(
    name
    for name, operation in OPERATIONS.items()
    if operation.kind == "warp" and name.startswith(("shfl.", "vote.", "match.", "redux."))
)
"""operations that only pass a lane's values to other lanes"""
_IDLE = frozenset(("nanosleep",))
"""operations that a lane may execute between two tries, besides arithmetic"""
_MOST_STEPS = 50_000
"""maximum number of instructions that are followed from a test, on all paths together"""
_MOST_ROUNDS = 2
"""maximum visits of a block on a path: code after a peek goes around the main loop once"""

Value = tuple[object, ...]
"""("is", n): a known number; ("register", r): the contents of r at the test; (operation, immediate, operands ...)"""
Values = dict[Register | Value, Value]
"""values of registers that were assigned since the test, and of conditions that the path has decided since"""


class _Lost(Exception):
    """The code cannot be followed further."""


def mark_waits(graph: Graph, blocks: Blocks) -> None:
    """Set BLOCKS and PEEK in the waits of a kernel, in place."""
    places = [
        Place(index, at)
        for index, block in blocks.items()
        for at, instruction in enumerate(block.instructions)
        if instruction.operation in WAITS
    ]
    reader = Reader(graph, blocks)
    _mark(blocks, places, reader.blocks, BLOCKS)
    _mark(blocks, places, reader.peeks, PEEK)
    # the last waits first, so that no wait is followed beyond the next blocking one
    while _mark(blocks, places[::-1], reader.repeats, BLOCKS):
        pass
    _mark(blocks, places, reader.is_ignored, PEEK)
    check_kept_tests(graph, blocks, reader)
    _forget_clocks(graph, blocks)


def _mark(blocks: Blocks, places: Iterable[Place], found: Callable[[Place], bool], bit: int) -> bool:
    """Set a bit in the waits that `found` accepts and that do not have it yet; return whether there was one."""
    any_ = False
    for place in places:
        instruction = blocks[place.block].instructions[place.at]
        if not instruction.auxiliary & (BLOCKS | PEEK) and found(place):
            changed = replace(instruction, auxiliary=instruction.auxiliary | bit)
            blocks[place.block].instructions[place.at] = changed
            any_ = True
    return any_


def _forget_clocks(graph: Graph, blocks: Blocks) -> None:
    """Remove, in place, conditions of a conjunction or disjunction that a blocking wait decides alone, such as a time
    limit: `answered or clock() - start > limit`."""
    reader = Reader(graph, blocks)
    for block in blocks.values():
        for at, instruction in enumerate(block.instructions):
            absorbing = _LOGIC.get(instruction.operation)
            if absorbing is None:
                continue
            for register in instruction.operands:
                if reader.constant_after_wait(register) == absorbing:
                    block.instructions[at] = replace(instruction, operands=(register, register))


class _Stop(NamedTuple):
    """The end of a path, with the values of registers there."""

    place: Place
    values: Values


class Reader:
    """Follows the code of a kernel."""

    def __init__(self, graph: Graph, blocks: Blocks) -> None:
        self.code = blocks
        self.types = graph.types
        self.hopeless = _giving_up(graph, blocks)
        """blocks that always lead to a trap"""
        self.known: dict[Register, Value] = {
            register: ("is", int(value))
            for (type_, value), register in graph.constants.items()
            if not isinstance(value, (str, float)) and type_[0] in "bp"
        }
        self.known[TRUE] = ("is", 1)
        assigned = assignments(blocks.values())
        self.needed = _needed_registers(blocks, ALU)
        self.heard = _needed_registers(blocks, ALU | _TOLD_ON)
        self.fixed = fixed_registers(graph)
        self.reassigned = {register for register, count in assigned.items() if count > 1}
        self.liveness = Liveness(list(blocks.values()), self.fixed, self.reassigned)
        self.made = {
            instruction.results[0]: instruction
            for block in blocks.values()
            for instruction in block.instructions
            if instruction.results and instruction.operation in ALU and not instruction.guard
            and assigned[instruction.results[0]] == 1
        }  # fmt: skip
        """registers that are assigned once, by arithmetic"""
        self.lasting = {
            register: instruction for register, instruction in self.made.items()
            if not instruction.operation.startswith("varying.") and self.reassigned.isdisjoint(instruction.operands)
        }  # fmt: skip
        """registers whose value does not change between their assignment and any use: each is assigned once, from
        operands of this kind"""
        self.varying = {
            register
            for block in blocks.values()
            for instruction in block.instructions
            if instruction.operation.startswith("varying.")
            for register in instruction.results
        } | {phi.result for block in blocks.values() for phi in block.phis}
        """clocks, and registers that may differ between iterations of a loop"""
        self.steps = 0
        self.live: dict[int, frozenset[Register]] = {}
        self.kept: dict[Value, Value] = {}
        """one object for all equal values; parts of a value count by their identity, because a value that is used
        twice, over and over, has exponentially many parts"""
        self.answers: Values = {
            instruction.results[0]: ("is", 1)
            for block in blocks.values()
            for instruction in block.instructions
            if instruction.operation in WAITS and instruction.auxiliary & BLOCKS and not instruction.guard
            and assigned[instruction.results[0]] == 1
        }  # fmt: skip
        """results of blocking waits after their completion"""

    def constant_after_wait(self, register: Register) -> int | None:
        """Return the value of a register that depends only on the results of blocking waits."""
        self.known |= cast("dict[Register, Value]", self.answers)
        value = self._deep(register, {})
        return cast("int", value[1]) if value[0] == "is" and register not in self.fixed else None

    # -- the shapes -----------------------------------------------------------------------------------------------

    def blocks(self, place: Place) -> bool:
        """Return whether the wait at a location is all that a retry loop does."""
        question = self.code[place.block].instructions[place.at]
        if self._deep(question.guard, {}) != ("is", int(not question.negated)):
            return False
        self.steps = 0
        try:
            tried, seen = self._tries(place, question)
            if not tried or any(not self._same_question(question, values) for values in tried):
                return False
            return all(self._forgets(place, question, values, seen) for values in tried)
        except _Lost:
            return False

    def _tries(self, place: Place, question: Instruction) -> tuple[list[Values], set[int]]:
        """Return the values of registers when the test is repeated after a failure, and the blocks on the path."""
        tried: list[Values] = []
        seen: set[int] = {place.block}
        start: Values = {question.results[0]: ("is", 0)}
        pending = [(_Stop(Place(place.block, place.at + 1), start), frozenset[int]())]
        while pending:
            ((index, at), values), met = pending.pop()
            instructions = self.code[index].instructions
            back = index == place.block and at <= place.at
            for instruction in instructions[at : place.at if back else len(instructions)]:
                if not self._is_idle(instruction, values):
                    raise _Lost
                self._assign(instruction, values, self._count())
            if back:
                tried.append(values)
                continue
            for following in self._continuations(index, values, unanswered=True):
                if following.place.block in met:
                    raise _Lost  # a loop inside the loop
                seen.add(following.place.block)
                pending.append((following, met | {following.place.block}))
        return tried, seen

    def _same_question(self, question: Instruction, values: Values) -> bool:
        return all(self._value(r, values) == self._as_made(r, values) for r in question.operands)

    def _as_made(self, register: Register, values: Mapping[Register | Value, Value]) -> Value:
        """Return the value of a register at the test; if the path to the test recomputes the register each time, return
        the computation."""
        made = self.made.get(register)
        if register not in values or made is None:
            return self.known.get(register, ("register", register))
        return self._result(made, [self._as_made(operand, values) for operand in made.operands])

    def _forgets(self, place: Place, question: Instruction, tried: Values, seen: set[int]) -> bool:
        """Return whether it makes no difference after a success how many tries failed before."""
        answer: Values = {question.results[0]: ("is", 1)}
        at_once, later = dict(answer), {**tried, **answer}
        block, at = place.block, place.at + 1
        while True:
            for offset, instruction in enumerate(self.code[block].instructions[at:], at):
                if not self._is_idle(instruction, at_once):
                    return self._agree(self._needed_registers(Place(block, offset)), at_once, later)
                self._assign(instruction, at_once, self._count())
                self._assign(instruction, later, self.steps)
            one, two = list(self._continuations(block, at_once)), list(self._continuations(block, later))
            if len(one) != 1 or [s.place for s in one] != [s.place for s in two]:
                return self._agree(self._live_after(block), at_once, later)
            block, at = one[0].place.block, 0
            at_once, later = one[0].values, two[0].values
            if block == place.block:
                return False
            if block not in seen:
                return self._agree(self._live(block), at_once, later)

    def _agree(self, needed: Iterable[Register], one: Values, two: Values) -> bool:
        return all(
            (one[r] if r in one else self._as_made(r, two)) == (two[r] if r in two else self._as_made(r, two))
            for r in needed
            if r in self.needed
        )

    def _needed_registers(self, place: Place) -> Iterator[Register]:
        """Yield the registers that may be needed from an instruction on."""
        for instruction in self.code[place.block].instructions[place.at :]:
            yield from (*instruction.operands, instruction.guard, *instruction.results)
        yield from self._live_after(place.block)

    def _live_after(self, block: int) -> Iterator[Register]:
        """Yield registers that are needed at a block's end."""
        yield self.code[block].predicate
        for successor in self.code[block].successors:
            yield from self.liveness.before(successor)
            yield from (phi.incoming[block] for phi in self.code[successor].phis)

    def repeats(self, place: Place) -> bool:
        """Return whether the wait at a location is the first of several that repeat the same test until one
        succeeds."""
        question = self.code[place.block].instructions[place.at]
        if self._deep(question.guard, {}) != ("is", int(not question.negated)):
            return False
        self.steps = 0
        try:
            later = self._later_successes(place, question)
            first = self._trail(Place(place.block, place.at + 1), {question.results[0]: ("is", 1)})
            return bool(later) and all(self._meet(first, self._trail(*end)) for end in later)
        except _Lost:
            return False

    def _later_successes(self, place: Place, question: Instruction) -> list[_Stop]:
        """Return the points at which tries that follow a failure may succeed, with the values of registers there."""
        found: list[_Stop] = []
        pending = [(_Stop(Place(place.block, place.at + 1), {question.results[0]: ("is", 0)}), frozenset[int]())]
        while pending:
            ((index, at), values), met = pending.pop()
            for here, instruction in enumerate(self.code[index].instructions[at:], at):
                if instruction.operation not in WAITS:
                    if not self._is_idle(instruction, values):
                        raise _Lost
                    self._assign(instruction, values, self._count())
                    continue
                if not self._replaces_question(instruction, question, values):
                    raise _Lost
                found.append(_Stop(Place(index, here + 1), {**values, instruction.results[0]: ("is", 1)}))
                if instruction.auxiliary & BLOCKS or Place(index, here) == place:
                    break
                values[instruction.results[0]] = ("is", 0)
                self._count()
            else:
                for following in self._continuations(index, values, unanswered=True):
                    if following.place.block in met:
                        raise _Lost  # a loop inside the loop
                    pending.append((following, met | {following.place.block}))
        return found

    def _replaces_question(self, wait: Instruction, question: Instruction, values: Values) -> bool:
        """Return whether a later wait performs the same test and, if it succeeds, acquires what the first test would
        have acquired."""
        kind, asked = (instruction.auxiliary & ~(BLOCKS | PEEK | TRY) for instruction in (wait, question))
        return kind == asked and self._asks_the_same(wait, question, values)

    def _trail(self, place: Place, values: Values) -> dict[int, Values]:
        """Return the blocks that control reaches from a location before anything has an effect, as `_direct` does."""
        values = dict(values)
        for instruction in self.code[place.block].instructions[place.at :]:
            if not self._is_idle(instruction, values):
                return {}
            self._assign(instruction, values, self._count())
        return self._direct(place.block, values)

    def _meet(self, one: Mapping[int, Values], two: Mapping[int, Values]) -> bool:
        """Return whether two trails reach the same block with equal contents of all registers that are needed from
        there on."""
        return any(self._agree(self._live(block), one[block], held) for block, held in two.items() if block in one)

    def peeks(self, place: Place) -> bool:
        """Return whether the result of the test at a location only guards a blocking wait for the same phase."""
        question = self.code[place.block].instructions[place.at]
        if self._deep(question.guard, {}) != ("is", int(not question.negated)):
            return False
        self.steps = 0
        try:
            return self._only_guards(place, question)
        except _Lost:
            return False

    def is_ignored(self, place: Place) -> bool:
        """Return whether nothing depends on the result of the test at a location."""
        return self.heard.isdisjoint(self.code[place.block].instructions[place.at].results)

    def _only_guards(self, place: Place, question: Instruction) -> bool:
        """Follow a success and a failure side by side until no needed register depends on the result."""
        answer = question.results[0]
        start: tuple[Values, Values] = {answer: ("is", 1)}, {answer: ("is", 0)}
        pending = [(Place(place.block, place.at + 1), *start, {place.block: 1})]
        guards, by_parity = False, question.operation == WAITS[1]

        def is_same(_: Place, wait: Instruction, values: Values) -> bool:
            return self._asks_the_same(wait, question, values)

        while pending:
            here, yes, no, rounds = pending.pop()
            block = self.code[here.block]
            for instruction in block.instructions[here.at :]:
                if by_parity and not self._is_idle(instruction, yes):
                    return False  # by the guarded wait, the phase may have ended, and another of its parity begun
                if any(self._differs(r, yes, no) for r in self._steering(instruction)):
                    return False
                self._assign(instruction, yes, self._count())
                self._assign(instruction, no, self.steps)
                if self._always_succeeds(instruction):
                    yes[instruction.results[0]] = no[instruction.results[0]] = ("is", 1)
            if len(block.successors) == 2 and self._differs(block.predicate, yes, no):
                ways = self._guarded_branches(block, is_same, yes, no)
                if not ways:
                    return False
                guards = True
            else:
                ways = [
                    (one.place, one.values, two.values)
                    for one, two in zip(
                        self._continuations(here.block, yes), self._continuations(here.block, no), strict=True
                    )
                ]
            for at, one, two in ways:
                live = self._live_at_start(at.block)
                if any(r in live and self._differs(r, one, two) for r in (*one, *two) if isinstance(r, int)):
                    count = rounds.get(at.block, 0) + 1
                    if count > _MOST_ROUNDS:
                        raise _Lost
                    pending.append((at, one, two, {**rounds, at.block: count}))
        return guards

    def guarded_waits(self, index: int, kept: Mapping[Register, tuple[int, int]]) -> dict[Place, Instruction]:
        """Return the waits that a block's branch on a kept result guards, if it decides nothing else.

        `kept` has all registers with the result, or a function of it: their values after a failure and a success.
        """
        block = self.code[index]
        failed, succeeded = kept[block.predicate]
        yes: Values = {block.predicate: ("is", succeeded)}
        no: Values = {block.predicate: ("is", failed)}
        found: dict[Place, Instruction] = {}

        def note_wait(place: Place, wait: Instruction, values: Values) -> bool:
            found[place] = wait
            return self._deep(wait.guard, values) == ("is", int(not wait.negated))

        self.steps = 0
        try:
            ways = self._guarded_branches(block, note_wait, yes, no)
            for place, one, two in ways:
                live = self._live_at_start(place.block)
                others = [r for r in (*one, *two) if isinstance(r, int) and r in live and r not in kept]
                if any(self._differs(register, one, two) for register in others):
                    return {}
        except _Lost:
            return {}
        return found if ways else {}

    def surely_differ(self, one: Instruction, two: Instruction) -> bool:
        """Return whether two waits by parity are for different parities, or for mbarriers at different offsets from one
        address, whenever they execute."""
        (place, phase), (other_place, other_phase) = ([self._deep(r, {}) for r in i.operands] for i in (one, two))
        if phase[0] == other_phase[0] == "is" and (int(str(phase[1])) ^ int(str(other_phase[1]))) & 1:
            return True
        base, offset = _split_offset(place, one.immediate)
        other, other_offset = _split_offset(other_place, two.immediate)
        return base == other and offset != other_offset and not self._passes(base)

    def fold_arithmetic(self, instruction: Instruction, operands: Mapping[Register, int]) -> int | None:
        """Return the result of arithmetic on these values and on constants, if it is known."""
        values: Values = {register: ("is", value) for register, value in operands.items()}
        result = self._result(instruction, [self._value(r, values) for r in instruction.operands])
        return cast("int", result[1]) if result[0] == "is" else None

    def is_constant(self, register: Register) -> bool:
        """Return whether a register always holds the same known integer."""
        return register in self.known

    def _always_succeeds(self, instruction: Instruction) -> bool:
        """Return whether an instruction is a wait that blocks, so that control continues after a success only."""
        if instruction.operation not in WAITS or not instruction.auxiliary & BLOCKS:
            return False
        return self._deep(instruction.guard, {}) == ("is", int(not instruction.negated))

    def _steering(self, instruction: Instruction) -> tuple[Register, ...]:
        """Return the registers of an instruction that the result must not influence."""
        if instruction.operation in ALU:
            return ()
        return (instruction.guard, *instruction.operands)

    def _differs(self, register: Register, yes: Values, no: Values) -> bool:
        one, other = self._value(register, yes), self._value(register, no)
        return one is not other and one != other

    def _guarded_branches(
        self, block: Block, is_replaced: Callable[[Place, Instruction, Values], bool], yes: Values, no: Values
    ) -> list[tuple[Place, Values, Values]]:
        """Return a branch that the result of a test decides, with the values of registers at the test.

        The list is empty if there is none.  On the failing side, every path that does not trap must reach a wait that a
        success replaces.  The branch must then continue where the successful side does, or both sides must end the
        thread, each in a block of its own.
        """
        direct = self._direct(block.index, yes)
        ends = [index for index in direct if self._is_exit(index)]
        found: list[tuple[Place, Values, Values]] = []
        pending = [
            (here, False, frozenset((block.index,))) for here in self._continuations(block.index, no, unanswered=True)
        ]
        while pending:
            here, waited, met = pending.pop()
            if waited and here.place.block in direct:
                found.append((here.place, direct[here.place.block], here.values))
                continue
            if waited and ends and self._is_exit(here.place.block):
                found.append((Place(ends[0], 0), direct[ends[0]], here.values))
                continue
            if here.place.block in met:
                return []
            for at, instruction in enumerate(self.code[here.place.block].instructions):
                if instruction.operation in WAITS and instruction.auxiliary & BLOCKS:
                    self._count()
                    if not is_replaced(Place(here.place.block, at), instruction, here.values):
                        return []
                    waited = True
                    here.values[instruction.results[0]] = ("is", 1)
                elif self._is_idle(instruction, here.values):
                    self._assign(instruction, here.values, self._count())
                else:
                    return []
            met |= {here.place.block}
            onward = self._continuations(here.place.block, here.values, unanswered=not waited)
            pending += [(following, waited, met) for following in onward]
        return found

    def _is_exit(self, index: int) -> bool:
        """Return whether a block only ends the thread."""
        block = self.code[index]
        return not block.instructions and not block.successors and index not in self.hopeless

    def _direct(self, index: int, values: Values) -> dict[int, Values]:
        """Return the blocks that control reaches from the end of a block before anything has an effect, with the values
        of registers at their start."""
        found: dict[int, Values] = {}
        while self.code[index].successors:
            onward = list(self._continuations(index, values))
            if len(onward) != 1 or onward[0].place.block in found:
                return found
            index, values = onward[0].place.block, onward[0].values
            found[index] = dict(values)
            for instruction in self.code[index].instructions:
                if not self._is_idle(instruction, values):
                    return found
                self._assign(instruction, values, self._count())
        return found

    def _asks_the_same(self, wait: Instruction, question: Instruction, values: Values) -> bool:
        if wait.operation != question.operation:
            return False
        if question.auxiliary & WAIT_RELAXED and not wait.auxiliary & WAIT_RELAXED:
            return False  # a relaxed success acquires nothing, and skips the wait that would acquire
        if self._deep(wait.guard, values) != ("is", int(not wait.negated)):
            return False
        asked = [self._deep(r, {}) for r in question.operands]
        tried = [self._deep(r, values) for r in wait.operands]
        same = _split_offset(tried[0], wait.immediate) == _split_offset(asked[0], question.immediate)
        return same and tried[1:] == asked[1:]

    def _deep(self, register: Register, values: Mapping[Register | Value, Value]) -> Value:
        """Return a register's value, expanded to the operations that computed its parts before the test."""
        return self._expand_value(self._value(register, values), {})

    def _expand_value(self, value: Value, done: dict[int, tuple[Value, Value]]) -> Value:
        """Return an expanded value; `done` has others by their identity, which it keeps."""
        if id(value) in done:
            return done[id(value)][1]
        result = value
        if value[0] == "register":
            made = self.lasting.get(int(str(value[1])))
            if made is not None:
                result = self._result(made, [self._expand_value(self._value(r, {}), done) for r in made.operands])
        elif value[0] not in ("is", "made"):
            name, how, *rest = value
            parts = [self._expand_value(part, done) for part in rest if isinstance(part, tuple)]
            result = ("where", how, *parts) if name == "where" else _simplify_operation(str(name), how, parts)
            result = self._keep(result)
        done[id(value)] = value, result
        return result

    def _live_at_start(self, block: int) -> frozenset[Register]:
        """Return the registers that `_live` yields."""
        found = self.live.get(block)
        if found is None:
            found = self.live[block] = frozenset(self._live(block))
        return found

    def _live(self, block: int) -> Iterator[Register]:
        """Yield the registers that are live at the start of a block."""
        yield from self.liveness.before(block)
        yield from (phi.result for phi in self.code[block].phis)

    # -- following the code -------------------------------------------------------------------------------------------

    def _count(self) -> int:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _Lost
        return self.steps

    def _is_idle(self, instruction: Instruction, values: Values) -> bool:
        """Return whether an instruction is arithmetic, a pause, or disabled by its guard."""
        if instruction.operation in ALU or instruction.operation in _IDLE:
            return True
        return self._value(instruction.guard, values) == ("is", int(instruction.negated))

    def _continuations(self, index: int, values: Values, *, unanswered: bool = False) -> Iterator[_Stop]:
        """Yield the continuations from the end of a block.

        A trap is never reached, except for an `unanswered` test that does not belong to a watchdog.  Traps and exits
        end the search.
        """
        block = self.code[index]
        if not block.successors:
            if index in self.hopeless:
                return
            raise _Lost
        ways = block.successors
        condition, sense = _condition(self._value(block.predicate, values))
        decided = values.get(condition, condition)
        if len(ways) == 2 and decided[0] == "is":
            ways = (ways[decided[1] != sense],)
        for way in dict.fromkeys(ways):
            if way in self.hopeless:
                if unanswered and len(ways) == 2 and not any(map(self._passes, (condition, *_conditions(values)))):
                    raise _Lost  # the condition is the same at each try
                continue
            held = dict(values)
            if len(ways) == 2:
                held[condition] = ("is", sense if way == ways[0] else 1 - sense)
            for phi in self.code[way].phis:
                held[phi.result] = self._value(phi.incoming[index], values)
            yield _Stop(Place(way, 0), held)

    def _passes(self, value: Value) -> bool:
        """Return whether a value may differ at a later try: a clock, or a count of tries."""
        pending, met = [value], set[Register]()
        while pending:
            name, *rest = pending.pop()
            if name == "made":
                return True
            if name != "register":
                pending += [part for part in rest if isinstance(part, tuple) and part and isinstance(part[0], str)]
                continue
            register = cast("Register", rest[0])
            if register in self.varying or register in self.reassigned:
                return True
            if register in self.made and register not in met:
                pending += [("register", operand) for operand in self.made[register].operands]
            met.add(register)
        return False

    def _value(self, register: Register, values: Mapping[Register | Value, Value]) -> Value:
        found = self.known.get(register) or values.get(register)
        return self._keep(("register", register)) if found is None else found

    def _keep(self, value: Value) -> Value:
        """Return the object that represents a value."""
        key = tuple(id(part) if isinstance(part, tuple) and isinstance(part[0], str) else part for part in value)
        return self.kept.setdefault(key, value)

    def _assign(self, instruction: Instruction, values: Values, step: int) -> None:
        """Apply an instruction to the registers; a value that it reads from memory or elsewhere equals only itself."""
        guard = self._value(instruction.guard, values)
        if guard == ("is", int(instruction.negated)):
            return
        always = guard == ("is", int(not instruction.negated))
        for number, register in enumerate(instruction.results):
            value = self._keep(("made", step, number))
            if instruction.operation in ALU and not instruction.operation.startswith("varying."):
                value = self._result(instruction, [self._value(r, values) for r in instruction.operands])
            if not always:
                value = self._keep(("where", instruction.negated, guard, value, self._value(register, values)))
            values[register] = value

    def _result(self, instruction: Instruction, operands: list[Value]) -> Value:
        type_ = self.types[instruction.results[0]]
        bits = 1 if type_ == "p" else int(type_[1:])
        return self._keep(_simplify_operation(instruction.operation, (instruction.immediate, bits), operands))


def _conditions(values: Values) -> Iterator[Value]:
    """Yield the conditions that a path has decided since the test."""
    yield from (condition for condition in values if isinstance(condition, tuple))


def _simplify_operation(name: str, how: object, operands: list[Any]) -> Value:
    """Return an operation on values, simplified; `how` is its immediate and the bits of its result."""
    if name.startswith("mov."):
        return cast("Value", operands[0])
    if name.startswith("selp."):
        if operands[0] == operands[1]:
            return cast("Value", operands[0])
        if operands[2][0] == "is":
            return cast("Value", operands[0] if operands[2][1] else operands[1])
    assert isinstance(how, tuple)
    if name in _LOGIC:
        for one, other in (operands, operands[::-1]):
            if one == ("is", _LOGIC[name]):
                return cast("Value", one)
            if one == ("is", 1 - _LOGIC[name]):
                return cast("Value", other)
    numbers = [operand[1] for operand in operands if operand[0] == "is"]
    base, _, type_ = name.rpartition(".")
    if len(numbers) == len(operands) and type_[:1] in "busp" and base in _FOLDS:
        signed = type_[0] == "s"
        source = int(type_[1:]) if type_[1:].isdigit() else 1
        given = [_to_signed(n, source) for n in numbers] if signed else numbers
        return ("is", _FOLDS[base](*given) & ((1 << how[1]) - 1))
    if name.startswith(("add.b", "mad.b", "madwide.")) and operands[-1] == ("is", 0):
        return (
            operands[0] if len(operands) == 2 else _simplify_operation(name.replace("mad", "mul", 1), how, operands[:2])
        )
    if name.startswith("add.b") and operands[0] == ("is", 0):
        return cast("Value", operands[1])
    return (name, how, *operands)


def _split_offset(address: Value, offset: int) -> tuple[Value, int]:
    """Return an address without its constant offset, and the offset.

    A 32-bit address is assumed not to wrap: otherwise the repeated waits in shared memory would end the run.
    """
    while True:
        wide = str(address[0]).startswith("cvt.b64.") and len(address) == 3
        inner = cast("Value", address[2]) if wide else address
        if not (str(inner[0]) in ("add.b32", "add.b64") and len(inner) == 4):
            return address, offset
        one, other = cast("tuple[Value, Value]", inner[2:])
        if one[0] == "is":
            one, other = other, one
        if other[0] != "is":
            return address, offset
        offset += _to_signed(int(str(other[1])), int(str(inner[0])[-2:]))
        address = (address[0], address[1], one) if wide else one


def _condition(predicate: Value) -> tuple[Value, int]:
    """Return a condition, and its value if the predicate holds; a comparison and its opposite share one condition."""
    name = str(predicate[0])
    for one, other in _OPPOSITES.items():
        if name.startswith(one) and name[len(one) + 1] in "bsu":
            return (other + name[len(one) :], *predicate[1:]), 0
    return (("is", predicate[1]) if name == "is" else predicate), 1


_LOGIC = {"and.pred": 0, "or.pred": 1}
"""operation on predicates -> the value of an operand that alone decides the result"""
_OPPOSITES = {"setp.ge": "setp.lt", "setp.gt": "setp.le", "setp.ne": "setp.eq"}


def _to_signed(number: int, bits: int) -> int:
    half = 1 << bits - 1
    return (number & 2 * half - 1 ^ half) - half


_FOLDS: dict[str, Callable[..., int]] = {
    "not": lambda a: ~a, "neg": lambda a: -a,
    "and": lambda a, b: a & b, "andn": lambda a, b: a & ~b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "mulwide": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c, "madwide": lambda a, b, c: a * b + c,
    "shl": lambda a, b: a << b if b < 64 else 0, "shr": lambda a, b: a >> min(b, 63),
    "setp.eq": lambda a, b: int(a == b), "setp.ne": lambda a, b: int(a != b),
    "setp.lt": lambda a, b: int(a < b), "setp.le": lambda a, b: int(a <= b),
    "setp.gt": lambda a, b: int(a > b), "setp.ge": lambda a, b: int(a >= b),
    **{f"cvt.b{n}": lambda a: a for n in (8, 16, 32, 64)},
}  # fmt: skip
"""operation without its type -> its result on known integers"""


def _giving_up(graph: Graph, blocks: Blocks) -> set[int]:
    """Return the blocks from which all paths lead to a trap of the kernel or to a failing assertion; paths that end in
    unsupported code do not count."""
    found = {
        index
        for index, block in blocks.items()
        if not block.successors
        and (GIVES_UP in graph.traps[block.trap] if block.end == "trap" else block.trap == ABORTS)
    }
    before = predecessors(blocks)
    pending = [*found]
    while pending:
        for index in before[pending.pop()]:
            if index not in found and found.issuperset(blocks[index].successors):
                found.add(index)
                pending.append(index)
    return found


def _needed_registers(blocks: Blocks, passing: Container[str]) -> set[Register]:
    """Return the registers that something depends on besides the count that distinguishes one clock from the next.
    Operations that are `passing` need their operands only if their results are needed."""
    sources: dict[Register, set[Register]] = {}
    todo: list[Register] = []
    for block in blocks.values():
        todo.append(block.predicate)
        for phi in block.phis:
            sources.setdefault(phi.result, set()).update(phi.incoming.values())
        for instruction in block.instructions:
            used = (instruction.guard, *instruction.operands)
            if instruction.operation.startswith("varying."):
                used = used[:1]
            if instruction.operation not in passing:
                todo += used
            else:
                for result in instruction.results:
                    sources.setdefault(result, set()).update(used)
    found: set[Register] = set()
    while todo:
        register = todo.pop()
        if register not in found:
            found.add(register)
            todo += sources.get(register, ())
    return found
