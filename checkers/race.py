"""`race`: conflicting accesses of two warps, or of two CTAs, that nothing orders.

Detects: byte by byte, two accesses that overlap, at least one of them a write and not both atomic, each with the other
in its scope, neither of which happens before the other: by program order, by named barriers (an arrive or sync of a
generation happens before what follows each sync of it, B13), by mbarriers and groups of copies, by atomics and fences.
An asynchronous copy is an actor of its own, also against the warp that issued it: it begins when it is issued, and has
ended for who has waited for it.  Different CTAs meet in global memory only, and no barrier orders them, but for those
of a cluster and of a grid that is launched cooperatively.
Does not detect: a conflict with an access that a later one of the same warp has replaced in the shadow memory (that
later one is reported instead); accesses that another result of an atomic would have led to (the launch is then
`incomplete`).
Reference: Flanagan, Freund, "FastTrack: Efficient and Precise Dynamic Race Detection" (PLDI 2009); Sharma, Bauer,
Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI 2015), section 3.  The compiled test
is `shadow.touch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import by_lanes, words
from wsemu.checkers.conflict import ACCESSES, ASYNCHRONOUS, LANES_APART, VERBS, Conflict, conflict, lane_range, step
from wsemu.evidence.places import CALLS, lanes_text
from wsemu.evidence.schedule import Witness, around, numbered, reading
from wsemu.model.finding import Finding
from wsemu.model.isa import ATOMIC, FIELDS, LANES, READ, WRITE
from wsemu.model.outcome import Detail

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.evidence.schedule import Witness
    from wsemu.model.finding import Step
    from wsemu.model.outcome import Event, RawFinding, Trace

CODES = ("race",)
DETAIL = {
    "race": Detail(
        ACCESSES,
        {
            **LANES_APART,
            **ASYNCHRONOUS,
            "unwritten": "1: nothing had been stored there when the earlier access read it",
        },
    )
}
"""`count` is the number of warp accesses that met this other instruction; the earlier access has lanes where a part of
a warp had met a barrier, so that lanes know of each other one by one"""
TRACED = True


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """The finding of two unordered accesses; a trace adds iterations, the missing edge and a schedule."""
    witness = None if trace is None else reading(places, trace, around(places, raw.cta, raw.detail["other_cta"]))
    found = conflict(raw, places, witness)
    if found.asynchronous:
        return _of_copies(found, witness)
    if "other_lane" in raw.detail and found.same_cta:
        return _of_lanes(found, witness)
    if witness is not None and not witness.complete and None in (found.first.position, found.second.position):
        witness = None  # the trace ends before that
    where = ["" if found.same_cta else f" of CTA {places.cta(side.access.cta)}" for side in (found.first, found.second)]
    notes = [f"{found.overlap()}; nothing orders (1) before (2)"]
    steps = _schedule(found, witness) if witness is not None else []
    if witness is not None and found.same_cta:
        notes += _missing_edge(found, witness)
    if found.narrow:
        notes.append(
            "an atomic of `.cta` scope is atomic with those of its own CTA alone, of `.cluster` with its cluster's"
        )
    if "unwritten" in raw.detail:
        notes.append("nothing had been stored there when (1) loaded it: it holds arbitrary values until then")
    if _overwritten(found, witness):
        notes.append(f"(1) may overwrite what {found.second.who} should load, which an earlier execution of (1) stored")
    return Finding(
        code=raw.code,
        message=_meant(found, witness).title(),
        sites=found.sites(found.first.who + where[0], found.second.who + where[1]),
        notes=notes,
        help=_help(found, witness),
        count=raw.count,
        schedule=numbered(steps),
        schedule_steps=len(steps),
        steps=steps,
    )


def _of_lanes(found: Conflict, witness: Witness | None) -> Finding:
    """The finding where a part of a warp has met a barrier: a barrier between the two may well order other lanes."""
    raw, places, first, second = found.raw, found.places, found.first, found.second
    one, two = lane_range(raw.detail["other_lane"], raw.detail["other_last"]), lanes_text(raw.lanes)
    ordered = (
        witness is not None
        and witness.known(second.access.cta, second.access.warp, second.access.interval).get(first.access.warp, 0)
        >= first.access.interval
    )
    warps = {side.access.warp for side in (first, second)}
    steps = [] if witness is None else _as_run(found, witness, warps)
    return Finding(
        code=raw.code,
        message=found.title(),
        sites=found.sites(f"{one} of {first.who}", f"{two} of {second.who}"),
        notes=[
            f"{found.overlap()}; nothing orders (1) before (2)",
            *(
                _missing_edge(found, witness)
                if witness is not None and witness.asynchronous and not ordered
                else [_PHASE_LANES if places.asynchronous() else _BARRIER_LANES]
            ),
        ],
        help=_phase_lanes_help(found, witness) if ordered and places.asynchronous() else _help(found, witness),
        count=raw.count,
        schedule=numbered(steps),
        schedule_steps=len(steps),
        steps=steps,
    )


def _of_copies(found: Conflict, witness: Witness | None) -> Finding:
    """The finding where an asynchronous copy makes one of the accesses, or both."""
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
        sites=found.sites(_lanes_of(found, 1), _lanes_of(found, 2)),
        notes=[f"the first byte in common is at `{found.element}`; nothing orders (1) before (2)", _landing(found)],
        help=_wait_help(found),
        count=raw.count,
        schedule=numbered(steps),
        schedule_steps=len(steps),
        steps=steps,
    )


def _lanes_of(found: Conflict, number: int) -> str:
    """`warp 3, lane 0`: whose access it is, and who issued it."""
    raw, side = found.raw, found.first if number == 1 else found.second
    where = "" if found.same_cta else f" of CTA {found.places.cta(side.access.cta)}"
    if number == 2:
        lanes = lanes_text(raw.lanes)
    else:
        lanes = lane_range(raw.detail["other_lane"], raw.detail["other_last"]) if "other_lane" in raw.detail else ""
    return f"{side.who}{where}{', ' * bool(lanes)}{lanes}"


def _landing(found: Conflict) -> str:
    """When the copies of a race begin, or end."""
    places, side = found.places, found.first if found.first.copies else found.second
    kind, noun = words.operation(places, side.access.pc), words.noun(places, side.access.pc)
    if side is found.second:
        return f"the {noun} may access memory from its issue on, whatever its warp does then"
    if kind in words.LOADS:
        return f"the {noun} is over for who has seen its mbarrier's phase complete, and who follows that"
    if kind == "cp.async":
        return (
            f"the {noun} is over for its thread after a wait for its group, for others behind a barrier after that; or "
            "for who has seen the phase complete in which it arrives"
        )
    if side.kind == READ:
        return f"the {noun} has read its source when its thread has waited for its group, for reads alone or in full"
    return f"the {noun} is over when its thread has waited for its group in full: a wait for reads alone is not enough"


def _wait_help(found: Conflict) -> str:
    """What would order the two: a wait for the copy (1), or one of the issuer of (2)."""
    raw, places, (one, two) = found.raw, found.places, (found.first.access, found.second.access)
    there = places.near(two.pc, one.pc)
    if not found.same_cta and not _between_ctas(found):
        return "different CTAs are ordered by nothing within a launch: use a second launch"
    if not found.first.copies:
        who, issuer = found.first.who, found.second.who
        if (one.warp, found.second.copies) == (two.warp, True):
            return f"let all lanes that make (1) be done before the issue on {there}: {_meeting(places, 'make (1)')}"
        return (
            f"let {who} arrive on an mbarrier (empty) or a barrier {places.after(one.pc, two.pc)}, and {issuer} wait "
            f"for it before {there}"
        )
    kind = words.operation(places, one.pc)
    if kind in words.LOADS:
        wait = words.spelled(places, one.pc, "mbarrier.try_wait.parity")
        return f"wait for the phase of its mbarrier ({wait}) before {there}, in {_reader(found)}"
    bulk = kind.startswith(words.BULK)
    reads = bulk and found.first.kind == READ
    family = "wgmma" if kind == "wgmma" else "cp.async.bulk" if bulk else "cp.async"
    group = f"{family}.wait_group{'.read' * reads}"
    wait = words.spelled(places, one.pc, group, "0")
    lanes = raw.detail.get("other_lane", -1), raw.detail.get("other_last", 31)
    alone = one.warp == two.warp and raw.lanes == 1 << max(lanes[0], 0) and lanes[0] == lanes[1]
    barrier = "" if alone else f", then a barrier that {found.second.who} passes before {there}"
    before = f" before {there}" if alone else ""
    program, commits = places.program, f"{'bulk' if bulk else 'cp.async'}.commit"
    several = sum(words.operation(places, pc) == commits for pc in range(len(program.code))) > 1
    some = words.spelled(places, one.pc, group, "n")
    others = f", or {some} where n groups committed later may stay under way" if several and "(n)" in some else ""
    return f"{wait} in the thread that issued (1){before}{others}{barrier}; a group counts once it is committed"


def _reader(found: Conflict) -> str:
    """Who has to wait for a copy: who makes (2), or issues it."""
    return "the thread that issues (2)" if found.second.copies else "the threads that make (2)"


_BARRIER_LANES = "a barrier orders the accesses of the lanes that execute it, and of others that these know of (B14)"
_PHASE_LANES = "an arrive gives what its own lane did and knows, and a wait tells its own lane alone"
_PHASE_LANES_HELP = (
    "put `cuda.syncwarp()` before an arrive by one lane that stands for its warp, and after a wait by one lane; or let "
    "all lanes arrive, or wait"
)


def rank(raw: RawFinding, places: Places, trace: Trace | None) -> int:
    """First what is reported as a read before its write: that is to be mended before a write before its read."""
    witness = None if trace is None else reading(places, trace, around(places, raw.cta, raw.detail["other_cta"]))
    found = conflict(raw, places, witness)
    right = found if found.asynchronous else _meant(found, witness)
    return 0 if right.hazard == "read-after-write" else 1


# -- what is missing --------------------------------------------------------------------------------------------------


def _missing_edge(found: Conflict, witness: Witness) -> list[str]:
    """What (1)'s warp gave last and gives next, and when (2)'s warp takes it."""
    places, first, second = found.places, found.first, found.second
    one, two = first.access, second.access
    given = witness.known(two.cta, two.warp, two.interval).get(one.warp, 0)
    last, following = witness.after(one.cta, one.warp, given), witness.next_barrier(one.cta, one.warp, one.interval)
    before = witness.last_barrier(two.cta, two.warp, two.interval)
    if not last and not following and not before and witness.complete:
        return [f"no barrier lies between them: {first.who} meets none after (1), {second.who} none before (2)"]
    notes = []
    if last is not None:
        notes.append(f"last edge {first.who} -> {second.who}: {_edge(places, witness, last, two.warp)}, before (1)")
    elif not given:
        notes.append(_no_return(found, witness))
    if following is not None:
        notes.append(_too_late(found, witness, following))
    elif witness.complete:
        notes.append(f"{first.who} meets no barrier after (1)")
    return notes


def _no_return(found: Conflict, witness: Witness) -> str:
    """Nothing leads from (1)'s warp to (2)'s warp; perhaps something leads the other way."""
    first, second = found.first, found.second
    one, two = first.access, second.access
    given = witness.known(one.cta, one.warp, one.interval).get(two.warp, 0)
    back = witness.after(two.cta, two.warp, given)
    if back is None:
        return f"no edge leads from {first.who} to {second.who} before (2)"
    return f"last edge {second.who} -> {first.who}: {_edge(found.places, witness, back, one.warp)}; none returns"


def _edge(places: Places, witness: Witness, given: Event, warp: int) -> str:
    """`barrier 2 generation 0 (line 32 -> 23)`: where an operation gave, and where a warp took it."""
    taken = witness.sync_of(given, warp)
    line = f"line {places.line(given.pc)}" + (f" -> {places.line(taken.pc)}" if taken else ", through other warps")
    return f"{_operation(places, given)} ({line})"


def _too_late(found: Conflict, witness: Witness, following: Event) -> str:
    """The next thing that (1)'s warp gives after (1), and that it comes too late for (2)."""
    places, second = found.places, found.second
    gives = "syncs on" if following.kind == "sync" else "arrives on"
    waits = "wait" if following.kind == "arrive_on" else "sync"
    text = f"after (1), {found.first.who} {gives} {_operation(places, following)} (line {places.line(following.pc)})"
    taken = witness.sync_of(following, second.access.warp)
    if taken is None:
        return f"{text}, on which {second.who} does not {waits}"
    return f"{text}, on which {second.who} {waits}s only after (2) (line {places.line(taken.pc)})"


def _operation(places: Places, event: Event) -> str:
    if event.kind == "arrive_on":
        return f"{words.named(places, event.place, event.pc)} phase {event.generation}"
    return f"barrier {event.place} generation {event.generation}"


# -- what to do about it ----------------------------------------------------------------------------------------------


def _between_ctas(found: Conflict) -> str:
    """What orders CTAs of one cluster, or of a grid that meets; nothing where they are of two clusters."""
    places, one, two = found.places, found.first.access, found.second.access
    if places.cluster_of(one.cta) != places.cluster_of(two.cta):
        return ""
    what = "barrier.cluster" if places.together == "cluster" else "grid.sync"
    sync = words.spelled(places, one.pc, what)
    return f"add {sync} {places.after(one.pc, two.pc)}, where every thread of the {places.together} passes"


def _help(found: Conflict, witness: Witness | None) -> str:
    places, one, two = found.places, found.first.access, found.second.access
    if flag := witness and _flag(found, witness):
        return flag
    if found.narrow:
        near = places.together == "cluster" and places.cluster_of(one.cta) == places.cluster_of(two.cta)
        return f"give both a scope that takes in the other's CTA: `{'.cluster' if near else '.gpu'}`"
    if not found.same_cta:
        alone = "different CTAs are ordered by nothing within a launch: use atomics, or a second launch"
        return _between_ctas(found) or alone
    if apart := witness and by_lanes.remedy(found, witness):
        return apart
    plain = found.first if found.second.kind == ATOMIC else found.second
    if found.first.kind == found.second.kind == ATOMIC:
        return f"let both cover the same bytes, or put a barrier after the atomic on {places.near(one.pc, two.pc)}"
    if found.atomic:
        line = places.near(plain.access.pc, two.pc)
        what = "after" if plain is found.first else "before"
        return f"put a barrier {what} the {VERBS[plain.kind]} on {line}; or make it atomic, where any order will do"
    if one.pc == two.pc:
        return "give each warp its own element, let one warp alone store, or use an atomic"
    if found.one_place or (found.one_text and found.swapped().onward):
        return f"several warps update `{found.text}`: use `cuda.atomic`, or let one warp alone do it"
    if found.one_statement:
        return "keep the loaded value in a variable, add `cuda.syncthreads()` and store it after that"
    right = _meant(found, witness)
    if words.executed(places, "mbarrier.arrive"):
        return _phase_help(right, witness)
    if not named(places) and found.apart:
        return _behind_each_other(found)
    if not named(places):
        one, two = right.first.access, right.second.access
        return f"add `cuda.syncthreads()` {places.after(one.pc, two.pc)}, where every thread passes{right.again}"
    return _named_help(right, witness)


def _flag(found: Conflict, witness: Witness) -> str:
    """The two warps meet at an atomic in between, but without fences."""
    flag = _between(found, witness)
    if found.hazard != "read-after-write" or flag is None:
        return ""
    raised, seen = (found.places.near(witness.events[n].pc, found.raw.pc) for n in flag)
    atomics = f"the atomics on {raised} and {seen} order" if raised != seen else f"the atomic on {raised} orders"
    before, after = ("the first", "the second") if raised != seen else ("it", "it")
    return (
        f"{atomics} nothing else: put a `cuda.threadfence()` before {before} and "
        f"after {after}, or use {'a named barrier' if found.same_cta else 'a second launch'}"
    )


def _between(found: Conflict, witness: Witness) -> tuple[int, int] | None:
    """Two atomics, after (1) and before (2), by which the second warp may have waited for the first."""
    first, second = found.first, found.second
    return witness.flag(first.access, first.position, second.access, second.position)


def _overwritten(found: Conflict, witness: Witness | None) -> bool:
    """(2) loads what an earlier execution of (1) has stored for it, and (1) stores the next value too early."""
    if witness is None or found.hazard != "read-after-write" or not found.same_cta or found.onward:
        return False
    one, two = found.first.access, found.second.access
    known = witness.known(two.cta, two.warp, two.interval).get(one.warp, 0)
    before = (witness.events[n] for n in witness.earlier(one, found.first.position))
    return any(e.interval <= known and witness.reaches(e, one.address) for e in before)


def _meant(found: Conflict, witness: Witness | None) -> Conflict:
    """The two in the order in which they are meant, where that is not how they came."""
    turned = _overwritten(found, witness) or _passed(found) or _too_early(found)
    turned = turned or (found.backward and not _carried(found, witness))
    return found.swapped() if turned and found.same_cta else found


def _too_early(found: Conflict) -> bool:
    """(1) loads what nothing has written yet: (2) is to store it."""
    unwritten = {raw.pc for raw in found.places.outcome.findings if raw.code == "uninitialized-read"}
    return found.hazard == "write-after-read" and not found.in_loop and found.first.access.pc in unwritten


def _passed(found: Conflict) -> bool:
    """A barrier stands between (1) and (2) already: the one that is missing stands between (2) and (1)."""
    if not found.same_cta or found.one_statement or found.one_place:
        return False
    return found.parted and not found.swapped().parted


def _carried(found: Conflict, witness: Witness | None) -> bool:
    """A loop around both leads from (1) to (2), which is in a later iteration of it."""
    if witness is None or not found.in_loop:
        return found.in_loop
    done = [len(witness.earlier(side.access, side.position)) for side in (found.first, found.second)]
    return done[1] > done[0]


def named(places: Places) -> bool:
    """Whether a program has barriers that count a part of the CTA."""
    code, count = places.program.code, FIELDS.index("b")
    return any(places.verb(pc) == "barrier" and code[pc, count] for pc in range(len(code)))


def _behind_each_other(found: Conflict) -> str:
    """Two branches of one `if`, made into two with a barrier between them."""
    places, (one, two) = found.places, sorted((s.access.pc for s in (found.first, found.second)), key=found.places.line)
    text = f"put {places.near(two, one)} into an `if` of its own behind that of {places.near(one, two)}, and "
    return f"{text}`cuda.syncthreads()` between the two{_narrower(found)}"


def _narrower(found: Conflict) -> str:
    sizes = found.sizes
    return f"; or keep the {max(sizes)}-byte access off what the other warp uses" if len(sizes) > 1 else ""


def _named_help(found: Conflict, witness: Witness | None) -> str:
    """An edge by named barriers; or the one that exists, moved."""
    places, first, second = found.places, found.first, found.second
    one, two = first.access, second.access
    there = places.near(two.pc, one.pc)
    following = witness.next_barrier(one.cta, one.warp, one.interval) if witness else None
    taken = witness.sync_of(following, two.warp) if witness and following else None
    last = witness.last_barrier(two.cta, two.warp, two.interval) if witness else None
    if following is not None and taken is not None:
        if _is_behind(places, taken.pc, two.pc):
            where = places.named(taken.pc, two.pc)
            return f"sync on barrier {following.place} before {there}, not only {'on ' * (where[0] != '`')}{where}"
        if last is not None and last.place != following.place:
            return (
                f"before {there}, {second.who} should sync on barrier {following.place}, not only on barrier "
                f"{last.place}; or one of the two accesses names the wrong buffer"
            )
        ahead = f"{second.who} is a generation of barrier {following.place} ahead"
        if _is_recycled(places, following.place):
            return f"{ahead}: mend its `barrier-recycling` first"
        return (
            f"{ahead}: let it sync once more before {there}, "
            f"or let {first.who} arrive once less before {places.near(one.pc, two.pc)}"
        )
    if {first.role, second.role} == set(CALLS):
        return _by_calls(found)
    kind = {"write-after-read": "an empty-buffer", "read-after-write": "a full-buffer"}.get(found.hazard, "a")
    text = (
        f"{first.who}: arrive on {kind} barrier {places.after(one.pc, two.pc)}; {second.who}: sync on it before {there}"
    )
    if len(found.sizes) > 1:
        text += f"; or keep the {max(found.sizes)}-byte access off what the other warp uses"
    return text


def _phase_help(found: Conflict, witness: Witness | None) -> str:
    """An edge by mbarriers; or the one that exists, moved."""
    places, first, second = found.places, found.first, found.second
    one, two = first.access, second.access
    there = places.near(two.pc, one.pc)
    following = witness.next_barrier(one.cta, one.warp, one.interval) if witness else None
    taken = witness.sync_of(following, two.warp) if witness and following else None
    if following is not None and taken is not None and _is_behind(places, taken.pc, two.pc):
        where = places.named(taken.pc, two.pc)
        return f"wait for {_operation(places, following)} before {there}, not only {'on ' * (where[0] != '`')}{where}"
    kind = {"write-after-read": "an empty-buffer", "read-after-write": "a full-buffer"}.get(found.hazard, "an")
    return (
        f"{first.who}: arrive on {kind} mbarrier {places.after(one.pc, two.pc)}; {second.who}: wait for its phase "
        f"before {there}; or `cuda.syncthreads()` between the two, where every thread passes"
    )


def _is_recycled(places: Places, barrier: int) -> bool:
    """Whether generations of a barrier run into each other: which one a warp waits for is up to the schedule then."""
    found = (raw for raw in places.outcome.findings if raw.code == "barrier-recycling")
    return any(raw.detail["barrier"] == barrier for raw in found)


def _phase_lanes_help(found: Conflict, witness: Witness | None) -> str:
    """What lets one lane arrive, or wait, for all of its warp."""
    places, (one, two) = found.places, (found.first.access, found.second.access)
    gives = witness.next_barrier(one.cta, one.warp, one.interval) if witness else None
    if gives is not None and gives.kind == "arrive_on" and not gives.lanes & _made_by(found, 1):
        line = places.near(gives.pc, two.pc)
        return (
            f"add {_meeting(places, 'make (1)')} before {line}, where {lanes_text(gives.lanes)} of {found.first.who} "
            "arrives for it"
        )
    takes = witness.last_barrier(two.cta, two.warp, two.interval) if witness else None
    if takes is not None and takes.kind == "await" and not takes.lanes & _made_by(found, 2):
        line = places.near(takes.pc, one.pc)
        who = f"{lanes_text(takes.lanes)} of {found.second.who}"
        return f"add {_meeting(places, 'make (2)')} behind {line}, where {who} waits for all, or let each lane wait"
    return _PHASE_LANES_HELP


def _meeting(places: Places, do: str) -> str:
    """What lets lanes wait for each other: those of other warps, too, where a CTA has some."""
    x, y, z = places.block
    others = f", or `cuda.syncthreads()` where other warps {do}, too," if x * y * z > LANES else ""
    return f"`cuda.syncwarp()`{others}"


def _made_by(found: Conflict, number: int) -> int:
    """The lanes that made (1) or (2), as far as the finding has them."""
    raw = found.raw
    if number == 2:
        return raw.lanes
    return (2 << raw.detail["other_last"]) - (1 << raw.detail["other_lane"])


def _is_behind(places: Places, pc: int, other: int) -> bool:
    """Whether an instruction stands behind another one: by lines, or on one line in the order of the program."""
    line, beside = places.line(pc), places.line(other)
    return line > beside or (line == beside and pc > other)


def _by_calls(found: Conflict) -> str:
    """The calls of transfer patterns that would order the two: those that are missing, or come too early."""
    places, one, two = found.places, found.first.access.pc, found.second.access.pc
    gives, waits = CALLS[found.first.role]
    made = places.calls()
    give = f"{found.first.who}: `{gives}()` {places.after(one, two)}"
    wait = f"{found.second.who}: `{waits}()` before {places.near(two, one)}"
    if gives not in made:
        return give if waits in made else f"{give}; {wait}"
    if waits not in made:
        return wait
    early = [pc for pc in made[gives] if not _is_behind(places, pc, one)]
    late = [pc for pc in made[waits] if _is_behind(places, pc, two)]
    if early:
        give += f", not before it {_on(places, early[-1], one)}"
    if late:
        wait += f", not behind it {_on(places, late[0], two)}"
    return give if early and not late else wait if late and not early else f"{give}; {wait}"


def _on(places: Places, pc: int, other: int) -> str:
    """`on line 24`, or on one line `as `start_async_dma()``."""
    where = places.near(pc, other)
    return f"on {where}" if where != f"line {places.line(other)}" else "on that line"


# -- a schedule that shows it -----------------------------------------------------------------------------------------


def _schedule(found: Conflict, witness: Witness) -> list[Step]:
    """The two accesses next to each other and in the other order, after all that must come before one of them.  Where
    atomics lie between them, which the second warp may wait for, they stay in the order of this run."""
    first, second = (step(found, witness, number) for number in (1, 2))
    pair = (found.first, found.second)
    warps = {side.access.warp for side in pair}
    if found.places.steered() or witness.asynchronous:
        return _as_run(found, witness, warps)
    before = witness.before(*((side.access.cta, side.access.warp, side.access.interval) for side in pair))
    flag = _between(found, witness)
    if flag is not None:
        between = [_atomic(found, witness, n) for n in flag]
        return [*witness.steps(before, lambda _: False, {}), first, *between, second]
    if witness.counted(before, [(side.access.cta, side.access.warp) for side in pair]) is None:
        return _as_run(found, witness, warps)  # recycled barriers: others must come before them too
    if not found.same_cta:
        return [*witness.steps(before, lambda _: False, {}), second, first]
    accesses = {
        n: found.places.accessed(side.access.pc, side.access.address)
        for side in pair
        for n in witness.earlier(side.access, side.position)
    }
    return [*witness.steps(before, lambda event: event.warp in warps, accesses), second, first]


def _as_run(found: Conflict, witness: Witness, warps: set[int]) -> list[Step]:
    """The two accesses in the order of this run, after all that was before them."""
    one, two = found.first, found.second
    if one.position is None or two.position is None:
        return []
    names = {
        n: found.places.accessed(side.access.pc, side.access.address)
        for n, side in ((one.position, one), (two.position, two))
    }
    return witness.as_run(one.position, two.position, names, lambda event: event.warp in warps)


def _atomic(found: Conflict, witness: Witness, position: int) -> Step:
    event = witness.events[position]
    what = found.places.accessed(event.pc, event.place)
    return witness.step(event, position, "atomic", what=what, when=witness.iteration(position))
