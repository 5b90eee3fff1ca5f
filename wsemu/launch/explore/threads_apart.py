"""Launches whose lanes are scheduled independently, as in PTX from sm_70 on: each thread stops before its own ordered
accesses, and does not wait for other lanes of its warp at their reconvergence point.

So a lane that has taken a lock continues while others of its warp spin, and releases it (PTX ISA, "Independent thread
scheduling": all threads of a warp make progress).  This is explored if threads share only global memory and the launch
has no barriers and no warp-wide operations.  Each thread is then run as a CTA of its own in which only one lane is
alive, and threads that begin alike count as one.  Findings name the real warps and CTAs of the threads.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

from wsemu.launch.explore.nodes import Reached, Result
from wsemu.launch.explore.session import TRYING, Ask, Moved, VmSession
from wsemu.launch.explore.slow_session import SlowSession
from wsemu.model.arch import ARCHS
from wsemu.model.data import NamedTuple
from wsemu.model.isa import LANES, NAMES, OPERATIONS, SCOPES
from wsemu.model.outcome import CTA_FENCE
from wsemu.reference.state import Group

if TYPE_CHECKING:
    from wsemu.model.bound import Bound
    from wsemu.proof.threads import Made

MOST_THREADS = 64
"""maximum threads of a launch"""
MOST_STANDING, MOST_KINDS = 32, 6
"""maximum number of threads that reach an ordered access first; maximum number of them that differ from each other"""
_TOGETHER = ("barrier", "warp", "matrix", "cluster")
"""kinds of operations that threads make together"""


class Thread(NamedTuple):
    """The position of a thread in the launch."""

    cta: int
    warp: int
    lane: int


def all_threads(bound: Bound) -> list[Thread]:
    """Return all threads of a launch."""
    (gx, gy, gz), count = bound.configuration.grid, math.prod(bound.configuration.block)
    return [Thread(cta, t // LANES, t % LANES) for cta in range(gx * gy * gz) for t in range(count)]


def suits(bound: Bound) -> bool:
    """Return whether the threads of a launch can run independently: they share only global memory."""
    program = bound.program
    code = program.code.tolist()
    names = {NAMES[fields[0]] for fields in code}
    alone = not any(OPERATIONS[name].kind in _TOGETHER for name in names) and CTA_FENCE not in names
    narrow = any(OPERATIONS[NAMES[fields[0]]].kind == "atomic" and fields[7] & SCOPES for fields in code)
    held = program.shared_bytes or bound.configuration.dynamic_shared or program.asynchronous
    few = math.prod(bound.configuration.grid) * math.prod(bound.configuration.block) <= MOST_THREADS
    scheduled = ARCHS[bound.configuration.arch].independent and not bound.settings.lockstep
    return few and alone and not narrow and not held and scheduled


def few(session: VmThreads | SlowThreads) -> bool:
    """Return whether the number of threads to schedule is small enough."""
    session.start()
    standing = [cta for cta in range(session.ctas) if session.asks(cta)]
    return len(standing) <= MOST_STANDING and len({session.digest(cta) for cta in standing}) <= MOST_KINDS


class _Apart:
    """The common part of both engines' sessions."""

    threads: list[Thread]

    def _with_real_warp(self, ask: Ask) -> Ask:
        """Return an access with the engine's number of its warp."""
        return ask._replace(warp=self.threads[ask.cta].warp)

    def _renumber_move(self, cta: int, moved: Moved) -> Moved:
        made = [one._replace(event=one.event._replace(cta=cta, warp=0)) for one in moved.made]
        return moved._replace(made=made)

    def elsewhere(self, cta: int, warp: int) -> list[int]:
        return []

    def ahead(self, cta: int, warp: int, pc: int) -> list[int]:
        return []

    def waiting_warps(self, cta: int) -> list[tuple[int, int]]:
        return []


class VmThreads(_Apart, VmSession):
    """Independent threads on the VM."""

    def __init__(self, bound: Bound, ordered: frozenset[int], logged: frozenset[int]) -> None:
        self.threads = all_threads(bound)
        super().__init__(bound, ordered, logged, TRYING)

    def _machine_count(self, grid: tuple[int, int, int]) -> int:
        return len(self.threads)

    def _share(self, machine: Any) -> None:
        thread = self.threads[self.machines.index(machine)]
        machine.warps["whole"] = 0
        machine.warps["whole"][thread.warp] = 1 << thread.lane
        super()._share(machine)

    def _number(self, cta: int) -> int:
        return self.threads[cta].cta

    def _run(self, cta: int, unwritten: int = 0) -> Moved:
        moved = super()._run(cta, unwritten)
        if moved.status == "stands" and not self.machines[cta].warps["alive"].any():
            moved = moved._replace(status="done")
        return self._renumber_move(cta, moved)

    def go(self, ask: Ask) -> Moved:
        return super().go(self._with_real_warp(ask))

    def asks(self, cta: int) -> list[Ask]:
        return [ask._replace(warp=0) for ask in super().asks(cta)]

    def digest(self, cta: int) -> bytes:
        """Return a digest of the state that decides a thread's further execution, independent of its lane."""
        machine, thread = self.machines[cta], self.threads[cta]
        warp = machine.warps[thread.warp]
        hashed = hashlib.blake2b(digest_size=16)
        if warp["alive"]:
            served = bool(warp["served"] & warp["alive"])
            state = int(warp["pc"]), int(warp["waits"]), served, bool(warp["asks"])
            hashed.update(repr(state).encode())
            self._digest_lane(hashed, machine, thread, state[0] + served)
        return hashed.digest()

    def _digest_lane(self, hashed: Any, machine: Any, thread: Thread, pc: int) -> None:
        block, lane = machine.registers[thread.warp], thread.lane
        for row in sorted(self.live[pc]) if pc < len(self.live) else ():
            size = self.widths.get(row)
            if size == 0:
                hashed.update(b"%d" % (int(block[row : row + 4].view("u4")[0]) >> lane & 1))
            else:
                size = size or 8
                hashed.update(block[row + size * lane : row + size * (lane + 1)].tobytes())
        room = int(machine.state[0]["local_bytes"])
        hashed.update(machine.local[:0] if not room else self._local(machine, thread, room))

    def _local(self, machine: Any, thread: Thread, room: int) -> bytes:
        from wsemu.machine.state import address_of

        start = int(machine.warps[thread.warp]["local_host"]) - address_of(machine.local)
        return bytes(machine.local[start : start + 2 * room].tobytes())


class SlowThreads(_Apart, SlowSession):
    """Independent threads on the reference interpreter."""

    def __init__(self, bound: Bound, ordered: frozenset[int], logged: frozenset[int]) -> None:
        self.threads = all_threads(bound)
        super().__init__(bound, ordered, logged, TRYING)
        self.run.numbers = [thread.cta for thread in self.threads]
        self.ctas = self.run.total = len(self.threads)
        self.histories = [b""] * self.ctas

    def start(self) -> list[Moved]:
        self.load_memory((self.initial, self.written))
        self.run.start()
        for cta, (_, number, lane) in zip(self.run.ctas, self.threads, strict=True):
            for warp in cta.warps:
                alive = 1 << lane if warp.number == number else 0
                warp.alive = warp.whole = alive
                warp.ready = [Group(group.pc, alive, group.region) for group in warp.ready] if alive else []
        return [self._finish_move(cta, self.run.ctas[cta].run_until_stuck(), ~0) for cta in range(self.ctas)]

    def _finish_move(self, cta: int, status: str, wrote: int) -> Moved:
        return self._renumber_move(cta, super()._finish_move(cta, status, wrote))

    def go(self, ask: Ask) -> Moved:
        return super().go(self._with_real_warp(ask))

    def asks(self, cta: int) -> list[Ask]:
        return [ask._replace(warp=0) for ask in super().asks(cta)]


class Whole:
    """A launch whose threads run independently, presented with its warps and CTAs."""

    asynchronous = False

    def __init__(self, session: Any, bound: Bound) -> None:
        self.session, self.threads = session, session.threads
        self.ctas = math.prod(bound.configuration.grid)

    def alive(self, cta: int) -> list[tuple[int, int, int]]:
        """Return the live lanes of each warp of a CTA, in the form of sessions."""
        found: dict[int, tuple[int, int]] = {}
        for number, thread in enumerate(self.threads):
            for _, alive, asks in self.session.alive(number) if thread.cta == cta else ():
                lanes, standing = found.get(thread.warp, (0, 0))
                found[thread.warp] = lanes | alive, standing | asks
        return [(warp, *lanes) for warp, lanes in sorted(found.items())]

    def elsewhere(self, cta: int, warp: int) -> list[int]:
        return []

    def waiting_warps(self, cta: int) -> list[tuple[int, int]]:
        return []

    # -- results -------------------------------------------------------------------------------------------------------
    def name_warps(self, result: Result) -> Result:
        """Return a result with the warps and CTAs of its threads."""
        result.reached = self._name_reached(result.reached)
        result.stuck = [*map(self._ask, result.stuck)]
        result.excused = [(excused, self._name_reached(reached)) for excused, reached in result.excused]
        return result

    def _ask(self, ask: Ask) -> Ask:
        thread = self.threads[ask.cta]
        return ask._replace(cta=thread.cta, warp=thread.warp)

    def _name_event(self, made: Made) -> Made:
        thread = self.threads[made.event.cta]
        return made._replace(event=made.event._replace(cta=thread.cta, warp=thread.warp))

    def _name_reached(self, reached: Reached) -> Reached:
        return Reached(tuple(map(self._ask, reached.asks)), tuple(map(self._name_event, reached.made)))


def make_threads(bound: Bound, ordered: frozenset[int], logged: frozenset[int]) -> VmThreads | SlowThreads:
    """Return a session of independent threads on the engine of the launch."""
    return (SlowThreads if bound.settings.engine == "reference" else VmThreads)(bound, ordered, logged)
