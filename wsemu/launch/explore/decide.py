"""Whether a launch that atomics steer can be decided by trying all their orders, and what that says."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wsemu.checkers import registry
from wsemu.evidence.places import Places
from wsemu.evidence.readings import numbered
from wsemu.launch.explore.nodes import Reached, Result
from wsemu.launch.explore.polls import Polls, polled
from wsemu.launch.explore.replays import DiffersError, Replays, followed
from wsemu.launch.explore.samples import DEPTH
from wsemu.launch.explore.search import Search, is_warning
from wsemu.launch.explore.session import Ask, Session
from wsemu.launch.explore.sessions import make_session
from wsemu.launch.explore.threads_apart import Whole, few, make_threads, suits
from wsemu.launch.explore.together import Together, together
from wsemu.model.codes import CHECKER_OF, CODES
from wsemu.model.control_flow import successors
from wsemu.model.data import NamedTuple, replace
from wsemu.model.finding import Finding, Residency, Step
from wsemu.model.grid import Grouping
from wsemu.model.isa import (
    ATOMICS,
    FIRST_ARRAY,
    LANES,
    LOOSE,
    NAMES,
    NO_STORE,
    OPCODE,
    OPERATIONS,
    READ,
    SCOPES,
    SEGMENT_SHIFT,
    UNWATCHED,
    step_word,
)
from wsemu.model.outcome import Outcome, RawFinding, Trace
from wsemu.model.residency import residency
from wsemu.proof import taint
from wsemu.proof.affine import Geometry
from wsemu.proof.contents import Contents
from wsemu.proof.happens_before import uncounted_barriers
from wsemu.proof.missing import Lenient, is_fresh, missing
from wsemu.proof.names import Named, named
from wsemu.proof.threads import Excused, Knowledge, Made, Race, Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.model.bound import Bound

MOST_CTAS, MOST_THREADS = 64, 2048
"""of a launch whose orders are tried: all are alive at once"""
LANES_PER_UNIT = 256
"""lanes that wait before ordered accesses at first, which double the time that a step takes"""
FEW_STEPS = 400
"""of a search before CTAs are counted: it says more of what is left in arrays"""
_ACCESSES = ("load", "store", "atomic")
_SEEN = (
    "make (2) only when an atomic has returned what another one left behind (1), in every order: a fence between (1) "
    "and the atomic that tells of it, and one between the atomic that sees that and (2)"
)
_ALONE = (
    "a fence or an atomic orders its own thread alone: a `cuda.syncwarp()` or a barrier is missing between (1) and the "
    "atomic of another lane that tells of it, or between the atomic of another lane that sees that and (2)"
)
"""of a race of lanes that there is not if a fence and an atomic count for their whole warp"""
_FOUND = "this access is made in L2, where GPUs that are known have what was written: PTX does not promise that"
_BY_BARRIERS = frozenset("race intra-warp-race mbarrier-lifetime mbarrier-uninitialized".split())
"""codes that say that nothing orders two operations, of launches with asynchronous ones"""
_HOLDS_IN_SOME = frozenset("race intra-warp-race deadlock barrier-recycling failed-assertion".split())
"""codes that say in which schedules they hold"""
_SHOWN = 12
"""accesses of an order that are shown"""


class Decided(NamedTuple):
    """What trying all orders says of a launch."""

    proven: bool = False
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    """why nothing is decided"""
    notes: tuple[str, ...] = ()
    how: str = ""
    """of all orders, by what they were told apart"""
    needed: Residency | None = None
    """the CTAs that wait for each other"""


def feasible(bound: Bound, places: Places) -> bool:
    """Whether the orders of a launch can be told apart: all that it does is followed thread by thread, and nothing but
    atomics steers it, whatever it executes."""
    program, cluster = bound.program, math.prod(bound.configuration.cluster)
    known = not program.unmodelled and (not program.asynchronous or (followed(program) and cluster == 1))
    # each CTA runs by itself there, and does not know its rank
    ranked = any(name.startswith(("cluster", "nclusterid")) for name in program.specials)
    apart = cluster == 1 or not ranked
    return known and apart and _by_atomics(bound, places)


def clusters(bound: Bound) -> Callable[[int], int]:
    """The cluster of each CTA of a launch."""
    grouping = Grouping(bound.configuration.grid, bound.configuration.cluster)
    return lambda cta: grouping.of(cta)[0]


def _scopes(bound: Bound) -> int:
    """The scopes without all CTAs that strong accesses of a launch name."""
    code = bound.program.code
    atomics = np.isin(code[:, 0], [OPCODE[name] for name in ATOMICS])
    return int(np.bitwise_or.reduce(code[atomics, 7], initial=0)) & SCOPES


def small(bound: Bound) -> bool:
    """Whether all of a launch's CTAs can be alive at once while its orders are tried."""
    (gx, gy, gz), (bx, by, bz) = bound.configuration.grid, bound.configuration.block
    ctas, threads = gx * gy * gz, bx * by * bz
    return ctas <= MOST_CTAS and -(-threads // LANES) * LANES * ctas <= MOST_THREADS


def by_arrivals(bound: Bound, places: Places, known: dict[int, int], *, left: list[Any] | None) -> Decided | None:
    """Whether all orders end well of a launch whose CTAs each arrive at a counter, once."""
    from wsemu.launch.explore.arrivals import Arrivals

    if (_scopes(bound) and math.prod(bound.configuration.grid) > 1) or bound.program.asynchronous:
        return None  # they need not be atomic with each other; copies are not followed there
    logged = frozenset(_of_kinds(bound, _ACCESSES))
    ordered = _ordered(bound, places, frozenset(_of_kinds(bound, ("atomic",))))
    data = taint.like_data(bound.program, ordered, places.segment_of.get)
    initial = [array.copy() for array, _ in bound.segments]
    found = Arrivals(bound, ordered - data, logged, known, places.segment_of.get, data).decided()
    stays = initial if found is None else left if left is not None else found.end[0]
    for (data, writable), kept in zip(bound.segments, stays, strict=True):
        if writable:
            data[:] = kept
    if found is None:
        return None
    notes = (
        ()
        if found.results < 2
        else (f"what is left in arrays depends on which CTA comes last: {found.results:,} results are possible",)
    )
    told = [_unfenced(places, pc, ask, at) for pc, (ask, at) in found.unfenced.items()]
    return Decided(proven=True, notes=notes, findings=_by_fence(told), how="whichever CTA comes last")


def _by_fence(told: Iterable[Finding]) -> tuple[Finding, ...]:
    """The first finding of each fence that is missing: a loop that is unrolled has many reads behind one."""
    found: dict[str | None, Finding] = {}
    for finding in told:
        found.setdefault(finding.help, finding)
    return tuple(found.values())


def _unfenced(places: Places, pc: int, ask: Ask, address: int) -> Finding:
    """The warning of a load behind an arrival, by the CTA that comes last, with no fence between."""
    who = "the CTA that comes last"
    return Finding(
        code="missing-fence",
        message=f"`{places.element(address, pc)}` is read behind an atomic that tells of it, and a fence is missing",
        sites=[places.site(pc, f"{who} reads it"), places.site(ask.pc, f"{who} is told here", primary=False)],
        notes=[_FOUND],
        help=f"a `cuda.threadfence()` is missing behind line {places.line(ask.pc)}, where an atomic tells of it",
    )


def _by_atomics(bound: Bound, places: Places) -> bool:
    """Whether no clock and no mask of active lanes could steer the launch or what it stores, if all were executed."""
    code = bound.program.code
    analysis = taint.examine(
        bound.program, [1] * len(code), places.segment_of.get, lockstep=bound.settings.lockstep, lanes_by_x=False
    )
    if analysis is None:
        return True
    sources = {t.source for t in analysis.tainted} | {pc for pc, _ in analysis.order_dependent}
    return all(NAMES[int(code[pc, 0])] in ATOMICS for pc in sources)


def decide(bound: Bound, places: Places, *, left: list[Any] | None, first: bool = False) -> Decided | None:
    """Try all orders of the strong accesses of a launch, whose arrays are as before it; `left`: what they shall hold
    then, else what some order leaves; `first`: it is not asked whether what fails in one order does in all.  None where
    the orders are too many from the start.

    Strong loads and stores that steer nothing are taken for plain ones, if these do not race: so they are the same in
    all orders, and need not be tried."""
    initial = [data.copy() for data, _ in bound.segments]
    ordered = _ordered(bound, places, frozenset(_of_kinds(bound, ("atomic",))))
    data = taint.like_data(bound.program, ordered, places.segment_of.get)
    said = warned = None
    if data:
        said = _Attempt(bound, places, ordered - data, data, first=first).decided(left)
        if said is not None and said.proven:
            return said
        warned = said and [finding for finding in said.findings if finding.code == "missing-fence"]
        for (array, _), kept in zip(bound.segments, initial, strict=True):
            array[:] = kept
    said = _Attempt(bound, places, ordered, frozenset(), first=first).decided(left)
    return said._replace(findings=(*said.findings, *warned)) if said is not None and warned else said


def _of_kinds(bound: Bound, kinds: Iterable[str]) -> list[int]:
    return [pc for pc, op in enumerate(bound.program.code[:, 0].tolist()) if OPERATIONS[NAMES[op]].kind in kinds]


def _weigh(session: Session) -> None:
    """Reduce the number of accesses that decide a launch if many lanes wait for each: a step takes longer then."""
    session.start()
    waiting = sum(len(session.asks(cta)) for cta in range(session.ctas))
    session.effort /= 1 + waiting / LANES_PER_UNIT


def _polling_session(bound: Bound, ordered: frozenset[int], logged: frozenset[int]) -> Polls:
    """Return a session in which lanes that poll one location together count as one."""
    alone = bound.settings.lockstep or bound.program.asynchronous  # an mbarrier may tell which lanes have gone on
    return Polls(make_session(bound, ordered, logged), {} if alone else polled(bound.program, ordered))


def replay_sessions(bound: Bound, places: Places) -> Iterator[Any]:
    """Yield the sessions in which an order of atomics may have been found, as `decide` tries them."""
    logged = frozenset(_of_kinds(bound, _ACCESSES))
    ordered = _ordered(bound, places, frozenset(_of_kinds(bound, ("atomic",))))
    data = taint.like_data(bound.program, ordered, places.segment_of.get)
    for chosen in dict.fromkeys((ordered - data, ordered)):
        yield _polling_session(bound, chosen, logged)
    if suits(bound):
        yield make_threads(bound, ordered, logged)


class _Attempt:
    """To try all orders of some strong accesses."""

    def __init__(
        self, bound: Bound, places: Places, ordered: frozenset[int], data: frozenset[int], *, first: bool
    ) -> None:
        """`data`: those of the others that count as plain accesses; `first` as of `decide`."""
        self.bound, self.places, self.ordered, self.data, self.first = bound, places, ordered, data, first
        self.logged = frozenset(_of_kinds(bound, _ACCESSES))
        self.initial = [array.copy() for array, _ in bound.segments]

    def decided(self, left: list[Any] | None) -> Decided | None:
        bound, ordered = self.bound, self.ordered
        self.polls = _polling_session(bound, ordered, self.logged)
        session = cast("Session", self.polls)
        (x, y, z), uncounted = bound.configuration.block, uncounted_barriers(bound.program)
        self.options: dict[str, Any] = {
            "uncounted": uncounted,
            "ordered": ordered,
            "cluster_of": clusters(bound),
            "data": self.data,
            "unwatched": frozenset(n for n, (_, may) in enumerate(bound.segments, FIRST_ARRAY) if may == UNWATCHED),
        }
        self.size = session.ctas, x * y * z
        begin = functools.partial(Knowledge, bound.program, *self.size, **self.options)
        self.apart = _apart(bound, self.polls, ordered)
        _weigh(session)
        try:
            asynchronous = bound.program.asynchronous
            if not asynchronous and (said := self._by(_by_messages, session, begin)) is not None:
                return said
            apart, crowded = suits(bound), not asynchronous and session.ctas > 1
            search = self._search(session, Knowledge, samples=False, most=FEW_STEPS if crowded else 0)
            result = search.run()
            if crowded and result.why:
                said = self._by(_by_crowds, session, begin)
                if said is not None:
                    return said
                if result.why == "steps":
                    result = search.resume()
            if apart and (result.why or result.stuck):
                said = self._by_threads(begin)
                if said is not None:
                    return said
                if result.stuck:
                    result = self._searched(session, Knowledge)
            result = search.sample() if result.why in ("steps", "lanes") else result
            if result.race and not bound.settings.lockstep and self._may_excuse(result.race):
                result = self._searched(session, Lenient)
            if result.decided and asynchronous:
                _judge_histories(Replays(bound, ordered, self.logged, self.initial), result, self.places.outcome)
            met = together(session) if result.decided and session.ctas > 1 else None
            if left is None and result.end is not None:
                session.load_memory(result.end)
            told = _Told(bound, self.places, session, result, begin)
            said = told.said()
            if result.stuck and said is not None and said.findings and not (self.first or apart or asynchronous):
                search = self._search(session, Knowledge, samples=False, most=0)
                said = self._in_how_many(said, search, told.for_ever)
            return _with_room(said, met, bound, self.places)
        finally:
            if left is not None:
                for (data, writable), kept in zip(bound.segments, left, strict=True):
                    if writable:
                        data[:] = kept
            session.close()

    def _by(
        self, way: Callable[..., Decided | None], session: Session, begin: functools.partial[Knowledge]
    ) -> Decided | None:
        """What one of the ways says that only ever prove, from the arrays as they were."""
        for (array, _), kept in zip(self.bound.segments, self.initial, strict=True):
            array[:] = kept
        return way(self.bound, self.places, session, self.apart, begin)

    def _by_threads(self, begin: functools.partial[Knowledge]) -> Decided | None:
        """What all orders say where the lanes of a warp take turns by themselves; None where that decides nothing."""
        bound = self.bound
        for (array, _), kept in zip(bound.segments, self.initial, strict=True):
            array[:] = kept
        session: Any = make_threads(bound, self.ordered, self.logged)
        _weigh(session)
        try:
            if not few(session):
                return None
            options = self.options | {"cluster_of": int}

            def search() -> Search:
                return Search(
                    session,
                    lambda shared: Knowledge(bound.program, session.ctas, 1, shared=shared, lockstep=False, **options),
                    reads=lambda pc: bool(bound.program.code[pc, 7] & NO_STORE),
                    samples=False,
                )

            result = search().run()
            if result.decided and result.end is not None:
                session.load_memory(result.end)
            whole = Whole(session, bound)
            session_: Any = whole
            said = _Told(bound, self.places, session_, whole.told(result), begin).said()
            if result.stuck and said is not None and said.findings and not self.first:
                said = self._in_how_many(said, search(), lambda stuck: True)  # each lane goes on by itself
            return said if said is not None and (said.proven or said.findings) else None
        finally:
            session.close()

    def _in_how_many(self, said: Decided, search: Search, hangs: Callable[[list[Ask]], bool]) -> Decided:
        """A deadlock of one order, as one of every schedule if few orders show that none ends well; `hangs` says
        whether lanes that wait do so for ever."""
        kept = [array.copy() for array, _ in self.bound.segments]
        search.most, search.more, search.hangs = FEW_STEPS, 1, hangs
        result = search.run()
        for (array, _), before in zip(self.bound.segments, kept, strict=True):
            array[:] = before
        if not result.decided or result.ends or result.excused:
            return said
        findings = tuple(finding.model_copy(update={"holds_in": "every schedule"}) for finding in said.findings)
        return said._replace(findings=findings)

    def _may_excuse(self, race: Race) -> bool:
        both = race.earlier.pc in self.data and race.later.pc in self.data
        return both or is_fresh(self.bound.program, race.later.pc)

    def _searched(self, session: Session, kind: type[Knowledge], *, samples: bool = True, most: int = 0) -> Result:
        return self._search(session, kind, samples=samples, most=most).run()

    def _search(self, session: Session, kind: type[Knowledge], *, samples: bool, most: int) -> Search:
        """Of all orders, by such a kind of knowledge, in as many steps at most; 0: as many as a search makes."""
        bound, lockstep = self.bound, self.bound.settings.lockstep
        search = Search(
            session,
            lambda shared: kind(bound.program, *self.size, shared=shared, lockstep=lockstep, **self.options),
            apart=self.apart,
            reads=lambda pc: bool(bound.program.code[pc, 7] & NO_STORE),
            named=None if bound.program.asynchronous else _named(bound),
            samples=samples,
        )
        if most:
            search.most, search.more = min(most, search.most), 1
        return search


def _judge_histories(replays: Replays, result: Result, initial: Outcome) -> None:
    """Let an engine judge what each CTA did in some order, by itself."""
    wanted = (None, *replays.bound.settings.checkers)
    known = {(raw.code, raw.pc) for raw in initial.findings}

    def fails(raw: RawFinding) -> bool:
        if is_warning(raw):
            if (raw.code, raw.pc) not in known:
                known.add((raw.code, raw.pc))
                result.warned.append(raw)
            return False
        return CHECKER_OF.get(raw.code) in wanted

    try:
        failed = replays.judged(result.ended, fails)
    except DiffersError:
        result.why = "replays"
        return
    if failed is not None:
        result.findings = failed.findings
        result.reached = Reached(failed.order, replays.made(failed.order))


def _with_room(said: Decided | None, met: Together | None, bound: Bound, places: Places) -> Decided | None:
    """What is said of a launch whose CTAs wait for each other: a deadlock where not all of them fit at once."""
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
        notes=[f"the launch {needed}, which wait for each other: {needed.held(bound.configuration.arch)}"],
        help="launch fewer CTAs, smaller ones, or let none wait for one that begins after it",
        holds_in="some schedules",
    )
    return Decided(findings=(finding,), needed=needed)


def _by_messages(
    bound: Bound, places: Places, session: Session, apart: Callable[[int, list[Ask]], bool],
    begin: functools.partial[Knowledge],
) -> Decided | None:  # fmt: skip
    """What is said where each CTA by itself is right, whatever it reads of others; some order's arrays are left."""
    from wsemu.launch.explore.messages import Messages
    from wsemu.launch.explore.ways import Own

    if begin(Shared(), lockstep=False).by_clusters:
        return None
    own = functools.partial(Own, *begin.args, **begin.keywords, lockstep=bound.settings.lockstep)
    steering = functools.partial(_steering, bound, places)
    messages = Messages(bound, session, own, apart, steering, begin.keywords["data"])
    if not messages.proven():
        return None
    notes = () if messages.one_result else ("what is left in arrays may depend on the order of atomics",)
    said = Decided(proven=True, notes=notes, how="whatever each CTA reads of what others tell it")
    return _with_room(said, together(session), bound, places)


def _by_crowds(
    bound: Bound, places: Places, session: Session, apart: Callable[[int, list[Ask]], bool],
    begin: functools.partial[Knowledge],
) -> Decided | None:  # fmt: skip
    """What is said where CTAs that synchronise alike are right, however many of them stand where."""
    from wsemu.launch.explore.crowds import Crowds
    from wsemu.launch.explore.kin import Kin

    if begin(Shared(), lockstep=False).by_clusters:
        return None
    options = {**begin.keywords, "cluster_of": int, "others": True}
    one = functools.partial(Kin, begin.args[0], 1, begin.args[2], **options, lockstep=bound.settings.lockstep)
    if not Crowds(bound, session, one, apart, functools.partial(_steering, bound, places)).proven():
        return None
    said = Decided(
        proven=True, notes=("what is left in arrays may depend on the order of atomics",),
        how="however many CTAs stand where",
    )  # fmt: skip
    return _with_room(said, together(session), bound, places)


def _steering(bound: Bound, places: Places) -> frozenset[int]:
    """The arrays whose contents may decide something."""
    contents = Contents(bound.program, [1] * len(bound.program.code), places.segment_of.get)
    known = {source.segment - FIRST_ARRAY for source in contents.sources}
    found = {source.segment - FIRST_ARRAY for source in contents.steering()}
    return frozenset(found | set(range(len(bound.segments))) - known)


def _apart(bound: Bound, polls: Polls, ordered: frozenset[int]) -> Callable[[int, list[Ask]], bool]:
    """Whether lanes of a warp, of a CTA as it is, may come to ordered accesses in an order that is not tried: those
    that stand at one are let go one by one, and go on together."""
    leads = _leading(bound, ordered)

    def apart(cta: int, asks: list[Ask]) -> bool:
        return any(
            leads(at)
            for warp, pc in {(ask.warp, ask.pc) for ask in asks}
            for at in (*polls.ahead(cta, warp, pc), *polls.elsewhere(cta, warp))
        )

    return (lambda cta, asks: False) if bound.settings.lockstep else apart


def _leading(bound: Bound, ordered: frozenset[int]) -> Callable[[int], bool]:
    """Whether an instruction leads to an ordered access, on some way without a barrier or a warp-wide operation."""
    code = bound.program.code.tolist()

    @functools.cache
    def leads(start: int) -> bool:
        seen, left = set[int](), [start]
        while left:
            pc = left.pop()
            if pc in seen or not 0 <= pc < len(code):
                continue
            seen.add(pc)
            if pc in ordered:
                return True
            name, guard = NAMES[code[pc][0]], code[pc][1]
            kind = OPERATIONS[name].kind
            if kind == "barrier" or (kind == "warp" and name not in LOOSE):
                continue
            if name in ("bra", "jump"):
                left.append(code[pc][6])
            if name not in ("jump", "exit") or (name == "exit" and guard):
                left.append(pc + 1)
        return False

    return leads


def _named(bound: Bound) -> Named | None:
    """The stores that go where the number of a CTA leads."""
    shape = bound.configuration
    arrays = [(n, len(data), writable) for n, (data, writable) in enumerate(bound.segments)]
    return named(bound.program, Geometry(shape.grid, shape.block, shape.dynamic_shared), bound.rows, arrays)


def _ordered(bound: Bound, places: Places, atomics: frozenset[int]) -> frozenset[int]:
    """The atomics whose order is tried: not those that only add up, whatever their order, and whose results nobody
    uses.  What they happen to order is no order: another schedule has it the other way round."""
    unwritten = taint.read_only(bound.program, places.segment_of.get, atomics)
    return atomics - taint.commuting_unused(bound.program, atomics, places.segment_of.get) - unwritten


def _trace(made: Iterable[Made]) -> Trace:
    """What happened, as an engine would have logged it."""
    events, addresses = [], list[int]()
    for one in made:
        places = [address for _, address in one.addresses]
        events.append(one.event._replace(addresses=len(addresses)) if places else one.event)
        addresses += places
    return Trace(events, addresses=addresses)


def _worst(findings: list[RawFinding]) -> RawFinding:
    """Return the first error of some raw findings, else the first; an exception counts as a failed assertion."""
    errors = (raw for raw in findings if raw.code in CODES and CODES[raw.code].severity == "error")
    found = next(errors, findings[0])
    return replace(found, code="failed-assertion") if found.code == "raised-exception" else found


def _rounded(number: float) -> str:
    """A number of which the order of magnitude counts."""
    return f"{round(number):,}" if number < 1e5 else f"{number:.0e}".replace("e+0", "e").replace("e+", "e")


class _Told:
    """A result as a report tells it."""

    def __init__(
        self, bound: Bound, places: Places, session: Session, result: Result, begin: functools.partial[Knowledge]
    ) -> None:
        self.bound, self.places, self.session, self.result, self.begin = bound, places, session, result, begin
        self.code = bound.program.code.tolist()

    def said(self) -> Decided | None:
        result = self.result
        if result.race:
            return self._race(result.race)
        if result.findings:
            return self._finding(_worst(result.findings))
        if result.stuck:
            return self._deadlock()
        if result.why == "barriers":
            return Decided(findings=(self._at_barriers(),))
        if result.why:
            return Decided(findings=self._excused(), reasons=(self._why(),))
        told = self._excused()
        if not all(one.found for one, _ in result.excused):
            why = "an older value may be read where a fence is missing: what follows is open"
            return Decided(findings=told, reasons=(why,))
        return Decided(proven=True, notes=self._left(), findings=told)

    def _excused(self) -> tuple[Finding, ...]:
        """Warnings of reads that find what is new, though a fence is missing, and those of some orders."""
        told = [self._lacks_fence(one, reached.made) for one, reached in self.result.excused]
        known = {(raw.code, raw.pc) for raw in self.places.outcome.findings}
        warned = {(raw.code, raw.pc): raw for raw in self.result.warned if (raw.code, raw.pc) not in known}
        return (*_by_fence(told), *(registry.explain(raw, self.places, None) for raw in warned.values()))

    def _lacks_fence(self, excused: Excused, made: tuple[Made, ...]) -> Finding:
        race, places = excused.race, self.places
        one, two = (made[entry.number].event for entry in (race.earlier, race.later))
        element = places.element(race.address, race.later.pc)
        who, other = places.who(two.cta, two.warp), places.who(one.cta, one.warp)
        does, said = ("reads", "read") if race.later.kind == READ else ("writes", "written")
        did = "reads" if race.earlier.kind == READ else "writes"
        notes = [_FOUND if excused.found else "PTX lets (2) come before (1)"]
        return Finding(
            code="missing-fence",
            message=f"`{element}` is {said} behind an atomic that tells of it, and a fence is missing",
            sites=[
                places.site(two.pc, f"(2) {who} {does} it", cta=two.cta, warp=two.warp),
                places.site(one.pc, f"(1) {other} {did} it", cta=one.cta, warp=one.warp, primary=False),
            ],
            notes=[*notes, *self._order()],
            help=self._fences(race, made) or _SEEN,
        )

    def _fences(self, race: Race, made: tuple[Made, ...]) -> str:
        """Which fences are missing, and where they belong; nothing where that is not told."""
        lockstep = self.bound.settings.lockstep
        strong = self.begin.keywords["ordered"]
        shared = Shared()
        found = missing(lambda imagined: self.begin(shared, lockstep=lockstep, imagined=imagined), race, made, strong)
        if found is None:
            return ""
        behind, before = found
        where = [f"behind line {self.places.line(behind)}, where an atomic tells of (1)"] if behind >= 0 else []
        where += [f"before line {self.places.line(before)}, where an atomic tells others of (1)"] if before >= 0 else []
        return f"a `cuda.threadfence()` is missing {', and one '.join(where)}"

    def _left(self) -> tuple[str, ...]:
        ends = len(self.result.ends)
        if self.result.uneven:
            return ("what is left in arrays depends on the order of atomics: which CTA leaves what is open",)
        if ends < 2:
            return ()
        return (f"what is left in arrays depends on the order of atomics: {ends:,} results are possible",)

    def _why(self) -> str:
        result, places = self.result, self.places
        tried = f"{result.steps:,} ordered accesses in {result.states:,} states were tried and none failed"
        if result.why == "steps":
            left = f"{tried}, {result.left:,} states were left{self._sampled()}{self._more()}"
            return f"the orders of atomics are too many to try: {left}"
        if result.why == "lanes":
            return f"lanes of a warp come to atomics in more orders than are tried{self._sampled()}{self._more()}"
        if result.why == "weak":
            where = ""
            if result.pair:
                where = f": {places.where(result.pair.first.pc)} and line {places.line(result.pair.second.pc)}"
            return (
                "strong accesses to several places may be seen in another order than they are made, which is not tried"
                f"{where} (a `threadfence` between them orders them)"
            )
        if result.why == "copies":
            lines = f"{places.where(result.unclear[0])} and line {places.line(result.unclear[1])}"
            return f"{lines}: what a copy and another access do to one place is not decided for all orders of atomics"
        if result.why == "replays":
            return "an order of atomics ends otherwise where it is judged: nothing is decided"
        if result.why == "unclear":
            where = places.where(result.unclear[0])
            return f"{where}: lanes of one store write one place in some order of atomics: whose value stays is open"
        words = {
            "budget": "the step budget",
            "events": "more accesses than are followed",
            "trap": "what is not modelled",
            "room": "more asynchronous operations than are followed",
            "shared": "atomics in shared memory beside mbarriers or copies",
            "rounds": "a loop that waits and touches other memory meanwhile",
            "circle": "threads that may go round for ever",
            "apart": "lanes of a warp that may run ahead of the others to an atomic",
        }
        return f"an order of atomics ends in {words.get(result.why, result.why)}: nothing is decided"

    def _more(self) -> str:
        """Return how to have more orders tried."""
        effort = 10 * self.bound.settings.effort
        return f"; `--effort {effort}` (`effort={effort}`) tries ten times as many"

    def _sampled(self) -> str:
        """What was tried at random."""
        found = self.result.sampled
        if found is None or not found.orders:
            return ""
        return (
            f"; of an estimated {_rounded(found.estimate)} orders {found.orders} were sampled and none failed, "
            f"{found.drawn} of them by PCT: each meets a failure that takes {DEPTH} accesses in a certain order with a "
            f"probability of at least 1 in {_rounded(1 / found.bound)}"
        )

    # -- orders that fail ---------------------------------------------------------------------------------------------
    def _order(self) -> list[str]:
        """The order of atomics that shows it."""
        asks = self.result.reached.asks
        if not asks:
            return []
        apart = len({ask[:2] for ask in asks}) < len({ask[:3] for ask in asks})
        told = [
            f"lane {a.lane} of " * apart + f"{self.places.who(a.cta, a.warp)} line {self.places.line(a.pc)}"
            for a in asks[-_SHOWN:]
        ]
        first = f"the last {_SHOWN} of {len(asks):,}, " if len(asks) > _SHOWN else ""
        return [f"in this order of atomics: {first}{', '.join(told)}"]

    def _steps(self, *last: Step) -> list[Step]:
        """Return the order of atomics as steps of a schedule, before those that show what is wrong."""
        asks = self.result.reached.asks
        hidden = len(asks) - _SHOWN
        made = [self._step(ask, shown=number >= hidden) for number, ask in enumerate(asks)]
        return [*made, *last]

    def _step(self, ask: Ask, **fields: Any) -> Step:
        """Return the step in which a lane performs its ordered access."""
        does = step_word(NAMES[self.code[ask.pc][0]])
        what = self.places.element(ask.place[1], ask.pc)
        return self.places.step(ask.pc, ask.cta, ask.warp, does, what=what, lane=ask.lane, **fields)

    def _outcome(self, raw: list[RawFinding]) -> Outcome:
        base = self.places.outcome
        return Outcome("done", raw, executions=base.executions, accesses=base.accesses, arch=base.arch)

    def _explained(self, raw: RawFinding) -> Finding:
        places = Places(
            self.places.program, self.places.grid, self.places.block, self._outcome([raw]), self.places.arrays,
            self.places.segment_of,
        )  # fmt: skip
        finding = registry.explain(raw, places, _trace(self.result.reached.made))
        changes: dict[str, Any] = {"notes": [*finding.notes, *self._order()], "holds_in": self._holds(raw.code)}
        if raw.code not in ("race", "intra-warp-race"):
            changes["steps"] = self._steps(*finding.steps)
        copies = raw.detail.get("async") or raw.detail.get("other_async")
        if raw.code == "race" and not (copies and raw.detail["other_cta"] == raw.cta):  # copies are waited for as ever
            changes["help"] = _SEEN
        return finding.model_copy(update=changes)

    def _holds(self, code: str) -> str | None:
        return "some schedules" if code in _HOLDS_IN_SOME else None

    def _race(self, race: Race) -> Decided:
        raw = self._raw(race, self.result.reached.made)
        told = self._explained(raw)
        if raw.code == "race" and not race.earlier.agent and not race.later.agent:
            alone = not self.bound.settings.lockstep and not self._races_as_warps()
            help_ = _ALONE if alone else self._fences(race, self.result.reached.made)
            told = told.model_copy(update={"help": help_ or told.help})
        if not race.earlier.agent and not race.later.agent:
            steps = self._steps(*self._accesses(race))
            shown = {"schedule": numbered(steps), "schedule_steps": len(steps)}
            told = told.model_copy(update={"steps": steps, **shown})
        return Decided(findings=(told, *self._excused()))

    def _accesses(self, race: Race) -> Iterator[Step]:
        """Yield the two accesses of a race as the last steps of its schedule."""
        made, places = self.result.reached.made, self.places
        for entry, mark in ((race.earlier, "(1)"), (race.later, "(2)")):
            event = made[entry.number].event
            what = places.accessed(event.pc, race.address)
            yield places.step(event.pc, event.cta, event.warp, places.verb(event.pc), what=what, mark=mark)

    def _races_as_warps(self) -> bool:
        """Whether the order races even if a fence or an atomic of one lane counts for its whole warp."""
        shared = Shared()
        while True:
            knowledge = self.begin(shared, lockstep=True)
            shared.grown = False
            races = [race for n, made in enumerate(self.result.reached.made)
                     for race in knowledge.apply(made.event.cta, [made], n)]  # fmt: skip
            if not shared.grown:
                return bool(races)

    def _raw(self, race: Race, made: tuple[Made, ...]) -> RawFinding:
        one, two = made[race.earlier.number].event, made[race.later.number].event
        detail = {
            "address": race.address, "kind": race.later.kind, "other_kind": race.earlier.kind, "size": race.later.size,
            "interval": two.interval, "other_interval": one.interval, "other_cta": one.cta,
        }  # fmt: skip
        detail |= {"async": 1, "interval": 0} if race.later.agent else {}
        detail |= {"other_async": 1, "other_interval": 0} if race.earlier.agent else {}
        lane, other = race.later.thread % LANES, race.earlier.thread % LANES
        same = one[1:3] == two[1:3] and not race.earlier.agent and not race.later.agent
        if same:
            detail |= {"other_lane": other, "other_last": other}
        code = "intra-warp-race" if same else "race"
        return RawFinding(code, two.pc, two.cta, two.warp, 1 << lane, one.pc, one.warp, detail)

    def _finding(self, raw: RawFinding) -> Decided:
        if raw.code not in CODES or CHECKER_OF[raw.code] not in self.bound.settings.checkers:
            return Decided(reasons=(f"{self.places.where(raw.pc)}: in one order of atomics there is `{raw.code}`",))
        if raw.code in _BY_BARRIERS and self.bound.program.asynchronous and self._fenced():
            where = f"{self.places.where(raw.pc)}: in one order of atomics there is `{raw.code}`"
            return Decided(reasons=(f"{where}, unless fences and atomics order it",))
        if raw.code == "barrier-recycling":
            where = self.places.where(raw.pc)
            return Decided(reasons=(f"{where}: that a barrier is used again in time is not decided for all orders",))
        return Decided(findings=(self._explained(raw),))

    def _fenced(self) -> bool:
        """Whether there are fences, so that atomics may order something."""
        names = {NAMES[fields[0]] for fields in self.code}
        return not names.isdisjoint(("fence.cta", "fence.gpu", "fence.sys"))

    # -- deadlocks ----------------------------------------------------------------------------------------------------
    def _deadlock(self) -> Decided:
        stuck = self.result.stuck
        ask = self._freed(stuck)
        if ask is None:
            return Decided(findings=(self._waits(stuck),))
        where = f"{self.places.where(ask.pc)}: lane {ask.lane} waits"
        why = "other lanes of its warp could go on to write there: how they take turns is not modelled"
        return Decided(reasons=(f"{where}, and {why}",))

    def for_ever(self, stuck: list[Ask]) -> bool:
        """Whether lanes that wait, where the session stands, do so for ever."""
        return self._freed(stuck) is None

    def _freed(self, stuck: list[Ask]) -> Ask | None:
        """The first of these lanes that others of its warp may let go on."""
        if self.bound.settings.lockstep:
            return None
        return next((ask for ask in stuck if self._others_may_write(ask)), None)

    def _others_may_write(self, ask: Ask) -> bool:
        """Whether lanes of the warp that wait at a join for the one that spins could write, if they went on: as they
        may, for PTX promises no meeting points."""
        todo = self.session.elsewhere(ask.cta, ask.warp)
        seen = set(todo)
        while todo:
            at = todo.pop()
            name = NAMES[self.code[at][0]]
            kind = OPERATIONS[name].kind
            if kind in ("barrier", "warp", "matrix") and name not in LOOSE:  # there they wait for the one that spins
                continue
            if self._may_write(at, kind, ask):
                return True
            more = {after for after in successors(at, self.code[at]) if after < len(self.code)} - seen
            seen |= more
            todo += more
        return False

    def _may_write(self, pc: int, kind: str, ask: Ask) -> bool:
        """Whether an instruction may write where a lane waits."""
        arrays = self.places.program.array_of
        same = arrays[pc] is None or arrays[ask.pc] is None or arrays[pc] == arrays[ask.pc]
        return same and (kind == "store" or (kind == "atomic" and not self.code[pc][7] & NO_STORE))

    def _waits(self, stuck: Iterable[Ask]) -> Finding:
        places = self.places
        first: dict[int, Ask] = {}
        for ask in stuck:
            first.setdefault(ask.pc, ask)
        asks = list(first.values())
        sites = [
            places.site(ask.pc, f"{places.who(ask.cta, ask.warp)} waits here for ever", cta=ask.cta, warp=ask.warp)
            for ask in asks
        ]
        for ask in asks:
            sites += places.callers(ask.pc, places.who(ask.cta, ask.warp))
        notes = []
        for ask in asks:
            element = places.element(ask.place[1], ask.pc)
            value = self._value(ask)
            notes.append(
                f"{places.who(ask.cta, ask.warp)} waits for `{element}`{value} to change: {self._writers(ask)}"
            )
        element = places.element(asks[0].place[1], asks[0].pc)
        return Finding(
            code="deadlock",
            message=f"{places.who(asks[0].cta, asks[0].warp)} waits for ever for `{element}` to change",
            sites=sites,
            notes=[*notes, *self._order()],
            help="let some warp write there, in every order, before it waits itself",
            holds_in="some schedules" if self.result.reached.asks else "every schedule",
            steps=self._steps(*(self._step(ask, mark="waits") for ask in asks)),
        )

    def _at_barriers(self) -> Finding:
        """All that have not ended wait at barriers, or for phases of mbarriers."""
        places = self.places
        first: dict[int, tuple[int, int]] = {}
        for cta in range(self.session.ctas):
            for warp, pc in self.session.waits_at(cta):
                first.setdefault(pc, (cta, warp))
        sites = [
            places.site(pc, f"{places.who(*who)} waits here for ever", cta=who[0], warp=who[1])
            for pc, who in sorted(first.items())
        ]
        for pc, who in sorted(first.items()):
            sites += places.callers(pc, places.who(*who))
        return Finding(
            code="deadlock",
            message=f"{places.who(*next(iter(first.values())))} waits for ever, in one order of atomics",
            sites=sites,
            notes=["all warps that have not ended wait at barriers or for phases of mbarriers", *self._order()],
            help="let as many arrive there in every order",
            holds_in="some schedules",
            steps=self._steps(*(self._waiting(pc, *who) for pc, who in sorted(first.items()))),
        )

    def _waiting(self, pc: int, cta: int, warp: int) -> Step:
        """Return the step in which a warp waits at a barrier, for a phase, or at a join."""
        return self.places.step(pc, cta, warp, step_word(NAMES[self.code[pc][0]]), mark="waits")

    def _writers(self, ask: Ask) -> str:
        """Who could write where a lane waits."""
        waiting = {(a.cta, a.warp) for a in self.result.stuck}
        others = {
            (cta, w) for cta in range(self.session.ctas) for w, _, _ in self.session.alive(cta)
        } - waiting - {(ask.cta, ask.warp)}  # fmt: skip
        if others:
            stand, do = ("stand", "do") if len(others) > 1 else ("stands", "does")
            return f"{self._names(others)} {stand} at barriers or joins, and {do} not come there"
        if more := waiting - {(ask.cta, ask.warp)}:
            return (
                f"{self._names(more)} {'wait themselves' if len(more) > 1 else 'waits itself'}, all others have ended"
            )
        return "all others have ended"

    def _value(self, ask: Ask) -> str:
        """`, which is 3,`: what stands where a lane waits; nothing where that is no element of one array."""
        segment, offset = divmod(ask.place[1], 1 << SEGMENT_SHIFT)
        arrays = [a for a in self.bound.arrays if a.segment == segment and ask.place[0] < 0]
        if len(arrays) != 1 or (offset - arrays[0].offset) % (itemsize := arrays[0].dtype.itemsize):
            return ""
        data = self.bound.segments[segment - FIRST_ARRAY][0][offset : offset + itemsize]
        return f", which is {data.view(arrays[0].dtype)[0]}," if len(data) == itemsize else ""

    def _names(self, warps: Iterable[tuple[int, int]]) -> str:
        told = [self.places.who(*warp) for warp in sorted(warps)]
        return ", ".join(told[:4]) + (f" and {len(told) - 4:,} more" if len(told) > 4 else "")
