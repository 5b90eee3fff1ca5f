"""Advice against a race: the edit that a finding names."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from wsemu.checkers import by_lanes, words
from wsemu.checkers.conflict import VERBS, Conflict, Side
from wsemu.evidence.places import CALLS, lanes_text
from wsemu.model.isa import ATOMIC, FIELDS, LANES, NAMES, OPERATIONS, READ, WRITE
from wsemu.model.outcome import CTA_FENCE, FENCES
from wsemu.proof.idle import polls
from wsemu.proof.update import is_update

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.evidence.schedule import Access, Witness
    from wsemu.model.outcome import Event


PHASE_LANES_HELP = (
    "put `cuda.syncwarp()` before an arrive that one lane performs for its warp, and after a wait by one lane; or make "
    "all lanes arrive or wait"
)


def _plain_load_help(found: Conflict) -> str:
    """Return the help for a plain load that races with an atomic, or an empty text if no such load exists."""
    kinds = {found.first.kind, found.second.kind}
    if not found.atomic or kinds != {ATOMIC, READ}:
        return ""
    return "use the value that the atomic returns, or, if the order does not matter, load with an atomic that adds 0"


def polling(found: Conflict) -> Side | None:
    """Return the access that is a plain load in a loop that waits for the other's store; None if neither is."""
    places = found.places
    if {found.first.kind, found.second.kind} != {READ, WRITE} or found.asynchronous:
        return None
    side = found.first if found.first.kind == READ else found.second
    return side if places.verb(side.access.pc) == "load" and polls(places.program, side.access.pc) else None


_POLLING = (
    "wait with an atomic that adds 0 (in CUDA C++ also with a `volatile` or atomic load), store with an atomic, and "
    "put a `cuda.threadfence()` before that store and one after the loop"
)


def operation(places: Places, event: Event) -> str:
    """Return the barrier and the phase or generation of an event, as a text."""
    if event.kind == "arrive_on":
        return f"{words.quote_element(places, event.place, event.pc)} phase {event.generation}"
    return f"barrier {event.place} generation {event.generation}"


def between_ctas(found: Conflict) -> str:
    """Return the help that orders CTAs of one cluster, or of a cooperative grid; an empty text for CTAs of two
    clusters."""
    places, one, two = found.places, found.first.access, found.second.access
    if places.cluster_index(one.cta) != places.cluster_index(two.cta):
        return ""
    what = "barrier.cluster" if places.together == "cluster" else "grid.sync"
    sync = words.spell_instruction(places, one.pc, what)
    return f"add {sync} {places.after(one.pc, two.pc)}, where every thread of the {places.together} passes"


def race_help(found: Conflict, witness: Witness | None) -> str:
    places, one, two = found.places, found.first.access, found.second.access
    if flag := witness and _missing_fence_help(found, witness):
        return flag
    if polling(found):
        return _POLLING
    if found.narrow:
        near = places.together == "cluster" and places.cluster_index(one.cta) == places.cluster_index(two.cta)
        return f"give both a scope that includes the other's CTA: `{'.cluster' if near else '.gpu'}`"
    if not found.same_cta:
        if update := update_help(found):
            return update
        if _is_one_element(found):
            return _ONE_ELEMENT
        alone = "nothing orders different CTAs within a launch: use atomics, or a second launch"
        return between_ctas(found) or (_plain_load_help(found) or alone)
    if apart := witness and by_lanes.remedy(found, witness):
        return apart
    plain = found.first if found.second.kind == ATOMIC else found.second
    if found.first.kind == found.second.kind == ATOMIC:
        return f"make both access the same bytes, or put a barrier after the atomic on {places.near(one.pc, two.pc)}"
    if found.atomic:
        line = places.near(plain.access.pc, two.pc)
        what = "after" if plain is found.first else "before"
        barrier = f"put a barrier {what} the {VERBS[plain.kind]} on {line}; or "
        return barrier + (_plain_load_help(found) or "make it atomic, if the order does not matter")
    if one.pc == two.pc:
        return update_help(found) or _ONE_STORE
    if found.one_place or (found.one_text and found.exchange_sides().onward):
        if found.names_element:
            return f"several warps update `{found.text}`: use `cuda.atomic`, or do it in one warp only"
        return (
            f"if several warps update `{found.text}`, use `cuda.atomic`, or do it in one warp only; otherwise add "
            "`cuda.syncthreads()` between the two"
        )
    if update := update_help(found):
        return update
    if found.one_statement:
        return "keep the loaded value in a variable, add `cuda.syncthreads()` and store it after that"
    if found.first.kind == found.second.kind == WRITE and len(found.sizes) > 1:
        return _overlapping_help(found)
    right = intended_order(found, witness)
    if words.executed_instructions(places, "mbarrier.arrive"):
        return _phase_help(right, witness)
    if not has_partial_barriers(places) and found.apart:
        return _split_branches_help(found)
    if not has_partial_barriers(places):
        one, two = right.first.access, right.second.access
        return f"add `cuda.syncthreads()` {places.after(one.pc, two.pc)}, where every thread passes{right.again}"
    return _named_help(right, witness)


_ONE_ELEMENT = (
    "all CTAs store to the same elements: include `cuda.blockIdx` in the index, or store in one CTA only; otherwise "
    "use an atomic, or a second launch"
)

_ONE_STORE = "give each warp its own element, store in one warp only, or use an atomic"


def update_help(found: Conflict) -> str:
    """Return the help for threads that update one element by a load and a store; an empty text if they do not."""
    places, sides = found.places, (found.first, found.second)
    if found.asynchronous or len(found.sizes) > 1 or {side.kind for side in sides} not in ({READ, WRITE}, {WRITE}):
        return ""
    store = next(side.access.pc for side in sides if side.kind == WRITE)
    loads = [side.access.pc for side in sides if side.kind == READ] or _loads_of_element(places, store)
    load = next((pc for pc in loads if is_update(places.program, pc, store)), None)
    if load is None or any(side.kind == WRITE and side.access.pc != store for side in sides):
        return ""
    before, after = places.near(load, store), places.near(store, load)
    lines = f"{before} loads and stores" if before == after else f"{before} loads and {after} stores"
    alone = "warp" if found.same_cta else "CTA"
    return f"{lines} the same elements: use `cuda.atomic` to update them, or do it in one {alone} only"


def _loads_of_element(places: Places, store: int) -> list[int]:
    """Return a few loads whose address is in the same register as that of a store."""
    code, row, offset = places.program.code, FIELDS.index("a"), FIELDS.index("imm")
    same = (code[:, row] == code[store, row]) & (code[:, offset] == code[store, offset])
    loads = (int(pc) for pc in same.nonzero()[0] if OPERATIONS[NAMES[int(code[pc, 0])]].kind == "load")
    return [*itertools.islice(loads, _MAX_LOADS)]


_MAX_LOADS = 8
"""maximum number of loads that are checked for one store"""


def _overlapping_help(found: Conflict) -> str:
    """Return the remedy for stores of elements of different sizes: their arrays overlap in one buffer."""
    one, two = sorted((found.first, found.second), key=lambda side: found.places.size(side.access.pc))
    sizes = [found.places.size(side.access.pc) for side in (one, two)]
    lines = " and ".join(found.places.near(side.access.pc, other.access.pc) for side, other in ((one, two), (two, one)))
    return (
        f"let the {sizes[0]}-byte and the {sizes[1]}-byte elements that {lines} store have parts of the buffer that do "
        "not overlap: a barrier would only decide which of them remain"
    )


def _is_one_element(found: Conflict) -> bool:
    """Return whether the same warp of two CTAs stores to one location with one instruction, because no index
    distinguishes CTAs."""
    one, two = found.first.access, found.second.access
    alike = (one.pc, one.warp) == (two.pc, two.warp) and found.first.iteration == found.second.iteration
    return alike and found.hazard == "write-after-write" and not between_ctas(found)


def _missing_fence_help(found: Conflict, witness: Witness) -> str:
    """Return the help if the two warps communicate by an atomic in between, but without fences."""
    flag = atomics_between(found, witness)
    if found.hazard != "read-after-write" or flag is None:
        return ""
    raised, seen = (found.places.near(witness.events[n].pc, found.raw.pc) for n in flag)
    atomics = f"the atomics on {raised} and {seen} order" if raised != seen else f"the atomic on {raised} orders"
    before, after = ("the first", "the second") if raised != seen else ("it", "it")
    missing = _missing_fences(found, witness, flag)
    sides = [f"before {before}"] * missing[0] + [f"after {after}"] * missing[1]
    alone, too = (" with only one fence", ", too") if len(sides) == 1 else ("", "")
    return (
        f"{atomics} nothing else{alone}: put a `cuda.threadfence()` {' and '.join(sides)}{too}, "
        f"or use {'a named barrier' if found.same_cta else 'a second launch'}"
    )


def _missing_fences(found: Conflict, witness: Witness, flag: tuple[int, int]) -> tuple[bool, bool]:
    """Return whether a fence before the first of two atomics is missing, and whether a fence after the second is
    missing.  If both fences exist, they belong to other threads, and both count as missing."""
    enough = {kind for kind in FENCES if found.same_cta or kind != CTA_FENCE}

    def is_fenced(access: Access, first: int | None, last: int | None) -> bool:
        between = witness.events[first:last]
        mine = [e for e in between if e.kind in enough and (e.cta, e.warp) == (access.cta, access.warp)]
        return any(not e.lanes or e.lanes & access.lanes for e in mine)

    one, two = found.first, found.second
    lacks = not is_fenced(one.access, one.position, flag[0]), not is_fenced(two.access, flag[1], two.position)
    return lacks if any(lacks) else (True, True)


def atomics_between(found: Conflict, witness: Witness) -> tuple[int, int] | None:
    """Return two atomics between (1) and (2) through which the second warp may have waited for the first."""
    first, second = found.first, found.second
    return witness.flag(first.access, first.position, second.access, second.position)


def overwritten(found: Conflict, witness: Witness | None) -> bool:
    """Return whether (2) loads what an earlier execution of (1) stored for it, so that (1) stores the next value too
    early."""
    if witness is None or found.hazard != "read-after-write" or not found.same_cta or found.onward:
        return False
    one, two = found.first.access, found.second.access
    known = witness.clock_at(two.cta, two.warp, two.interval).get(one.warp, 0)
    before = (witness.events[n] for n in witness.earlier(one, found.first.position))
    return any(e.interval <= known and witness.reaches(e, one.address) for e in before)


def intended_order(found: Conflict, witness: Witness | None) -> Conflict:
    """Return the conflict with (1) and (2) in the intended order, which may differ from their order in this run."""
    turned = overwritten(found, witness) or _barrier_already_between(found) or _too_early(found)
    if found.backward and not _is_loop_carried(found, witness):  # iterations of an unrolled loop are not counted
        turned = turned or not _barrier_already_between(found.exchange_sides())
    return found.exchange_sides() if turned and found.same_cta else found


def _too_early(found: Conflict) -> bool:
    """Return whether (1) loads memory that nothing has written yet, so that (2) is meant to come first."""
    unwritten = {raw.pc for raw in found.places.outcome.findings if raw.code == "uninitialized-read"}
    return found.hazard == "write-after-read" and not found.share_a_loop and found.first.access.pc in unwritten


def _barrier_already_between(found: Conflict) -> bool:
    """Return whether a barrier already separates (1) and (2), so that the missing one is between (2) and the next
    (1)."""
    if not found.same_cta or found.one_statement or found.one_place:
        return False
    return found.barrier_on_every_path and not found.exchange_sides().barrier_on_every_path


def _is_loop_carried(found: Conflict, witness: Witness | None) -> bool:
    """Return whether both accesses are in a loop, and (2) belongs to a later iteration than (1)."""
    if witness is None or not found.share_a_loop:
        return found.share_a_loop
    done = [len(witness.earlier(side.access, side.position)) for side in (found.first, found.second)]
    return done[1] > done[0]


def has_partial_barriers(places: Places) -> bool:
    """Return whether a program has barriers for part of the CTA."""
    code, count = places.program.code, FIELDS.index("b")
    return any(places.verb(pc) == "barrier" and code[pc, count] for pc in range(len(code)))


def _split_branches_help(found: Conflict) -> str:
    """Return the help that splits an `if` with two branches into two, with a barrier between them."""
    places, (one, two) = found.places, sorted((s.access.pc for s in (found.first, found.second)), key=found.places.line)
    text = f"put {places.near(two, one)} into an `if` of its own after that of {places.near(one, two)}, and "
    return f"{text}`cuda.syncthreads()` between the two{_overlap_help(found)}"


def _overlap_help(found: Conflict) -> str:
    """Return a further help for accesses of different sizes, to follow another help."""
    sizes = found.sizes
    return (
        f"; or keep the {max(sizes)}-byte access away from the bytes that the other warp uses" if len(sizes) > 1 else ""
    )


def _named_help(found: Conflict, witness: Witness | None) -> str:
    """Return the help for a new synchronization edge by named barriers, or for moving the existing edge."""
    places, first, second = found.places, found.first, found.second
    one, two = first.access, second.access
    there = places.near(two.pc, one.pc)
    following = witness.next_barrier(one.cta, one.warp, one.interval) if witness else None
    taken = witness.matching_sync(following, two.warp) if witness and following else None
    last = witness.last_barrier(two.cta, two.warp, two.interval) if witness else None
    if following is not None and taken is not None:
        if _is_recycled(places, following.place):
            return f"mend the `barrier-recycling` of barrier {following.place} first: it decides who waits for whom"
        if _comes_later(places, taken.pc, two.pc):
            where = places.line_text(taken.pc, two.pc)
            return f"sync on barrier {following.place} before {there}, not only {'on ' * (where[0] != '`')}{where}"
        if last is not None and last.place != following.place:
            return (
                f"before {there}, {second.who} should sync on barrier {following.place}, not only on barrier "
                f"{last.place}; or one of the two accesses names the wrong buffer"
            )
        ahead = f"{second.who} is a generation of barrier {following.place} ahead"
        return (
            f"{ahead}: let it sync once more before {there}, "
            f"or let {first.who} arrive once less before {places.near(one.pc, two.pc)}"
        )
    if {first.role, second.role} == set(CALLS):
        return _pattern_calls_help(found)
    kind = {"write-after-read": "an empty-buffer", "read-after-write": "a full-buffer"}.get(found.hazard, "a")
    text = (
        f"{first.who}: arrive on {kind} barrier {places.after(one.pc, two.pc)}; {second.who}: sync on it before {there}"
    )
    if len(found.sizes) > 1:
        text += f"; or keep the {max(found.sizes)}-byte access away from the bytes that the other warp uses"
    return text


def _phase_help(found: Conflict, witness: Witness | None) -> str:
    """Return the help for a new synchronization edge by mbarriers, or for moving the existing edge."""
    places, first, second = found.places, found.first, found.second
    one, two = first.access, second.access
    there = places.near(two.pc, one.pc)
    following = witness.next_barrier(one.cta, one.warp, one.interval) if witness else None
    taken = witness.matching_sync(following, two.warp) if witness and following else None
    if following is not None and taken is not None and _comes_later(places, taken.pc, two.pc):
        where = places.line_text(taken.pc, two.pc)
        return f"wait for {operation(places, following)} before {there}, not only {'on ' * (where[0] != '`')}{where}"
    kind = {"write-after-read": "an empty-buffer", "read-after-write": "a full-buffer"}.get(found.hazard, "an")
    return (
        f"{first.who}: arrive on {kind} mbarrier {places.after(one.pc, two.pc)}; {second.who}: wait for its phase "
        f"before {there}; or `cuda.syncthreads()` between the two, where every thread passes"
    )


def _is_recycled(places: Places, barrier: int) -> bool:
    """Return whether generations of a barrier overlap, so that the schedule decides for which one a warp waits."""
    found = (raw for raw in places.outcome.findings if raw.code == "barrier-recycling")
    return any(raw.detail["barrier"] == barrier for raw in found)


def phase_lanes_help(found: Conflict, witness: Witness | None) -> str:
    """Return the help that lets one lane arrive, or wait, for its whole warp."""
    places, (one, two) = found.places, (found.first.access, found.second.access)
    gives = witness.next_barrier(one.cta, one.warp, one.interval) if witness else None
    if gives is not None and gives.kind == "arrive_on" and not gives.lanes & _accessing_lanes(found, 1):
        line = places.near(gives.pc, two.pc)
        return (
            f"add {rendezvous_text(places, 'perform (1)')} before {line}, where {lanes_text(gives.lanes)} of "
            f"{found.first.who} arrives for the warp"
        )
    takes = witness.last_barrier(two.cta, two.warp, two.interval) if witness else None
    if takes is not None and takes.kind == "await" and not takes.lanes & _accessing_lanes(found, 2):
        line = places.near(takes.pc, one.pc)
        who = f"{lanes_text(takes.lanes)} of {found.second.who}"
        barrier = rendezvous_text(places, "perform (2)")
        return f"add {barrier} after {line}, where {who} waits for all, or let each lane wait"
    return PHASE_LANES_HELP


def rendezvous_text(places: Places, do: str) -> str:
    """Return the barrier that makes lanes wait for each other, and for lanes of other warps if the CTA has more
    warps."""
    x, y, z = places.block
    others = f", or `cuda.syncthreads()` if other warps {do} as well," if x * y * z > LANES else ""
    return f"`cuda.syncwarp()`{others}"


def _accessing_lanes(found: Conflict, number: int) -> int:
    """Return the lanes that performed (1) or (2), as far as the finding records them."""
    raw = found.raw
    if number == 2:
        return raw.lanes
    return (2 << raw.detail["other_last"]) - (1 << raw.detail["other_lane"])


def _comes_later(places: Places, pc: int, other: int) -> bool:
    """Return whether an instruction comes after another one: by lines, or by program order if both are on one line."""
    line, beside = places.line(pc), places.line(other)
    return line > beside or (line == beside and pc > other)


def _pattern_calls_help(found: Conflict) -> str:
    """Return the calls of transfer patterns that would order the two accesses, if they are missing or too early."""
    places, one, two = found.places, found.first.access.pc, found.second.access.pc
    gives, waits = CALLS[found.first.role]
    made = places.calls()
    give = f"{found.first.who}: `{gives}()` {places.after(one, two)}"
    wait = f"{found.second.who}: `{waits}()` before {places.near(two, one)}"
    if gives not in made:
        return give if waits in made else f"{give}; {wait}"
    if waits not in made:
        return wait
    early = [pc for pc in made[gives] if not _comes_later(places, pc, one)]
    late = [pc for pc in made[waits] if _comes_later(places, pc, two)]
    if early:
        give += f", not before it {_line_or_call(places, early[-1], one)}"
    if late:
        wait += f", not after it {_line_or_call(places, late[0], two)}"
    return give if early and not late else wait if late and not early else f"{give}; {wait}"


def _line_or_call(places: Places, pc: int, other: int) -> str:
    """Return `on line 24`, or the name of the call, as in `as `start_async_dma()``, if several calls are on one
    line."""
    where = places.near(pc, other)
    return f"on {where}" if where != f"line {places.line(other)}" else "on that line"
