"""A traced run as a time line: each event gets its step, each finding its operations.

The rules of the steps are those of `wsemu.timeline`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from wsemu.bytecode import LANES, NAMES, OPERATIONS
from wsemu.cost_view import bank_pictures, line_costs
from wsemu.errors import UsageError
from wsemu.finding import MOST_SHOWN
from wsemu.timeline import Generation, Kind, Mark, Place, Step, Timeline, Warp
from wsemu.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from wsemu.finding import Finding, Report
    from wsemu.outcome import Event, RawFinding, Status, Trace, Tracer
    from wsemu.places import Places

MOST_EVENTS = 200_000
"""of a time line; later ones are left out"""
_STOPPED: tuple[Status, ...] = ("fault", "trap", "stack")
"""how a run ends at an operation of one warp"""


def trace(
    kernel: Any, grid: Any, block: Any, args: Sequence[Any] = (), *, cta: int | None = None, **options: Any
) -> Timeline:
    """Check a launch as `wsemu.check` does, with its options, and return the time line of one CTA: the one with linear
    index `cta`, else that of the first finding, else the first.

    In a notebook the result shows itself; its `report` is what `check` returns.
    """
    from wsemu import check as check_function
    from wsemu.check import traceable

    made: list[Timeline] = []

    def look(report: Report, places: Places, tracer: Tracer) -> None:
        made.append(build(report, places, tracer, cta))

    traceable.append(look)
    try:
        check_function(kernel, grid, block, args, **options)
    finally:
        traceable.remove(look)
    return made[-1]


def build(report: Report, places: Places, tracer: Tracer, cta: int | None = None) -> Timeline:
    """The time line of a launch that was checked; UsageError where it has no CTA of this number."""
    chosen = _first_cta(report, places) if cta is None else cta
    total = places.grid[0] * places.grid[1] * places.grid[2]
    if not 0 <= chosen < total:
        known = "CTA 0 alone" if total == 1 else f"CTAs 0 to {total - 1:,}"
        raise UsageError(f"no CTA {chosen:,}: the grid has {known}")
    traced = tracer(_accesses(places), chosen)
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
        lines=tuple(line_costs(places)),
        banks=tuple(bank_pictures(places)),
    )


def _first_cta(report: Report, places: Places) -> int:
    """The CTA of the first finding, or where the run stopped, or the first one."""
    x, y, _ = places.grid
    for finding in report.findings:
        for site in finding.places:
            if site.cta is not None:
                return site.cta[0] + x * (site.cta[1] + y * site.cta[2])
    return max(places.outcome.cta, 0)


def _accesses(places: Places) -> frozenset[int]:
    """Loads and stores of shared and global memory; atomics are traced anyway, local arrays are registers."""
    program = places.program
    own = {array.name for array in program.locals} - {array.name for array in program.shared}
    return frozenset(
        pc
        for pc in places.outcome.accesses
        if program.array_of[pc] not in own and OPERATIONS[NAMES[int(program.code[pc, 0])]].kind != "atomic"
    )


class _Clock:
    """Gives the events of a trace their steps."""

    def __init__(self, places: Places, traced: Trace, cta: int) -> None:
        self.places, self.cta = places, cta
        self.witness = Witness(places, traced, {cta})
        self.steps: list[Step] = []
        self.step_of: dict[int, int] = {}
        """position of an event -> index of its step"""
        self.generations: dict[tuple[int, int], Generation] = {}
        self._ready: defaultdict[int, int] = defaultdict(int)
        self._free: defaultdict[tuple[str, int], int] = defaultdict(int)
        """barrier or address of an atomic -> the step from which on it may be used"""
        self._exited: set[int] = set()
        for position, event in enumerate(self.witness.events):
            self._apply(position, event)
        self._stop()

    def _apply(self, position: int, event: Event) -> None:
        if event.kind == "complete":
            self._complete(event)
        elif event.kind == "exit":
            self._exited.add(event.warp)
        else:
            self.step_of[position] = len(self.steps)
            self._step(event)

    def _stop(self) -> None:
        """The operation at which the run was stopped, which no event tells."""
        outcome = self.places.outcome
        if outcome.cta == self.cta and outcome.status in _STOPPED and self.witness.complete:
            at = self._ready[outcome.fault_warp]
            self._ready[outcome.fault_warp] = at + 1
            self.step_of[len(self.witness.events)] = len(self.steps)
            self.steps.append(Step(outcome.fault_warp, at, at + 1, "stop", outcome.fault_pc))

    def _step(self, event: Event) -> None:
        kind: Kind = "fence" if event.kind.startswith("fence") else event.kind  # type: ignore[assignment]
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
        """Release who waits; where an exit completed it (B7), not before the warp's last operation."""
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
        """All warps of the block, those without an operation too."""
        x, y, z = self.places.block
        count = -(-x * y * z // LANES)
        stuck = {step.warp for step in self.steps if step.until is None}
        length = max(self._ready.values(), default=0) + bool(stuck)  # a wait that never ends is seen to wait
        return tuple(
            Warp(
                n,
                self.witness.role(self.cta, n),
                length if n in stuck and n not in self._exited else self._ready[n],
                n in self._exited,
            )
            for n in range(count)
        )

    def places_of_steps(self) -> dict[int, Place]:
        found: dict[int, Place] = {}
        for position, number in self.step_of.items():
            pc = self.steps[number].pc
            if pc not in found:
                span = self.places.span(pc)
                found[pc] = Place(self._text(position, self.steps[number]), span.file, span.line)
        return found

    def _text(self, position: int, step: Step) -> str:
        if step.kind in ("access", "atomic"):
            text = self.places.accessed(step.pc, self.witness.events[position].place)
            named = self.places.program.array_of[step.pc]
            if named and not self.places.source(step.pc).access(self.places.span(step.pc)):
                text = text if text.startswith(f"{named}[") else named  # its first lane may lie outside
            return f"{self.places.verb(step.pc)} {text}"
        return NAMES[int(self.places.program.code[step.pc, 0])]

    # -- findings -----------------------------------------------------------------------------------------------------

    def marks(self, report: Report) -> Iterable[Mark]:
        """The operations of this CTA that the first findings are about; costs have a picture of their own."""
        for number, finding in enumerate(report.findings[:MOST_SHOWN]):
            found = self._waits() if finding.code == "deadlock" else self._parts(finding)
            for part, position in found:
                if position in self.step_of:
                    yield Mark(number, part, self.step_of[position])

    def _waits(self) -> list[tuple[int, int | None]]:
        """Where the warps of a deadlock wait."""
        if self.cta != self.places.outcome.cta:
            return []
        waits = {n for n, step in enumerate(self.steps) if step.until is None}
        return [(0, position) for position, n in self.step_of.items() if n in waits]

    def _parts(self, finding: Finding) -> list[tuple[int, int | None]]:
        raw = next((raw for raw in self.places.outcome.findings if self._is_of(raw, finding)), None)
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
        if raw.code == "barrier-recycling":
            ends = self.witness.endings
            pair = ((1, raw.other_warp, raw.detail["other_interval"]), (2, raw.warp, raw.detail["interval"]))
            return [(part, ends.get((self.cta, warp, interval))) for part, warp, interval in pair]
        return [(0, self._position(raw))]

    def _is_of(self, raw: RawFinding, finding: Finding) -> bool:
        """Whether a raw finding was explained by this finding."""
        if raw.code != finding.code:
            return False
        operations = ((raw.pc, raw.warp), (raw.other_pc, raw.other_warp))
        sites = {(site.file, site.line, site.column, site.warp) for site in finding.places}
        spans = [(self.places.span(pc), warp) for pc, warp in operations if pc >= 0]
        return all((span.file, span.line, span.column + 1, warp) in sites for span, warp in spans)

    def _position(self, raw: RawFinding) -> int | None:
        """Where the trace has the operation of a finding that is about one.

        An access that had no place in memory was left out: then another one of that place in the source stands for it.
        None where the run stopped before that.
        """
        stopped = self.steps[-1] if self.steps and self.steps[-1].kind == "stop" else None
        if stopped is not None and (stopped.pc, stopped.warp) == (raw.pc, raw.warp):
            return len(self.witness.events)
        own = [n for n, e in enumerate(self.witness.events) if e.warp == raw.warp and n in self.step_of]
        found = [n for n in own if self.witness.events[n].pc == raw.pc]
        if not found:
            own = [n for n in own if self.witness.events[n].kind in ("access", "atomic")]
            pcs = {pc for pc in {self.witness.events[n].pc for n in own} if self._beside(pc, raw.pc)}
            alike = {pc for pc in pcs if self.places.verb(pc) == self.places.verb(raw.pc)}
            found = [n for n in own if self.witness.events[n].pc in (alike or pcs)]
        for name, value in (("barrier", "place"), ("generation", "generation")):
            if name in raw.detail:
                found = [n for n in found if getattr(self.witness.events[n], value) == raw.detail[name]] or found
        if "address" in raw.detail:
            reached = [n for n in found if self.witness.reaches(self.witness.events[n], raw.detail["address"])]
            found = reached or found
        return found[0] if found else None

    def _beside(self, pc: int, other: int) -> bool:
        """Whether two instructions stand in one line."""
        one, two = self.places.span(pc), self.places.span(other)
        return (one.file, one.line) == (two.file, two.line)
