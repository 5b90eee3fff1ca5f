"""Instructions whose modifiers or operands do not agree with each other are rejected, as ptxas 13 rejects them."""

from __future__ import annotations

import pytest

import wsemu
from tests.unit.test_ptx_refused import run, text

REJECTED = {
    "add.u32 %r4, %rd4, 1;": "`%rd4` has type .b64, which does not agree with .u32 of `add.u32`",
    "add.u32 %r4, %f1, 1;": "`%f1` has type .f32, which does not agree with .u32 of `add.u32`",
    "add.f32 %f1, %f2, 1;": "an integer literal does not agree with .f32 of `add.f32`",
    "add.u32 %r4, %r5, 1.5;": "a floating-point literal does not agree with .u32",
    "add.u32 %r4, %tid.x, 1;": "`%tid.x` does not go into `add.u32`",
    "add.u64 %rd4, tile, 4;": "`tile` does not go into `add.u64`",
    "add.f16 %h1, %h2, 0x3C00;": "an integer literal does not agree with .f16",
    "mov.u32 %f1, %r4;": "`%f1` has type .f32, which does not agree with .u32 of `mov.u32`",
    "mov.f32 %f1, 1;": "an integer literal does not agree with .f32",
    "mov.u32 _, %r4;": "`mov.u32` does not discard its result",
    "shl.b64 %rd4, %rd5, %rd4;": "`%rd4` has type .b64, which does not agree with .u32",
    "mul.wide.u32 %r4, %r5, %r6;": "`%r4` has type .b32, which does not agree with .u64",
    "ld.global.u32 %h1, [%rd1];": "`%h1` has type .b16, which does not agree with .u32 of `ld.global.u32`",
    "ld.shared.f32 %r4, [%f1];": "`%f1` has type .f32, which holds no address",
    "ld.global.v2.u32 {%rd4, %r5}, [%rd1];": "`%r5` has 32 bits, and an element before it has 64",
    "st.global.u32 [%rd1], %f1;": "`%f1` has type .f32, which does not agree with .u32",
    "st.global.f32 [%rd1], 1;": "an integer literal does not agree with .f32",
    "st.shared.u32 [1.5], %r4;": "`st.shared.u32` takes an integer or a register as address",
    "atom.global.add.u32 %r4, [%rd1], %h1;": "`%h1` has type .b16, which does not agree with .u32",
    "ld.global.f16x2 %r4, [%rd1];": "`ld.global.f16x2` has no type .f16x2",
    "ld.global.global.u32 %r4, [%rd1];": "`ld.global.global.u32` has .global twice",
    "ld.shared.global.u32 %r4, [%rd1];": "has a state space twice: .shared and .global",
    "ld.cta.global.u32 %r4, [%rd1];": "has a scope without `.relaxed`, `.acquire` or `.release`",
    "ld.shared.L1::no_allocate.u32 %r4, [%r3];": "has no .L1::no_allocate in .shared memory",
    "st.const.u32 [%rd1], %r4;": "`st.const.u32` has no state space .const",
    "atom.local.add.u32 %r4, [%rd1], 1;": "`atom.local.add.u32` has no state space .local",
    "atom.global.add.L2::cache_hint.u32 %r4, [%rd1], %r5, %r6;": "`%r6` has type .b32, which does not agree with .u64",
    "red.global.add.min.u32 [%rd1], %r4;": "has an operation twice: .add and .min",
    "redux.add.s32 %r4, %r5, -1;": "`redux.add.s32` requires `.sync`",
    "exit.cg;": "`exit.cg` has no modifier .cg",
    "nanosleep.u64 %r4;": "`nanosleep.u64` has no modifier .u64",
    "mbarrier.test_wait.shared.b64 %p2, [%r3], %h1;": "`%h1` has type .b16, which does not agree with .u64",
}
ACCEPTED = """
mov.b32 %f1, %r4;
mov.b32 %r4, 0f3F800000;
add.f32 %f1, %f2, 0d3FF0000000000000;
cvt.u64.u32 %rd4, %tid.x;
cvt.rn.f16.f32 %r4, %f1;
ld.global.u16 %r4, [%rd1];
st.global.u8 [%rd1], %rd1;
st.global.b32 [%rd1], %f1;
and.b32 %r4, %f1, 0f3F800000;
atom.global.add.u32 _, [%rd1], 1;
ld.global.v2.u32 {%r4, _}, [%rd1];
mul.wide.u16 %r4, %h1, 70000;
ld.volatile.local.u32 %r4, [%rd1];
atom.relaxed.gpu.global.add.L2::cache_hint.u32 %r4, [%rd1], %r5, %rd4;
atom.relaxed.gpu.global.cas.L2::cache_hint.b32 %r4, [%rd1], %r5, 7, %rd4;
activemask.b32 %f1;
{ .reg .f16x2 %hh; add.u32 %r4, %hh, 1; mov.u32 %hh, %r4; }
""".strip().splitlines()


@pytest.mark.parametrize("instruction", REJECTED)
def test_an_instruction_that_does_not_agree_with_its_operands_is_rejected(instruction: str) -> None:
    source = text(instruction)
    line = source.splitlines().index(instruction) + 1
    with pytest.raises(wsemu.KernelError) as caught:
        run(source)
    assert REJECTED[instruction] in str(caught.value)
    assert f":{line}:" in str(caught.value)


@pytest.mark.parametrize("instruction", ACCEPTED)
def test_an_instruction_that_agrees_with_its_operands_is_accepted(instruction: str) -> None:
    assert run(text(instruction), reach=0).verdict == "verified"
