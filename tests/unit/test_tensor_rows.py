"""Bugs that people made in kernels for sm_100: each program fails with the right code at the right line, its repaired
twin is verified, on both engines.

Numbers are rows of the list of bugs in the reference of Blackwell; the rest of the rows is in `test_tensor_bugs.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import wsemu
from tests.unit.pair_programs import PAIR
from tests.unit.ring_program import RING, STAGE
from tests.unit.tensor_programs import ISSUE, descriptor, dump, instruction, program, with_descriptors

if TYPE_CHECKING:
    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])
HEADER = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 result)
{
  .shared .align 1024 .b8 tile[4096];
  .shared .align 8 .b64 bars[4];
  .shared .align 4 .b32 slot;
  .reg .b32 %r<40>; .reg .b32 %v<16>; .reg .b64 %rd<16>; .reg .pred %p<9>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r30, %cluster_ctarank;
  ld.param.u64 %rd1, [source]; ld.param.u64 %rd3, [result];
  mov.u32 %r2, slot; mov.u32 %r3, tile; mov.u32 %r4, bars;
  shr.u32 %r5, %r1, 5;
  setp.lt.u32 %p1, %r1, 32;
  setp.eq.u32 %p2, %r1, 0;
"""
"""`%p1` is the first warp, `%p2` the first thread"""
FOOTER = """
END:
  ret;
}
"""
ALLOCATES = """
  @!%p1 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
  bar.sync 0;
  ld.shared.b32 %r11, [%r2];
"""
FREES = """
  bar.sync 0;
  @!%p1 bra END;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 32;
"""
CLUSTER = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"
INIT = "  @%p2 mbarrier.init.shared::cta.b64 [%r4], {count};\n  fence.mbarrier_init.release.cluster;\n"


class Row(NamedTuple):
    """A bug: a program with a place for the repair, the wrong and the right text there, the code, and parts of lines
    where it may be found."""

    number: int
    text: str
    wrong: str
    right: str
    code: str
    lines: tuple[str, ...]
    threads: int = 128
    ctas: int = 1


def small(body: str) -> str:
    return HEADER + body + FOOTER


def columns(body: str) -> str:
    """Return a program with 32 columns of tensor memory."""
    return small(ALLOCATES + body + FREES)


HERE = "<here>"


def ring(number: int, right: str, wrong: str, code: str, *lines: str) -> Row:
    """Return a bug of the ring of accumulators, from an edit of the right program."""
    return Row(number, RING.replace(right, HERE, 1), wrong, right, code, lines, 192)


def pair(number: int, right: str, wrong: str, code: str, *lines: str) -> Row:
    return Row(number, PAIR.replace(right, HERE, 1), wrong, right, code, lines, 128, 2)


A, B = descriptor(0, 128, 256), descriptor(4096, 128, 256)
STORE_2 = "  tcgen05.st.sync.aligned.32x32b.x2.b32 [%r11], {%r1, %r1};\n"
WAIT_ST = "  tcgen05.wait::st.sync.aligned;\n"
LOAD_2 = "  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v0, %v1}, [%r11];\n"
KEEP = "  st.global.v2.b32 [%rd4], {%v0, %v1};\n"
OF_THREAD = "  mul.wide.u32 %rd4, %r1, 8; add.u64 %rd4, %rd4, %rd3;\n"
POLL = """
{label}:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4+{at}], {parity};
  @!%p4 bra {label};
"""
REMOTE = "  mapa.shared::cluster.u32 %r6, %r4, 0;\n"
READ_OVER = "  tcgen05.wait::ld.sync.aligned;\n"

REMOTE_ARRIVE = "  @%p2 mbarrier.arrive.shared::cluster.b64 _, [%r6];\n"
IS_LEADER = "  setp.eq.u32 %p5, %r30, 0;\n"
WAIT_0 = POLL.format(label="W0", at=0, parity=0)
SYNC = "  bar.sync 0;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
PROXY = "  fence.proxy.async.shared::cta;\n"
FILLED = "DONE:\n  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r12+32], %r11;\n  @!%p5 bra DONE;\n"
LOADS = RING[RING.index("  tcgen05.ld") : RING.index("  tcgen05.wait::ld")]
ADDRESS = RING[RING.index(FILLED) + len(FILLED) : RING.index(LOADS)]
SLOT_OF_TILE = "  shl.b32 %r14, %r10, 5; add.u32 %r14, %r14, %r6;\n"
MULTIPLY = "tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r15, %p5;"
AGAIN = (
    "  bar.sync 0;\n  @!%p1 bra OTHERS;\n" + LOAD_2.replace("[%r11]", "[%r14]") + HERE
    + f"  @!%p2 bra OTHERS;\n  {MULTIPLY}\n  {COMMIT}.b64 [%r4];\nOTHERS:\n" + POLL.format(label="W1", at=0, parity=1)
    + OF_THREAD + KEEP.replace("st.", "@%p1 st.")
)  # fmt: skip

FILLS_A, USES_A = (MULTIPLY.replace("f16 ", f"f16.collector::a::{use} ") for use in ("fill", "lastuse"))
OVERWRITES = (
    "  bar.sync 0;\n  @!%p2 bra OTHERS;\n  st.shared.b32 [%r3], 0x3c003c00;\n  fence.proxy.async.shared::cta;\n"
    f"  {HERE}\n  {COMMIT}.b64 [%r4];\nOTHERS:\n" + POLL.format(label="W1", at=0, parity=1)
)  # fmt: skip
"""the thread that multiplies changes A, and multiplies again"""
QUARTER = "shl.b32 %r22, %r2, 21"
BY_LEADER = "  @!%p7 bra WAIT;\n  tcgen05"
BY_BOTH = "  @!%p2 bra WAIT;\n  setp.eq.u32 %p3, %r30, 0;\n  @%p3 tcgen05"

ROWS = [
    pair(3, CLUSTER, "", "dsmem-before-start", "tcgen05.alloc"),
    pair(21, BY_LEADER, BY_BOTH, "phase-alias", "tcgen05.commit"),
    Row(31, small(ALLOCATES.replace(SYNC, HERE) + FREES), "", SYNC, "tmem-address-unpublished", ("ld.shared.b32",)),
    Row(39, program(
        with_descriptors(A, B, instruction(128, 8)),
        ISSUE.format(issued=MULTIPLY).replace("@!%p2", f"@!%{HERE}"), dump(8)
    ), "p1", "p2", "tcgen05-issued-by-many", ("tcgen05.mma",)),
    Row(44, columns(
        OF_THREAD + "  setp.lt.u32 %p5, %r1, 128;\n  @!%p5 bra OTHERS;\n" + STORE_2 + HERE
        + "OTHERS:\n" + SYNC + "  @%p5 bra KEPT;\n" + LOAD_2 + READ_OVER + KEEP + "KEPT:\n"
    ), "", WAIT_ST, "tmem-race", ("tcgen05.ld", "tcgen05.dealloc"), 256),
    ring(46, QUARTER, "add.u32 %r22, %r2, 1; and.b32 %r22, %r22, 3; shl.b32 %r22, %r22, 21", "tmem-wrong-quarter",
         "tcgen05.ld"),
    pair(55, "tcgen05.mma.cta_group::2", "tcgen05.mma.cta_group::1", "tmem-cta-group-mixed", "tcgen05.mma"),
    Row(56, program(
        with_descriptors(A, B, instruction(128, 8)), ISSUE.format(issued=HERE + "\n  " + USES_A), dump(8)
    ), MULTIPLY, FILLS_A, "collector-without-fill", ("lastuse",)),
    Row(56, program(
        with_descriptors(A, B, instruction(128, 8)),
        ISSUE.format(issued=f"{FILLS_A}\n  add.u64 %rd6, %rd6, {HERE};\n  {USES_A}"), dump(8)
    ), "16", "0", "collector-without-fill", ("lastuse",)),
    Row(56, program(
        with_descriptors(A, B, instruction(128, 8)), ISSUE.format(issued=FILLS_A), OVERWRITES, dump(8)
    ), USES_A, MULTIPLY, "collector-without-fill", ("lastuse",)),
    Row(60, program(
        with_descriptors(A, B, instruction(128, 8)), ISSUE.format(issued=MULTIPLY), dump(8)
    ).replace(PROXY, HERE), "", PROXY, "proxy", ("tcgen05.mma",)),
    Row(2, small(
        CLUSTER + "  @!%p1 bra END;\n  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r2], 32;\n"
        + HERE + "  ld.shared.b32 %r11, [%r2];\n  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r11, 32;\n"
    ), "", CLUSTER, "dsmem-after-exit", ("tcgen05.alloc",), 32, 2),
    Row(7, program(
        with_descriptors(A, B, instruction(128, 8)), ISSUE.format(issued=MULTIPLY), "  add.u32 %r14, %r11, 0;\n", AGAIN
    ), "", READ_OVER, "tmem-read-unfinished", ("tcgen05.mma",)),
    Row(9, small(
        INIT.format(count=1) + CLUSTER + REMOTE + IS_LEADER + "  @%p5 bra LEADER;\n"
        f"  @%p2 mbarrier.arrive.release.{HERE}.shared::cluster.b64 _, [%r6];\n  bra.uni MEET;\nLEADER:\n"
        + WAIT_0 + "MEET:\n" + CLUSTER
    ), "cta", "cluster", "scope", ("mbarrier.arrive",), 32, 2),
    Row(10, small(
        f"  setp.lt.u32 %p5, %r1, 128;\n  @%p5 bra GIVE;\n  bar.sync 1, {HERE};\n  bra.uni END;\n"
        f"GIVE:\n  bar.arrive 1, {HERE};\n"
    ), "64", "160", "deadlock", ("bar.sync 1",), 160),
    Row(13, small(
        f"  @%p2 st.bulk.weak.shared::cta [%r3], 512, 0;\n{HERE}  shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r3;\n"
        "  ld.shared.b32 %v0, [%r6];\n  mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd4, %rd3;\n"
        "  st.global.b32 [%rd4], %v0;\n"
    ), "", SYNC, "race", ("ld.shared.b32 %v0",)),
    Row(15, columns(
        OF_THREAD + "  setp.lt.u32 %p5, %r1, 128;\n  @!%p5 bra S;\n" + STORE_2 + "S:\n" + WAIT_ST + SYNC + LOAD_2
        + READ_OVER + HERE + "  @!%p5 bra KEEP;\n  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%v1};\n"
        + WAIT_ST + "KEEP:\n" + KEEP
    ), "", "  bar.sync 1, 256;\n", "tmem-race", ("tcgen05.st", "tcgen05.ld"), 256),
    ring(16, SLOT_OF_TILE, "  mov.u32 %r14, %r6;\n", "tmem-race", "tcgen05.mma"),
    Row(17, PAIR.replace("  @!%p7 bra WAIT;\n", "  @!%p7 bra LATER;\n").replace(
        "WAIT:\n", "LATER:\n  setp.ne.u32 %p6, %r30, 0;\n  @%p6 bra FREES;\nWAIT:\n"
    ).replace("  bar.sync 0;\n  barrier.cluster", "FREES:\n  bar.sync 0;\n  barrier.cluster").replace(
        "FREES:\n  bar.sync 0;\n" + CLUSTER, f"FREES:\n  bar.sync 0;\n{HERE}"
    ), "", CLUSTER, "tmem-race", ("tcgen05.dealloc",), 128, 2),
    Row(18, small(
        INIT.format(count=1) + CLUSTER + REMOTE + IS_LEADER + "  @%p5 bra LEADER;\n"
        f"  @%{HERE} mbarrier.arrive.shared::cluster.b64 _, [%r6];\n  bra.uni MEET;\nLEADER:\n" + WAIT_0
        + "MEET:\n" + CLUSTER
    ), "p1", "p2", "over-arrival", ("mbarrier.arrive",), 32, 2),
    *(Row(19, small(
        "  @%p2 mbarrier.init.shared::cta.b64 [%r4+8], 1;\n" + INIT.format(count=1) + CLUSTER + REMOTE + IS_LEADER
        + "  @%p5 bra LEADER;\n" + REMOTE_ARRIVE + REMOTE_ARRIVE.replace("[%r6]", f"[%r6+{HERE}]")
        + "  bra.uni MEET;\nLEADER:\n" + WAIT_0
        + POLL.format(label="W1", at=HERE, parity=1).replace(f"[%r4+{HERE}], 1", f"[%r4+{HERE}], %r7")
        + "MEET:\n" + CLUSTER
    ).replace("  @%p5 bra LEADER;", f"  mov.u32 %r7, {HERE}; shr.u32 %r7, %r7, 3; xor.b32 %r7, %r7, 1;\n"
              "  @%p5 bra LEADER;"),
        "0", "8", code, ("mbarrier.try_wait",), 32, 2) for code in ("deadlock",)),
    Row(20, small(
        INIT.format(count=1) + SYNC + "  @%p2 mbarrier.arrive.shared::cta.b64 _, [%r4];\n" + WAIT_0 + SYNC
        + HERE + "  @%p2 mbarrier.init.shared::cta.b64 [%r4], 2;\n"
    ), "", "  @%p2 mbarrier.inval.shared::cta.b64 [%r4];\n", "mbarrier-reinit", ("[%r4], 2",)),
    Row(22, program(
        with_descriptors(A, B, 0), ISSUE.format(issued="tcgen05.cp.cta_group::1.32x128b.warpx4 [%r11], %rd6;"), dump(4)
    ).replace(PROXY, HERE), "", PROXY, "proxy", ("tcgen05.cp",)),
    Row(23, columns(
        OF_THREAD + "  setp.lt.u32 %p5, %r1, 128;\n  @!%p5 bra OTHER;\n" + STORE_2 + WAIT_ST + LOAD_2 + READ_OVER
        + KEEP + f"OTHER:\n{HERE}  @%p5 bra OVER;\n" + STORE_2.replace("%r1, %r1", "%r1, %r5") + WAIT_ST + "OVER:\n"
    ), "", "  bar.sync 1, 256;\n", "tmem-race", ("tcgen05.st", "tcgen05.ld"), 256),
    Row(24, small(
        INIT.format(count=1) + CLUSTER + REMOTE + IS_LEADER + "  @%p5 bra MEET;\n" + REMOTE_ARRIVE + "MEET:\n" + HERE
    ), "", CLUSTER, "dsmem-after-exit", ("mbarrier.arrive.shared::cluster",), 32, 2),
    Row(26, small(
        INIT.format(count=HERE) + CLUSTER + "  mov.b16 %h1, 3;\n"
        f"  @%p2 {COMMIT}.multicast::cluster.b64 [%r4], %h1;\n" + WAIT_0 + CLUSTER
    ).replace(".reg .pred", ".reg .b16 %h<2>; .reg .pred"), "1", "2", "phase-alias", ("tcgen05.commit",), 32, 2),
    Row(27, small(
        INIT.format(count=1) + SYNC + "  setp.gt.u32 %p5, %r1, 31;\n  @%p5 bra W0;\n  @!%p2 bra END;\n"
        f"  st.shared.b32 [%r3], %r1;\n  mbarrier.arrive.{HERE}.cta.shared::cta.b64 _, [%r4];\n  bra.uni END;\n"
        + WAIT_0 + "  ld.shared.b32 %v0, [%r3];\n  st.global.b32 [%rd3], %v0;\n"
    ), "relaxed", "release", "race", ("ld.shared.b32 %v0",), 33),
    Row(29, small(f"  bar.sync {HERE};\n"), "16", "15", "invalid-barrier", ("bar.sync 16",)),
    Row(32, small(
        "  @%p2 mbarrier.init.shared::cta.b64 [%r4+8], 1;\n" + INIT.format(count=1) + SYNC
        + "  setp.gt.u32 %p5, %r1, 31;\n  @%p5 bra READER;\n  @!%p2 bra END;\n  st.shared.b32 [%r3], %r1;\n"
        "  mbarrier.arrive.shared::cta.b64 _, [%r4];\n" + POLL.format(label="W1", at=8, parity=0)
        + "  st.shared.b32 [%r3], %r5;\n  bra.uni END;\nREADER:\n" + HERE + HERE + WAIT_0
        + "  ld.shared.b32 %v0, [%r3];\n  st.global.b32 [%rd3], %v0;\n"
        "  mbarrier.arrive.shared::cta.b64 _, [%r4+8];\n"
    ), "  mbarrier.arrive.shared::cta.b64 _, [%r4+8];\n", "", "phase-alias", ("mbarrier",), 33),
    Row(33, small(
        "  shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r3;\n  setp.lt.u32 %p5, %r1, 32;\n  @!%p5 bra USE;\n"
        f"  st.shared.b32 [%r6], %r1;\n  bar.sync 1, 64;\n{HERE}  st.shared.b32 [%r6], %r5;\n  bar.sync 1, 64;\n"
        f"  bra.uni END;\nUSE:\n  bar.sync 1, 64;\n  ld.shared.b32 %v0, [%r6-128];\n{HERE}  bar.sync 1, 64;\n"
        "  ld.shared.b32 %v1, [%r6-128];\n" + OF_THREAD + KEEP
    ), "", "  bar.sync 2, 64;\n", "race", ("%r5;", "ld.shared.b32 %v0"), 64),
    ring(34, FILLED + ADDRESS + LOADS, ADDRESS + LOADS + FILLED, "tmem-race", "tcgen05.mma", "tcgen05.ld"),
    Row(37, small(
        f"  @%p2 mbarrier.init.shared::cta.b64 [%r4+8], {HERE};\n" + INIT.format(count=1)
        + "  shl.b32 %r7, %r1, 2; add.u32 %r7, %r7, %r3;\n  st.shared.b32 [%r7], %r1;\n" + CLUSTER + IS_LEADER
        + "  ld.shared.b32 %v0, [%r7];\n  bar.warp.sync -1;\n  mapa.shared::cluster.u32 %r6, %r4, 0;\n"
        "  setp.lt.u32 %p6, %r30, COUNT;\n  and.pred %p6, %p6, %p2;\n".replace("COUNT", HERE)
        + PROXY + "  @%p6 mbarrier.arrive.shared::cluster.b64 _, [%r6+8];\n"
        "  @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\n  @!%p5 bra W0;\n"
        + POLL.format(label="W1", at=8, parity=0) + "  mov.b16 %h1, 3;\n"
        "  @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%r3], [%rd1], 128, [%r4], %h1;\n" + WAIT_0 + "  ld.shared.b32 %v1, [%r7];\n"
        "  mad.lo.u32 %r8, %r30, 32, %r1; mul.wide.u32 %rd4, %r8, 8; add.u64 %rd4, %rd4, %rd3;\n" + KEEP + CLUSTER
    ).replace(".reg .pred", ".reg .b16 %h<2>; .reg .pred"), "1", "2", "race", ("cp.async.bulk", "%v0"), 32, 2),
    Row(38, small(
        "  ld.global.b32 %r6, [%rd1];\n  shl.b32 %r7, %r1, 2; add.u32 %r7, %r7, %r3;\n  st.shared.b32 [%r7], %r1;\n"
        f"{HERE}  setp.eq.u32 %p5, %r6, %r6;\n  @%p5 bra EMPTY;\n" + PROXY + "EMPTY:\n" + SYNC + "  @!%p2 bra END;\n"
        "  cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r3], 512;\n  cp.async.bulk.commit_group;\n"
        "  cp.async.bulk.wait_group 0;\n"
    ), "", PROXY, "proxy", ("cp.async.bulk.global",)),
]  # fmt: skip


def text_of(row: Row, *, wrong: bool) -> str:
    return row.text.replace(HERE, row.wrong if wrong else row.right)


def check_row(row: Row, text: str, engine: Engine) -> Report:
    source = np.random.default_rng(1).standard_normal(4 * STAGE).astype(np.float16)
    result = np.zeros((384, 16), np.float32)
    words = np.zeros((128, 16), np.uint32)
    arguments = (source, words, result) if "param .u64 words" in text else (source, result)
    kernel = wsemu.load_ptx(text)["k"]
    return wsemu.check(kernel, row.ctas, row.threads, arguments, engine=engine, cluster=row.ctas)


@ENGINES
@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_a_bug_has_its_code_at_its_line(row: Row, engine: Engine):
    text = text_of(row, wrong=True)
    report, lines = check_row(row, text, engine), text.splitlines()
    found = [lines[f.sites[0].line - 1] for f in report.findings if f.code == row.code and f.severity == "error"]
    assert found
    assert all(any(part in line for part in row.lines) for line in found)


@ENGINES
@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_the_repaired_twin_is_verified(row: Row, engine: Engine):
    report = check_row(row, text_of(row, wrong=False), engine)
    assert report.verdict == "verified", report.notes or report.findings


@ENGINES
@pytest.mark.parametrize(("second", "good"), [("32", False), ("0", True)])
def test_a_collector_buffer_is_filled_by_the_warp_that_uses_it(second: str, good: bool, engine: Engine):
    """A commit and a wait between the products; the thread that issues the second one is of another warp, or not."""
    again = f"""
  bar.sync 0;
  setp.eq.u32 %p3, %r1, {second};
  @%p3 {USES_A}
  @%p3 {COMMIT}.b64 [%r4];
""" + POLL.format(label="W1", at=0, parity=1)
    text = program(with_descriptors(A, B, instruction(128, 8)), ISSUE.format(issued=FILLS_A), again, dump(8))
    report = check_row(ROWS[0]._replace(ctas=1), text, engine)
    codes = {f.code for f in report.findings if f.severity == "error"}
    assert codes == (set() if good else {"collector-without-fill"})


@ENGINES
@pytest.mark.parametrize(("between", "good"), [("", True), ("collector::b3::discard ", False)])
def test_buffers_of_b_are_apart(between: str, good: bool, engine: Engine):
    """`.ws` has four; without a name a product discards the first one."""
    forms = (
        f".{form}" if form.strip() else " " for form in ("collector::b3::fill ", between, "collector::b3::lastuse ")
    )
    issued = "\n  ".join(MULTIPLY.replace("mma.cta", "mma.ws.cta").replace("f16 ", f"f16{form}") for form in forms)
    text = program(
        with_descriptors(A, B, instruction(128, 64)), ISSUE.format(issued=issued), dump(8), columns=64
    )  # fmt: skip
    report = check_row(ROWS[0]._replace(ctas=1), text, engine)
    assert ("collector-without-fill" in {f.code for f in report.findings}) != good


# -- wrong values ------------------------------------------------------------------------------------------------------


def run_values(text: str, source: Any, count: int, engine: Engine) -> tuple[Report, Any]:
    """Return the report on a program, and what it stores."""
    result = np.zeros((128, count), np.uint32)
    arguments = source.view(np.uint8).copy(), np.zeros((128, 8), np.uint32), result
    return wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, arguments, engine=engine), result


def verified_values(text: str, source: Any, count: int, engine: Engine) -> Any:
    report, result = run_values(text, source, count, engine)
    assert report.verdict == "verified", report.findings
    return result


def swizzled(memory: Any, at: int, matrix: Any) -> None:
    """Lay out rows of 128 bytes with the swizzle of 128 bytes, as if a pattern began here."""
    rows = matrix.view(np.uint8).reshape(-1, 8, 16)
    for row, chunks in enumerate(rows):
        for n, chunk in enumerate(chunks):
            start = at + 128 * row + 16 * (n ^ row % 8)
            memory[start : start + 16] = chunk


def halves(*shape: int) -> Any:
    return np.random.default_rng(5).integers(-4, 5, shape).astype(np.float16)


@ENGINES
@pytest.mark.parametrize("begin", [0, 128])
def test_row_14_a_swizzled_tile_begins_at_its_pattern(begin: int, engine: Engine):
    a, b, memory = halves(128, 64), halves(8, 64), np.zeros(18432, np.uint8)
    swizzled(memory, begin, a)
    swizzled(memory, 17408, b)
    text = program(
        with_descriptors(descriptor(begin, 0, 1024, 2), descriptor(17408, 0, 1024, 2), instruction(128, 8)),
        ISSUE.format(issued=MULTIPLY), dump(8), shared=18432,
    )  # fmt: skip
    product = a[:, :16].astype(np.float32) @ b[:, :16].astype(np.float32).T
    assert (verified_values(text, memory, 8, engine).view(np.float32) == product).all() == (begin == 0)


@ENGINES
@pytest.mark.parametrize("packed", ["", ".pack::16b"])
def test_row_47_sums_of_16_bits_have_a_column_each(packed: str, engine: Engine):
    core = halves(1024, 8)
    text = program(
        with_descriptors(A, B, instruction(128, 16, d=0)), ISSUE.format(issued=MULTIPLY), dump(8, packed=packed)
    )  # fmt: skip
    a = core[:256].reshape(16, 2, 8, 8).transpose(0, 2, 1, 3).reshape(128, 16).astype(np.float32)
    b = core[256:288].reshape(2, 2, 8, 8).transpose(0, 2, 1, 3).reshape(16, 16).astype(np.float32)
    found = verified_values(text, np.resize(core, 4096), 8, engine).view(np.float16)
    assert (found == (a @ b.T).astype(np.float16)).all() == bool(packed)


@ENGINES
@pytest.mark.parametrize("shape", ["128x128b", "32x128b.warpx4"])
def test_row_48_factors_have_a_copy_in_each_quarter(shape: str, engine: Engine):
    factors = np.random.default_rng(6).integers(124, 130, 128).astype(np.uint8)
    memory = np.full(8192, 0x38, np.uint8)
    for row, factor in enumerate(factors):
        memory[4608 + 16 * (row % 32) + 4 * (row // 32)] = factor
    copies = "".join(f"add.u32 %r{n}, %r11, {at}; tcgen05.cp.cta_group::1.{shape} [%r{n}], %rd9; "
                     for n, at in ((17, 16), (18, 20)))  # fmt: skip
    issued = copies + FACTORED
    text = program(
        with_descriptors(A, B, 1 << 17 | 8 << 24 | 1 << 23),
        f"  mov.b64 %rd9, {descriptor(4608, 0, 128):#x}; add.u64 %rd9, %rd9, %rd8;\n",
        ISSUE.format(issued=issued), dump(8),
    )  # fmt: skip
    report, found = run_values(text, memory, 8, engine)
    scale = np.exp2(factors.astype(np.float32) - 127)
    if shape == "128x128b":
        assert {f.code for f in report.findings if f.severity == "error"} == {"tmem-uninitialized"}
    else:
        assert report.verdict == "verified"
        assert (found.view(np.float32) == 32 * np.outer(scale, scale[:8])).all()


FACTORED = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r11], %rd6, %rd7, %r15, [%r17], [%r18], %p5;"


@ENGINES
@pytest.mark.parametrize("step", [128, 16384])
def test_row_57_k_goes_on_in_the_next_swizzle_atom(step: int, engine: Engine):
    a, b, memory = halves(128, 128), halves(8, 128), np.zeros(34816, np.uint8)
    for block in (0, 1):
        swizzled(memory, 16384 * block, np.ascontiguousarray(a[:, 64 * block : 64 * (block + 1)]))
        swizzled(memory, 32768 + 1024 * block, np.ascontiguousarray(b[:, 64 * block : 64 * (block + 1)]))
    second = f"add.u64 %rd6, %rd6, {step >> 4}; add.u64 %rd7, %rd7, {1024 >> 4}; setp.eq.u32 %p5, %r1, %r1; "
    text = program(
        with_descriptors(descriptor(0, 0, 1024, 2), descriptor(32768, 0, 1024, 2), instruction(128, 8)),
        ISSUE.format(issued=MULTIPLY + second + MULTIPLY), dump(8), shared=34816,
    )  # fmt: skip
    k = [*range(16), *range(64, 80)]
    product = a[:, k].astype(np.float32) @ b[:, k].astype(np.float32).T
    assert (verified_values(text, memory, 8, engine).view(np.float32) == product).all() == (step == 16384)


# -- tensor maps -------------------------------------------------------------------------------------------------------

OF_MAP = (
    small("")
    .replace("(.param .u64 source", "(.param .align 64 .b8 map[128]")
    .replace("ld.param.u64 %rd1, [source];", "mov.u64 %rd1, map; cvta.param.u64 %rd1, %rd1;")
)
TENSOR = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"


def with_map(body: str) -> str:
    return OF_MAP.replace(FOOTER, body + FOOTER)


PAIR_LOADS = with_map(
    INIT.format(count=1) + CLUSTER + "  @!%p2 bra MEET;\n" + IS_LEADER
    + HERE + "  and.b32 %r6, %r4, 0xFEFFFFFF; shl.b32 %r7, %r30, 3;\n"
    f"  {TENSOR}.cta_group::2 [%r3], [%rd1, {{0, %r7}}], [%r6];\n  @!%OF bra MEET;\n" + WAIT_0
    + "MEET:\n  bar.warp.sync -1;\n" + CLUSTER + "  tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n"
)  # fmt: skip
EXPECTS = "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {bytes};\n"
CHANGED_MAP = with_map(
    "  mov.u64 %rd5, %rd3; shl.b32 %r6, %r1, 2; cvt.u64.u32 %rd6, %r6; add.u64 %rd7, %rd1, %rd6;\n"
    "  add.u32 %r7, %r3, %r6; ld.b32 %r8, [%rd7]; st.shared.b32 [%r7], %r8;\n" + INIT.format(count=1) + SYNC
    + "  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd5], [%r3], 128;\n"
    "  fence.proxy.tensormap::generic.acquire.gpu [%rd5], 128;\n  bar.sync 0;\n"
    "  @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 1024;\n"
    f"  @%p2 {TENSOR} [%r3+1024], [%rd5, {{0, 0}}], [%r4];\n  bar.warp.sync -1;\n" + HERE
    + "  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd5], [%r3], 128;\n"
    + POLL.format(label="W1", at=0, parity=0)
)  # fmt: skip


def check_map(text: str, ctas: int, engine: Engine) -> Report:
    array, room = np.ones((16, 32), np.float32), np.zeros(384, np.uint64)
    arguments = wsemu.TensorMap(array, [8, 32]), room
    return wsemu.check(wsemu.load_ptx(text)["k"], ctas, 32, arguments, engine=engine, cluster=ctas)


@ENGINES
@pytest.mark.parametrize(("expects", "waits", "code"), [
    (EXPECTS.format(bytes=1024), "p2", "deadlock"), ("  @%p5" + EXPECTS.format(bytes=2048), "p5", ""),
])  # fmt: skip
def test_row_58_the_leader_of_a_pair_expects_the_bytes_of_both(expects: str, waits: str, code: str, engine: Engine):
    report = check_map(PAIR_LOADS.replace(HERE, expects).replace("%OF", f"%{waits}"), 2, engine)
    assert report.verdict == ("failed" if code else "verified"), report.notes or report.findings
    assert not code or code in {f.code for f in report.findings}


@ENGINES
@pytest.mark.parametrize(("wait", "good"), [("", False), (WAIT_0, True)])
def test_row_8_a_map_changes_after_the_copies_that_read_it(wait: str, good: bool, engine: Engine):
    report = check_map(CHANGED_MAP.replace(HERE, wait), 1, engine)
    errors = {f.code for f in report.findings if f.severity == "error"}
    assert report.verdict == "verified" if good else errors == {"race"}, report.notes or report.findings


# -- generic stores before asynchronous ones ---------------------------------------------------------------------------

OVERWRITTEN = small(
    INIT.format(count=1) + "  shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r3;\n  st.shared.b32 [%r6], %r1;\n" + SYNC
    + "  // read\n" + SYNC + "  @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\n"
    "  @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r4];\n" + WAIT_0
)  # fmt: skip


def arguments_of_copies() -> tuple[Any, Any]:
    return np.zeros(64, np.float32), np.zeros(64, np.float32)


@ENGINES
@pytest.mark.parametrize(("read", "code"), [
    ("", "proxy"),
    ("  ld.shared.b32 %v0, [%r6]; @%p2 st.global.b32 [%rd3], %v0;\n", "proxy-war"),
    ("  xor.b32 %r7, %r6, 4; ld.shared.b32 %v0, [%r7]; @%p2 st.global.b32 [%rd3], %v0;\n", "proxy-war"),
    ("  @%p2 ld.shared.b32 %v0, [%r3]; @%p2 st.global.b32 [%rd3], %v0;\n", "proxy"),
])  # fmt: skip
def test_a_store_that_was_read_back_is_over_before_a_copy(read: str, code: str, engine: Engine):
    """The third reads by other lanes, the fourth 4 of 128 bytes."""
    text = OVERWRITTEN.replace("  // read\n", read)
    kernel = wsemu.load_ptx(text)["k"]
    report = wsemu.check(kernel, 1, 32, arguments_of_copies(), engine=engine)
    assert code in {finding.code for finding in report.findings}
    assert ("proxy" in {finding.code for finding in report.findings}) == (code == "proxy")
    if code == "proxy-war":
        assert report.verdict == "verified"
        assert report.proof.endswith("but 1 proxy-war")
        assert wsemu.check(kernel, 1, 32, arguments_of_copies(), engine=engine, strict=True).verdict == "failed"


@ENGINES
def test_a_store_to_global_memory_that_was_read_back_may_be_in_a_cache(engine: Engine):
    text = small(
        "  mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd4, %rd3; shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r3;\n"
        "  st.global.b32 [%rd4], %r1; ld.global.b32 %v0, [%rd4]; st.shared.b32 [%r6], %v0;\n" + PROXY + SYNC
        + "  @%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r3], 128;\n"
        "  @%p2 cp.async.bulk.commit_group; @%p2 cp.async.bulk.wait_group 0;\n"
    )  # fmt: skip
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, arguments_of_copies(), engine=engine)
    assert [finding.code for finding in report.errors] == ["proxy"]
