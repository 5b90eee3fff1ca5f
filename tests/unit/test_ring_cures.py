"""Verified fixes of a ring of mbarriers in PTX: one mistake at a time, each applied and run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu

if TYPE_CHECKING:
    from pathlib import Path

PLENTY = 60.0
"""CPU seconds: the number of edits ends a search, on any machine"""
RING = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 x, .param .u64 y, .param .u32 tiles)
{
	.reg .pred %p<9>;
	.reg .b32 %r<20>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<6>;
	.shared .align 128 .b8 buffer[256];
	.shared .align 8 .b64 full[2];
	.shared .align 8 .b64 empty[2];
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.u32 %r1, [tiles];
	mov.u32 %r2, %tid.x;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 bra $ready;
	mbarrier.init.shared::cta.b64 [full], 1;
	mbarrier.init.shared::cta.b64 [full+8], 1;
	mbarrier.init.shared::cta.b64 [empty], 32;
	mbarrier.init.shared::cta.b64 [empty+8], 32;
	fence.proxy.async.shared::cta;
$ready:
	bar.sync 0;
	mov.u32 %r3, 0;
	setp.lt.u32 %p2, %r2, 32;
	@%p2 bra $consume;
	setp.ne.u32 %p3, %r2, 32;
	@%p3 bra $end;
$produce:
	and.b32 %r4, %r3, 1;
	shl.b32 %r5, %r4, 3;
	shr.u32 %r6, %r3, 1;
	and.b32 %r6, %r6, 1;
	xor.b32 %r7, %r6, 1;
	mov.u32 %r8, full;
	add.u32 %r8, %r8, %r5;
	mov.u32 %r9, empty;
	add.u32 %r9, %r9, %r5;
$wait_empty:
	mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r9], %r7;
	@!%p5 bra $wait_empty;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 128;
	shl.b32 %r10, %r4, 7;
	mov.u32 %r11, buffer;
	add.u32 %r11, %r11, %r10;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 128, [%r8];
	add.u64 %rd1, %rd1, 128;
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p4, %r3, %r1;
	@%p4 bra $produce;
	bra $end;
$consume:
	cvta.to.global.u64 %rd2, %rd2;
	mul.wide.u32 %rd3, %r2, 4;
	add.u64 %rd2, %rd2, %rd3;
$tile:
	and.b32 %r4, %r3, 1;
	shl.b32 %r5, %r4, 3;
	shr.u32 %r6, %r3, 1;
	and.b32 %r6, %r6, 1;
	mov.u32 %r8, full;
	add.u32 %r8, %r8, %r5;
	mov.u32 %r9, empty;
	add.u32 %r9, %r9, %r5;
$wait_full:
	mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r8], %r6;
	@!%p6 bra $wait_full;
	shl.b32 %r10, %r4, 7;
	mov.u32 %r11, buffer;
	add.u32 %r11, %r11, %r10;
	mad.lo.u32 %r12, %r2, 4, %r11;
	ld.shared.f32 %f1, [%r12];
	mbarrier.arrive.shared::cta.b64 _, [%r9];
	add.f32 %f1, %f1, %f1;
	st.global.f32 [%rd2], %f1;
	add.u64 %rd2, %rd2, 128;
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p7, %r3, %r1;
	@%p7 bra $tile;
$end:
	ret;
}
"""
WAIT_EMPTY = RING[RING.index("$wait_empty:") : RING.index("\tmbarrier.arrive.expect_tx")]
WAIT_FULL = RING[
    RING.index("$wait_full:") : RING.index(
        "\tshl.b32 %r10, %r4, 7;\n\tmov.u32 %r11, buffer;\n\tadd.u32 %r11, %r11, %r10;\n\tmad"
    )
]
LOAD, ARRIVE = "\tld.shared.f32 %f1, [%r12];\n", "\tmbarrier.arrive.shared::cta.b64 _, [%r9];\n"
MISTAKES = {
    "count": (
        "[empty], 32;\n\tmbarrier.init.shared::cta.b64 [empty+8], 32",
        "[empty], 64;\n\tmbarrier.init.shared::cta.b64 [empty+8], 64",
        "the count `32` in place of `64`",
    ),
    "initial parity": ("xor.b32 %r7, %r6, 1;", "mov.u32 %r7, %r6;", "flip the parity of the wait"),
    "phase flip": (
        "shr.u32 %r6, %r3, 1;\n\tand.b32 %r6, %r6, 1;\n\tmov.u32 %r8",
        "mov.u32 %r6, %r3;\n\tand.b32 %r6, %r6, 1;\n\tmov.u32 %r8",
        "flip the parity of the wait",
    ),
    "bytes": ("[%r8], 128;\n\tshl", "[%r8], 256;\n\tshl", "the expected bytes `128` in place of `256`"),
    "wait for empty": (WAIT_EMPTY, "", "insert a wait on `empty`"),
    "wait for full": (WAIT_FULL, "", "insert a wait on `full`"),
    "arrive": (ARRIVE, "", "insert an arrive on `empty`"),
    "arrive on the wrong ring": (ARRIVE, ARRIVE.replace("%r9", "%r8"), "arrive on `empty` in place of `full`"),
    "early release": (LOAD + ARRIVE, ARRIVE + LOAD, "move"),
    "barrier": ("\tbar.sync 0;\n", "", "insert `__syncthreads()`"),
}
"""name -> text of the ring, the text in its place, and a part of the fix"""


def checked(text: str, tmp_path: Path, name: str, tiles: int = 5) -> tuple[wsemu.Report, bool]:
    """Check a launch; return its report, and whether it computes what it should."""
    path = tmp_path / f"{name}.ptx"
    path.write_text(text, encoding="utf-8")
    x = np.arange(32 * tiles, dtype=np.float32)
    y = np.zeros_like(x)
    report = wsemu.check(wsemu.load_ptx(path)["ring"], 1, 64, (x, y, np.uint32(tiles)), budget=100_000)
    return report, bool(np.array_equal(y, 2 * x))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_ring_has_a_verified_fix(mistake, tmp_path):
    old, new, words = MISTAKES[mistake]
    assert RING.count(old) == 1
    broken = RING.replace(old, new)
    report, _ = checked(broken, tmp_path, "broken")
    assert report.errors
    cure = report.cures(budget=PLENTY)[0]
    assert words in cure.says
    again, right = checked(cure.patch_ptx(broken), tmp_path, "fixed")
    assert (again.verdict, right) == ("verified", True)


def test_the_ring_itself_is_verified(tmp_path):
    report, right = checked(RING, tmp_path, "right")
    assert (report.verdict, right) == ("verified", True)
