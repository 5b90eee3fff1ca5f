"""Atomics are atomic with each other where each has the other's thread in its scope, on both engines (PTX ISA, "Scope",
"Morally strong operations", "Conflict and Data-races")."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import wsemu

TEXT = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p<6>; .reg .b32 %r<20>; .reg .f32 %f<2>; .reg .b64 %rd<10>;
.shared .align 4 .u32 cell;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, cell;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
mov.u32 %r10, %cluster_ctarank; xor.b32 %r11, %r10, 1; mapa.shared::cluster.u32 %r5, %r3, %r11;
setp.eq.u32 %p1, %r2, 0; setp.eq.and.u32 %p2, %r1, 0, %p1; setp.eq.and.u32 %p3, %r1, 1, %p1;
@%p1 st.shared.u32 [cell], 0;
barrier.cluster.arrive; barrier.cluster.wait;
BODY
barrier.cluster.arrive; barrier.cluster.wait;
ret; }
"""
WIDTH = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 2}
"""how far a scope goes: 1 takes in a cluster, 2 all"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def found(body, cluster=1, grid=2, block=32, text=TEXT):
    """Codes of the findings of a launch, the same on both engines, or its verdict."""
    kernel = wsemu.load_ptx(text.replace("BODY", body))["k"]
    reports = []
    for engine in ("vm", "reference"):
        out = np.zeros(64, np.uint32)
        reports.append(wsemu.check(kernel, grid, block, (out,), cluster=cluster, engine=engine))
    one, other = (report.model_dump(exclude={"seconds", "inputs"}) for report in reports)
    assert one == other
    return sorted({finding.code for finding in reports[0].findings}) or reports[0].verdict


@pytest.mark.parametrize(("one", "other"), [*itertools.product(WIDTH, repeat=2)])
def test_atomics_of_two_ctas(one, other):
    body = f"@%p2 atom.{one}.global.add.u32 %r4, [%rd1], 1; @%p3 red.relaxed.{other}.global.add.u32 [%rd1], 1;"
    least = min(WIDTH[one], WIDTH[other])
    assert found(body) == (["race"] if least < 2 else "verified")
    assert found(body, cluster=2) == (["race"] if least < 1 else "verified")


@pytest.mark.parametrize("other", WIDTH)
@pytest.mark.parametrize("word", ["add.u32 %r4, [%rd1], 0", "cas.b32 %r4, [%rd1], 0, 0"])
def test_an_atomic_that_leaves_memory_as_it_is_is_a_write_for_narrow_scopes(word, other):
    body = f"@%p2 atom.gpu.global.{word}; @%p3 ld.relaxed.{other}.global.u32 %r4, [%rd1];"
    assert found(body) == (["race"] if WIDTH[other] < 2 else "verified")
    assert found(body, cluster=2) == (["race"] if WIDTH[other] < 1 else "verified")


@pytest.mark.parametrize("other", WIDTH)
def test_cas_that_fails_is_no_race_for_narrow_scopes(other):
    """The kernel reads a rank: its orders are not tried."""
    body = f"@%p2 atom.gpu.global.cas.b32 %r4, [%rd1], 7, 7; @%p3 ld.relaxed.{other}.global.u32 %r4, [%rd1];"
    assert {found(body), found(body, cluster=2)} <= {"verified", "incomplete"}


@pytest.mark.parametrize(("one", "other"), [*itertools.product(("cta", "cluster", "gpu"), repeat=2)])
def test_atomics_in_shared_memory_of_the_owner_and_of_another_cta(one, other):
    body = f"@%p2 atom.{one}.shared.add.u32 %r4, [cell], 1; @%p3 atom.{other}.shared::cluster.add.u32 %r4, [%r5], 1;"
    assert found(body, cluster=2) == (["race"] if "cta" in (one, other) else "verified")


@pytest.mark.parametrize(
    "body",
    [
        "atom.cta.global.add.u32 %r4, [%rd2], 1;",  # each CTA its own
        "@%p1 red.cta.shared.add.u32 [cell], 1; red.cta.shared.add.u32 [cell], 1;",
        "@%p3 atom.cta.shared::cluster.add.u32 %r4, [%r5], 1;",  # another one's, but nobody else there
        "ld.relaxed.cta.global.u32 %r4, [%rd1]; ld.acquire.cluster.global.u32 %r4, [%rd1];",
        f"@%p2 st.relaxed.cta.shared.u32 [cell], 1; {MEET} @%p3 ld.relaxed.cta.shared::cluster.u32 %r4, [%r5];",
    ],
)
def test_a_narrow_scope_is_enough_where_nobody_else_is(body):
    assert found(body, cluster=2) == "verified"
    assert found(body.replace("%rd2", "%rd2+8"), cluster=2, grid=4) == "verified"


@pytest.mark.parametrize(
    "body",
    [
        "@%p2 st.relaxed.gpu.global.u32 [%rd1], 1; @%p3 ld.relaxed.cta.global.u32 %r4, [%rd1];",
        "@%p2 st.release.cta.global.u32 [%rd1], 1; @%p3 ld.acquire.gpu.global.u32 %r4, [%rd1];",
        "@%p2 st.volatile.global.u32 [%rd1], 1; @%p3 ld.relaxed.cta.global.u32 %r4, [%rd1];",
        "@%p2 atom.cta.add.u32 %r4, [%rd1], 1; @%p3 ld.volatile.global.u32 %r4, [%rd1];",
        "@%p2 red.relaxed.cta.global.add.v2.f32 [%rd1], {%f1, %f1}; @%p3 red.gpu.global.add.v2.f32 [%rd1], {%f1, %f1};",
    ],
)
def test_strong_loads_and_stores_have_scopes_too(body):
    body = "mov.f32 %f1, 0f3F800000;" + body
    assert found(body) == ["race"]
    for narrow in (".cta.", ".cluster."):
        body = body.replace(narrow, ".sys.")
    assert found(body) == "verified"


def test_an_earlier_atomic_of_the_other_cta_is_not_forgotten_for_a_later_one():
    """CTA 0, then CTA 1 behind a barrier, then CTA 1 and CTA 0 beside each other: of the first nothing is known."""
    first = "@%p2 atom.cta.global.add.u32 %r4, [%rd1], 1;"
    second = "@%p3 atom.cta.global.add.u32 %r4, [%rd1], 1;"
    assert found(first + MEET + second, cluster=2) == "verified"
    assert found(first + MEET + second + first, cluster=2) == ["race"]
    assert found(second + MEET + first + second, cluster=2) == ["race"]


def test_a_strong_load_and_a_load_do_not_conflict():
    strong, plain = "ld.relaxed.gpu.global.u32 %r4, [%rd1];", "ld.global.u32 %r4, [%rd1];"
    both = f"setp.lt.u32 %p4, %r2, 32; @%p4 {strong} @!%p4 {plain}"
    assert found(both, block=64) == "verified"
    assert found(strong.replace("u32", "u64").replace("%r4", "%rd5") + plain, block=64) == "verified"
    wide = "ld.relaxed.gpu.global.u64 %rd5, [%rd1];"
    assert found(f"setp.lt.u32 %p4, %r2, 32; @%p4 {strong} @!%p4 {wide}", block=64) == "verified"
    store = "st.relaxed.gpu.global.u32 [%rd1], 1;"
    assert found(f"setp.lt.u32 %p4, %r2, 32; @%p4 {store} @!%p4 {plain}", block=64) == ["race"]
    assert found(f"setp.lt.u32 %p4, %r2, 32; @%p4 {plain} @!%p4 {store}", block=64) == ["race"]
    three = "setp.lt.u32 %p4, %r2, 32; setp.lt.u32 %p5, %r2, 64; "
    three += f"@%p4 {strong} @%p4 bra $end; @%p5 {plain} @!%p5 {store} $end:"
    assert found(three, block=96) == ["race"]


def test_an_atomic_of_zero_is_a_load():
    body = "setp.lt.u32 %p4, %r2, 32; @%p4 atom.global.add.u32 %r4, [%rd1], 0; @!%p4 ld.global.u32 %r4, [%rd1];"
    assert found(body, block=64) == "verified"


# -- orders ------------------------------------------------------------------------------------------------------------
HANDED = """
@!%p1 bra $end; @%p3 bra $other;
st.global.u32 [%rd1+128], 7; fence.acq_rel.gpu; st.relaxed.{one}.global.u32 [%rd1], 1; bra $end;
$other: ld.relaxed.{other}.global.u32 %r4, [%rd1]; setp.eq.u32 %p4, %r4, 0; @%p4 bra $other;
fence.acq_rel.gpu; ld.global.u32 %r6, [%rd1+128]; st.global.u32 [%rd1+132], %r6;
$end:
"""


@pytest.mark.parametrize(("one", "other"), [("gpu", "gpu"), ("gpu", "cta"), ("cta", "gpu"), ("cluster", "sys")])
def test_a_flag_hands_over_what_both_scopes_take_in(one, other):
    text = TEXT.replace("barrier.cluster.arrive; barrier.cluster.wait;", "").replace(
        "mapa.shared::cluster.u32 %r5, %r3, %r11;", ""
    )
    body = HANDED.format(one=one, other=other)
    assert found(body, text=text) == ("verified" if (one, other) == ("gpu", "gpu") else ["race"])


ARRIVED = """
@!%p1 bra $end; st.global.u32 [%rd2+128], 1; fence.acq_rel.gpu;
atom.{}.global.inc.u32 %r4, [%rd1], 1; setp.ne.u32 %p4, %r4, 1; @%p4 bra $end;
fence.acq_rel.gpu; ld.global.u32 %r5, [%rd1+128]; st.global.u32 [%rd1+64], %r5;
$end:
"""
PLACED = """
@!%p1 bra $end; atom.{}.global.add.u32 %r4, [%rd1], 1;
mul.wide.u32 %rd4, %r4, 4; add.s64 %rd4, %rd1, %rd4; st.global.u32 [%rd4+64], 1;
$end:
"""


@pytest.mark.parametrize("body", [ARRIVED, PLACED])
def test_a_counter_of_several_ctas_needs_a_scope_with_all_of_them(body):
    text = TEXT.replace(MEET, "")
    assert found(body.format("gpu"), text=text) == "verified"
    assert found(body.format("cta"), text=text) == ["race"]
    assert found(body.format("cta"), text=text, cluster=2) == ["race"]
    assert found(body.format("cluster"), text=text) == ["race"]
    assert found(body.format("cluster"), text=text, cluster=2) in ("verified", "incomplete")
