"""Bugs that people made in kernels for tensor memory: each edit of a correct program is found by both engines.

Numbers are rows of the list of bugs in the reference of Blackwell; the correct program is the twin of all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.ring_program import RING, STAGE
from tests.unit.tensor_programs import ISSUE, descriptor, dump, instruction, program, with_descriptors

if TYPE_CHECKING:
    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

SOURCE = np.random.default_rng(1).standard_normal(3 * STAGE).astype(np.float16)
MMA = "  tcgen05.mma.cta_group::1.kind::f16 [%r14], %rd5, %rd6, %r20, %p6;\n"
COMMIT = "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
FREES, FILLS = COMMIT + "[%r18+16];\n", COMMIT + "[%r12+32];\n"
LOADED = "  tcgen05.wait::ld.sync.aligned;\n"
RELEASES = "  mbarrier.arrive.shared::cta.b64 _, [%r12+48];\n"
DEALLOC = "  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 64;\n"
ALLOC = "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], 64;\n"
TILES = "  @%p7 bra TILE;\n"
ADDS = "  setp.ne.u32 %p6, %r15, 0;\n"
VERSION = (hex(descriptor(0, 128, 256)), hex(descriptor(0, 128, 256) & ~(1 << 46)))

EDITS = [
    (1, LOADED + RELEASES, RELEASES + LOADED, {"tmem-read-unfinished"}),
    (1, LOADED, "", {"tmem-read-unfinished"}),
    (4, ALLOC, "  @%p4 st.shared.b32 [%r5], 0;\n", {"tmem-unallocated"}),
    (5, "ALLOCATED:\n  bar.sync 0;\n", "ALLOCATED:\n", {"tmem-address-unpublished"}),
    (12, "[%r18], 4608;\n", "[%r18], 9216;\n", {"deadlock"}),
    (25, TILES, TILES + "  mbarrier.inval.shared::cta.b64 [%r4+16];\n", {"mbarrier-lifetime"}),
    (28, "b32 %r6, 64", "b32 %r6, 96", {"tmem-columns"}),
    (28, "b32 %r6, 64", "b32 %r6, 32", {"tmem-double-free"}),
    (30, "  bar.warp.sync 0xffffffff;\n  bar.sync 0;\n", "  bar.warp.sync 0xffffffff;\n", {"tmem-race"}),
    (35, "[%r4+48], 128", "[%r4+48], 4", {"over-arrival"}),
    (36, "shl.b32 %r14, %r10, 5; add.u32 %r14, %r14, %r6;\n  mov", "shl.b32 %r14, %r10, 9;\n  mov", {"tmem-bounds"}),
    (37, "  @!%p5 bra EMPTY;\n", "", {"race"}),
    (40, MMA + FREES, FREES + MMA, {"race"}),
    (41, "[%r12+32], %r11", "[%r12+16], %r11", {"tmem-race"}),
    (41, FILLS, "  mbarrier.arrive.shared::cta.b64 _, [%r12+32];\n", {"tmem-race"}),
    (45, "shl.b32 %r22, %r2, 21", "add.u32 %r22, %r2, 1; and.b32 %r22, %r22, 3; shl.b32 %r22, %r22, 21",
     {"tmem-wrong-quarter"}),
    (49, ADDS, "  setp.eq.u32 %p6, %r15, %r15;\n", {"tmem-uninitialized"}),
    (50, "  xor.b32 %r13, %r11, 1;\nFREE", "  xor.b32 %r13, %r10, 1;\nFREE", {"deadlock"}),
    (50, "  @!%p5 bra FREE;\n", "", {"tmem-race"}),
    (51, DEALLOC, "", {"tmem-leak"}),
    (59, *VERSION, {"tcgen05-descriptor"}),
]  # fmt: skip


MULTIPLIES, LOADS, ENDS = "tcgen05.mma", "tcgen05.ld", "tcgen05.dealloc"
LINES = {
    1: (MULTIPLIES, ENDS), 4: (MULTIPLIES, LOADS), 5: ("ld.shared.b32 %r6",), 12: ("mbarrier.try_wait",),
    25: ("mbarrier.inval",), 28: (ENDS,), 30: (LOADS, ENDS), 35: ("mbarrier.arrive.shared",), 36: (MULTIPLIES,),
    37: ("cp.async.bulk",), 40: ("cp.async.bulk",), 41: (MULTIPLIES, LOADS, ENDS), 45: (LOADS,), 49: (LOADS,),
    50: (MULTIPLIES, "mbarrier.try_wait"), 51: ("tcgen05.alloc",), 59: (MULTIPLIES,),
}  # fmt: skip
"""row -> parts of lines where its codes may be found"""


def check_ring(text: str, engine: Engine) -> tuple[Report, Any]:
    result = np.zeros((384, 16), np.float32)
    return wsemu.check(wsemu.load_ptx(text)["k"], 1, 192, (SOURCE.copy(), result), engine=engine), result


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_ring_of_accumulators_is_verified(engine: Engine):
    report, result = check_ring(RING, engine)
    assert report.verdict == "verified", report.notes

    def rows(stage: int, start: int, count: int) -> Any:
        core = SOURCE[stage * STAGE // 2 + start :][: count * 16].reshape(count // 8, 2, 8, 8)
        return core.transpose(0, 2, 1, 3).reshape(count, 16).astype(np.float64)

    tiles = [sum(rows(n, 0, 128) @ rows(n, 2048, 16).T for n in (2 * tile, 2 * tile + 1)) for tile in range(3)]
    assert np.allclose(result, np.concatenate(tiles), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("row", "old", "new", "codes"), EDITS)
def test_a_bug_is_found(row: int, old: str, new: str, codes: set[str]):
    assert old in RING
    found, text = [], RING.replace(old, new, 1)
    for engine in ("vm", "reference"):
        report, _ = check_ring(text, engine)
        found.append({finding.code for finding in report.findings if finding.severity == "error"})
        lines = {text.splitlines()[f.sites[0].line - 1] for f in report.findings if f.code in codes}
        assert all(any(part in line for part in LINES[row]) for line in lines), lines
    assert found[0] == found[1]
    assert codes <= found[0], row


def test_an_mbarrier_ends_where_only_a_later_commit_is_known():
    """Row 25: commits of a thread arrive in their order on hardware, which PTX does not promise."""
    text = RING.replace("END:\n", "END:\n  @%p1 mbarrier.inval.shared::cta.b64 [%r4+16];\n")
    for engine in ("vm", "reference"):
        report, _ = check_ring(text, engine)
        assert "commit-order" in {finding.code for finding in report.findings}
        strict = wsemu.check(
            wsemu.load_ptx(text)["k"], 1, 192, (SOURCE.copy(), np.zeros((384, 16), np.float32)), engine=engine,
            strict=True,
        )  # fmt: skip
        assert (report.verdict, strict.verdict) == ("verified", "failed")


def test_commits_of_one_block_do_not_end_the_next_one():
    early = RING.replace(FILLS, "").replace(ADDS, ADDS + "  @%p6" + FILLS)
    for engine in ("vm", "reference"):
        report, _ = check_ring(early, engine)
        assert {finding.code for finding in report.findings if finding.severity == "error"} == {"tmem-race"}  # 40


A, B = descriptor(0, 128, 256), descriptor(4096, 128, 256)
ONE = "tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r15, %p5;"
CHAINED = ONE + "\n  tcgen05.mma.cta_group::1.kind::f16 [%r17], [%r11], %rd7, %r15, %p5;"
COPIED = "tcgen05.cp.cta_group::1.128x256b [%r17], %rd6;"
FROM_COLUMNS = "tcgen05.mma.cta_group::1.kind::f16 [%r11], [%r17], %rd7, %r15, %p5;"
BY_ANOTHER = """
  @%p2 tcgen05.cp.cta_group::1.128x256b [%r17], %rd6;
  bar.sync 0;
  setp.eq.u32 %p2, %r1, 32;
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("before", "issued", "codes"),
    [
        ("", COPIED + FROM_COLUMNS, set()),
        (BY_ANOTHER, FROM_COLUMNS, {"tmem-race"}),  # 42
        ("", CHAINED, {"tmem-race"}),  # 43
    ],
)
def test_pipelined_pairs_are_of_one_warp(before: str, issued: str, codes: set[str], engine: Engine):
    address = "\n  add.u32 %r17, %r11, 16;\n"
    text = program(
        with_descriptors(A, B, instruction(128, 8)), address, before, ISSUE.format(issued=issued), dump(8)
    )  # fmt: skip
    arguments = SOURCE[:4096].copy(), np.zeros((128, 8), np.uint32), np.zeros((128, 8), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, arguments, engine=engine)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == codes
