"""`barrier-recycling`: an operation can be counted into the wrong generation of a named barrier.

Detects: two operations of consecutive generations of a barrier, if the one of the earlier generation does not happen
before the other.  The test uses the clocks just before the later operation.  Another schedule then counts the later
operation instead of the earlier one: the generation completes before all its warps have arrived, or receives too many
arrivals.
Does not detect: what follows in that other schedule, such as a deadlock; a launch without this finding and without a
race has the same generations in every schedule.
Reference: Sharma, Bauer, Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI 2015),
section 3, "well-synchronised".  The compiled test is `clocks.judge_recycling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.evidence.places import CALLS
from wsemu.evidence.readings import format_steps, reading
from wsemu.evidence.schedule import Access
from wsemu.model.arch import WARP
from wsemu.model.data import dataclass
from wsemu.model.finding import Finding, with_role
from wsemu.model.isa import NAMES
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.evidence.schedule import Witness
    from wsemu.model.finding import Site, Step
    from wsemu.model.outcome import RawFinding, Trace

CODES = ("barrier-recycling",)
CURES = {
    "barrier-recycling": Cures(
        360,
        "stage insert compare call pair move argument constant bound split unguard delete",
        inserts=("syncthreads",),
        ptx=("bar.sync 0;",),
    ),
}
DETAIL = {
    "barrier-recycling": Detail(
        {
            "barrier": "its id",
            "generation": "of (1)",
            "interval": "of the warp, that (2) ends",
            "other_interval": "of the other warp, that (1) ends",
        }
    )
}
"""`count` is the number of pairs of an operation (1) of one warp and this operation (2)"""
TRACED = True


@dataclass(frozen=True, slots=True)
class Pair:
    """(1) is an operation of a generation, (2) of the barrier's next generation; `who` names a warp with its role."""

    first: Access
    second: Access
    first_who: str
    second_who: str
    barrier: int
    generation: int
    """generation that (1) belongs to"""


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """Return the finding of two operations that another schedule may exchange; a trace adds such a schedule."""
    witness = None if trace is None else reading(places, trace, {raw.cta})
    if (
        witness is not None
        and not witness.complete
        and (raw.cta, raw.warp, raw.detail["interval"]) not in witness.endings
    ):
        witness = None  # the trace ends before that
    pair = _pair(raw, places, witness)
    verb, place = _verb(places, raw.pc), places.near(raw.other_pc, raw.pc)
    steps, then = _schedule(pair, witness, places) if witness is not None else ([], "")
    g = pair.generation
    late = (
        f"nothing orders (1) before (2): if {pair.first_who} is late at {place}, the {verb} of {pair.second_who} on "
        f"{places.near(raw.pc, raw.other_pc)} is counted into generation {g} in its place"
    )
    return Finding(
        code=raw.code,
        message=f"barrier {pair.barrier}{places.cta_text(raw.cta)}: {verb} of generation {g + 1} can be counted into "
        f"generation {g}: {_missing(pair, places)}",
        sites=[
            places.site(raw.pc, f"(2) {pair.second_who} {verb}s, generation {g + 1}", cta=raw.cta, warp=raw.warp),
            places.site(
                raw.other_pc, f"(1) {pair.first_who} {_verb(places, raw.other_pc)}s, generation {g}",
                cta=raw.cta, warp=raw.other_warp, primary=False,
            ),
            *_callers(raw, places),
        ],
        notes=[late, then] if then else [late],
        help=_help(pair, places, witness),
        count=raw.count,
        schedule=format_steps(steps),
        schedule_steps=len(steps),
        steps=steps,
    )  # fmt: skip


def _pair(raw: RawFinding, places: Places, witness: Witness | None) -> Pair:
    d = raw.detail
    first = Access(raw.cta, raw.other_warp, d["other_interval"], raw.other_pc, d["barrier"])
    second = Access(raw.cta, raw.warp, d["interval"], raw.pc, d["barrier"])
    names = []
    for side in (first, second):
        role = places.role([side.pc]) if witness is None else witness.role(side.cta, side.warp)
        names.append(with_role(f"warp {side.warp}", role))
    return Pair(first, second, names[0], names[1], d["barrier"], d["generation"])


def _callers(raw: RawFinding, places: Places) -> list[Site]:
    return [*places.callers(raw.pc), *(c for c in places.callers(raw.other_pc) if c not in places.callers(raw.pc))]


def _verb(places: Places, pc: int) -> str:
    """Return `arrive` or `sync`."""
    return "arrive" if NAMES[int(places.program.code[pc, 0])] == "bar.arrive" else "sync"


def _schedule(pair: Pair, witness: Witness, places: Places) -> tuple[list[Step], str]:
    """Return a schedule with (1) and (2) exchanged, after everything that must precede one of them, and a text for its
    consequence."""
    first, second, g = pair.first, pair.second, pair.generation
    at_first, at_second = (witness.endings.get((a.cta, a.warp, a.interval)) for a in (first, second))
    if at_first is None or at_second is None:
        return [], ""
    before = _required_operations(pair, witness, at_second)
    counted = None if witness.asynchronous else witness.count_in_order([*before, at_second, at_first])
    warps = (first.warp, second.warp)
    if counted is None:  # counts differ, or another warp is held up: no more than the run itself
        return witness.as_run(at_first, at_second, {}, lambda e: e.warp in warps), ""
    early, late = counted[at_second], counted[at_first]
    if early.arrived == early.expected:
        then = f"generation {early.generation} then completes without {pair.first_who}, "
        then += f"whose {_verb(places, first.pc)} comes too late"
    else:
        then = f"generation {early.generation} then has {pair.second_who} in it too early, "
        then += "and a warp that belongs there is left over"
    theirs = (pair.barrier, g)
    kept = witness.steps(before, lambda e: e.warp in warps or (e.place, e.generation) == theirs, {})
    second_fields: dict[str, Any] = {"barrier": pair.barrier, **early._asdict(), "mark": "(2)"}
    first_fields: dict[str, Any] = {"barrier": pair.barrier, "generation": late.generation, "mark": "(1) late"}
    steps = [
        *kept,
        witness.step(second, at_second, _verb(places, second.pc), **second_fields),
        witness.step(first, at_first, _verb(places, first.pc), **first_fields),
    ]
    return steps, then


def _required_operations(pair: Pair, witness: Witness, end: int) -> list[int]:
    """Return the positions of the barrier operations that must precede (2) while (1) is late.  These happen before one
    of the two, or complete the generation of (1).  If a schedule with only these would not show the fault, return all
    operations that need not wait for (1)."""
    first, second, g = pair.first, pair.second, pair.generation
    free = witness.without(first.cta, first.warp, first.interval, end)
    there = [n for n in free if (witness.events[n].place, witness.events[n].generation) == (pair.barrier, g)]
    needed = [(e.cta, e.warp, e.interval) for e in (first, second)]
    needed += [(e.cta, e.warp, e.interval) for e in (witness.events[n] for n in there)]
    before = sorted({*there, *witness.before(*needed)} & {*free})
    for choice in (before, free):
        counted = witness.count_in_order([*choice, end])
        if counted is not None and counted[end].generation == g:
            return choice
    return before


def _missing(pair: Pair, places: Places) -> str:
    """Return the missing wait that would delay (2) until (1) is done."""
    waits = _waits(pair, places)
    if waits and waits != places.call(pair.second.pc):
        return f"no `{waits}()` lets {pair.second_who} wait for {pair.first_who}"
    return f"{pair.second_who} does not wait for {pair.first_who}"


def _waits(pair: Pair, places: Places) -> str:
    """Return the call of a transfer pattern that makes the warp of (2) wait for the warp of (1), if the two have
    different roles."""
    sides = [places.role([side.pc]) for side in (pair.first, pair.second)]
    return CALLS[sides[0]][1] if sorted(sides) == sorted(CALLS) else ""


def _help(pair: Pair, places: Places, witness: Witness | None) -> str:
    there, waits = places.near(pair.second.pc, pair.first.pc), _waits(pair, places)
    if waits and waits == places.call(pair.second.pc):  # it waits already: the warp of (1) must not run ahead
        first, second = (places.role([side.pc]) for side in (pair.first, pair.second))
        return f"let {pair.first_who} call `{CALLS[second][1]}()` between two `{CALLS[first][0]}()`, once for each"
    if waits:
        gives = CALLS[places.role([pair.first.pc])][0]
        also = "" if gives in places.calls() else f", and {pair.first_who} `{gives}()` {_after(pair, places)}"
        return f"let {pair.second_who} call `{waits}()` before {there}{also}"
    if witness is not None and (count := _needed_count(pair, witness)):
        number = f"{count} threads sync on barrier {pair.barrier} on {there}"
        return f"{number}: write the count {count} wherever the barrier is used, if all of them are to meet"
    back = f"let {pair.second_who} wait for {pair.first_who} on a second barrier before {there} (full and empty)"
    return f"{back}, or alternate between two barrier ids, or sync both warps in between"


def _needed_count(pair: Pair, witness: Witness) -> int:
    """Return the number of threads that execute a sync, if that is more than a generation counts; else 0."""
    first, second = pair.first, pair.second
    if first.pc != second.pc:
        return 0
    warps = {e.warp for e in witness.events if (e.kind, e.cta, e.pc) == ("sync", first.cta, first.pc)}
    count = WARP * len(warps)
    return count if count > witness.expected_threads(first.cta, pair.barrier, pair.generation) > 0 else 0


def _after(pair: Pair, places: Places) -> str:
    return places.after(pair.first.pc, pair.second.pc)
