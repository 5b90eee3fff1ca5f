"""Clusters on both engines: what CTAs tell each other, PTX of CUDA C++, names, messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.language.async_names import CLUSTER_NAMES
from wsemu.machine.memory.shadow_planes import Suspected
from wsemu.model.errors import KernelError, UsageError

PTX = Path(__file__).parents[1] / "ptx" / "clusters.sm_90a.ptx"
N = 128


def checked(kernel, arguments, cluster=2, grid=4, block=32, **options):
    """The report of a kernel, the same on both engines, and its arguments as they are then."""
    reports, results = [], []
    for engine in ("vm", "reference"):
        given = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
        report = wsemu.check(kernel, grid, block, given, cluster=cluster, engine=engine, **options)
        reports.append(report.model_dump(exclude={"seconds", "inputs"}))
        results.append(given)
    assert reports[0] == reports[1]
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)
    return report, results[0]


def codes(report):
    return {finding.code for finding in report.findings}


def test_possible_conflicts_are_found_in_the_shared_memory_of_each_cta():
    marks = np.zeros(8192, np.uint8)
    marks[[0, 63, 4096, 4101, 4159]] = 1
    for parts in ((), ((0, 64), (4096, 4160))):
        assert Suspected(2, marks, parts).bytes().tolist() == [0, 63, 4096, 4101, 4159]


# -- what arrives ------------------------------------------------------------------------------------------------------
@cuda.jit
def shifted(x, y):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    ptx.cluster_sync()
    there = ptx.mapa(tile, (ptx.cluster_ctarank() + 1) % ptx.cluster_nctarank())
    y[cuda.grid(1)] = there[t]
    ptx.cluster_sync()


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_loads_come_from_the_cta_of_a_rank(cluster):
    x = np.arange(N, dtype=np.int32)
    report, (_, y) = checked(shifted, (x, np.zeros_like(x)), cluster)
    assert report.verdict == "verified"
    assert np.array_equal(y, np.roll(x.reshape(-1, cluster, 32), -1, 1).ravel())


@cuda.jit
def sent(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    got = cuda.shared.array(64, np.float32, 16)
    count = cuda.shared.array(1, np.int32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0
        ptx.mbarrier_init(full, 0, 33)
        ptx.mbarrier_expect_tx(full, 0, 128)
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
    tile[t] = x[cuda.grid(1)]
    ptx.fence_proxy_async()
    ptx.cluster_sync()
    other = ptx.cluster_ctarank() ^ 1
    there, told = ptx.mapa(got, other), ptx.mapa(full, other)
    if t == 0:
        ptx.cp_async_bulk_shared_to_cluster(there, 0, tile, 0, 128, told, 0)
    ptx.st_async(there, 32 + t, 2 * t, told, 0)
    ptx.red_async_add(ptx.mapa(count, other), 0, t, told, 0)
    ptx.mbarrier_arrive_cluster(told, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[cuda.grid(1)] = got[t] + got[t + 32] + count[0]
    ptx.cluster_sync()


def test_copies_values_and_sums_go_to_another_cta():
    x = np.arange(N, dtype=np.float32)
    report, (_, y) = checked(sent, (x, np.zeros_like(x)))
    assert report.verdict == "verified"
    assert np.array_equal(y, x.reshape(2, 2, 32)[:, ::-1].ravel() + np.tile(2 * np.arange(32), 4) + 496)


@cuda.jit
def counted(y):
    count = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0
    ptx.cluster_sync()
    cuda.atomic.add(ptx.mapa(count, 0), 0, 1)
    ptx.cluster_sync()
    if t == 0:
        y[cuda.blockIdx.x] = count[0]


def test_atomics_in_the_memory_of_another_cta():
    report, (y,) = checked(counted, (np.zeros(4, np.int32),))
    assert report.verdict == "verified"
    assert y.tolist() == [64, 0, 64, 0]


@cuda.jit
def tile_for_all(tmap, y):
    tile = cuda.shared.array(64, np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
    ptx.cluster_arrive_relaxed()
    ptx.cluster_wait()
    if t == 0 and ptx.cluster_ctarank() == 1:
        ptx.cp_async_bulk_tensor_global_to_shared_multicast(tile, 0, tmap, (0, 2), full, 0, 3)
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[cuda.grid(1)] = tile[t] + tile[t + 32]
    ptx.cluster_sync()


def test_a_tile_goes_to_all_ctas_of_a_mask():
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    reports = []
    for engine in ("vm", "reference"):
        y = np.zeros(64, np.float32)
        tmap = wsemu.TensorMap(x, (4, 16))
        reports.append(wsemu.check(tile_for_all, 2, 32, (tmap, y), cluster=2, engine=engine))
        assert np.array_equal(y, np.tile(x[2:6].ravel()[:32] + x[2:6].ravel()[32:], 2))
    assert [report.verdict for report in reports] == ["verified", "verified"]


# -- rules of the barrier ----------------------------------------------------------------------------------------------
@cuda.jit
def some_leave(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t >= 32:
        return
    tile[t] = x[cuda.blockIdx.x * 32 + t]
    ptx.cluster_sync()
    y[cuda.blockIdx.x * 32 + t] = ptx.mapa(tile, ptx.cluster_ctarank() ^ 1)[t]
    ptx.cluster_sync()


def test_threads_that_have_exited_are_not_waited_for():
    x = np.arange(N, dtype=np.float32)
    report, (_, y) = checked(some_leave, (x, np.zeros_like(x)), block=64)
    assert report.verdict == "verified"
    assert np.array_equal(y, x.reshape(2, 2, 32)[:, ::-1].ravel())


@cuda.jit
def written_by_who_left(y):
    cell = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t >= 32:
        cell[0] = 7
        return
    ptx.cluster_sync()
    y[cuda.blockIdx.x * 32 + t] = cell[0]


def test_an_exit_gives_nothing():
    assert "race" in codes(checked(written_by_who_left, (np.zeros(N, np.int32),), block=64)[0])


@cuda.jit
def relaxed(x, y):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    ptx.cluster_arrive_relaxed()
    ptx.cluster_wait()
    y[cuda.grid(1)] = ptx.mapa(tile, ptx.cluster_ctarank() ^ 1)[t]
    ptx.cluster_sync()


def test_a_relaxed_arrive_gives_nothing():
    x = np.arange(N, dtype=np.float32)
    report, _ = checked(relaxed, (x, np.zeros_like(x)))
    assert codes(report) == {"race"}
    assert "cluster_sync" in report.findings[0].help


@cuda.jit
def one_cta_alone(y):
    if ptx.cluster_ctarank() == 0:
        ptx.cluster_wait()
    ptx.cluster_arrive()
    y[cuda.grid(1)] = 1


def test_a_wait_without_an_arrive_is_told():
    assert codes(checked(one_cta_alone, (np.zeros(N, np.int32),))[0]) == {"cluster-barrier"}


@cuda.jit
def never_meets(y):
    if ptx.cluster_ctarank() == 0:
        ptx.bar_sync(1, 64)
    ptx.cluster_sync()
    y[cuda.grid(1)] = 1


def test_a_deadlock_names_who_waits_in_the_cluster():
    report, _ = checked(never_meets, (np.zeros(N, np.int32),))
    (found,) = (finding for finding in report.findings if finding.code == "deadlock")
    assert "warp 0 of CTA (1, 0, 0) waits at" in repr(found.notes)


@cuda.jit
def beyond(x, y):
    tile = cuda.shared.array(32, np.float32)
    tile[cuda.threadIdx.x] = 0
    ptx.cluster_sync()
    y[cuda.grid(1)] = ptx.mapa(tile, 2)[0] + ptx.mapa(tile, 1)[32]
    ptx.cluster_sync()


def test_addresses_of_no_cta_and_behind_an_array_are_out_of_bounds():
    x = np.arange(N, dtype=np.float32)
    report, _ = checked(beyond, (x, np.zeros_like(x)))
    assert codes(report) == {"out-of-bounds"}


@cuda.jit
def of_a_rank(rank, y):
    tile = cuda.shared.array(32, np.int32)
    tile[cuda.threadIdx.x] = 1
    ptx.cluster_sync()
    if cuda.threadIdx.x == 0:
        y[cuda.blockIdx.x] = ptx.mapa(tile, rank)[0]
    ptx.cluster_sync()


@pytest.mark.parametrize("cluster", [None, 1, 2])
@pytest.mark.parametrize("rank", [0, 1, 2, 7, 1 << 15, 1 << 24, (1 << 32) - 1])
def test_a_rank_that_the_cluster_does_not_have_also_without_clusters(rank, cluster):
    report, _ = checked(of_a_rank, (np.uint32(rank), np.zeros(4, np.int32)), cluster=cluster)
    assert codes(report) == (set() if rank < (cluster or 1) else {"out-of-bounds"})


@cuda.jit
def cast(mask, x, y):
    tile = cuda.shared.array(4, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    ptx.cluster_sync()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 16)
        if ptx.cluster_ctarank() == 0:
            ptx.cp_async_bulk_global_to_shared_multicast(tile, 0, x, 0, 16, full, 0, mask)
        ptx.mbarrier_wait_parity(full, 0, 0)
        y[cuda.blockIdx.x] = tile[0]
    ptx.cluster_sync()


@pytest.mark.parametrize(("cluster", "mask"), [(None, 1), (2, 3), (None, 3), (2, 7), (None, 1 << 15 | 1)])
def test_a_multicast_to_a_rank_that_the_cluster_does_not_have(cluster, mask):
    arguments = np.uint32(mask), np.ones(4, np.float32), np.zeros(2, np.float32)
    report, _ = checked(cast, arguments, cluster=cluster, grid=2)
    if mask >> (cluster or 1):  # within a cluster the mbarrier is looked for first, which is none there
        assert codes(report) & {"out-of-bounds", "mbarrier-uninitialized"}
    else:
        assert report.verdict == "verified"


# -- launches ----------------------------------------------------------------------------------------------------------
@cuda.jit
def told(out):
    x, y = cuda.blockIdx.x, cuda.blockIdx.y
    out[x, y, 0] = ptx.cluster_ctarank()
    out[x, y, 1] = ptx.cluster_ctaid_x() + 10 * ptx.cluster_ctaid_y()
    out[x, y, 2] = ptx.clusterid_x() + 10 * ptx.clusterid_y()
    out[x, y, 3] = ptx.cluster_nctaid_x() + 10 * ptx.nclusterid_y()


def test_what_a_cta_is_told_of_its_cluster():
    out = np.zeros((4, 6, 4), np.int32)
    _, (out,) = checked(told, (out,), cluster=(2, 3), grid=(4, 6), block=1)
    x, y = np.meshgrid(np.arange(4), np.arange(6), indexing="ij")
    assert np.array_equal(out[..., 0], x % 2 + 2 * (y % 3))
    assert np.array_equal(out[..., 1], x % 2 + 10 * (y % 3))
    assert np.array_equal(out[..., 2], x // 2 + 10 * (y // 3))
    assert (out[..., 3] == 2 + 10 * 2).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluster": 3}, "a grid of 4 x 1 x 1 CTAs is no number of clusters of 3 x 1 x 1"),
        ({"cluster": 32, "grid": 32}, "at most 16 on sm_90, and 8 on every GPU"),
        ({"cluster": 16, "grid": 16, "arch": "sm_120"}, "at most 8 on sm_120; use smaller clusters"),
        ({"cluster": 2, "arch": "sm_80"}, "there are none on sm_80"),
        ({"cluster": 0}, "is empty"),
    ],
)
def test_a_launch_that_cannot_be(options, said):
    with pytest.raises(UsageError, match=said):
        wsemu.check(counted, **{"grid": 4, "block": 32, "args": (np.zeros(4, np.int32),), **options})


def test_a_cluster_in_the_brackets_of_a_launch():
    y = np.zeros(4, np.int32)
    counted[4, 32, 0, 0, 2](y)
    assert y.tolist() == [64, 0, 64, 0]


def test_a_cluster_of_more_than_32_warps_is_decided():
    report = wsemu.check(counted, 16, 96, (np.zeros(16, np.int32),), cluster=16)
    assert report.verdict == "verified"


@cuda.jit
def of_global(x, y):
    y[0] = ptx.mapa(x, 0)[0]


def test_mapa_of_what_is_not_shared_is_refused():
    with pytest.raises(KernelError, match="which is in global memory"):
        wsemu.check(of_global, 2, 32, (np.zeros(4), np.zeros(4)), cluster=2)


# -- PTX of CUDA C++ ---------------------------------------------------------------------------------------------------
X = np.arange(512, dtype=np.float32)
INPUT = np.random.default_rng(0).integers(0, 16, 256).astype(np.int32)


def lines_of(*values):
    return np.concatenate([np.asarray(value) for value in values])


@pytest.mark.parametrize(
    ("kernel", "arguments", "options", "wanted"),
    [
        (
            "histogram",
            (np.zeros(16, np.int32), 16, INPUT, 256),
            {"dynamic_shared": 64},
            np.bincount(INPUT, minlength=16),
        ),
        ("reduce", (np.zeros(4, np.float32), X), {"cluster": 2}, [2016, 2016, 6112, 6112]),
        (
            "pass_on",
            (np.zeros(128, np.int32), np.arange(128, dtype=np.int32)),
            {},
            lines_of(*(np.arange(k, k + 32) + np.arange(32) + 32 for k in (32, 0, 96, 64))),
        ),
        ("multicast", (np.zeros(128, np.float32), X), {}, np.tile(X[:32] + X[32:64], 4)),
    ],
)
def test_kernels_of_cuda_are_right_and_verified(kernel, arguments, options, wanted):
    report, result = checked(wsemu.load_ptx(PTX)[kernel], arguments, **{"cluster": None, **options})
    assert report.verdict == "verified", report
    assert np.array_equal(result[0], wanted)


def test_a_kernel_of_cuda_is_told_of_its_cluster():
    _, (out,) = checked(wsemu.load_ptx(PTX)["whereabouts"], (np.zeros(64, np.uint32),), (2, 2), (4, 2))
    rows = out.reshape(8, 8)
    assert rows[:, 0].tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert (rows[:, [1, 3, 4, 6, 7]] == [4, 22, 3, 2, 1]).all()


def test_an_arrive_of_cta_scope_is_found_in_cuda():
    arguments = np.zeros(64, np.int32), np.arange(32, dtype=np.int32)
    report, _ = checked(wsemu.load_ptx(PTX)["narrow"], arguments, None, 2)
    assert codes(report) == {"race", "scope", "dsmem-relaxed-exit"}


def test_every_name_of_clusters_is_documented():
    assert all(getattr(ptx, name).__doc__ for name in CLUSTER_NAMES)


# -- what is over before a CTA ends ------------------------------------------------------------------------------------
@cuda.jit
def many_sent_and_left(x, rounds):
    tile = cuda.shared.array(4, np.float32, 16)
    got = cuda.shared.array((32, 4), np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t < 4:
        tile[t] = x[t]
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    ptx.fence_proxy_async()
    ptx.cluster_sync()
    if ptx.cluster_ctarank() == 0:
        ptx.cp_async_bulk_shared_to_cluster(ptx.mapa(got, 1), (t, 0), tile, 0, 16, ptx.mapa(full, 1), 0)
    else:
        for i in range(rounds):
            if i > 0:
                ptx.cp_async_bulk_global_to_shared(got, (t, 0), x, 0, 16, full, 0)
            if t == 0:
                ptx.mbarrier_arrive_expect_tx(full, 0, 512)
            ptx.mbarrier_wait_parity(full, 0, i & 1)
            cuda.syncwarp()


def test_what_an_ended_cta_did_not_know_is_not_forgotten():
    """So many copies follow that the VM drops those which all live threads know from what is known of each; the other
    engine drops none."""
    report, _ = checked(many_sent_and_left, (np.ones(4, np.float32), 3), grid=2)
    many = wsemu.check(many_sent_and_left, 2, 32, (np.ones(4, np.float32), 70), cluster=2)
    assert codes(report) == codes(many) == {"async-outlives-cta"}


# -- what fences and atomics order -------------------------------------------------------------------------------------
def handed_over(wide, local):
    """A kernel in which one CTA hands a tile to the other one, in global memory or in the memory of the one that
    takes it, by a fence and an atomic on each side."""

    @cuda.jit
    def kernel(x, z, flag, y):
        tile = cuda.shared.array(32, np.float32)
        t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
        tile[t] = 0
        ptx.cluster_sync()
        if rank == 0:
            if local:
                ptx.mapa(tile, 1)[t] = x[t]
            else:
                z[t] = x[t]
            cuda.syncwarp()
            if t == 0:
                if wide:
                    cuda.threadfence()
                else:
                    cuda.threadfence_block()
                cuda.atomic.exch(flag, 0, 1)
        else:
            if t == 0:
                while cuda.atomic.add(flag, 0, 0) == 0:
                    pass
                if wide:
                    cuda.threadfence()
                else:
                    cuda.threadfence_block()
            cuda.syncwarp()
            y[t] = tile[t] if local else z[t]
        if local:
            ptx.cluster_sync()

    return kernel


@pytest.mark.parametrize("local", [False, True])
def test_what_fences_and_atomics_order_in_a_cluster_is_not_called_a_race(local):
    arrays = np.arange(32, dtype=np.float32), np.zeros(32, np.float32), np.zeros(1, np.int32), np.zeros(32, np.float32)
    report, (*_, y) = checked(handed_over(True, local), arrays, grid=2)
    assert report.verdict == "incomplete", report
    assert report.reasons == ["atomics"]
    assert np.array_equal(y, np.arange(32))


@pytest.mark.parametrize("local", [False, True])
def test_a_fence_of_cta_scope_orders_nothing_between_ctas_of_a_cluster(local):
    arrays = np.arange(32, dtype=np.float32), np.zeros(32, np.float32), np.zeros(1, np.int32), np.zeros(32, np.float32)
    report, _ = checked(handed_over(False, local), arrays, grid=2)
    assert "race" in codes(report)


@cuda.jit
def acknowledged(x, flag, y):
    tile = cuda.shared.array(32, np.float32)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    tile[t] = x[t]
    ptx.cluster_sync()
    if rank == 1:
        y[t] = ptx.mapa(tile, 0)[t]
        cuda.syncwarp()
        if t == 0:
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
    elif t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()


def test_an_exit_behind_an_acknowledgement_is_not_called_too_early():
    x = np.arange(32, dtype=np.float32)
    report, _ = checked(acknowledged, (x, np.zeros(1, np.int32), np.zeros_like(x)), grid=2)
    assert report.verdict == "incomplete"
    assert not codes(report)


@cuda.jit
def fenced_and_relaxed(x, y, wide):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    if wide:
        cuda.threadfence()
    else:
        cuda.threadfence_block()
    ptx.cluster_arrive_relaxed()
    ptx.cluster_wait()
    y[cuda.grid(1)] = ptx.mapa(tile, ptx.cluster_ctarank() ^ 1)[t]
    ptx.cluster_sync()


def test_a_fence_before_a_relaxed_arrive_is_not_called_a_race():
    """PTX ISA, "barrier.cluster", the second example: the two release together."""
    x = np.arange(N, dtype=np.float32)
    report, _ = checked(fenced_and_relaxed, (x, np.zeros_like(x), True))
    assert report.verdict == "incomplete"
    assert "race" in codes(checked(fenced_and_relaxed, (x, np.zeros_like(x), False))[0])


# -- operands of the CTA's own memory ----------------------------------------------------------------------------------
@cuda.jit
def of_another_cta(x, y, what):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    tile[0, t] = x[t]
    tile[1, t] = 0
    ptx.fence_proxy_async()
    ptx.cluster_sync()
    there, here, told = ptx.mapa(tile, rank ^ 1), ptx.mapa(tile, rank), ptx.mapa(full, rank)
    if what == 0 and t == 0:
        ptx.cp_async_bulk_shared_to_global(y, rank * 32, there, (0, 0), 128)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)
    if what == 1:
        ptx.cp_async_ca(there, (1, t), x, t, 4)
        ptx.cp_async_wait_all()
    if what >= 2 and t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)
    if what == 2 and t == 0:
        ptx.cp_async_bulk_shared_to_cluster(here, (1, 0), tile, (0, 0), 128, told, 0)
    if what == 3 and t == 0:
        ptx.cp_async_bulk_shared_to_cluster(here, (1, 0), there, (0, 0), 128, told, 0)
    if what == 4 and t == 0:
        ptx.st_bulk(there, (1, 0), 128)
    ptx.cluster_sync()


@pytest.mark.parametrize("what", range(5))
def test_an_operand_has_to_be_in_the_ctas_own_memory_or_in_anothers(what):
    """PTX ISA, "cp.async.bulk": `.shared::cta` is the executing CTA's, the target of a copy from there is not."""
    arrays = np.arange(32, dtype=np.float32), np.zeros(64, np.float32)
    found = next(f for f in checked(of_another_cta, (*arrays, what), grid=2)[0].findings if f.code == "out-of-bounds")
    assert ("its own CTA" if what == 2 else "rank") in found.message


STATES = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 y)
.explicitcluster
.reqnctapercluster 2, 1, 1
{{
    .reg .b32 %r<10>;
    .shared .align 4 .b8 s[128];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r3, %r2, 1;
    mov.u32 %r4, s;
    shl.b32 %r5, %r1, 2;
    add.u32 %r4, %r4, %r5;
    st.shared.u32 [%r4], %r1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r6, %r4, %r3;
    {}
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
"""


@pytest.mark.parametrize(
    ("instruction", "verdict"),
    [
        ("ld.shared::cluster.u32 %r7, [%r6];", "verified"),
        ("st.shared::cluster.u32 [%r6], %r1;", "verified"),
        ("red.relaxed.cluster.shared::cluster.add.u32 [%r6], 1;", "verified"),
        ("ld.shared.u32 %r7, [%r4];", "verified"),
        ("red.relaxed.cta.shared::cluster.add.u32 [%r6], 1;", "verified"),
        ("ld.shared.u32 %r7, [%r6];", "failed"),
        ("ld.relaxed.cluster.shared::cta.u32 %r7, [%r6];", "failed"),
        ("st.shared::cta.u32 [%r6], %r1;", "failed"),
        ("red.shared.add.u32 [%r6], 1;", "failed"),
    ],
)
def test_state_spaces_say_whose_shared_memory_it_is(instruction, verdict):
    """PTX ISA, "State spaces": `.shared` is `.shared::cta`, the memory of the executing CTA."""
    report, _ = checked(wsemu.load_ptx(STATES.format(instruction))["k"], (np.zeros(1, np.int32),), None, 2)
    assert report.verdict == verdict
    assert codes(report) == ({"out-of-bounds"} if verdict == "failed" else set())
