"""Operands in shared memory of a cluster, on both engines: those that say `.shared::cta` lie in the CTA's own memory,
and a copy credits an mbarrier of the CTA that it goes to (PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor", "st.async",
"red.async")."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu

TEXT = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .align 64 .b8 map[128]) {
.reg .pred %p<5>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %rd<10>;
.shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out]; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u32 %r2, %tid.x; mov.u32 %r9, 0;
mov.u32 %r3, tile; mov.u32 %r4, bar; mov.u32 %r10, %cluster_ctarank; xor.b32 %r11, %r10, 1;
mapa.shared::cluster.u32 %r5, %r3, %r11; mapa.shared::cluster.u32 %r6, %r4, %r11;
setp.eq.u32 %p1, %r2, 0; setp.eq.and.u32 %p2, %r10, 0, %p1;
@%p1 mbarrier.init.shared.b64 [bar], 1;
st.shared.v4.u32 [%r3+256], {%r9, %r9, %r9, %r9}; st.shared.v4.u32 [%r3+384], {%r9, %r9, %r9, %r9};
fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
BODY
barrier.cluster.arrive; barrier.cluster.wait;
ret; }
"""
OWN, FAR = ("%r3", "%r4"), ("%r5", "%r6")
"""(tile, mbarrier) of the CTA, and of the other one"""
WAIT = "$wait: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra $wait;"
PUT = "@%p1 {} [{}], 0, [{}];"
REDUCE = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
COPIES = {
    "cta": (128, "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{}], [%rd1], 128, [{}];"),
    "cluster": (128, "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [%rd1], 128, [{}];"),
    "tile of cta": (
        128,
        "@%p1 cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [{}], [%rd2, {{%r9}}], [{}];",
    ),
    "tile of cluster": (
        128,
        "@%p1 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [%rd2, {{%r9}}], [{}];",
    ),
    "send": (
        16,
        "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [{}], [%r3+256], 16, [{}];",
    ),
    "send and reduce": (16, f"@%p1 {REDUCE}.add.u32 [{{}}+256], [%r3+384], 16, [{{}}];"),
    "store": (4, PUT.format("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32", "{}", "{}")),
    "reduce": (
        4,
        "@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [{}+256], 7, [{}];",
    ),
}
HERE = {"cta", "cluster", "tile of cta", "tile of cluster", "store"}
"""those that may go to the CTA's own memory"""
THERE = {"cluster", "tile of cluster", "send", "send and reduce", "store", "reduce"}


def codes(body, cluster=2):
    """Of the findings of a launch, the same on both engines; ["verified"] for none."""
    kernel = wsemu.load_ptx(TEXT.replace("BODY", body))["k"]
    reports = []
    for engine in ("vm", "reference"):
        data = np.zeros(64, np.float32)
        arguments = data, wsemu.TensorMap(data, (32,))
        reports.append(wsemu.check(kernel, 2, 32, arguments, cluster=cluster, engine=engine))
    one, other = (report.model_dump(exclude={"seconds", "inputs"}) for report in reports)
    assert one == other
    return [finding.code for finding in reports[0].findings] or [reports[0].verdict]


def copied(name, tile, bar):
    size, copy = COPIES[name]
    expected = f"@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd9, [bar], {size};"
    return codes(expected + copy.format(tile, bar) + WAIT)


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_goes_where_its_state_space_says(name):
    for places, allowed in ((OWN, HERE), (FAR, THERE)):
        found = copied(name, *places)
        if name in allowed:
            assert found == ["verified"]
        elif name.endswith("cta"):  # whose mbarrier is in the other one, too
            assert found == ["remote-mbarrier"]
        else:
            assert found == ["out-of-bounds"]


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_credits_an_mbarrier_of_the_cta_that_it_goes_to(name):
    assert copied(name, OWN[0], FAR[1]) == ["remote-mbarrier"]
    wanted = "out-of-bounds" if name.endswith("cta") else "remote-mbarrier"
    assert copied(name, FAR[0], OWN[1]) == [wanted]


@pytest.mark.parametrize("bar", ["%r4", "%r6"])
def test_a_multicast_takes_the_offset_of_its_mbarrier(bar):
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    expected = "@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd9, [bar], 128;"
    meet = "barrier.cluster.arrive; barrier.cluster.wait;"
    assert codes(f"{expected}{meet}@%p2 {copy} [%r3], [%rd1], 128, [{bar}], 3;{WAIT}") == ["verified"]


def test_a_store_that_tells_an_mbarrier_needs_a_cluster():
    size, store = COPIES["store"]
    expected = f"@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd9, [bar], {size};"
    assert codes(expected + store.format(*OWN) + WAIT, cluster=1) == ["out-of-bounds"]


MATRICES = [
    "ldmatrix.sync.aligned.m8n8.x1{}.b16 {{%r15}}, [{}];",
    "stmatrix.sync.aligned.m8n8.x1{}.b16 [{}], {{%r15}};",
]


@pytest.mark.parametrize("instruction", MATRICES)
@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
def test_rows_of_a_matrix_lie_in_the_own_memory(instruction, space):
    for tile, far in (("%r3", False), ("%r5", True)):
        generic = f"cvt.u64.u32 %rd5, {tile}; cvta.shared.u64 %rd6, %rd5;"
        found = codes(generic + instruction.format(space, tile if space else "%rd6"))
        assert ("out-of-bounds" in found) == far


@pytest.mark.parametrize("instruction", MATRICES)
def test_rows_of_a_matrix_elsewhere_are_refused(instruction):
    assert codes(instruction.format("", "%rd1")) == ["incomplete"]


def test_a_fragment_is_loaded_and_stored_in_the_own_memory():
    registers = "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}"
    load = f"wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {registers}, [%r5];"
    store = f"wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r5], {registers};"
    assert "out-of-bounds" in codes(load)
    assert "out-of-bounds" in codes(store)
