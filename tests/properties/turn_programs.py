"""Random kernels whose CTAs take turns at flags, which several of them write: waits of a lane, or of a whole CTA that
meets in each round, and first looks before such a wait."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from unittest import mock

import numpy as np

import wsemu
from wsemu.launch.explore import decide
from wsemu.launch.explore.methods import decide_by_flags

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from wsemu.launch.explore.decided import Case, Decided
    from wsemu.model.settings import Engine

WORDS, THREADS = 5, 64
_HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 flags_, .param .u64 words_) {
.reg .b64 %f, %w; .reg .b32 %c, %t, %s, %v; .reg .pred %p, %q, %z, %o;
ld.param.u64 %f, [flags_]; ld.param.u64 %w, [words_];
mov.u32 %c, %ctaid.x; mov.u32 %t, %tid.x; mov.u32 %s, 99;
setp.eq.u32 %z, %t, 0; setp.eq.u32 %o, %t, 32;
"""


class Step(NamedTuple):
    """One step of all threads of a CTA; most steps are performed by thread 0 alone."""

    does: str
    """`load`, `store`, `set`, `wait`, `look`, `fence` or `barrier`"""
    place: int = 0
    value: int = 0
    order: str = ""
    """of `set` and `wait`: `relaxed`, `release` or `acquire`"""
    kind: str = ""
    """`eq` or `ge` for a `wait`; `other` for an access of another warp"""
    meets: bool = False
    """All threads meet in each round of a wait."""

    def ptx(self, label: str) -> str:
        """Return the instructions; a wait that meets uses the value of an earlier `look`."""
        who, flag = "%o" if self.kind == "other" else "%z", f"[%f+{4 * self.place}]"
        word = f"[%w+{4 * self.place}]"
        test = f"setp.{'ne' if self.kind == 'eq' else 'lt'}.s32 %p, %s, {self.value};"
        read = f"ld.{self.order}.gpu.global.u32 %s, {flag};"
        look = f"@!%z bra L{label}; {read} L{label}:"
        meet = f"M{label}: {test} bar.red.and.pred %q, 0, %p; @!%q bra N{label}; {look} bra M{label}; N{label}:"
        alone = f"@!%z bra N{label}; M{label}: {read} {test} @%p bra M{label}; N{label}:"
        return {
            "load": f"@{who} ld.global.u32 %v, {word};",
            "store": f"@{who} st.global.u32 {word}, {self.value};",
            "set": f"@%z st.{self.order}.gpu.global.u32 {flag}, {self.value};",
            "look": look,
            "wait": meet if self.meets else alone,
            "fence": f"@!%z bra N{label}; fence.acq_rel.gpu; N{label}:",
            "barrier": "bar.sync 0;",
        }[self.does]


Program = list[list[Step]]
"""the steps of each CTA"""


def ptx(program: Program) -> str:
    """Return the kernel."""
    lines = [_HEAD]
    for cta, steps in enumerate(program):
        lines.append(f"setp.ne.u32 %p, %c, {cta}; @%p bra C{cta};")
        lines += ["mov.u32 %s, -1;\n" + step.ptx(f"{cta}_{n}") if _begins_wait(steps, n) else step.ptx(f"{cta}_{n}")
                  for n, step in enumerate(steps)]  # fmt: skip
        lines.append(f"ret;\nC{cta}:")
    return "\n".join([*lines, "ret;\n}\n"])


def _begins_wait(steps: list[Step], n: int) -> bool:
    """Return whether a step begins a wait: its first look, or the wait itself if there is none before it."""
    looked = any(step.does == "look" for step in steps[:n])
    waited = any(step.does == "wait" for step in steps[:n])
    return steps[n].does == "look" or (steps[n].does == "wait" and (waited or not looked))


def draw_turns(source: random.Random) -> Program:
    """Draw a program in which each CTA waits for its turn, works, and hands it on; some have mistakes."""
    if source.random() < 0.3:
        return draw_returns(source)
    ctas, right = source.choice((2, 2, 3)), source.random() < 0.4

    def errs(share: float) -> bool:
        return not right and source.random() < share

    program = []
    for cta in range(ctas):
        meets, order = source.random() < 0.6, "relaxed" if errs(0.15) else "acquire"
        value = source.randrange(ctas) if errs(0.1) else cta
        wait = Step("wait", 0, value, order, "ge" if errs(0.2) else "eq", meets)
        look = [Step("look", 0, 0, "relaxed" if errs(0.1) else order)] if meets and source.random() < 0.5 else []
        before = [Step("store", 1 + cta % 2, cta)] if errs(0.15) else []
        if meets and source.random() < 0.4:
            before += _draw_meetings(source, 2 + cta)
        who = source.choice(("", "other"))
        work = [Step(does, 0, cta, kind=who) for does in ("load", "store")]
        more = [Step(source.choice(("load", "store")), source.randrange(3), cta)] if errs(0.3) else []
        hand = [Step("set", 0, source.randrange(ctas + 1) if errs(0.1) else (cta + 1) % (ctas + source.randrange(2)),
                     "relaxed" if errs(0.15) else "release")]  # fmt: skip
        barriers = [[] if errs(0.15) else [Step("barrier")] for _ in range(2)]
        fences = [[Step("fence")] if errs(0.15) else [] for _ in range(2)]
        steps = [*look, *before, wait, *fences[0], *barriers[0], *work, *more, *barriers[1], *fences[1], *hand]
        if errs(0.1):
            steps.insert(source.randrange(len(steps)), hand[0])
        program.append(steps if cta or not errs(0.2) else [*steps[len(look) + 1 :]])
    return program


def _draw_meetings(source: random.Random, place: int) -> list[Step]:
    """Draw meetings of a CTA, between which its warps access a word of the CTA: without a race if each store is alone
    between two meetings."""
    steps = [Step("barrier")]
    for _ in range(source.choice((1, 2, 3))):
        accesses = [Step(source.choice(("load", "store")), place, 1, kind=source.choice(("", "other")))]
        if source.random() < 0.2:
            accesses += [Step("load", place, 0, kind=source.choice(("", "other")))]
        steps += [*accesses[: source.choice((0, 1, 1, 2))], Step("barrier")]
    return steps


def draw_returns(source: random.Random) -> Program:
    """Draw a program of two CTAs that hand a turn to each other several times, by values that come again; some have
    mistakes."""
    right, rounds = source.random() < 0.4, source.choice((1, 2, 3))

    def errs(share: float) -> bool:
        return not right and source.random() < share

    def is_met() -> bool:
        return source.random() < 0.3

    program: Program = [[], []]
    for cta, own, other in ((0, 1, 2), (1, 2, 1)):
        for n in range(rounds):
            wait = Step("wait", 0, other, "acquire", "ge" if errs(0.1) else "eq", is_met())
            work = [Step(does, 0, cta) for does in ("load", "store")]
            hand = Step("set", 0, source.randrange(4) if errs(0.15) else own, "relaxed" if errs(0.1) else "release")
            waits = [] if (not cta and not n) or errs(0.1) else [wait]
            program[cta] += [*waits, *([] if errs(0.2) else work), *([] if errs(0.15) else [hand])]
    for _ in range(2):
        if errs(0.4):
            steps = program[source.randrange(2)]
            value, at = source.randrange(4), source.randrange(len(steps) + 1)
            more = Step("set", 0, value, "release"), Step("wait", 0, 1 + value % 2, "acquire", "eq")
            steps.insert(at, source.choice(more))
    return program


class JudgedTurns(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    text: str
    fails: bool
    """An interleaving fails, by a search through all of them."""
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}: {self.text}"


@contextmanager
def flags_come_first() -> Iterator[list[Decided | None]]:
    """Let the method of flags come first; the list gets what it decides."""
    decided: list[Decided | None] = []

    def first(case: Case) -> Decided | None:
        decided.append(decide_by_flags(case._replace(session=cast("Any", case.session).session)))
        return decided[-1]

    with mock.patch.object(decide, "decide_thread_modularly", first):
        yield decided


def check_by_flags(text: str, ctas: int, engine: Engine = "vm") -> tuple[str, bool]:
    """Return the verdict of a kernel if the method of flags comes first, and whether that decides."""
    with flags_come_first() as decided:
        verdict = check(text, ctas, engine)
    return verdict, any(one is not None and one.proven for one in decided)


def check(text: str, ctas: int, engine: Engine = "vm") -> str:
    """Return the verdict of a kernel."""
    given = np.zeros(2, np.uint32), np.zeros(WORDS, np.uint32)
    return wsemu.check(wsemu.load_ptx(text)["k"], ctas, THREADS, given, engine=engine, budget=20_000).verdict


def judge_turns(program: Program, engines: tuple[Engine, ...]) -> JudgedTurns:
    """Compare the method of flags with a search through all interleavings."""
    return judge_by_flags(ptx(program), len(program), engines)


def judge_by_flags(text: str, ctas: int, engines: tuple[Engine, ...]) -> JudgedTurns:
    """Compare the method of flags with a search through all interleavings of a kernel."""
    with mock.patch.object(decide, "decide_by_flags", return_value=None):
        by_orders = check(text, ctas)
    verdicts, complaints = [], []
    for engine in engines:
        verdict, decides = check_by_flags(text, ctas, engine)
        verdicts.append(verdict)
        if by_orders == "failed" and (decides or verdict == "verified"):
            complaints.append(f"{engine}: missed")
        if by_orders == "verified" and verdict == "failed":
            complaints.append(f"{engine}: false alarm")
    return JudgedTurns(text, by_orders == "failed", tuple(verdicts), tuple(complaints))
