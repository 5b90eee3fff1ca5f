"""How the lanes of one warp diverge and converge, from the text of docs/semantics.md, for lane_explorer.py.

Lanes *run together* from the beginning of a program to a branch on which they differ.  They meet again at its nearest
common continuation: there they wait for those of them that live, and run on together.  Where some may return before
that, there is none, and the sides run apart to their ends.

Lanes *stand* at a barrier operation, and at a syncwarp or vote that names live lanes which do not run with them.  When
all that have not exited stand somewhere, or wait at a meeting point for lanes that stand:

B14  Where some stand at an unaligned barrier, those at the innermost meeting point go on without the others.
     Lanes at syncwarps that name nobody at a barrier execute them with those that are there; what they go on with is
     not modelled, if they name others that have come to another one (APART).
     Else the warp is counted, if all that stand do so at barriers; if not, none of them goes on.
B12  Lanes that are passed by are an error: those at an aligned barrier, or at a syncwarp that names the others, while
     these wait at the meeting point or go on from there without them; and those at an aligned barrier, if they wait for
     others at a syncwarp that wait for them.  Lanes that have exited when the others come are not missed.

Lanes that stand at one place, in the same branches, go on together.  Nothing of this depends on what other warps do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tests.properties.lanes import (
    ACCESSES,
    CLASSES,
    EVERYONE,
    EXIT,
    JUMP,
    MEET,
    PART,
    Step,
)

DIVERGENCE, APART = "barrier-divergence", "apart"
RUNS, MEETS, WAITS, GONE = range(4)
END: Final = Step(EXIT, 0, 0, "", ())


class Branch(NamedTuple):
    """A branch whose sides meet again, and the classes that meet there."""

    site: tuple[int, ...]
    classes: frozenset[int]


class Thread(NamedTuple):
    """A class of lanes: its step, whether it runs, waits at a meeting point or in a barrier, or has exited."""

    at: int
    how: int
    together: frozenset[int]
    """classes that run with it, itself among them"""
    branches: tuple[Branch, ...] = ()
    """the branches that it has entered and not left, the innermost one last"""

    def onward(self, to: int = -1) -> Thread:
        return self._replace(at=self.at + 1 if to < 0 else to, how=RUNS)


Threads = tuple[Thread, ...]


class Watcher:
    """Receives what an execution does, to compute happens-before."""

    def access(self, warp: int, steps: dict[int, Step]) -> None:
        """Record one access that classes execute together."""

    def meets(self, warp: int, classes: frozenset[int]) -> None: ...
    def gives(self, warp: int, classes: frozenset[int], barrier: int) -> None: ...
    def takes(self, warp: int, own: int, barrier: int) -> None: ...
    def completes(self, barrier: int, whole: bool) -> None: ...
    def exits(self, warp: int) -> None: ...


class Control:
    """The lanes of a warp between its barrier operations; the given threads are unchanged."""

    def __init__(self, warp: int, steps: list[tuple[Step, ...]], faults: set[str], ends: set[str]) -> None:
        self.warp = warp
        self.steps = steps
        self.faults = faults
        self.ends = ends
        """faults that end the launch"""

    def start(self) -> Threads:
        return (Thread(0, RUNS, EVERYONE),) * len(CLASSES)

    def at(self, own: int, thread: Thread) -> Step:
        steps = self.steps[own]
        return steps[thread.at] if thread.at < len(steps) else END

    def settled(self, threads: Threads, watcher: Watcher) -> Threads:
        """Return the threads after everything that they can do without a barrier."""
        now = list(threads)
        while self._run(now, watcher) or self._close(now) or self._go_on(now, watcher):
            pass
        if self.broken(now):
            self.ends.add(DIVERGENCE)
        return tuple(now)

    def standing(self, threads: Iterable[Thread]) -> dict[int, Step]:
        """Return the operation at which the running classes wait when none can continue."""
        return {own: self.at(own, thread) for own, thread in enumerate(threads) if thread.how == RUNS}

    def counting(self, threads: Threads) -> dict[int, Step]:
        """Return the classes at barrier operations if the warp is counted next because no other lanes must come
        first."""
        if any(thread.how == WAITS for thread in threads):
            return {}
        standing = self.standing(threads)
        return standing if all(step.is_barrier for step in standing.values()) else {}

    def broken(self, threads: Iterable[Thread]) -> bool:
        """Return whether lanes at an aligned barrier wait for lanes that wait for them."""
        steps = self.standing(threads).values()
        return any(step.is_meeting for step in steps) and any(step.is_barrier and step.aligned for step in steps)

    # -- by themselves -------------------------------------------------------------------------------------------------

    def _run(self, now: list[Thread], watcher: Watcher) -> bool:
        """Execute a step of classes that run together, if any can execute one."""
        groups = {thread.together for thread in now if thread.how == RUNS}
        return any(self._step(now, group, watcher) for group in sorted(groups, key=min))

    def _step(self, now: list[Thread], group: frozenset[int], watcher: Watcher) -> bool:
        steps = {own: self.at(own, now[own]) for own in sorted(group)}
        first = steps[min(group)]
        if first.is_barrier or (first.is_meeting and self._named(now, first) - group):
            return False
        if first.kind == PART:
            self._part(now, steps)
            return True
        if first.kind in ACCESSES:
            watcher.access(self.warp, steps)
        elif first.is_meeting:
            self._meet(now, group, first, watcher)
        for own, step in steps.items():
            now[own] = self._after(now[own], step)
        return True

    @staticmethod
    def _after(thread: Thread, step: Step) -> Thread:
        if step.kind == EXIT:
            return Thread(thread.at, GONE, frozenset())
        if step.kind == MEET and thread.branches and thread.branches[-1].site == step.site:
            return thread._replace(how=MEETS)
        return thread.onward(step.target if step.kind == JUMP else -1)

    def _part(self, now: list[Thread], steps: dict[int, Step]) -> None:
        sides: dict[int, set[int]] = {}
        for own, step in steps.items():
            sides.setdefault(step.number, set()).add(own)
        for own, step in steps.items():
            opened = (Branch(step.site, frozenset(steps)),) if step.target and len(sides) > 1 else ()
            branches = (*now[own].branches, *opened)
            now[own] = Thread(now[own].at + 1, RUNS, frozenset(sides[step.number]), branches)

    def _close(self, now: list[Thread]) -> bool:
        """Let classes continue from a meeting point at which all of them wait that have not exited."""
        for thread in now:
            if thread.how == MEETS:
                met = self._met(now, thread.branches[-1])
                if all(own in met or now[own].how == GONE for own in thread.branches[-1].classes):
                    self._leave(now, met)
                    return True
        return False

    @staticmethod
    def _met(now: list[Thread], branch: Branch) -> frozenset[int]:
        """Return the classes that wait where the sides of a branch meet."""
        return frozenset(
            own for own in branch.classes if now[own].how == MEETS and now[own].branches[-1].site == branch.site
        )

    @staticmethod
    def _leave(now: list[Thread], classes: frozenset[int]) -> None:
        for own in classes:
            now[own] = Thread(now[own].at + 1, RUNS, classes, now[own].branches[:-1])

    @staticmethod
    def _named(now: list[Thread], step: Step) -> frozenset[int]:
        """Return the live lanes that a syncwarp names."""
        return frozenset(own for own in step.members if now[own].how != GONE)

    def _meet(self, now: list[Thread], classes: frozenset[int], step: Step, watcher: Watcher) -> None:
        """Let classes execute a syncwarp, which orders them after all lanes that it names and that are there or have
        exited."""
        exited = frozenset(own for own in step.members if now[own].how == GONE)
        watcher.meets(self.warp, (classes & step.members) | exited)

    # -- all stand or wait ---------------------------------------------------------------------------------------------

    def _go_on(self, now: list[Thread], watcher: Watcher) -> bool:
        standing = self.standing(now)
        if any(step.is_barrier and not step.aligned for step in standing.values()) and self._go_past(now, standing):
            return True
        free = {own: step for own, step in standing.items() if own not in self._held(standing)}
        if free:
            self._exchange(now, free, watcher)
        return bool(free)

    @staticmethod
    def _held(standing: dict[int, Step]) -> set[int]:
        """Return the classes at barriers, and those at syncwarps that name such lanes, directly or indirectly."""
        held = {own for own, step in standing.items() if step.is_barrier}
        while more := {own for own, step in standing.items() if own not in held and not held.isdisjoint(step.members)}:
            held |= more
        return held

    def _go_past(self, now: list[Thread], standing: dict[int, Step]) -> bool:
        """Let classes at the innermost meeting point continue without those that they wait for."""
        branch = max((t.branches for t in now if t.how == MEETS), key=len, default=(None,))[-1]
        if branch is None:
            return False
        free = self._met(now, branch)
        left = branch.classes - free
        for own, step in standing.items():
            if own in left and (step.aligned if step.is_barrier else step.members & free):
                self.faults.add(DIVERGENCE)
        self._leave(now, free)
        for own in left:
            kept = tuple(b._replace(classes=left) if b.site == branch.site else b for b in now[own].branches)
            now[own] = now[own]._replace(branches=kept)
        return True

    def _exchange(self, now: list[Thread], free: dict[int, Step], watcher: Watcher) -> None:
        """Let classes execute their syncwarps with those that are there."""
        missed: dict[tuple[str, frozenset[int]], list[frozenset[int]]] = {}
        for classes, step in _by_operation(free):
            named = self._named(now, step)
            if named != classes:
                missed.setdefault((step.kind.upper(), named), []).append(classes)
            self._meet(now, classes, step, watcher)
        for (_, named), parts in missed.items():
            meet = len(parts) > 1 and frozenset().union(*parts) == named
            self.faults.add(APART if meet else DIVERGENCE)
        for own in free:
            now[own] = now[own].onward()
        unite(now, free)


def _by_operation(standing: dict[int, Step]) -> Iterator[tuple[frozenset[int], Step]]:
    """Yield the classes that execute one syncwarp with one mask."""
    for step in {(step.place, step.members): step for step in standing.values()}.values():
        same = (own for own, s in standing.items() if (s.place, s.members) == (step.place, step.members))
        yield frozenset(same), step


def unite(now: list[Thread], stood: dict[int, Step]) -> None:
    """Merge classes that were at one position, in the same branches."""
    for own, step in stood.items():
        same = (c for c, s in stood.items() if s.site == step.site and now[c].branches == now[own].branches)
        now[own] = now[own]._replace(together=frozenset(same))
