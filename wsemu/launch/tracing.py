"""Create a time line from a traced run: each event gets its step, and each finding its operations.

`wsemu.launch.timeline` defines the steps.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.evidence.cost_view import bank_pictures, line_costs
from wsemu.evidence.schedule import OF_PHASES, Witness
from wsemu.launch.roles import SharedUses
from wsemu.launch.timeline import Copy, Generation, Kind, Mark, Place, Step, Timeline, Warp
from wsemu.model.codes import CHECKERS
from wsemu.model.data import replace
from wsemu.model.effects import effects_of
from wsemu.model.errors import UsageError
from wsemu.model.finding import MOST_SHOWN
from wsemu.model.isa import LANES, NAMES, OPERATIONS, SEGMENT_SHIFT, SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from wsemu.evidence.labels import Group
    from wsemu.evidence.places import Places
    from wsemu.launch.kernel import Launchable
    from wsemu.launch.result import Report
    from wsemu.model.effects import Effects
    from wsemu.model.finding import Finding
    from wsemu.model.launch_shape import Size
    from wsemu.model.outcome import Event, RawFinding, Status, Trace, Tracer

MOST_EVENTS = 200_000
"""maximum number of events of a timeline; later ones are omitted"""
_STOPPED: tuple[Status, ...] = ("fault", "trap", "stack")
"""statuses of a run that ended at an operation of one warp"""
_OF_TWO = {code for name in ("mbarrier", "phase", "proxy") for code in CHECKERS[name]}
_OF_STEPS: tuple[Kind, ...] = ("arrive_on", "await", "landed")
"""kinds of events after which the step of their operation is named"""


def trace(
    kernel: Launchable | Callable[..., object],
    grid: Size,
    block: Size,
    args: Sequence[Any] = (),
    *,
    cta: int | None = None,
    **options: Any,
) -> Timeline:
    """Check a launch like `wsemu.check`, with the same options, and return the timeline of one CTA: the CTA with linear
    index `cta`, or else that of the first finding, or else the first one.

    In a notebook the result displays itself; its `report` is the one that `check` returns.
    """
    from wsemu.launch.check import check
    from wsemu.launch.hooks import traceable

    made: list[Timeline] = []

    def look(report: Report, places: Places, tracer: Tracer) -> None:
        made.append(build(report, places, tracer, cta))

    with traceable.adding_own(look):
        check(kernel, grid, block, args, **options)
    return made[-1]


def build(report: Report, places: Places, tracer: Tracer, cta: int | None = None) -> Timeline:
    """Return the time line of a launch that was checked.  Raise UsageError if it has no CTA of this number."""
    chosen = _first_cta(report, places) if cta is None else cta
    total = places.grid[0] * places.grid[1] * places.grid[2]
    if not 0 <= chosen < total:
        known = "CTA 0 alone" if total == 1 else f"CTAs 0 to {total - 1:,}"
        raise UsageError(f"no CTA {chosen:,}: the grid has {known}")
    traced = tracer(accessed_instructions(places), chosen)
    complete = traced.complete and len(traced.events) <= MOST_EVENTS
    clock = _Clock(places, replace(traced, events=traced.events[:MOST_EVENTS], complete=complete), chosen)
    return Timeline(
        report=report,
        cta=chosen,
        index=places.cta(chosen),
        warps=clock.warps(),
        steps=tuple(clock.steps),
        generations=tuple(sorted(clock.generations.values(), key=lambda g: (g.barrier, g.number))),
        marks=tuple(clock.marks(report)),
        places=clock.places_of_steps(),
        status=places.outcome.status if places.outcome.cta in (-1, chosen) else "done",
        complete=complete,
        copies=tuple(sorted(clock.copies(), key=lambda copy: (copy.at, copy.warp))),
        arguments=tuple(places.describe_arguments()),
        mbarriers=clock.mbarriers(),
        lines=tuple(line_costs(places)),
        banks=tuple(bank_pictures(places)),
    )


def _first_cta(report: Report, places: Places) -> int:
    """Return the CTA of the first finding, or the CTA in which the run stopped, or the first CTA."""
    x, y, _ = places.grid
    for finding in report.findings:
        for site in finding.places:
            if site.cta is not None:
                return site.cta[0] + x * (site.cta[1] + y * site.cta[2])
    return max(places.outcome.cta, 0)


def accessed_instructions(places: Places) -> frozenset[int]:
    """Return the loads and stores of shared and global memory: local arrays are registers, atomics always traced."""
    program = places.program
    own = {array.name for array in program.locals} - {array.name for array in program.shared}
    return frozenset(
        pc
        for pc in places.outcome.accesses
        if program.array_of[pc] not in own and OPERATIONS[NAMES[int(program.code[pc, 0])]].kind != "atomic"
    )


def _step_kind(row: Effects) -> Kind:
    """Return the kind of the step of an asynchronous operation."""
    if row.event == "copy":
        return "copy" if row.moves.agent else "access"
    return next((kind for kind in _OF_STEPS if kind == row.event), "mbarrier")


_GROUPS: dict[str, Group] = {
    "arrive": "arrive", "arrive_on": "arrive", "sync": "wait", "await": "wait", "landed": "group", "commit": "group",
    "atomic": "atomic", "fence": "fence", "mbarrier": "object", "stop": "stop", "copy": "copy", "warp": "warp",
}  # fmt: skip
"""group of the operation for each kind of a step"""


def _operation_group(kind: str, row: Effects) -> Group:
    """Return the group of an operation in drawings."""
    if row.moves.unit == "matrix":
        return "matrix"
    return _GROUPS.get(kind) or ("store" if row.moves.writes else "load")


class _Clock:
    """Gives the events of a trace their steps."""

    def __init__(self, places: Places, traced: Trace, cta: int) -> None:
        self.places, self.cta = places, cta
        self.witness = Witness(places, traced, {cta})
        self.steps: list[Step] = []
        self.step_of: dict[int, int] = {}
        """index of its step for the position of each event"""
        self.generations: dict[tuple[int, int], Generation] = {}
        self._ready: defaultdict[int, int] = defaultdict(int)
        self._free: defaultdict[tuple[str, int], int] = defaultdict(int)
        """first step in which a barrier, or the address of an atomic, may be used again"""
        self._exited: set[int] = set()
        self._copies: dict[int, Copy] = {}
        """copies by the numbers of their steps"""
        self._pending: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        """steps of copies that a wait for groups ends, by (warp, kind of group)"""
        self._credits: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """phases that count the bytes of a step's copies, by step"""
        self._uses = SharedUses()
        self._execution: tuple[tuple[int, int], set[str], int] = (-1, -1), set(), -1
        """(warp, instruction), kinds of events so far, step: of the last asynchronous operation"""
        for position, event in enumerate(self.witness.events):
            self._apply(position, event)
        self._stop()
        self._wait_for_ever()

    def _apply(self, position: int, event: Event) -> None:
        self._enter_use(event)
        if event.kind == "complete":
            self._complete(event)
        elif event.kind == "exit":
            self._exited.add(event.warp)
        elif event.kind == "phase":
            self._end_of_phase(event)
        elif event.kind in (*OF_PHASES, "copy", "landed"):
            self._asynchronous(position, event)
        else:
            self._execution = (-1, -1), set(), -1
            self.step_of[position] = len(self.steps)
            self._step(event)

    def _enter_use(self, event: Event) -> None:
        """Record which shared memory an access or a copy uses."""
        if event.kind not in ("access", "copy"):
            return
        moves = effects_of(self.places.operation(event.pc)).moves
        to, source = event.place, event.generation if moves.agent else event.place
        if moves.agent and not moves.writes:
            source = event.place  # a matrix operand that is read in place
        for address, used, writes in ((to, moves.writes, True), (source, moves.reads, False)):
            if used and address >> SEGMENT_SHIFT == SHARED:
                self._uses.enter(event.warp, address, event.amount, writes=writes)

    # -- mbarriers and copies -----------------------------------------------------------------------------------------

    def _asynchronous(self, position: int, event: Event) -> None:
        """Add an operation on an mbarrier, a copy, or a wait for copies.  One execution of an instruction is one
        step."""
        row = effects_of(self.places.operation(event.pc))
        instruction, kinds, number = self._execution
        if instruction != (event.warp, event.pc) or (event.kind in kinds and self.witness.begins(position)):
            number = len(self.steps)
            self._execution = (event.warp, event.pc), {event.kind}, number
            self._begin(event, _step_kind(row))
        kinds.add(event.kind)
        self.step_of[position] = number
        if event.kind == "copy" and row.moves.agent:
            self._issue(event, number, row.group)
        elif event.kind == "landed" and not event.generation:
            self._end(self._pending.pop((event.warp, row.group), []), self.steps[number].at + 1)
        elif event.kind in OF_PHASES:
            self._count(event, number)

    def _begin(self, event: Event, kind: Kind) -> None:
        at = self._ready[event.warp]
        of_phase = event.kind in OF_PHASES
        if of_phase and kind != "await":
            at = max(at, self._free["mbarrier", event.place])
        until = at + 1
        if kind == "await":
            generation = self.generations.get((event.place, event.generation))
            until = max(until, generation.until or 0) if generation else until
        self._ready[event.warp] = until
        place = (event.place, event.generation) if of_phase and kind != "copy" else ()
        self.steps.append(Step(event.warp, at, until, kind, event.pc, *place))

    def _count(self, event: Event, number: int) -> None:
        """Count an operation in its phase."""
        step, key = self.steps[number], (event.place, event.generation)
        if event.kind in ("init", "inval") or (event.kind == "await" and key not in self.generations):
            return  # parity 1 of a new mbarrier: this phase does not exist
        phase = self.generations.setdefault(key, Generation(*key, step.at, step.at))
        if event.kind != "await":
            phase.first, phase.last = min(phase.first, step.at), max(phase.last, step.at)
        if number not in phase.steps:
            phase.steps.append(number)
        if event.kind == "arrive_on":
            phase.arrivals += event.amount
        elif event.kind == "credit":
            phase.bytes += event.amount
            self._credits[number].append(key)

    def _issue(self, event: Event, number: int, group: str) -> None:
        if number in self._copies:
            copy = self._copies[number]
            self._copies[number] = copy._replace(bytes=copy.bytes + event.amount)
            return
        step = self.steps[number]
        self._copies[number] = Copy(event.warp, step.at, None, event.pc, event.amount)
        if group:
            self._pending[event.warp, group].append(number)

    def _end(self, copies: Iterable[int], until: int) -> None:
        for n in copies:
            self._copies[n] = self._copies[n]._replace(until=max(until, self._copies[n].at + 1))

    def _end_of_phase(self, event: Event) -> None:
        phase = self.generations.get((event.place, event.generation))
        if phase is not None:  # else its operations are left out
            phase.until = self._free["mbarrier", event.place] = phase.last + 1

    def copies(self) -> list[Copy]:
        """Return all copies.  Copies that credit mbarriers end with the phases that count their bytes."""
        for number, keys in self._credits.items():
            ends = [self.generations[key].until for key in keys]
            if number in self._copies and None not in ends:
                self._end([number], max(end for end in ends if end is not None))
        return [*self._copies.values()]

    def _wait_for_ever(self) -> None:
        """Add the waits of a deadlock for phases and registers, which have no event."""
        from wsemu.checkers import setmaxnreg

        outcome = self.places.outcome
        if (outcome.cta, outcome.status) != (self.cta, "deadlock") or not self.witness.complete:
            return
        for wait in outcome.phase_waits:
            self._add_waiting_step(wait.warp, wait.pc, wait.address, wait.phase)
        for warp, pc in setmaxnreg.waiting(self.places).items():
            self._add_waiting_step(warp, pc)

    def _add_waiting_step(self, warp: int, pc: int, address: int = -1, phase: int = -1) -> None:
        self.step_of[len(self.witness.events) + 1 + len(self.steps)] = len(self.steps)
        if (address, phase) in self.generations:
            self.generations[address, phase].steps.append(len(self.steps))
        self.steps.append(Step(warp, self._ready[warp], None, "await", pc, address, phase))
        self._ready[warp] += 1

    def mbarriers(self) -> dict[int, str]:
        """Return the mbarriers that were used, by address."""
        used = {step.barrier: step.pc for step in self.steps if step.kind in ("arrive_on", "await", "mbarrier")}
        used |= {key[0]: self.steps[g.steps[0]].pc for key, g in self.generations.items() if key[0] >> SEGMENT_SHIFT}
        return {address: self.places.element(address, used[address]) for address in sorted(used) if address >= 0}

    def _stop(self) -> None:
        """Add the operation at which the run was stopped, which has no event."""
        outcome = self.places.outcome
        if outcome.cta == self.cta and outcome.status in _STOPPED and self.witness.complete:
            at = self._ready[outcome.fault_warp]
            self._ready[outcome.fault_warp] = at + 1
            self.step_of[len(self.witness.events)] = len(self.steps)
            self.steps.append(Step(outcome.fault_warp, at, at + 1, "stop", outcome.fault_pc))

    def _step(self, event: Event) -> None:
        fence = event.kind.startswith("fence") or event.kind == "proxy"
        kind: Kind = "fence" if fence else event.kind  # type: ignore[assignment]
        at = self._ready[event.warp]
        if kind in ("arrive", "sync", "atomic"):
            key = ("atomic" if kind == "atomic" else "barrier", event.place)
            at = max(at, self._free[key])
            if kind == "atomic":
                self._free[key] = at + 1
        self._ready[event.warp] = at + 1
        if kind not in ("arrive", "sync"):
            self.steps.append(Step(event.warp, at, at + 1, kind, event.pc))
            return
        generation = self.generations.setdefault(
            (event.place, event.generation), Generation(event.place, event.generation, at, at)
        )
        generation.first, generation.last = min(generation.first, at), max(generation.last, at)
        generation.steps.append(len(self.steps))
        until = at + 1 if kind == "arrive" else None
        self.steps.append(Step(event.warp, at, until, kind, event.pc, event.place, event.generation))

    def _complete(self, event: Event) -> None:
        """Release the waiting warps.  If an exit completed the generation (B7), they continue no earlier than the last
        operation of the exiting warp."""
        generation = self.generations.get((event.place, event.generation))
        if generation is None:  # its operations are left out
            return
        last = max(generation.last, self._ready[event.warp] - 1) if event.warp in self._exited else generation.last
        generation.until = self._free["barrier", event.place] = last + 1
        for number in generation.steps:
            step = self.steps[number]
            if step.kind == "sync":
                self.steps[number] = step._replace(until=last + 1)
                self._ready[step.warp] = max(self._ready[step.warp], last + 1)

    def warps(self) -> tuple[Warp, ...]:
        """Return all warps of the block, including those without an operation."""
        x, y, z = self.places.block
        count = -(-x * y * z // LANES)
        stuck = {step.warp for step in self.steps if step.until is None}
        length = max(self._ready.values(), default=0) + bool(stuck)  # a wait that never ends is seen to wait
        does = self._uses.roles(range(count))
        return tuple(
            Warp(
                n,
                self.witness.role(self.cta, n),
                length if n in stuck and n not in self._exited else self._ready[n],
                n in self._exited,
                does[n],
            )
            for n in range(count)
        )

    def places_of_steps(self) -> dict[int, Place]:
        found: dict[int, Place] = {}
        for position, number in self.step_of.items():
            pc = self.steps[number].pc
            if pc not in found:
                span = self.places.span(pc)
                group = _operation_group(self.steps[number].kind, effects_of(self.places.operation(pc)))
                found[pc] = Place(self._text(position, self.steps[number]), span.file, span.line, group)
        return found

    def _text(self, position: int, step: Step) -> str:
        if step.kind in ("access", "atomic"):
            text = self.places.access_text(step.pc, self.witness.events[position].place)
            named = self.places.program.array_of[step.pc]
            if named and not self.places.source(step.pc).access(self.places.span(step.pc)):
                text = text if text.startswith(f"{named}[") else named  # its first lane may lie outside
            return f"{effects_of(self.places.operation(step.pc)).noun or self.places.verb(step.pc)} {text}"
        if step.kind == "copy":
            return f"{self.places.operation(step.pc)} {self.places.element(self._destination(position), step.pc)}"
        return self.places.operation(step.pc)

    def _destination(self, position: int) -> int:
        """Return the destination of the copies whose first event is at a position."""
        events = self.witness.events
        return next(e.place for e in events[position:] if e.kind == "copy" and e.pc == events[position].pc)

    # -- findings -----------------------------------------------------------------------------------------------------

    def marks(self, report: Report) -> Iterable[Mark]:
        """Yield the operations of this CTA that belong to the first findings.  Costs have a picture of their own."""
        for number, finding in enumerate(report.findings[:MOST_SHOWN]):
            found = self._waits() if finding.code == "deadlock" else self._parts(finding)
            for part, position in found:
                if position in self.step_of:
                    yield Mark(number, part, self.step_of[position])

    def _waits(self) -> list[tuple[int, int | None]]:
        """Return the positions at which the warps of a deadlock wait."""
        if self.cta != self.places.outcome.cta:
            return []
        waits = {n for n, step in enumerate(self.steps) if step.until is None}
        return [(0, position) for position, n in self.step_of.items() if n in waits]

    def _parts(self, finding: Finding) -> list[tuple[int, int | None]]:
        raw = next((raw for raw in self.places.outcome.findings if self._was_explained_by(raw, finding)), None)
        if raw is None:
            return []
        if raw.code in ("race", "intra-warp-race"):
            from wsemu.checkers.conflict import conflict

            found = conflict(raw, self.places, self.witness)
            return [
                (part, side.position)
                for part, side in ((1, found.first), (2, found.second))
                if side.access.cta == self.cta and side.access.pc >= 0
            ]
        if raw.cta != self.cta:
            return []
        if raw.code in _OF_TWO and raw.other_pc >= 0:
            return [(1, self._earlier_position(raw)), (2, self._position(raw))]
        if raw.code == "barrier-recycling":
            ends = self.witness.endings
            pair = ((1, raw.other_warp, raw.detail["other_interval"]), (2, raw.warp, raw.detail["interval"]))
            return [(part, ends.get((self.cta, warp, interval))) for part, warp, interval in pair]
        return [(0, self._position(raw))]

    def _earlier_position(self, raw: RawFinding) -> int | None:
        """Return the position of (1) in a finding about two operations: its last execution before (2), at the same
        location."""
        second = self._position(raw)
        events = self.witness.events[: len(self.witness.events) if second is None else second]
        mine = (n for n, e in enumerate(events) if (e.warp, e.pc) == (raw.other_warp, raw.other_pc))
        own = [n for n in mine if n in self.step_of]
        there = [n for n in own if events[n].place == raw.detail.get("address")] or own
        return there[-1] if there else None

    def _was_explained_by(self, raw: RawFinding, finding: Finding) -> bool:
        """Return whether a raw finding was explained by this finding."""
        if raw.code != finding.code:
            return False
        operations = ((raw.pc, raw.warp), (raw.other_pc, raw.other_warp))
        sites = {(site.file, site.line, site.column, site.warp) for site in finding.places}
        spans = [(self.places.span(pc), warp) for pc, warp in operations if pc >= 0]
        return all((span.file, span.line, span.column + 1, warp) in sites for span, warp in spans)

    def _position(self, raw: RawFinding) -> int | None:
        """Return the position in the trace of a finding's operation, if the finding is about one.

        An access outside of memory is not recorded: another access of the same source location then represents it.
        Return None if the run stopped before it.
        """
        stopped = self.steps[-1] if self.steps and self.steps[-1].kind == "stop" else None
        if stopped is not None and (stopped.pc, stopped.warp) == (raw.pc, raw.warp):
            return len(self.witness.events)
        own = [n for n, e in enumerate(self.witness.events) if e.warp == raw.warp and n in self.step_of]
        found = [n for n in own if self.witness.events[n].pc == raw.pc]
        if not found:
            own = [n for n in own if self.witness.events[n].kind in ("access", "atomic")]
            pcs = {pc for pc in {self.witness.events[n].pc for n in own} if self._share_line(pc, raw.pc)}
            alike = {pc for pc in pcs if self.places.verb(pc) == self.places.verb(raw.pc)}
            found = [n for n in own if self.witness.events[n].pc in (alike or pcs)]
        for name, value in (("barrier", "place"), ("generation", "generation"), ("phase", "generation")):
            if name in raw.detail:
                found = [n for n in found if getattr(self.witness.events[n], value) == raw.detail[name]] or found
        if "address" in raw.detail:
            reached = [n for n in found if self.witness.reaches(self.witness.events[n], raw.detail["address"])]
            found = reached or found
        return found[0] if found else None

    def _share_line(self, pc: int, other: int) -> bool:
        """Return whether two instructions are in one line."""
        one, two = self.places.span(pc), self.places.span(other)
        return (one.file, one.line) == (two.file, two.line)
