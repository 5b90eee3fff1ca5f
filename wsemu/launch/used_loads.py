"""Find loads from tensor memory that lack `tcgen05.wait::ld` but whose registers are all used.

PTX does not order such a load before anything: only the wait completes it.  Hardware waits for a load before an
instruction that uses one of its registers.  So a load has read tensor memory if, on each path, its warp stores all of
its registers, or values computed from them, before an operation from which another warp may learn that.  The error is
then a warning with a code of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import EXIT, successors
from wsemu.model.effects import find_opcodes
from wsemu.model.isa import ANYWHERE, FORBIDS_SHIFT, IN_LOCAL, NAMES, OPCODE, OPERATIONS, ROW
from wsemu.model.tensor_memory import OF_STORES, WAIT, move_registers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.outcome import Outcome
    from wsemu.model.program import Program

UNFINISHED, UNWAITED = "tmem-read-unfinished", "tmem-read-unwaited"
_PUBLISHES = {EXIT} | find_opcodes(lambda row: row.orders and row.waits != "phase") - {OPCODE[WAIT]}
"""operations by which other threads may learn how far a warp is"""
_MOVABLE = frozenset(("alu", "load", "warp", "matrix", "control"))
"""kinds of operations that an assembler may move after a barrier, or leave out"""


def name_used_loads(outcome: Outcome, program: Program) -> None:
    """Give unfinished loads whose registers have all been used a code of their own."""
    for raw in outcome.findings:
        if raw.code == UNFINISHED and _uses_all_registers(program, raw.other_pc, raw.pc):
            raw.code = UNWAITED


def _uses_all_registers(program: Program, load: int, later: int) -> bool:
    """Return whether each path from a load uses all its registers before other warps may learn that, or before `later`.

    An assembler may move arithmetic after a barrier.  So only a store, or another effect, of a register or of a value
    computed from it counts as a use; a store to local memory does not count.
    """
    from wsemu.proof.taint_steps import plain_decoder

    code, decoder = program.code.tolist(), plain_decoder(program)
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
        for step in decoder.steps(pc):
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
