"""What atomics reach in PTX whose addresses come in structures: memory of which nothing is known."""

from __future__ import annotations

import pytest

from wsemu.frontend.ptx import compile_entry, parse
from wsemu.proof.taint import order_dependent, tainted

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .align 8 .b8 s[32])
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<4>; .shared .align 8 .b8 own[128];
ld.param.u64 %rd1, [s]; ld.param.u64 %rd2, [s+8]; mov.u32 %r1, %tid.x; mov.u64 %rd8, s; add.s64 %rd8, %rd8, 16;
mul.wide.u32 %rd3, %r1, 8; add.u64 %rd4, %rd2, %rd3; mov.u32 %r5, own; cvt.u64.u32 %rd6, %r5;
cvta.shared.u64 %rd6, %rd6;
"""
BRANCH = "setp.eq.u32 %p1, %r4, 0; @%p1 bra END; st.global.u32 [%rd2], 1;\nEND: ret;\n}\n"
ATOMIC = "atom.global.add.u32 %r3, [%rd1], 1;\n"
ESCAPES = "st.global.u64 [%rd4], %rd6; ld.global.u64 %rd7, [%rd4];\n"
SHUFFLED = """{.reg .b32 %lo, %hi; mov.b64 {%lo, %hi}, %rd6; shfl.sync.idx.b32 %lo, %lo, 0, 31, -1;
shfl.sync.idx.b32 %hi, %hi, 0, 31, -1; mov.b64 %rd7, {%lo, %hi};}\n"""


@pytest.mark.parametrize(
    ("body", "steers"),
    [
        (ATOMIC + "ld.param.u32 %r4, [%rd8];", False),  # the bytes of the structure itself
        (ATOMIC + "st.global.u32 [%rd4], %r3; ld.param.u32 %r4, [%rd8];", False),
        (ATOMIC + "st.global.u32 [%rd4], %r3; ld.global.u32 %r4, [%rd4+4];", True),
        (ATOMIC + "ld.global.u32 %r4, [%rd4];", False),  # an integer sum is the same in any order
        (ATOMIC + "st.global.u32 [%rd4], %r3; ld.shared.u32 %r4, [%r5];", False),
        (ESCAPES + ATOMIC + "st.u32 [%rd7], %r3; ld.shared.u32 %r4, [%r5];", True),
        (SHUFFLED + ATOMIC + "st.u32 [%rd7], %r3; ld.shared.u32 %r4, [%r5];", True),
        (ATOMIC + "st.shared.u32 [%r5], %r3; ld.shared.u32 %r4, [%r5];", True),
        (ESCAPES + ATOMIC + "st.shared.u32 [%r5], %r3; ld.u32 %r4, [%rd7];", True),
        # an address in shared memory is an offset in the window, wherever it comes from
        (ATOMIC + "st.shared.u32 [%r5], %r3; ld.shared.u32 %r4, [8];", True),
        (ATOMIC + "st.shared.u32 [%r5], %r3; mov.u32 %r6, 8; ld.shared.u32 %r4, [%r6];", True),
        (ATOMIC + "st.shared.u32 [%r5], %r3; shl.b32 %r6, %r1, 2; ld.shared.u32 %r4, [%r6+4];", True),
        (ATOMIC + "st.shared.u32 [%r5], %r3; ld.param.u32 %r6, [s+24]; ld.shared.u32 %r4, [%r6];", True),
        (ATOMIC + "st.shared.u32 [%r5], %r3; mov.u64 %rd7, 8; cvta.shared.u64 %rd7, %rd7; ld.u32 %r4, [%rd7];", True),
        (ATOMIC + "mov.u32 %r6, 8; st.shared.u32 [%r6], %r3; ld.shared.u32 %r4, [%r5];", True),
        (ATOMIC + "mov.u32 %r6, 8; st.shared.u32 [%r6], %r3; ld.shared.u32 %r4, [%r6];", True),
        (ATOMIC + "mov.u32 %r6, 8; st.shared.u32 [%r6], %r3; ld.global.u32 %r4, [%rd4];", False),
        (
            ATOMIC + "st.global.u32 [%rd4], %r3; cp.async.ca.shared.global [0], [%rd4], 4; ld.shared.u32 %r4, [%r5];",
            True,
        ),
    ],
)
def test_an_unknown_address_leads_to_arrays_of_the_caller_and_to_others_that_escaped(body: str, steers: bool) -> None:
    module = parse(HEAD + body + BRANCH, "k.ptx")
    program = compile_entry(module, module.entries["k"], ("value",))
    found = {tainted_.what for tainted_ in tainted(program, [1] * len(program.code))}
    assert bool(found) == steers, found


def test_a_sum_through_a_structure_is_noted() -> None:
    body = "cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%rd1], %f1; ret;\n}\n"
    module = parse(HEAD + body, "k.ptx")
    program = compile_entry(module, module.entries["k"], ("value",))
    ((_, why),) = order_dependent(program, [1] * len(program.code))
    assert why.startswith("floating-point additions round")
