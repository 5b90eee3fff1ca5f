"""Control flow of a program, and the number of instructions that a warp executes before another warp runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from wsemu.model.isa import N_OPERATIONS, NAMES, NO_STORE, OPCODE, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from wsemu.model.program import Program

CTA_COST = 32
"""cost of starting each CTA after the first, in warp instructions of the step budget"""
TURN = 128
"""number of warp instructions after which another warp runs: neighboring warps access neighboring memory"""
BRA, JUMP, JOIN, EXIT, TRAP = (OPCODE[name] for name in ("bra", "jump", "join", "exit", "trap"))
JUMPS, ENDS = (BRA, JUMP), (EXIT, TRAP)
"""operations that may jump to their target, and operations that end their lanes"""
STEERS: Final[dict[str, Literal["branch", "exit"]]] = {"bra": "branch", "exit": "exit"}
"""operations whose guard decides where lanes continue -> the name of this use of a value in analyses"""
_REPEATABLE = frozenset({"alu", "load", "store", "atomic", "control", "fence", "warp"})
"""kinds of operations that depend on nothing but registers and memory, and change nothing else"""
_CHANGES_FLOW = np.zeros(N_OPERATIONS + 1, np.bool_)
_CHANGES_FLOW[[BRA, JUMP, JOIN, EXIT, TRAP]] = True


def changes_flow(op: int) -> bool:
    """Return whether an operation may be followed by another instruction than the next one in the program."""
    return bool(_CHANGES_FLOW[min(op, N_OPERATIONS)])


def is_repeatable(fields: Sequence[int]) -> bool:
    """Return whether an instruction does the same to registers and memory whenever these are the same."""
    name = NAMES[fields[0]]
    return OPERATIONS[name].kind in _REPEATABLE and not name.startswith("varying.")


def may_change_memory(fields: Sequence[int]) -> bool:
    """Return whether a repeatable instruction may change memory."""
    kind = OPERATIONS[NAMES[fields[0]]].kind
    return kind == "store" or (kind == "atomic" and not fields[7] & NO_STORE)


def flow_lengths(code: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return, for each instruction, the number of instructions up to and including the next one that may change the
    control flow.

    Both engines count executions, and the length of a warp's turn, in such stretches of code.
    """
    n = len(code)
    ends = np.flatnonzero(_CHANGES_FLOW[np.minimum(code[:, 0], N_OPERATIONS)])
    return np.append(ends, n - 1)[np.searchsorted(ends, np.arange(n))] - np.arange(n) + 1


def successors(pc: int, row: Sequence[int]) -> tuple[int, ...]:
    """Return the instructions that may run after one, nearest first; `row` has its fields.

    Lanes that wait at a join continue after it, as if they had run through it.
    """
    op, guard, target = row[0], row[1], row[6]
    if op == TRAP or (op == EXIT and not guard):
        return ()
    if op == JUMP or (op == BRA and not guard):
        return (target,)
    return (pc + 1, target) if op == BRA else (pc + 1,)


def destinations(pc: int, row: Sequence[int]) -> tuple[int, int] | None:
    """Return the instructions at which lanes continue if the guard of a control instruction holds, and if it does not;
    -1 stands for the end of the lanes.

    Return None if the launch ends there, or if a thread ends there by an error.
    """
    if row[0] in ENDS:
        return None if row[0] == TRAP or row[7] else (-1, pc + 1)
    return row[6] if row[0] in JUMPS else pc + 1, pc + 1


def reachable(program: Program, pc: int) -> Iterator[int]:
    """Return the instructions that may run after the one at pc, nearest first.  The list contains pc itself if it is in
    a loop."""
    code = program.code.tolist()
    seen: set[int] = set()
    queue = [pc]
    for current in queue:
        for following in successors(current, code[current]):
            if following not in seen:
                seen.add(following)
                queue.append(following)
                yield following


def loop_numbers(program: Program) -> list[int]:
    """Return, for each instruction, the number of the outermost loop that contains it, or -1.

    A loop is a strongly connected component of the control flow graph: each of its instructions can reach any other and
    return.
    Reference: R.  Tarjan, "Depth-first search and linear graph algorithms", SIAM J.  Comput. 1 (1972).
    """
    after = [successors(pc, row) for pc, row in enumerate(program.code.tolist())]
    if not any(way <= pc for pc, ways in enumerate(after) for way in ways):
        return [-1] * len(after)  # without a backward jump there are no loops
    return _components(after)


def inner_loop_numbers(program: Program) -> list[int]:
    """Number inner loops: the components that stay strongly connected without the outer loop headers."""
    numbers = loop_numbers(program)
    after = [successors(pc, row) for pc, row in enumerate(program.code.tolist())]
    of = [*numbers, -1]
    begins = {0} | {way for pc, ways in enumerate(after) for way in ways if of[pc] != of[way]}
    return _components([() if pc in begins else (*(set(ways) - begins),) for pc, ways in enumerate(after)])


def _components(after: Sequence[Sequence[int]]) -> list[int]:
    """Return, for each node, the number of its strongly connected component, or -1 if it is in none.  `after` has the
    successors of each node."""
    n = len(after)
    index, low, number = [-1] * n, [0] * n, [-1] * n
    stack: list[int] = []
    waiting = [False] * n
    count = loops = 0
    for root in range(n):
        work = [(root, iter(after[root]))] if index[root] < 0 else []
        while work:
            pc, rest = work[-1]
            if index[pc] < 0:
                index[pc] = low[pc] = count
                count += 1
                stack.append(pc)
                waiting[pc] = True
            for way in rest:
                if way < n and index[way] < 0:
                    work.append((way, iter(after[way])))
                    break
                if way < n and waiting[way]:
                    low[pc] = min(low[pc], index[way])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[pc])
                if low[pc] == index[pc]:
                    members: list[int] = []
                    while not members or members[-1] != pc:
                        members.append(stack.pop())
                    for member in members:
                        waiting[member] = False
                        if len(members) > 1 or pc in after[pc]:
                            number[member] = loops
                    loops += 1
    return number
