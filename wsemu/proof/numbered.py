"""The program in which each CTA draws its own number: it decides launches whose CTAs draw one number each.

A CTA *draws* a number by an atomic add on a counter. If CTAs use the drawn number instead of `blockIdx`, then nothing
distinguishes them before they draw. Renaming the CTAs therefore turns any schedule into one in which CTA n draws the
n-th number; docs/how.md, "One number for each CTA", has the theorem. In the *numbered program*, the draw still adds to
the counter, but its result is computed: the first number, plus `blockIdx` times the amount.

Does not detect: CTAs that draw several times; a counter with other accesses; multidimensional grids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import reachable
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMICS,
    NAMES,
    NO_STORE,
    ROW,
    SCOPES,
    access_shape,
)
from wsemu.model.program import Constant
from wsemu.proof.liveness import live_rows
from wsemu.proof.rewriting import make_instruction, replace_instructions

if TYPE_CHECKING:
    from wsemu.model.outcome import Trace
    from wsemu.model.program import Program

_OF_CTAS = ("ctaid", "cluster", "nclusterid", "window", "gridid")
_NUMBERED = "numbered"


def find_numbered(program: Program) -> frozenset[int]:
    """Return the draw of a numbered program, which is an add without a result; nothing for other programs."""
    found: frozenset[int] = program.derived.get(_NUMBERED, frozenset())
    return found


def find_draws(program: Program, executions: list[int], ctas: int) -> list[int]:
    """Return the instructions that may be the only draw of each CTA: no atomic may execute before them."""
    if _NUMBERED in program.derived or any(name.startswith(_OF_CTAS) for name in program.specials):
        return []
    live = live_rows(program)
    found = []
    atomics = [pc for pc, op in enumerate(program.code[:, 0].tolist()) if NAMES[op] in ATOMICS]
    for pc, fields in enumerate(program.code.tolist()):
        what, type_ = ATOMICS.get(NAMES[fields[0]], ("", ""))
        draws = what == "add" and type_ in ("b32", "b64") and not fields[7] & (SCOPES | NO_STORE)
        if draws and executions[pc] == ctas and fields[2] in live[pc + 1]:
            found += [pc] * all(pc not in reachable(program, before) for before in atomics)
    return found


def find_counter(program: Program, pc: int, trace: Trace, ctas: int) -> int | None:
    """Return the counter's address if each CTA of the run draws once and nothing else accesses the counter, or None."""
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
    if not trace.complete or len(counters) != 1 or [cta for cta, _ in drawn] != [*range(ctas)]:
        return None
    place = counters.pop()
    return None if any(start < place + size and place < end for start, end in others) else place


def make_numbered(program: Program, pc: int, base: int, step: int) -> Program:
    """Return the numbered program, in which CTA n draws `base` plus `step` times n."""
    end = -(-program.register_bytes // ROW) * ROW
    number, amount, first, unused, wide = (end + ROW * n for n in range(5))
    fields = program.code[pc].tolist()
    type_, guard = ATOMICS[NAMES[fields[0]]][1], fields[1]
    drawn = [[*fields[:2], unused, *fields[3:]]]
    row = number
    if type_ == "b64":
        drawn.append(make_instruction("cvt.b64.u32", guard, wide, number))
        row = wide
    drawn.append(make_instruction(f"mad.{type_}", guard, fields[2], row, amount, first))
    made = replace_instructions(
        program, {pc: drawn}, register_bytes=end + 5 * ROW, specials={**program.specials, "ctaid.x": number},
        constants=[*program.constants, Constant(amount, type_, step), Constant(first, type_, base)],
    )  # fmt: skip
    made.derived[_NUMBERED] = frozenset({pc})
    return made
