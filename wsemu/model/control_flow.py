"""How control goes through a program, and how far a warp runs before another one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.isa import NAMES, OPCODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


def successors(pc: int, row: Sequence[int]) -> tuple[int, ...]:
    """What may run after an instruction, nearest first, of which `row` has the fields.

    Lanes that wait at a join go on behind it, as if they had run through it.
    """
    name, guard, target = NAMES[row[0]], row[1], row[6]
    if name == "trap" or (name == "exit" and not guard):
        return ()
    if name == "jump" or (name == "bra" and not guard):
        return (target,)
    return (pc + 1, target) if name == "bra" else (pc + 1,)


def reachable(program: Program, pc: int) -> Iterator[int]:
    """Instructions that may run after the one at pc, nearest first; with that one itself where control comes back."""
    code = program.code.tolist()
    seen: set[int] = set()
    queue = [pc]
    for current in queue:
        for following in successors(current, code[current]):
            if following not in seen:
                seen.add(following)
                queue.append(following)
                yield following


def loops(program: Program, one: int, two: int) -> bool:
    """Whether control can go from an instruction to another one and back."""
    return two in reachable(program, one) and one in reachable(program, two)
