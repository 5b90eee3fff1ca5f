"""Random kernels that keep the results of atomics in shared memory next to other values, in words that are used again:
tickets of CTAs of which the last one does more, counters of one thread, words whose contents depend on the order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from wsemu.model.settings import Engine

THREADS, SLOTS, WORDS = 64, 4, 4
"""Threads of a CTA; words of its shared memory; words of an array for each CTA."""
WHO = {"z": (0,), "o": (32,), "a": tuple(range(THREADS))}
"""The threads that perform a step: the first one of each warp, or all."""
ATOMICS = ("swap", "add", "own")
"""Steps of both warps, or of the first one, that are atomic on shared memory."""
_HEAD = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 counter_, .param .u64 words_) {{
.reg .b64 %n, %w, %m, %x; .reg .b32 %c, %g, %t, %v, %s, %u; .reg .pred %p, %q, %z, %o;
.shared .align 4 .b8 s[{4 * SLOTS}];
ld.param.u64 %n, [counter_]; ld.param.u64 %w, [words_]; mov.u32 %c, %ctaid.x; mov.u32 %g, %nctaid.x; mov.u32 %t, %tid.x;
setp.eq.u32 %z, %t, 0; setp.eq.u32 %o, %t, 32; mov.u32 %s, s; mov.u32 %v, 0;
mul.lo.u32 %u, %c, {4 * WORDS}; cvt.u64.u32 %x, %u; add.u64 %m, %w, %x;
add.u32 %u, %c, 1; rem.u32 %u, %u, %g; mul.lo.u32 %u, %u, {4 * WORDS}; cvt.u64.u32 %x, %u; add.u64 %x, %w, %x;
"""


class Step(NamedTuple):
    """A step of each CTA."""

    does: str
    """`put`, `lanes` (each thread puts its number), `copy`, `swap` (both warps exchange), `add` (both warps add), `own`
    (one thread counts), `ticket`, `barrier`, `fence`, `store`, `load` (a word of the next CTA), `end` (store the last
    loaded value in a word for all CTAs), `bad` (store outside in one CTA), or `test`: if a word has a value, perform
    other steps"""
    who: str = "z"
    slot: int = 0
    to: int = 0
    value: int = 0
    then: tuple[Step, ...] = ()

    def ptx(self, label: str) -> str:
        """Return the instructions."""
        guard = {"z": "@%z ", "o": "@%o ", "a": ""}[self.who]
        cell, other = f"[s+{4 * self.slot}]", f"[s+{4 * self.to}]"
        order = "acq_rel" if self.value else "relaxed"
        skip = {"z": f"@!%z bra N{label};", "o": f"@!%o bra N{label};", "a": ""}[self.who]
        then = "\n".join(step.ptx(f"{label}_{n}") for n, step in enumerate(self.then))
        return {
            "put": f"mov.u32 %u, {self.value}; {guard}st.shared.u32 {cell}, %u;",
            "lanes": f"{guard}st.shared.u32 {cell}, %t;",
            "copy": f"{guard}ld.shared.u32 %v, {cell}; {guard}st.shared.u32 {other}, %v;",
            "swap": f"@%z atom.shared.exch.b32 %u, {cell}, 1; @%o atom.shared.exch.b32 %u, {cell}, 2;",
            "add": f"@%z red.shared.add.u32 {cell}, 1; @%o red.shared.add.u32 {cell}, 2;",
            "own": f"@%z atom.shared.add.u32 %v, {cell}, 1; @%z st.shared.u32 {other}, %v;",
            "ticket": f"@%z atom.{order}.gpu.global.add.u32 %v, [%n], 1; @%z st.shared.u32 {cell}, %v;",
            "barrier": "bar.sync 0;",
            "fence": f"{skip} fence.acq_rel.gpu; N{label}:",
            "store": f"{guard}ld.shared.u32 %v, {cell}; {guard}st.global.u32 [%m+{4 * self.to}], %v;",
            "load": f"{guard}ld.global.u32 %v, [%x+{4 * self.to}];",
            "end": f"{guard}st.global.u32 [%w+{4 * WORDS * 3 + 4 * self.to}], %v;",
            "bad": f"setp.eq.u32 %q, %c, {self.value}; setp.ne.and.u32 %q, %c, %g, %q; "
                   f"selp.u32 %u, 1, 0, %q; setp.eq.and.u32 %q, %u, 1, %z; @%q st.global.u32 [%w+4000000], %v;",
            "test": f"{guard}ld.shared.u32 %v, {cell}; setp.ne.u32 %p, %v, {self.value};\n"
                    f"{skip} @%p bra N{label};\n{then}\nN{label}:",
        }[self.does]  # fmt: skip


class FlowProgram(NamedTuple):
    """The steps of each CTA, after the words of its shared memory have got the value 0."""

    ctas: int
    steps: tuple[Step, ...]

    def ptx(self) -> str:
        first = [Step("put", slot=n) for n in range(SLOTS)]
        lines = "\n".join(step.ptx(str(n)) for n, step in enumerate((*first, Step("barrier"), *self.steps)))
        return f"{_HEAD}{lines}\nexit;\n}}\n"

    def can_fail(self, *, strict: bool) -> bool:
        """Return whether some order of the atomics has a race, or a store outside of the array.  With `strict`, only a
        fence of the thread that arrives releases what other threads did."""
        turns = [*itertools.product(*([*_find_turns(steps)] for steps in self.find_atomics()))]
        for order in itertools.permutations(range(self.ctas)):
            for chosen in itertools.product(turns, repeat=self.ctas):
                if _Execution(self, order, chosen, strict=strict).fails():
                    return True
        return False

    def find_atomics(self) -> list[list[Step]]:
        """Return the atomics on shared memory between one barrier and the next."""
        intervals = list[list[Step]]([[]])
        for step in self.steps:
            if step.does == "barrier":
                intervals.append([])
            elif step.does in ATOMICS:
                intervals[-1].append(step)
        return intervals


def _find_turns(steps: list[Step]) -> Iterator[tuple[bool, ...]]:
    """Yield the orders of the atomics between two barriers: whether the next one is of the first warp."""
    both = len(steps) + sum(step.does != "own" for step in steps)
    for first in itertools.combinations(range(both), len(steps)):
        yield tuple(n in first for n in range(both))


class Access(NamedTuple):
    """An access of a thread to a word."""

    cta: int
    thread: int
    interval: int
    """number of barriers before it"""
    step: int
    kind: str
    """`r`, `w`, or `a` for an atomic"""
    value: int
    released: bool
    acquired: bool


class _Execution:
    """The CTAs one after another, with a certain order of the atomics between two barriers."""

    def __init__(
        self,
        program: FlowProgram,
        order: tuple[int, ...],
        chosen: tuple[tuple[tuple[bool, ...], ...], ...],
        *,
        strict: bool,
    ) -> None:
        self.program, self.strict = program, strict
        self.order, self.chosen = order, chosen
        self.words = dict[int, int]()
        self.accesses = dict[tuple[str, int, int], list[Access]]()
        self.arrivals = 0
        self.outside = False

    def fails(self) -> bool:
        """Return whether something is wrong with it."""
        for cta in self.order:
            self._run(cta)
        return self.outside or any(self._races(there) for there in self.accesses.values())

    def _run(self, cta: int) -> None:
        self.cta, self.interval, self.at = cta, 0, 0
        self.cells, self.last = [0] * SLOTS, dict.fromkeys(range(THREADS), 0)
        self._begin_interval()
        steps = self.program.steps
        self.ticket = next((n for n, step in enumerate(steps) if step.does == "ticket"), len(steps))
        for n, step in enumerate(steps):
            self.at = n
            self._perform(step)

    def _begin_interval(self) -> None:
        self.turns = iter(self.chosen[self.cta][self.interval])
        atomics = self.program.find_atomics()[self.interval]
        self.second = iter([step for step in atomics if step.does != "own"])

    def _take_turns(self) -> None:
        """Perform the atomics of the second warp before the next one of the first warp, or before the barrier."""
        for of_first in self.turns:
            if of_first:
                return
            self._change(next(self.second), 2)

    def _change(self, step: Step, value: int) -> None:
        """Perform an exchange or an addition of one warp."""
        self.cells[step.slot] = value if step.does == "swap" else self.cells[step.slot] + value

    def _record(self, space: str, word: int, thread: int, kind: str, value: int) -> None:
        own = self.cta if space == "s" else -1
        one = Access(
            self.cta, thread, self.interval, self.at, kind, value, self._is_released(thread), self._is_acquired(thread)
        )
        self.accesses.setdefault((space, own, word), []).append(one)

    def _is_released(self, thread: int) -> bool:
        """Return whether the arrival of the CTA releases an access that a thread performs now."""
        steps, ticket = self.program.steps, self.ticket
        after = steps[self.at + 1 : ticket]
        if self.at >= ticket or ticket == len(steps):
            return False
        barrier = next((n for n, step in enumerate(after) if step.does == "barrier"), len(after))
        fences = [n for n, step in enumerate(after) if step.does == "fence" and 0 in WHO[step.who]]
        if thread == 0:
            return bool(fences) or bool(steps[ticket].value)
        own = any(step.does == "fence" and thread in WHO[step.who] for step in after[:barrier])
        here = any(n > barrier for n in fences) or bool(steps[ticket].value)
        return barrier < len(after) and (here or (own and not self.strict))

    def _is_acquired(self, thread: int) -> bool:
        """Return whether the arrival of the CTA acquires before an access that a thread performs now."""
        steps, ticket = self.program.steps, self.ticket
        if self.at <= ticket or ticket == len(steps):
            return False
        between = steps[ticket + 1 : self.at]
        fences = [n for n, step in enumerate(between) if step.does == "fence" and 0 in WHO[step.who]]
        first = -1 if steps[ticket].value else fences[0] if fences else len(between)
        if thread == 0:
            return first < len(between)
        return any(step.does == "barrier" for step in between[first + 1 :])

    def _perform(self, step: Step) -> None:
        threads = WHO[step.who]
        match step.does:
            case "barrier":
                self._take_turns()
                self.interval += 1
                self._begin_interval()
            case "put" | "lanes":
                for thread in threads:
                    self.cells[step.slot] = thread if step.does == "lanes" else step.value
                    self._record("s", step.slot, thread, "w", self.cells[step.slot])
            case "copy" | "store":
                self._copy(step, threads)
            case "swap" | "add":
                for thread in (0, 32):
                    self._record("s", step.slot, thread, "a", 0)
                self._take_turns()
                self._change(step, 1)
            case "own":
                self._record("s", step.slot, 0, "a", 0)
                self._take_turns()
                self.last[0] = self.cells[step.slot]
                self.cells[step.slot] += 1
                self._put(step.to, 0)
            case "ticket":
                self.last[0] = self.arrivals
                self.arrivals += 1
                self._put(step.slot, 0)
            case "load":
                for thread in threads:
                    word = (self.cta + 1) % self.program.ctas * WORDS + step.to
                    self.last[thread] = self.words.get(word, 0)
                    self._record("w", word, thread, "r", 0)
            case "end":
                for thread in threads:
                    self.words[3 * WORDS + step.to] = self.last[thread]
                    self._record("w", 3 * WORDS + step.to, thread, "w", self.last[thread])
            case "bad":
                self.outside |= self.cta == step.value and 0 in self.inside
            case "test":
                self._test(step, threads)

    def _put(self, slot: int, thread: int) -> None:
        self.cells[slot] = self.last[thread]
        self._record("s", slot, thread, "w", self.last[thread])

    def _copy(self, step: Step, threads: tuple[int, ...]) -> None:
        for thread in threads:
            self.last[thread] = self.cells[step.slot]
            self._record("s", step.slot, thread, "r", 0)
        for thread in threads:
            if step.does == "copy":
                self._put(step.to, thread)
            else:
                self.words[self.cta * WORDS + step.to] = self.last[thread]
                self._record("w", self.cta * WORDS + step.to, thread, "w", self.last[thread])

    def _test(self, step: Step, threads: tuple[int, ...]) -> None:
        for thread in threads:
            self.last[thread] = self.cells[step.slot]
            self._record("s", step.slot, thread, "r", 0)
        self.inside = {thread for thread in threads if self.last[thread] == step.value}
        for then in step.then if self.inside else ():
            if {*WHO[then.who]} & self.inside or then.does == "bad":
                self._perform(then._replace(who="z") if step.who == "z" else then)

    def _races(self, there: list[Access]) -> bool:
        kinds = {one.kind for one in there}
        if kinds in ({"r"}, {"a"}):
            return False
        distinct = {one._replace(value=0) for one in there}
        if any(one.kind != "r" and self._conflict(one, other) for one in distinct for other in distinct):
            return True
        values: dict[tuple[int, int], set[int]] = {}
        for one in there:
            if one.kind == "w":
                values.setdefault((one.cta, one.step), set()).add(one.value)
        return any(len(found) > 1 for found in values.values())

    def _conflict(self, one: Access, other: Access) -> bool:
        if (one.cta, one.thread) == (other.cta, other.thread) or one.kind == other.kind == "a":
            return False
        if one.cta == other.cta:
            lanes = one.step == other.step and one.kind == other.kind == "w" and one.thread // 32 == other.thread // 32
            return one.interval == other.interval and not lanes
        early, late = (one, other) if self.order.index(one.cta) < self.order.index(other.cta) else (other, one)
        return not (early.released and late.acquired)


def _draw_ticket(source: random.Random, ctas: int) -> Iterator[Step]:
    """Draw a launch whose CTAs store parts, arrive at a counter, and of which one does more."""
    slot, again = source.randrange(SLOTS), source.randrange(SLOTS)
    for _ in range(source.randint(1, 2)):
        yield Step("put", source.choice("zoa"), source.choice((slot, again)), value=source.randint(1, 3))
        yield Step("barrier")
    yield Step("store", source.choice("zzo"), source.choice((slot, again)), source.randrange(2))
    if source.random() < 0.3:
        yield Step("fence", "a")
    if source.random() < 0.9:
        yield Step("barrier")
    if source.random() < 0.3:
        yield Step("fence", "z")
    yield Step("ticket", slot=slot, value=source.choice((0, 1, 1, 1)))
    if source.random() < 0.3:
        yield Step("fence", "z")
    if source.random() < 0.9:
        yield Step("barrier")
    if source.random() < 0.3:
        yield Step("copy", "z", slot, again)
        yield Step("barrier")
        slot = again
    then = [Step("load", source.choice("za"), to=source.randrange(2))]
    then += [source.choice((Step("end", "z"), Step("end", "a"), Step("put", "a", source.randrange(SLOTS), value=5),
                            Step("lanes", source.choice("za"), source.randrange(SLOTS))))]  # fmt: skip
    if source.random() < 0.15:
        then = [Step("bad", value=source.randrange(ctas))]
    yield Step("test", "a", slot, value=source.choice((ctas - 1,) * 4 + (0, 1)), then=tuple(then))


def _draw_words(source: random.Random) -> Iterator[Step]:
    """Draw steps whose words depend on the order, and others that do not; then a test."""
    for _ in range(source.randint(2, 6)):
        slot, to = source.randrange(SLOTS), source.randrange(SLOTS)
        does = source.choice(("put", "copy", "swap", "add", "own", "own", "store"))
        yield Step(does, source.choice("zzo"), slot, to, source.randint(0, 3))
        if source.random() < 0.9:
            yield Step("barrier")
    yield Step("test", source.choice("az"), source.randrange(SLOTS), value=source.randint(0, 3),
               then=(source.choice((Step("bad"), Step("end", "z"), Step("end", "a"))),))  # fmt: skip


def draw_flows(source: random.Random) -> FlowProgram:
    """Draw a program, often one without a mistake."""
    if source.random() < 0.5:
        return FlowProgram(1, tuple(_draw_words(source)))
    ctas = source.randint(1, 3)
    return FlowProgram(ctas, tuple(_draw_ticket(source, ctas)))


class JudgedFlows(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    program: FlowProgram
    fails: bool
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}: {self.program}"


def judge_flows(program: FlowProgram, engines: tuple[Engine, ...]) -> JudgedFlows:
    """Compare wsemu's verdicts with all orders."""
    fails = program.can_fail(strict=False)
    may_fail = fails or program.can_fail(strict=True)
    kernel = wsemu.load_ptx(program.ptx())["k"]
    verdicts, complaints = [], []
    for engine in engines:
        arrays = np.zeros(1, np.uint32), np.zeros(4 * WORDS, np.uint32)
        report = wsemu.check(kernel, program.ctas, THREADS, arrays, engine=engine, budget=50_000)
        same = {finding.code for finding in report.findings} & {"same-value-store", "same-value"}
        verdicts.append(report.verdict)
        if fails and report.verdict == "verified" and not same:
            complaints.append(f"{engine}: missed")
        if not may_fail and report.verdict == "failed":
            complaints.append(f"{engine}: false alarm")
    return JudgedFlows(program, fails, tuple(verdicts), tuple(complaints))
