"""Random kernels whose CTAs add to counters, and wait until these have reached a number: barriers of a grid that count
on, sums for which a thread waits, and tickets of which the last one does more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.properties.turn_programs import judge_by_flags

if TYPE_CHECKING:
    import random

    from tests.properties.turn_programs import JudgedTurns
    from wsemu.model.settings import Engine

_HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 counters_, .param .u64 words_) {
.reg .b64 %f, %w; .reg .b32 %c, %t, %s, %v; .reg .pred %p, %q, %z, %o;
ld.param.u64 %f, [counters_]; ld.param.u64 %w, [words_];
mov.u32 %c, %ctaid.x; mov.u32 %t, %tid.x; mov.u32 %v, 1;
setp.eq.u32 %z, %t, 0; setp.eq.u32 %o, %t, 32;
"""
_FAILS = {"ge": "lt", "gt": "le", "eq": "ne", "ne": "eq"}


class Step(NamedTuple):
    """One step of a CTA, performed by its thread 0, or by a thread of another warp."""

    does: str
    """`load`, `store`, `sum`, `add`, `wait`, `ticket`, `fence`, `barrier`, or `steer`: skip the next step if the last
    loaded value is even"""
    place: int = 0
    value: int = 0
    order: str = "relaxed"
    kind: str = ""
    """how a `wait` compares"""
    other: bool = False
    """true if a thread of another warp performs it"""
    then: tuple[Step, ...] = ()
    """what the last ticket does"""

    def ptx(self, label: str) -> str:
        """Return the instructions."""
        who, flag, word = "%o" if self.other else "%z", f"[%f+{4 * self.place}]", f"[%w+{4 * self.place}]"
        skip = f"@!{who} bra N{label};"
        steps = "\n".join(step.ptx(f"{label}_{n}") for n, step in enumerate(self.then))
        fails = _FAILS.get(self.kind, "ne")
        return {
            "load": f"@{who} ld.global.u32 %v, {word};",
            "store": f"@{who} st.global.u32 {word}, {self.value};",
            "sum": f"@{who} red.relaxed.gpu.global.add.u32 {word}, {self.value};",
            "add": f"@{who} red.{self.order}.gpu.global.add.u32 {flag}, {self.value};",
            "wait": f"{skip} M{label}: ld.{self.order}.gpu.global.u32 %s, {flag}; "
                    f"setp.{fails}.s32 %p, %s, {self.value}; @%p bra M{label}; N{label}:",
            "ticket": f"{skip} atom.{self.order}.gpu.global.add.u32 %s, {flag}, 1; "
                      f"setp.{fails}.s32 %p, %s, {self.value}; @%p bra N{label}; {steps} N{label}:",
            "fence": f"{skip} fence.acq_rel.gpu; N{label}:",
            "barrier": "bar.sync 0;",
            "steer": f"and.b32 %s, %v, 1; setp.eq.u32 %p, %s, 0; @%p bra N{label}; {steps} N{label}:",
        }[self.does]  # fmt: skip


Program = list[list[Step]]
"""the steps of each CTA"""


def ptx(program: Program) -> str:
    """Return the kernel."""
    lines = [_HEAD]
    for cta, steps in enumerate(program):
        lines.append(f"setp.ne.u32 %p, %c, {cta}; @%p bra C{cta};")
        lines += [step.ptx(f"{cta}_{n}") for n, step in enumerate(steps)]
        lines.append(f"ret;\nC{cta}:")
    return "\n".join([*lines, "ret;\n}\n"])


class _Drawing:
    """The choices for one program; some programs have mistakes."""

    def __init__(self, source: random.Random) -> None:
        self.source, self.right = source, source.random() < 0.5

    def errs(self, share: float) -> bool:
        return not self.right and self.source.random() < share

    def add(self, amount: int = 1) -> list[Step]:
        """Draw an addition that releases."""
        by_fence = self.source.random() < 0.5
        order = "relaxed" if by_fence or self.errs(0.15) else "release"
        fences = [Step("fence")] if by_fence and not self.errs(0.15) else []
        barrier = [] if self.errs(0.15) else [Step("barrier")]
        return [*barrier, *fences, Step("add", 0, amount, order)]

    def wait(self, number: int) -> list[Step]:
        """Draw a wait that acquires."""
        by_fence = self.source.random() < 0.5
        order = "relaxed" if by_fence or self.errs(0.15) else "acquire"
        number += self.source.choice((-1, 1)) if self.errs(0.2) else 0
        fences = [Step("fence")] if by_fence and not self.errs(0.15) else []
        kind = self.source.choice(("eq", "gt", "ne")) if self.errs(0.15) else "ge"
        barrier = [] if self.errs(0.15) else [Step("barrier")]
        return [Step("wait", 0, number, order, kind), *fences, *barrier]

    def work(self, place: int, does: tuple[str, ...]) -> list[Step]:
        """Draw accesses to a word."""
        chosen = [self.source.choice(does) for _ in range(self.source.choice((1, 1, 2)))]
        other = self.source.random() < 0.3
        steps = [Step(one, place, self.source.choice((1, 2)), other=other) for one in chosen]
        if "load" in chosen and self.source.random() < 0.5:
            steps = [*steps, Step("steer", then=(Step("store", 4, 7, other=other),))] if place == 4 else steps
        return steps

    def ticket(self, ctas: int, before: int) -> Step:
        """Draw a ticket; the last one accesses words."""
        acquires = not self.errs(0.3)
        order = self.source.choice(("acq_rel",) if acquires else ("relaxed", "release", "acquire"))
        number = before + ctas - 1 - (1 if self.errs(0.2) else 0)
        kind = self.source.choice(("ge", "eq")) if not self.errs(0.2) else "ne"
        then = [Step(self.source.choice(("load", "store")), self.source.randrange(4), 5)]
        return Step("ticket", 0, number, order, kind, then=tuple(then))


def draw_counters(source: random.Random) -> Program:
    """Draw a program whose CTAs meet at a counter; some have mistakes."""
    draw = _Drawing(source)
    ctas = source.choice((2, 2, 2, 3))
    rounds = source.choice((1, 2)) if ctas == 2 else 1
    amounts = [source.choice((1, 1, 2)) for _ in range(ctas)]
    program: Program = []
    for cta in range(ctas):
        steps: list[Step] = []
        for n in range(rounds):
            place = cta if not draw.errs(0.1) else source.randrange(ctas)
            steps += draw.work(place, ("load", "store")) if n == 0 or source.random() < 0.5 else []
            steps += draw.work(4, ("sum",)) if n == 0 and source.random() < 0.4 else []
            steps += draw.add(amounts[cta])
            if source.random() < 0.9:
                steps += draw.wait(sum(amounts) * (n + 1))
                steps += draw.work(source.randrange(ctas), ("load",)) if n == rounds - 1 or draw.errs(0.3) else []
                steps += draw.work(4, ("load",)) if source.random() < 0.3 else []
            elif n < rounds - 1 and not draw.errs(0.3):
                steps += draw.wait(sum(amounts) * (n + 1))
        program.append(steps)
    if source.random() < 0.4:
        for steps in program:
            steps += [*([] if draw.errs(0.15) else [Step("barrier")]), draw.ticket(ctas, rounds * sum(amounts))]
    if draw.errs(0.2):
        steps = source.choice(program)
        steps.insert(source.randrange(len(steps) + 1), Step("add", 0, source.choice((1, 2))))
    if draw.errs(0.1):
        steps = source.choice(program)
        del steps[source.randrange(len(steps))]
    return program


def judge_counters(program: Program, engines: tuple[Engine, ...]) -> JudgedTurns:
    """Compare the method of flags with a search through all interleavings."""
    return judge_by_flags(ptx(program), len(program), engines)
