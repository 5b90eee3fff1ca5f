"""Accesses of a launch after its wait for earlier launches (`griddepcontrol.wait`), from its trace.

The wait orders the thread that executes it after all earlier launches are complete.  Whatever is ordered after that
thread inherits it, through barriers, mbarriers, the bytes of copies that it issued, and atomics of any order.  Nothing
of the earlier launches is left to become visible.

A CTA triggers (`griddepcontrol.launch_dependents`) when the first of its threads does, or when it ends.  Which thread
is the first one depends on the schedule, so a wait comes before the trigger only if it is ordered before each of them.
Reference: PTX ISA, "griddepcontrol"; CUDA programming guide, "Programmatic Dependent Launch".
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.isa import GRID_TRIGGER, GRID_WAIT, NAMES, OPCODE, OPERATIONS
from wsemu.model.outcome import ALL_LANES, CLUSTER_PLACE, GRID_PLACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.outcome import Event
    from wsemu.model.program import Program


def grid_operations(program: Program) -> frozenset[int]:
    """Return the instructions that wait for earlier launches, or let later ones begin."""
    code = program.code
    chosen = (code[:, 0] == OPCODE["show"]) & np.isin(code[:, 7], (GRID_WAIT, GRID_TRIGGER))
    return frozenset(np.flatnonzero(chosen).tolist())


class Dependents:
    """The waits and triggers of a launch, as its events happen."""

    def __init__(self, program: Program, cluster_of: Callable[[int], int]) -> None:
        self._program, self._cluster_of = program, cluster_of
        self.has_operations = bool(grid_operations(program))
        self._behind: defaultdict[tuple[int, int], int] = defaultdict(int)
        """(CTA, warp) -> its lanes that are after a wait"""
        self._given: set[object] = set()
        """barrier generations, phases and locations to which something after a wait gave"""
        self._syncs: defaultdict[tuple[int, int], list[tuple[object, int]]] = defaultdict(list)
        """(CTA, warp) -> generations at which its lanes wait: they are complete when these lanes proceed"""
        self._waited: set[int] = set()
        """CTAs in which a thread waits"""
        self._first: dict[int, bool] = {}
        """CTA -> whether each of its triggers so far is after a wait"""

    @property
    def waits(self) -> bool:
        """True if a thread waits for earlier launches."""
        return bool(self._waited)

    @property
    def waits_first(self) -> bool:
        """True if a CTA waits before it triggers."""
        return any(self._first.get(cta, True) for cta in self._waited)

    @property
    def triggers(self) -> bool:
        """True if a thread lets later launches begin."""
        return bool(self._first)

    def follow(self, event: Event) -> int:
        """Apply an event; return the lanes of its warp that are after a wait then."""
        if not self.has_operations:
            return 0
        actor = (event.cta, event.warp)
        lanes = (event.place if event.kind == "warp" else event.lanes) & ALL_LANES
        if self._syncs and event.kind != "complete":
            self._proceed(actor, lanes)
        if event.kind == "access":
            self._access(event, actor)
        elif event.kind in ("arrive", "sync"):
            self._meet(event, actor, lanes)
        elif event.kind == "warp":
            self._inherit(actor, lanes, None)
        elif event.kind in ("arrive_on", "credit", "expect"):
            self._give((event.place, event.generation), actor, lanes)
        elif event.kind == "await":
            self._inherit(actor, lanes, (event.place, event.generation))
        elif event.kind == "atomic":
            self._inherit(actor, ALL_LANES, ("flag", event.place))
            self._give(("flag", event.place), actor, ALL_LANES)
        return self._behind[actor]

    def _give(self, key: object, actor: tuple[int, int], lanes: int) -> None:
        if self._behind[actor] & lanes:
            self._given.add(key)

    def _inherit(self, actor: tuple[int, int], lanes: int, key: object) -> None:
        """Lanes take what an object was given, or without one what any of them has."""
        if self._behind[actor] & lanes if key is None else key in self._given:
            self._behind[actor] |= lanes

    def _proceed(self, actor: tuple[int, int], lanes: int) -> None:
        """Lanes that waited at a barrier proceed: they take what its generation was given."""
        waiting = self._syncs.pop(actor, [])
        for key, which in waiting:
            if which & lanes:
                self._inherit(actor, which, key)
        if kept := [one for one in waiting if not one[1] & lanes]:
            self._syncs[actor] = kept

    def _access(self, event: Event, actor: tuple[int, int]) -> None:
        fields = self._program.code[event.pc]
        if OPERATIONS[NAMES[int(fields[0])]].kind != "fence":
            return
        if fields[7] == GRID_WAIT:
            self._behind[actor] |= event.lanes
            self._waited.add(event.cta)
        elif fields[7] == GRID_TRIGGER:
            behind = self._behind[actor] & event.lanes == event.lanes
            self._first[event.cta] = self._first.get(event.cta, True) and behind

    def _meet(self, event: Event, actor: tuple[int, int], lanes: int) -> None:
        """An arrival at a barrier of a CTA, a cluster or the grid."""
        group = {CLUSTER_PLACE: self._cluster_of(event.cta), GRID_PLACE: -1}.get(event.place, event.cta)
        key = (group, event.place, event.generation)
        self._give(key, actor, lanes)
        if event.kind == "sync":
            self._syncs[actor].append((key, lanes))
