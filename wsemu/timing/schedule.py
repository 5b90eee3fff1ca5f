"""Stretches: instructions between two synchronizations, with renamed registers and in the order of a compiler."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.timing.code import Instruction

ALONE = frozenset((
    "bar_sync", "bar_arrive", "events", "bulk_store", "group_close", "group_wait", "product", "product_close",
    "product_wait", "end", "atomic", "shared_atomic", "arrive_copies",
))  # fmt: skip
"""kinds of instructions that cannot be reordered: each is its own stretch"""
LATENCY = {"load": 300.0, "shared": 30.0, "matrix": 25.0}
"""latencies that a compiler assumes; other kinds have their own"""
TURNS = 4
"""number of loop iterations in one stretch"""
LONGEST = 400


class Placed(NamedTuple):
    """An instruction in a stretch."""

    at: int
    """original position in the stretch"""
    sources: tuple[int, ...]
    results: tuple[int, ...]


def arrange(code: Sequence[Instruction], kinds: Sequence[str], registers: int) -> list[Placed]:
    """Rename the results of a stretch of instructions, and order the instructions by the longest dependence chain to
    the end.

    `kinds` are those of this execution.  The stretch's final registers keep their numbers; other results get numbers
    from `registers` on.
    """
    renamed, leaving = _rename(code, registers)
    follow, missing = _dependences(code, kinds, renamed, leaving)
    heights = [0.0] * len(code)
    for n in range(len(code) - 1, -1, -1):
        latency = LATENCY.get(kinds[n], code[n].latency)
        heights[n] = max([latency, *(heights[after] + gap for after, gap in follow[n])])
    ready = [(-heights[n], n) for n in range(len(code)) if not missing[n]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, n = heapq.heappop(ready)
        order.append(renamed[n])
        for after, _ in follow[n]:
            missing[after] -= 1
            if not missing[after]:
                heapq.heappush(ready, (-heights[after], after))
    return order


def _rename(code: Sequence[Instruction], registers: int) -> tuple[list[Placed], dict[int, int]]:
    """Return the instructions, with a new register for each result except the last one to each register, and the last
    instruction that writes each register."""
    last = {register: n for n, one in enumerate(code) for register in one.results}
    now: dict[int, int] = {}
    found, fresh = [], registers
    for n, one in enumerate(code):
        sources = tuple(now.get(register, register) for register in one.sources)
        results = []
        for register in one.results:
            if last[register] == n:
                now[register] = register
            else:
                now[register], fresh = fresh, fresh + 1
            results.append(now[register])
        found.append(Placed(n, sources, tuple(results)))
    return found, last


def _dependences(
    code: Sequence[Instruction], kinds: Sequence[str], renamed: Sequence[Placed], last: dict[int, int]
) -> tuple[list[list[tuple[int, float]]], list[int]]:
    """Return the successors of each instruction, and its number of predecessors."""
    follow: list[list[tuple[int, float]]] = [[] for _ in code]
    missing = [0] * len(code)
    writer: dict[int, int] = {}
    waiting: dict[int, list[int]] = {}
    """register with a value from before the stretch -> instructions that read it"""
    stores: dict[str, int] = {}
    loads: dict[str, list[int]] = {"store": [], "shared": []}

    def order(first: int, then: int, gap: float) -> None:
        if first != then:
            follow[first].append((then, gap))
            missing[then] += 1

    for n, one in enumerate(renamed):
        kind = kinds[n]
        for register in one.sources:
            if register in writer:
                order(writer[register], n, LATENCY.get(kinds[writer[register]], code[writer[register]].latency))
            else:
                waiting.setdefault(register, []).append(n)
        for register in one.results:
            for reader in waiting.pop(register, ()):
                order(reader, n, 1.0)
            writer[register] = n
        if kind in ("store", "shared_store"):
            for before in loads[_space(kind)]:
                order(before, n, 1.0)
            loads[_space(kind)] = []
            stores[_space(kind)] = n
        elif kind in ("load", "shared"):
            if _space(kind) in stores:
                order(stores[_space(kind)], n, 1.0)
            loads[_space(kind)].append(n)
        elif kind in ("branch", "repeat", "diverge", "cp_async") and n:
            order(n - 1, n, 1.0)
    return follow, missing


def _space(kind: str) -> str:
    return "shared" if kind.startswith("shared") else "store"
