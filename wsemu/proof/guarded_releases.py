"""Releases that a thread makes only for some results of a read, before a strong write that it makes for all of them.

By PTX a read may get the value of a later write that nothing orders after it.  That value may skip the fence that would
order the two.  No interleaving shows such an execution.  An example is `b = x; if (b == 0) fence; flag = 1;`: another
thread that sees the flag stores to `x`, and the read may get that value.  If the read decided the write of the flag as
well, the value would depend on itself.

So interleavings do not decide a launch under three conditions.  A read decides whether a fence is made.  No other fence
is between that one and a strong write that the read does not decide.  Something that is not morally strong with the
read may write its location.

Reference: PTX ISA, "Memory Consistency Model", causality order, no thin air, SC per location.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wsemu.model.control_flow import successors
from wsemu.model.isa import ACQUIRES, NAMES, NO_STORE, OPERATIONS, RELEASES, SCOPES
from wsemu.proof.taint import Analysis

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.program import Program

_RANKS = {f"fence.{scope}": rank for rank, scope in enumerate(("cta", "gpu", "sys"))}
"""Fence -> its rank by scope."""


class GuardedRelease(NamedTuple):
    """The instructions of one."""

    read: int
    fence: int
    write: int


def find_guarded_release(program: Program, segment_of: Callable[[int], int | None]) -> GuardedRelease | None:
    """Return a release that only some results of a read lead to, before a write that all of them lead to."""
    fences = [pc for pc, row in enumerate(program.code.tolist()) if NAMES[row[0]] in _RANKS and row[7] != ACQUIRES]
    return _Search(program, segment_of).find(fences) if fences else None


class _Search:
    """The reads on which instructions depend, a bit each."""

    def __init__(self, program: Program, segment_of: Callable[[int], int | None]) -> None:
        self.code = program.code.tolist()
        self.names = [NAMES[row[0]] for row in self.code]
        self.kinds = [OPERATIONS[name].kind for name in self.names]
        self.reads = [pc for pc, kind in enumerate(self.kinds) if kind in ("load", "atomic")]
        analysis = Analysis(program, [1] * len(self.code), self.reads, segment_of, racing=True)
        self.depends = [0] * len(self.code)
        self.arrays = [0] * len(self.code)
        every = (1 << len(self.reads)) - 1
        for step, state in analysis._states():
            guard = state.get(step.guard, 0) & every if step.guard else 0
            if guard:
                for pc in self._find_region(step.pc) if self.kinds[step.pc] == "control" else {step.pc}:
                    self.depends[pc] |= guard
            if step.kind in ("load", "store", "atomic"):
                self.arrays[step.pc] |= analysis._arrays(step, state)

    def _find_region(self, branch: int) -> set[int]:
        """Return the instructions between a branch and its join, or all that follow an exit."""
        pending, found = [*successors(branch, self.code[branch])], set[int]()
        join = self.code[branch][5] if len(pending) > 1 else -1
        while pending:
            pc = pending.pop()
            if pc != join and pc not in found and pc < len(self.code):
                found.add(pc)
                pending += successors(pc, self.code[pc])
        return found

    def find(self, fences: list[int]) -> GuardedRelease | None:
        """Return the first one that follows one of some fences."""
        for fence in fences:
            for write, bits in self._follow(fence) if self.depends[fence] else ():
                for n, read in enumerate(self.reads):
                    if bits >> n & 1 and self._may_see_later_write(read):
                        return GuardedRelease(read, fence, write)
        return None

    def _follow(self, fence: int) -> list[tuple[int, int]]:
        """Return strong writes that a fence may be the last one before, with the reads that decide it and not them."""
        found: list[tuple[int, int]] = []
        seen: dict[int, int] = {}
        pending = [(pc, self.depends[fence]) for pc in successors(fence, self.code[fence])]
        while pending:
            pc, bits = pending.pop()
            if pc >= len(self.code) or not bits & ~seen.get(pc, 0):
                continue
            seen[pc] = seen.get(pc, 0) | bits
            if self._replaces(pc, fence):
                bits &= self.depends[pc]
            elif self.kinds[pc] == "atomic" and not self.code[pc][7] & NO_STORE:
                own = self.depends[pc]
                if self._is_release(pc - 1):  # it releases by itself
                    own |= ~self.depends[pc - 1]
                if bits & ~own:
                    found.append((pc, bits & ~own))
            pending += [(after, bits) for after in successors(pc, self.code[pc])]
        return found

    def _is_release(self, pc: int) -> bool:
        """Return whether a fence makes the next write a release."""
        return pc >= 0 and self.names[pc] in _RANKS and self.code[pc][7] == RELEASES

    def _replaces(self, pc: int, fence: int) -> bool:
        """Return whether an instruction is a fence that releases all that another one does."""
        if self.names[pc] not in _RANKS or self.code[pc][7] in (ACQUIRES, RELEASES):
            return False
        rank, other = _RANKS[self.names[pc]], _RANKS[self.names[fence]]
        return rank > other or (rank == other and self.code[pc][6] == self.code[fence][6])

    def _may_see_later_write(self, read: int) -> bool:
        """Return whether the location of a read may be written by what is not morally strong with it."""
        strong = self.kinds[read] == "atomic" and not self.code[read][7] & SCOPES
        for pc, kind in enumerate(self.kinds):
            writes = kind == "store" or (kind == "atomic" and not self.code[pc][7] & NO_STORE)
            alike = strong and kind == "atomic" and not self.code[pc][7] & SCOPES
            if writes and not alike and self.arrays[pc] & self.arrays[read]:
                return True
        return False
