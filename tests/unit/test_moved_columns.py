"""A launch relies on no column that `tcgen05.alloc` gives by chance; both engines say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from tests.unit.tensor_programs import dump, fill, program

if TYPE_CHECKING:
    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

GETS, FILL = "  ld.shared.b32 %r11, [%r2];\n", "  add.u32 %r13, %r11, 0;\n"
STORES = "\n  bar.sync 0;\n  @!%p1 bra END;"
FREES = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, "
ALLOCATES = "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 "
UNALLOCATED = {"tmem-unallocated"}
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


def kernel(columns: int = 128) -> str:
    """Return a program that stores 8 columns, and loads them."""
    return program(fill(8, 0), dump(8), columns=columns)


def judge(text: str, engine: Engine, ctas: int = 1, dynamic_shared: int = 0) -> Report:
    words = np.arange(1024, dtype=np.uint32).reshape(128, 8)
    arguments = np.zeros(8192, np.uint8), words, np.zeros((128, 8), np.uint32)
    return wsemu.check(
        wsemu.load_ptx(text)["k"], ctas, 128, arguments, engine=engine, cluster=ctas, dynamic_shared=dynamic_shared
    )


def errors(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


def after_load(text: str) -> str:
    """Return the program with some instructions after the load of the address."""
    return kernel().replace(GETS, GETS + text)


SHUFFLED = "  shfl.sync.idx.b32 %r11, %r11, 0, 31, -1;\n  or.b32 %r11, %r11, 64;\n  and.b32 %r11, %r11, 0xffffffbf;\n"
LANES = "  and.b32 %r16, %r1, 96; shl.b32 %r16, %r16, 16; add.u32 %r13, %r11, %r16;\n"


@ENGINES
@pytest.mark.parametrize("text", [
    kernel(), kernel(32), kernel(512), after_load(SHUFFLED), kernel().replace(FILL, LANES),
    kernel(512).replace(GETS, "  mov.b32 %r11, 0;\n"),
])  # fmt: skip
def test_an_address_of_the_allocation_is_verified(text: str, engine: Engine):
    report = judge(text, engine)
    assert report.verdict == "verified", report
    assert not report.notes


@ENGINES
@pytest.mark.parametrize(("text", "codes"), [
    (kernel().replace(GETS, "  mov.b32 %r11, 0;\n"), {"tmem-unallocated", "tmem-double-free"}),
    (kernel().replace(FILL, "  mov.b32 %r13, 0;\n"), UNALLOCATED),
    (kernel().replace(FREES, "mov.b32 %r11, 0;\n  " + FREES), {"tmem-double-free"}),
    (kernel().replace(FILL, "  mul.lo.u32 %r13, %r11, 2;\n"), {"tmem-bounds"}),
    (kernel().replace(FILL, "  and.b32 %r13, %r11, 127;\n"), UNALLOCATED),
    (after_load("  setp.eq.u32 %p3, %r11, 256;\n  selp.b32 %r13, 0, %r11, %p3;\n").replace(FILL, ""), UNALLOCATED),
])  # fmt: skip
def test_columns_without_an_allocation_are_an_error(text: str, codes: set[str], engine: Engine):
    report = judge(text, engine)
    assert errors(report) == codes
    note = next(n for f in report.findings if f.code in codes for n in f.notes if n.startswith("seen in a run"))
    assert "which columns an allocation gets depends on the other CTAs of the multiprocessor" in note


@ENGINES
@pytest.mark.parametrize(("text", "what"), [
    (after_load("  @%p2 st.global.b32 [%rd1], %r11;\n"), "what it stores"),
    (after_load("  setp.eq.u32 %p3, %r11, 128;\n  @%p3 st.shared.b32 [%r3], %r11;\n"), "which instructions run"),
    (after_load("  setp.gt.u32 %p3, %r11, 255;\n  @%p3 bra ON;\n  bar.sync 0;\nON:\n"), "which instructions run"),
])  # fmt: skip
def test_what_follows_from_the_column_is_undecided(text: str, what: str, engine: Engine):
    report = judge(text, engine)
    assert (report.verdict, report.reasons, errors(report)) == ("incomplete", ["tensor memory"], set())
    assert any(f"{what} depends on the columns that this allocation gets" in note for note in report.notes)


def test_columns_are_moved_without_the_checkers_of_accesses():
    """The arrays were not kept for other runs (false `verified`)."""
    text, arrays = (
        after_load("  @%p2 st.global.b32 [%rd1], %r11;\n"),
        (np.zeros(n, np.uint32) for n in (2048, 1024, 1024)),
    )
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, [*arrays], checkers=["deadlock"])
    assert (report.verdict, report.reasons) == ("incomplete", ["tensor memory"])


@ENGINES
def test_an_assertion_of_the_first_column_is_noted(engine: Engine):
    text = after_load("  setp.eq.u32 %p3, %r11, 0;\n  @%p3 bra SAME;\n  trap;\nSAME:\n  mov.b32 %r11, 0;\n")
    report = judge(text, engine)
    assert report.verdict == "verified"
    assert any("the kernel traps if its columns of tensor memory begin at another one" in n for n in report.notes)


@ENGINES
def test_a_cta_without_others_may_use_column_0(engine: Engine):
    text = kernel().replace(GETS, "  mov.b32 %r11, 0;\n")
    report = judge(text, engine, dynamic_shared=150_000)
    assert report.verdict == "verified"
    assert any("no second CTA of the launch fits on the multiprocessor" in note for note in report.notes)


TWICE = [
    ("\nALLOCATED:", f"\n{ALLOCATES}[%r3], 128;\nALLOCATED:"),
    ("  setp.lt.u32 %p3, %r5, 8192;", "  setp.lt.u32 %p3, %r5, 8064;"),
    ("  add.u32 %r10, %r3, %r5;", "  add.u32 %r10, %r3, %r5; add.u32 %r10, %r10, 128;"),
    ("  add.u32 %r14, %r11, 0;", "  mov.b32 %r14, %r20;"),
    (FREES, f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 128;\n  {FREES}"),
]
"""edits of a kernel that allocates twice, and uses the columns at %r20, those of the second allocation"""


@ENGINES
@pytest.mark.parametrize(
    ("second", "found"), [("ld.shared.b32 %r20, [%r3];", False), ("add.u32 %r20, %r11, 128;", True)]
)
def test_two_allocations_need_not_be_neighbours(second: str, found: bool, engine: Engine):
    text = kernel().replace("tile[8192]", "tile[8320]").replace(FILL, f"  {second}\n  mov.b32 %r13, %r20;\n")
    for old, new in TWICE:
        assert old in text, old
        text = text.replace(old, new, 1)
    report = judge(text, engine)
    assert (report.verdict == "failed") == found, report
    assert errors(report) <= {"tmem-unallocated", "tmem-bounds", "tmem-double-free", "tmem-columns"}


@ENGINES
def test_ctas_of_a_cluster_have_columns_of_their_own(engine: Engine):
    """The address of the CTA of rank 0 is no address of the other one."""
    meets = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"
    permit = "\n  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nALLOCATED:"
    own = kernel().replace("\nALLOCATED:", permit).replace(STORES, "\n" + meets + STORES)
    own = own.replace("  st.global.b32 [%rd5", "  @%p7 st.global.b32 [%rd5")
    rank = "  mov.u32 %r16, %cluster_ctarank; setp.eq.u32 %p7, %r16, 0;\n"
    far = "  mapa.shared::cluster.u32 %r17, %r2, 0;\n  ld.shared::cluster.b32 %r11, [%r17];\n"
    assert judge(own.replace(GETS, rank + meets + GETS), engine, 2).verdict == "verified"
    found = errors(judge(own.replace(GETS, rank + meets + far), engine, 2))
    assert found == {"tmem-unallocated", "tmem-double-free"}
