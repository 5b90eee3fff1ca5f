"""Random rings of accumulators in tensor memory, and what all their interleavings do.

A thread multiplies into slots and commits; one or two warps load the slots, may store there, and free them.  Mutations
delete, exchange or repeat operations, and change mbarriers, parities and counts.  The enumeration follows PTX ISA,
"Memory Consistency Model for 5th generation of TensorCore operations": a product, a load or a store happens at any time
after its issue; those of a pipelined pair happen in their order.  A wait ends after the loads or stores of its warp; a
commit arrives after the products of its thread.  A program is correct if no interleaving ends in a deadlock and each
access finds the same last write in all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random

    from wsemu.model.settings import Engine

MULTIPLY, COMMIT, LOAD, STORE, WAIT_LOADS, WAIT_STORES, ARRIVE, AWAIT, PLAIN = range(9)
NAMES = ("mma", "commit", "ld", "st", "wait::ld", "wait::st", "arrive", "wait", "nothing")
WARPS = (0, 1, 4)
"""the warp that multiplies; warps that load: the second has the lanes of the first of the CTA"""
MOST_STATES = 200_000
LOADS = (LOAD, STORE)


class Step(NamedTuple):
    """An operation on a slot or an mbarrier; of a wait its parity, of a product whether it adds."""

    what: int
    place: int = 0
    parity: int = 0

    def __str__(self) -> str:
        return f"{NAMES[self.what]} {self.place} {self.parity}"


class ColumnProgram(NamedTuple):
    """Steps of each warp, and arrivals of a phase of each mbarrier."""

    threads: tuple[tuple[Step, ...], ...]
    counts: tuple[int, ...]
    slots: int

    def __str__(self) -> str:
        steps = [f"warp {WARPS[n]}: " + "; ".join(map(str, thread)) for n, thread in enumerate(self.threads)]
        return "\n".join([*steps, f"counts {self.counts}"])

    def ptx(self) -> str:
        """Return a kernel that executes them; all warps meet before the columns are released."""
        inits = "".join(
            f"  @%p2 mbarrier.init.shared::cta.b64 [%r4+{8 * n}], {count};\n" for n, count in enumerate(self.counts)
        )
        bodies = "".join(
            f"W{n}:\n  setp.ne.u32 %p1, %r5, {WARPS[n]};\n  @%p1 bra W{n + 1};\n"
            + "".join(_emit(step, f"L{n}_{k}", first=n == 0) for k, step in enumerate(thread))
            for n, thread in enumerate(self.threads)
        )
        return HEADER + inits + MEET + bodies + f"W{len(self.threads)}:\n" + FOOTER

    def can_fail(self) -> bool | None:
        """Return whether some interleaving fails or differs; None: there are too many."""
        return Enumeration(self).fails()


HEADER = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bars[4];
  .shared .align 4 .b32 slot;
  .reg .b32 %r<40>; .reg .b32 %v<8>; .reg .b64 %rd<16>; .reg .pred %p<9>;
  mov.u32 %r1, %tid.x; shr.u32 %r5, %r1, 5; mov.u32 %r2, slot; mov.u32 %r3, tile; mov.u32 %r4, bars;
  ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
  setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p5, %r1, %r1; setp.ne.u32 %p6, %r1, %r1;
  setp.ne.u32 %p1, %r5, 0;
  @%p1 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
  @%p2 st.bulk.weak.shared::cta [%r3], 8192, 0;
  @%p2 fence.proxy.async.shared::cta;
  and.b32 %r6, %r1, 31; setp.eq.u32 %p3, %r6, 0;
"""
MEET = """
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  ld.shared.b32 %r11, [%r2];
  shr.u32 %r6, %r3, 4; cvt.u64.u32 %rd8, %r6; mov.b64 %rd6, 0x401000080000; add.u64 %rd6, %rd6, %rd8;
  mov.b64 %rd7, 0x401000080100; add.u64 %rd7, %rd7, %rd8; mov.b32 %r15, 0x8020010;
"""
FOOTER = """
  bar.sync 0;
  setp.ne.u32 %p1, %r5, 0;
  @%p1 bra END;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;
END:
  ret;
}
"""


def _emit(step: Step, label: str, *, first: bool) -> str:
    at = f"[%r4+{8 * step.place}]"
    columns = f"  add.u32 %r12, %r11, {8 * step.place};\n"
    match step.what:
        case 0:
            uses = "%p5" if step.parity else "%p6"
            issue = f"@%p3 tcgen05.mma.cta_group::1.kind::f16 [%r12], %rd6, %rd7, %r15, {uses};\n"
            return columns + "  " + issue if first else ""
        case 1:
            commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
            return f"  @%p3 {commit} {at};\n" if first else ""
        case 2:
            return columns + "  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v0, %v1}, [%r12];\n"
        case 3:
            return columns + "  tcgen05.st.sync.aligned.32x32b.x2.b32 [%r12], {%r1, %r1};\n"
        case 4:
            return "  tcgen05.wait::ld.sync.aligned;\n"
        case 5:
            return "  tcgen05.wait::st.sync.aligned;\n"
        case 6:
            return f"  bar.warp.sync -1;\n  @%p3 mbarrier.arrive.shared::cta.b64 _, {at};\n"
        case 7:
            wait = f"mbarrier.try_wait.parity.shared::cta.b64 %p4, {at}, {step.parity};"
            return f"{label}:\n  {wait}\n  @!%p4 bra {label};\n"
    return ""


# -- enumeration -------------------------------------------------------------------------------------------------------

Access = tuple[int, int]
"""(thread, step): one access, by what it is"""


Write = tuple[Access, bool]
"""a write, and whether it leaves a value: a product that adds to arbitrary words does not"""


class State(NamedTuple):
    """Where the threads are; operations that have not happened; mbarriers; the last access that wrote each slot."""

    at: tuple[int, ...]
    pending: frozenset[Access]
    bars: tuple[tuple[int, int], ...]
    """of each mbarrier (phase, arrivals that it waits for)"""
    last: tuple[Write | None, ...]


class Enumeration:
    """All interleavings of a program, each state once."""

    def __init__(self, program: ColumnProgram) -> None:
        self.program = program
        self.found: dict[tuple[Access, int], Write | None] = {}
        """access and part of the slot -> the last write that it finds"""
        self.failed = False

    def fails(self) -> bool | None:
        """Return whether some interleaving fails or differs; None: there are too many states."""
        slots = 2 * self.program.slots
        start = State(
            (0,) * len(self.program.threads), frozenset(), tuple((0, n) for n in self.program.counts), (None,) * slots
        )
        seen, queue = {start}, [start]
        while queue and not self.failed:
            state = queue.pop()
            following = list(self._follow(state))
            if not following and any(
                at < len(thread) for at, thread in zip(state.at, self.program.threads, strict=True)
            ):
                return True  # a deadlock
            for one in following:
                if one not in seen:
                    seen.add(one)
                    queue.append(one)
            if len(seen) > MOST_STATES:
                return None
        return self.failed

    def _step(self, access: Access) -> Step:
        return self.program.threads[access[0]][access[1]]

    def _follow(self, state: State) -> list[State]:
        found = [self._happen(state, one) for one in state.pending if self._is_ready(state, one)]
        ended = all(at == len(thread) for at, thread in zip(state.at, self.program.threads, strict=True))
        if ended and any(self._step(one).what != COMMIT for one in state.pending):
            self.failed = True  # the release of the columns may come before
        for n, (at, thread) in enumerate(zip(state.at, self.program.threads, strict=True)):
            if at < len(thread) and (after := self._execute(state, n, at)) is not None:
                found.append(after)
        return found

    def _execute(self, state: State, n: int, at: int) -> State | None:
        """Return the state after a step of a thread, None if it waits."""
        step = self.program.threads[n][at]
        moved = tuple(one + (thread == n) for thread, one in enumerate(state.at))
        mine = [self._step(one).what for one in state.pending if one[0] == n]
        match step.what:
            case 0 | 1 | 2 | 3:
                return state._replace(at=moved, pending=state.pending | {(n, at)})
            case 4 | 5:
                return None if (LOAD if step.what == WAIT_LOADS else STORE) in mine else state._replace(at=moved)
            case 6:
                return _arrive(state._replace(at=moved), self.program, step.place)
            case 7:
                passes = state.bars[step.place][0] & 1 != step.parity
                return state._replace(at=moved) if passes else None
        return state._replace(at=moved)

    def _is_ready(self, state: State, one: Access) -> bool:
        """Return whether an operation may happen: those that it comes after have."""
        step = self._step(one)
        for other in state.pending:
            before = self._step(other)
            if other[0] != one[0] or other[1] >= one[1]:
                continue
            if step.what == COMMIT and before.what == MULTIPLY:
                return False
            if step.place != before.place:
                continue
            pair = (before.what, step.what)
            if pair in ((MULTIPLY, MULTIPLY), (STORE, LOAD), (STORE, STORE), (LOAD, STORE)):
                return False
        return True

    def _happen(self, state: State, one: Access) -> State:
        step, rest = self._step(one), state.pending - {one}
        state = state._replace(pending=rest)
        if step.what == COMMIT:
            return _arrive(state, self.program, step.place)
        parts = self._parts(one, step)
        last = list(state.last)
        for part in parts:
            before = last[part]
            if self.found.setdefault((one, part), before) != before:
                self.failed = True
            known = before is not None and before[1]
            if step.what == LOAD:
                self.failed |= not known
            else:
                last[part] = one, known or not (step.what == MULTIPLY and step.parity)
        return state._replace(last=tuple(last))

    def _parts(self, one: Access, step: Step) -> list[int]:
        """Return the parts of a slot: its lanes of quarter 0, and of quarter 1."""
        if step.what == MULTIPLY:
            return [2 * step.place, 2 * step.place + 1]
        return [2 * step.place + WARPS[one[0]] % 4]


def _arrive(state: State, program: ColumnProgram, bar: int) -> State:
    phase, missing = state.bars[bar]
    after = (phase, missing - 1) if missing > 1 else (phase + 1, program.counts[bar])
    return state._replace(bars=tuple(after if n == bar else one for n, one in enumerate(state.bars)))


# -- programs ----------------------------------------------------------------------------------------------------------


def draw_columns(source: random.Random) -> ColumnProgram:
    """Draw a ring, and change it up to three times."""
    tiles, slots, readers = source.randint(1, 3), source.randint(1, 2), source.randint(1, 2)
    adds, stores = source.random() < 0.3, source.random() < 0.3
    threads: list[list[Step]] = [[] for _ in range(1 + readers)]
    for tile in range(tiles):
        slot, turn = tile % slots, tile // slots
        if turn:
            threads[0].append(Step(AWAIT, slots + slot, (turn - 1) & 1))
        threads[0] += [Step(MULTIPLY, slot), *([Step(MULTIPLY, slot, 1)] if adds else []), Step(COMMIT, slot)]
        for thread in threads[1:]:
            thread += [Step(AWAIT, slot, turn & 1), Step(LOAD, slot), Step(WAIT_LOADS)]
            thread += [Step(STORE, slot), Step(WAIT_STORES)] if stores else []
            thread.append(Step(ARRIVE, slots + slot))
    counts = [1] * slots + [readers] * slots
    for _ in range(source.choice((0, 1, 1, 1, 2, 3))):
        _mutate(source, threads, counts, slots)
    return ColumnProgram(tuple(map(tuple, threads)), tuple(counts), slots)


def _mutate(source: random.Random, threads: list[list[Step]], counts: list[int], slots: int) -> None:
    thread = source.choice(threads)
    if not thread:
        return
    at, how = source.randrange(len(thread)), source.randrange(6)
    step = thread[at]
    if how == 0:
        del thread[at]
    elif how == 1 and at + 1 < len(thread):
        thread[at], thread[at + 1] = thread[at + 1], step
    elif how == 2:
        thread.insert(source.randrange(len(thread) + 1), step)
    elif how == 3:
        bound = 2 * slots if step.what in (COMMIT, ARRIVE, AWAIT) else slots
        thread[at] = step._replace(place=source.randrange(bound))
    elif how == 4:
        thread[at] = step._replace(parity=1 - step.parity) if step.what in (AWAIT, MULTIPLY) else step
    elif how == 5:
        bar = source.randrange(len(counts))
        counts[bar] = max(1, counts[bar] + source.choice((-1, 1)))


class JudgedColumns(NamedTuple):
    """A program, whether it can fail, the verdicts, and disagreements."""

    program: ColumnProgram
    fails: bool | None
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]


def judge_columns(program: ColumnProgram, engines: tuple[Engine, ...]) -> JudgedColumns:
    """Compare wsemu's verdicts with all interleavings: a missed fault is a complaint, a false alarm is counted."""
    fails, kernel = program.can_fail(), wsemu.load_ptx(program.ptx())["k"]
    verdicts, complaints, codes = [], [], []
    for engine in engines:
        report = wsemu.check(kernel, 1, 160, (np.zeros(160, np.uint32),), engine=engine)
        verdicts.append(report.verdict)
        codes.append({finding.code for finding in report.findings if finding.severity == "error"})
        if fails and report.verdict == "verified":
            complaints.append(f"{engine}: missed")
    if any(one != codes[0] for one in codes):
        complaints.append(f"engines differ: {codes}")
    return JudgedColumns(program, fails, tuple(verdicts), tuple(complaints))
