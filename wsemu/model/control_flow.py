"""How control goes through a program, and how far a warp runs before another one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.isa import NAMES, OPCODE

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.program import Program

CTA_COST = 32
"""warp instructions of the step budget that each CTA after the first takes to start"""
TURN = 128
"""warp instructions after which a warp lets the next one run: neighbouring warps touch neighbouring memory"""
_CHANGES_FLOW = tuple(OPCODE[name] for name in ("bra", "jump", "join", "exit", "trap"))


def flow_lengths(code: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Per instruction: how many run from it up to the next one that may change the flow of control, that one included.

    Both engines count executions, and a warp's turn, by these stretches.
    """
    n = len(code)
    ends = np.flatnonzero(np.isin(code[:, 0], _CHANGES_FLOW))
    return np.append(ends, n - 1)[np.searchsorted(ends, np.arange(n))] - np.arange(n) + 1


def loops(program: Program, one: int, two: int) -> bool:
    """Whether control can go from an instruction to another one and back."""
    return two in _reached(program, one) and one in _reached(program, two)


def _reached(program: Program, start: int) -> set[int]:
    """The instructions to which control can go on from one."""
    reached: set[int] = set()
    ways = [start]
    while ways:
        name, guard, target = (int(program.code[ways[-1], field]) for field in (0, 1, 6))
        following = _following(ways.pop(), NAMES[name], guard, target)
        ways += following - reached
        reached |= following
    return reached


def _following(pc: int, name: str, guard: int, target: int) -> set[int]:
    """What may run after an instruction; lanes that wait at a join go on behind it, as if they had run through it."""
    if name == "trap" or (name == "exit" and not guard):
        return set()
    if name == "jump" or (name == "bra" and not guard):
        return {target}
    return {pc + 1, target} if name == "bra" else {pc + 1}
