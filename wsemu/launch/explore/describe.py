"""Describe in a report what the exploration of a launch's interleavings found."""

from __future__ import annotations

import functools
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.checkers import registry
from wsemu.evidence.places import Places
from wsemu.evidence.readings import format_steps
from wsemu.evidence.source_view import CUDA
from wsemu.launch.explore.decided import Decided
from wsemu.launch.explore.nodes import Result
from wsemu.launch.explore.reasons import describe_undecided
from wsemu.launch.explore.session import Ask, Session
from wsemu.model.codes import CHECKER_OF, CODES
from wsemu.model.control_flow import successors
from wsemu.model.data import replace
from wsemu.model.finding import Finding, Step
from wsemu.model.isa import FIRST_ARRAY, LANES, LOOSE, NAMES, NO_STORE, OPERATIONS, READ, SEGMENT_SHIFT, step_word
from wsemu.model.outcome import FENCES, Outcome, RawFinding, Trace
from wsemu.proof.missing import missing
from wsemu.proof.phase_edges import phases_ordered_by_atomics
from wsemu.proof.threads import Excused, Knowledge, Made, Race, Shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wsemu.model.bound import Bound

_SEEN = (
    "perform (2) only after an atomic has returned the value that another atomic stored after (1), in every order: add "
    "a fence between (1) and the atomic that publishes it, and a fence between the atomic that reads this value and "
    "(2)"
)

_RELAXED = "relaxed atomics order no other accesses: use release and acquire, or a fence on each side"
"""note on a race between accesses that relaxed atomics connect"""


_ALONE = (
    "a fence or an atomic orders its own thread alone: add a `cuda.syncwarp()` or a barrier between (1) and the atomic "
    "of another lane that publishes it, or between the atomic of another lane that reads this and (2)"
)
"""note on a race between lanes that would disappear if fences and atomics counted for the whole warp"""


_FOUND = "known GPUs serve this access from L2 and return the new value; PTX does not guarantee it"


_BY_BARRIERS = frozenset("race intra-warp-race mbarrier-lifetime mbarrier-uninitialized".split())
"""codes for two operations that nothing orders; in launches with asynchronous operations they may be wrong if there are
fences"""


_HOLDS_IN_SOME = frozenset("race intra-warp-race deadlock barrier-recycling failed-assertion".split())
"""codes whose findings name the schedules in which they hold"""


_SHOWN = 12
"""maximum number of ordered accesses that a finding lists"""


def group_by_fence(told: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return one finding per missing fence: an unrolled loop can have many reads after one atomic."""
    found: dict[str | None, Finding] = {}
    for finding in told:
        found.setdefault(finding.help, finding)
    return tuple(found.values())


def describe_missing_fence(places: Places, pc: int, ask: Ask, address: int) -> Finding:
    """Return the warning for a load by the last-arriving CTA with no fence between its arrival and the load."""
    who = "the CTA that comes last"
    return Finding(
        code="missing-fence",
        message=(
            f"`{places.element(address, pc)}` is read after an atomic that publishes it, without the required fence"
        ),
        sites=[places.site(pc, f"{who} reads it"), places.site(ask.pc, f"{who} arrives here", primary=False)],
        notes=[_FOUND],
        help=f"a `cuda.threadfence()` is missing after line {places.line(ask.pc)}, where an atomic sees it",
    )


def describe_phase_order(places: Places, raw: RawFinding) -> str:
    """Return the reason why a finding about phases is undecided if the order of the atomics contradicts it."""
    what = f"`{places.element(raw.detail['address'], raw.pc)}`"
    return (
        f"{places.where(raw.pc)}: phase {raw.detail['phase']} of {what} is separated from other phases only by the "
        "order of atomics, which is not followed for mbarriers: separate the phases by a barrier or a wait"
    )


def _trace(made: Iterable[Made]) -> Trace:
    """Return the events in the form of a trace that an engine logs."""
    events, addresses = [], list[int]()
    for one in made:
        places = [address for _, address in one.addresses]
        events.append(one.event._replace(addresses=len(addresses)) if places else one.event)
        addresses += places
    return Trace(events, addresses=addresses)


def _first_error(findings: list[RawFinding]) -> RawFinding:
    """Return the first error among raw findings, or the first finding if none is an error.  An exception counts as a
    failed assertion."""
    errors = (raw for raw in findings if raw.code in CODES and CODES[raw.code].severity == "error")
    found = next(errors, findings[0])
    return replace(found, code="failed-assertion") if found.code == "raised-exception" else found


class Description:
    """Describes the result of an exploration in a report."""

    def __init__(
        self, bound: Bound, places: Places, session: Session, result: Result, begin: functools.partial[Knowledge],
        *, brief: bool = False,
    ) -> None:  # fmt: skip
        """With `brief`, findings have no help."""
        self.bound, self.places, self.session, self.result, self.begin = bound, places, session, result, begin
        self.brief = brief
        self.code = bound.program.code.tolist()

    def decide(self) -> Decided | None:
        result = self.result
        if result.race:
            return self._race(result.race)
        if result.findings:
            return self._finding(_first_error(result.findings))
        if result.stuck:
            return self._deadlock()
        if result.why == "barriers":
            return Decided(findings=(self._barrier_deadlock(),))
        if result.why:
            return Decided(findings=self._excused_warnings(), reasons=(self._reason_text(),))
        told = self._excused_warnings()
        stale = next((one for one, _ in result.excused if not one.found), None)
        if stale is not None:
            where = self.places.where(stale.race.later.pc)
            why = "an older value may be read here, and later behavior is not decided: add the missing fence"
            return Decided(findings=told, reasons=(f"{where}: {why}",))
        return Decided(proven=True, notes=self._result_notes(), findings=told)

    def _excused_warnings(self) -> tuple[Finding, ...]:
        """Return two kinds of warnings: missing fences that the reads did not suffer from, and findings that hold in
        some interleavings."""
        told = [self._lacks_fence(one, reached.made) for one, reached in self.result.excused]
        known = {(raw.code, raw.pc) for raw in self.places.outcome.findings}
        warned = {(raw.code, raw.pc): raw for raw in self.result.warned if (raw.code, raw.pc) not in known}
        return (*group_by_fence(told), *(registry.explain(raw, self.places, None) for raw in warned.values()))

    def _lacks_fence(self, excused: Excused, made: tuple[Made, ...]) -> Finding:
        race, places = excused.race, self.places
        one, two = (made[entry.number].event for entry in (race.earlier, race.later))
        element = places.element(race.address, race.later.pc)
        who, other = places.who(two.cta, two.warp), places.who(one.cta, one.warp)
        does, said = ("reads", "read") if race.later.kind == READ else ("writes", "written")
        did = "reads" if race.earlier.kind == READ else "writes"
        notes = [_FOUND if excused.found else "PTX allows (2) to happen before (1)"]
        return Finding(
            code="missing-fence",
            message=f"`{element}` is {said} after an atomic that publishes it, without the required fence",
            sites=[
                places.site(two.pc, f"(2) {who} {does} it", cta=two.cta, warp=two.warp),
                places.site(one.pc, f"(1) {other} {did} it", cta=one.cta, warp=one.warp, primary=False),
            ],
            notes=[*notes, *self._order()],
            help=self._fences(race, made) or _SEEN,
        )

    def _fences(self, race: Race, made: tuple[Made, ...]) -> str:
        """Return a text about the missing fences and their positions, or an empty text if this is unknown."""
        lockstep = self.bound.settings.lockstep
        strong = self.begin.keywords["ordered"]
        shared = Shared()
        found = missing(lambda imagined: self.begin(shared, lockstep=lockstep, imagined=imagined), race, made, strong)
        if found is None:
            return ""
        behind, before = found
        sees = "that" if before >= 0 else "(1)"
        where = [f"before line {self.places.line(before)}, where an atomic publishes (1)"] if before >= 0 else []
        where += [f"after line {self.places.line(behind)}, where an atomic sees {sees}"] if behind >= 0 else []
        return f"a `cuda.threadfence()` is missing {', and one '.join(where)}"

    def _result_notes(self) -> tuple[str, ...]:
        ends = len(self.result.ends)
        if self.result.uneven:
            return (
                (
                    "the final contents of arrays depend on the order of atomics: which CTA leaves which value is not "
                    "decided"
                ),
            )
        if ends < 2:
            return ()
        return (f"the final contents of arrays depend on the order of atomics: {ends:,} results are possible",)

    def _reason_text(self) -> str:
        ordered = self.begin.keywords["ordered"]
        return describe_undecided(self.result, self.places, ordered, self.bound.settings.effort)

    # -- orders that fail ---------------------------------------------------------------------------------------------
    def _order(self) -> list[str]:
        """Return a note with the order of atomics that leads to the finding."""
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
        """Return the order of atomics as steps of a schedule, followed by the steps `last` that show the fault."""
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
        return Outcome(
            "done", raw, executions=base.executions, accesses=base.accesses, arch=base.arch, mbarriers=base.mbarriers
        )

    def _explain_finding(self, raw: RawFinding) -> Finding:
        places = Places(
            self.places.program, self.places.grid, self.places.block, self._outcome([raw]), self.places.arrays,
            self.places.segment_of,
        )  # fmt: skip
        finding = registry.explain(raw, places, _trace(self.result.reached.made))
        changes: dict[str, Any] = {"notes": [*finding.notes, *self._order()], "holds_in": self._holds(raw.code)}
        if raw.code not in ("race", "intra-warp-race"):
            changes["steps"] = self._steps(*finding.steps)
        copies = raw.detail.get("async") or raw.detail.get("other_async")
        # the help for copies stays: it names the wait
        if raw.code == "race" and not (copies and raw.detail["other_cta"] == raw.cta):
            changes["help"] = _SEEN
            changes["notes"] += [_RELAXED] * bool(self.result.reached.asks)
        return finding.model_copy(update=changes)

    def _holds(self, code: str) -> str | None:
        return "some schedules" if code in _HOLDS_IN_SOME else None

    def _race(self, race: Race) -> Decided:
        raw = self._raw(race, self.result.reached.made)
        told = self._explain_finding(raw)
        if not (race.earlier.agent or race.later.agent or self.brief):
            is_alone = raw.code == "race" and not self.bound.settings.lockstep and not self._races_as_warps()
            help_ = _ALONE if is_alone else self._fences(race, self.result.reached.made)
            told = told.model_copy(update={"help": help_ or told.help})
            steps = self._steps(*self._accesses(race))
            shown = {"schedule": format_steps(self._place_accesses(race, steps)), "schedule_steps": len(steps)}
            told = told.model_copy(update={"steps": steps, **shown})
        return Decided(findings=(told, *self._excused_warnings()))

    def _accesses(self, race: Race) -> Iterator[Step]:
        """Yield the two accesses of a race, which are the last steps of a schedule that is replayed."""
        made, places = self.result.reached.made, self.places
        for entry, mark in ((race.earlier, "(1)"), (race.later, "(2)")):
            event = made[entry.number].event
            what = places.access_text(event.pc, race.address)
            yield places.step(event.pc, event.cta, event.warp, places.verb(event.pc), what=what, mark=mark)

    def _place_accesses(self, race: Race, steps: Sequence[Step]) -> list[Step]:
        """Return the steps with the first access of a race moved to just before the access that publishes it."""
        *atomics, first, second = steps
        positions = [n for n, one in enumerate(self.result.reached.made) if one.event.kind == "atomic"]
        if len(positions) == len(atomics):
            atomics.insert(bisect_left(positions, race.earlier.number), first)
            return [*atomics, second]
        return [*steps]

    def _races_as_warps(self) -> bool:
        """Return whether the order races even if a fence or an atomic of one lane counts for its whole warp."""
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
            where = f"{self.places.where(raw.pc)}: in one order of atomics there is `{raw.code}`"
            return Decided(reasons=(f"{where}: turn its checker on to see the order",))
        if raw.code in _BY_BARRIERS and self.bound.program.asynchronous and self._has_fences():
            where = f"{self.places.where(raw.pc)}: in one order of atomics there is `{raw.code}`"
            return Decided(reasons=(f"{where}, unless fences and atomics order it: put a barrier between the two",))
        if phases_ordered_by_atomics(_trace(self.result.reached.made), [raw], self.bound.program):
            return Decided(reasons=(describe_phase_order(self.places, raw),))
        if raw.code == "barrier-recycling":
            where = self.places.where(raw.pc)
            why = "whether a barrier is reused too early is not decided for all orders of atomics"
            return Decided(reasons=(f"{where}: {why}: use another barrier, or synchronize its warps before",))
        return Decided(findings=(self._explain_finding(raw),))

    def _has_fences(self) -> bool:
        """Return whether there are fences, so that atomics may order something."""
        names = {NAMES[fields[0]] for fields in self.code}
        return not names.isdisjoint(FENCES)

    # -- deadlocks ----------------------------------------------------------------------------------------------------
    def _deadlock(self) -> Decided:
        stuck = self.result.stuck
        ask = self._first_releasable(stuck)
        if ask is None:
            return Decided(findings=(self._waits(stuck),))
        where = f"{self.places.where(ask.pc)}: lane {ask.lane} waits"
        why = (
            "other lanes of its warp could proceed and write there, which is not modeled: write from another warp, or "
            "before the wait"
        )
        return Decided(reasons=(f"{where}, and {why}",))

    def for_ever(self, stuck: list[Ask]) -> bool:
        """Return whether lanes that wait in the session's current state do so forever."""
        return self._first_releasable(stuck) is None

    def _first_releasable(self, stuck: list[Ask]) -> Ask | None:
        """Return the first of these lanes that others of its warp may release."""
        if self.bound.settings.lockstep:
            return None
        return next((ask for ask in stuck if self._others_may_write(ask)), None)

    def _others_may_write(self, ask: Ask) -> bool:
        """Return whether lanes of the warp that wait at a join for the spinning lane could write the location if they
        continued.  PTX lets them continue, because it guarantees no reconvergence."""
        todo = self.session.elsewhere(ask.cta, ask.warp)
        seen = set(todo)
        while todo:
            at = todo.pop()
            name = NAMES[self.code[at][0]]
            kind = OPERATIONS[name].kind
            # at these operations the lanes wait for the spinning lane
            if kind in ("barrier", "warp", "matrix") and name not in LOOSE:
                continue
            if self._may_write(at, kind, ask):
                return True
            more = {after for after in successors(at, self.code[at]) if after < len(self.code)} - seen
            seen |= more
            todo += more
        return False

    def _may_write(self, pc: int, kind: str, ask: Ask) -> bool:
        """Return whether an instruction may write the location for which a lane waits."""
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
            places.site(ask.pc, f"{places.who(ask.cta, ask.warp)} waits here forever", cta=ask.cta, warp=ask.warp)
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
            message=f"{places.who(asks[0].cta, asks[0].warp)} waits forever for `{element}` to change",
            sites=sites,
            notes=[*notes, *self._order()],
            help=self._help_to_end(asks[0]),
            holds_in="some schedules" if self.result.reached.asks else "every schedule",
            steps=self._steps(*(self._step(ask, mark="waits") for ask in asks)),
        )

    def _help_to_end(self, ask: Ask) -> str:
        """Return the help for a loop that never ends: a NaN that a thread compares with itself, or a missing store."""
        value = self._read_value(ask)
        if value is None or value == value or self.code[ask.pc][7] & NO_STORE:
            return "make some warp write there before it waits itself, in every order"
        compare = "`__float_as_int(assumed) != __float_as_int(old)`"
        if not self.places.span(ask.pc).file.endswith(CUDA):
            compare = "the values as integers of the same bits"
        return f"a nan differs from itself, so a loop that compares floats never ends: compare their bits, {compare}"

    def _barrier_deadlock(self) -> Finding:
        """Return the deadlock of warps that all wait at barriers or for phases of mbarriers."""
        places = self.places
        first: dict[int, tuple[int, int]] = {}
        for cta in range(self.session.ctas):
            for warp, pc in self.session.waiting_warps(cta):
                first.setdefault(pc, (cta, warp))
        sites = [
            places.site(pc, f"{places.who(*who)} waits here forever", cta=who[0], warp=who[1])
            for pc, who in sorted(first.items())
        ]
        for pc, who in sorted(first.items()):
            sites += places.callers(pc, places.who(*who))
        return Finding(
            code="deadlock",
            message=f"{places.who(*next(iter(first.values())))} waits forever, in one order of atomics",
            sites=sites,
            notes=["all warps that have not ended wait at barriers or for phases of mbarriers", *self._order()],
            help="make as many threads arrive there as it counts, in every order",
            holds_in="some schedules",
            steps=self._steps(*(self._waiting(pc, *who) for pc, who in sorted(first.items()))),
        )

    def _waiting(self, pc: int, cta: int, warp: int) -> Step:
        """Return the step in which a warp waits at a barrier, for a phase, or at a join."""
        return self.places.step(pc, cta, warp, step_word(NAMES[self.code[pc][0]]), mark="waits")

    def _writers(self, ask: Ask) -> str:
        """Return the warps that could write the location for which a lane waits."""
        waiting = {(a.cta, a.warp) for a in self.result.stuck}
        others = {
            (cta, w) for cta in range(self.session.ctas) for w, _, _ in self.session.alive(cta)
        } - waiting - {(ask.cta, ask.warp)}  # fmt: skip
        if others:
            stand, do = ("wait", "do") if len(others) > 1 else ("waits", "does")
            return f"{self._names(others)} {stand} at barriers or joins, and {do} not reach a store to it"
        if more := waiting - {(ask.cta, ask.warp)}:
            return (
                f"{self._names(more)} {'wait themselves' if len(more) > 1 else 'waits itself'}, all others have ended"
            )
        return "all others have ended"

    def _value(self, ask: Ask) -> str:
        """Return `, which is 3,` for the element that a lane waits for, or an empty text if the location is not an
        element of a single array."""
        value = self._read_value(ask)
        return "" if value is None or isinstance(value, np.void) else f", which is {value},"

    def _read_value(self, ask: Ask) -> Any:
        """Return the element that a lane waits for, or None if the location is not an element of a single array."""
        segment, offset = divmod(ask.place[1], 1 << SEGMENT_SHIFT)
        arrays = [a for a in self.bound.arrays if a.segment == segment and ask.place[0] < 0]
        if len(arrays) != 1 or (offset - arrays[0].offset) % (itemsize := arrays[0].dtype.itemsize):
            return None
        data = self.bound.segments[segment - FIRST_ARRAY][0][offset : offset + itemsize]
        return data.view(arrays[0].dtype)[0] if len(data) == itemsize else None

    def _names(self, warps: Iterable[tuple[int, int]]) -> str:
        told = [self.places.who(*warp) for warp in sorted(warps)]
        return ", ".join(told[:4]) + (f" and {len(told) - 4:,} more" if len(told) > 4 else "")
