"""`race`: conflicting accesses of two warps, or of two CTAs, that nothing orders.

Detects: byte by byte, two overlapping accesses, neither of which happens before the other, if at least one is a write
and they are not both atomics whose scopes include each other.  Happens-before follows program order, named barriers (an
arrive or sync of a generation happens before what follows each sync of it, B13), mbarriers and groups of copies,
atomics and fences.  An asynchronous copy is unordered with later accesses, also of the warp that issued it: it begins
when it is issued, and is ordered only before threads that have waited for it.  Barriers order only threads of one CTA,
except the barriers of a cluster and of a cooperative grid.
Does not detect: a conflict with an access that a later one of the same warp has replaced in the shadow memory (the
later one is reported instead).  Accesses that a warp performs only if an atomic returns another result are not seen;
then the launch is `incomplete`.
Reference: Flanagan, Freund, "FastTrack: Efficient and Precise Dynamic Race Detection" (PLDI 2009); Sharma, Bauer,
Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI 2015), section 3.  The compiled test is
`shadow.touch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.checkers.conflict import (
    ACCESSES,
    ASYNCHRONOUS,
    LANES_APART,
    UNCOMPARED,
    Conflict,
    conflict,
    lane_range,
    step,
    uncompared_note,
)
from wsemu.checkers.race_help import (
    atomics_between,
    between_ctas,
    intended_order,
    operation,
    overwritten,
    phase_lanes_help,
    polling,
    race_help,
    rendezvous_text,
)
from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import around, format_steps, reading
from wsemu.evidence.schedule import Witness
from wsemu.model.effects import BRINGS, effects_of
from wsemu.model.finding import Finding
from wsemu.model.isa import ATOMIC, READ, WRITE
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.evidence.schedule import Witness
    from wsemu.model.finding import Step
    from wsemu.model.outcome import Event, RawFinding, Trace

CODES = ("race", "missing-fence")
CURES = {
    "race": Cures(
        400,
        "insert move call stage argument constant split unguard atomic index return pair "
        "swap delete compare bound guard",
        inserts=("syncthreads", "syncwarp"),
        ptx=("bar.sync 0;", "bar.warp.sync -1;"),
    ),
    "missing-fence": Cures(520, "insert"),
}
DETAIL = {
    "race": Detail(
        ACCESSES,
        {
            **LANES_APART,
            **ASYNCHRONOUS,
            **UNCOMPARED,
            "unwritten": "1: nothing had been stored there when the earlier access read it",
        },
    ),
    "missing-fence": Detail({}),
}
"""`missing-fence` has no fields: no engine records it, because the exploration of interleavings finds it.

`count` is the number of warp accesses that conflicted with this other instruction.  The earlier access has lanes if
part of a warp had executed a barrier, so that each lane has its own clock.
"""
TRACED = True


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """Return the finding about two unordered accesses; a trace adds iterations, the missing edge and a schedule."""
    witness = None if trace is None else reading(places, trace, around(places, raw.cta, raw.detail["other_cta"]))
    found = conflict(raw, places, witness)
    if found.asynchronous:
        return _explain_copies(found, witness)
    if "other_lane" in raw.detail and found.same_cta:
        return _explain_lanes(found, witness)
    if witness is not None and not witness.complete and None in (found.first.position, found.second.position):
        witness = None  # the trace ends before the access
    where = ["" if found.same_cta else f" of CTA {places.cta(side.access.cta)}" for side in (found.first, found.second)]
    notes = [f"{found.overlap()}; nothing orders (1) and (2)"]
    steps = _schedule(found, witness) if witness is not None else []
    if witness is not None and found.same_cta:
        notes += _missing_edge(found, witness)
    if found.narrow:
        notes.append(
            "an atomic of `.cta` scope is atomic only with atomics of its own CTA, one of `.cluster` only within its "
            "cluster"
        )
    if side := polling(found):
        line = places.near(side.access.pc, raw.pc)
        notes.append(f"{line} waits in a loop with a plain load: a compiler may load once, and loop forever")
    if "unwritten" in raw.detail:
        notes.append("(1) loads memory that nothing had stored to: it holds arbitrary values")
    if overwritten(found, witness):
        notes.append(f"(1) may overwrite the value of an earlier execution of (1) before {found.second.who} loads it")
    notes += uncompared_note(raw)
    return Finding(
        code=raw.code,
        message=intended_order(found, witness).title(),
        sites=found.sites(found.first.who + where[0], found.second.who + where[1]),
        notes=notes,
        help=race_help(found, witness),
        count=raw.count,
        schedule=format_steps(steps),
        schedule_steps=len(steps),
        steps=steps,
    )


def _explain_lanes(found: Conflict, witness: Witness | None) -> Finding:
    """Return the finding for lanes after part of a warp has executed a barrier: a barrier between the accesses may
    order only other lanes."""
    raw, places, first, second = found.raw, found.places, found.first, found.second
    one, two = lane_range(raw.detail["other_lane"], raw.detail["other_last"]), lanes_text(raw.lanes)
    ordered = (
        witness is not None
        and witness.clock_at(second.access.cta, second.access.warp, second.access.interval).get(first.access.warp, 0)
        >= first.access.interval
    )
    warps = {side.access.warp for side in (first, second)}
    steps = [] if witness is None else _as_run(found, witness, warps)
    return Finding(
        code=raw.code,
        message=found.title(),
        sites=found.sites(f"{one} of {first.who}", f"{two} of {second.who}"),
        notes=[
            f"{found.overlap()}; nothing orders (1) and (2)",
            *(
                _missing_edge(found, witness)
                if witness is not None and witness.asynchronous and not ordered
                else [_PHASE_LANES if places.asynchronous() else _BARRIER_LANES]
            ),
            *uncompared_note(raw),
        ],
        help=phase_lanes_help(found, witness) if ordered and places.asynchronous() else race_help(found, witness),
        count=raw.count,
        schedule=format_steps(steps),
        schedule_steps=len(steps),
        steps=steps,
    )


def _explain_copies(found: Conflict, witness: Witness | None) -> Finding:
    """Return the finding if an asynchronous copy performs one of the accesses, or both."""
    raw, places, first, second = found.raw, found.places, found.first, found.second
    steps = [] if witness is None else _as_run(found, witness, {first.access.warp, raw.warp})
    does = {READ: "read", WRITE: "write", ATOMIC: "update"}[second.kind]
    later = f"the {words.noun(places, raw.pc)}" if second.copies else f"this {does}"
    if first.copies:
        noun = words.noun(places, raw.other_pc)
        message = f"{found.title()}: nothing waits for the {noun} of {first.who} before {later}"
    else:
        message = f"{found.title()}: {later} of {second.who} does not wait for {first.who}"
    return Finding(
        code=raw.code,
        message=message,
        sites=found.sites(_access_lanes(found, 1), _access_lanes(found, 2)),
        notes=[
            f"the first byte in common is at `{found.element}`; nothing orders (1) and (2)",
            _landing(found),
            *uncompared_note(raw),
        ],
        help=_wait_help(found),
        count=raw.count,
        schedule=format_steps(steps),
        schedule_steps=len(steps),
        steps=steps,
    )


def _access_lanes(found: Conflict, number: int) -> str:
    """Return `warp 3, lane 0`, the thread of an access, and the thread that issued it."""
    raw, side = found.raw, found.first if number == 1 else found.second
    where = "" if found.same_cta else f" of CTA {found.places.cta(side.access.cta)}"
    if number == 2:
        lanes = lanes_text(raw.lanes)
    else:
        lanes = lane_range(raw.detail["other_lane"], raw.detail["other_last"]) if "other_lane" in raw.detail else ""
    return f"{side.who}{where}{', ' * bool(lanes)}{lanes}"


def _landing(found: Conflict) -> str:
    """Return a note on when the copies of a race begin or end."""
    places, side = found.places, found.first if found.first.copies else found.second
    kind, noun = words.operation(places, side.access.pc), words.noun(places, side.access.pc)
    if side is found.second:
        return f"the {noun} may access memory from its issue on, whatever its warp does then"
    if kind in BRINGS:
        return (
            f"a thread may access the destination of the {noun} only after it sees the mbarrier's phase complete, "
            "or after it synchronizes with a thread that did"
        )
    if kind == "cp.async":
        return (
            f"a wait for its group completes the {noun} for the issuing thread only: other threads need a barrier "
            "after that wait, or a wait for the mbarrier phase in which the copy arrives"
        )
    if side.kind == READ:
        return (
            f"the {noun} has read its source once its thread has waited for its group; a wait for reads alone is enough"
        )
    return f"the {noun} is complete once its thread has waited for its group; a wait for reads alone is not enough"


def _wait_help(found: Conflict) -> str:
    """Return the help that orders the two accesses: a wait for the copy (1), or one by the issuer of (2)."""
    raw, places, (one, two) = found.raw, found.places, (found.first.access, found.second.access)
    there = places.near(two.pc, one.pc)
    if not found.same_cta and not between_ctas(found):
        return "nothing orders different CTAs within a launch: use a second launch"
    if not found.first.copies:
        who, issuer = found.first.who, found.second.who
        if (one.warp, found.second.copies) == (two.warp, True):
            return f"complete (1) in all lanes before the issue on {there}: {rendezvous_text(places, 'perform (1)')}"
        return (
            f"make {who} arrive on an mbarrier (empty) or a barrier {places.after(one.pc, two.pc)}, and {issuer} wait "
            f"for it before {there}"
        )
    kind = words.operation(places, one.pc)
    if kind in BRINGS:
        wait = words.spell_instruction(places, one.pc, "mbarrier.try_wait.parity")
        return f"wait for the phase of its mbarrier ({wait}) before {there}, in {_reader(found)}"
    bulk = effects_of(kind).group == "bulk"
    reads = bulk and found.first.kind == READ
    family = "wgmma" if kind == "wgmma" else "cp.async.bulk" if bulk else "cp.async"
    group = f"{family}.wait_group{'.read' * reads}"
    wait = words.spell_instruction(places, one.pc, group, "0")
    lanes = raw.detail.get("other_lane", -1), raw.detail.get("other_last", 31)
    alone = one.warp == two.warp and raw.lanes == 1 << max(lanes[0], 0) and lanes[0] == lanes[1]
    barrier = "" if alone else f", then a barrier that {found.second.who} passes before {there}"
    before = f" before {there}" if alone else ""
    program, commits = places.program, f"{'bulk' if bulk else 'cp.async'}.commit"
    several = sum(words.operation(places, pc) == commits for pc in range(len(program.code))) > 1
    some = words.spell_instruction(places, one.pc, group, "n")
    others = f", or {some} if n groups committed later may stay in flight" if several and "(n)" in some else ""
    return f"{wait} in the thread that issued (1){before}{others}{barrier}; commit the group before the wait"


def _reader(found: Conflict) -> str:
    """Return the text for the threads that must wait for a copy: those that execute (2), or the issuer."""
    return "the thread that issues (2)" if found.second.copies else "the threads that perform (2)"


_BARRIER_LANES = (
    "a barrier orders the accesses of the lanes that execute it, and accesses that these lanes are ordered after (B14)"
)
_PHASE_LANES = "an arrive releases what its own lane did and has observed, and a wait acquires only for its own lane"


def rank(raw: RawFinding, places: Places, trace: Trace | None) -> int:
    """Rank read-after-write hazards before write-after-read and write-after-write ones, because they should be fixed
    first."""
    witness = None if trace is None else reading(places, trace, around(places, raw.cta, raw.detail["other_cta"]))
    found = conflict(raw, places, witness)
    right = found if found.asynchronous else intended_order(found, witness)
    return 0 if right.hazard == "read-after-write" else 1


# -- missing synchronization
# --------------------------------------------------------------------------------------------------


def _missing_edge(found: Conflict, witness: Witness) -> list[str]:
    """Return notes on the last and the next release by (1)'s warp, and on when (2)'s warp acquires it."""
    places, first, second = found.places, found.first, found.second
    one, two = first.access, second.access
    given = witness.clock_at(two.cta, two.warp, two.interval).get(one.warp, 0)
    last, following = witness.after(one.cta, one.warp, given), witness.next_barrier(one.cta, one.warp, one.interval)
    before = witness.last_barrier(two.cta, two.warp, two.interval)
    if not last and not following and not before and witness.complete:
        return [f"no barrier separates them: {first.who} executes none after (1), {second.who} none before (2)"]
    notes = []
    if last is not None:
        text = _edge(places, witness, last, two.warp)
        notes.append(f"last synchronization {first.who} -> {second.who}: {text}, before (1)")
    elif not given:
        notes.append(_one_way_note(found, witness))
    if following is not None:
        notes.append(_too_late(found, witness, following))
    elif witness.complete:
        notes.append(f"{first.who} executes no barrier after (1)")
    return notes


def _one_way_note(found: Conflict, witness: Witness) -> str:
    """Return a note if nothing orders (1)'s warp before (2)'s warp, but something orders the two in the opposite
    direction."""
    first, second = found.first, found.second
    one, two = first.access, second.access
    given = witness.clock_at(one.cta, one.warp, one.interval).get(two.warp, 0)
    back = witness.after(two.cta, two.warp, given)
    if back is None:
        return f"no synchronization from {first.who} to {second.who} before (2)"
    text = _edge(found.places, witness, back, one.warp)
    return f"last synchronization {second.who} -> {first.who}: {text}; none in the other direction"


def _edge(places: Places, witness: Witness, given: Event, warp: int) -> str:
    """Return `barrier 2 generation 0 (line 32 -> 23)`: the lines of a release and of its acquire by a warp, or the one
    line of both."""
    taken, line = witness.matching_sync(given, warp), places.line(given.pc)
    end = ", through other warps" if taken is None else f" -> {places.line(taken.pc)}"
    return f"{operation(places, given)} (line {line}{end if end != f' -> {line}' else ''})"


def _too_late(found: Conflict, witness: Witness, following: Event) -> str:
    """Return a note: the next release by (1)'s warp after (1), which (2)'s warp acquires too late or never."""
    places, second = found.places, found.second
    gives = "syncs on" if following.kind == "sync" else "arrives on"
    waits = "wait" if following.kind == "arrive_on" else "sync"
    text = f"after (1), {found.first.who} {gives} {operation(places, following)} (line {places.line(following.pc)})"
    taken = witness.matching_sync(following, second.access.warp)
    if taken is None:
        return f"{text}, on which {second.who} does not {waits}"
    return f"{text}, on which {second.who} {waits}s only after (2) (line {places.line(taken.pc)})"


# -- help ----------------------------------------------------------------------------------------------


# -- a schedule that shows it -----------------------------------------------------------------------------------------


def _schedule(found: Conflict, witness: Witness) -> list[Step]:
    """Return a schedule in which the two accesses are adjacent and in the opposite order, after everything that must
    come before one of them.  If there are atomics between the two for which the second warp may wait, keep the order of
    this run."""
    first, second = (step(found, witness, number) for number in (1, 2))
    pair = (found.first, found.second)
    warps = {side.access.warp for side in pair}
    if found.places.depends_on_races() or witness.asynchronous:
        return _as_run(found, witness, warps)
    before = witness.before(*((side.access.cta, side.access.warp, side.access.interval) for side in pair))
    flag = atomics_between(found, witness)
    if flag is not None:
        between = [_atomic(found, witness, n) for n in flag]
        return [*witness.steps(before, lambda _: False, {}), first, *between, second]
    if witness.count_in_order(before, [(side.access.cta, side.access.warp) for side in pair]) is None:
        return _as_run(found, witness, warps)  # recycled barriers need further operations before them
    if not found.same_cta:
        return [*witness.steps(before, lambda _: False, {}), second, first]
    accesses = {
        n: found.places.access_text(side.access.pc, side.access.address)
        for side in pair
        for n in witness.earlier(side.access, side.position)
    }
    return [*witness.steps(before, lambda event: event.warp in warps, accesses), second, first]


def _as_run(found: Conflict, witness: Witness, warps: set[int]) -> list[Step]:
    """Return a schedule with the two accesses in the order of this run, after everything before them."""
    one, two = found.first, found.second
    if one.position is None or two.position is None:
        return []
    names = {n: found.name_side(side) for n, side in ((one.position, one), (two.position, two))}
    return witness.as_run(one.position, two.position, names, lambda event: event.warp in warps)


def _atomic(found: Conflict, witness: Witness, position: int) -> Step:
    event = witness.events[position]
    what = found.places.access_text(event.pc, event.place)
    return witness.step(event, position, "atomic", what=what, when=witness.iteration(position))
