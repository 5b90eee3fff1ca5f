"""Random kernels whose threads draw numbers, compute locations from them, and what all assignments of numbers do."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random

    from wsemu.model.settings import Engine

ROOM = 12
"""Elements of the output and of the input."""


class SlotProgram(NamedTuple):
    """Threads draw numbers p; those with p in a range access elements that p and the thread i determine."""

    ctas: int
    threads: int
    what: str
    """The operation of the draw: `add`, `inc` or `dec`."""
    operand: int
    base: int
    factor: int
    mask: int
    by_thread: int
    """The location of the store is (factor * p ^ mask) + by_thread * i."""
    limit: int
    """Threads whose number is less access something; -1: all do."""
    odd: bool
    """Only odd threads access something."""
    early: bool
    """The others exit."""
    shift: int
    """The location of a load is i + shift; -1: no load."""

    def numbers(self) -> list[int]:
        """Return the numbers that draws return, in their order."""
        found, value = [], self.base
        for _ in range(self.ctas * self.threads):
            found.append(value)
            if self.what == "add":
                value = value + self.operand & 0xFFFFFFFF
            elif self.what == "inc":
                value = 0 if value >= self.operand else value + 1
            else:
                value = self.operand if value == 0 or value > self.operand else value - 1
        return found

    def accesses(self, thread: int, number: int) -> tuple[int | None, int | None]:
        """Return the elements that a thread loads and stores."""
        if (self.limit >= 0 and number >= self.limit) or (self.odd and thread % 2 == 0):
            return None, None
        load = None if self.shift < 0 else thread + self.shift
        return load, (self.factor * number ^ self.mask) + self.by_thread * thread

    def can_fail(self) -> bool:
        """Return whether some assignment of numbers leads to a race or an access out of bounds."""
        for numbers in itertools.permutations(self.numbers()):
            stored: set[int] = set()
            for thread, number in enumerate(numbers):
                load, store = self.accesses(thread, number)
                if store is None:
                    continue
                if (load is not None and load >= ROOM) or store >= ROOM or store in stored:
                    return True
                stored.add(store)
        return False

    def ptx(self) -> str:
        operation = f"atom.global.{self.what}.u32 %p, [%n], {self.operand};"
        leave = "@%q exit;" if self.early else "@%q bra DONE;"
        load = "" if self.shift < 0 else f"mad.wide.u32 %a, %i, 4, %x; ld.global.u32 %v, [%a + {4 * self.shift}];"
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 n_, .param .u64 x_, .param .u64 y_)
{{
  .reg .b32 %i, %c, %t, %p, %v, %s, %u; .reg .b64 %n, %x, %y, %a; .reg .pred %q;
  ld.param.u64 %n, [n_]; ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_];
  mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %t, %ntid.x; mad.lo.u32 %i, %c, %t, %i;
  mov.u32 %v, 7;
  {operation}
  {f"setp.ge.u32 %q, %p, {self.limit}; {leave}" if self.limit >= 0 else ""}
  {f"and.b32 %u, %i, 1; setp.eq.u32 %q, %u, 0; {leave}" if self.odd else ""}
  {load}
  mul.lo.u32 %s, %p, {self.factor}; xor.b32 %s, %s, {self.mask}; mad.lo.u32 %s, %i, {self.by_thread}, %s;
  mad.wide.u32 %a, %s, 4, %y; st.global.u32 [%a], %v;
DONE:
  exit;
}}
"""


def draw_slots(source: random.Random) -> SlotProgram:
    """Draw a program, half of the time one without a mistake."""
    ctas = source.choice((1, 1, 2))
    threads = source.randint(1, 5 // ctas)
    total = ctas * threads
    what, operand, base = source.choice((("add", 1, 0), ("add", 2, 1), ("add", 0xFFFFFFFF, total), ("inc", 100, 0),
                                         ("inc", 2, 0), ("dec", 100, total), ("dec", 3, 2)))  # fmt: skip
    return SlotProgram(
        ctas, threads, what, operand, base, source.choice((1, 1, 2, 0)), source.choice((0, 0, 1, 4)),
        source.choice((0, 0, 0, 1, 2)), source.choice((-1, 1, 2, 4)), source.random() < 0.2, source.random() < 0.4,
        source.choice((-1, -1, 0, 8, 10)),
    )  # fmt: skip


class JudgedSlots(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    program: SlotProgram
    fails: bool
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}: {self.program}"


def judge_slots(program: SlotProgram, engines: tuple[Engine, ...]) -> JudgedSlots:
    """Compare wsemu's verdicts with all assignments of numbers."""
    fails, kernel = program.can_fail(), wsemu.load_ptx(program.ptx())["k"]
    verdicts, complaints = [], []
    for engine in engines:
        given = np.full(1, program.base, np.uint32), np.zeros(ROOM, np.uint32), np.zeros(ROOM, np.uint32)
        report = wsemu.check(kernel, program.ctas, program.threads, given, engine=engine)
        same = {finding.code for finding in report.findings} & {"same-value-store"}
        verdicts.append(report.verdict)
        if fails and report.verdict == "verified" and not same:
            complaints.append(f"{engine}: missed")
        if not fails and report.verdict == "failed":
            complaints.append(f"{engine}: false alarm")
    return JudgedSlots(program, fails, tuple(verdicts), tuple(complaints))
