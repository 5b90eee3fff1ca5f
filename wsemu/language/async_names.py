"""Declare the asynchronous instructions of `wsemu.ptx`: mbarriers, asynchronous copies, fences between proxies."""

from __future__ import annotations

from typing import Final

from wsemu.language.markers import functions
from wsemu.model.data import NamedTuple
from wsemu.model.isa import MOST_COUNT

_ARRIVE = "Returns the token of the current phase, uint64.  "
_BAR = "`bar` is a shared array of uint64 or int64; `index` names the element that is the mbarrier.  "

_MBARRIERS = {
    "mbarrier_init(bar, index, count)": _BAR + "Initializes an mbarrier with `count` arrivals per phase (1 to "
    "1048575).  "
    "An error if it is live: invalidate it first.  [PTX: mbarrier.init]",
    "mbarrier_inval(bar, index)": "Invalidates an mbarrier, so that its 8 bytes can be reused.  [PTX: mbarrier.inval]",
    "mbarrier_arrive(bar, index, count=1)": _ARRIVE + "Each lane arrives `count` times (1 to 1048575), and "
    "releases its "
    "earlier accesses to the waiting threads; more arrivals than the phase expects are an error.  [PTX: "
    "mbarrier.arrive]",
    "mbarrier_arrive_relaxed(bar, index, count=1)": _ARRIVE + "As `mbarrier_arrive`, but releases nothing: it orders "
    "no memory.  [PTX: mbarrier.arrive.relaxed]",
    "mbarrier_arrive_no_complete(bar, index, count)": _ARRIVE + "As `mbarrier_arrive`; an error if it completes the "
    "phase.  `mbarrier_pending_count` reads its token.  [PTX: mbarrier.arrive.noComplete]",
    "mbarrier_arrive_drop(bar, index, count=1)": _ARRIVE + "As `mbarrier_arrive`; the count of later phases is "
    "lower by these arrivals.  [PTX: mbarrier.arrive_drop]",
    "mbarrier_arrive_expect_tx(bar, index, bytes)": _ARRIVE + "The phase waits for `bytes` more (0 to 1048575) from "
    "copies; then arrives once.  [PTX: mbarrier.arrive.expect_tx]",
    "mbarrier_arrive_drop_expect_tx(bar, index, bytes)": _ARRIVE + "As `mbarrier_arrive_expect_tx`; later phases wait "
    "for one arrival fewer.  [PTX: mbarrier.arrive_drop.expect_tx]",
    "mbarrier_expect_tx(bar, index, bytes)": "The phase waits for `bytes` more (0 to 1048575); no arrival, and it "
    "orders no memory.  [PTX: mbarrier.expect_tx]",
    "mbarrier_complete_tx(bar, index, bytes)": "Reports `bytes` as transferred (0 to 1048575), as a copy does at its "
    "end; it orders no memory.  [PTX: mbarrier.complete_tx]",
    "mbarrier_test_wait(bar, index, token)": "Whether the phase of a token has completed, without waiting; true "
    "acquires what its arrivals released.  A token is valid for the current and the previous phase.  [PTX: "
    "mbarrier.test_wait]",
    "mbarrier_test_wait_parity(bar, index, parity)": "As `mbarrier_test_wait`, for the phase whose number is "
    "even (0) or "
    "odd (1): true unless that is the current one.  [PTX: mbarrier.test_wait.parity]",
    "mbarrier_try_wait(bar, index, token, hint=None)": "As `mbarrier_test_wait`, after some time, at most about `hint` "
    "nanoseconds: false does not mean that it never completes.  Loop until it is true.  [PTX: mbarrier.try_wait]",
    "mbarrier_try_wait_parity(bar, index, parity, hint=None)": "As `mbarrier_test_wait_parity`, after some time, at "
    "most about `hint` nanoseconds.  [PTX: mbarrier.try_wait.parity]",
    "mbarrier_wait(bar, index, token)": "Waits until the phase of a token has completed: `mbarrier_try_wait` in a loop."
    "  [PTX: mbarrier.try_wait]",
    "mbarrier_wait_parity(bar, index, parity)": "Waits until the phase of this parity, 0 or 1, has completed: "
    "`mbarrier_try_wait_parity` in a loop.  A new mbarrier is in phase 0, and a wait for parity 1 returns "
    "immediately.  [PTX: mbarrier.try_wait.parity]",
    "tcgen05_commit(bar, index)": "Arrives on the mbarrier `bar[index]` when the products (`tcgen05_mma_*`) that the "
    "thread has issued so far are complete; it orders nothing else.  One thread executes it.  "
    "[PTX: tcgen05.commit.mbarrier::arrive::one]",
    "mbarrier_pending_count(token)": "Pending arrivals before the `mbarrier_arrive_no_complete` that returned a token, "
    "int32.  [PTX: mbarrier.pending_count]",
}

_COPY = (
    "Copies `bytes` from element `j` of `src` in global memory to element `i` of `dst` in shared memory, "
    "asynchronously.  `src_bytes` of them are read (0: none), the rest are zeros.  Both addresses are multiples "
    "of `bytes`, a constant: "
)
_GROUPS = "`n`, a constant, of the thread's latest groups may be in flight; it orders nothing for other threads.  "
_CP_ASYNC = {
    "cp_async_ca(dst, i, src, j, bytes, src_bytes=None)": _COPY + "4, 8 or 16.  [PTX: cp.async.ca]",
    "cp_async_cg(dst, i, src, j, bytes, src_bytes=None)": _COPY + "16.  Bypasses the L1 cache.  [PTX: cp.async.cg]",
    "cp_async_ca_bytes(dst, dst_offset, src, src_offset, bytes, src_bytes=None)": "As `cp_async_ca`, with "
    "offsets in bytes from the first elements of `src` and `dst`.  [PTX: cp.async.ca]",
    "cp_async_cg_bytes(dst, dst_offset, src, src_offset, bytes, src_bytes=None)": "As `cp_async_cg`, with "
    "offsets in bytes from the first elements of `src` and `dst`.  [PTX: cp.async.cg]",
    "cp_async_commit_group()": "Commits the thread's `cp_async_*` since the last commit to a group; it may be empty.  "
    "[PTX: cp.async.commit_group]",
    "cp_async_wait_group(n)": "Waits for groups of `cp_async_*`: " + _GROUPS + "[PTX: cp.async.wait_group]",
    "cp_async_wait_all()": "Waits for all of the thread's `cp_async_*`, also those of no group.  "
    "[PTX: cp.async.wait_all]",
    "cp_async_mbarrier_arrive(bar, index)": "Arrives when the thread's earlier `cp_async_*` are complete; the phase "
    "waits for one arrival more, so its count is not used.  [PTX: cp.async.mbarrier.arrive]",
    "cp_async_mbarrier_arrive_noinc(bar, index)": "Arrives when the thread's earlier `cp_async_*` are complete; "
    "the phase's count must include this arrival.  [PTX: cp.async.mbarrier.arrive.noinc]",
}

_BULK = "`bytes` and both addresses are multiples of 16.  "
_GROUP = "A part of the thread's next bulk group.  "
_BULK_COPIES = {
    "cp_async_bulk_global_to_shared(dst, i, src, j, bytes, bar, k)": "Copies `bytes` from element `j` of `src` in "
    "global memory to element `i` of `dst` in shared memory, then credits the mbarrier `bar[k]`, which must expect "
    f"them.  {_BULK}[PTX: cp.async.bulk]",
    "cp_async_bulk_shared_to_global(dst, i, src, j, bytes)": "Copies `bytes` from element `j` of `src` in shared "
    f"memory to element `i` of `dst` in global memory.  {_GROUP}{_BULK}Plain stores to `src` need a "
    "`fence_proxy_async` before.  [PTX: cp.async.bulk]",
    "cp_async_bulk_global_to_shared_bytes(dst, dst_offset, src, src_offset, bytes, bar, k)": "As "
    "`cp_async_bulk_global_to_shared`, with offsets in bytes from the first elements of `src` and `dst`.  [PTX: "
    "cp.async.bulk]",
    "cp_async_bulk_shared_to_global_bytes(dst, dst_offset, src, src_offset, bytes)": "As "
    "`cp_async_bulk_shared_to_global`, with offsets in bytes from the first elements of `src` and `dst`.  [PTX: "
    "cp.async.bulk]",
    "cp_async_bulk_commit_group()": "Commits the thread's bulk copies and reductions to global memory since the last "
    "commit to a group; it may be empty.  [PTX: cp.async.bulk.commit_group]",
    "cp_async_bulk_wait_group(n)": f"Waits for bulk groups: {_GROUPS}[PTX: cp.async.bulk.wait_group]",
    "cp_async_bulk_wait_group_read(n)": "Waits until bulk groups have read their sources, which then may be "
    f"overwritten: {_GROUPS}[PTX: cp.async.bulk.wait_group.read]",
    "cp_async_bulk_prefetch_l2(src, j, bytes)": "Loads `bytes` from element `j` of `src` in global memory into the L2 "
    "cache; no effect here.  `bytes` and the address are multiples of 16.  [PTX: cp.async.bulk.prefetch.L2]",
    "st_bulk(dst, i, bytes)": "Stores `bytes` zeros from element `i` of `dst` in shared memory on, as plain stores do."
    "  `bytes` and the address are multiples of 8.  A GPU needs sm_100 for it.  [PTX: st.bulk]",
}


class Reduction(NamedTuple):
    """A `cp.reduce.async.bulk`: its effect on elements, and PTX's type for each supported dtype."""

    doc: str
    types: dict[str, str]


_SUMS = {
    "uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "u64", "float16": "f16", "float32": "f32",
    "float64": "f64",
}  # fmt: skip
_ORDERED = {"uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64", "float16": "f16"}
_BITS = {"uint32": "b32", "int32": "b32", "uint64": "b64", "int64": "b64"}
REDUCTIONS: Final = {
    "add": Reduction("their sum", _SUMS),
    "min": Reduction("the smaller one", _ORDERED),
    "max": Reduction("the larger one", _ORDERED),
    "and": Reduction("their common bits", _BITS),
    "or": Reduction("the bits of both", _BITS),
    "xor": Reduction("the bits in which they differ", _BITS),
    "inc": Reduction("0 where the old one in `dst` is at least that of `src`, else one more", {"uint32": "u32"}),
    "dec": Reduction("that of `src` where the old one in `dst` is 0 or above it, else one less", {"uint32": "u32"}),
}
"""description of each reduction, by its PTX name"""
_REDUCING = {
    f"cp_reduce_async_bulk_{name}(dst, i, src, j, bytes)": "Puts into each element of `bytes` from element `i` of "
    f"`dst` in global memory on {reduction.doc}, with the elements from element `j` of `src` in shared memory on; each "
    f"one is an atomic.  Both are arrays of one type: {', '.join(reduction.types)}.  {_GROUP}{_BULK}"
    "[PTX: cp.reduce.async.bulk]"
    for name, reduction in REDUCTIONS.items()
}

_TILE = (
    "`tmap` is a `wsemu.TensorMap` that the kernel got; `coordinates` are those of the tile's first element, an int or "
    "a tuple, innermost first as in PTX, the innermost at a multiple of 16 bytes.  "
)
_TENSOR_REDUCED = {
    "add": "integers of 32 bits, uint64, and floats", "min": "integers, float16 and bf16",
    "max": "integers, float16 and bf16", "inc": "uint32", "dec": "uint32", "and": "integers but int64",
    "or": "integers but int64", "xor": "integers but int64",
}  # fmt: skip
_TENSOR_COPIES = {
    "cp_async_bulk_tensor_global_to_shared(dst, i, tmap, coordinates, bar, k)": "Copies a tile of the array of `tmap` "
    "to element `i` of `dst` in shared memory, at a multiple of 128 bytes, then credits the mbarrier `bar[k]`, "
    f"which must expect all its bytes.  Elements outside the array are filled.  {_TILE}[PTX: cp.async.bulk.tensor]",
    "cp_async_bulk_tensor_global_to_shared_bytes(dst, dst_offset, tmap, coordinates, bar, k)": "As "
    "`cp_async_bulk_tensor_global_to_shared`, to an offset in bytes from the first element of `dst`.  [PTX: "
    "cp.async.bulk.tensor]",
    "cp_async_bulk_tensor_shared_to_global(tmap, coordinates, src, j)": "Copies the tile at element `j` of `src` in "
    "shared memory, at a multiple of 128 bytes, to its position in the array of `tmap`.  Elements outside are "
    "skipped.  "
    f"{_GROUP}Coordinates are 0 or above.  {_TILE}[PTX: cp.async.bulk.tensor]",
    **{
        f"cp_reduce_async_bulk_tensor_{name}(tmap, coordinates, src, j)": "Puts into each element where `tmap` has a "
        f"tile {reduction.doc.replace('`dst`', 'global memory').replace('`src`', 'the tile')}, with the elements of "
        f"the tile at element `j` of `src` in shared memory; each one is an atomic.  Of {_TENSOR_REDUCED[name]}.  "
        f"{_GROUP}Coordinates are 0 or above.  {_TILE}[PTX: cp.reduce.async.bulk.tensor]"
        for name, reduction in REDUCTIONS.items()
    },
    "cp_async_bulk_prefetch_tensor(tmap, coordinates)": "Brings a tile of the array of `tmap` into the L2 cache; no "
    f"effect here.  {_TILE}[PTX: cp.async.bulk.prefetch.tensor]",
    "prefetch_tensormap(tmap)": "Brings a tensor map into the cache; no effect.  [PTX: prefetch.tensormap]",
}

_PROXY = "Orders plain accesses and those of bulk copies with each other, of this thread and what others gave it, in "
_OTHERS = {
    "fence_proxy_async()": _PROXY + "all memory.  [PTX: fence.proxy.async]",
    "fence_proxy_async_shared_cta()": _PROXY + "the CTA's shared memory.  [PTX: fence.proxy.async.shared::cta]",
    "fence_proxy_async_global()": _PROXY + "global memory.  [PTX: fence.proxy.async.global]",
    "fence_mbarrier_init()": "Makes `mbarrier_init` visible to other CTAs of the cluster.  "
    "[PTX: fence.mbarrier_init.release.cluster]",
    "elect_sync(mask)": "Whether this lane is the one elected among those of `mask`: the lowest that executes it.  "
    "All lanes of `mask` wait for each other.  [PTX: elect.sync]",
    "setmaxnreg_inc(count)": "The warp requests `count` registers per thread, a constant from 24 to 256 in steps of 8, "
    "and waits until other warps have released them.  All warps of a warpgroup execute it.  [PTX: "
    "setmaxnreg.inc.sync.aligned]",
    "setmaxnreg_dec(count)": "The warp releases all but `count` registers per thread, a constant from 24 to 256 in "
    "steps of 8.  [PTX: setmaxnreg.dec.sync.aligned]",
    "griddepcontrol_wait()": "Waits for the launches before this one; see `wsemu.Sequence`.  "
    "[PTX: griddepcontrol.wait]",
    "griddepcontrol_launch_dependents()": "Lets the next launch begin; see `wsemu.Sequence`.  "
    "[PTX: griddepcontrol.launch_dependents]",
}
_FAR = "As `{}`, of an mbarrier of the CTA or of another one of the cluster, an array that `mapa` gave; no token.  "
_SENT = "must expect its bytes.  `dst` and `bar` are of one CTA of the cluster, arrays that `mapa` gave.  "
CLUSTER_REGISTERS: Final = {
    **{
        f"{name}_{axis}": f"{what}, along {axis}, int32.  [PTX: %{name}.{axis}]"
        for name, what in {
            "cluster_ctaid": "The CTA's index in its cluster",
            "cluster_nctaid": "The CTAs of a cluster",
            "clusterid": "The cluster's index in the grid",
            "nclusterid": "The clusters of the grid",
        }.items()
        for axis in "xyz"
    },
    "cluster_ctarank": "The CTA's rank in its cluster, int32.  [PTX: %cluster_ctarank]",
    "cluster_nctarank": "The CTAs of a cluster, int32.  [PTX: %cluster_nctarank]",
}
"""description of each register, by its name"""
_CLUSTERS = {
    **{f"{name}()": text for name, text in CLUSTER_REGISTERS.items()},
    "cluster_arrive()": "Arrives at the cluster barrier without waiting, and releases the thread's earlier "
    "accesses.  A "
    "thread arrives once, then waits.  [PTX: barrier.cluster.arrive]",
    "cluster_arrive_relaxed()": "As `cluster_arrive`, but releases nothing: it orders no memory, except that mbarriers "
    "initialized before a `fence_mbarrier_init` are visible to all.  [PTX: barrier.cluster.arrive.relaxed]",
    "cluster_wait()": "Waits until all threads of the cluster that have not exited have arrived.  "
    "[PTX: barrier.cluster.wait]",
    "cluster_sync()": "`cluster_arrive` and `cluster_wait`.  [PTX: barrier.cluster.arrive, barrier.cluster.wait]",
    "mapa(ary, rank)": "The shared array `ary` of the CTA of this rank in the cluster; its elements can be read, "
    "written and used in atomics while that CTA runs.  [PTX: mapa]",
    "mbarrier_arrive_cluster(bar, index, count=1, scope=None)": _FAR.format("mbarrier_arrive")
    + 'With the scope "cta" it releases nothing to other CTAs.  '
    + "[PTX: mbarrier.arrive.release.cluster.shared::cluster]",
    "mbarrier_arrive_drop_cluster(bar, index, count=1)": _FAR.format("mbarrier_arrive_drop")
    + "[PTX: mbarrier.arrive_drop.release.cluster.shared::cluster]",
    "mbarrier_arrive_expect_tx_cluster(bar, index, bytes)": _FAR.format("mbarrier_arrive_expect_tx")
    + "[PTX: mbarrier.arrive.expect_tx.release.cluster.shared::cluster]",
    "mbarrier_expect_tx_cluster(bar, index, bytes)": _FAR.format("mbarrier_expect_tx")
    + "[PTX: mbarrier.expect_tx.relaxed.cluster.shared::cluster]",
    "mbarrier_complete_tx_cluster(bar, index, bytes)": _FAR.format("mbarrier_complete_tx")
    + "[PTX: mbarrier.complete_tx.relaxed.cluster.shared::cluster]",
    "cp_async_bulk_global_to_shared_multicast(dst, i, src, j, bytes, bar, k, ctas)": "As "
    "`cp_async_bulk_global_to_shared`, to the same offset in each CTA of the cluster whose rank has a bit in `ctas`; "
    f"each credits its own `bar[k]`.  {_BULK}[PTX: cp.async.bulk.multicast::cluster]",
    "cp_async_bulk_shared_to_cluster(dst, i, src, j, bytes, bar, k)": "Copies `bytes` from element `j` of `src` in the "
    "CTA's shared memory to element `i` of `dst`, then credits the mbarrier `bar[k]`, which "
    + _SENT
    + _BULK
    + "Plain stores to `src` need a `fence_proxy_async` before.  [PTX: cp.async.bulk.shared::cluster.shared::cta]",
    "cp_async_bulk_tensor_global_to_shared_multicast(dst, i, tmap, coordinates, bar, k, ctas)": "As "
    "`cp_async_bulk_tensor_global_to_shared`, to the same offset in each CTA of the cluster whose rank has a bit in "
    f"`ctas`.  {_TILE}[PTX: cp.async.bulk.tensor.multicast::cluster]",
    "st_async(dst, i, value, bar, k)": "Stores `value` to `dst[i]` asynchronously, and then credits the mbarrier "
    "`bar[k]`, which " + _SENT + "Of numbers of 32 or 64 bits.  [PTX: st.async]",
    **{
        f"red_async_{name}(dst, i, value, bar, k)": f"As `st_async`, puts into `dst[i]` {reduction.doc}".replace(
            "that of `src`", "`value`"
        ).replace("the old one in `dst`", "the old one")
        + f", with `value`, as an atomic.  Of {', '.join(t for t in reduction.types if not t.startswith('float'))}.  "
        "[PTX: red.async]"
        for name, reduction in REDUCTIONS.items()
    },
}
FUNCTIONS: Final = functions(
    "ptx", "", {**_MBARRIERS, **_CP_ASYNC, **_BULK_COPIES, **_REDUCING, **_TENSOR_COPIES, **_OTHERS, **_CLUSTERS}
)
"""kernel function of each name"""
CLUSTER_NAMES: Final = tuple(signature.partition("(")[0] for signature in _CLUSTERS)
"""names of functions that concern other CTAs"""

COPY_BYTES: Final = {
    **dict.fromkeys(("cp_async_ca", "cp_async_ca_bytes"), (4, 8, 16)),
    **dict.fromkeys(("cp_async_cg", "cp_async_cg_bytes"), (16,)),
}
"""name -> valid sizes of its copies in bytes"""
_COUNT, _TX_BYTES = {"count": range(1, MOST_COUNT + 1)}, {"bytes": range(MOST_COUNT + 1)}
_PARITY, _GROUPS_LEFT = {"parity": range(2)}, {"n": range(1 << 31)}
_COUNTED_BYTES = {"bytes": range(0, MOST_COUNT + 1, 16)}
"""operand ranges of a bulk copy whose bytes an mbarrier counts"""
_BULK_BYTES, _REGISTERS = {"bytes": range(0, (1 << 32) - 1, 16)}, {"count": range(24, 257, 8)}
ALLOWED: Final[dict[str, dict[str, range]]] = {
    **dict.fromkeys(("mbarrier_init", "mbarrier_arrive", "mbarrier_arrive_relaxed"), _COUNT),
    **dict.fromkeys(("mbarrier_arrive_no_complete", "mbarrier_arrive_drop"), _COUNT),
    **dict.fromkeys(("mbarrier_arrive_expect_tx", "mbarrier_arrive_drop_expect_tx"), _TX_BYTES),
    **dict.fromkeys(("mbarrier_expect_tx", "mbarrier_complete_tx"), _TX_BYTES),
    **dict.fromkeys(("mbarrier_test_wait_parity", "mbarrier_try_wait_parity", "mbarrier_wait_parity"), _PARITY),
    **dict.fromkeys(("cp_async_wait_group", "cp_async_bulk_wait_group", "cp_async_bulk_wait_group_read"), _GROUPS_LEFT),
    **dict.fromkeys(("cp_async_bulk_shared_to_global", "cp_async_bulk_prefetch_l2"), _BULK_BYTES),
    "cp_async_bulk_shared_to_global_bytes": _BULK_BYTES,
    **dict.fromkeys((f"cp_reduce_async_bulk_{name}" for name in REDUCTIONS), _BULK_BYTES),
    **dict.fromkeys(("cp_async_bulk_global_to_shared", "cp_async_bulk_global_to_shared_bytes"), _COUNTED_BYTES),
    **dict.fromkeys(("mbarrier_arrive_cluster", "mbarrier_arrive_drop_cluster"), _COUNT),
    "mbarrier_arrive_expect_tx_cluster": _TX_BYTES,
    **dict.fromkeys(("mbarrier_expect_tx_cluster", "mbarrier_complete_tx_cluster"), _TX_BYTES),
    "cp_async_bulk_global_to_shared_multicast": _COUNTED_BYTES,
    "cp_async_bulk_shared_to_cluster": _COUNTED_BYTES,
    "st_bulk": {"bytes": range(0, (1 << 32) - 1, 8)},
    **dict.fromkeys(("setmaxnreg_inc", "setmaxnreg_dec"), _REGISTERS),
}
"""name -> parameter -> its valid values (PTX ISA, the instruction's section)"""
_CALLED = {"bytes": "number of bytes", "n": "number of groups", "columns": "number of columns"}


def operand_text(name: str, parameter: str) -> str:
    """Return the name of an operand in messages."""
    return f"the {_CALLED.get(parameter, parameter)} of `ptx.{name}`"


def operand_range_text(allowed: range | tuple[int, ...]) -> str:
    """Return the help that lists the allowed values of an operand."""
    if isinstance(allowed, tuple):
        return f"give {', '.join(map(str, allowed[:-1]))} or {allowed[-1]}"
    step = f", a multiple of {allowed.step}" if allowed.step > 1 else ""
    return f"give {allowed[0]} to {allowed[-1]}{step}"
