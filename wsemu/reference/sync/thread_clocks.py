"""Happens-before in a launch with asynchronous operations: every lane has clocks of its own, and so has every agent.

actor    a lane of the CTA, or an agent: an asynchronous operation, which a lane issues and which goes on by itself.
time     of a warp: counts its operations that whoever knows of them could tell apart; an epoch of a lane is (lane,
         time).  An agent has two epochs: it has read its source, and it has written.
H        what a lane knows to have happened: of every lane up to which time, of every agent which epochs.
A        what of H the asynchronous proxy may rely on, for shared memory and for all else: `fence.proxy` makes it so.
T        what came before in time, in every schedule, whether or not what it did to memory is seen.  The rules of phases
         go by it.

Whatever gives or takes does so with all four; relaxed operations at mbarriers, and those that name bytes, do so with T
alone.  An agent that completes at an mbarrier gives the T that its lane had at its issue; else it gives its own epochs
alone (PTX ISA, "Causality order": its completion is ordered after its own accesses only), and not
into A: operations of the asynchronous proxy look for each other in H, and what `cp.async` wrote, which is generic,
needs a proxy fence as well.  Named barriers, exits and warp-wide operations order as in `proof.happens_before`, lane
by lane from the start.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wsemu.model.isa import LANES, SHARED
from wsemu.model.outcome import ALL_LANES
from wsemu.reference.state import lanes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from wsemu.model.outcome import Event, EventKind

Actor = tuple[int, int]
"""(CTA, warp)"""
HAS_READ, HAS_WRITTEN = 0, 1
"""epochs of an agent"""


class Mark(NamedTuple):
    """When a lane did something, at `pc`; or, if `agent` is one, when that had written."""

    pc: int
    warp: int
    lane: int
    time: int
    agent: int = -1


class Known:
    """Of each lane of a CTA the last time, of each agent the epochs that are known to come before now."""

    __slots__ = ("agents", "lanes")

    def __init__(self, lanes: int) -> None:
        self.lanes = np.zeros(lanes, np.int64)
        self.agents = 0
        """two bits for each"""

    def join(self, other: Known) -> None:
        """Know what the other knows as well."""
        np.maximum(self.lanes, other.lanes, out=self.lanes)
        self.agents |= other.agents

    def assign(self, other: Known) -> None:
        """Know what the other knows."""
        self.lanes[:] = other.lanes
        self.agents = other.agents

    def of_lane(self, warp: int, lane: int, time: int) -> bool:
        """Whether what a lane did then is known."""
        return bool(self.lanes[warp * LANES + lane] >= time)

    def of_agent(self, agent: int, what: int) -> bool:
        """Whether it is known that an agent has read, or written."""
        return bool(self.agents >> (2 * agent + what) & 1)

    def of(self, mark: Mark) -> bool:
        if mark.agent >= 0:
            return self.of_agent(mark.agent, HAS_WRITTEN)
        return self.of_lane(mark.warp, mark.lane, mark.time)


class Clocks:
    """What is known to have happened, what of it holds for the asynchronous proxy, and what came before in time."""

    __slots__ = ("all", "came", "elsewhere", "shared")

    def __init__(self, lanes: int) -> None:
        self.all, self.came = Known(lanes), Known(lanes)
        self.shared, self.elsewhere = Known(lanes), Known(lanes)

    def join(self, other: Clocks) -> None:
        """Know what the other knows as well."""
        self.all.join(other.all)
        self.came.join(other.came)
        self.shared.join(other.shared)
        self.elsewhere.join(other.elsewhere)

    def complete(self, agents: int, issued: Clocks) -> None:
        """Agents' epochs come to be known, of agents that were issued by who knew this."""
        self.all.agents |= agents
        self.came.join(issued.came)
        self.came.agents |= agents

    def fenced(self, segment: int) -> Known:
        """What the asynchronous proxy may rely on at addresses of a segment."""
        return self.shared if segment == SHARED else self.elsewhere


FENCES = {
    "async": ("shared", "elsewhere"),
    "async.global": ("elsewhere",),
    "async.shared::cta": ("shared",),
    "async.shared::cluster": ("shared",),
}
"""kind of a proxy fence -> the clocks that it brings up to H"""


@dataclass(slots=True)
class _Generation:
    """The open generation of a named barrier."""

    given: Clocks
    syncs: list[tuple[int, int]] = field(default_factory=list)
    """(warp, lanes) that wait"""
    uncounted: bool = False


class _Cta:
    """The lanes and agents of a CTA."""

    def __init__(self, warps: int) -> None:
        self.size = warps * LANES
        self.clocks = [Clocks(self.size) for _ in range(self.size)]
        self.intervals = [1] * warps
        self.times = [1] * warps
        self.ended: list[list[int]] = [[] for _ in range(warps)]
        """of each warp the times at which its intervals ended"""
        self.whole = [ALL_LANES] * warps
        self.open: defaultdict[int, _Generation] = defaultdict(lambda: _Generation(Clocks(self.size)))
        self.exited = Clocks(self.size)
        self.gone: set[int] = set()
        self.agents = 0


class ThreadOrder:
    """The clocks of all lanes of a launch: what `HappensBefore` is for launches without asynchronous operations.

    `warps` are those of a CTA; `uncounted` and `lockstep` as there: in lockstep lanes of a warp know all of each other.
    """

    def __init__(self, warps: int, uncounted: Container[int], *, lockstep: bool) -> None:
        self._warps = warps
        self._uncounted = uncounted
        self._lockstep = lockstep
        self._ctas: dict[int, _Cta] = {}
        self._rules: dict[EventKind, Callable[[_Cta, Event], None]] = {
            "arrive": self._arrive,
            "sync": self._sync,
            "complete": self._complete,
            "exit": self._exit,
            "warp": self._warp,
            "fence.cta": self._fence,
            "fence.gpu": self._fence,
            "fence.sys": self._fence,
        }

    def _of(self, cta: int) -> _Cta:
        if cta not in self._ctas:
            self._ctas[cta] = _Cta(self._warps)
        return self._ctas[cta]

    def consists_of(self, actor: Actor, lanes: int) -> None:
        """A warp has these lanes alone, from its start: the last one of a CTA may be smaller."""
        self._of(actor[0]).whole[actor[1]] = lanes

    def end(self, cta: int) -> None:
        """The CTA has ended: nobody asks for its clocks any more."""
        del self._ctas[cta]

    # -- questions ----------------------------------------------------------------------------------------------------

    def interval(self, actor: Actor) -> int:
        """The present interval of a warp."""
        return self._of(actor[0]).intervals[actor[1]]

    def time(self, actor: Actor) -> int:
        """The present time of a warp."""
        return self._of(actor[0]).times[actor[1]]

    def size(self, cta: int) -> int:
        """Lanes of a CTA, those that the last warp lacks as well."""
        return self._of(cta).size

    def clocks(self, actor: Actor, lane: int) -> Clocks:
        """What a lane knows now, its own present included."""
        cta, warp = self._of(actor[0]), actor[1]
        first = warp * LANES
        own = cta.clocks[first + lane]
        here = slice(first, first + LANES) if self._lockstep else first + lane
        own.all.lanes[here] = own.came.lanes[here] = cta.times[warp]
        return own

    def by_lanes(self, cta: int, lanes: int = ALL_LANES) -> bool:
        """Lanes always have clocks of their own."""
        return True

    def before(self, epoch: tuple[int, int, int], actor: Actor) -> bool:
        """Whether what each lane of a warp did at a barrier that ended an interval comes before what each lane of an
        actor does now."""
        cta, warp, interval = epoch
        lanes = range(LANES)
        return all(self.lane_before((cta, warp), interval, one, actor, other) for one in lanes for other in lanes)

    def lane_before(self, actor: Actor, interval: int, lane: int, later: Actor, later_lane: int) -> bool:
        """Whether what a lane did at a barrier that ended an interval of its warp comes before what a lane of a warp
        of its CTA does now."""
        ended = self._of(actor[0]).ended[actor[1]][interval - 1]
        return self.clocks(later, later_lane).came.of_lane(actor[1], lane, ended)

    # -- what happens -------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Let an operation happen that `HappensBefore` knows as well."""
        rule = self._rules.get(event.kind)
        if rule is not None:
            rule(self._of(event.cta), event)

    def give(self, actor: Actor, lanes: int, to: Clocks) -> None:
        """Let `to` know what some lanes of a warp know and have done."""
        for lane in lanes_of(lanes & ALL_LANES):
            to.join(self.clocks(actor, lane))

    def take(self, actor: Actor, lanes: int, given: Clocks) -> None:
        """Some lanes of a warp know what was given."""
        cta = self._of(actor[0])
        for lane in lanes_of(self._together(actor, lanes)):
            cta.clocks[actor[1] * LANES + lane].join(given)

    def take_time(self, actor: Actor, lanes: int, given: Clocks) -> None:
        """Some lanes of a warp come after what was given, in time alone."""
        cta = self._of(actor[0])
        for lane in lanes_of(self._together(actor, lanes)):
            cta.clocks[actor[1] * LANES + lane].came.join(given.came)

    def landed(self, actor: Actor, lane: int, agents: int) -> None:
        """A lane knows of these epochs of agents."""
        cta = self._of(actor[0])
        for other in lanes_of(self._together(actor, 1 << lane)):
            clocks = cta.clocks[actor[1] * LANES + other]
            clocks.complete(agents, clocks)

    def fence_proxy(self, actor: Actor, lanes: int, kind: str) -> None:
        """The asynchronous proxy may rely on what some lanes of a warp know, each by itself."""
        for lane in lanes_of(self._together(actor, lanes)):
            clocks = self.clocks(actor, lane)
            for which in FENCES.get(kind, ()):
                getattr(clocks, which).assign(clocks.all)

    def fork(self, cta: int) -> int:
        """A new agent of a CTA."""
        of = self._of(cta)
        of.agents += 1
        return of.agents - 1

    def joined(self, cta: int) -> int:
        """The epochs of agents that any lane knows of."""
        known = 0
        for clocks in self._of(cta).clocks:
            known |= clocks.all.agents
        return known

    def tick(self, actor: Actor) -> None:
        """What a warp does from now on is told apart from what it did until now."""
        self._of(actor[0]).times[actor[1]] += 1

    def begin_interval(self, actor: Actor) -> None:
        """A warp gave or took something."""
        cta, warp = self._of(actor[0]), actor[1]
        cta.ended[warp].append(cta.times[warp])
        cta.intervals[warp] += 1
        self.tick(actor)

    def _together(self, actor: Actor, lanes: int) -> int:
        """Some lanes, with those that know all that they know."""
        lanes &= ALL_LANES
        return self._of(actor[0]).whole[actor[1]] if self._lockstep and lanes else lanes

    # -- named barriers and warps -------------------------------------------------------------------------------------

    def _give(self, cta: _Cta, event: Event) -> _Generation:
        generation = cta.open[event.place]
        self.give((event.cta, event.warp), event.lanes & cta.whole[event.warp], generation.given)
        generation.uncounted |= event.pc in self._uncounted
        return generation

    def _arrive(self, cta: _Cta, event: Event) -> None:
        self._give(cta, event)
        self.begin_interval((event.cta, event.warp))

    def _sync(self, cta: _Cta, event: Event) -> None:
        self._give(cta, event).syncs.append((event.warp, event.lanes))
        if event.lanes != ALL_LANES:
            self.begin_interval((event.cta, event.warp))

    def _complete(self, cta: _Cta, event: Event) -> None:
        generation = cta.open.pop(event.place, None) or _Generation(Clocks(cta.size))
        if generation.uncounted or event.warp in cta.gone:  # it was this warp's exit that completed it
            generation.given.join(cta.exited)
        for warp, lanes in generation.syncs:
            self.take((event.cta, warp), lanes & cta.whole[warp], generation.given)
            self.begin_interval((event.cta, warp))

    def _exit(self, cta: _Cta, event: Event) -> None:
        cta.gone.add(event.warp)
        self.give((event.cta, event.warp), cta.whole[event.warp], cta.exited)

    def _warp(self, cta: _Cta, event: Event) -> None:
        actor = event.cta, event.warp
        met = Clocks(cta.size)
        members = event.place & cta.whole[event.warp]
        self.give(actor, members, met)
        self.take(actor, members, met)
        self.begin_interval(actor)

    def _fence(self, cta: _Cta, event: Event) -> None:
        self.begin_interval((event.cta, event.warp))
