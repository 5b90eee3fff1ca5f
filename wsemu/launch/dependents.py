"""Find which accesses of a launch come after its wait for earlier launches (`griddepcontrol.wait`), from its trace.

The wait orders the thread that executes it after all earlier launches are complete.  Whatever is ordered after that
thread inherits this order, through barriers, phases, the bytes of copies that it issued, and atomics with any memory
order.  All stores of the earlier launches are then visible.

A CTA triggers (`griddepcontrol.launch_dependents`) when the first of its threads does, or when it ends.  Which thread
is the first one depends on the schedule, so a wait comes before the trigger only if it is ordered before the trigger of
every thread.  A trigger orders no memory.  But some stores are *published*: a later launch that the trigger lets begin
may read them.  A store is published if barriers and phases order it before a fence of gpu scope, and order that fence
before each trigger of its CTA.  Atomics do not publish stores, because their order may differ in another schedule.  The
end of a CTA that never triggers publishes nothing.  For reads through the async proxy, a proxy fence is needed as well.
Reference: PTX ISA, "griddepcontrol"; CUDA programming guide, "Programmatic Dependent Launch".
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

import numpy as np

from wsemu.model.arch import WARP
from wsemu.model.data import NamedTuple
from wsemu.model.isa import GRID_TRIGGER, GRID_WAIT, NAMES, OPCODE, OPERATIONS
from wsemu.model.outcome import ALL_LANES, CLUSTER_PLACE, FENCES, GRID_PLACE
from wsemu.proof.taint import Analysis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.model.outcome import Event
    from wsemu.model.program import Program


_STEERING = "atomics that steer"
FLAG = "flag"
"""first item of the key of a location of atomics"""


def grid_operations(program: Program) -> frozenset[int]:
    """Return the instructions that wait for earlier launches, or let later ones begin."""
    code = program.code
    chosen = (code[:, 0] == OPCODE["show"]) & np.isin(code[:, 7], (GRID_WAIT, GRID_TRIGGER))
    return frozenset(np.flatnonzero(chosen).tolist())


class _Step(NamedTuple):
    """A step of some lanes of a warp that affects what is published."""

    kind: Literal["give", "take", "fence", "proxy", "trigger", "store"]
    actor: tuple[int, int]
    lanes: int
    key: object = None
    """for `give` and `take`, their object, or None for the warp itself; for a `store`, the number of its event"""


def published_stores(
    program: Program, events: Sequence[Event], cluster_of: Callable[[int], int]
) -> dict[int, tuple[int, int]]:
    """Return the events whose stores are published, with their lanes: stores visible to the generic proxy, and those
    visible to both proxies.

    The steps are read from the last to the first.  For each lane, the analysis keeps the triggers before which its
    remaining actions are ordered, and those with a fence in between.
    """
    steps = Dependents(program, cluster_of).record(events)
    ordered, fenced, proxied = (_Triggers() for _ in range(3))
    before = {"fence": fenced, "proxy": proxied}
    all_of: defaultdict[int, int] = defaultdict(int)
    """the triggers of each CTA, as bits"""
    number = 0
    for step in steps:
        if step.kind == "trigger":
            for _ in iterate_lanes(step.lanes):
                all_of[step.actor[0]] |= 1 << number
                number += 1
    found: dict[int, tuple[int, int]] = {}
    for step in reversed(steps):
        if step.kind == "trigger":
            for lane in iterate_lanes(step.lanes):
                number -= 1
                ordered.of(step.actor)[lane] |= 1 << number
        elif step.kind in before:
            known, mine = before[step.kind].of(step.actor), ordered.of(step.actor)
            for lane in iterate_lanes(step.lanes):
                known[lane] |= mine[lane]
        elif step.kind == "store" and (wanted := all_of[step.actor[0]]):
            lanes = fenced.lanes_with(step, wanted)
            if lanes:
                found[step.key] = lanes, lanes & proxied.lanes_with(step, wanted)  # type: ignore[index]
        elif step.kind in ("give", "take") and not _is_flag(step.key):
            for one in (ordered, fenced, proxied):
                one.pass_back(step)
    return found


def _is_flag(key: object) -> bool:
    """Return whether an object is a location of atomics, whose order may differ in another schedule."""
    return isinstance(key, tuple) and key[0] == FLAG


class _Triggers:
    """The triggers that each lane is ordered before, as bits, while the steps are read from the end."""

    def __init__(self) -> None:
        self._of: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * WARP)
        self._taken: defaultdict[object, int] = defaultdict(int)

    def of(self, actor: tuple[int, int]) -> list[int]:
        """Return the triggers of the lanes of a warp."""
        return self._of[actor]

    def lanes_with(self, step: _Step, wanted: int) -> int:
        """Return the lanes of a step that have all of some triggers."""
        mine = self._of[step.actor]
        return sum(1 << lane for lane in iterate_lanes(step.lanes) if mine[lane] & wanted == wanted)

    def pass_back(self, step: _Step) -> None:
        """Pass triggers from lanes that acquire back to lanes that released; without an object, among the lanes of one
        warp."""
        mine = self._of[step.actor]
        if step.kind == "take":
            any_of = 0
            for lane in iterate_lanes(step.lanes):
                any_of |= mine[lane]
            if step.key is not None:
                self._taken[step.key] |= any_of
                return
        else:
            any_of = self._taken[step.key]
        if any_of:
            for lane in iterate_lanes(step.lanes):
                mine[lane] |= any_of


def iterate_lanes(lanes: int) -> Iterator[int]:
    """Yield the lanes of a mask, the lowest first."""
    while lanes:
        lowest = lanes & -lanes
        yield lowest.bit_length() - 1
        lanes ^= lowest


class Dependents:
    """The waits and triggers of a launch, as its events happen."""

    def __init__(self, program: Program, cluster_of: Callable[[int], int]) -> None:
        self._program, self._cluster_of = program, cluster_of
        self.has_operations = bool(grid_operations(program))
        self._behind: defaultdict[tuple[int, int], int] = defaultdict(int)
        """lanes of each (CTA, warp) that are ordered after a wait"""
        self._given: set[object] = set()
        """barrier generations, phases and locations to which something after a wait gave"""
        self._syncs: defaultdict[tuple[int, int], list[tuple[object, int]]] = defaultdict(list)
        """generations at which lanes of each (CTA, warp) wait; a generation is complete when these lanes proceed"""
        self._waited: set[int] = set()
        """CTAs in which a thread waits"""
        self._first: dict[int, bool] = {}
        """for each CTA, true if all its triggers so far are ordered after a wait"""
        self._recorded: list[_Step] | None = None
        """steps that order stores, fences and triggers, while `published_stores` collects them"""

    @property
    def waits(self) -> bool:
        """True if some thread waits for earlier launches."""
        return bool(self._waited)

    @property
    def waits_first(self) -> bool:
        """True if some CTA waits before it triggers."""
        return any(self._first.get(cta, True) for cta in self._waited)

    @property
    def triggers(self) -> bool:
        """True if some thread lets later launches begin."""
        return bool(self._first)

    def follow(self, event: Event) -> int:
        """Apply an event.  Return the lanes of its warp that are then ordered after a wait."""
        if not self.has_operations:
            return 0
        actor = (event.cta, event.warp)
        lanes = (event.place if event.kind in ("warp", *FENCES) else event.lanes) & ALL_LANES or ALL_LANES
        if self._syncs and event.kind != "complete":
            self._proceed(actor, lanes)
        if event.kind == "access":
            self._access(event, actor)
        elif event.kind in ("arrive", "sync"):
            self._meet(event, actor, lanes)
        elif event.kind == "warp":
            self._inherit(actor, lanes, None)
        elif event.kind in ("arrive_on", "credit", "expect"):
            self._release((event.place, event.generation), actor, lanes)
        elif event.kind == "await":
            self._inherit(actor, lanes, (event.place, event.generation))
        elif event.kind == "atomic":
            if self._may_await(event):
                self._inherit(actor, ALL_LANES, (FLAG, event.place))
            self._release((FLAG, event.place), actor, ALL_LANES)
        return self._behind[actor]

    def _may_await(self, event: Event) -> bool:
        """Return whether an atomic may await another thread because its result decides what the launch does.

        The order of other atomics holds in this run only.
        """
        if (FLAG, event.place) not in self._given:
            return False
        known: dict[int, bool] = self._program.derived.setdefault(_STEERING, {})
        if event.pc not in known:
            everywhere = [1] * len(self._program.code)
            known[event.pc] = bool(Analysis(self._program, everywhere, [event.pc], None).find_tainted)
        return known[event.pc]

    def record(self, events: Sequence[Event]) -> list[_Step]:
        """Apply all events of a trace.  Return the steps that order its stores, fences and triggers."""
        self._recorded = steps = []
        for number, event in enumerate(events):
            self.follow(event)
            actor = (event.cta, event.warp)
            if event.kind in ("proxy", *FENCES[1:]):
                lanes = event.lanes if event.kind == "proxy" else event.place
                steps.append(_Step("proxy" if event.kind == "proxy" else "fence", actor, lanes & ALL_LANES))
            elif event.kind == "access" and self._kind(event) in ("store", "atomic"):
                steps.append(_Step("store", actor, event.lanes, number))
        return steps

    def _release(self, key: object, actor: tuple[int, int], lanes: int) -> None:
        if self._recorded is not None:
            self._recorded.append(_Step("give", actor, lanes, key))
        if self._behind[actor] & lanes:
            self._given.add(key)

    def _inherit(self, actor: tuple[int, int], lanes: int, key: object) -> None:
        """Let lanes acquire what an object was given; without an object, each acquires what any of the lanes has."""
        if self._recorded is not None:
            self._recorded.append(_Step("take", actor, lanes, key))
        if self._behind[actor] & lanes if key is None else key in self._given:
            self._behind[actor] |= lanes

    def _proceed(self, actor: tuple[int, int], lanes: int) -> None:
        """Let lanes that waited at a barrier proceed and acquire what its generation was given."""
        waiting = self._syncs.pop(actor, [])
        for key, which in waiting:
            if which & lanes:
                self._inherit(actor, which, key)
        if kept := [one for one in waiting if not one[1] & lanes]:
            self._syncs[actor] = kept

    def _access(self, event: Event, actor: tuple[int, int]) -> None:
        fields = self._program.code[event.pc]
        if self._kind(event) != "fence":
            return
        if fields[7] == GRID_WAIT:
            self._behind[actor] |= event.lanes
            self._waited.add(event.cta)
        elif fields[7] == GRID_TRIGGER:
            if self._recorded is not None:
                self._recorded.append(_Step("trigger", actor, event.lanes))
            behind = self._behind[actor] & event.lanes == event.lanes
            self._first[event.cta] = self._first.get(event.cta, True) and behind

    def _kind(self, event: Event) -> str:
        return OPERATIONS[NAMES[int(self._program.code[event.pc, 0])]].kind

    def _meet(self, event: Event, actor: tuple[int, int], lanes: int) -> None:
        """Apply an arrival at a barrier of a CTA, a cluster or the grid."""
        group = {CLUSTER_PLACE: self._cluster_of(event.cta), GRID_PLACE: -1}.get(event.place, event.cta)
        key = (group, event.place, event.generation)
        self._release(key, actor, lanes)
        if event.kind == "sync":
            self._syncs[actor].append((key, lanes))
