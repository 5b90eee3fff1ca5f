"""Decision on a launch whose control flow depends on atomics: whether its interleavings can be explored, and the
result."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, cast

from wsemu.evidence.places import Places
from wsemu.launch.explore.accesses import ACCESSES, find_data, find_kinds, find_ordered
from wsemu.launch.explore.arrays import arrays_restored, copy_arrays, put_back
from wsemu.launch.explore.decided import Case, Decided, Method
from wsemu.launch.explore.describe import Description
from wsemu.launch.explore.methods import (
    decide_by_counter_abstraction,
    decide_by_draws,
    decide_by_flags,
    decide_thread_modularly,
    judge_room,
)
from wsemu.launch.explore.nodes import Reached, Result
from wsemu.launch.explore.polls import Polls, find_polls
from wsemu.launch.explore.readings import find_idle, follow_order, is_followed
from wsemu.launch.explore.replays import DiffersError, Replays, supports_asynchronous
from wsemu.launch.explore.search import Search, is_warning
from wsemu.launch.explore.session import Ask, Session
from wsemu.launch.explore.sessions import make_session
from wsemu.launch.explore.threads_apart import Whole, few, make_threads, suits
from wsemu.launch.explore.together import together
from wsemu.model.codes import CHECKER_OF
from wsemu.model.grid import Grouping
from wsemu.model.isa import (
    ATOMICS,
    FIRST_ARRAY,
    LANES,
    LOOSE,
    NAMES,
    NO_STORE,
    OPERATIONS,
    UNWATCHED,
)
from wsemu.model.outcome import Outcome, RawFinding
from wsemu.proof import taint
from wsemu.proof.affine import Geometry
from wsemu.proof.happens_before import uncounted_barriers
from wsemu.proof.missing import Lenient, is_fresh
from wsemu.proof.mixed_vectors import find_mixed_vectors
from wsemu.proof.names import Named, find_named_stores
from wsemu.proof.threads import Knowledge, Race, Shared
from wsemu.proof.together import known_masks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.model.bound import Bound

MOST_CTAS, MOST_THREADS = 64, 2048
"""maximum CTAs and threads of a launch whose interleavings are explored: all are co-resident"""
LANES_PER_UNIT = 256
"""number of lanes waiting before ordered accesses at the start that doubles the time of a step"""
BYTES_PER_UNIT = 1 << 18
"""number of bytes saved for a CTA between steps that count as one unit of a step's duration"""
MAX_FOLLOWED = 20_000
"""warp instructions of a launch whose undefined values are followed in an order"""
MOST_DRAWING_CTAS = 256
"""maximum number of CTAs that draw numbers and are each decided alone"""
LEAST_SHARE, MOST_OF_FIRST = 1 / 4, 3 / 4
"""if the orders of some strong accesses decide nothing: minimum fraction of the effort for the orders of all, and
maximum fraction of the account for the orders of some"""
FEW_STEPS, FEW_COPYING_STEPS = 400, 200
"""number of steps of a search before CTAs are counted or examined one at a time, because the search finds more results
in arrays; it is smaller with copies, which take longer"""


def feasible(bound: Bound, places: Places) -> bool:
    """Return whether the interleavings of a launch can be distinguished: all its operations are tracked thread by
    thread, and only atomics influence it, whatever it executes."""
    program, cluster = bound.program, math.prod(bound.configuration.cluster)
    known = not program.unmodelled and (not program.asynchronous or (supports_asynchronous(program) and cluster == 1))
    # each CTA runs alone there and does not know its rank
    ranked = any(name.startswith(("cluster", "nclusterid")) for name in program.specials)
    apart = cluster == 1 or not ranked
    return known and apart and _depends_on_atomics_alone(bound, places)


def clusters(bound: Bound) -> Callable[[int], int]:
    """Return the cluster of each CTA of a launch."""
    grouping = Grouping(bound.configuration.grid, bound.configuration.cluster)
    return lambda cta: grouping.of(cta)[0]


def small(bound: Bound) -> bool:
    """Return whether all of a launch's CTAs can be alive at once while its orders are tried."""
    (gx, gy, gz), (bx, by, bz) = bound.configuration.grid, bound.configuration.block
    ctas, threads = gx * gy * gz, bx * by * bz
    return ctas <= MOST_CTAS and -(-threads // LANES) * LANES * ctas <= MOST_THREADS


def may_publish(bound: Bound) -> bool:
    """Return whether CTAs may be run in their order, each with the values that earlier ones publish."""
    alone = bound.group == (1, 1, 1) and not bound.program.asynchronous and bound.heap is None
    return alone and 1 < bound.configuration.ctas <= MOST_DRAWING_CTAS


def _depends_on_atomics_alone(bound: Bound, places: Places) -> bool:
    """Return whether no clock and no mask of active lanes can influence the launch or its stored values, whatever it
    executes."""
    code = bound.program.code
    analysis = taint.examine(
        bound.program, [1] * len(code), places.segment_of.get, lockstep=bound.settings.lockstep, lanes_by_x=False,
        settled=known_masks(bound.program, strict=bound.settings.strict),
    )  # fmt: skip
    if analysis is None:
        return True
    sources = {t.source for t in analysis.find_tainted} | {pc for pc, _ in analysis.order_dependent}
    return all(NAMES[int(code[pc, 0])] in ATOMICS for pc in sources)


def decide(bound: Bound, places: Places, *, left: list[Any] | None, first: bool = False) -> Decided | None:
    """Explore all interleavings of the strong accesses of a launch whose arrays are in their initial state.  `left` is
    the expected final contents; by default, it is what some interleaving leaves.  With `first`, one failing
    interleaving decides; whether all fail is not examined.  Return None if the number of interleavings is too large
    from the start.

    Strong loads and stores that influence nothing count as plain ones if these do not race: their results are then
    equal in all interleavings.
    """
    certain: Decided | None = None
    share = 1.0
    initial = copy_arrays(bound)
    ordered = find_ordered(bound, places, frozenset(find_kinds(bound, ("atomic",))))
    data = find_data(bound, places, ordered)
    said = warned = None
    if data:
        account = bound.account
        part = bound if bound.is_other else bound._replace(account=account.part(MOST_OF_FIRST * account.left))
        attempt = _Attempt(part, places, ordered - data, data, first=first)
        said = attempt.decide(left)
        if said is not None and said.proven:
            return said
        share = max(1 - attempt.used, LEAST_SHARE)
        certain = said if said is not None and said.is_certain else None
        warned = said and [finding for finding in said.findings if finding.code == "missing-fence"]
        put_back(bound, initial)
    said = _Attempt(bound, places, ordered, frozenset(), first=first, share=share).decide(left)
    if certain is not None and (said is None or not (said.proven or said.findings)):
        return certain
    return said._replace(findings=(*said.findings, *warned)) if said is not None and warned else said


def decide_large(bound: Bound, places: Places, *, left: list[Any]) -> Decided | None:
    """Decide a launch with many CTAs or threads whose CTAs draw numbers from one counter, each CTA alone.  Return None
    for other launches."""
    if bound.configuration.ctas > MOST_DRAWING_CTAS or math.prod(bound.configuration.cluster) > 1:
        return None
    ordered = find_ordered(bound, places, frozenset(find_kinds(bound, ("atomic",))))
    if find_mixed_vectors(bound.program, ordered):
        return None
    try:
        options = _knowledge_options(bound, places, ordered, frozenset())
        return decide_by_draws(bound, places, options, find_idle(bound, places.segment_of.get))
    finally:
        put_back(bound, left)


def _knowledge_options(bound: Bound, places: Places, ordered: frozenset[int], data: frozenset[int]) -> dict[str, Any]:
    """Return the options of `Knowledge`; `data` are strong accesses that count as plain ones."""
    return {
        "uncounted": uncounted_barriers(bound.program),
        "ordered": ordered,
        "cluster_of": clusters(bound),
        "data": data,
        "equal": places.outcome.equal_stores,
        "unwatched": frozenset(n for n, (_, may) in enumerate(bound.segments, FIRST_ARRAY) if may == UNWATCHED),
    }


def _state_bytes(bound: Bound) -> int:
    """Return about how many bytes a CTA keeps between steps: registers, local and shared memory."""
    program, shape = bound.program, bound.configuration
    warps = -(-math.prod(shape.block) // LANES)
    of_warp = program.register_bytes + 2 * LANES * program.local_bytes  # the set of written bytes is saved as well
    return warps * of_warp + 2 * (program.shared_bytes + shape.dynamic_shared)


def _weigh(session: Session, bound: Bound) -> None:
    """Reduce the number of steps for a launch in which many lanes wait or CTAs have much to save, because its steps
    take longer."""
    session.start()
    waiting = sum(len(session.asks(cta)) for cta in range(session.ctas))
    session.weight = 1 + waiting / LANES_PER_UNIT + _state_bytes(bound) // BYTES_PER_UNIT
    session.effort /= session.weight


def _polling_session(bound: Bound, ordered: frozenset[int], logged: frozenset[int]) -> Polls:
    """Return a session in which lanes that poll one location together count as one."""
    alone = bound.settings.lockstep or bound.program.asynchronous  # a phase may reveal which lanes have continued
    return Polls(make_session(bound, ordered, logged), {} if alone else find_polls(bound.program, ordered))


def replay_sessions(bound: Bound, places: Places) -> Iterator[Any]:
    """Yield the sessions in which an order of atomics may have been found, as `decide` tries them."""
    logged = frozenset(find_kinds(bound, ACCESSES))
    ordered = find_ordered(bound, places, frozenset(find_kinds(bound, ("atomic",))))
    data = find_data(bound, places, ordered)
    for chosen in dict.fromkeys((ordered - data, ordered)):
        yield _polling_session(bound, chosen, logged)
    if suits(bound):
        yield make_threads(bound, ordered, logged)


class _Attempt:
    """To try all orders of some strong accesses."""

    def __init__(
        self, bound: Bound, places: Places, ordered: frozenset[int], data: frozenset[int], *, first: bool,
        share: float = 1.0,
    ) -> None:  # fmt: skip
        """`data` are the strong accesses that count as plain ones.  `first` is the parameter of `decide`.  `share` is
        the fraction of the effort that is left for this attempt."""
        self.share, self.used = share, 0.0
        self.bound, self.places, self.ordered, self.data, self.first = bound, places, ordered, data, first
        self.logged = frozenset(find_kinds(bound, ACCESSES))
        self.initial = copy_arrays(bound)
        self.idle = find_idle(bound, places.segment_of.get)

    def decide(self, left: list[Any] | None) -> Decided | None:
        bound, ordered = self.bound, self.ordered
        self.polls = _polling_session(bound, ordered, self.logged)
        session = cast("Session", self.polls)
        self.options = _knowledge_options(bound, self.places, ordered, self.data)
        x, y, z = bound.configuration.block
        self.size = session.ctas, x * y * z
        begin = functools.partial(Knowledge, bound.program, *self.size, **self.options)
        self.apart = _find_independent_lanes(bound, self.polls, ordered)
        _weigh(session, bound)
        session.effort *= self.share
        try:
            asynchronous = bound.program.asynchronous
            mixed = bool(find_mixed_vectors(bound.program, ordered))  # only the search compares overlapping accesses
            if (
                not (asynchronous or mixed)
                and (said := self._decide_with_method(decide_thread_modularly, session, begin)) is not None
            ):
                return said
            apart, crowded = suits(bound), not (asynchronous or mixed) and session.ctas > 1
            several, few = session.ctas > 1, FEW_COPYING_STEPS if asynchronous else FEW_STEPS
            proves = bound.is_other
            search = self._search(session, Knowledge, samples=False, most=few if several and not proves else 0)
            result = self._spend(search)
            if several and not mixed and result.why:
                known = Knowledge(bound.program, *self.size, Shared(), lockstep=False, **self.options)
                said = None if known.by_clusters else self._decide_by_draws()
                if said is not None:
                    return said
            if crowded and result.why:
                said = self._decide_with_method(decide_by_counter_abstraction, session, begin)
                if said is not None:
                    return said
            if crowded and result.why:
                said = self._decide_with_method(decide_by_flags, self.polls.session, begin)
                if said is not None:
                    return said
            if several and not proves and result.why == "steps":
                result = search.resume()
            self.used = min(search.spent / max(search.all, 1), 1.0)
            if apart and (result.why or result.stuck):
                said = self._decide_by_lanes(begin)
                if said is not None:
                    return said
                if result.stuck:
                    result = self._run_search(session, Knowledge)
            result = search.sample() if not proves and result.why in ("steps", "lanes") else result
            if result.race and not bound.settings.lockstep and self._may_excuse(result.race):
                result = self._run_search(session, Lenient)
            if result.findings and not asynchronous:
                self._follow(result)
            if result.is_decided and asynchronous:
                _judge_histories(Replays(bound, ordered, self.logged, self.initial), result, self.places.outcome)
            met = together(session) if result.is_decided and session.ctas > 1 else None
            if left is None and result.end is not None:
                session.load_memory(result.end)
            told = Description(bound, self.places, session, result, begin, brief=self.first)
            said = told.decide()
            if result.stuck and said is not None and said.findings and not (self.first or apart or asynchronous):
                search = self._search(session, Knowledge, samples=False, most=0)
                said = self._generalize_deadlock(said, search, told.for_ever)
            return judge_room(said, met, bound, self.places)
        finally:
            if left is not None:
                put_back(bound, left)
            session.close()

    def _spend(self, search: Search) -> Result:
        """Run the search of another program with the effort that is left."""
        if self.bound.is_other:
            search.more = 1
        return search.run()

    def _decide_by_draws(self) -> Decided | None:
        put_back(self.bound, self.initial)
        return decide_by_draws(self.bound, self.places, self.options, self.idle)

    def _follow(self, result: Result) -> None:
        """Follow the undefined value of a finding through its interleaving.  Without an observable effect, it is not a
        finding."""
        raw = next((raw for raw in result.findings if not is_followed(self.bound, raw) and not is_warning(raw)), None)
        undefined = [raw for raw in result.findings if is_followed(self.bound, raw) and not self.idle(raw)]
        if raw is not None or not undefined or self.places.outcome.warp_instructions > MAX_FOLLOWED:
            return
        put_back(self.bound, self.initial)
        found = (follow_order(self.bound, self.ordered, result.reached.asks, raw) for raw in undefined)
        result.findings = [raw for raw in found if raw is not None][:1]
        if not result.findings:
            result.why = "undefined"

    def _decide_with_method(
        self, method: Method, session: Session, begin: functools.partial[Knowledge]
    ) -> Decided | None:
        """Return the decision of a method, from the initial arrays."""
        put_back(self.bound, self.initial)
        return method(Case(self.bound, self.places, session, self.apart, begin))

    def _decide_by_lanes(self, begin: functools.partial[Knowledge]) -> Decided | None:
        """Explore every interleaving of independently running lanes; return None if the result is undecided."""
        bound = self.bound
        put_back(bound, self.initial)
        session: Any = make_threads(bound, self.ordered, self.logged)
        _weigh(session, bound)
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
                    idle=self.idle,
                )

            result = self._spend(search())
            if result.is_decided and result.end is not None:
                session.load_memory(result.end)
            whole = Whole(session, bound)
            session_: Any = whole
            said = Description(bound, self.places, session_, whole.name_warps(result), begin, brief=self.first).decide()
            if result.stuck and said is not None and said.findings and not self.first:
                said = self._generalize_deadlock(said, search(), lambda stuck: True)  # each lane runs independently
            return said if said is not None and (said.proven or said.findings) else None
        finally:
            session.close()

    def _generalize_deadlock(self, said: Decided, search: Search, hangs: Callable[[list[Ask]], bool]) -> Decided:
        """Generalize a deadlock of one interleaving to every schedule if a few interleavings show that none ends
        without a failure.  `hangs` returns whether waiting lanes wait forever."""
        search.most, search.more, search.hangs = FEW_STEPS, 1, hangs
        with arrays_restored(self.bound):
            result = search.run()
        if not result.is_decided or result.ends or result.excused:
            return said
        findings = tuple(finding.model_copy(update={"holds_in": "every schedule"}) for finding in said.findings)
        return said._replace(findings=findings)

    def _may_excuse(self, race: Race) -> bool:
        both = race.earlier.pc in self.data and race.later.pc in self.data
        return both or is_fresh(self.bound.program, race.later.pc)

    def _run_search(self, session: Session, kind: type[Knowledge], *, samples: bool = True, most: int = 0) -> Result:
        return self._search(session, kind, samples=samples, most=most).run()

    def _search(self, session: Session, kind: type[Knowledge], *, samples: bool, most: int) -> Search:
        """Search all interleavings with one kind of clocks, in at most `most` steps; 0 stands for the default
        number."""
        bound, lockstep = self.bound, self.bound.settings.lockstep
        search = Search(
            session,
            lambda shared: kind(bound.program, *self.size, shared=shared, lockstep=lockstep, **self.options),
            apart=self.apart,
            reads=lambda pc: bool(bound.program.code[pc, 7] & NO_STORE),
            named=None if bound.program.asynchronous else _stores_by_cta(bound),
            samples=samples,
            idle=self.idle,
        )
        if most:
            search.most, search.more = min(most, search.most), 1
        return search


def _judge_histories(replays: Replays, result: Result, initial: Outcome) -> None:
    """Let an engine judge the actions of each CTA in some interleaving, one CTA at a time."""
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
        failed = replays.judge_orders(result.ended, fails)
    except DiffersError:
        result.why = "replays"
        result.reached = Reached(max(result.ended.values(), key=len, default=()), ())
        return
    if failed is not None:
        result.findings = failed.findings
        result.reached = Reached(failed.order, replays.replay_order(failed.order))


def _find_independent_lanes(bound: Bound, polls: Polls, ordered: frozenset[int]) -> Callable[[int, list[Ask]], bool]:
    """Return whether lanes of a warp may reach ordered accesses in an order that is not explored.  Lanes parked at one
    are resumed one at a time, and continue together."""
    leads = _leading(bound, ordered)

    def apart(cta: int, asks: list[Ask]) -> bool:
        return any(
            leads(at)
            for warp, pc in {(ask.warp, ask.pc) for ask in asks}
            for at in (*polls.ahead(cta, warp, pc), *polls.elsewhere(cta, warp))
        )

    return (lambda cta, asks: False) if bound.settings.lockstep else apart


def _leading(bound: Bound, ordered: frozenset[int]) -> Callable[[int], bool]:
    """Return whether an instruction leads to an ordered access, on some path without a barrier or a warp-wide
    operation."""
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


def _stores_by_cta(bound: Bound) -> Named | None:
    """Return the stores whose address depends on the number of a CTA."""
    shape = bound.configuration
    arrays = [(n, len(data), writable) for n, (data, writable) in enumerate(bound.segments)]
    return find_named_stores(bound.program, Geometry(shape.grid, shape.block, shape.dynamic_shared), bound.rows, arrays)
