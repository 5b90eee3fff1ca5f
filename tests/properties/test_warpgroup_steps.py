"""Random steps of `wgmma` that some warps leave out, and operands that differ between warps or lanes.

Both engines say the same, and find a divergence exactly where the warps of a warpgroup, or the lanes of a warp, differ.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest

import wsemu

PRODUCT = "product"
STEPS = {
    "fence": "wgmma.fence.sync.aligned;",
    "commit": "wgmma.commit_group.sync.aligned;",
    "wait": "wgmma.wait_group.sync.aligned 0;",
    PRODUCT: "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %at, %d, %uses, 1, 1, 0, 0;",
}


class Step(NamedTuple):
    """An operation of `wgmma`."""

    kind: str
    warps: int
    """the warps that execute it, as bits"""
    moved: int
    """the threads, as bits, for which the first descriptor of a product is another one"""
    uses: int
    """the threads, as bits, for which a product adds to its accumulators"""

    def of(self, warp: int) -> tuple[int, ...]:
        """What the lanes of a warp do: in products, their operands; they agree if it has at most one element."""
        lanes = [(self.moved >> 32 * warp + n & 1) << 1 | self.uses >> 32 * warp + n & 1 for n in range(32)]
        return tuple(sorted(set(lanes))) if self.kind == PRODUCT else ()


class Steps(NamedTuple):
    """What the warps of a CTA do, one or two warpgroups."""

    groups: int
    steps: tuple[Step, ...]

    @staticmethod
    def draw(source: random.Random) -> Steps:
        groups = source.choice((1, 1, 2))
        everyone, threads = (1 << 4 * groups) - 1, (1 << 128 * groups) - 1

        def some(most: int, unit: int) -> int:
            """Draw a part of the CTA, mostly all or nothing of it, or whole warpgroups."""
            group = (1 << 4 * unit) - 1 << 4 * unit * source.randrange(groups)
            one = 1 << source.randrange(most.bit_length())
            return source.choice((most,) * 12 + (0, group, most ^ group, most ^ one, one))

        kinds = ["fence", PRODUCT, "commit", "wait"] * source.choice((1, 2))
        if source.random() < 0.3:
            kinds.insert(source.randrange(len(kinds)), source.choice((*STEPS,)))
        return Steps(
            groups, tuple(Step(kind, some(everyone, 1), some(threads, 32), some(threads, 32)) for kind in kinds)
        )

    @property
    def diverges(self) -> bool:
        """Whether the warps of a warpgroup, or the lanes of a warp, differ."""
        done = [
            [(k, step.of(w)) for k, step in enumerate(self.steps) if step.warps >> w & 1]
            for w in range(4 * self.groups)
        ]
        alike = all(len(what) < 2 for warp in done for _, what in warp)
        return not alike or any(done[w] != done[w - w % 4] for w in range(len(done)))

    def text(self) -> str:
        """Return the kernel."""
        lines = []
        for k, step in enumerate(self.steps):
            lines += [f"shr.u32 %r, {step.warps}, %w; and.b32 %r, %r, 1; setp.eq.u32 %p, %r, 0; @%p bra NEXT{k};"]
            if step.kind == PRODUCT:
                for name, bits in (("at", step.moved), ("uses", step.uses)):
                    words = [bits >> 32 * n & 0xFFFFFFFF for n in range(4 * self.groups)]
                    lines += ["mov.u32 %r, 0;"]
                    lines += [f"setp.eq.u32 %p, %w, {n}; selp.b32 %r, {word}, %r, %p;" for n, word in enumerate(words)]
                    lines += ["shr.u32 %r, %r, %lane; and.b32 %r, %r, 1;"]
                    lines += [
                        "cvt.u64.u32 %at, %r; shl.b64 %at, %at, 3; add.u64 %at, %at, %d;"
                        if name == "at" else "setp.ne.u32 %uses, %r, 0;"
                    ]  # fmt: skip
            lines += [STEPS[step.kind], f"NEXT{k}:"]
        return f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{{
.shared .align 1024 .b8 tile[4096];
.reg .pred %p, %uses; .reg .b32 %t, %w, %lane, %s, %r; .reg .b64 %d, %at; .reg .f32 %f<4>;
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; and.b32 %lane, %t, 31;
mov.u32 %s, tile; cvt.u64.u32 %d, %s; shr.u64 %d, %d, 4; or.b64 %d, %d, 0x1000080000;
mad.lo.u32 %s, %t, {32 // self.groups}, %s; mov.u32 %r, 0;
FILL: st.shared.u32 [%s], 0; add.u32 %s, %s, 4; add.u32 %r, %r, 4;
setp.lt.u32 %p, %r, {32 // self.groups}; @%p bra FILL;
fence.proxy.async; bar.sync 0;
mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;
{chr(10).join(lines)}
ret;
}}"""


@pytest.mark.parametrize("seed", range(100, 160))
def test_warps_of_a_warpgroup_differ_where_a_divergence_is_found(seed: int) -> None:
    program = Steps.draw(random.Random(seed))
    kernel = wsemu.load_ptx(program.text())["k"]
    reports = [
        wsemu.check(kernel, 1, 128 * program.groups, (np.zeros(4, np.uint32),), engine=engine)
        for engine in ("vm", "reference")
    ]
    one, other = (report.model_dump(exclude={"seconds"}) for report in reports)
    assert one == other
    found = "wgmma-divergence" in {finding.code for finding in reports[0].findings}
    assert found == program.diverges, (program, reports[0])
