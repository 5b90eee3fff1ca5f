"""`setmaxnreg`: warps give registers to a pool of their CTA, and take from it.

PTX ISA, "Miscellaneous Instructions: setmaxnreg"; measured rule L2: it acts warp by warp, and a warp that exits gives
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

LEAST, MOST, STEP = 24, 256, 8
BAD_COUNT, BAD_DIRECTION, PART = 0, 1, 2
"""`what` of a setmaxnreg finding"""


class RegisterPool:
    """What the warps of a CTA have, in registers a thread, and what none of them has."""

    def __init__(self, warps: int, registers: int) -> None:
        self.of_warp = [registers] * warps
        self.free = 0
        self.known = registers > 0

    def take(self, warp: int, count: int) -> None:
        self.free -= count - self.of_warp[warp]
        self.of_warp[warp] = count


def change(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """A warp gives back or asks for registers; returns whether it has to wait for them."""
    pool, count, warp = run.cta.registers, fields[6], run.warp.number
    present = pool.of_warp[warp]
    gives = name == "setmaxnreg.dec"
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
    if not pool.known:
        return False
    if count - present > pool.free:
        return True
    pool.take(warp, count)
    return False


def may_go(run: WarpRun, group: Group) -> bool:
    """Whether the pool has what a warp waits for."""
    pool = run.cta.registers
    return run.launch.code[group.pc - 1][6] - pool.of_warp[run.warp.number] <= pool.free


def go(run: WarpRun, group: Group) -> None:
    run.cta.registers.take(run.warp.number, run.launch.code[group.pc - 1][6])
