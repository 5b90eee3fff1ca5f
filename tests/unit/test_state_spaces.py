"""An access that names a state space goes to that alone, and a number is no address (PTX ISA, "State Spaces", "Generic
Addressing")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.machine import workers

HEAD = """
.version 8.8
.target sm_90
.address_size 64
.const .align 8 .b8 constant[64];
.global .align 8 .b8 variable[64];
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 n, .param .align 8 .b8 s[16])
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<32>;
.local .align 8 .b8 own[64]; .shared .align 8 .b8 tile[64];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [n]; mov.u32 %r1, %tid.x; mov.u32 %r9, 0;
mov.u64 %rd4, own; mov.u64 %rd5, tile; mov.u64 %rd6, constant; mov.u64 %rd7, variable; setp.eq.u32 %p1, %r1, 99;
cvta.local.u64 %rd8, %rd4; cvta.shared.u64 %rd9, %rd5; cvta.const.u64 %rd10, %rd6; ld.param.u64 %rd11, [s];
st.local.u32 [own], %r9; st.shared.u32 [tile], %r9; bar.sync 0; cvt.u64.u32 %rd12, %r1; mov.b64 %rd13, s;
"""
TAIL = "\nst.global.u32 [%rd2], %r9; ret;\n}\n"
WRONG = [
    "ld.global.u32 %r9, [%rd8];",
    "ld.global.u32 %r9, [%rd9];",
    "st.global.u32 [%rd9], %r9;",
    "atom.global.add.u32 %r9, [%rd9], 0;",
    "ld.relaxed.gpu.global.u32 %r9, [%rd9];",
    "ld.global.v2.u32 {%r9, %r10}, [%rd8];",
    "ld.local.u32 %r9, [%rd1];",
    "st.local.u32 [%rd2], %r9;",
    "ld.local.u32 %r9, [%rd9];",
    "ld.shared.u32 %r9, [%rd1];",
    "ld.shared.u32 %r9, [%rd8];",
    "st.shared.u32 [%rd9], %r9;",  # an offset is wanted, this is a generic address
    "ld.const.u32 %r9, [%rd1];",
    "ld.const.u32 %r9, [%rd7];",
    "ld.const.u32 %r9, [%rd9];",
    "ld.param.u32 %r9, [%rd1];",
    "selp.b64 %rd20, %rd8, %rd1, %p1; st.local.u32 [%rd20], %r9;",
    # differences
    "add.s64 %rd20, %rd1, -1099511627776; st.global.u32 [%rd20], %r9;",
    "add.s64 %rd20, %rd1, -2199023255552; ld.global.u32 %r9, [%rd20];",
    "add.s64 %rd20, %rd1, -1099511627776; st.u32 [%rd20], %r9;",
    "add.s64 %rd20, %rd1, -2199023255552; ld.u32 %r9, [%rd20];",
    "add.s64 %rd20, %rd9, 1099511627776; ld.u32 %r9, [%rd20];",
    "add.s64 %rd20, %rd9, 2199023255552; ld.u32 %r9, [%rd20];",
    "add.s64 %rd20, %rd8, 1099511627776; ld.u32 %r9, [%rd20];",
    # numbers
    "mov.u64 %rd20, 1099511627776; st.u32 [%rd20], %r9;",
    "mov.u64 %rd20, 1099511627776; ld.global.u32 %r9, [%rd20];",
    "st.u32 [1099511627776], %r9;",
    "ld.u32 %r9, [%rd3];",
    "add.s64 %rd20, %rd3, %rd12; sub.s64 %rd20, %rd20, %rd12; st.global.u32 [%rd20], %r9;",
    "shr.u64 %rd20, %rd3, 40; mul.lo.s64 %rd20, %rd20, 3298534883328; ld.global.u32 %r9, [%rd20];",
    "atom.add.u32 %r9, [%rd3], 1;",
    "@!%p1 ld.u32 %r9, [%rd11];",
    "ld.u32 %r9, [0];",
]
RIGHT = [
    "ld.u32 %r9, [%rd8];",
    "ld.u32 %r9, [%rd9];",
    "ld.u32 %r9, [%rd10];",
    "ld.global.u32 %r9, [%rd7];",
    "ld.const.u32 %r9, [%rd6];",
    "ld.const.u32 %r9, [constant+4];",
    "ld.param.u32 %r9, [%rd13+4];",
    "cvta.param.u64 %rd20, %rd13; ld.u32 %r9, [%rd20+8];",
    "ld.shared.u32 %r9, [%rd5];",
    "cvta.to.shared.u64 %rd20, %rd9; ld.shared.u32 %r9, [%rd20];",
    "cvta.to.local.u64 %rd20, %rd8; ld.local.u32 %r9, [%rd20];",
    "selp.b64 %rd20, %rd8, %rd1, %p1; ld.u32 %r9, [%rd20];",
    "selp.b64 %rd20, %rd9, %rd8, %p1; ld.u32 %r9, [%rd20];",
    "st.shared.u64 [tile+8], %rd1; ld.shared.u64 %rd20, [tile+8]; ld.global.u32 %r9, [%rd20];",
    "sub.s64 %rd20, %rd1, %rd2; add.s64 %rd20, %rd2, %rd20; ld.global.u32 %r9, [%rd20];",
    "xor.b64 %rd20, %rd1, %rd3; xor.b64 %rd20, %rd20, %rd3; ld.u32 %r9, [%rd20];",
    "mov.b64 {%r2, %r3}, %rd1; mov.b64 %rd20, {%r2, %r3}; ld.global.u32 %r9, [%rd20];",
    "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; ld.global.u32 %r9, [%rd1];",
    "@%p1 ld.u32 %r9, [%rd3];",
    "@%p1 ld.global.u32 %r9, [%rd8];",
]
MIXED = {
    "a guarded move": "mov.u64 %rd20, 8; @PRED mov.u64 %rd20, %rd5; st.shared.u32 [%rd20], %r9;",
    "a guarded move of null": "mov.u64 %rd20, 0; @PRED mov.u64 %rd20, %rd5; ld.shared.u32 %r9, [%rd20];",
    "a guarded move to itself": "mov.u64 %rd20, %rd5; @!PRED mov.u64 %rd20, 0; st.shared.u32 [%rd20+4], %r9;",
    "a branch": "mov.u64 %rd20, %rd5; @PRED bra L; mov.u64 %rd20, 8; L: atom.shared.add.u32 %r9, [%rd20], 1;",
    "a selection": "selp.b64 %rd20, %rd5, %rd12, PRED; add.u64 %rd20, %rd20, 16; st.shared.u32 [%rd20], %r9;",
    "a selected distance": "selp.b64 %rd20, %rd5, 0, PRED; add.u64 %rd20, %rd12, %rd20; st.shared.u32 [%rd20+4], %r9;",
    "two selections": "selp.b64 %rd20, 0, 8, %p1; selp.b64 %rd21, %rd5, 16, PRED; add.u64 %rd20, %rd20, %rd21;"
    " st.shared.u32 [%rd20], %r9;",
    "32 bits": "cvt.u32.u64 %r3, %rd5; selp.b32 %r3, %r3, 0, PRED; st.shared.u32 [%r3], %r9;",
    "the second round": "mov.u64 %rd20, %rd5; mov.u32 %r3, 0; L: st.shared.u32 [%rd20], %r9; add.u32 %r3, %r3, 1;"
    " @!PRED mov.u64 %rd20, 8; setp.lt.u32 %p2, %r3, 2; @%p2 bra L;",
    "a generic address": "selp.b64 %rd20, %rd5, 0, PRED; cvta.shared.u64 %rd20, %rd20; ld.u32 %r9, [%rd20];",
    "a load": "ld.local.u32 %r3, [own]; cvt.u64.u32 %rd20, %r3; @PRED mov.u64 %rd20, %rd5; ld.shared.u32 %r9, [%rd20];",
    "local memory": "selp.b64 %rd20, %rd4, 8, PRED; st.local.u32 [%rd20], %r9;",
    "local memory in 32 bits": "cvt.u32.u64 %r3, %rd4; selp.b32 %r3, %r3, 8, PRED; st.local.u32 [%r3], %r9;",
    "shared instead of local memory": "selp.b64 %rd20, %rd5, %rd4, PRED; st.shared.u32 [%rd20], %r9;",
    "an mbarrier": "selp.b64 %rd20, %rd5, 8, PRED; mbarrier.init.shared.b64 [%rd20+16], 1;",
    "an asynchronous copy": "selp.b64 %rd20, %rd5, 16, PRED; cp.async.ca.shared.global [%rd20+16], [%rd1], 4;"
    " cp.async.wait_all;",
}
"""accesses at an address if PRED holds, otherwise at a number"""
NUMBERS = {
    "a difference": "add.u64 %rd20, ADDRESS, 8; sub.u64 %rd20, %rd20, ADDRESS;",
    "a multiplied difference": "add.u64 %rd20, ADDRESS, 8; sub.u64 %rd20, %rd20, ADDRESS; shl.b64 %rd20, %rd20, 2;",
    "a difference of multiples": "shl.b64 %rd20, ADDRESS, 2; mul.lo.u64 %rd21, ADDRESS, 4;"
    " sub.u64 %rd20, %rd20, %rd21;",
    "a difference in a loop": "mov.u32 %r3, 0; L: add.u64 %rd20, ADDRESS, %rd12; add.u32 %r3, %r3, 1;"
    " setp.lt.u32 %p2, %r3, 4; @%p2 bra L; sub.u64 %rd20, %rd20, ADDRESS;",
    "a difference by a negation": "neg.s64 %rd21, ADDRESS; add.u64 %rd20, ADDRESS, 8; add.u64 %rd20, %rd20, %rd21;",
    "a negated address": "neg.s64 %rd20, ADDRESS;",
    "a distance from zero": "sub.u64 %rd20, 16, ADDRESS;",
    "twice an address": "add.u64 %rd20, ADDRESS, ADDRESS;",
    "three times an address": "mad.lo.u64 %rd20, ADDRESS, 2, ADDRESS;",
    "a multiple": "mul.lo.u64 %rd20, ADDRESS, 3;",
    "low bits": "and.b64 %rd20, ADDRESS, 15;",
    "xor with itself": "xor.b64 %rd20, ADDRESS, ADDRESS;",
}
"""numbers that are computed from an address"""
SUMS = {
    "a sum": "add.u64 %rd21, %rd5, 8; sub.u64 %rd21, %rd21, %rd5; add.u64 %rd20, %rd5, %rd21;",
    "the difference last": "add.u64 %rd20, %rd5, %rd5; sub.u64 %rd20, %rd20, %rd5;",
    "a scaled difference": "add.u64 %rd21, %rd5, 8; sub.u64 %rd21, %rd21, %rd5; shr.u64 %rd21, %rd21, 1;"
    " add.u64 %rd20, %rd5, %rd21;",
    "rounded down": "add.u64 %rd20, %rd5, 7; and.b64 %rd21, %rd20, 7; sub.u64 %rd20, %rd20, %rd21;",
    "rounded by a mask": "add.u64 %rd20, %rd5, 7; and.b64 %rd20, %rd20, -8;",
    "rounded by a computed mask": "sub.u64 %rd21, %rd12, 1; and.b64 %rd20, %rd5, %rd21; add.u64 %rd20, %rd20, 8;",
    "a swizzle": "shr.u64 %rd21, %rd5, 3; and.b64 %rd21, %rd21, 4; xor.b64 %rd20, %rd5, %rd21;",
    "a field": "shr.u64 %rd21, %rd5, 4; and.b64 %rd21, %rd21, 1023; shl.b64 %rd20, %rd21, 4;",
    "two fields": "shr.u64 %rd21, %rd5, 8; and.b64 %rd21, %rd21, 255; shl.b64 %rd21, %rd21, 8;"
    " and.b64 %rd22, %rd5, 255; or.b64 %rd20, %rd21, %rd22;",
    "a step back": "add.u64 %rd20, %rd5, 8; sub.u64 %rd20, %rd20, 4; sub.u64 %rd20, %rd20, %rd12;",
    "a pointer from memory": "st.local.u64 [own+8], %rd5; ld.local.u64 %rd20, [own+8]; add.u64 %rd20, %rd20, 4;",
    "a difference with memory": "st.local.u64 [own+8], %rd5; ld.local.u64 %rd21, [own+8]; sub.u64 %rd21, %rd21, %rd5;"
    " add.u64 %rd20, %rd5, %rd21;",
}
"""addresses that are computed with differences of addresses, or with parts of them"""
REUSED = {
    "a store": "st.shared.u32 [%r7], %r9;",
    "a load": "ld.shared.u32 %r10, [%r7];",
    "an atomic": "atom.shared.add.u32 %r10, [%r7], 1;",
    "a generic access": "cvt.u64.u32 %rd20, %r7; cvta.shared.u64 %rd20, %rd20; st.u32 [%rd20], %r9;",
    "a converted address": "cvt.u64.u32 %rd20, %r7; cvta.shared.u64 %rd20, %rd20; cvta.to.shared.u64 %rd20, %rd20;"
    " st.shared.u32 [%rd20], %r9;",
    "an mbarrier": "mbarrier.init.shared.b64 [%r7], 1; mbarrier.arrive.shared.b64 %rd20, [%r7];",
    "an asynchronous copy": "cp.async.ca.shared.global [%r7], [%rd1], 4; cp.async.wait_all;",
    "a bulk copy": "mbarrier.init.shared.b64 [%r7+1024], 1; fence.proxy.async;"
    " mbarrier.arrive.expect_tx.shared.b64 %rd20, [%r7+1024], 16;"
    " cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r7], [%rd1], 16, [%r7+1024];"
    " W: mbarrier.try_wait.shared.b64 %p3, [%r7+1024], %rd20; @!%p3 bra W;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r7];",
    "ldmatrix at a generic address": "cvt.u64.u32 %rd20, %r7; cvta.shared.u64 %rd20, %rd20;"
    " ldmatrix.sync.aligned.m8n8.x1.b16 {%r10}, [%rd20];",
}
"""accesses at a register that holds a number before and after, in each round of a loop"""


def _codes(body: str, engine: Any) -> list[str]:
    given = (
        np.zeros(4, np.uint32),
        np.zeros(4, np.uint32),
        np.uint64(1 << 40),
        (1 << 40).to_bytes(8, "little") + bytes(8),
    )
    report = wsemu.check(wsemu.load_ptx(HEAD + body + TAIL)["k"], 1, 1, given, engine=engine)
    return [finding.code for finding in report.findings if finding.severity == "error"]


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("body", WRONG)
def test_an_access_stays_in_the_state_space_that_it_names(body: str, engine: Any) -> None:
    assert _codes(body, engine) == ["out-of-bounds"]


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("body", RIGHT)
def test_an_address_of_the_space_is_right(body: str, engine: Any) -> None:
    assert _codes(body, engine) == []


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("body", MIXED.values(), ids=MIXED)
def test_a_number_is_no_address_on_the_path_on_which_it_is_one(body: str, engine: Any) -> None:
    """%p1 is false in the thread that runs."""
    holds = "setp.ne.u32 %p3, %r1, 99; "
    assert _codes(holds + body.replace("PRED", "%p3"), engine) == []
    assert set(_codes(body.replace("PRED", "%p1"), engine)) == {"out-of-bounds"}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_a_number_computed_from_addresses_is_no_address(number: str, engine: Any) -> None:
    """The register holds a shared address on the path on which %p1 is true."""
    for address, access in (("%rd5", "st.shared.u32 [%rd20], %r9;"), ("%rd4", "st.local.u32 [%rd20], %r9;")):
        body = number.replace("ADDRESS", address)
        assert _codes(f"{body} {access}", engine) == ["out-of-bounds"]
        assert _codes(f"{body} @%p1 mov.u64 %rd20, {address}; {access}", engine) == ["out-of-bounds"]


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    "part", ["shr.u64 %rd20, %rd5, 3;", "rem.u64 %rd20, %rd5, 32;", "mul.lo.u64 %rd20, %rd5, %rd12;"]
)
def test_a_part_of_an_address_counts_as_an_address(part: str, engine: Any) -> None:
    assert _codes(f"{part} st.shared.u32 [%rd20], %r9;", engine) == []


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("address", SUMS.values(), ids=SUMS)
def test_an_address_plus_a_difference_is_an_address(address: str, engine: Any) -> None:
    for path in ("", "@%p1 mov.u64 %rd20, %rd5; ", "@%p1 mov.u64 %rd20, 8; "):
        assert _codes(f"{address} {path}st.shared.u32 [%rd20], %r9;", engine) == []


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("other", "access"),
    [
        ("%rd9", "ld.u32 %r9, [%rd20];"),
        ("%rd9", "st.u32 [%rd20+4], %r9;"),
        ("%rd8", "ld.u32 %r9, [%rd20];"),
        ("%rd8", "st.u32 [%rd20+4], %r9;"),
    ],
)
def test_a_number_is_no_address_at_a_generic_access(other: str, access: str, engine: Any) -> None:
    for number in ("%rd3", "1099511627776", "2199023255552", "1099511627772"):
        assert _codes(f"mov.u64 %rd20, {number}; @%p1 mov.u64 %rd20, {other}; {access}", engine) == ["out-of-bounds"]
    fill = "mov.u64 %rd20, 0; st.shared.u32 [tile+4], %r9; st.local.u32 [own+4], %r9; setp.eq.u32 %p3, %r1, 0;"
    distance = f"sub.u64 %rd20, {other}, %rd1; add.u64 %rd20, %rd20, %rd1;"
    for address in (f"mov.u64 %rd20, {other};", "mov.u64 %rd20, %rd1;", "mov.u64 %rd20, %rd7;", distance):
        assert _codes(f"{fill} @%p3 bra L; bra M; L: {address} M: {access}", engine) == []


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("access", REUSED.values(), ids=REUSED)
def test_a_register_with_numbers_before_and_after_holds_an_address_between(access: str, engine: Any) -> None:
    fill = "mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 16, %r2; st.shared.v4.u32 [%r2], {%r9, %r9, %r9, %r9};"
    body = f"""
    {fill} add.u32 %r3, %r2, 512; st.shared.v4.u32 [%r3], {{%r9, %r9, %r9, %r9}}; mov.u32 %r3, 0; bar.sync 0;
    L: shl.b32 %r7, %r3, 9; add.u32 %r7, %r7, %r2; {access}
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 2; @%p2 bra L;
    shl.b32 %r7, %r1, 2; cvt.u64.u32 %rd20, %r7; add.u64 %rd2, %rd2, %rd20;"""
    head = HEAD.replace(".shared .align 8 .b8 tile[64]", ".shared .align 16 .b8 tile[2048]")
    given = np.zeros(4, np.uint32), np.zeros(32, np.uint32), np.uint64(0), bytes(16)
    report = wsemu.check(wsemu.load_ptx(head + body + TAIL)["k"], 1, 32, given, engine=engine)
    assert (report.verdict, [finding for finding in report.findings if finding.severity == "error"]) == ("verified", [])


def test_a_pointer_in_a_structure_is_an_address() -> None:
    body = "ld.global.u32 %r9, [%rd11];"
    given = np.zeros(4, np.uint32), np.zeros(4, np.uint32), np.uint64(0), (np.ones(4, np.uint32), np.uint64(0))
    wsemu.check(wsemu.load_ptx(HEAD + body + TAIL)["k"], 1, 1, given).assert_clean()


def test_blocks_look_at_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})
    monkeypatch.setenv("WSEMU_TIER", "always")
    head = HEAD.replace("tile[64]", "tile[128]").replace(
        "st.shared.u32 [tile], %r9;",
        "shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r9;",
    )
    text = f"{head} mul.wide.u32 %rd14, %r1, 4; add.s64 %rd15, %rd9, %rd14; add.s64 %rd2, %rd2, %rd14;"
    for space, expected in (("", set()), (".global", {"out-of-bounds"})):
        body = f"ld{space}.u32 %r9, [%rd9]; ld{space}.u32 %r9, [%rd15];"
        given = np.zeros(4, np.uint32), np.zeros(32, np.uint32), np.uint64(0), bytes(16)
        report = wsemu.check(wsemu.load_ptx(text + body + TAIL)["k"], 1, 32, given)
        assert {finding.code for finding in report.findings if finding.severity == "error"} == expected
