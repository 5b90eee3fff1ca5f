"""Find guarded releases: a fence that executes only for some results of a read, before a strong write that always does.

An example is `b = x; if (b == 0) fence; flag = 1;`. Another thread sees the flag and then stores 1 to `x`. PTX allows
the read of `x` to return this 1: with b = 1 the thread skips the fence, and without the fence nothing orders the read
before the store. No interleaving shows this execution. If the write of the flag also depended on b, then the value
would depend on itself, which PTX forbids.

So interleavings do not decide a launch if these three conditions hold together:

* A fence depends on a read.
* A strong write that follows the fence, with no other fence in between, does not depend on that read.
* An access that is not morally strong with the read may write the location of the read.

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
"""fence -> its rank by scope"""


class GuardedRelease(NamedTuple):
    """The three instructions of a guarded release."""

    read: int
    fence: int
    write: int


def find_guarded_release(program: Program, segment_of: Callable[[int], int | None]) -> GuardedRelease | None:
    """Return a release that depends on a read, while the strong write after it does not; None if there is none."""
    fences = [pc for pc, row in enumerate(program.code.tolist()) if NAMES[row[0]] in _RANKS and row[7] != ACQUIRES]
    return _Search(program, segment_of).find(fences) if fences else None


class _Search:
    """The search for guarded releases; it knows the reads on which each instruction depends, as a bit per read."""

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
        """Return the instructions between a branch and its join, or all instructions after a guarded exit."""
        pending, found = [*successors(branch, self.code[branch])], set[int]()
        join = self.code[branch][5] if len(pending) > 1 else -1
        while pending:
            pc = pending.pop()
            if pc != join and pc not in found and pc < len(self.code):
                found.add(pc)
                pending += successors(pc, self.code[pc])
        return found

    def find(self, fences: list[int]) -> GuardedRelease | None:
        """Return the first guarded release after one of these fences."""
        for fence in fences:
            for write, bits in self._follow(fence) if self.depends[fence] else ():
                for n, read in enumerate(self.reads):
                    if bits >> n & 1 and self._may_see_later_write(read):
                        return GuardedRelease(read, fence, write)
        return None

    def _follow(self, fence: int) -> list[tuple[int, int]]:
        """Return the strong writes that may follow a fence without another fence in between.

        Each comes with the reads on which the fence depends and the write does not, as bits.
        """
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
                if self._is_release(pc - 1):  # the write itself is a release
                    own |= ~self.depends[pc - 1]
                if bits & ~own:
                    found.append((pc, bits & ~own))
            pending += [(after, bits) for after in successors(pc, self.code[pc])]
        return found

    def _is_release(self, pc: int) -> bool:
        """Return whether an instruction is a fence that makes the next write a release."""
        return pc >= 0 and self.names[pc] in _RANKS and self.code[pc][7] == RELEASES

    def _replaces(self, pc: int, fence: int) -> bool:
        """Return whether an instruction is a fence whose scope is at least that of the given fence."""
        if self.names[pc] not in _RANKS or self.code[pc][7] in (ACQUIRES, RELEASES):
            return False
        rank, other = _RANKS[self.names[pc]], _RANKS[self.names[fence]]
        return rank > other or (rank == other and self.code[pc][6] == self.code[fence][6])

    def _may_see_later_write(self, read: int) -> bool:
        """Return whether some access may write the location of a read and is not morally strong with that read."""
        strong = self.kinds[read] == "atomic" and not self.code[read][7] & SCOPES
        for pc, kind in enumerate(self.kinds):
            writes = kind == "store" or (kind == "atomic" and not self.code[pc][7] & NO_STORE)
            alike = strong and kind == "atomic" and not self.code[pc][7] & SCOPES
            if writes and not alike and self.arrays[pc] & self.arrays[read]:
                return True
        return False
