"""Verified fixes of fences, named barriers, groups of copies and cluster barriers in PTX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLENTY = 60.0
"""seconds of processor time for a search, so large that the number of edits ends the search on every machine"""
HEAD = """\
.version 8.0
.target sm_90
.address_size 64
"""
FLAG = (
    HEAD
    + """\
.visible .entry flag(.param .u64 data, .param .u64 ready, .param .u64 out)
{
	.reg .pred %p<4>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [data];
	ld.param.u64 %rd2, [ready];
	ld.param.u64 %rd3, [out];
	mov.u32 %r1, %ctaid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $read;
	st.global.u32 [%rd1], 7;
	fence.acq_rel.gpu;
	atom.global.exch.b32 %r2, [%rd2], 1;
	ret;
$read:
	atom.global.add.u32 %r3, [%rd2], 0;
	setp.eq.u32 %p2, %r3, 0;
	@%p2 bra $read;
	fence.acq_rel.gpu;
	ld.global.u32 %r4, [%rd1];
	st.global.u32 [%rd3], %r4;
	ret;
}
"""
)
NAMED = (
    HEAD
    + """\
.visible .entry named(.param .u64 y)
{
	.reg .pred %p<3>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 buffer[128];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 1;
	mov.u32 %r3, 64;
	and.b32 %r4, %r1, 31;
	shl.b32 %r4, %r4, 2;
	mov.u32 %r5, buffer;
	add.u32 %r5, %r5, %r4;
	setp.ge.u32 %p1, %r1, 32;
	@%p1 bra $consume;
	st.shared.u32 [%r5], %r1;
	bar.arrive %r2, %r3;
	ret;
$consume:
	bar.sync %r2, 64;
	ld.shared.u32 %r6, [%r5];
	cvt.u64.u32 %rd2, %r4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r6;
	ret;
}
"""
)
COPIES = (
    HEAD
    + """\
.visible .entry copies(.param .u64 x, .param .u64 y)
{
	.reg .b32 %r<8>;
	.reg .b64 %rd<6>;
	.shared .align 16 .b8 buffer[256];
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 2;
	cvt.u64.u32 %rd3, %r2;
	add.u64 %rd1, %rd1, %rd3;
	add.u64 %rd2, %rd2, %rd3;
	mov.u32 %r3, buffer;
	add.u32 %r3, %r3, %r2;
	cp.async.ca.shared.global [%r3], [%rd1], 4;
	cp.async.commit_group;
	cp.async.ca.shared.global [%r3+128], [%rd1+128], 4;
	cp.async.commit_group;
	cp.async.wait_group 0;
	ld.shared.u32 %r4, [%r3];
	ld.shared.u32 %r5, [%r3+128];
	add.u32 %r4, %r4, %r5;
	st.global.u32 [%rd2], %r4;
	ret;
}
"""
)
MAIL = (
    HEAD
    + """\
.visible .entry mail(.param .u64 y) .explicitcluster .reqnctapercluster 2, 1, 1
{
	.reg .pred %p<3>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 box[4];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %cluster_ctarank;
	xor.b32 %r2, %r1, 1;
	mov.u32 %r3, box;
	st.shared.u32 [%r3], 5;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	mapa.shared::cluster.u32 %r4, %r3, %r2;
	st.shared::cluster.u32 [%r4], %r1;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	ld.shared.u32 %r5, [%r3];
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r5;
	ret;
}
"""
)
ARMS = (
    HEAD
    + """\
.visible .entry arms(.param .u64 y)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 flag[4];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $others;
	st.shared.u32 [flag], 7;
	barrier.sync 0;
	st.global.u32 [%rd1], 7;
	bra $end;
$others:
	barrier.sync 0;
	ld.shared.u32 %r2, [flag];
	st.global.u32 [%rd1], %r2;
$end:
	bar.sync 1;
	ret;
}
"""
)
TURNS = (
    HEAD
    + """\
.visible .entry turns(.param .u64 y)
{
	.reg .pred %p<6>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 buffer[256];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 0;
	and.b32 %r3, %r1, 31;
	shl.b32 %r3, %r3, 2;
	mov.u32 %r4, buffer;
	add.u32 %r4, %r4, %r3;
	setp.lt.u32 %p1, %r1, 32;
	@%p1 bra $consume;
$produce:
	and.b32 %r5, %r2, 1;
	shl.b32 %r6, %r5, 7;
	add.u32 %r6, %r6, %r4;
	setp.lt.u32 %p2, %r2, 2;
	@%p2 bra $free;
	add.u32 %r7, %r5, 3;
	bar.sync %r7, 64;
$free:
	st.shared.u32 [%r6], %r2;
	add.u32 %r9, %r5, 1;
	bar.arrive %r9, 64;
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p3, %r2, 4;
	@%p3 bra $produce;
	ret;
$consume:
	cvt.u64.u32 %rd2, %r3;
	add.u64 %rd1, %rd1, %rd2;
$tile:
	and.b32 %r5, %r2, 1;
	shl.b32 %r6, %r5, 7;
	add.u32 %r6, %r6, %r4;
	add.u32 %r10, %r5, 1;
	bar.sync %r10, 64;
	ld.shared.u32 %r8, [%r6];
	st.global.u32 [%rd1], %r8;
	setp.ge.u32 %p4, %r2, 2;
	@%p4 bra $kept;
	add.u32 %r11, %r5, 3;
	bar.arrive %r11, 64;
$kept:
	add.u64 %rd1, %rd1, 128;
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p5, %r2, 4;
	@%p5 bra $tile;
	ret;
}
"""
)
TALLY = (
    HEAD
    + """\
.visible .entry tally(.param .u64 y)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	.loc 1 1 1
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	.loc 1 2 1
	red.global.add.u32 [%rd1], %r1;
	.loc 1 3 1
	ret;
}
	.file	1 "tally.cu"
"""
)
FIRST = (
    HEAD
    + """\
.visible .entry first(.param .u64 y)
{
	.reg .pred %p<4>;
	.reg .b32 %r<10>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 total[4];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	shr.u32 %r2, %r1, 5;
	and.b32 %r3, %r1, 31;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $begun;
	st.shared.u32 [total], 0;
$begun:
	bar.sync 0;
	setp.eq.u32 %p2, %r2, 0;
	@%p2 bra $turn;
	bar.arrive 1, 64;
$turn:
	add.u32 %r4, %r2, 1;
	bar.sync %r4, 64;
	setp.ne.u32 %p3, %r3, 0;
	@%p3 bra $passed;
	ld.shared.u32 %r5, [total];
	add.u32 %r5, %r5, 5;
	st.shared.u32 [total], %r5;
	mul.wide.u32 %rd2, %r2, 4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r5;
$passed:
	setp.ne.u32 %p2, %r2, 0;
	@%p2 bra $end;
	bar.arrive 2, 64;
$end:
	ret;
}
"""
)
PARTS = (
    HEAD
    + """\
.visible .entry parts(.param .u64 data, .param .u64 ready, .param .u64 out)
{
	.reg .pred %p<4>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<8>;
	.loc 1 1 1
	ld.param.u64 %rd1, [data];
	ld.param.u64 %rd2, [ready];
	ld.param.u64 %rd3, [out];
	mov.u32 %r5, %tid.x;
	mul.wide.u32 %rd4, %r5, 4;
	add.u64 %rd5, %rd1, %rd4;
	mov.u32 %r1, %ctaid.x;
	setp.ne.u32 %p1, %r1, 0;
	setp.ne.u32 %p3, %r5, 0;
	@%p1 bra $read;
	.loc 1 2 1
	st.global.u32 [%rd5], 7;
	.loc 1 3 1
	bar.sync 0;
	.loc 1 4 1
	@%p3 bra $end;
	.loc 1 5 1
	fence.acq_rel.gpu;
	.loc 1 6 1
	atom.global.exch.b32 %r2, [%rd2], 1;
	bra $end;
$read:
	.loc 1 7 1
	atom.global.add.u32 %r3, [%rd2], 0;
	setp.eq.u32 %p2, %r3, 0;
	@%p2 bra $read;
	.loc 1 8 1
	fence.acq_rel.gpu;
	.loc 1 9 1
	ld.global.u32 %r4, [%rd5];
	add.u64 %rd6, %rd3, %rd4;
	.loc 1 10 1
	st.global.u32 [%rd6], %r4;
$end:
	.loc 1 11 1
	ret;
}
	.file	1 "parts.cu"
"""
)
CIRCLE = (
    HEAD
    + """\
.visible .entry circle(.param .u64 y) .explicitcluster .reqnctapercluster 3, 1, 1
{
	.reg .pred %p<3>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 box[4];
	.shared .align 8 .b8 came[8];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %cluster_ctarank;
	add.u32 %r2, %r1, 1;
	rem.u32 %r2, %r2, 3;
	mov.u32 %r3, box;
	mov.u32 %r4, came;
	mbarrier.init.shared::cta.b64 [%r4], 1;
	fence.mbarrier_init.release.cluster;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	mapa.shared::cluster.u32 %r5, %r3, %r2;
	st.shared::cluster.u32 [%r5], %r1;
	mapa.shared::cluster.u32 %r6, %r4, %r2;
	mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
$again:
	mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r4], 0;
	@!%p1 bra $again;
	ld.shared.u32 %r7, [%r3];
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r7;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	ret;
}
"""
)
FENCE, SYNC = "\tfence.acq_rel.gpu;\n", "\tbarrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;\n"
CASES: dict[str, tuple[str, str, int, int, Callable[[], tuple[Any, ...]], list[int]]] = {
    "flag": (FLAG, "flag", 2, 1, lambda: (_zeros(1), _zeros(1), _zeros(1)), [7]),
    "named": (NAMED, "named", 1, 64, lambda: (_zeros(32),), [*range(32)]),
    "copies": (COPIES, "copies", 1, 32, lambda: (np.arange(64, dtype=np.int32), _zeros(32)), [*range(32, 96, 2)]),
    "arms": (ARMS, "arms", 1, 64, lambda: (_zeros(64),), [7] * 64),
    "turns": (TURNS, "turns", 1, 64, lambda: (_zeros(128),), [n // 32 for n in range(128)]),
    "tally": (TALLY, "tally", 1, 64, lambda: (_zeros(1),), [sum(range(64))]),
    "first": (FIRST, "first", 1, 64, lambda: (_zeros(2),), [5, 10]),
    "parts": (PARTS, "parts", 2, 64, lambda: (_zeros(64), _zeros(1), _zeros(64)), [7] * 64),
    "circle": (CIRCLE, "circle", 3, 1, lambda: (_zeros(3),), [2, 0, 1]),
    "mail": (MAIL, "mail", 2, 1, lambda: (_zeros(2),), [1, 0]),
}
"""text, entry, CTAs, threads of a CTA, arguments, and the contents of the last array afterwards"""
MISTAKES = {
    "no fence before the flag": ("flag", FENCE + "\tatom", "\tatom", "insert `__threadfence()` before line 16"),
    "no fence after the flag": ("flag", FENCE + "\tld", "\tld", "insert `__threadfence()` after line 20"),
    "neither fence": ("flag", FENCE, "", "insert `__threadfence()` before line 16 and after line 19"),
    "count of a named barrier": (
        "named",
        "mov.u32 %r3, 64",
        "mov.u32 %r3, 96",
        "write `bar.arrive 1, 64` in place of `bar.arrive 1, 96`",
    ),
    "one group in flight": ("copies", "wait_group 0", "wait_group 1", "write `cp.async.wait_group 0`"),
    "no wait for copies": ("copies", "\tcp.async.wait_group 0;\n", "", "insert `cp.async.wait_all`"),
    "no wait of the cluster": (
        "mail",
        SYNC + "\tld",
        SYNC.splitlines()[0] + "\n\tld",
        "insert `cluster.barrier_wait()`",
    ),
    "no arrive of the cluster": (
        "mail",
        SYNC + "\tld",
        SYNC.splitlines()[1] + "\n\tld",
        "insert `cluster.barrier_arrive()`",
    ),
    "a plain store to the flag": (
        "flag",
        "atom.global.exch.b32 %r2, [%rd2], 1",
        "st.global.u32 [%rd2], 1",
        "make the store of line 17 atomic",
    ),
    "a plain sum": (
        "tally",
        "red.global.add.u32 [%rd1], %r1;",
        "ld.global.u32 %r2, [%rd1];\n\tadd.s32 %r3, %r2, %r1;\n\tst.global.u32 [%rd1], %r3;",
        "write `atomicAdd` in place of the load and the store",
    ),
    "no barrier in two arms": ("arms", "\tbarrier.sync 0;\n", "", "insert `__syncthreads()` between line 16 and line"),
    "no sync of a ring": (
        "turns",
        "\tbar.sync %r7, 64;\n$free",
        "$free",
        "insert `bar.sync` on barriers 3 to 4 for 64 threads in the loop around line 29",
    ),
    "no arrive of a ring": (
        "turns",
        "\tbar.arrive %r11, 64;\n$kept",
        "$kept",
        "insert `bar.arrive` on barriers 3 to 4 for 64 threads in the loop around line 43",
    ),
    "nobody begins": ("first", "\tbar.arrive 1, 64;\n", "", "insert `bar.arrive 1, 64` before line 23, by warp 1"),
    "no barrier before the fence": ("parts", "\tbar.sync 0;\n", "", "insert `__syncthreads()` after line 2"),
    "an arrive on its own CTA": (
        "circle",
        "%r6, %r4, %r2",
        "%r6, %r4, %r1",
        "arrive on `came` of the next CTA of the cluster in line 24",
    ),
    "no barrier of the cluster": ("mail", SYNC + "\tmapa", "\tmapa", "insert `cluster.sync()` before"),
}
"""name -> case, text to replace, its replacement, and a part of the expected fix"""


def _zeros(size: int) -> Any:
    return np.zeros(size, np.int32)


def checked(case: str, text: str, tmp_path: Path, name: str) -> tuple[wsemu.Report, list[int]]:
    _, entry, ctas, threads, make, _ = CASES[case]
    path, arguments = tmp_path / f"{name}.ptx", make()
    path.write_text(text, encoding="utf-8")
    report = wsemu.check(wsemu.load_ptx(path)[entry], ctas, threads, arguments, budget=20_000)
    return report, arguments[-1].tolist()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_has_a_verified_fix(mistake, tmp_path):
    case, old, new, words = MISTAKES[mistake]
    text = CASES[case][0]
    assert old in text
    broken = text.replace(old, new)
    report, _ = checked(case, broken, tmp_path, "broken")
    assert report.errors
    cure = report.cures(budget=PLENTY)[0]
    assert words in cure.says
    again, results = checked(case, cure.patch_ptx(broken), tmp_path, "fixed")
    assert (again.verdict, results) == ("verified", CASES[case][-1])


@pytest.mark.parametrize("case", CASES)
def test_the_programs_themselves_are_verified(case, tmp_path):
    report, results = checked(case, CASES[case][0], tmp_path, "right")
    assert (report.verdict, results) == ("verified", CASES[case][-1])


SPLIT = (
    HEAD
    + """\
.visible .entry split(.param .u64 y)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	.shared .align 4 .b8 _ZZ5splitE3acc_$_0[4];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	st.shared.u32 [_ZZ5splitE3acc_$_0], %r1;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""
)


def test_a_variable_whose_elements_a_compiler_separates_has_its_name(tmp_path):
    path = tmp_path / "split.ptx"
    path.write_text(SPLIT, encoding="utf-8")
    report = wsemu.check(wsemu.load_ptx(path)["split"], 1, 64, (_zeros(1),))
    assert any("shared `acc[0]`" in finding.message for finding in report.errors)
