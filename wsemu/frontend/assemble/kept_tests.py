"""Check, in the run, that a test of a phase whose result is kept for later guards only waits for the same phase.

A pipeline tests the next slot early, and keeps the result: `if not kept: wait(bar, phase)`.  A success replaces that
wait if both are for one phase of one mbarrier.  Code alone seldom shows that, because a loop changes both between the
test and the wait.

So the number of the tested phase follows the result from register to register.  Before the guarded wait, the kernel
compares this number with that of the wait's phase; if they differ, the launch is incomplete.  The test fails in every
run here, so each guarded wait is compared; if all agree, a success only skips a wait that would return immediately.

Such a result may go through moves, phis, and arithmetic with constants.  If it goes anywhere else, the test polls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.flow import ALU
from wsemu.frontend.assemble.graph import TRUE, Block, Graph, Instruction, Phi, Register
from wsemu.frontend.assemble.simplify import Blocks, assignments
from wsemu.model.data import NamedTuple, dataclass, field, replace
from wsemu.model.isa import ASKED_PHASE, BLOCKS, PEEK, WAIT_RELAXED, WAITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wsemu.frontend.assemble.waits import Reader

_BY_PARITY = WAITS[1]


class Place(NamedTuple):
    """An instruction of a block."""

    block: int
    at: int


@dataclass(slots=True)
class _Web:
    """Tests with all registers that hold their results, or functions of them."""

    tests: list[Place] = field(default_factory=list)
    values: dict[Register, tuple[int, int]] = field(default_factory=dict)
    """register -> its values after a failure and a success"""
    steps: list[Instruction] = field(default_factory=list)
    """arithmetic whose operand is a result, or computed from one"""
    guards: dict[Place, tuple[Register, Instruction]] = field(default_factory=dict)
    """guarded waits -> the register that decides on them, and the instruction"""


def check_kept_tests(graph: Graph, blocks: Blocks, reader: Reader) -> None:
    """Mark each test of an unknown kind whose result only guards waits, and add its comparison, in place."""
    webs = [web for web in _find_webs(blocks, reader) if _find_guards(web, blocks, reader)]
    if not webs:
        return
    rewriting = _Rewriting(graph, blocks)
    for web in webs:
        rewriting.add(web)
    changed = rewriting.finish()
    blocks.clear()
    blocks.update(changed)


# -- where results go --------------------------------------------------------------------------------------------------


class _Uses:
    """The uses and the definitions of all registers."""

    def __init__(self, blocks: Blocks) -> None:
        self.assigned = assignments(blocks.values())
        self.phis: dict[Register, list[Phi]] = {}
        self.instructions: dict[Register, list[Instruction]] = {}
        self.branches: dict[Register, list[int]] = {}
        self.made: dict[Register, Phi | Instruction] = {}
        for block in blocks.values():
            self.branches.setdefault(block.predicate, []).append(block.index)
            for phi in block.phis:
                self.made[phi.result] = phi
                for register in set(phi.incoming.values()):
                    self.phis.setdefault(register, []).append(phi)
            for instruction in block.instructions:
                self.made |= dict.fromkeys(instruction.results, instruction)
                for register in {*instruction.operands, instruction.guard}:
                    self.instructions.setdefault(register, []).append(instruction)


def _find_webs(blocks: Blocks, reader: Reader) -> Iterator[_Web]:
    """Yield the webs of tests by parity that are not classified yet and whose results go only through registers."""
    uses = _Uses(blocks)
    tests: dict[Register, Place] = {}
    for index, block in blocks.items():
        for at, instruction in enumerate(block.instructions):
            kept = instruction.operation == _BY_PARITY and not instruction.auxiliary & (BLOCKS | PEEK)
            if kept and instruction.guard == TRUE and uses.assigned[instruction.results[0]] == 1:
                tests[instruction.results[0]] = Place(index, at)
    left = set(tests)
    while left:
        web, members = _Web(), _follow(min(left), tests, uses, reader)
        left -= members.keys()
        if all(members.values()):
            web.tests = sorted(tests[register] for register in members if register in tests)
            web.steps = [made for r in members if r not in tests and isinstance(made := uses.made[r], Instruction)]
            if _find_values(web, members, tests, uses, reader):
                yield web


def _follow(start: Register, tests: Iterable[Register], uses: _Uses, reader: Reader) -> dict[Register, bool]:
    """Return the registers that a test's result reaches, and those of other tests that meet it in a phi; false for each
    that is used for anything but registers and branches."""
    reached: dict[Register, bool] = {}
    pending = [start]
    while pending:
        register = pending.pop()
        if register in reached:
            continue
        after = [phi.result for phi in uses.phis.get(register, ())]
        passing = [i for i in uses.instructions.get(register, ()) if _passes(i, register, uses, reader)]
        after += [instruction.results[0] for instruction in passing]
        reached[register] = uses.assigned[register] == 1 and len(passing) == len(uses.instructions.get(register, ()))
        pending += after
        for phi in uses.phis.get(register, ()):
            pending += [r for other in phi.incoming.values() for r in _sources(other, tests, uses)]
    return reached


def _passes(instruction: Instruction, register: Register, uses: _Uses, reader: Reader) -> bool:
    """Return whether an instruction only computes a function of one register."""
    others = [other for other in instruction.operands if other != register]
    return (
        instruction.operation in ALU and not instruction.operation.startswith("varying.")
        and instruction.guard == TRUE and uses.assigned[instruction.results[0]] == 1
        and len(instruction.results) == 1 and all(map(reader.is_constant, others))
    )  # fmt: skip


def _sources(register: Register, tests: Iterable[Register], uses: _Uses) -> Iterator[Register]:
    """Yield the tests whose results reach a register through phis and arithmetic."""
    pending, met = [register], set[Register]()
    while pending:
        here = pending.pop()
        if here in met:
            continue
        met.add(here)
        if here in tests:
            yield here
            continue
        made = uses.made.get(here)
        if isinstance(made, Phi):
            pending += made.incoming.values()
        elif made is not None and made.operation in ALU:
            pending += made.operands


def _find_values(
    web: _Web, members: Iterable[Register], tests: Iterable[Register], uses: _Uses, reader: Reader
) -> bool:
    """Fill `values`; return whether each register has one value after a failure, and one after a success."""
    web.values = {register: (0, 1) for register in members if register in tests}
    pending = [*web.values]
    while pending:
        register = pending.pop()
        results: dict[Register, tuple[int, int]] = {
            phi.result: web.values[register] for phi in uses.phis.get(register, ())
        }
        for instruction in uses.instructions.get(register, ()):
            pair = [reader.fold_arithmetic(instruction, {register: value}) for value in web.values[register]]
            if pair[0] is None or pair[1] is None:
                return False
            results[instruction.results[0]] = pair[0], pair[1]
        for result, known in results.items():
            if web.values.get(result, known) != known:
                return False
            if result not in web.values:
                web.values[result] = known
                pending.append(result)
    return True


# -- what they guard ---------------------------------------------------------------------------------------------------


def _find_guards(web: _Web, blocks: Blocks, reader: Reader) -> bool:
    """Fill `guards`; return whether all branches on the results guard waits that a success replaces."""
    edges: set[tuple[int, int]] = set()
    for index, block in blocks.items():
        if block.predicate not in web.values or len(block.successors) != 2:
            continue
        failed, succeeded = web.values[block.predicate]
        waits = reader.guarded_waits(index, web.values) if failed != succeeded else {}
        if not waits or not web.guards.keys().isdisjoint(waits):
            return False
        edges.add((index, block.successors[0 if failed else 1]))
        web.guards |= {place: (block.predicate, wait) for place, wait in waits.items()}
    tests = [blocks[index].instructions[at] for index, at in web.tests]
    relaxed = any(test.auxiliary & WAIT_RELAXED for test in tests)
    for _, wait in web.guards.values():
        if not _is_replaced(wait, relaxed=relaxed) or all(reader.surely_differ(test, wait) for test in tests):
            return False
    return _reachable_without(blocks, edges).isdisjoint(place.block for place in web.guards)


def _is_replaced(wait: Instruction, *, relaxed: bool) -> bool:
    """Return whether a successful test by parity replaces a wait; a relaxed test acquires nothing."""
    return wait.operation == _BY_PARITY and (not relaxed or bool(wait.auxiliary & WAIT_RELAXED))


def _reachable_without(blocks: Blocks, edges: set[tuple[int, int]]) -> set[int]:
    """Return the blocks that control can reach without passing one of these edges."""
    first = next(iter(blocks))
    found, pending = {first}, [first]
    while pending:
        index = pending.pop()
        for successor in blocks[index].successors:
            if successor not in found and (index, successor) not in edges:
                found.add(successor)
                pending.append(successor)
    return found


# -- the comparison ----------------------------------------------------------------------------------------------------


class _Comparison(NamedTuple):
    """A comparison that a guarded wait needs."""

    number: Register
    """the number of the tested phase, or 0"""
    trap: int


class _Rewriting:
    """The code that webs add to a kernel."""

    def __init__(self, graph: Graph, blocks: Blocks) -> None:
        self.graph, self.blocks = graph, blocks
        self.none = graph.constant("b64", 0)
        self.after: dict[int, Instruction] = {}
        """instructions to insert, by the identity of the one before each"""
        self.tests: set[int] = set()
        self.compared: dict[int, _Comparison] = {}
        """comparisons to insert, by the identity of the guarded wait after each"""

    def add(self, web: _Web) -> None:
        """Let the number of the tested phase follow the result through a web."""
        numbers = {register: self.graph.new("b64") for register in web.values}
        tests = [self.blocks[index].instructions[at] for index, at in web.tests]
        for test in tests:
            self.tests.add(id(test))
            self.after[id(test)] = _identify(test, numbers[test.results[0]])
        for step in web.steps:
            source = next(register for register in step.operands if register in numbers)
            number = Instruction("mov.b64", (numbers[step.results[0]],), (numbers[source],))
            self.after[id(step)] = replace(number, span=step.span, stack=step.stack)
        for block in self.blocks.values():
            block.phis += [
                Phi(numbers[phi.result], {index: numbers.get(r, self.none) for index, r in phi.incoming.items()})
                for phi in block.phis
                if phi.result in numbers
            ]
        lines = sorted({self.graph.spans[test.span].line for test in tests if self.graph.spans})
        named = " or ".join(map(str, lines))
        self.graph.traps.append(f"the result of the test on line {named} decides on a wait for another phase")
        for register, wait in web.guards.values():
            self.compared[id(wait)] = _Comparison(numbers[register], len(self.graph.traps) - 1)

    def finish(self) -> Blocks:
        """Return the blocks with all that was added."""
        found: Blocks = {}
        for index, block in self.blocks.items():
            found[index] = block
            instructions, block.instructions = block.instructions, []
            for instruction in instructions:
                if id(instruction) in self.compared:
                    block = self._compare(found, block, instruction)
                test = id(instruction) in self.tests
                block.instructions.append(_mark(instruction) if test else instruction)
                if id(instruction) in self.after:
                    block.instructions.append(self.after[id(instruction)])
        return found

    def _compare(self, found: Blocks, block: Block, wait: Instruction) -> Block:
        """End a block with the comparison for a guarded wait; return a new block for the wait and the code after it.

        Without an mbarrier there is nothing to compare: the wait reports that.
        """
        known, trap = self.compared[id(wait)]
        number = self.graph.new("b64")
        same, untested, invalid, either, passed = (self.graph.new("p") for _ in range(5))
        block.instructions += [
            _identify(wait, number),
            *(
                Instruction(name, (result,), operands, span=wait.span, stack=wait.stack)
                for name, result, operands in (
                    ("setp.eq.b64", same, (known, number)),
                    ("setp.eq.b64", untested, (known, self.none)),
                    ("setp.eq.b64", invalid, (number, self.none)),
                    ("or.pred", either, (same, untested)),
                    ("or.pred", passed, (either, invalid)),
                )
            ),
        ]
        fresh = max(*self.blocks, *found) + 1
        stop = Block(fresh, span=wait.span, stack=wait.stack, end="trap", trap=trap)
        rest = replace(block, index=fresh + 1, phis=[], instructions=[])
        found[rest.index], found[stop.index] = rest, stop
        for successor in block.successors:
            for phi in self.blocks[successor].phis:
                phi.incoming[rest.index] = phi.incoming.pop(block.index)
        block.successors, block.predicate, block.end, block.trap = (rest.index, stop.index), passed, "bra", 0
        block.span, block.stack = wait.span, wait.stack
        return rest


def _identify(wait: Instruction, number: Register) -> Instruction:
    """Return the instruction that writes the number of the phase that a wait is for."""
    return replace(wait, operation=ASKED_PHASE, results=(number,), auxiliary=0)


def _mark(test: Instruction) -> Instruction:
    return replace(test, auxiliary=test.auxiliary | PEEK)
