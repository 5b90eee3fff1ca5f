"""Random rings of accumulators in tensor memory, and what all their interleavings do.

A thread multiplies into slots and commits; warps load the slots, may store there, and free them.  Operands come from
stages of shared memory, which a thread fills with bulk copies or with stores and a fence; or from regions of tensor
memory, which `tcgen05.cp` or warps fill: A, scale factors, or metadata of a sparse A.  In a pair of CTAs each fills its
stages and loads its slots, and one thread multiplies for both.  A request of cluster launch control writes a response,
which warps read.  Mutations delete, exchange or repeat operations, and change mbarriers, parities, places and counts.

The enumeration follows PTX ISA, "Memory Consistency Model for 5th generation of TensorCore operations": a product, a
copy, a load or a store happens at any time after its issue; those of a pipelined pair happen in their order.  A wait
ends after the loads or stores of its warp; a commit arrives after the products and copies of its thread.  A program is
correct if no interleaving ends in a deadlock, each operation meets the same phase in all of them, and each access finds
the same last write.  Bulk copies into a stage all bring the same bytes: in which order they come makes no difference.
Then a graph decides what no interleaving shows: a generic access and one of the asynchronous proxy need an order that
carries them, and a store a proxy fence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from wsemu.model.settings import Engine

    Feed = Callable[[int], tuple[list["Step"], list["Step"]]]
    """tile -> the steps before and after its products"""

MULTIPLY, COMMIT, LOAD, STORE, WAIT_LOADS, WAIT_STORES, ARRIVE, AWAIT, PLAIN = range(9)
PUT, COPY, FETCH, EXPECT, WRITE, READ, FENCE = range(9, 16)
NAMES = "mma commit ld st wait::ld wait::st arrive wait nothing st.operand cp bulk expect_tx write read fence".split()
MOST_STATES = 60_000
WAITED = {WAIT_LOADS: (LOAD,), WAIT_STORES: (STORE, PUT)}
AGENTS = frozenset((MULTIPLY, COMMIT, LOAD, STORE, PUT, COPY, FETCH))
"""operations that happen after their issue"""
OF_THREAD = frozenset((MULTIPLY, COMMIT, COPY))
"""operations of the thread that multiplies"""
RESPONSE = 2
"""the stage that a request of cluster launch control writes"""
BYTES = (128, 128, 16)
"""bytes of a copy into each stage"""
REGION = 8
"""operand of a product in region n, as `other`: REGION + n; smaller numbers are stages"""


class Step(NamedTuple):
    """An operation on a slot, stage, region or mbarrier; of a wait its parity, of a product whether it adds; its other
    place: the operand of a product, the stage of a `cp`, the mbarrier of a bulk copy, the stage of an expectation."""

    what: int
    place: int = 0
    parity: int = 0
    other: int = 0

    def __str__(self) -> str:
        return f"{NAMES[self.what]} {self.place} {self.parity} {self.other}"


class Role(NamedTuple):
    """The CTA and the warp that execute a thread of a program."""

    cta: int
    warp: int


ALONE = (Role(0, 0), Role(0, 1), Role(0, 4), Role(0, 2))
"""the warp that multiplies; warps that load: the second has the lanes of the first of the CTA; the one that fills"""
PAIR = (Role(0, 0), Role(0, 1), Role(1, 1), Role(0, 2), Role(1, 2))
"""the same of a pair of CTAs, with a warp that fills in each"""


class ColumnProgram(NamedTuple):
    """Steps of each warp, and arrivals of a phase of each mbarrier."""

    threads: tuple[tuple[Step, ...], ...]
    counts: tuple[int, ...]
    slots: int
    roles: tuple[Role, ...] = ALONE
    regions: str = "a"
    """contents of the regions: "a", "factors", or "metadata" of a sparse A"""

    @property
    def ctas(self) -> int:
        return 1 + max(role.cta for role in self.roles)

    def __str__(self) -> str:
        steps = [f"{self.roles[n]}: " + "; ".join(map(str, thread)) for n, thread in enumerate(self.threads)]
        return "\n".join([*steps, f"counts {self.counts}, regions of {self.regions}"])

    def ptx(self) -> str:
        """Return a kernel that executes the steps; all warps meet before the columns are released."""
        inits = "".join(
            f"  @%p2 mbarrier.init.shared::cta.b64 [%r4+{8 * n}], {count};\n" for n, count in enumerate(self.counts)
        )
        pair = self.ctas == 2
        bodies = ""
        for n, thread in enumerate(self.threads):
            role = self.roles[n]
            bodies += f"W{n}:\n  setp.ne.u32 %p1, %r29, {role.warp + 8 * role.cta};\n  @%p1 bra W{n + 1};\n"
            bodies += "".join(_emit(self, step, f"L{n}_{k}", first=n == 0) for k, step in enumerate(thread))
        text = HEADER + inits + MEET + bodies + f"W{len(self.threads)}:\n" + FOOTER
        kind = {"a": KIND, "factors": KIND_OF_SCALED, "metadata": KIND_OF_SPARSE}[self.regions]
        text = text.replace("<kind>", kind).replace("<group>", f"cta_group::{1 + pair}")
        text = text.replace("<fill>", FILL_OF_SPARSE if self.regions == "metadata" else FILL)
        text = text.replace("<meet>", CLUSTER if pair else "  bar.sync 0;\n")
        if self.regions == "factors":
            return text.replace("<idesc>", hex(1 << 17 | 8 << 24 | 1 << 23))
        if self.regions == "metadata":
            return text.replace("<idesc>", hex(1 << 17 | 8 << 24 | 1 << 4 | 4))
        return text.replace("<idesc>", "0x10040010" if pair else "0x8020010")

    def can_fail(self) -> bool | None:
        """Return whether some interleaving fails or differs; None if there are too many."""
        return Enumeration(self).fails()


KIND, KIND_OF_SCALED, KIND_OF_SPARSE = "kind::f16", "kind::mxf8f6f4.block_scale", "kind::f8f6f4"
VALID_METADATA = 0x44444444
"""the first two of each four elements; all words of a program with metadata have this value"""
FILL = """  mov.b32 %r31, 0;
  @%p2 st.bulk.weak.shared::cta [%r3], 9728, 0;
"""
FILL_OF_SPARSE = f"""  mov.b32 %r31, {VALID_METADATA:#x}; add.u32 %r6, %r3, 9728;
  @!%p2 bra FILLED;
FILL:
  sub.u32 %r6, %r6, 16; st.shared.v4.b32 [%r6], {{%r31, %r31, %r31, %r31}}; setp.ne.u32 %p1, %r6, %r3;
  @%p1 bra FILL;
FILLED:
"""
CLUSTER = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"
HEADER = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .shared .align 1024 .b8 tile[9728];
  .shared .align 16 .b8 response[16];
  .shared .align 8 .b64 bars[10];
  .shared .align 4 .b32 slot;
  .reg .b32 %r<40>; .reg .b32 %v<8>; .reg .b64 %rd<16>; .reg .pred %p<9>; .reg .b128 %q; .reg .b16 %h<2>;
  mov.u32 %r1, %tid.x; shr.u32 %r5, %r1, 5; mov.u32 %r2, slot; mov.u32 %r3, tile; mov.u32 %r4, bars;
  mov.u32 %r30, %cluster_ctarank; shl.b32 %r29, %r30, 3; add.u32 %r29, %r29, %r5; mov.u32 %r28, response;
  ld.param.u64 %rd1, [out]; mov.u64 %rd9, %rd1; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
  mul.wide.u32 %rd2, %r30, 1024; add.u64 %rd1, %rd1, %rd2;
  setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p5, %r1, %r1; setp.ne.u32 %p6, %r1, %r1; mov.b16 %h1, 3;
  setp.ne.u32 %p1, %r5, 0;
<meet>  @%p1 bra ALLOCATED;
  tcgen05.alloc.<group>.sync.aligned.shared::cta.b32 [%r2], 64;
  tcgen05.relinquish_alloc_permit.<group>.sync.aligned;
ALLOCATED:
<fill>  @%p2 fence.proxy.async.shared::cta;
  and.b32 %r6, %r1, 31; setp.eq.u32 %p3, %r6, 0;
"""
"""two stages of A, followed by those of B"""
MEET = """
  fence.mbarrier_init.release.cluster;
<meet>  ld.shared.b32 %r11, [%r2]; mapa.shared::cluster.u32 %r27, %r4, 0;
  and.b32 %r6, %r3, 0x3ffff; shr.u32 %r6, %r6, 4; cvt.u64.u32 %rd8, %r6; mov.b64 %rd6, 0x401000080000;
  add.u64 %rd6, %rd6, %rd8; mov.b64 %rd7, 0x401000080200; add.u64 %rd7, %rd7, %rd8; add.u64 %rd10, %rd6, 256;
  mov.b32 %r15, <idesc>;
"""
FOOTER = """
  bar.sync 0;
<meet>  setp.ne.u32 %p1, %r5, 0;
  @%p1 bra END;
  tcgen05.dealloc.<group>.sync.aligned.b32 %r11, 64;
END:
  ret;
}
"""
_STAGES = ("%rd6", "%rd10")
"""descriptors of the stages"""
_COPIES = ("128x256b", "32x128b.warpx4")


def _emit(program: ColumnProgram, step: Step, label: str, *, first: bool) -> str:
    if step.what in OF_THREAD and not first:
        return ""
    pair, place, other = program.ctas == 2, step.place, step.other
    at = f"[%r4+{8 * place}]"
    columns = f"  add.u32 %r12, %r11, {16 * place};\n"
    region = f"  add.u32 %r13, %r11, {32 + 8 * place};\n"
    match NAMES[step.what]:
        case "mma":
            return columns + _emit_product(program, step)
        case "commit":
            commit = "tcgen05.commit.<group>.mbarrier::arrive::one.shared::cluster"
            return f"  @%p3 {commit}.multicast::cluster.b64 {at}, %h1;\n" if pair else f"  @%p3 {commit}.b64 {at};\n"
        case "ld":
            return columns + "  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v0, %v1}, [%r12];\n"
        case "st":
            return columns + "  tcgen05.st.sync.aligned.32x32b.x2.b32 [%r12], {%r1, %r1};\n"
        case "st.operand":
            ones = ", ".join(["%r31" if program.regions == "metadata" else "%r1"] * 8)
            return region + f"  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r13], {{{ones}}};\n"
        case "wait::ld" | "wait::st":
            return f"  tcgen05.{NAMES[step.what]}.sync.aligned;\n"
        case "arrive":
            where = f"shared::cluster.b64 _, [%r27+{8 * place}]" if pair else f"shared::cta.b64 _, {at}"
            return f"  bar.warp.sync -1;\n  @%p3 mbarrier.arrive.{where};\n"
        case "wait":
            wait = f"mbarrier.try_wait.parity.shared::cta.b64 %p4, {at}, {step.parity};"
            return f"{label}:\n  {wait}\n  @!%p4 bra {label};\n"
        case "cp":
            scaled = program.regions == "factors"
            copy = f"  @%p3 tcgen05.cp.<group>.{_COPIES[scaled]} [%r13], {_STAGES[other]};\n"
            return region + copy + (copy.replace("@%p3", "add.u32 %r13, %r13, 4;\n  @%p3") if scaled else "")
        case "bulk":
            return _emit_fetch(step)
        case "expect_tx":
            return f"  @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, {at}, {BYTES[other]};\n"
        case "write":
            return f"  @%p3 st.shared.b32 [%r3+{4096 * place}], %r31;\n"
        case "read" if place == RESPONSE:
            is_canceled = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p8, %q;"
            return f"  ld.shared.b128 %q, [%r28];\n  {is_canceled}\n  @%p8 st.global.b32 [%rd1], %r1;\n"
        case "read":
            return f"  @%p3 ld.shared.b32 %v2, [%r3+{4096 * place}];\n  @%p3 st.global.b32 [%rd1], %v2;\n"
        case "fence":
            return "  fence.proxy.async.shared::cta;\n"
    return ""


def _emit_product(program: ColumnProgram, step: Step) -> str:
    uses = "%p5" if step.parity else "%p6"
    stage = _STAGES[step.other] if step.other < REGION else _STAGES[0]
    region = f"  add.u32 %r13, %r11, {32 + 8 * (step.other % REGION)};\n"
    if program.regions == "metadata":
        return region + f"  @%p3 tcgen05.mma.sp.<group>.<kind> [%r12], {stage}, %rd7, [%r13], %r15, {uses};\n"
    if program.regions == "factors":
        product = f"tcgen05.mma.<group>.<kind> [%r12], {stage}, %rd7, %r15, [%r13], [%r14], {uses};"
        return region + f"  add.u32 %r14, %r13, 4;\n  @%p3 {product}\n"
    if step.other >= REGION:
        return region + f"  @%p3 tcgen05.mma.<group>.<kind> [%r12], [%r13], %rd7, %r15, {uses};\n"
    return f"  @%p3 tcgen05.mma.<group>.<kind> [%r12], {stage}, %rd7, %r15, {uses};\n"


def _emit_fetch(step: Step) -> str:
    bar = f"[%r4+{8 * step.other}]"
    done = "mbarrier::complete_tx::bytes"
    if step.place == RESPONSE:
        return f"  @%p3 clusterlaunchcontrol.try_cancel.async.shared::cta.{done}.b128 [%r28], {bar};\n"
    return f"  @%p3 cp.async.bulk.shared::cta.global.{done} [%r3+{4096 * step.place}], [%rd9], 128, {bar};\n"


# -- enumeration -------------------------------------------------------------------------------------------------------

Access = tuple[int, int]
"""(thread, step): one operation"""
Cell = tuple[str, int, int, int]
"""a slot (d), region (r) or stage (s), its number, its CTA, and the quarter of the lanes"""
Write = tuple[Access, bool]
"""a write, and whether it leaves a value: a product that adds to arbitrary words does not"""
KNOWN: Write = ((-1, -1), True)
"""stages are zero before the launch begins"""
COPIED: Write = ((-2, -2), True)
"""the value that each bulk copy writes: all copies have one source, which is never written"""


class Bar(NamedTuple):
    """An mbarrier: its phase, and the arrivals and bytes that it waits for."""

    phase: int
    pending: int
    tx: int


class State(NamedTuple):
    """The positions of the threads; operations that have not happened; mbarriers; the last write of each cell."""

    at: tuple[int, ...]
    pending: frozenset[Access]
    bars: tuple[Bar, ...]
    """number `ctas * bar + cta`"""
    last: tuple[Write | None, ...]


class Enumeration:
    """All interleavings of a program, each state once."""

    def __init__(self, program: ColumnProgram) -> None:
        self.program = program
        self.ctas = program.ctas
        self.touched = {
            (n, k): (self._list_reads(n, step), self._list_writes(n, step))
            for n, thread in enumerate(program.threads)
            for k, step in enumerate(thread)
        }
        cells = {cell: None for reads, writes in self.touched.values() for cell in (*reads, *writes)}
        self.cells = {cell: n for n, cell in enumerate(cells)}
        self.found: dict[tuple[Access, Cell], Write | None] = {}
        """access and cell -> the last write that the access finds"""
        self.phases: dict[tuple[Access, int], int] = {}
        """operation and mbarrier -> the phase in which it takes effect"""
        self.failed = False

    def fails(self) -> bool | None:
        """Return whether some interleaving fails or differs; None: there are too many states."""
        bars = tuple(Bar(0, n, 0) for n in self.program.counts for _ in range(self.ctas))
        last = tuple(KNOWN if cell[0] == "s" else None for cell in self.cells)
        start = State((0,) * len(self.program.threads), frozenset(), bars, last)
        seen, queue = {start}, [start]
        while queue and not self.failed:
            state = queue.pop()
            following = self._follow(state)
            if not following and not self._has_ended(state):
                return True  # a deadlock
            for one in following:
                if one not in seen:
                    seen.add(one)
                    queue.append(one)
            if len(seen) > MOST_STATES:
                return None
        return self.failed or not Visibility(self).holds()

    def _step(self, access: Access) -> Step:
        return self.program.threads[access[0]][access[1]]

    def _has_ended(self, state: State) -> bool:
        return all(at == len(thread) for at, thread in zip(state.at, self.program.threads, strict=True))

    def _follow(self, state: State) -> list[State]:
        threads = list(enumerate(zip(state.at, self.program.threads, strict=True)))
        for n, (at, thread) in threads:  # an order that only its own thread observes does not matter
            if at < len(thread) and (thread[at].what in AGENTS or thread[at].what in (*WAITED, FENCE, PLAIN)):
                after = self._execute(state, n, at)
                if after is not None:
                    return [after]
        found = [self._happen(state, one) for one in state.pending if self._is_ready(state, one)]
        if self._has_ended(state) and any(self._step(one).what != COMMIT for one in state.pending):
            self.failed = True  # the release of the columns, or the end, may come first
        for n, (at, thread) in threads:
            if at < len(thread) and (after := self._execute(state, n, at)) is not None:
                found.append(after)
        return found

    def _execute(self, state: State, n: int, at: int) -> State | None:
        """Return the state after a step of a thread, None if it waits."""
        step = self.program.threads[n][at]
        after = state._replace(at=tuple(one + (thread == n) for thread, one in enumerate(state.at)))
        cta = self.program.roles[n].cta
        if step.what in OF_THREAD and n:
            return after  # the operation is not in the kernel
        if step.what in AGENTS:
            return after._replace(pending=state.pending | {(n, at)})
        if step.what in WAITED:
            mine = {self._step(one).what for one in state.pending if one[0] == n}
            return None if mine & {*WAITED[step.what]} else after
        if step.what == ARRIVE:
            return self._arrive(after, (n, at), self.ctas * step.place)
        if step.what == EXPECT:
            return self._arrive(after, (n, at), self.ctas * step.place + cta, expects=BYTES[step.other])
        if step.what == AWAIT:
            bar = self.ctas * step.place + cta
            phase = state.bars[bar].phase
            if phase & 1 == step.parity:
                return None
            self._meets((n, at), bar, phase - 1)
            return after
        if step.what in (WRITE, READ):
            return self._touch(after, (n, at))
        return after

    def _meets(self, who: Access, bar: int, phase: int) -> None:
        self.failed |= self.phases.setdefault((who, bar), phase) != phase

    def _arrive(self, state: State, who: Access, n: int, *, expects: int = 0, brings: int = 0) -> State:
        bar = state.bars[n]
        self._meets(who, n, bar.phase)
        pending, tx = bar.pending - (not brings), bar.tx + expects - brings
        self.failed |= pending < 0
        new = Bar(bar.phase, pending, tx)
        if pending == 0 and tx == 0:
            new = Bar(bar.phase + 1, self.program.counts[n // self.ctas], 0)
        return state._replace(bars=(*state.bars[:n], new, *state.bars[n + 1 :]))

    def _is_ready(self, state: State, one: Access) -> bool:
        """Return whether an operation may happen, because all operations before it have happened."""
        step = self._step(one)
        return not any(
            other[0] == one[0] and other[1] < one[1] and _is_pipelined(self._step(other), step)
            for other in state.pending
        )

    def _happen(self, state: State, one: Access) -> State:
        step = self._step(one)
        state = state._replace(pending=state.pending - {one})
        if step.what == COMMIT:
            for cta in range(self.ctas):
                state = self._arrive(state, one, self.ctas * step.place + cta)
            return state
        state = self._touch(state, one)
        if step.what == FETCH:
            cta = self.program.roles[one[0]].cta
            return self._arrive(state, one, self.ctas * step.other + cta, brings=BYTES[step.place])
        return state

    def _touch(self, state: State, one: Access) -> State:
        """Let the accesses of an operation happen."""
        step, (reads, writes) = self._step(one), self.touched[one]
        known: dict[int, bool] = {}
        """quarter -> whether all operands in it have values"""
        for cell in reads:
            before = state.last[self.cells[cell]]
            self._finds(one, cell, before)
            known[cell[3]] = known.get(cell[3], True) and before is not None and before[1]
        if step.what == LOAD:
            self.failed |= not all(known.values())
        last = list(state.last)
        for cell in writes:
            n = self.cells[cell]
            before = last[n]
            if not _is_copied(step):
                self._finds(one, cell, before)
            old = before is not None and before[1]
            adds = step.what == MULTIPLY and step.parity
            made = one, known.get(cell[3], True) and known.get(-1, True) and (old or not adds)
            last[n] = COPIED if _is_copied(step) else made
        return state._replace(last=tuple(last))

    def _finds(self, one: Access, cell: Cell, before: Write | None) -> None:
        self.failed |= self.found.setdefault((one, cell), before) != before

    def _list_reads(self, n: int, step: Step) -> list[Cell]:
        role, ctas = self.program.roles[n], range(self.ctas)
        if step.what in OF_THREAD and n:
            return []
        if step.what == LOAD:
            return [("d", step.place, role.cta, role.warp % 4)]
        if step.what == READ:
            return [("s", step.place, role.cta, -1)]
        if step.what == COPY:
            return [("s", step.other, cta, -1) for cta in ctas]
        if step.what != MULTIPLY:
            return []
        region = [("r", step.other - REGION, cta, q) for cta in ctas for q in (0, 1)] if step.other >= REGION else []
        stage = 0 if step.other >= REGION else step.other
        return region + (
            [("s", stage, cta, -1) for cta in ctas] if step.other < REGION or self.program.regions != "a" else []
        )

    def _list_writes(self, n: int, step: Step) -> list[Cell]:
        role, ctas = self.program.roles[n], range(self.ctas)
        if step.what in OF_THREAD and n:
            return []
        if step.what in (STORE, PUT):
            return [("d" if step.what == STORE else "r", step.place, role.cta, role.warp % 4)]
        if step.what in (WRITE, FETCH):
            return [("s", step.place, role.cta, -1)]
        if step.what in (MULTIPLY, COPY):
            return [("d" if step.what == MULTIPLY else "r", step.place, cta, q) for cta in ctas for q in (0, 1)]
        return []


def _is_copied(step: Step) -> bool:
    """Return whether a step is a bulk copy into a stage, which brings the same bytes as every other one."""
    return step.what == FETCH and step.place != RESPONSE


def _is_pipelined(before: Step, step: Step) -> bool:
    """Return whether a thread's earlier operation happens before a later one."""
    if step.what == COMMIT:
        return before.what in (MULTIPLY, COPY)
    pair = (before.what, step.what)
    if pair == (COPY, MULTIPLY):
        return step.other == REGION + before.place
    if pair == (MULTIPLY, COPY):
        return before.other == REGION + step.place
    same = ((MULTIPLY, MULTIPLY), (STORE, LOAD), (STORE, STORE), (LOAD, STORE), (PUT, PUT))
    return pair in same and step.place == before.place


Point = tuple[int, int, int]
"""(thread, step, 0: when it is executed; 1: when an asynchronous operation has ended)"""


class Visibility:
    """The order of accesses to stages, in a program whose operations meet the same phases in all interleavings."""

    def __init__(self, one: Enumeration) -> None:
        self.one, self.program = one, one.program
        self.after: dict[Point, set[Point]] = {}
        for before, later in self._edges():
            self.after.setdefault(before, set()).add(later)
        self.reached: dict[Point, set[Point]] = {}

    def holds(self) -> bool:
        """Return whether all conflicting accesses to a stage are ordered, stores with a fence."""
        of_cell: dict[Cell, list[tuple[Access, bool]]] = {}
        for access, (reads, writes) in self.one.touched.items():
            for cell in (*reads, *writes):
                if cell[0] == "s":
                    of_cell.setdefault(cell, []).append((access, cell in writes))
        pairs = (
            (x, y) for ones in of_cell.values() for k, (x, w) in enumerate(ones) for y, v in ones[:k] if w or v
        )  # fmt: skip
        return all(self._is_ordered(x, y) for x, y in pairs)

    def _is_ordered(self, x: Access, y: Access) -> bool:
        """Return whether two accesses are ordered, or leave the same bytes in either order."""
        if _is_copied(self._step(x)) and _is_copied(self._step(y)):
            return True
        if self._reaches(self._end(y), (*x, 0)):
            x, y = y, x
        elif not self._reaches(self._end(x), (*y, 0)):
            return False
        stores = self._step(x).what == WRITE and self._step(y).what in AGENTS
        return not stores or any(
            self._reaches((*x, 0), fence) and self._reaches(fence, (*y, 0)) for fence in self._list_fences()
        )

    def _list_fences(self) -> list[Point]:
        return [
            (n, k, 0) for n, thread in enumerate(self.program.threads) for k, step in enumerate(thread)
            if step.what == FENCE
        ]  # fmt: skip

    def _step(self, access: Access) -> Step:
        return self.program.threads[access[0]][access[1]]

    def _end(self, access: Access) -> Point:
        return (*access, int(self._step(access).what in AGENTS))

    def _reaches(self, x: Point, y: Point) -> bool:
        if x not in self.reached:
            seen, todo = {x}, [x]
            while todo:
                for one in self.after.get(todo.pop(), ()):
                    if one not in seen:
                        seen.add(one)
                        todo.append(one)
            self.reached[x] = seen
        return y in self.reached[x]

    def _edges(self) -> Iterator[tuple[Point, Point]]:
        waits: dict[tuple[int, int], list[Point]] = {}
        """(mbarrier, phase) -> the waits for it"""
        for n, thread in enumerate(self.program.threads):
            for k, step in enumerate(thread):
                yield (n, k, 0), (n, k + 1, 0)
                yield (n, k, 0), (n, k, 1)
                if step.what == AWAIT:
                    bar = self.one.ctas * step.place + self.program.roles[n].cta
                    waits.setdefault((bar, self.one.phases.get(((n, k), bar), -1)), []).append((n, k, 0))
                for kind in WAITED.get(step.what, ()):
                    yield from (((n, j, 1), (n, k, 0)) for j in range(k) if thread[j].what == kind)
        for ((n, k), bar), phase in self.one.phases.items():
            step = self.program.threads[n][k]
            for wait in waits.get((bar, phase), ()):
                if step.what in (ARRIVE, EXPECT):
                    yield (n, k, 0), wait
                elif step.what == FETCH:
                    yield (n, k, 1), wait
                elif step.what == COMMIT:
                    made = [j for j in range(k) if self.program.threads[n][j].what in (MULTIPLY, COPY)]
                    yield from (((n, j, 1), wait) for j in made)


# -- programs ----------------------------------------------------------------------------------------------------------


class Ring:
    """A correct program that is being drawn: threads, and the mbarriers that they need."""

    def __init__(self, roles: tuple[Role, ...], used: int) -> None:
        self.roles = roles
        self.threads: list[list[Step]] = [[] for _ in range(used)]
        self.counts: list[int] = []

    def add_bars(self, number: int, count: int) -> range:
        start = len(self.counts)
        self.counts += [count] * number
        return range(start, start + number)


def draw_columns(source: random.Random) -> ColumnProgram:
    """Draw a ring, and change it up to three times."""
    kind = source.choice(("plain", "plain", "fed", "fed", "copied", "stored", "pair", "pair", "request"))
    ring, slots, regions = DRAW[kind](source)
    for _ in range(source.choice((0, 1, 1, 1, 2, 3))):
        _mutate(source, ring, slots)
    return ColumnProgram(tuple(map(tuple, ring.threads)), tuple(ring.counts), slots, ring.roles, regions)


def _draw_plain(source: random.Random) -> tuple[Ring, int, str]:
    """Draw a ring of accumulators alone, which one or two warps load."""
    tiles, slots, readers = source.randint(1, 3), source.randint(1, 2), source.randint(1, 2)
    ring = Ring(ALONE, 1 + readers)
    _accumulate(ring, source, tiles, slots, range(1, 1 + readers), lambda tile: 0)
    return ring, slots, "a"


def _accumulate(
    ring: Ring,
    source: random.Random,
    tiles: int,
    slots: int,
    readers: range,
    operand: Callable[[int], int],
    feed: Feed | None = None,
) -> None:
    """Add products of tiles into slots, and their readers; `feed` adds the steps before and after each product."""
    adds, stores = source.random() < 0.3, source.random() < 0.2
    full, spare = ring.add_bars(slots, 1), ring.add_bars(slots, len(readers))
    for tile in range(tiles):
        slot, turn = tile % slots, tile // slots
        makes = ring.threads[0]
        if turn:
            makes.append(Step(AWAIT, spare[slot], (turn - 1) & 1))
        before, after = feed(tile) if feed else ([], [])
        products = [Step(MULTIPLY, slot, 0, operand(tile)), *([Step(MULTIPLY, slot, 1, operand(tile))] if adds else [])]
        makes += [*before, *products, *after, Step(COMMIT, full[slot])]
        for thread in (ring.threads[n] for n in readers):
            thread += [Step(AWAIT, full[slot], turn & 1), Step(LOAD, slot), Step(WAIT_LOADS)]
            thread += [Step(STORE, slot), Step(WAIT_STORES)] if stores else []
            thread.append(Step(ARRIVE, spare[slot]))


def _feed(ring: Ring, stages: int, fillers: tuple[int, ...], *, copies: bool) -> Feed:
    """Return the steps that feed the product of a tile from stages that other threads fill, with bulk copies or
    stores."""
    full, empty = ring.add_bars(stages, len(fillers)), ring.add_bars(stages, 1)

    def feed(tile: int) -> tuple[list[Step], list[Step]]:
        stage, turn = tile % stages, tile // stages
        for n in fillers:
            fills = ring.threads[n]
            if turn:
                fills.append(Step(AWAIT, empty[stage], (turn - 1) & 1))
            if copies:
                fills += [Step(EXPECT, full[stage], 0, stage), Step(FETCH, stage, 0, full[stage])]
            else:
                fills += [Step(WRITE, stage), Step(FENCE), Step(ARRIVE, full[stage])]
        return [Step(AWAIT, full[stage], turn & 1)], [Step(COMMIT, empty[stage])]

    return feed


def _draw_fed(source: random.Random) -> tuple[Ring, int, str]:
    """Draw a ring with stages of shared memory, filled by a warp."""
    tiles, slots, stages = source.randint(1, 3), source.randint(1, 2), source.randint(1, 2)
    ring = Ring(ALONE, 4)
    feed = _feed(ring, stages, (3,), copies=source.random() < 0.6)
    _accumulate(ring, source, tiles, slots, range(1, 2), lambda tile: tile % stages, feed)
    return ring, slots, "a"


def _draw_copied(source: random.Random) -> tuple[Ring, int, str]:
    """Draw a ring with regions of tensor memory, filled by `cp` from stages: A, scale factors, or metadata."""
    tiles, slots, regions = source.randint(1, 2), source.randint(1, 2), source.randint(1, 2)
    contents = source.choice(("a", "factors", "metadata"))
    ring = Ring(ALONE, 4)
    fill = _feed(ring, 2, (3,), copies=source.random() < 0.6)

    def feed(tile: int) -> tuple[list[Step], list[Step]]:
        before, after = fill(tile)
        return [*before, Step(COPY, tile % regions, 0, tile % 2)], after

    _accumulate(ring, source, tiles, slots, range(1, 2), lambda tile: REGION + tile % regions, feed)
    return ring, slots, contents


def _draw_stored(source: random.Random) -> tuple[Ring, int, str]:
    """Draw a ring in which the warps that load the first product of a tile store A of the second one."""
    tiles = source.randint(1, 2)
    ring = Ring(ALONE, 3)
    (scores,), (ready,), (sums,), (spare,) = (ring.add_bars(1, n) for n in (1, 2, 1, 2))
    for tile in range(tiles):
        parity = tile & 1
        ring.threads[0] += [Step(MULTIPLY, 0), Step(COMMIT, scores), Step(AWAIT, ready, parity)]
        ring.threads[0] += [Step(AWAIT, spare, 1 - parity)] if tile else []
        ring.threads[0] += [Step(MULTIPLY, 1, 0, REGION), Step(COMMIT, sums)]
        for thread in ring.threads[1:]:
            thread += [Step(AWAIT, scores, parity), Step(LOAD, 0), Step(WAIT_LOADS), Step(PUT), Step(WAIT_STORES)]
            thread += [Step(ARRIVE, ready), Step(AWAIT, sums, parity), Step(LOAD, 1), Step(WAIT_LOADS)]
            thread.append(Step(ARRIVE, spare))
    return ring, 2, "a"


def _draw_pair(source: random.Random) -> tuple[Ring, int, str]:
    """Draw a ring of a pair of CTAs: one thread multiplies for both; each CTA fills its stages and loads its slots."""
    tiles, slots = source.randint(1, 2), source.randint(1, 2)
    ring = Ring(PAIR, 5)
    feed = _feed(ring, 1, (3, 4), copies=False) if source.random() < 0.6 else None
    _accumulate(ring, source, tiles, slots, range(1, 3), lambda tile: 0, feed)
    return ring, slots, "a"


def _draw_request(source: random.Random) -> tuple[Ring, int, str]:
    """Draw a ring with a request of cluster launch control, whose response warps read."""
    ring = Ring(ALONE, 4)
    (full,) = ring.add_bars(1, 1)
    _accumulate(ring, source, source.randint(1, 2), 1, range(1, 3), lambda tile: 0)
    ring.threads[3] += [Step(EXPECT, full, 0, RESPONSE), Step(FETCH, RESPONSE, 0, full)]
    for thread in ring.threads[1:3]:
        thread += [Step(AWAIT, full, 0), Step(READ, RESPONSE)]
    return ring, 1, "a"


DRAW = {
    "plain": _draw_plain, "fed": _draw_fed, "copied": _draw_copied, "stored": _draw_stored, "pair": _draw_pair,
    "request": _draw_request,
}  # fmt: skip
ON_BARS = (COMMIT, ARRIVE, AWAIT, EXPECT)


def _mutate(source: random.Random, ring: Ring, slots: int) -> None:
    thread = source.choice(ring.threads)
    if not thread:
        return
    at, how = source.randrange(len(thread)), source.randrange(7)
    step = thread[at]
    if how == 0:
        del thread[at]
    elif how == 1 and at + 1 < len(thread):
        thread[at], thread[at + 1] = thread[at + 1], step
    elif how == 2 and RESPONSE not in (step.place, step.other):
        thread.insert(source.randrange(len(thread) + 1), step)
    elif how == 3 and RESPONSE not in (step.place, step.other):
        bound = len(ring.counts) if step.what in ON_BARS else slots if step.what in (MULTIPLY, LOAD, STORE) else 2
        thread[at] = step._replace(place=source.randrange(bound))
    elif how == 4:
        thread[at] = step._replace(parity=1 - step.parity) if step.what in (AWAIT, MULTIPLY) else step
    elif how == 5:
        bar = source.randrange(len(ring.counts))
        ring.counts[bar] = max(1, ring.counts[bar] + source.choice((-1, 1)))
    elif how == 6 and at + 1 < len(thread):
        other = source.randrange(len(thread))
        thread[at], thread[other] = thread[other], step


class JudgedColumns(NamedTuple):
    """A program, whether it can fail, the verdicts, and disagreements."""

    program: ColumnProgram
    fails: bool | None
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]
    codes: tuple[str, ...] = ()


def check_columns(program: ColumnProgram, engine: Engine) -> wsemu.Report:
    """Check the kernel of a program."""
    kernel = wsemu.load_ptx(program.ptx())["k"]
    out = np.full(512, VALID_METADATA if program.regions == "metadata" else 0, np.uint32)
    return wsemu.check(kernel, program.ctas, 160, (out,), engine=engine, cluster=program.ctas)


def judge_columns(program: ColumnProgram, engines: tuple[Engine, ...]) -> JudgedColumns:
    """Compare wsemu's verdicts with all interleavings: a missed fault is a complaint, a false alarm is counted."""
    fails = program.can_fail()
    verdicts, complaints, codes = [], [], []
    for engine in engines:
        report = check_columns(program, engine)
        verdicts.append(report.verdict)
        codes.append({finding.code for finding in report.findings if finding.severity == "error"})
        if fails and report.verdict == "verified":
            complaints.append(f"{engine}: missed")
    if any(one != codes[0] for one in codes):
        complaints.append(f"engines differ: {codes}")
    return JudgedColumns(program, fails, tuple(verdicts), tuple(complaints), (*sorted(codes[0]),))
