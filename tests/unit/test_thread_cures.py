"""Verified fixes in PTX of which threads arrive, store or wait: lanes, warps, and all copies of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.test_order_cures import COPIES, HEAD, TURNS
from tests.unit.test_ring_cures import ARRIVE, RING, checked

if TYPE_CHECKING:
    from pathlib import Path

PLENTY = 60.0
"""CPU seconds: the number of edits ends a search, on any machine"""
LANES = (
    HEAD
    + """\
.visible .entry lanes(.param .u64 y)
{
	.reg .pred %p<6>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.shared .align 8 .b64 ready[1];
	.shared .align 4 .b8 buffer[256];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, ready;
	mov.u32 %r3, buffer;
	shl.b32 %r4, %r1, 2;
	add.u32 %r3, %r3, %r4;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $begun;
	mbarrier.init.shared::cta.b64 [%r2], 2;
$begun:
	bar.sync 0;
	st.shared.u32 [%r3], %r1;
	bar.warp.sync -1;
	and.b32 %r5, %r1, 31;
	setp.ne.u32 %p2, %r5, 0;
	@%p2 bra $wait;
	mbarrier.arrive.shared::cta.b64 _, [%r2];
$wait:
	mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;
	@!%p3 bra $wait;
	mov.u32 %r6, buffer;
	sub.u32 %r6, %r6, %r4;
	ld.shared.u32 %r7, [%r6+252];
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r7;
	ret;
}
"""
)


def halve(step: int, half: int, label: str) -> str:
    """Return a step of a tree: the first threads add what as many threads above them have."""
    own, other = f"%r{2 * step + 2}", f"%r{2 * step + 3}"
    return f"""\
	.loc 1 3 1
	setp.ge.u32 %p{step}, %r1, {half};
	@%p{step} bra ${label};
	ld.shared.u32 {own}, [%r2+{4 * half}];
	ld.shared.u32 {other}, [%r2];
	add.u32 {own}, {own}, {other};
	st.shared.u32 [%r2], {own};
${label}:
	.loc 1 4 1
	bar.sync 0;
"""


TREE = (
    HEAD
    + """\
.visible .entry tree(.param .u64 y)
{
	.reg .pred %p<6>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 part[512];
	.loc 1 1 1
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, part;
	shl.b32 %r3, %r1, 2;
	add.u32 %r2, %r2, %r3;
	st.shared.u32 [%r2], %r1;
	.loc 1 2 1
	bar.sync 0;
"""
    + halve(1, 64, "one")
    + halve(2, 32, "two")
    + halve(3, 16, "three")
    + """\
	.loc 1 5 1
	ld.shared.u32 %r10, [part];
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r10;
	ret;
}
	.file	1 "tree.cu"
"""
)
ONE = (
    HEAD
    + """\
.visible .entry one(.param .u64 y)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 flag[4];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $stored;
	add.u32 %r3, %r1, 7;
	st.shared.u32 [flag], %r3;
$stored:
	bar.sync 0;
	ld.shared.u32 %r2, [flag];
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r2;
	ret;
}
"""
)
MASKS = (
    HEAD
    + """\
.visible .entry masks(.param .u64 y)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mov.u32 %r3, -1;
	shfl.sync.bfly.b32 %r2|%p1, %r1, 8, 31, %r3;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r2;
	ret;
}
"""
)
SOME = (
    HEAD
    + """\
.visible .entry some(.param .u64 y)
{
	.reg .pred %p<3>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 buffer[256];
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd1, %rd1, %rd2;
	setp.ge.u32 %p1, %r1, 64;
	@%p1 bra $last;
	shl.b32 %r2, %r1, 2;
	mov.u32 %r3, buffer;
	add.u32 %r4, %r3, %r2;
	st.shared.u32 [%r4], %r1;
	bar.sync 2, 64;
	sub.u32 %r5, %r3, %r2;
	ld.shared.u32 %r6, [%r5+252];
	st.global.u32 [%rd1], %r6;
	bar.arrive 1, 96;
	ret;
$last:
	bar.sync 1, 96;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""
)
COPIED = COPIES.replace(
    """\
	cp.async.wait_group 0;
	ld.shared.u32 %r4, [%r3];
	ld.shared.u32 %r5, [%r3+128];
	add.u32 %r4, %r4, %r5;
""",
    """\
	cp.async.wait_group 1;
	ld.shared.u32 %r4, [%r3];
	cp.async.wait_group 0;
""",
)
MISTAKES: dict[str, tuple[str, str, str, str, int]] = {
    "arrive by thread 0": (LANES, "setp.ne.u32 %p2, %r5, 0", "setp.ne.u32 %p2, %r1, 0", "one lane of each warp", 64),
    "barriers of a tree": (
        TREE, "$one:\n\t.loc 1 4 1\n\tbar.sync 0;\n", "$one:\n", "insert `__syncthreads()`", 128,
    ),
    "store by all threads": (ONE, "\t@%p1 bra $stored;\n", "", "`if (threadIdx.x == 0)` around", 32),
    "mask": (MASKS, "mov.u32 %r3, -1", "mov.u32 %r3, 65535", "the mask `0xffffffff` in place of `0x0000ffff`", 32),
    "barrier of the CTA": (SOME, "bar.sync 2, 64;", "bar.sync 0;", "in place of `__syncthreads()`", 96),
    "sync on the barriers of the other side": (
        TURNS, "add.u32 %r10, %r5, 1;", "add.u32 %r10, %r5, 3;", "use the barriers from 1 on", 64,
    ),
    "arrive before the read": (
        TURNS.replace("\tld.shared.u32 %r8, [%r6];\n", "\tld.shared.u32 %r8, [%r6];\n\t// read\n"),
        ("\tld.shared.u32 %r8, [%r6];\n\t// read\n\tst.global.u32 [%rd1], %r8;\n\tsetp.ge.u32 %p4, %r2, 2;\n"
        "\t@%p4 bra $kept;\n\tadd.u32 %r11, %r5, 3;\n\tbar.arrive %r11, 64;\n$kept:\n"),
        ("\tsetp.ge.u32 %p4, %r2, 2;\n\t@%p4 bra $kept;\n\tadd.u32 %r11, %r5, 3;\n\tbar.arrive %r11, 64;\n$kept:\n"
        "\tld.shared.u32 %r8, [%r6];\n\tst.global.u32 [%rd1], %r8;\n"),
        "move `bar.arrive`", 64,
    ),
}  # fmt: skip
"""name -> the kernel, its text, the text in its place, a part of the fix, and the threads"""


def check_text(text: str, tmp_path: Path, name: str, threads: int, *inputs: Any) -> tuple[wsemu.Report, Any]:
    """Check a launch of the kernel of a text; return its report and its output."""
    path = tmp_path / f"{name}.ptx"
    path.write_text(text, encoding="utf-8")
    y = np.zeros(128, np.uint32)
    (kernel,) = wsemu.load_ptx(path).values()
    return wsemu.check(kernel, 1, threads, (*inputs, y), budget=100_000), y


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_threads_has_a_verified_fix(mistake, tmp_path):
    right, old, new, words, threads = MISTAKES[mistake]
    assert old in right
    good, expected = check_text(right, tmp_path, "right", threads)
    assert good.verdict == "verified"
    broken = right.replace(old, new)
    report, _ = check_text(broken, tmp_path, "broken", threads)
    assert report.errors
    cure = report.cures(budget=PLENTY)[0]
    assert words in cure.says
    again, y = check_text(cure.patch_ptx(broken), tmp_path, "fixed", threads)
    assert again.verdict == "verified"
    assert np.array_equal(y, expected)


def test_a_fix_reads_what_is_copied_first(tmp_path):
    """A wait for later copies alone makes the read of the wrong stage race-free: the first tile is then never read."""
    x = np.arange(64, dtype=np.uint32)
    assert COPIED != COPIES
    good, _ = check_text(COPIED, tmp_path, "right", 32, x)
    assert good.verdict == "verified"
    broken = COPIED.replace("ld.shared.u32 %r4, [%r3];", "ld.shared.u32 %r4, [%r3+128];")
    report, _ = check_text(broken, tmp_path, "broken", 32, x)
    assert report.errors
    assert not report.cures(budget=PLENTY)


def test_an_arrive_is_in_the_last_round_of_a_loop_with_two_branches(tmp_path):
    """A producer that waits until all stages are free needs the arrive of the last round, too."""
    tail = "\tbra $end;\n$consume:"
    waits = """\
	add.u32 %r13, %r1, 2;
$tail:
	and.b32 %r4, %r3, 1;
	shl.b32 %r5, %r4, 3;
	shr.u32 %r6, %r3, 1;
	and.b32 %r6, %r6, 1;
	xor.b32 %r7, %r6, 1;
	mov.u32 %r9, empty;
	add.u32 %r9, %r9, %r5;
$wait_tail:
	mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r9], %r7;
	@!%p5 bra $wait_tail;
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p4, %r3, %r13;
	@%p4 bra $tail;
"""
    loop = "\tsetp.lt.u32 %p7, %r3, %r1;\n\t@%p7 bra $tile;\n"
    branches = "\tsetp.ge.u32 %p7, %r3, %r1;\n\t@%p7 bra $end;\n\tbra.uni $tile;\n"
    assert (RING.count(tail), RING.count(loop)) == (1, 1)
    right = RING.replace(tail, waits + tail).replace(loop, branches)
    assert (checked(right, tmp_path, "right")[0].verdict, right.count(ARRIVE)) == ("verified", 1)
    broken = right.replace(ARRIVE, "")
    report, _ = checked(broken, tmp_path, "broken")
    cure = report.cures(budget=PLENTY)[0]
    assert "insert an arrive on `empty`" in cure.says
    again, is_right = checked(cure.patch_ptx(broken), tmp_path, "fixed")
    assert (again.verdict, is_right) == ("verified", True)
