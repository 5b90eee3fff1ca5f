"""A `wgmma` as one operation of the four warps of a warpgroup.

It completes when all four warps have issued it and its reads are complete (PTX ISA: `wgmma.mma_async` is performed
"across warpgroup", `wgmma.wait_group` signals "the completion of a preceding warpgroup operation").  So a wait follows,
in time, everything that each of the four warps did before its last `wgmma` of that group.  Of memory accesses, it
orders only the reads of the `wgmma`.  A warp waits at a commit until all live warps of the warpgroup have committed the
same number of times (W14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import dataclass, field
from wsemu.model.outcome import WARPGROUP, ObjectWait
from wsemu.reference.state import list_lanes
from wsemu.reference.sync.thread_clocks import Clocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.reference.run import Cta
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

WARPS = 4
COMMIT = "wgmma.commit"
"""the operation at which warps wait for each other"""


@dataclass(slots=True)
class Issues:
    """The operations that a warp has issued: epochs of their agents, and what preceded the last of them in time."""

    agents: int = 0
    before: Clocks | None = None


@dataclass(slots=True)
class Part:
    """The groups of a warpgroup's operations that one of its warps has issued."""

    groups: list[Issues] = field(default_factory=list)
    open: Issues = field(default_factory=Issues)

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = Issues()


def _warps_of_group(cta: Cta, warp: int) -> range:
    """Return all warps of a warp's warpgroup; only the warp itself if the warpgroup is incomplete."""
    first = warp - warp % WARPS
    return range(first, first + WARPS) if first + WARPS <= len(cta.warps) else range(warp, warp + 1)


def issue(run: WarpRun, lanes: int, agents: int) -> None:
    """Record that a warp issues a `wgmma` whose reads have these epochs."""
    cta, warp = run.cta, run.warp.number
    issues = cta.parts_of_groups[warp].open
    issues.agents |= agents
    issues.before = issues.before or Clocks(cta.order.size(cta.number))
    cta.order.give((cta.number, warp), lanes, issues.before)


def await_groups(run: WarpRun, left: int) -> None:
    """Let all lanes of a warp wait for all groups but the last `left`."""
    cta, warp = run.cta, run.warp.number
    parts = cta.parts_of_groups
    end = max(len(parts[warp].groups) - left, 0)
    done = [issues for other in _warps_of_group(cta, warp) for issues in parts[other].groups[:end]]
    agents = 0
    for issues in done:
        agents |= issues.agents
        if issues.before:
            cta.order.take_time((cta.number, warp), run.warp.alive, issues.before)
    for lane in list_lanes(run.warp.alive):
        cta.order.complete_agents((cta.number, warp), lane, agents)


def behind(cta: Cta, warp: int) -> list[int]:
    """Return the live warps of the warpgroup that have committed fewer times."""
    parts = cta.parts_of_groups
    own = len(parts[warp].groups)
    return [w for w in _warps_of_group(cta, warp) if cta.warps[w].alive and len(parts[w].groups) < own]


def stands(cta: Cta, warp: int) -> bool:
    """Return whether a warp has to wait at its commit."""
    return bool(behind(cta, warp))


def may_go(run: WarpRun, group: Group) -> bool:
    return not stands(run.cta, run.warp.number)


def go(run: WarpRun, group: Group) -> None:
    """Do nothing: a commit has no effect after its wait."""


def waits(cta: Cta) -> Iterator[ObjectWait]:
    """Yield the warps that wait at a commit when none can continue."""
    parts = cta.parts_of_groups
    for warp in cta.warps:
        for group in warp.parked:
            if cta.launch.operation_name(group.pc - 1) == COMMIT:
                own = len(parts[warp.number].groups)
                come = sum(len(parts[w].groups) >= own for w in _warps_of_group(cta, warp.number))
                yield ObjectWait(warp.number, group.lanes, group.pc - 1, WARPGROUP, -1, come, WARPS)
