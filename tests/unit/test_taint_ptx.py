"""What atomics reach in PTX whose addresses come in structures: memory of which nothing is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.frontend.ptx import compile_entry, parse
from wsemu.proof.taint import find_tainted, order_dependent

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
COPIED = "cp.async.ca.shared.global [{to}], [%rd4], 4; ld.shared.u32 %r4, [%r5];"
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
        (ATOMIC + "st.global.u32 [%rd4], %r3;" + COPIED.format(to="%r5"), True),
        (ATOMIC + "st.global.u32 [%rd4], %r3;" + COPIED.format(to="0"), False),  # out of bounds, so it copies nothing
    ],
)
def test_an_unknown_address_leads_to_arrays_of_the_caller_and_to_others_that_escaped(body: str, steers: bool) -> None:
    module = parse(HEAD + body + BRANCH, "k.ptx")
    program = compile_entry(module, module.entries["k"], ("value",))
    found = {tainted_.what for tainted_ in find_tainted(program, [1] * len(program.code))}
    assert bool(found) == steers, found


OTHER = ".shared .align 8 .b8 other[128]; mov.u32 %r7, other; setp.lt.u32 %p2, %r1, 16;" + ATOMIC
STORED = OTHER + "st.shared.u32 [%r5], %r3;"
LOADED = "ld.shared.u32 %r4, [%r6];"


@pytest.mark.parametrize(
    ("body", "steers"),
    [
        (STORED + "ld.shared.u32 %r4, [%r7];", False),
        (STORED + "selp.b32 %r6, %r7, %r7, %p2;" + LOADED, False),
        (STORED + "mov.u32 %r6, %r7; @%p2 bra L; mov.u32 %r6, %r7;\nL: " + LOADED, False),
        (STORED + "cvt.u64.u32 %rd7, %r7; cvta.shared.u64 %rd7, %rd7; ld.u32 %r4, [%rd7];", False),
        (STORED + "shl.b32 %r6, %r1, 2; cvt.u64.u32 %rd7, %r6; add.u64 %rd7, %rd4, %rd7; ld.u32 %r4, [%rd7];", False),
        # a number on one path
        (STORED + "mov.u32 %r6, 8; @%p2 bra L; mov.u32 %r6, other;\nL: " + LOADED, True),
        (STORED + "mov.u32 %r6, other; @%p2 bra L; ld.param.u32 %r6, [s+24];\nL: " + LOADED, True),
        (STORED + "mov.u32 %r6, 8; @%p2 mov.u32 %r6, other;" + LOADED, True),
        (STORED + "selp.b32 %r6, %r7, 8, %p2;" + LOADED, True),
        (STORED + "shl.b32 %r6, %r1, 2; selp.b32 %r6, %r6, %r7, %p2;" + LOADED, True),
        (STORED + "selp.b32 %r6, %r7, 8, %p2; add.u32 %r6, %r6, 4;" + LOADED, True),
        (STORED + "selp.b32 %r6, %r7, 8, %p2; cvt.u64.u32 %rd7, %r6; cvta.shared.u64 %rd7, %rd7; ld.u32 %r4, [%rd7];",
         True),
        (STORED + "min.u32 %r6, %r7, 8;" + LOADED, True),
        (STORED + "sub.u32 %r6, %r7, %r5;" + LOADED, True),
        (STORED + "and.b32 %r8, %r7, 8; selp.b32 %r6, %r8, %r7, %p2;" + LOADED, True),
        (OTHER + "selp.b32 %r6, %r7, 8, %p2; st.shared.u32 [%r6], %r3; ld.shared.u32 %r4, [%r5];", True),
        # what was loaded, on one path
        (OTHER + "st.global.u32 [%rd4], %r3; ld.global.u64 %rd5, [%rd2]; selp.b64 %rd7, %rd6, %rd5, %p2;"
         "ld.u32 %r4, [%rd7];", True),
        (STORED + "st.global.u64 [%rd4], %rd6; ld.global.u64 %rd5, [%rd2]; cvt.u64.u32 %rd7, %r7;"
         "cvta.shared.u64 %rd7, %rd7; selp.b64 %rd7, %rd7, %rd5, %p2; ld.u32 %r4, [%rd7];", True),
        # a sum that leaves its array for the one beside it
        (STORED + "shl.b32 %r6, %r1, 2; sub.u32 %r6, %r6, 128; add.u32 %r6, %r7, %r6;" + LOADED, True),
        (STORED + "mad.lo.u32 %r6, %r1, -4, %r7;" + LOADED, True),
        (STORED + "ld.shared.u32 %r4, [%r7+-128];", True),
        (STORED + "mov.u32 %r6, %r7;\nL: sub.u32 %r6, %r6, 4; setp.gt.u32 %p2, %r6, 8; @%p2 bra L;" + LOADED, True),
    ],
)  # fmt: skip
def test_an_address_that_may_be_a_number_or_leave_its_array_leads_to_all_of_the_space(body: str, steers: bool) -> None:
    module = parse(HEAD + body + BRANCH, "k.ptx")
    program = compile_entry(module, module.entries["k"], ("value",))
    assert bool(find_tainted(program, [1] * len(program.code))) == steers


TICKET = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
.shared .align 8 .b8 own[128];
.shared .align 8 .b8 other[128];
ld.param.u64 %rd1, [memory]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r11, %ctaid.x;
mov.u32 %r5, own; mov.u32 %r7, other; shl.b32 %r8, %r1, 2; add.u32 %r9, %r5, %r8; add.u32 %r10, %r7, %r8;
st.shared.u32 [%r9], 0; st.shared.u32 [%r10], 0; setp.lt.u32 %p2, %r1, 16; bar.sync 0;
mov.u32 %r3, 0; setp.eq.u32 %p3, %r1, 0; @%p3 atom.global.add.u32 %r3, [%rd1], 1;
st.shared.u32 [%r9], %r3;
WHERE
ld.shared.u32 %r4, [%r6];
setp.ne.and.u32 %p1, %r4, %r11, %p3; @%p1 st.global.u32 [%rd2+4000], 1;
ret;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("where", [
    "mov.u32 %r6, %r9;",
    "mov.u32 %r6, %r9; @%p2 bra L; mov.u32 %r6, %r10;\nL:",
    "mov.u32 %r6, %r9; @!%p2 mov.u32 %r6, %r10;",
    "selp.b32 %r6, %r9, %r10, %p2;",
    "sub.u32 %r6, %r10, %r7; add.u32 %r6, %r6, %r5;",
])  # fmt: skip
def test_a_ticket_that_leads_out_of_bounds_is_found_by_whatever_address_it_is_read(where: str, engine: Any) -> None:
    """Where the second CTA draws first, both go wrong; in the run that is made first neither does."""
    given = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    report = wsemu.check(wsemu.load_ptx(TICKET.replace("WHERE", where))["k"], 2, 32, given, engine=engine)
    assert [finding.code for finding in report.findings] == ["out-of-bounds"]


EXCHANGED = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<9>; .reg .f32 %f<4>;
.shared .align 8 .b8 sums[128];
.shared .align 8 .b8 columns[128];
ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31;
mov.u32 %r5, sums; mov.u32 %r7, columns; shl.b32 %r8, %r2, 2; add.u32 %r9, %r5, %r8; add.u32 %r10, %r7, %r8;
setp.lt.u32 %p2, %r1, 32; @%p2 st.shared.u32 [%r9], 0; @%p2 st.shared.u32 [%r10], %r2; bar.sync 0;
cvt.rn.f32.u32 %f1, %r1; atom.shared.add.f32 %f2, [%r9], %f1; bar.sync 0;
sub.u32 %r11, %r10, %r7; add.u32 %r11, %r11, %r5;
ld.shared.u32 %r4, [WHERE]; shr.u32 %r4, %r4, 31; add.u32 %r4, %r4, %r2;
mul.wide.u32 %rd3, %r4, 4; add.u64 %rd4, %rd2, %rd3; @%p2 st.global.u32 [%rd4], 1;
ret;
}
"""


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("where", "verdict"), [("%r10", "verified"), ("%r11", "incomplete")])
def test_where_accesses_to_shared_memory_went_tells_what_is_apart(where: str, verdict: str, engine: Any) -> None:
    """What float additions leave in one array depends on their order: an index out of the array beside it does not."""
    given = (np.zeros(1 << 11, np.uint32),)
    report = wsemu.check(wsemu.load_ptx(EXCHANGED.replace("WHERE", where))["k"], 1, 64, given, engine=engine)
    assert report.verdict == verdict, (report.notes, report.findings)


def test_a_sum_through_a_structure_is_noted() -> None:
    body = "cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%rd1], %f1; ret;\n}\n"
    module = parse(HEAD + body, "k.ptx")
    program = compile_entry(module, module.entries["k"], ("value",))
    ((_, why),) = order_dependent(program, [1] * len(program.code))
    assert why.startswith("floating-point additions round")
