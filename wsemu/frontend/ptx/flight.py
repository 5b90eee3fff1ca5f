"""Static analysis of the registers of a `wgmma` in flight (PTX ISA, "wgmma.fence", "wgmma.wait_group").

Between a `wgmma.mma_async` and the wait that covers its group, its accumulators and its registers of `a` must not be
read or written.  There are two exceptions: a `wgmma` of the same shape may use the accumulators, and any `wgmma` may
use the registers of `a`.  The operands of a `wgmma` must have been ordered by a `wgmma.fence` since they were last
touched, except for such accumulators.  A move copies these facts to its target, because the compiler removes moves.

The analysis finds possible errors in the text and inserts marks there; the run then decides whether an error occurs.
`wgmma.track` after a `wgmma` records that it is in flight.  `wgmma.touch` after an instruction records that it touches
operands of a `wgmma`, and `wgmma.check` before an instruction checks these records.  If the accessed register depends
on the path through the kernel, no mark can name it; the launch then gets a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from wsemu.frontend.assemble.flow import predecessors, reachable
from wsemu.frontend.assemble.graph import TRUE, Instruction
from wsemu.model.data import NamedTuple, replace
from wsemu.model.isa import FORGETS, UNFENCED
from wsemu.model.matrix import COLUMNS, OLDEST_GROUP, WGMMA, vector_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.frontend.assemble.graph import Block, Graph, Register

_S = TypeVar("_S")
_K = TypeVar("_K")
Bits = int
"""set of registers, as bits"""
Shape = tuple[str, int]
_Use = Shape | None
"""use of registers by a `wgmma`: a shape for its accumulators; None for `a`"""
_MOST = 62
"""maximum number of marks of a kind in a graph: bits of an immediate"""
_UNCLEAR = "which registers this uses, and whether a `wgmma` has them,"


class _Flight(NamedTuple):
    """Registers of a `wgmma` in flight."""

    source: int
    """index of the source in `_Found.groups`"""
    age: int
    """groups committed since it was issued"""
    sums: bool
    """true for accumulators, false for registers of `a`"""


class _Held(NamedTuple):
    """Two sets of registers: those for which a fact may hold, and those for which it certainly holds."""

    may: Bits
    must: Bits

    def move_bit(self, to: Register, source: Register) -> _Held:
        may, must = _move_bit(self.may, to, source), _move_bit(self.must, to, source)
        return self if may is self.may and must is self.must else _Held(may, must)


def _move_bit(bits: Bits, to: Register, source: Register) -> Bits:
    """Return the set with a register instead of another; the same object if nothing changes."""
    return bits ^ 1 << to if (bits >> to ^ bits >> source) & 1 else bits


class _State(NamedTuple):
    """The facts before an instruction."""

    touched: dict[_Use, Bits]
    """registers that need a fence before a `wgmma` uses them in this way"""
    flying: dict[_Flight, _Held]


class _Wrong(NamedTuple):
    """A possible error of an instruction: the `wgmma` in flight that it touches, and whether it uses registers that no
    fence has ordered."""

    touches: dict[_Flight, bool]
    """for each possible `wgmma` in flight, whether the touch is certain"""
    unfenced: list[tuple[_Use, Bits]]


class _Found:
    """The `wgmma` instructions of a graph."""

    def __init__(self, graph: Graph) -> None:
        blocks = {block.index: block for block in graph.blocks}
        self.blocks = {index: blocks[index] for index in reachable(blocks)}
        self.before = predecessors(self.blocks)
        self.groups = [i for block in self.blocks.values() for i in block.instructions if i.operation in WGMMA]
        self.number = {id(i): n for n, i in enumerate(self.groups)}
        self.shapes = [_parts(i)[2] for i in self.groups]
        self.uses: list[_Use] = [None, *dict.fromkeys(self.shapes)]
        assigned = 0
        for block in self.blocks.values():
            for i in block.instructions:
                assigned |= _bits(i.results)
        self.assigned = assigned
        """registers that are not constants"""
        self._used: dict[int, Bits] = {}

    def used_registers(self, instruction: Instruction) -> Bits:
        """Return the operands and results of an instruction."""
        key = id(instruction)
        if key not in self._used:
            self._used[key] = _bits((*instruction.operands, *instruction.results))
        return self._used[key]


def mark_registers(graph: Graph) -> list[tuple[Instruction, str]]:
    """Insert marks into a graph; return, by instruction, what remains unclear."""
    found = _Found(graph)
    if not found.groups:
        return []
    start = _State(dict.fromkeys(found.uses, -1), {})
    states = _solve(found, start, _join, lambda state, block: _run_block(found, state, block))
    wrong = {
        id(i): (i, trouble)
        for block, state in states.items()
        for i, trouble in _block_mistakes(found, found.blocks[block], state)
    }
    if not wrong:
        return []
    marks = _Marks()
    _mark_touched(found, wrong, marks)
    _mark_unfenced(found, wrong, marks)
    marks.insert(found)
    return marks.unclear


def _block_mistakes(found: _Found, block: Block, state: _State) -> Iterable[tuple[Instruction, _Wrong]]:
    more = 0
    for i in block.instructions:
        is_plain = _is_plain(i)
        if not is_plain:
            state, more = _touch(state, more), 0
        trouble = _find_misuse(found, state, i)
        if trouble.touches or trouble.unfenced:
            yield i, trouble
        if is_plain:
            more |= found.used_registers(i)
        else:
            state = _step(found, state, i)


# -- data flow ---------------------------------------------------------------------------------------------------------


def _solve(
    found: _Found, start: _S, join: Callable[[_S, _S], _S], run: Callable[[_S, Block], _S]
) -> dict[int, _S]:  # fmt: skip
    """Return the state at the start of each block."""
    entering: dict[int, _S] = {}
    after: dict[int, _S] = {}
    pending = list(found.blocks)
    while pending:
        index = pending.pop(0)
        states = [after[way] for way in found.before[index] if way in after]
        if index == 0 or not states:
            states.append(start)
        state = states[0]
        for other in states[1:]:
            state = join(state, other)
        entering[index] = state
        state = run(state, found.blocks[index])
        if index not in after or after[index] != state:
            after[index] = state
            pending += [s for s in found.blocks[index].successors if s not in pending]
    return entering


def _join_held(one: dict[_K, _Held], other: dict[_K, _Held]) -> dict[_K, _Held]:
    """Return the facts after two paths merge: a fact is certain if it is certain on each path on which it may hold."""
    joined = dict(one)
    for key, (may, must) in other.items():
        own = joined.get(key)
        joined[key] = _Held(may | own.may, must & own.must) if own else _Held(may, must)
    return joined


def _join(one: _State, other: _State) -> _State:
    touched = {use: bits | other.touched[use] for use, bits in one.touched.items()}
    return _State(touched, _join_held(one.flying, other.flying))


def _bits(registers: Iterable[Register]) -> Bits:
    total = 0
    for register in registers:
        total |= 1 << register
    return total


def _parts(instruction: Instruction) -> tuple[Bits, Bits, Shape]:
    """Return the registers of `a`, the accumulators, and the shape of a `wgmma`."""
    name, auxiliary = instruction.operation, instruction.auxiliary
    _, of_a, of_b, of_c = vector_counts(name, auxiliary)
    part = WGMMA[name].part
    own = () if WGMMA[name].shared else instruction.operands[: of_a - part.sparse]
    sums = instruction.operands[of_a + of_b : of_a + of_b + of_c]
    return _bits(own), _bits((*sums, *instruction.results)), (f"{part.d}.k{part.k}", auxiliary & COLUMNS)


def _is_move(instruction: Instruction) -> bool:
    return instruction.operation.startswith("mov.")


def _find_misuse(found: _Found, state: _State, instruction: Instruction) -> _Wrong:
    if instruction.operation in WGMMA:
        return _wrong_group(found, state, instruction)
    touches = {}
    if not _is_move(instruction):
        used = found.used_registers(instruction) & found.assigned if state.flying else 0
        touches = {key: bool(held.must & used) for key, held in state.flying.items() if held.may & used}
    return _Wrong(touches, [])


def _wrong_group(found: _Found, state: _State, instruction: Instruction) -> _Wrong:
    own, sums, shape = _parts(instruction)
    touches = {}
    for key, held in state.flying.items():
        forbidden = sums
        if key.sums:
            forbidden = own if found.shapes[key.source] == shape else own | sums
        if held.may & forbidden & found.assigned:
            touches[key] = bool(held.must & forbidden)
    used: list[tuple[_Use, Bits]] = [(shape, sums), (None, own)]
    return _Wrong(touches, [(use, bits) for use, bits in used if state.touched[use] & bits])


def _is_plain(instruction: Instruction) -> bool:
    """Return whether an instruction only touches registers."""
    name = instruction.operation
    return name not in WGMMA and name not in ("wgmma.fence", "wgmma.commit", "wgmma.wait") and not _is_move(instruction)


def _touch(state: _State, registers: Bits) -> _State:
    if not registers:
        return state
    return _State({use: bits | registers for use, bits in state.touched.items()}, state.flying)


def _run_block(found: _Found, state: _State, block: Block) -> _State:
    """Return the state after a block.  The registers of consecutive plain instructions are touched together."""
    more = 0
    for i in block.instructions:
        if _is_plain(i):
            more |= found.used_registers(i)
        else:
            state, more = _step(found, _touch(state, more), i), 0
    return _touch(state, more)


def _step(found: _Found, state: _State, instruction: Instruction) -> _State:
    """Return the state after an instruction that is not plain."""
    name = instruction.operation
    touched, flying = state
    if name in WGMMA:
        own, sums, shape = _parts(instruction)
        touched = {use: bits & ~sums if use == shape else bits | sums for use, bits in touched.items()}
        flying = dict(flying)
        for of_sums, bits in ((True, sums), (False, own)):
            flying[_Flight(found.number[id(instruction)], 0, of_sums)] = _Held(bits, bits)
    elif name == "wgmma.fence":
        if instruction.guard == TRUE:  # with a guard, the run decides
            touched = dict.fromkeys(touched, 0)
    elif name == "wgmma.commit":
        older: dict[_Flight, _Held] = {}
        for key, held in flying.items():
            aged = key._replace(age=min(key.age + 1, OLDEST_GROUP))
            older = _join_held(older, {aged: held})
        flying = older
    elif name == "wgmma.wait":
        flying = {key: held for key, held in flying.items() if key.age <= instruction.immediate}
    else:
        (to,), (source,) = instruction.results, instruction.operands
        touched = {use: _move_bit(bits, to, source) for use, bits in touched.items()}
        flying = {key: held.move_bit(to, source) for key, held in flying.items()}
    return _State(touched, flying)


# -- marks -------------------------------------------------------------------------------------------------------------


class _Marks:
    """The operations to insert before and after instructions, by their identity."""

    def __init__(self) -> None:
        self.before: dict[int, list[tuple[int, int]]] = {}
        """(aux, imm) of the `wgmma.check` before an instruction"""
        self.behind: dict[int, dict[tuple[str, int], int]] = {}
        """(operation, aux) -> imm, of the marks after an instruction"""
        self.at_start = 0
        """imm of a `wgmma.touch` at the start of the kernel"""
        self.unclear: list[tuple[Instruction, str]] = []

    def put(self, behind: Instruction, operation: str, bit: int, auxiliary: int = 0) -> None:
        of = self.behind.setdefault(id(behind), {})
        of[operation, auxiliary] = of.get((operation, auxiliary), 0) | bit

    def insert(self, found: _Found) -> None:
        for block in found.blocks.values():
            marked: list[Instruction] = []
            asked: set[tuple[int, tuple[int, ...], int, int]] = set()
            for i in block.instructions:
                for aux, imm in self.before.get(id(i), ()):
                    place = (i.span, i.stack, aux, imm)
                    if place not in asked:  # one PTX instruction may be several instructions here
                        marked.append(_mark("wgmma.check", imm, i, aux))
                    asked.add(place)
                marked.append(i)
                marked += [_mark(name, imm, i, aux) for (name, aux), imm in self.behind.get(id(i), {}).items()]
            block.instructions[:] = marked
        entry = found.blocks[0].instructions
        if self.at_start and entry:
            start = replace(entry[0], guard=0, negated=False)
            entry.insert(0, _mark("wgmma.touch", self.at_start, start))


def _mark(operation: str, immediate: int, at: Instruction, auxiliary: int = 0) -> Instruction:
    """Return a mark that is executed by the lanes that execute the instruction."""
    return Instruction(
        operation, immediate=immediate, auxiliary=auxiliary, guard=at.guard, negated=at.negated, span=at.span,
        stack=at.stack,
    )  # fmt: skip


def _mark_touched(found: _Found, wrong: dict[int, tuple[Instruction, _Wrong]], marks: _Marks) -> None:
    """Mark instructions that touch registers of a `wgmma` in flight, for checks."""
    numbers: dict[int, int] = {}
    for i, trouble in wrong.values():
        asked: dict[int, int] = {}
        for key, certain in trouble.touches.items():
            number = numbers.setdefault(key.source, len(numbers))
            if certain and number < _MOST:
                asked[key.age] = asked.get(key.age, 0) | 1 << number
            else:
                marks.unclear.append((i, _UNCLEAR))
        if asked:
            marks.before[id(i)] = sorted(asked.items())
    for source, number in numbers.items():
        if number < _MOST:
            marks.put(found.groups[source], "wgmma.track", 1 << number)


class _Target(NamedTuple):
    """A `wgmma` that may use registers that no fence has ordered."""

    group: Instruction
    use: _Use
    registers: Bits
    sources: Bits
    """the registers of the `wgmma`, and the registers that moves copy to them"""
    constants: Bits
    """its registers that nothing assigns"""


_START = -1
"""represents the start of the kernel, from which on no fence has been executed"""
_Touched = dict[tuple[int, int], _Held]
"""for each (number of a target, operations that have touched its registers since the last fence), those registers"""


def _mark_unfenced(found: _Found, wrong: dict[int, tuple[Instruction, _Wrong]], marks: _Marks) -> None:
    """Insert checks of `wgmma` whose registers were touched since the last fence."""
    targets = [_target(found, i, *unfenced) for i, trouble in wrong.values() for unfenced in trouble.unfenced]
    marks.unclear += [(target.group, _UNCLEAR) for target in targets[_MOST:]]
    targets = targets[:_MOST]
    instructions = [i for block in found.blocks.values() for i in block.instructions]
    numbers = {id(i): n for n, i in enumerate(instructions)}
    start = {(n, _START): _Held(target.sources, target.sources) for n, target in enumerate(targets)}

    def run(state: _Touched, block: Block) -> _Touched:
        for i in block.instructions:
            state = _step_touched(state, i, targets, numbers[id(i)])
        return state

    states = _solve(found, start, _join_held, run)
    for block, state in states.items() if targets else ():
        for i in found.blocks[block].instructions:
            for n, target in enumerate(targets):
                if target.group is i:
                    _mark_one(n, target, state, instructions, marks)
                if any(key[0] == n for key in state) and _takes_over(state, i, n, target):
                    marks.put(i, "wgmma.touch", 1 << n, FORGETS)
            state = _step_touched(state, i, targets, numbers[id(i)])


def _target(found: _Found, group: Instruction, use: _Use, registers: Bits) -> _Target:
    sources = _sources(found, registers)
    return _Target(group, use, registers, sources, sources & ~found.assigned)


def _mark_one(n: int, target: _Target, state: _Touched, instructions: list[Instruction], marks: _Marks) -> None:
    """Mark the touches of registers on the paths to one `wgmma`."""
    clear = True
    for (of, toucher), held in state.items():
        if of != n or not held.may & target.registers:
            continue
        clear &= bool(held.must & target.registers)
        if toucher == _START:
            marks.at_start |= 1 << n
        else:
            marks.put(instructions[toucher], "wgmma.touch", 1 << n)
    if clear:
        marks.before.setdefault(id(target.group), []).append((UNFENCED, 1 << n))
    else:
        marks.unclear.append((target.group, _UNCLEAR))


def _sources(found: _Found, registers: Bits) -> Bits:
    """Return these registers, and the registers that moves copy to them."""
    moves = [i for block in found.blocks.values() for i in block.instructions if _is_move(i)]
    while True:
        more = _bits(i.operands[0] for i in moves if registers >> i.results[0] & 1)
        if not more & ~registers:
            return registers
        registers |= more


def _takes_over(state: _Touched, i: Instruction, n: int, target: _Target) -> bool:
    """Return whether a `wgmma` uses everything that was touched as accumulators of the shape of a later one."""
    if i.operation not in WGMMA or _parts(i)[2] != target.use:
        return False
    taken = _parts(i)[1] | target.constants
    return not any(held.may & ~taken for (of, _), held in state.items() if of == n)


def _step_touched(state: _Touched, i: Instruction, targets: list[_Target], number: int) -> _Touched:
    if i.operation == "wgmma.fence":
        return {} if i.guard == TRUE else state
    if _is_move(i):
        to, source = i.results[0], i.operands[0]
        return {
            key: held.move_bit(to, source) if targets[key[0]].sources >> to & 1 else held for key, held in state.items()
        }
    used = _bits((*i.operands, *i.results))
    shape: Shape | None = None
    if i.operation in WGMMA:
        _, used, shape = _parts(i)
    state = dict(state)
    for n, target in enumerate(targets):
        if shape is not None and shape == target.use:
            of = [key for key in state if key[0] == n]
            gone = _takes_over(state, i, n, target)
            for key in of:
                held = state.pop(key)
                if not gone:
                    state[key] = _Held(held.may & ~used, held.must & ~used)
        elif own := used & target.sources & ~target.constants:
            may, must = state.get((n, number), (0, 0))
            state[n, number] = _Held(may | own, must | own)
    return state
