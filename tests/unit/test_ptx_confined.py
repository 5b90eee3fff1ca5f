"""Accesses by an address of one `__shared__` variable stay inside of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.frontend.ptx import compile_entry, parse

HEAD = """
.version 8.8
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
.shared .align 16 .b8 first[128];
.shared .align 16 .b8 second[128];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;
setp.ne.u32 %p1, %r0, 0; mov.u32 %r3, first; mov.u32 %r4, second; add.u32 %r5, %r3, %r2; add.u32 %r6, %r4, %r2;
cvt.u64.u32 %rd3, %r2; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3; ld.global.u32 %r7, [%rd4]; mov.u32 %r8, 0;
st.shared.u32 [%r5], %r7; st.shared.u32 [%r6], %r7; bar.sync 0;
"""
TAIL = "\nst.global.u32 [%rd5], %r8; ret;\n}\n"
DISTANCE = "sub.u32 %r9, %r5, %r3; and.b32 %r9, %r9, 124; cvt.u64.u32 %rd6, %r9; "
SEVERAL = "setp.lt.u32 %p2, %r1, 7;"


def _codes(body: str, engine: Any, n: int = 0, dynamic: int = 0) -> list[str]:
    given = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32), n
    kernel = wsemu.load_ptx(HEAD + body + TAIL)["k"]
    report = wsemu.check(kernel, 1, 32, given, engine=engine, dynamic_shared=dynamic)
    return [finding.code for finding in report.findings if finding.severity == "error"]


OUTSIDE = [
    "ld.shared.u32 %r8, [%r5+4];",
    "ld.shared.u32 %r8, [%r6+-4];",
    "@%p2 ld.shared.u32 %r8, [first+128];",
    "@%p2 st.shared.u32 [second+-4], 1;",
    "ld.shared.v2.u32 {%r8, %r9}, [first+124];",
    "ld.shared.u8 %r8, [%r5+125];",
    "atom.shared.add.u32 %r8, [%r5+4], 0;",
    "red.shared.add.u32 [%r5+128], 1;",
    # whatever the way to the address
    "add.u32 %r9, %r5, 128; selp.b32 %r9, %r5, %r9, %p1; ld.shared.u32 %r8, [%r9];",
    "mov.u32 %r9, %r3;\nL: ld.shared.u32 %r8, [%r9]; add.u32 %r9, %r9, 4; setp.le.u32 %p3, %r9, %r4; @%p3 bra L;",
    "mad.lo.u32 %r9, %r1, 8, %r3; ld.shared.u32 %r8, [%r9];",
    "cvt.u64.u32 %rd6, %r5; cvta.shared.u64 %rd6, %rd6; ld.u32 %r8, [%rd6+128];",
    "cvt.u64.u32 %rd6, %r5; cvta.shared.u64 %rd6, %rd6; cvta.to.shared.u64 %rd6, %rd6; ld.shared.u32 %r8, [%rd6+128];",
    "xor.b32 %r9, %r5, 128; ld.shared.u32 %r8, [%r9];",
    "add.u32 %r9, %r3, 128; cp.async.ca.shared.global [%r9], [%rd1], 16; cp.async.wait_all;",
    # a number
    "ld.shared.u32 %r8, [128];",
    # a number on one path
    "mov.u32 %r9, %r5; @%p2 bra L; mov.u32 %r9, 128;\nL: ld.shared.u32 %r8, [%r9];",
]
"""bodies that leave a variable for the one beside it"""
INSIDE = [
    "ld.shared.u32 %r8, [%r5];",
    "ld.shared.u32 %r8, [second+124];",
    "ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [first+112];",
    "shl.b32 %r9, %r1, 3; and.b32 %r9, %r9, 127; add.u32 %r9, %r4, %r9; ld.shared.u32 %r8, [%r9];",
    # of two variables, of memory: nothing is compared
    "selp.b32 %r9, %r5, %r6, %p1; ld.shared.u32 %r8, [%r9];",
    "sub.u32 %r9, %r4, %r3; add.u32 %r9, %r5, %r9; ld.shared.u32 %r8, [%r9];",
    "mov.u32 %r9, %r5; @%p1 mov.u32 %r9, %r6; ld.shared.u32 %r8, [%r9];",
    "cvt.u64.u32 %rd6, %r5; cvta.shared.u64 %rd6, %rd6; selp.b64 %rd6, %rd6, %rd4, %p2; ld.u32 %r8, [%rd6];",
    # an index of other memory, from the distance of two addresses or from some bits of one
    DISTANCE + "add.u64 %rd6, %rd2, %rd6; ld.global.u32 %r8, [%rd6];",
    DISTANCE + "mul.lo.u64 %rd7, %rd2, 1; add.u64 %rd6, %rd7, %rd6; ld.u32 %r8, [%rd6];",
    DISTANCE + "mul.lo.u64 %rd7, %rd2, 1; add.u64 %rd6, %rd7, %rd6; st.global.u32 [%rd6], %r1; bar.warp.sync -1;",
]
"""bodies that stay inside, or of which nobody can say which variable they mean"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("body", OUTSIDE)
def test_an_address_of_one_variable_does_not_lead_into_another(body: str, engine: Any) -> None:
    assert "out-of-bounds" in _codes(SEVERAL + body, engine)


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("body", INSIDE)
def test_an_address_that_stays_inside_or_may_be_of_several_is_left_alone(body: str, n: int, engine: Any) -> None:
    assert _codes(SEVERAL + body, engine, n) == []


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_dynamic_shared_memory_does_not_begin_before_its_start(engine: Any) -> None:
    """What lies before it are the other variables; that it has an end the launch knows."""
    body = (
        "mov.u32 %r9, dynamic; add.u32 %r9, %r9, %r2; st.shared.u32 [%r9], 1; bar.sync 0; ld.shared.u32 %r8, [%r9{}];"
    )
    assert _codes(body.format("+0"), engine, dynamic=128) == []
    assert _codes(body.format("+-4"), engine, dynamic=128) == ["out-of-bounds"]
    assert _codes(body.format("+4"), engine, dynamic=128) == ["out-of-bounds"]
    assert _codes(SEVERAL + "@%p2 st.shared.u32 [second+128], 1;", engine, dynamic=128) == ["out-of-bounds"]


BULK = """
.shared .align 8 .b64 full;
setp.eq.u32 %p3, %r1, 0; mov.u32 %r9, full; mov.u32 %r12, LENGTH; add.u32 %r10, %r3, START;
@%p3 mbarrier.init.shared::cta.b64 [%r9], 1; fence.proxy.async; bar.sync 0;
"""
LOAD = """
@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], LENGTH;
@%p3 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%rd1], %r12, [%r9];
L: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 0; @!%p1 bra L;
"""
STORE = """
@%p3 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r10], %r12; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; bar.sync 0;
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("copy", [LOAD, STORE], ids=["load", "store"])
@pytest.mark.parametrize(("start", "length"), [(0, 128), (112, 16), (16, 128), (0, 144), (128, 16), (-16, 16)])
def test_a_bulk_copy_stays_inside_of_its_variable(start: int, length: int, copy: str, engine: Any) -> None:
    body = (BULK + copy).replace("START", str(start)).replace("LENGTH", str(length))
    given = np.zeros(64, np.uint32), np.zeros(64, np.uint32), 0
    report = wsemu.check(wsemu.load_ptx(HEAD + body + TAIL)["k"], 1, 32, given, engine=engine)
    outside = not 0 <= start <= start + length <= 128
    assert ("out-of-bounds" in [finding.code for finding in report.findings]) == outside
    if outside:
        (told,) = [finding for finding in report.findings if finding.code == "out-of-bounds"]
        assert f"of {length} bytes reaches outside `first`, which has 128 bytes" in told.message


def test_a_finding_says_how_far_from_the_variable_it_is() -> None:
    given = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32), 0
    report = wsemu.check(wsemu.load_ptx(HEAD + OUTSIDE[0] + TAIL)["k"], 1, 32, given)
    (finding,) = report.findings
    assert finding.message == "load of 4 bytes outside `first`, at byte 128 of 128"
    assert finding.help == "check the address against the 128 bytes of `first`"


def test_an_access_that_is_known_to_stay_inside_costs_nothing() -> None:
    """Nor does one where there is no other variable."""

    def instructions(text: str) -> int:
        module = parse(text, "k.ptx")
        return len(compile_entry(module, module.entries["k"], ("address", "address", "value")).code)

    one = HEAD.replace(".shared .align 16 .b8 second[128];", "").replace("second", "0")
    constant = HEAD[: HEAD.index("st.shared")].replace("mov.u32 %r3, first; mov.u32 %r4, second;", "")
    body = "st.shared.u32 [first], %r7; ld.shared.u32 %r8, [first+{}];"
    assert instructions(one + TAIL) < instructions(HEAD + TAIL)
    assert instructions(constant + body.format(124) + TAIL) < instructions(constant + body.format(128) + TAIL)
