"""Find loads from tensor memory that lack `tcgen05.wait::ld` but whose registers are all used.

PTX does not order such a load before anything: only the wait completes it.  Hardware waits for a load before an
instruction that uses one of its registers.  So a load has read tensor memory if, on each path, its warp stores all of
its registers, or values computed from them, before an operation from which another warp may learn that.  The error is
then a warning with a code of its own.

If the first such operation comes too early, a later one may be the one that counts.  The launch then runs again with a
wait before each operation by which all registers have been used on every path.  A load that is not reported in that run
is complete, on hardware, before its columns are overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.running import ran
from wsemu.model.control_flow import BRA, EXIT, JUMPS, successors
from wsemu.model.data import NamedTuple, replace
from wsemu.model.effects import find_opcodes
from wsemu.model.isa import ANYWHERE, FIELDS, FORBIDS_SHIFT, IN_LOCAL, NAMES, OPCODE, OPERATIONS, ROW
from wsemu.model.tensor_memory import BY_USE, LOAD, OF_STORES, WAIT, move_registers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome
    from wsemu.model.program import Program

UNFINISHED, UNWAITED = "tmem-read-unfinished", "tmem-read-unwaited"
_PUBLISHES = {EXIT} | find_opcodes(lambda row: row.orders and row.waits != "phase") - {OPCODE[WAIT]}
"""operations by which other threads may learn how far a warp is"""
_IMM, _C = FIELDS.index("imm"), FIELDS.index("c")
_MOVABLE = frozenset(("alu", "load", "warp", "matrix", "control"))
"""kinds of operations that an assembler may move after a barrier, or leave out"""
_CANCELS, _BY_ZERO = (
    frozenset(f"{word}.b{bits}" for word in words for bits in (32, 64)) for words in (("xor", "sub"), ("and", "mul"))
)
"""operations whose result is 0 if their operands are equal, and those whose result is 0 if one operand is"""


def name_used_loads(outcome: Outcome, program: Program) -> None:
    """Give unfinished loads whose registers have all been used a code of their own."""
    for raw in outcome.findings:
        if raw.code == UNFINISHED and _uses_all_registers(program, raw.other_pc, raw.pc):
            raw.code = UNWAITED


def name_later_uses(bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], **how: Any) -> None:
    """Give loads that are unfinished at the first operation that may publish them, but not at a later one that does,
    the code of loads whose registers have all been used.  The launch runs again from its initial arrays, otherwise as
    it ran before."""
    unfinished = [raw for raw in outcome.findings if raw.code == UNFINISHED]
    if not unfinished or outcome.status != "done" or outcome.overflow:
        return
    waiting, origin = _with_waits(bound.program)
    before = initial() if waiting is not None else [None]
    if waiting is None or any(kept is None for kept in before):
        return
    segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
    again = ran(bound._replace(program=waiting, segments=segments), 1, **how)[0]
    if again.status != "done" or again.overflow:
        return
    left = {origin[raw.other_pc] for raw in again.findings if raw.code == UNFINISHED}
    for raw in unfinished:
        if raw.other_pc not in left:
            raw.code = UNWAITED


def complete_used_loads(program: Program) -> Program:
    """Return the program with each load from tensor memory complete where its registers have been used."""
    waiting, _ = _with_waits(program)
    return program if waiting is None else waiting


def _with_waits(program: Program) -> tuple[Program | None, list[int]]:
    """Return the program with a wait before each operation that may publish loads whose registers have all been used,
    or None if it has no such operation, and the number that each instruction had."""
    before, code = _Flight.of(program), program.code.tolist()
    places = {pc for pc, (flying, unused, _) in before.items() if flying and not unused and _publishes(code[pc])}
    origin: list[int] = []
    for pc in range(len(code)):
        origin += [pc] * (2 if pc in places else 1)
    if not places:
        return None, origin
    starts = np.searchsorted(origin, np.arange(len(code) + 1)).tolist()
    made = []
    for pc, fields in enumerate(code):
        if pc in places:
            made.append([OPCODE[WAIT], *[0] * (len(FIELDS) - 2), BY_USE])
        moved = [*fields]
        if fields[0] in JUMPS:
            moved[_IMM] = starts[fields[_IMM]]
            if fields[0] == BRA and fields[_C] >= 0:
                moved[_C] = starts[fields[_C]]
        made.append(moved)
    tables: dict[str, Any] = {
        name: [table[pc] for pc in origin] if table else []
        for name in ("span_of", "stack_of", "array_of", "element_of")
        for table in [getattr(program, name)]
    }
    return replace(program, code=np.array(made, np.int64), **tables), origin


class _Flight(NamedTuple):
    """Loads that no wait has completed on some path, as bits: those in flight; registers of them that are unused; for
    each row, the registers from which its value was computed."""

    flying: int
    unused: int
    held: dict[int, int]

    @classmethod
    def of(cls, program: Program) -> dict[int, _Flight]:
        """Return the loads that are in flight before each reachable instruction."""
        code, steps = program.code.tolist(), _decode_steps(program)
        own, end = dict[int, range](), 0
        for pc, fields in enumerate(code):
            if fields[0] == OPCODE[LOAD]:
                own[pc] = range(end, end := end + move_registers(fields[7]) + 1)
        found = {0: cls(0, 0, {})}
        queue = [0]
        while queue:
            pc = queue.pop()
            after = found[pc]._after(code[pc], steps(pc), own.get(pc))
            for way in successors(pc, code[pc]):
                joined = found[way]._join(after) if way in found else after
                if way not in found or joined != found[way]:
                    found[way] = joined
                    queue.append(way)
        return found

    def _after(self, fields: list[int], steps: Iterable[Any], own: range | None) -> _Flight:
        """Return the loads in flight after an instruction; the last bit of `own` is set forever if a load is repeated
        before its registers have been used."""
        if fields[0] == OPCODE[WAIT] and not fields[7] & OF_STORES:
            return _Flight(0, 0, {})
        flying, unused, held = self
        if not flying and own is None:
            return self
        held = dict(held)
        for step in steps:
            read = _select_bits(held, (*step.reads, *step.operands))
            if not fields[1] and not _is_movable(fields):
                unused &= ~read
            for row in step.writes:
                held[row] = read | (held.get(row, 0) if fields[1] else 0)
        if own is None:
            return _Flight(flying, unused, {row: bits for row, bits in held.items() if bits})
        bits = (1 << len(own)) - 1 << own.start
        again = 1 << own.stop - 1
        left = again if unused & bits else 0
        held = {row: value & ~bits for row, value in held.items() if value & ~bits}
        held |= {fields[2] + ROW * n: 1 << own.start + n for n in range(len(own) - 1)}
        return _Flight(flying | bits, unused | bits & ~again | left, held)

    def _join(self, other: _Flight) -> _Flight:
        held = {}
        for row in self.held.keys() | other.held.keys():
            one, two = self.held.get(row, 0), other.held.get(row, 0)
            bits = (one | two) & (one | ~self.unused) & (two | ~other.unused)
            if bits:
                held[row] = bits
        return _Flight(self.flying | other.flying, self.unused | other.unused, held)


def _uses_all_registers(program: Program, load: int, later: int) -> bool:
    """Return whether each path from a load uses all its registers before other warps may learn that, or before `later`.

    An assembler may move arithmetic after a barrier.  So only a store, or another effect, of a register or of a value
    computed from it counts as a use; a store to local memory does not count.
    """
    code, steps = program.code.tolist(), _decode_steps(program)
    first = code[load][2]
    rows = {first + ROW * n: 1 << n for n in range(move_registers(code[load][7]))}
    unused = {at: (1 << len(rows)) - 1 for at in successors(load, code[load])}
    held = dict.fromkeys(unused, rows)
    queue = list(unused)
    while queue:
        pc = queue.pop()
        fields = code[pc]
        if fields[0] == OPCODE[WAIT] and not fields[7] & OF_STORES:
            continue
        if _publishes(fields) or pc in (load, later):
            if unused[pc]:
                return False
            continue
        rest, now = unused[pc], dict(held[pc])
        for step in steps(pc):
            read = _select_bits(now, (*step.reads, *step.operands))
            if not fields[1] and not _is_movable(fields):
                rest &= ~read
            for row in step.writes:
                now[row] = read | (now.get(row, 0) if fields[1] else 0)
        for way in successors(pc, fields):
            known = held.get(way, now)
            joined = {row: bits & known.get(row, 0) for row, bits in now.items() if bits & known.get(row, 0)}
            if way not in unused or rest & ~unused[way] or joined != known:
                unused[way] = unused.get(way, 0) | rest
                held[way] = joined
                queue.append(way)
    return True


def _decode_steps(program: Program) -> Callable[[int], Iterable[Any]]:
    """Return a function that decodes an instruction.  A result that is always 0 is computed from nothing: an assembler
    need not wait for the registers that it names."""
    from wsemu.proof.taint_steps import plain_decoder

    decoder, constants = plain_decoder(program), _find_constants(program)

    def steps(pc: int) -> Iterable[Any]:
        found = decoder.steps(pc)
        return [step._replace(reads=(), operands=()) for step in found] if pc in constants else found

    return steps


def _find_constants(program: Program) -> frozenset[int]:
    """Return the integer operations that cancel their operand or multiply it by 0."""
    zeros = {constant.row for constant in program.constants if not constant.value}
    return frozenset(
        pc for pc, (op, _, _, a, b, *_) in enumerate(program.code.tolist())
        if (NAMES[op] in _CANCELS and a == b) or (NAMES[op] in _BY_ZERO and zeros & {a, b})
    )  # fmt: skip


def _publishes(fields: list[int]) -> bool:
    """Return whether other threads may learn from an instruction how far its warp has run; a failed assertion ends the
    launch."""
    return fields[0] in _PUBLISHES and not (fields[0] == EXIT and fields[7])


def _is_movable(fields: list[int]) -> bool:
    """Return whether an assembler may move an instruction after a barrier, or keep the local memory that it writes in
    registers."""
    kind = OPERATIONS[NAMES[fields[0]]].kind
    return kind in _MOVABLE or (kind == "store" and fields[7] >> FORBIDS_SHIFT & ANYWHERE == ANYWHERE & ~IN_LOCAL)


def _select_bits(rows: dict[int, int], some: Iterable[int]) -> int:
    """Return the bits of some rows."""
    bits = 0
    for row in some:
        bits |= rows.get(row, 0)
    return bits
