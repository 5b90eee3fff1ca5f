"""Methods that decide a launch without trying each order of its strong accesses."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, TypeVar

from wsemu.evidence.places import Places
from wsemu.launch.explore.accesses import ACCESSES, find_data, find_kinds, find_ordered, find_scopes, find_steering
from wsemu.launch.explore.arrays import copy_arrays, put_back
from wsemu.launch.explore.decided import Case, Decided
from wsemu.launch.explore.describe import Description, describe_missing_fence, group_by_fence
from wsemu.launch.explore.readings import find_idle
from wsemu.launch.explore.sessions import make_session
from wsemu.launch.explore.together import Together, together
from wsemu.model.finding import Finding
from wsemu.model.isa import HALVES_OF_VECTOR
from wsemu.model.residency import residency
from wsemu.proof.mixed_vectors import find_mixed_vectors
from wsemu.proof.numbered import find_numbered
from wsemu.proof.plain_accesses import make_stores
from wsemu.proof.threads import Shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.launch.explore.claims import Claims
    from wsemu.launch.explore.numbers import Numbers
    from wsemu.launch.explore.session import Session
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding

Proof = TypeVar("Proof", "Claims", "Numbers")
RACES = ("race", "intra-warp-race")
WHATEVER_IS_PUBLISHED = "whatever published values each CTA reads"


def decide_by_arrivals(
    bound: Bound, places: Places, known: dict[int, int], *, left: list[Any] | None
) -> Decided | None:
    """Return the result for a launch whose CTAs each arrive at one counter once: all orders end well, or None."""
    from wsemu.launch.explore.arrivals import Arrivals

    if (find_scopes(bound) and math.prod(bound.configuration.grid) > 1) or bound.program.asynchronous:
        return None  # copies need not be atomic with each other, and are not followed there
    logged = frozenset(find_kinds(bound, ACCESSES))
    ordered = find_ordered(bound, places, frozenset(find_kinds(bound, ("atomic",))))
    if find_mixed_vectors(bound.program, ordered):
        return None
    data = find_data(bound, places, ordered)
    initial = copy_arrays(bound)
    found = Arrivals(bound, ordered - data, logged, known, places.segment_of.get, data).decide()
    stays = initial if found is None else left if left is not None else found.end[0]
    put_back(bound, stays)
    if found is None:
        return None
    notes = () if found.results < 2 else (_describe_results(found.results),)
    told = [describe_missing_fence(places, pc, ask, at) for pc, (ask, at) in found.unfenced.items()]
    return Decided(proven=True, notes=notes, findings=group_by_fence(told), how="whichever CTA comes last")


def _describe_results(count: int) -> str:
    return f"what is left in arrays depends on which CTA comes last: {count:,} results are possible"


def judge_room(said: Decided | None, met: Together | None, bound: Bound, places: Places) -> Decided | None:
    """Return the decision for a launch whose CTAs wait for each other: a deadlock if they cannot all be co-resident."""
    if said is None or met is None or met.ctas == 1:
        return said
    needed = residency(bound.program, bound.configuration, met.ctas, "launch", bound.settings.sms)
    if needed.fits or met.waits is None:
        return said._replace(needed=needed)
    ask = met.waits
    element = places.element(ask.place[1], ask.pc)
    who = places.who(ask.cta, ask.warp)
    finding = Finding(
        code="deadlock",
        message=f"{who} waits for `{element}` to change: that takes a CTA that has no room to begin",
        sites=[places.site(ask.pc, f"{who} waits here for ever", cta=ask.cta, warp=ask.warp)],
        notes=[f"the launch {needed}, which wait for each other: {needed.occupancy_text(bound.configuration.arch)}"],
        help="launch fewer CTAs, smaller ones, or let none wait for one that begins after it",
        holds_in="some schedules",
    )
    return Decided(findings=(finding,), needed=needed)


def decide_thread_modularly(case: Case) -> Decided | None:
    """Decide by thread-modular analysis: prove that each CTA alone is correct, whatever it reads from others."""
    from wsemu.launch.explore.messages import Messages
    from wsemu.launch.explore.ways import Own

    bound, places, session, apart, begin = case
    if begin(Shared(), lockstep=False).by_clusters:
        return None
    own = functools.partial(Own, *begin.args, **begin.keywords, lockstep=bound.settings.lockstep)
    steering = functools.partial(find_steering, bound, places)
    messages = Messages(bound, session, own, apart, steering, begin.keywords["data"])
    if not messages.is_proven():
        return None
    notes = () if messages.one_result else ("what is left in arrays may depend on the order of atomics",)
    said = Decided(proven=True, notes=notes, how="for every value that a CTA can read from another")
    return judge_room(said, together(session), bound, places)


def decide_by_flags(case: Case) -> Decided | None:
    """Decide by flags: prove that each thread does the same whenever it observes its flag, or that an execution has a
    race."""
    from wsemu.launch.explore.flags import Flags

    bound, _, session, _, begin = case
    lockstep = bound.settings.lockstep
    if lockstep or bound.program.asynchronous or begin(Shared(), lockstep=False).by_clusters:
        return None
    flags = Flags(
        bound, session, functools.partial(begin, lockstep=False), begin.keywords["ordered"], begin.keywords["data"]
    )
    if flags.is_proven():
        notes: tuple[str, ...] = ()
        if len(flags.ends) > 1:
            notes = (_describe_results(len(flags.ends)),)
        said = Decided(proven=True, notes=notes, how="whenever each wait sees its flag")
        return judge_room(said, flags.met, bound, case.places)
    result = flags.find_race() if flags.raced else None
    if result is None:
        return None
    told = Description(bound, case.places, session, result, begin).decide()
    return told and told._replace(is_certain=flags.has_certain_race(result))


def decide_by_draws(
    bound: Bound, places: Places, options: dict[str, Any], idle: Callable[[RawFinding], bool]
) -> Decided | None:
    """Decide by drawn numbers: prove that each CTA alone is correct, whatever numbers it draws from a common counter.
    `options` are those of `Knowledge`."""
    from wsemu.launch.explore.draws import Draws, Window
    from wsemu.launch.explore.search import is_warning

    options = {**options, "cluster_of": int, "others": True, "lockstep": bound.settings.lockstep}
    alone = functools.partial(Window, bound.program, 1, math.prod(bound.configuration.block), **options)
    noted = {(raw.code, raw.pc) for raw in places.outcome.findings}

    def passes(raw: RawFinding) -> bool:
        return idle(raw) or (is_warning(raw) and (raw.code, raw.pc) in noted)

    logged = frozenset(find_kinds(bound, ACCESSES))
    draws = Draws(bound, options["ordered"], logged, copy_arrays(bound), alone, passes)
    if not draws.is_proven():
        return None
    notes = ("what is left in arrays may depend on the order of atomics",) if draws.uneven else ()
    return Decided(proven=True, notes=notes, how="whatever numbers each CTA draws")


def decide_by_windows(bound: Bound, places: Places) -> Decided | None:
    """Decide by windows: prove that each CTA does the same whatever published values its loads return."""
    from wsemu.launch.explore.defined_windows import reach_nothing
    from wsemu.launch.explore.windows import Windows, publishes

    ordered = find_ordered(bound, places, frozenset(find_kinds(bound, ("atomic",))))
    ordered -= find_numbered(bound.program)
    bound = bound._replace(program=make_stores(bound.program))
    code = bound.program.code
    whole = frozenset(pc for pc in ordered if not int(code[pc, 7]) & HALVES_OF_VECTOR)
    data = find_data(bound, places, ordered) & whole
    if not publishes(bound.program, ordered - data) or any(raw.code in RACES for raw in places.outcome.findings):
        return None
    session = make_session(bound, ordered - data, frozenset(find_kinds(bound, ACCESSES)))
    try:
        windows = Windows(bound, session, ordered - data, data, _find_passing(bound, places))
        proven = windows.is_proven()
    finally:
        session.close()
    if not proven:
        return None
    executed, loaded = frozenset(windows.plans.executed), frozenset(windows.loaded)
    decided = Decided(proven=True, how=WHATEVER_IS_PUBLISHED, besides=executed, loaded=loaded)
    if not executed & windows.plans.unwritten:
        return decided
    defined = reach_nothing(bound, windows, places.outcome)
    return decided._replace(besides=executed if defined else None, defined=defined)


def decide_by_claims(bound: Bound, places: Places) -> Decided | None:
    """Decide by claimed cells: prove that each thread is right whatever it finds in cells that others may claim."""
    from wsemu.launch.explore.claims import MOST_THREADS, Claims, claims_cells

    ordered = find_ordered(bound, places, frozenset(find_kinds(bound, ("atomic",))))
    if not _suits_single_threads(bound, places, MOST_THREADS) or not claims_cells(bound.program, ordered):
        return None
    claims = _prove(Claims, bound, places, ordered)
    if claims is None:
        return None
    notes = ("which thread claims which element, and so what is left in arrays, depends on the order of atomics",)
    return Decided(
        proven=True, notes=notes if claims.is_contested else (), how="whichever thread claims each element",
        besides=frozenset(claims.plans.executed),
    )  # fmt: skip


def decide_by_numbers(bound: Bound, places: Places) -> Decided | None:
    """Decide by numbers: prove that each thread is right whichever number it draws, and whatever others do to other
    bits of its words."""
    from wsemu.launch.explore.numbers import MOST_THREADS, Numbers, draws_bits

    atomics = frozenset(find_kinds(bound, ("atomic",)))
    if not _suits_single_threads(bound, places, MOST_THREADS) or not draws_bits(bound.program, atomics):
        return None
    numbers = _prove(Numbers, bound, places, atomics)
    if numbers is None:
        return None
    notes = ("which thread draws which number, and so what is left in arrays, depends on the order of atomics",)
    return Decided(
        proven=True, notes=notes if numbers.tracked else (), how="whichever number each thread draws",
        besides=frozenset(numbers.plans.executed),
    )  # fmt: skip


def _suits_single_threads(bound: Bound, places: Places, most: int) -> bool:
    """Return whether a launch of at most this many threads can be decided by following each thread alone."""
    threads = bound.configuration.ctas * math.prod(bound.configuration.block)
    alone = bound.group == (1, 1, 1) and not bound.program.asynchronous and bound.heap is None
    return alone and threads <= most and all(raw.code not in RACES for raw in places.outcome.findings)


def _prove(
    make: Callable[[Bound, Session, frozenset[int], Callable[[RawFinding], bool]], Proof],
    bound: Bound,
    places: Places,
    ordered: frozenset[int],
) -> Proof | None:
    """Return the proof of a method if it succeeds."""
    session = make_session(bound, ordered, frozenset(find_kinds(bound, ACCESSES)))
    try:
        proof = make(bound, session, ordered, _find_passing(bound, places))
        return proof if proof.is_proven() else None
    finally:
        session.close()


def _find_passing(bound: Bound, places: Places) -> Callable[[RawFinding], bool]:
    """Return a predicate that is true for a finding that is harmless, or already noted for the initial run."""
    from wsemu.launch.explore.search import is_warning

    idle = find_idle(bound, places.segment_of.get)
    noted = {(raw.code, raw.pc) for raw in places.outcome.findings}
    return lambda raw: idle(raw) or (is_warning(raw) and (raw.code, raw.pc) in noted)


def decide_by_counter_abstraction(case: Case) -> Decided | None:
    """Decide by counter abstraction: prove that CTAs that synchronize alike are correct, however many of them are at
    each position."""
    from wsemu.launch.explore.crowds import Crowds
    from wsemu.launch.explore.kin import Kin

    bound, places, session, apart, begin = case
    if begin(Shared(), lockstep=False).by_clusters:
        return None
    options = {**begin.keywords, "cluster_of": int, "others": True}
    one = functools.partial(Kin, begin.args[0], 1, begin.args[2], **options, lockstep=bound.settings.lockstep)
    if not Crowds(bound, session, one, apart, functools.partial(find_steering, bound, places)).is_proven():
        return None
    said = Decided(
        proven=True, notes=("what is left in arrays may depend on the order of atomics",),
        how="however many CTAs stand where",
    )  # fmt: skip
    return judge_room(said, together(session), bound, places)
