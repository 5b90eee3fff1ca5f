"""Happens-before in a launch with asynchronous operations: every lane has clocks of its own, and so has every agent.

`actor`  A lane of the CTA, or an agent: an asynchronous operation, which a lane issues and which runs by itself.
`time`   For a warp: counts its operations that observers can distinguish; an epoch of a lane is (lane, time).  An agent
         has two epochs: it has read its source, and it has written.
`H`      What a lane has observed: the time of every lane, and the epochs of every agent.
`A`      The part of H that is visible to the asynchronous proxy, for shared memory and for all else: `fence.proxy` adds
         to it.
`R`      The part of H that was released to the tensormap proxy (`fence.proxy.tensormap::generic.release`).
`T`      What precedes in time, in every schedule, whether or not its effects on memory are visible.  The rules of
         phases use it.

A release publishes all of these clocks and an acquire joins all of them; relaxed arrivals and waits, and operations
that specify bytes, use only T.  An agent that completes a phase releases the T that its lane had at its issue.
Otherwise it releases only its own epochs (PTX ISA, "Causality order": its completion is ordered after its own accesses
only), and not into A.  Operations of the asynchronous proxy are ordered with each other by H. The writes of `cp.async`,
which are in the generic proxy, also need a proxy fence.  Named barriers, exits and warp-wide operations order as in
`proof.happens_before`, lane by lane from the start.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import LANES, SHARED
from wsemu.model.outcome import ALL_LANES, FENCES
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from wsemu.model.grid import Grouping
    from wsemu.model.outcome import Event, EventKind

Actor = tuple[int, int]
"""(CTA, warp)"""
HAS_READ, HAS_WRITTEN = 0, 1
"""epochs of an agent: after its reads, after its writes"""
ALL_CTAS = -1


class Mark(NamedTuple):
    """The time at which a lane of a warp, numbered in the group, executed `pc`; with `agent`, the time at which that
    agent had written."""

    pc: int
    warp: int
    lane: int
    time: int
    agent: int = -1


class Known:
    """A vector clock: for each lane, its last time that precedes now; for each agent, its epochs that precede now."""

    __slots__ = ("agents", "lanes")

    def __init__(self, lanes: int) -> None:
        self.lanes = np.zeros(lanes, np.int64)
        self.agents = 0
        """two bits for each agent: one if it has read its source, one if it has written"""

    def join(self, other: Known) -> None:
        """Add everything that another clock contains."""
        np.maximum(self.lanes, other.lanes, out=self.lanes)
        self.agents |= other.agents

    def assign(self, other: Known) -> None:
        """Replace this clock by another one."""
        self.lanes[:] = other.lanes
        self.agents = other.agents

    def includes_lane(self, warp: int, lane: int, time: int) -> bool:
        """Return whether the operation of a lane at a time has been observed."""
        return bool(self.lanes[warp * LANES + lane] >= time)

    def includes_agent(self, agent: int, what: int) -> bool:
        """Return whether an epoch of an agent has been observed."""
        return bool(self.agents >> (2 * agent + what) & 1)

    def of(self, mark: Mark) -> bool:
        if mark.agent >= 0:
            return self.includes_agent(mark.agent, HAS_WRITTEN)
        return self.includes_lane(mark.warp, mark.lane, mark.time)


class Clocks:
    """The clocks of a thread: what it has observed, the part that is visible to the asynchronous proxy, and what
    precedes it in time."""

    __slots__ = ("all", "came", "elsewhere", "fenced_tensor", "published_tensor", "released", "shared")

    def __init__(self, lanes: int) -> None:
        self.all, self.came = Known(lanes), Known(lanes)
        self.shared, self.elsewhere = Known(lanes), Known(lanes)
        self.released: dict[int, Known] = {}
        """receiver (a CTA, or ALL_CTAS) -> what has been released to the tensormap proxy of the receiver"""
        self.published_tensor = 0
        """epochs of operations on tensor memory whose completion a release or `before_thread_sync` has published"""
        self.fenced_tensor = 0
        """epochs that `after_thread_sync` has ordered before later operations on tensor memory"""

    def join(self, other: Clocks) -> None:
        """Add everything that other clocks contain."""
        self.all.join(other.all)
        self.came.join(other.came)
        self.shared.join(other.shared)
        self.elsewhere.join(other.elsewhere)
        for goal, known in other.released.items():
            self.release(goal, known)
        self.published_tensor |= other.published_tensor
        self.fenced_tensor |= other.fenced_tensor

    def orders_tensor(self, agent: int) -> bool:
        """Return whether an operation on tensor memory is complete before later ones of this thread."""
        return bool((self.all.agents | self.fenced_tensor) >> (2 * agent + HAS_WRITTEN) & 1)

    def publish_tensor(self) -> None:
        """Publish the known operations on tensor memory (PTX ISA, "tcgen05.fence": before_thread_sync)."""
        self.published_tensor |= self.all.agents | self.fenced_tensor

    def release(self, goal: int, known: Known) -> None:
        """Record a release to the tensormap proxy, of a CTA or of all CTAs."""
        if goal not in self.released:
            self.released[goal] = Known(len(known.lanes))
        self.released[goal].join(known)

    def complete(self, agents: int, issued: Clocks) -> None:
        """Add the epochs of completed agents, whose issuer had the clocks `issued`."""
        self.all.agents |= agents
        self.came.join(issued.came)
        self.came.agents |= agents

    def async_visible(self, segment: int) -> Known:
        """Return the accesses visible to the asynchronous proxy at addresses of a segment."""
        return self.shared if segment == SHARED else self.elsewhere


PROXY_FENCES = {
    "async": ("shared", "elsewhere"),
    "async.global": ("elsewhere",),
    "async.shared::cta": ("shared",),
    "async.shared::cluster": ("shared",),
}
"""kind of a proxy fence -> the clocks that it sets to H"""


@dataclass(slots=True)
class _Generation:
    """The current generation of a named barrier."""

    given: Clocks
    syncs: list[tuple[int, int]] = field(default_factory=list)
    """(warp, lanes) that wait"""
    uncounted: bool = False

    @classmethod
    def of(cls, lanes: int) -> _Generation:
        """Return a generation without participants."""
        return cls(Clocks(lanes))


class _Group:
    """The lanes and agents of a group of CTAs with a given number of warps, numbered in the group."""

    def __init__(self, warps: int) -> None:
        self.size = warps * LANES
        self.clocks = [Clocks(self.size) for _ in range(self.size)]
        self.intervals = [1] * warps
        self.times = [1] * warps
        self.ended: list[list[int]] = [[] for _ in range(warps)]
        """for each warp, the times at which its intervals ended"""
        self.whole = [ALL_LANES] * warps
        self.open: defaultdict[tuple[int, int], _Generation] = defaultdict(partial(_Generation.of, self.size))
        """released clocks by (CTA, barrier)"""
        self.exited: defaultdict[int, Clocks] = defaultdict(partial(Clocks, self.size))
        """clocks of exited threads, by CTA"""
        self.gone: set[int] = set()
        self.agents = 0


class ThreadOrder:
    """The clocks of all lanes of a launch, used instead of `HappensBefore` if there are asynchronous operations.

    `warps` is the number of warps in a CTA of the `groups`.  `uncounted` and `lockstep` are as in `HappensBefore`; in
    lockstep, the lanes of a warp have observed everything that the others did.
    """

    def __init__(self, groups: Grouping, warps: int, uncounted: Container[int], *, lockstep: bool) -> None:
        self._grouping = groups
        self._warps = warps
        self._uncounted = uncounted
        self._lockstep = lockstep
        self._alive: dict[int, _Group] = {}
        self._rules: dict[EventKind, Callable[[_Group, Event], None]] = {
            "arrive": self._arrive,
            "sync": self._sync,
            "complete": self._complete,
            "exit": self._exit,
            "warp": self._warp,
            **dict.fromkeys(FENCES, self._fence),
        }

    def _of(self, cta: int) -> _Group:
        group = self._grouping.of(cta)[0]
        if group not in self._alive:
            self._alive[group] = _Group(self._grouping.members * self._warps)
        return self._alive[group]

    def number(self, actor: Actor) -> int:
        """Return the number of a warp in its group."""
        return self._grouping.of(actor[0])[1] * self._warps + actor[1]

    def set_lanes(self, actor: Actor, lanes: int) -> None:
        """Set the lanes of a warp from its start: the last warp of a CTA may have fewer."""
        self._of(actor[0]).whole[self.number(actor)] = lanes

    def end(self, group: int) -> None:
        """End a group of CTAs, whose clocks are not needed any more."""
        self._alive.pop(group, None)

    # -- questions ----------------------------------------------------------------------------------------------------

    def interval(self, actor: Actor) -> int:
        """Return the current interval of a warp."""
        return self._of(actor[0]).intervals[self.number(actor)]

    def time(self, actor: Actor) -> int:
        """Return the current time of a warp."""
        return self._of(actor[0]).times[self.number(actor)]

    def size(self, cta: int) -> int:
        """Return the number of lanes of a CTA's group, including the missing lanes of each CTA's last warp."""
        return self._of(cta).size

    def clocks(self, actor: Actor, lane: int) -> Clocks:
        """Return the clocks of a lane now, which include its own current time."""
        group, warp = self._of(actor[0]), self.number(actor)
        first = warp * LANES
        own = group.clocks[first + lane]
        here = slice(first, first + LANES) if self._lockstep else first + lane
        own.all.lanes[here] = own.came.lanes[here] = group.times[warp]
        return own

    def has_lane_clocks(self, cta: int, lanes: int = ALL_LANES) -> bool:
        """Return true: lanes always have clocks of their own."""
        return True

    def before(self, epoch: tuple[int, int, int], actor: Actor) -> bool:
        """Return whether what each lane of a warp did at a barrier that ended an interval precedes what each lane of an
        actor does now."""
        cta, warp, interval = epoch
        lanes = range(LANES)
        return all(
            self.lane_happens_before((cta, warp), interval, one, actor, other) for one in lanes for other in lanes
        )

    def lane_happens_before(self, actor: Actor, interval: int, lane: int, later: Actor, later_lane: int) -> bool:
        """Return whether what a lane did at a barrier that ended an interval of its warp precedes what another lane of
        the CTA does now."""
        warp = self.number(actor)
        ended = self._of(actor[0]).ended[warp][interval - 1]
        return self.clocks(later, later_lane).came.includes_lane(warp, lane, ended)

    # -- what happens -------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Apply an operation that `HappensBefore` also models."""
        rule = self._rules.get(event.kind)
        if rule is not None:
            rule(self._of(event.cta), event)

    def give(self, actor: Actor, lanes: int, to: Clocks) -> None:
        """Release to `to` what some lanes of a warp have observed and done."""
        for lane in list_lanes(lanes & ALL_LANES):
            to.join(self.clocks(actor, lane))
        to.publish_tensor()

    def take(self, actor: Actor, lanes: int, given: Clocks) -> None:
        """Join released clocks into the clocks of some lanes."""
        group, first = self._of(actor[0]), self.number(actor) * LANES
        for lane in list_lanes(self._sharing_lanes(actor, lanes)):
            group.clocks[first + lane].join(given)

    def take_time(self, actor: Actor, lanes: int, given: Clocks) -> None:
        """Order some lanes of a warp after a release, but only in time."""
        group, first = self._of(actor[0]), self.number(actor) * LANES
        for lane in list_lanes(self._sharing_lanes(actor, lanes)):
            group.clocks[first + lane].came.join(given.came)
            group.clocks[first + lane].published_tensor |= given.published_tensor

    def converge(self, actor: Actor, lanes: int) -> None:
        """Order each of some lanes of a warp after everything that any of them did until now, but only in time."""
        clocks = [self.clocks(actor, lane).came for lane in list_lanes(lanes)]
        met = Known(self.size(actor[0]))
        for came in clocks:
            met.join(came)
        for came in clocks:
            came.join(met)

    def complete_agents(self, actor: Actor, lane: int, agents: int) -> None:
        """Let a lane observe these epochs of agents."""
        group, first = self._of(actor[0]), self.number(actor) * LANES
        for other in list_lanes(self._sharing_lanes(actor, 1 << lane)):
            clocks = group.clocks[first + other]
            clocks.complete(agents, clocks)

    def fence_proxy(self, actor: Actor, lanes: int, kind: str) -> None:
        """Make what each of some lanes of a warp has observed visible to the asynchronous proxy."""
        for lane in list_lanes(self._sharing_lanes(actor, lanes)):
            clocks = self.clocks(actor, lane)
            for which in PROXY_FENCES.get(kind, ()):
                getattr(clocks, which).assign(clocks.all)

    def release_maps(self, actor: Actor, lanes: int, *, widely: bool) -> None:
        """Release what each of some lanes has observed to the tensormap proxy, of all CTAs or only of their own."""
        for lane in list_lanes(self._sharing_lanes(actor, lanes)):
            clocks = self.clocks(actor, lane)
            for goal in (actor[0], ALL_CTAS) if widely else (actor[0],):
                clocks.release(goal, clocks.all)

    def fork(self, cta: int) -> int:
        """Create an agent in a CTA's group, and return it."""
        of = self._of(cta)
        of.agents += 1
        return of.agents - 1

    def next_agent(self, cta: int) -> int:
        """Return the number of the next agent of a CTA's group."""
        return self._of(cta).agents

    def join_exited(self, cta: int) -> Clocks:
        """Return the joined clocks of a CTA's exited threads."""
        return self._of(cta).exited[cta]

    def tick(self, actor: Actor) -> None:
        """Advance the time of a warp, which separates its later accesses from earlier ones."""
        self._of(actor[0]).times[self.number(actor)] += 1

    def begin_interval(self, actor: Actor) -> None:
        """Begin an interval of a warp, after it released or acquired something."""
        group, warp = self._of(actor[0]), self.number(actor)
        group.ended[warp].append(group.times[warp])
        group.intervals[warp] += 1
        self.tick(actor)

    def _sharing_lanes(self, actor: Actor, lanes: int) -> int:
        """Return some lanes together with the lanes that share their clocks."""
        lanes &= ALL_LANES
        return self._of(actor[0]).whole[self.number(actor)] if self._lockstep and lanes else lanes

    # -- named barriers and warps -------------------------------------------------------------------------------------

    def _all_lanes(self, event: Event) -> int:
        """Return all lanes of an event's warp, including exited ones."""
        actor = event.cta, event.warp
        return self._of(event.cta).whole[self.number(actor)]

    def _give(self, group: _Group, event: Event) -> _Generation:
        generation = group.open[event.cta, event.place]
        self.give((event.cta, event.warp), event.lanes & self._all_lanes(event), generation.given)
        generation.uncounted |= event.pc in self._uncounted
        return generation

    def _arrive(self, group: _Group, event: Event) -> None:
        self._give(group, event)
        self.begin_interval((event.cta, event.warp))

    def _sync(self, group: _Group, event: Event) -> None:
        self._give(group, event).syncs.append((event.warp, event.lanes & self._all_lanes(event)))
        if event.lanes != ALL_LANES:
            self.begin_interval((event.cta, event.warp))

    def _complete(self, group: _Group, event: Event) -> None:
        generation = group.open.pop((event.cta, event.place), None) or _Generation.of(group.size)
        by_exit = self.number((event.cta, event.warp)) in group.gone  # true if this warp's exit completed the barrier
        if generation.uncounted or by_exit:
            generation.given.join(group.exited[event.cta])
        for warp, lanes in generation.syncs:
            self.take((event.cta, warp), lanes, generation.given)
            self.begin_interval((event.cta, warp))

    def _exit(self, group: _Group, event: Event) -> None:
        actor = event.cta, event.warp
        group.gone.add(self.number(actor))
        self.give(actor, self._all_lanes(event), group.exited[event.cta])

    def _warp(self, group: _Group, event: Event) -> None:
        actor = event.cta, event.warp
        met = Clocks(group.size)
        members = event.place & self._all_lanes(event)
        self.give(actor, members, met)
        self.take(actor, members, met)
        self.begin_interval(actor)

    def _fence(self, group: _Group, event: Event) -> None:
        self.begin_interval((event.cta, event.warp))
