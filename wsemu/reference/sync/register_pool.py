"""`setmaxnreg`: warps release registers to a pool of their CTA, and request registers from it.

PTX ISA, "Miscellaneous Instructions: setmaxnreg"; measured rule L2: it acts on each warp separately, and a warp that
exits releases none.  PTX requires that all warps of a warpgroup execute the same `setmaxnreg`, and synchronize between
two of them.  When the CTA ends, the counts and directions that its warps executed are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import LANES
from wsemu.model.outcome import RawFinding
from wsemu.reference.memory.thread_shadow import ThreadWatch

if TYPE_CHECKING:
    from wsemu.reference.run import Cta
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

TAKE, GIVE = "setmaxnreg.inc", "setmaxnreg.dec"
LEAST, MOST, STEP = 24, 256, 8
ALL_LANES = (1 << LANES) - 1
BAD_COUNT, BAD_DIRECTION, PART, DIFFERENT, AT_ONCE = range(5)
"""`what` of a setmaxnreg finding"""


class RegisterPool:
    """The number of registers per thread of each warp of a CTA, and the free registers."""

    def __init__(self, warps: int, registers: int) -> None:
        self.of_warp = [registers] * warps
        self.free = 0
        self.known = registers > 0
        self.executed: list[list[tuple[str, int, int, int]]] = [[] for _ in range(warps)]
        """for each warp, the name, count, instruction and interval of each `setmaxnreg`"""

    def take(self, warp: int, count: int) -> None:
        self.free -= count - self.of_warp[warp]
        self.of_warp[warp] = count


def change(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Execute `setmaxnreg` for a warp; return whether it has to wait for registers."""
    pool, count, warp = run.cta.registers, fields[6], run.warp.number
    present = pool.of_warp[warp]
    gives = name == GIVE
    wrong = None
    if not LEAST <= count <= MOST or count % STEP:
        wrong = BAD_COUNT
    elif lanes != run.warp.alive:
        wrong = PART
    elif pool.known and (count > present if gives else count < present):
        wrong = BAD_DIRECTION
    if wrong is not None:
        run.cta.finding("setmaxnreg", run.group.pc, warp, lanes, count=count, what=wrong, present=present)
        return False
    _follow(run, name, count, lanes)
    if not pool.known:
        return False
    if count - present > pool.free:
        return True
    pool.take(warp, count)
    return False


def _follow(run: WarpRun, name: str, count: int, lanes: int) -> None:
    """Record the `setmaxnreg` of a warp, and report it if no synchronization can separate it from the previous one.  A
    repeated count changes nothing."""
    pool, warp, watch = run.cta.registers, run.warp.number, run.launch.watch
    done = pool.executed[warp]
    now = watch.order.time((run.cta.number, warp)) if isinstance(watch, ThreadWatch) else -1
    if done and done[-1][3] == now >= 0:
        code, detail = "setmaxnreg-repeated", {"count": count}
        if count != done[-1][1]:
            code, detail = "setmaxnreg", detail | {"what": AT_ONCE, "present": pool.of_warp[warp]}
        run.launch.report(RawFinding(code, run.group.pc, run.cta.number, warp, lanes, done[-1][2], warp, detail=detail))
    done.append((name, count, run.group.pc, now))


def compare_warpgroups(cta: Cta) -> None:
    """Check at the CTA's end that the warps of each warpgroup executed the same `setmaxnreg`."""
    executed = cta.registers.executed
    counts = [[done[:2] for done in of_warp] for of_warp in executed]
    for first in range(0, len(executed), 4):
        group = range(first, min(first + 4, len(executed)))
        warp = next((w for w in group if counts[w] != counts[first]), None)
        if warp is not None:
            warp, other = (warp, first) if executed[warp] else (first, warp)
            _, count, pc, _ = executed[warp][-1]
            earlier = executed[other][-1][2] if executed[other] else -1
            detail = {"count": count, "what": DIFFERENT, "present": cta.registers.of_warp[warp]}
            cta.launch.report(RawFinding("setmaxnreg", pc, cta.number, warp, ALL_LANES, earlier, other, detail=detail))


def may_go(run: WarpRun, group: Group) -> bool:
    """Return whether the pool has the registers that a warp waits for."""
    pool = run.cta.registers
    return run.launch.code[group.pc - 1][6] - pool.of_warp[run.warp.number] <= pool.free


def go(run: WarpRun, group: Group) -> None:
    run.cta.registers.take(run.warp.number, run.launch.code[group.pc - 1][6])
