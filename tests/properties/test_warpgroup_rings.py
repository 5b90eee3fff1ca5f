"""Random rings whose stages a warpgroup multiplies and gives back: verified where each is given back behind a wait that
covers it, by whichever thread; on both engines (W14)."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest

import wsemu

BYTES = 2048
"""of a stage: 64 rows of 16 halves"""


class Ring(NamedTuple):
    """What a ring does."""

    stages: int
    steps: int
    left: int
    """groups that a wait leaves under way"""
    late: int
    """steps behind its own at which a stage is given back"""
    before: bool
    """it is given back before the wait of that step"""
    giver: int
    """the warp that does so for all four; -1: each does"""

    @staticmethod
    def drawn(generator: random.Random) -> Ring:
        stages = generator.choice((2, 3))
        return Ring(
            stages, stages + 2, generator.randrange(2), generator.randrange(stages), generator.random() < 0.3,
            generator.randrange(-1, 4),
        )  # fmt: skip

    @property
    def right(self) -> bool:
        """Whether each stage that is filled again was waited for before it was given back: step after step alike."""
        return self.late >= self.left + self.before

    def text(self) -> str:
        count = 4 if self.giver < 0 else 1
        lines = []
        for s in range(self.stages):
            lines += [f"@%first mbarrier.init.shared.b64 [full+{8 * s}], 1;"]
            lines += [f"@%first mbarrier.init.shared.b64 [empty+{8 * s}], {count};"]
        lines += ["bar.sync 0;", "@%fills bra FILL;"]
        for k in range(self.steps):
            s, given = k % self.stages, k - self.late
            give = [f"@%gives mbarrier.arrive.shared.b64 _, [empty+{given % self.stages * 8}];"] if given >= 0 else []
            lines += [f"WAIT{k}: mbarrier.try_wait.parity.shared.b64 %p, [full+{8 * s}], {k // self.stages & 1};"]
            lines += [f"@!%p bra WAIT{k};", "wgmma.fence.sync.aligned;", f"add.u64 %at, %d, {s * BYTES // 16};"]
            lines += ["wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %at, %at, 1, 1, 1, 0, 0;"]
            lines += ["wgmma.commit_group.sync.aligned;", *(give if self.before else [])]
            lines += [f"wgmma.wait_group.sync.aligned {self.left};", *(give if not self.before else [])]
        lines += ["wgmma.wait_group.sync.aligned 0;", "ret;", "FILL: @!%one bra END;"]
        for k in range(self.steps):
            s = k % self.stages
            if k >= self.stages:
                parity = k // self.stages + 1 & 1
                lines += [f"FREE{k}: mbarrier.try_wait.parity.shared.b64 %p, [empty+{8 * s}], {parity};"]
                lines += [f"@!%p bra FREE{k};"]
            lines += [f"mbarrier.arrive.expect_tx.shared.b64 _, [full+{8 * s}], {BYTES};"]
            copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            lines += [f"{copy} [tile+{s * BYTES}], [%x], {BYTES}, [full+{8 * s}];"]
        who = "setp.eq.u32 %gives, %lane, 0;" if self.giver < 0 else f"setp.eq.u32 %gives, %t, {32 * self.giver};"
        return f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 x)
{{
.shared .align 128 .b8 tile[{self.stages * BYTES}];
.shared .b64 full[{self.stages}], empty[{self.stages}];
.reg .pred %p, %first, %fills, %one, %gives; .reg .b32 %t, %lane, %s; .reg .b64 %x, %d, %at; .reg .f32 %f<4>;
ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; {who}
setp.eq.u32 %first, %t, 0; setp.ge.u32 %fills, %t, 128; setp.eq.u32 %one, %t, 128;
mov.u32 %s, tile; cvt.u64.u32 %d, %s; shr.u64 %d, %d, 4; or.b64 %d, %d, 0x1000080000;
mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;
{chr(10).join(lines)}
END: ret;
}}"""


@pytest.mark.parametrize("seed", range(12))
def test_a_stage_may_be_given_back_behind_a_wait_that_covers_it(seed: int) -> None:
    ring = Ring.drawn(random.Random(seed))
    kernel = wsemu.load_ptx(ring.text())["ring"]
    x = np.zeros(BYTES, np.uint8)
    reports = [wsemu.check(kernel, 1, 160, (x,), engine=engine) for engine in ("vm", "reference")]
    one, other = (report.model_dump(exclude={"seconds"}) for report in reports)
    assert one == other
    assert reports[0].verdict == ("verified" if ring.right else "failed"), (ring, reports[0])
    assert ring.right or "race" in {finding.code for finding in reports[0].findings}
