"""The program in which each CTA draws its own number: it decides a launch whose CTAs draw one number each.

    if (threadIdx.x == 0) tile = atomicAdd(counter, 1);

CTAs that know their numbers by such draws alone, not by `blockIdx`, are equal until they draw.  Any schedule is, with
other names of CTAs, one in which CTA n draws number n: docs/how.md, "One number for each CTA", has the theorem.  In the
*numbered program*, the draw adds as before, but its result is `blockIdx` times the amount, plus the first number.  An
exchange whose result is unused is a strong store.

Does not detect: CTAs that draw again; a counter that something else accesses; multidimensional grids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.control_flow import BRA, JUMPS
from wsemu.model.data import NamedTuple, replace
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    AS_STORE,
    ATOMICS,
    NAMES,
    NO_STORE,
    OPCODE,
    ROW,
    SCOPES,
    SERVED,
    access_shape,
)
from wsemu.model.program import Constant
from wsemu.proof.liveness import live_rows

if TYPE_CHECKING:
    from wsemu.model.outcome import Trace
    from wsemu.model.program import Program

_OF_CTAS = ("ctaid", "cluster", "nclusterid", "window", "gridid")
_NUMBERED = "numbered"


class Draw(NamedTuple):
    """The one draw of each CTA."""

    pc: int
    address: int


def find_draws(program: Program, executions: list[int], ctas: int) -> list[int]:
    """Return the instructions that may be the only draw of each CTA."""
    if _NUMBERED in program.derived or any(name.startswith(_OF_CTAS) for name in program.specials):
        return []
    live = live_rows(program)
    found = []
    for pc, fields in enumerate(program.code.tolist()):
        what, type_ = ATOMICS.get(NAMES[fields[0]], ("", ""))
        draws = what == "add" and type_ in ("b32", "b64") and not fields[7] & (SCOPES | NO_STORE)
        if draws and executions[pc] == ctas and fields[2] in live[pc + 1]:
            found.append(pc)
    return found


def find_counter(program: Program, pc: int, trace: Trace, ctas: int) -> int | None:
    """Return the location of the counter, if in a run each CTA draws once, and nothing else accesses that."""
    size = access_shape(NAMES[int(program.code[pc, 0])])[1]
    drawn: list[tuple[int, int]] = []
    others: list[tuple[int, int]] = []
    for event in trace.events:
        if event.kind != "access":
            continue
        bytes_ = access_shape(NAMES[int(program.code[event.pc, 0])])[1]
        places = [address & ~ADDRESS_WRAPPED for address in trace.lane_addresses(event).values()]
        if event.pc == pc:
            drawn += [(event.cta, place) for place in places]
        else:
            others += [(place, place + bytes_) for place in places]
    counters = {place for _, place in drawn}
    if not trace.complete or len(counters) != 1 or sorted(cta for cta, _ in drawn) != [*range(ctas)]:
        return None
    place = counters.pop()
    return None if any(start < place + size and place < end for start, end in others) else place


def make_numbered(program: Program, pc: int, base: int, step: int) -> Program:
    """Return the numbered program; CTA n draws `base` plus `step` times n."""
    end = -(-program.register_bytes // ROW) * ROW
    number, amount, first, unused, wide = (end + ROW * n for n in range(5))
    fields = program.code[pc].tolist()
    type_ = ATOMICS[NAMES[fields[0]]][1]
    drawn = [[*fields[:2], unused, *fields[3:]]]
    row = number
    if type_ == "b64":
        drawn.append(_make("cvt.b64.u32", fields[1], wide, number))
        row = wide
    drawn.append(_make(f"mad.{type_}", fields[1], fields[2], row, amount, first))
    program = _replace_instruction(program, pc, drawn)
    made = replace(
        program, register_bytes=end + 5 * ROW, specials={**program.specials, "ctaid.x": number},
        constants=[*program.constants, Constant(amount, type_, step), Constant(first, type_, base)],
    )  # fmt: skip
    _store_by_exchanges(made)
    made.derived[_NUMBERED] = True
    return made


def _make(name: str, guard: int, to: int, *operands: int) -> list[int]:
    return [OPCODE[name], guard, to, *(*operands, 0, 0, 0, 0)[:4], 0]


def _replace_instruction(program: Program, at: int, made: list[list[int]]) -> Program:
    """Return a program with several instructions in the place of one."""
    more = len(made) - 1

    def move(pc: int) -> int:
        return pc + more if pc > at else pc

    code: list[list[int]] = []
    origin: list[int] = []
    for pc, fields in enumerate(program.code.tolist()):
        for one in made if pc == at else [fields]:
            if one[0] in JUMPS:
                one = [*one[:6], move(one[6]), one[7]]
            if one[0] == BRA and one[5] >= 0:
                one = [*one[:5], move(one[5]), *one[6:]]
            code.append(one)
            origin.append(pc)
    tables = ("span_of", "stack_of", "array_of", "element_of")
    moved: dict[str, Any] = {name: [table[pc] for pc in origin] for name in tables if (table := getattr(program, name))}
    return replace(program, code=np.array(code, np.int64), **moved)


def _store_by_exchanges(program: Program) -> None:
    """Make each exchange whose result is unused a strong store."""
    live = live_rows(program)
    for pc, fields in enumerate(program.code.tolist()):
        exchanges = ATOMICS.get(NAMES[fields[0]], ("",))[0] == "exch"
        if exchanges and not fields[7] & NO_STORE and fields[2] not in live[pc + 1]:
            program.code[pc, 7] = fields[7] & ~SERVED | AS_STORE
