"""The launch of a replay on the reference interpreter, moved warp by warp to the operations of a schedule."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wsemu.evidence.places import Places
from wsemu.launch.replay.access import AccessRecord, look
from wsemu.model.effects import effects_of
from wsemu.model.errors import UsageError
from wsemu.model.grid import Grouping
from wsemu.model.isa import LANES
from wsemu.model.outcome import Outcome, Trace, TraceRequest
from wsemu.reference.matrix import warpgroup
from wsemu.reference.memory.shadow import Options
from wsemu.reference.run import CtaGroup, Launch
from wsemu.reference.warp import WarpRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.model.bound import Bound
    from wsemu.model.finding import Step
    from wsemu.model.outcome import Event, Status
    from wsemu.reference.run import Cta
    from wsemu.reference.state import Warp
    from wsemu.reference.undefined import Undefined

_OF_BARRIERS = ("arrive", "sync", "exit")
"""words of steps, as in `isa.step_word`, that are kinds of events as well"""


def _event_kind(does: str) -> str:
    """Return the event kind of a step; steps that are not operations on an object are accesses."""
    return does if does in _OF_BARRIERS else effects_of(does).event or "access"


class ReplayError(UsageError):
    """The launch does not follow the schedule."""


def linear(step: Step, grid: tuple[int, int, int]) -> int:
    """Return the linear index of a step's CTA."""
    x, y, z = step.cta
    return (z * grid[1] + y) * grid[0] + x


class Machine:
    """The launch on the reference interpreter, advanced warp by warp.  Its arrays are copies."""

    def __init__(
        self,
        bound: Bound,
        steps: Sequence[Step],
        budget: int,
        *,
        races: bool = False,
        undefined: Undefined | None = None,
    ) -> None:
        configuration = bound.configuration
        self.grid = configuration.grid
        wanted = TraceRequest(frozenset(step.instruction for step in steps))
        options = Options(races=races, recycling=False, uninitialized=bound.uninitialized, trace=wanted)
        self.launch = Launch(
            bound.program, Grouping(configuration.grid, bound.group), configuration.block, bound.rows,
            [(data.copy(), writable) for data, writable in bound.segments],
            configuration.dynamic_shared, budget, options, clusters=configuration.cluster != (1, 1, 1),
        )  # fmt: skip
        self.launch.undefined = undefined
        outcome = Outcome("done", group=bound.group, window=self.launch.window)
        self.places = Places(bound.program, configuration.grid, configuration.block, outcome, bound.arrays)
        self._ctas: dict[int, Cta] = {}
        self._events: list[Event] = []
        """events of the replay other than accesses"""
        self._counts: Counter[tuple[str, int, int, int]] = Counter()

    def cta(self, step: Step) -> Cta:
        """Return the CTA of a step.  It starts when its first step is executed."""
        return self.begin_cta(linear(step, self.grid))

    def begin_cta(self, number: int) -> Cta:
        if number not in self._ctas:
            group = CtaGroup(self.launch, self.launch.grouping.of(number)[0])
            self._ctas |= {cta.number: cta for cta in group.ctas}
        return self._ctas[number]

    def advance(self, cta: Cta, warp: Warp) -> list[Event]:
        """Execute one instruction of a warp that can run.  Return the operations that it performed."""
        trace = self.launch.watch.trace
        assert trace is not None
        WarpRun(cta, warp).step()
        events, trace.events = trace.events, []
        self._events += [event for event in events if event.kind != "access"]
        for key in {
            (event.kind, event.cta, event.warp, event.pc) for event in events
        }:  # there may be an event per lane or object
            self._counts[key] += 1
        return events

    def execution_count(self, cta: Cta, warp: Warp, pc: int) -> int:
        """Return the number of times that a warp has executed an access."""
        return max(self._counts[kind, cta.number, warp.number, pc] for kind in ("access", "copy"))

    def until(self, step: Step) -> tuple[Step, AccessRecord | None]:
        """Run a warp until it has executed the operation of a step.  Return the executed step, and the record of an
        access."""
        cta = self.cta(step)
        warp, kind = cta.warps[step.warp], _event_kind(step.does)
        while WarpRun(cta, warp).able() or self._joined_by_its_group(cta, warp):
            WarpRun(cta, warp).resume()
            here = warp.ready[-1].pc == step.instruction and kind in ("access", "copy")
            sees = look(WarpRun(cta, warp)) if here else None
            for event in self.advance(cta, warp):
                key = (kind, cta.number, step.warp, step.instruction)
                if (event.kind, event.cta, event.warp, event.pc) == key and step.nth in (0, self._counts[key]):
                    return self._as_made(step, event, cta), sees and sees()
        line = self.places.line(step.instruction)
        if warp.waits < 0:
            at = f"waits at line {self.places.line(warp.last_pc)}" if warp.alive else "ends"
            raise ReplayError(f"warp {step.warp} {at} before it reaches line {line}")
        barrier = cta.barriers[warp.waits]
        raise ReplayError(
            f"warp {step.warp} waits for barrier {barrier.number} generation {barrier.generation} at line "
            f"{self.places.line(warp.wait_pc)} before it reaches line {line}"
        )

    def _joined_by_its_group(self, cta: Cta, warp: Warp) -> bool:
        """Return whether a warp that waits at a commit of `wgmma` continues after the other warps of its warpgroup have
        joined it.

        Schedules do not contain the steps of these three warps, so this function runs them up to that commit.
        """
        if not warp.alive or not warpgroup.stands(cta, warp.number):
            return False
        for other in warpgroup.behind(cta, warp.number):
            late = cta.warps[other]
            while other in warpgroup.behind(cta, warp.number) and WarpRun(cta, late).able():
                WarpRun(cta, late).resume()
                self.advance(cta, late)
        return WarpRun(cta, warp).able()

    def _as_made(self, step: Step, event: Event, cta: Cta) -> Step:
        """Return a step as it was executed."""
        changes = {"line": self.places.line(event.pc)}
        if step.barrier is not None:
            barrier = cta.barriers[event.place]
            complete = barrier.generation > event.generation
            arrived = LANES * len(barrier.before) if complete else barrier.arrived
            expected = arrived if complete else barrier.expected or step.expected
            changes |= {"barrier": event.place, "generation": event.generation}
            changes |= {"arrived": arrived} if step.arrived is not None else {}
            changes |= {"expected": expected} if step.expected else {}
        return step.model_copy(update=changes)

    def run_in_order(self, cta: Cta) -> tuple[Status, Trace]:
        """Run the rest of a CTA, the lowest warp first, and record the trace.  Its state is stored in the outcome."""
        trace = self.launch.watch.trace
        assert trace is not None
        status = cta.group.run()
        self._events += trace.events
        trace.events = []
        return status, Trace(self._events)
