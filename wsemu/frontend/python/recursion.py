"""Recursive functions of Python: record which calls each lane made, as in PTX (`frontend/ptx/recursion.py`).

Calls are inlined here, so that lanes reconverge after each.  On a GPU the functions call each other, and lanes that
took different paths through several calls stay diverged.  The recursive functions are known only after the kernel has
been walked.  If the kernel has warp-wide operations, it is walked a second time, and each thread records its recursive
calls in local memory.  Before a warp-wide operation, the records of the lanes are compared.
"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING

import numpy as np

from wsemu.frontend.assemble.ways import APART, FACTOR
from wsemu.model.isa import LOOSE, OPERATIONS
from wsemu.model.program import SharedArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.frontend.assemble.graph import Graph, Register
    from wsemu.frontend.python.builder import Builder

Regions = tuple[frozenset[CodeType], ...]
"""functions that may call each other"""
_ASYNCHRONOUS = frozenset("cluster.arrive cluster.wait grid.arrive grid.wait setmaxnreg.inc setmaxnreg.dec".split())
_NAME = "the way through a recursion"
_WAY, _RETURNED, _TREE = 0, 8, 16
"""offsets in a thread's local memory: its path; 1 once a call within the region has ended; 1 once another call
followed"""


def is_together(operation: str) -> bool:
    """Return whether an operation is warp-wide."""
    kind = OPERATIONS[operation].kind
    return operation in _ASYNCHRONOUS or (kind in ("barrier", "warp", "matrix") and operation not in LOOSE)


def has_together(graph: Graph) -> bool:
    return any(is_together(instruction.operation) for block in graph.blocks for instruction in block.instructions)


def enter_region(regions: list[set[CodeType]], codes: Sequence[CodeType]) -> None:
    """Merge mutually recursive functions into one region; the last function calls the first."""
    new = set(codes)
    for known in [region for region in regions if region & new]:
        new |= known
        regions.remove(known)
    regions.append(new)


class Ways:
    """Code that records a thread's path."""

    def __init__(self, b: Builder, regions: Regions) -> None:
        self._b, self._regions = b, regions
        self._calls = 0
        graph = b.graph
        self._first = -(-graph.local_bytes // 8) * 8
        graph.local_bytes = self._first + 24
        graph.locals.append(SharedArray(_NAME, self._first, (3,), np.dtype(np.int64), 0, 8))
        for at in (_WAY, _RETURNED, _TREE):
            self._store(at, b.constant("b64", 0))
        b.before = self._check

    def find_region(self, code: CodeType | None) -> frozenset[CodeType]:
        """Return the functions that may call each other, this one included; none if it is not recursive."""
        return next((region for region in self._regions if code in region), frozenset())

    def begin(self, *, within: bool) -> None:
        """Begin a call of a recursive function, from a function of its region (`within`) or from outside."""
        b, self._calls = self._b, self._calls + 1
        if not within:
            none = b.constant("b64", 0)
            tree = b.emit("setp.ne.b64", self._load(_TREE), none)
            self._store(_WAY, b.emit("selp.b64", self._load(_WAY), none, tree))  # otherwise 0: no path
            self._store(_RETURNED, none)
            return
        longer = b.emit("mul.b64", self._load(_WAY), b.constant("b64", FACTOR))
        self._store(_WAY, b.emit("add.b64", longer, b.constant("b64", self._calls)))
        self._store(_TREE, b.emit("or.b64", self._load(_TREE), self._load(_RETURNED)))

    def end(self) -> None:
        """End a call from within the region, so that nested calls get other numbers than successive ones."""
        self._store(_RETURNED, self._b.constant("b64", 1))

    def _check(self, operation: str) -> None:
        """Emit a check before a warp-wide operation: a trap if the lanes took different paths."""
        if not is_together(operation):
            return
        b = self._b
        none = b.constant("b64", 0)
        tree = b.emit("setp.ne.b64", self._load(_TREE), none)
        way = b.emit("selp.b64", self._load(_WAY), none, tree)
        (same,) = b.effect("alike.b64", (way, b.constant("b32", -1)), ("p",))
        here, stop = b.block, b.graph.block()
        b.branch(here, same, b.open(), stop)
        b.graph.traps.append(APART)
        b.finish(stop, "trap", len(b.graph.traps) - 1)

    def _load(self, at: int) -> Register:
        b = self._b
        (value,) = b.effect("ld.b64", (b.special("local"),), ("b64",), immediate=self._first + at, array=_NAME)
        return value

    def _store(self, at: int, value: Register) -> None:
        b = self._b
        b.effect("st.b64", (b.special("local"), value), immediate=self._first + at, array=_NAME)
