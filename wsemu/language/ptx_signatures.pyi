"""Names for kernels, for type checkers alone; made by tests/stubs.py."""

from typing import Any, Final

LOAD_QUALIFIERS: Final[dict[str, str]]
STORE_QUALIFIERS: Final[dict[str, str]]
ACCESS_WIDTHS: Final[dict[int, str]]

def bar_sync(barrier: Any, count: Any = ...) -> Any:
    """
    Wait on a named barrier for `count` threads; no count means the whole CTA.
    """
def bar_arrive(barrier: Any, count: Any) -> Any:
    """
    Give a named barrier of `count` threads, without waiting.
    """
def bar_red_popc(barrier: Any, count: Any, predicate: Any) -> Any:
    """
    bar_sync; returns how many threads had a true predicate, int32.
    """
def bar_red_and(barrier: Any, count: Any, predicate: Any) -> Any:
    """
    bar_sync; returns whether every predicate was true.
    """
def bar_red_or(barrier: Any, count: Any, predicate: Any) -> Any:
    """
    bar_sync; returns whether any predicate was true.
    """
def barrier_sync(barrier: Any, count: Any = ...) -> Any:
    """
    Wait on a named barrier for `count` threads; no count means the whole CTA. Lanes of a warp may
    diverge.
    """
def barrier_arrive(barrier: Any, count: Any) -> Any:
    """
    Give a named barrier of `count` threads, without waiting. Lanes of a warp may diverge.
    """
def barrier_red_popc(barrier: Any, count: Any, predicate: Any) -> Any:
    """
    bar_sync; returns how many threads had a true predicate, int32. Lanes of a warp may diverge.
    """
def barrier_red_and(barrier: Any, count: Any, predicate: Any) -> Any:
    """
    bar_sync; returns whether every predicate was true. Lanes of a warp may diverge.
    """
def barrier_red_or(barrier: Any, count: Any, predicate: Any) -> Any:
    """
    bar_sync; returns whether any predicate was true. Lanes of a warp may diverge.
    """
def ld_bytes(array: Any, offset: Any, width: Any, qualifier: Any = ...) -> Any:
    """
    Load `width` bytes (4, 8 or 16, a constant) that begin `offset` bytes after the first element of
    `array`, in one access: a tuple of uint32, the lowest address first.  `qualifier` is one of '',
    'ca', 'cg', 'cs', 'lu', 'cv', 'nc'.
    """
def st_bytes(array: Any, offset: Any, words: Any, qualifier: Any = ...) -> Any:
    """
    Store 1, 2 or 4 uint32 `words` side by side, `offset` bytes after the first element of `array`,
    in one access.  `qualifier` is one of '', 'wb', 'cg', 'cs', 'wt'.
    """
def ld_ca(array: Any, index: Any) -> Any:
    """
    Load the element at `index`, cached at all levels.
    """
def ld_cg(array: Any, index: Any) -> Any:
    """
    Load the element at `index`, cached in L2.
    """
def ld_cs(array: Any, index: Any) -> Any:
    """
    Load the element at `index`, likely read once.
    """
def ld_lu(array: Any, index: Any) -> Any:
    """
    Load the element at `index`, last use.
    """
def ld_cv(array: Any, index: Any) -> Any:
    """
    Load the element at `index`, not cached.
    """
def ld_nc(array: Any, index: Any) -> Any:
    """
    Load the element at `index`, through the read-only cache.
    """
def st_wb(array: Any, index: Any, value: Any) -> Any:
    """
    Store the element at `index`, written back.
    """
def st_cg(array: Any, index: Any, value: Any) -> Any:
    """
    Store the element at `index`, cached in L2.
    """
def st_cs(array: Any, index: Any, value: Any) -> Any:
    """
    Store the element at `index`, likely accessed once.
    """
def st_wt(array: Any, index: Any, value: Any) -> Any:
    """
    Store the element at `index`, written through.
    """
def ld_v2(array: Any, index: Any) -> Any:
    """
    Load 2 elements from `index` on, in one access.
    """
def ld_v2_ca(array: Any, index: Any) -> Any:
    """
    Load 2 elements from `index` on, in one access, cached at all levels.
    """
def ld_v2_cg(array: Any, index: Any) -> Any:
    """
    Load 2 elements from `index` on, in one access, cached in L2.
    """
def ld_v2_cs(array: Any, index: Any) -> Any:
    """
    Load 2 elements from `index` on, in one access, likely read once.
    """
def ld_v2_lu(array: Any, index: Any) -> Any:
    """
    Load 2 elements from `index` on, in one access, last use.
    """
def ld_v2_cv(array: Any, index: Any) -> Any:
    """
    Load 2 elements from `index` on, in one access, not cached.
    """
def ld_v2_nc(array: Any, index: Any) -> Any:
    """
    Load 2 elements from `index` on, in one access, through the read-only cache.
    """
def st_v2(array: Any, index: Any, values: Any) -> Any:
    """
    Store 2 elements from `index` on, in one access.
    """
def st_v2_wb(array: Any, index: Any, values: Any) -> Any:
    """
    Store 2 elements from `index` on, in one access, written back.
    """
def st_v2_cg(array: Any, index: Any, values: Any) -> Any:
    """
    Store 2 elements from `index` on, in one access, cached in L2.
    """
def st_v2_cs(array: Any, index: Any, values: Any) -> Any:
    """
    Store 2 elements from `index` on, in one access, likely accessed once.
    """
def st_v2_wt(array: Any, index: Any, values: Any) -> Any:
    """
    Store 2 elements from `index` on, in one access, written through.
    """
def ld_v4(array: Any, index: Any) -> Any:
    """
    Load 4 elements from `index` on, in one access.
    """
def ld_v4_ca(array: Any, index: Any) -> Any:
    """
    Load 4 elements from `index` on, in one access, cached at all levels.
    """
def ld_v4_cg(array: Any, index: Any) -> Any:
    """
    Load 4 elements from `index` on, in one access, cached in L2.
    """
def ld_v4_cs(array: Any, index: Any) -> Any:
    """
    Load 4 elements from `index` on, in one access, likely read once.
    """
def ld_v4_lu(array: Any, index: Any) -> Any:
    """
    Load 4 elements from `index` on, in one access, last use.
    """
def ld_v4_cv(array: Any, index: Any) -> Any:
    """
    Load 4 elements from `index` on, in one access, not cached.
    """
def ld_v4_nc(array: Any, index: Any) -> Any:
    """
    Load 4 elements from `index` on, in one access, through the read-only cache.
    """
def st_v4(array: Any, index: Any, values: Any) -> Any:
    """
    Store 4 elements from `index` on, in one access.
    """
def st_v4_wb(array: Any, index: Any, values: Any) -> Any:
    """
    Store 4 elements from `index` on, in one access, written back.
    """
def st_v4_cg(array: Any, index: Any, values: Any) -> Any:
    """
    Store 4 elements from `index` on, in one access, cached in L2.
    """
def st_v4_cs(array: Any, index: Any, values: Any) -> Any:
    """
    Store 4 elements from `index` on, in one access, likely accessed once.
    """
def st_v4_wt(array: Any, index: Any, values: Any) -> Any:
    """
    Store 4 elements from `index` on, in one access, written through.
    """
def mbarrier_init(bar: Any, index: Any, count: Any) -> Any:
    """
    `bar` is a shared array of uint64 or int64; `index` names the element that is the mbarrier.
    Initializes an mbarrier with `count` arrivals per phase (1 to 1048575).  An error if it is live:
    invalidate it first.  [PTX: mbarrier.init]
    """
def mbarrier_inval(bar: Any, index: Any) -> Any:
    """
    Invalidates an mbarrier, so that its 8 bytes can be reused.  [PTX: mbarrier.inval]
    """
def mbarrier_arrive(bar: Any, index: Any, count: Any = ...) -> Any:
    """
    Returns the token of the current phase, uint64.  Each lane arrives `count` times (1 to 1048575),
    and releases its earlier accesses to the waiting threads; more arrivals than the phase expects
    are an error.  [PTX: mbarrier.arrive]
    """
def mbarrier_arrive_relaxed(bar: Any, index: Any, count: Any = ...) -> Any:
    """
    Returns the token of the current phase, uint64.  As `mbarrier_arrive`, but releases nothing: it
    orders no memory.  [PTX: mbarrier.arrive.relaxed]
    """
def mbarrier_arrive_no_complete(bar: Any, index: Any, count: Any) -> Any:
    """
    Returns the token of the current phase, uint64.  As `mbarrier_arrive`; an error if it completes
    the phase.  `mbarrier_pending_count` reads its token.  [PTX: mbarrier.arrive.noComplete]
    """
def mbarrier_arrive_drop(bar: Any, index: Any, count: Any = ...) -> Any:
    """
    Returns the token of the current phase, uint64.  As `mbarrier_arrive`; the count of later phases
    is lower by these arrivals.  [PTX: mbarrier.arrive_drop]
    """
def mbarrier_arrive_expect_tx(bar: Any, index: Any, bytes: Any) -> Any:
    """
    Returns the token of the current phase, uint64.  The phase waits for `bytes` more (0 to 1048575)
    from copies; then arrives once.  [PTX: mbarrier.arrive.expect_tx]
    """
def mbarrier_arrive_drop_expect_tx(bar: Any, index: Any, bytes: Any) -> Any:
    """
    Returns the token of the current phase, uint64.  As `mbarrier_arrive_expect_tx`; later phases
    wait for one arrival fewer.  [PTX: mbarrier.arrive_drop.expect_tx]
    """
def mbarrier_expect_tx(bar: Any, index: Any, bytes: Any) -> Any:
    """
    The phase waits for `bytes` more (0 to 1048575); no arrival, and it orders no memory.  [PTX:
    mbarrier.expect_tx]
    """
def mbarrier_complete_tx(bar: Any, index: Any, bytes: Any) -> Any:
    """
    Reports `bytes` as transferred (0 to 1048575), as a copy does at its end; it orders no memory.
    [PTX: mbarrier.complete_tx]
    """
def mbarrier_test_wait(bar: Any, index: Any, token: Any) -> Any:
    """
    Whether the phase of a token has completed, without waiting; true acquires what its arrivals
    released.  A token is valid for the current and the previous phase.  [PTX: mbarrier.test_wait]
    """
def mbarrier_test_wait_parity(bar: Any, index: Any, parity: Any) -> Any:
    """
    As `mbarrier_test_wait`, for the phase whose number is even (0) or odd (1): true unless that is
    the current one.  [PTX: mbarrier.test_wait.parity]
    """
def mbarrier_try_wait(bar: Any, index: Any, token: Any, hint: Any = ...) -> Any:
    """
    As `mbarrier_test_wait`, after some time, at most about `hint` nanoseconds: false does not mean
    that it never completes.  Loop until it is true.  [PTX: mbarrier.try_wait]
    """
def mbarrier_try_wait_parity(bar: Any, index: Any, parity: Any, hint: Any = ...) -> Any:
    """
    As `mbarrier_test_wait_parity`, after some time, at most about `hint` nanoseconds.  [PTX:
    mbarrier.try_wait.parity]
    """
def mbarrier_wait(bar: Any, index: Any, token: Any) -> Any:
    """
    Waits until the phase of a token has completed: `mbarrier_try_wait` in a loop.  [PTX:
    mbarrier.try_wait]
    """
def mbarrier_wait_parity(bar: Any, index: Any, parity: Any) -> Any:
    """
    Waits until the phase of this parity, 0 or 1, has completed: `mbarrier_try_wait_parity` in a
    loop.  A new mbarrier is in phase 0, and a wait for parity 1 returns immediately.  [PTX:
    mbarrier.try_wait.parity]
    """
def tcgen05_commit(bar: Any, index: Any) -> Any:
    """
    Arrives on the mbarrier `bar[index]` when the products (`tcgen05_mma_*`) that the thread has
    issued so far are complete; it orders nothing else.  One thread executes it.  [PTX:
    tcgen05.commit.mbarrier::arrive::one]
    """
def mbarrier_pending_count(token: Any) -> Any:
    """
    Pending arrivals before the `mbarrier_arrive_no_complete` that returned a token, int32.  [PTX:
    mbarrier.pending_count]
    """
def cp_async_ca(dst: Any, i: Any, src: Any, j: Any, bytes: Any, src_bytes: Any = ...) -> Any:
    """
    Copies `bytes` from element `j` of `src` in global memory to element `i` of `dst` in shared
    memory, asynchronously.  `src_bytes` of them are read (0: none), the rest are zeros.  Both
    addresses are multiples of `bytes`, a constant: 4, 8 or 16.  [PTX: cp.async.ca]
    """
def cp_async_cg(dst: Any, i: Any, src: Any, j: Any, bytes: Any, src_bytes: Any = ...) -> Any:
    """
    Copies `bytes` from element `j` of `src` in global memory to element `i` of `dst` in shared
    memory, asynchronously.  `src_bytes` of them are read (0: none), the rest are zeros.  Both
    addresses are multiples of `bytes`, a constant: 16.  Bypasses the L1 cache.  [PTX: cp.async.cg]
    """
def cp_async_ca_bytes(dst: Any, dst_offset: Any, src: Any, src_offset: Any, bytes: Any, src_bytes: Any = ...) -> Any:
    """
    As `cp_async_ca`, with offsets in bytes from the first elements of `src` and `dst`.  [PTX:
    cp.async.ca]
    """
def cp_async_cg_bytes(dst: Any, dst_offset: Any, src: Any, src_offset: Any, bytes: Any, src_bytes: Any = ...) -> Any:
    """
    As `cp_async_cg`, with offsets in bytes from the first elements of `src` and `dst`.  [PTX:
    cp.async.cg]
    """
def cp_async_commit_group() -> Any:
    """
    Commits the thread's `cp_async_*` since the last commit to a group; it may be empty.  [PTX:
    cp.async.commit_group]
    """
def cp_async_wait_group(n: Any) -> Any:
    """
    Waits for groups of `cp_async_*`: `n`, a constant, of the thread's latest groups may be in
    flight; it orders nothing for other threads.  [PTX: cp.async.wait_group]
    """
def cp_async_wait_all() -> Any:
    """
    Waits for all of the thread's `cp_async_*`, also those of no group.  [PTX: cp.async.wait_all]
    """
def cp_async_mbarrier_arrive(bar: Any, index: Any) -> Any:
    """
    Arrives when the thread's earlier `cp_async_*` are complete; the phase waits for one arrival
    more, so its count is not used.  [PTX: cp.async.mbarrier.arrive]
    """
def cp_async_mbarrier_arrive_noinc(bar: Any, index: Any) -> Any:
    """
    Arrives when the thread's earlier `cp_async_*` are complete; the phase's count must include this
    arrival.  [PTX: cp.async.mbarrier.arrive.noinc]
    """
def cp_async_bulk_global_to_shared(dst: Any, i: Any, src: Any, j: Any, bytes: Any, bar: Any, k: Any) -> Any:
    """
    Copies `bytes` from element `j` of `src` in global memory to element `i` of `dst` in shared
    memory, then credits the mbarrier `bar[k]`, which must expect them.  `bytes` and both addresses
    are multiples of 16.  [PTX: cp.async.bulk]
    """
def cp_async_bulk_shared_to_global(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Copies `bytes` from element `j` of `src` in shared memory to element `i` of `dst` in global
    memory.  A part of the thread's next bulk group.  `bytes` and both addresses are multiples of
    16.  Plain stores to `src` need a `fence_proxy_async` before.  [PTX: cp.async.bulk]
    """
def cp_async_bulk_global_to_shared_bytes(dst: Any, dst_offset: Any, src: Any, src_offset: Any, bytes: Any, bar: Any, k: Any) -> Any:
    """
    As `cp_async_bulk_global_to_shared`, with offsets in bytes from the first elements of `src` and
    `dst`.  [PTX: cp.async.bulk]
    """
def cp_async_bulk_shared_to_global_bytes(dst: Any, dst_offset: Any, src: Any, src_offset: Any, bytes: Any) -> Any:
    """
    As `cp_async_bulk_shared_to_global`, with offsets in bytes from the first elements of `src` and
    `dst`.  [PTX: cp.async.bulk]
    """
def cp_async_bulk_commit_group() -> Any:
    """
    Commits the thread's bulk copies and reductions to global memory since the last commit to a
    group; it may be empty.  [PTX: cp.async.bulk.commit_group]
    """
def cp_async_bulk_wait_group(n: Any) -> Any:
    """
    Waits for bulk groups: `n`, a constant, of the thread's latest groups may be in flight; it
    orders nothing for other threads.  [PTX: cp.async.bulk.wait_group]
    """
def cp_async_bulk_wait_group_read(n: Any) -> Any:
    """
    Waits until bulk groups have read their sources, which then may be overwritten: `n`, a constant,
    of the thread's latest groups may be in flight; it orders nothing for other threads.  [PTX:
    cp.async.bulk.wait_group.read]
    """
def cp_async_bulk_prefetch_l2(src: Any, j: Any, bytes: Any) -> Any:
    """
    Loads `bytes` from element `j` of `src` in global memory into the L2 cache; no effect here.
    `bytes` and the address are multiples of 16.  [PTX: cp.async.bulk.prefetch.L2]
    """
def st_bulk(dst: Any, i: Any, bytes: Any) -> Any:
    """
    Stores `bytes` zeros from element `i` of `dst` in shared memory on, as plain stores do.  `bytes`
    and the address are multiples of 8.  A GPU needs sm_100 for it.  [PTX: st.bulk]
    """
def cp_reduce_async_bulk_add(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on their sum, with
    the elements from element `j` of `src` in shared memory on; each one is an atomic.  Both are
    arrays of one type: uint32, int32, uint64, int64, float16, float32, float64.  A part of the
    thread's next bulk group.  `bytes` and both addresses are multiples of 16.  [PTX:
    cp.reduce.async.bulk]
    """
def cp_reduce_async_bulk_min(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on the smaller one,
    with the elements from element `j` of `src` in shared memory on; each one is an atomic.  Both
    are arrays of one type: uint32, int32, uint64, int64, float16.  A part of the thread's next bulk
    group.  `bytes` and both addresses are multiples of 16.  [PTX: cp.reduce.async.bulk]
    """
def cp_reduce_async_bulk_max(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on the larger one,
    with the elements from element `j` of `src` in shared memory on; each one is an atomic.  Both
    are arrays of one type: uint32, int32, uint64, int64, float16.  A part of the thread's next bulk
    group.  `bytes` and both addresses are multiples of 16.  [PTX: cp.reduce.async.bulk]
    """
def cp_reduce_async_bulk_and(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on their common
    bits, with the elements from element `j` of `src` in shared memory on; each one is an atomic.
    Both are arrays of one type: uint32, int32, uint64, int64.  A part of the thread's next bulk
    group.  `bytes` and both addresses are multiples of 16.  [PTX: cp.reduce.async.bulk]
    """
def cp_reduce_async_bulk_or(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on the bits of
    both, with the elements from element `j` of `src` in shared memory on; each one is an atomic.
    Both are arrays of one type: uint32, int32, uint64, int64.  A part of the thread's next bulk
    group.  `bytes` and both addresses are multiples of 16.  [PTX: cp.reduce.async.bulk]
    """
def cp_reduce_async_bulk_xor(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on the bits in
    which they differ, with the elements from element `j` of `src` in shared memory on; each one is
    an atomic.  Both are arrays of one type: uint32, int32, uint64, int64.  A part of the thread's
    next bulk group.  `bytes` and both addresses are multiples of 16.  [PTX: cp.reduce.async.bulk]
    """
def cp_reduce_async_bulk_inc(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on 0 where the old
    one in `dst` is at least that of `src`, else one more, with the elements from element `j` of
    `src` in shared memory on; each one is an atomic.  Both are arrays of one type: uint32.  A part
    of the thread's next bulk group.  `bytes` and both addresses are multiples of 16.  [PTX:
    cp.reduce.async.bulk]
    """
def cp_reduce_async_bulk_dec(dst: Any, i: Any, src: Any, j: Any, bytes: Any) -> Any:
    """
    Puts into each element of `bytes` from element `i` of `dst` in global memory on that of `src`
    where the old one in `dst` is 0 or above it, else one less, with the elements from element `j`
    of `src` in shared memory on; each one is an atomic.  Both are arrays of one type: uint32.  A
    part of the thread's next bulk group.  `bytes` and both addresses are multiples of 16.  [PTX:
    cp.reduce.async.bulk]
    """
def cp_async_bulk_tensor_global_to_shared(dst: Any, i: Any, tmap: Any, coordinates: Any, bar: Any, k: Any) -> Any:
    """
    Copies a tile of the array of `tmap` to element `i` of `dst` in shared memory, at a multiple of
    128 bytes, then credits the mbarrier `bar[k]`, which must expect all its bytes.  Elements
    outside the array are filled.  `tmap` is a `wsemu.TensorMap` that the kernel got; `coordinates`
    are those of the tile's first element, an int or a tuple, innermost first as in PTX, the
    innermost at a multiple of 16 bytes.  [PTX: cp.async.bulk.tensor]
    """
def cp_async_bulk_tensor_global_to_shared_bytes(dst: Any, dst_offset: Any, tmap: Any, coordinates: Any, bar: Any, k: Any) -> Any:
    """
    As `cp_async_bulk_tensor_global_to_shared`, to an offset in bytes from the first element of
    `dst`.  [PTX: cp.async.bulk.tensor]
    """
def cp_async_bulk_tensor_shared_to_global(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Copies the tile at element `j` of `src` in shared memory, at a multiple of 128 bytes, to its
    position in the array of `tmap`.  Elements outside are skipped.  A part of the thread's next
    bulk group.  Coordinates are 0 or above.  `tmap` is a `wsemu.TensorMap` that the kernel got;
    `coordinates` are those of the tile's first element, an int or a tuple, innermost first as in
    PTX, the innermost at a multiple of 16 bytes.  [PTX: cp.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_add(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile their sum, with the elements of the tile at
    element `j` of `src` in shared memory; each one is an atomic.  Of integers of 32 bits, uint64,
    and floats.  A part of the thread's next bulk group.  Coordinates are 0 or above.  `tmap` is a
    `wsemu.TensorMap` that the kernel got; `coordinates` are those of the tile's first element, an
    int or a tuple, innermost first as in PTX, the innermost at a multiple of 16 bytes.  [PTX:
    cp.reduce.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_min(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile the smaller one, with the elements of the tile at
    element `j` of `src` in shared memory; each one is an atomic.  Of integers, float16 and bf16.  A
    part of the thread's next bulk group.  Coordinates are 0 or above.  `tmap` is a
    `wsemu.TensorMap` that the kernel got; `coordinates` are those of the tile's first element, an
    int or a tuple, innermost first as in PTX, the innermost at a multiple of 16 bytes.  [PTX:
    cp.reduce.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_max(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile the larger one, with the elements of the tile at
    element `j` of `src` in shared memory; each one is an atomic.  Of integers, float16 and bf16.  A
    part of the thread's next bulk group.  Coordinates are 0 or above.  `tmap` is a
    `wsemu.TensorMap` that the kernel got; `coordinates` are those of the tile's first element, an
    int or a tuple, innermost first as in PTX, the innermost at a multiple of 16 bytes.  [PTX:
    cp.reduce.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_and(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile their common bits, with the elements of the tile
    at element `j` of `src` in shared memory; each one is an atomic.  Of integers but int64.  A part
    of the thread's next bulk group.  Coordinates are 0 or above.  `tmap` is a `wsemu.TensorMap`
    that the kernel got; `coordinates` are those of the tile's first element, an int or a tuple,
    innermost first as in PTX, the innermost at a multiple of 16 bytes.  [PTX:
    cp.reduce.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_or(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile the bits of both, with the elements of the tile
    at element `j` of `src` in shared memory; each one is an atomic.  Of integers but int64.  A part
    of the thread's next bulk group.  Coordinates are 0 or above.  `tmap` is a `wsemu.TensorMap`
    that the kernel got; `coordinates` are those of the tile's first element, an int or a tuple,
    innermost first as in PTX, the innermost at a multiple of 16 bytes.  [PTX:
    cp.reduce.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_xor(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile the bits in which they differ, with the elements
    of the tile at element `j` of `src` in shared memory; each one is an atomic.  Of integers but
    int64.  A part of the thread's next bulk group.  Coordinates are 0 or above.  `tmap` is a
    `wsemu.TensorMap` that the kernel got; `coordinates` are those of the tile's first element, an
    int or a tuple, innermost first as in PTX, the innermost at a multiple of 16 bytes.  [PTX:
    cp.reduce.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_inc(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile 0 where the old one in global memory is at least
    that of the tile, else one more, with the elements of the tile at element `j` of `src` in shared
    memory; each one is an atomic.  Of uint32.  A part of the thread's next bulk group.  Coordinates
    are 0 or above.  `tmap` is a `wsemu.TensorMap` that the kernel got; `coordinates` are those of
    the tile's first element, an int or a tuple, innermost first as in PTX, the innermost at a
    multiple of 16 bytes.  [PTX: cp.reduce.async.bulk.tensor]
    """
def cp_reduce_async_bulk_tensor_dec(tmap: Any, coordinates: Any, src: Any, j: Any) -> Any:
    """
    Puts into each element where `tmap` has a tile that of the tile where the old one in global
    memory is 0 or above it, else one less, with the elements of the tile at element `j` of `src` in
    shared memory; each one is an atomic.  Of uint32.  A part of the thread's next bulk group.
    Coordinates are 0 or above.  `tmap` is a `wsemu.TensorMap` that the kernel got; `coordinates`
    are those of the tile's first element, an int or a tuple, innermost first as in PTX, the
    innermost at a multiple of 16 bytes.  [PTX: cp.reduce.async.bulk.tensor]
    """
def cp_async_bulk_prefetch_tensor(tmap: Any, coordinates: Any) -> Any:
    """
    Brings a tile of the array of `tmap` into the L2 cache; no effect here.  `tmap` is a
    `wsemu.TensorMap` that the kernel got; `coordinates` are those of the tile's first element, an
    int or a tuple, innermost first as in PTX, the innermost at a multiple of 16 bytes.  [PTX:
    cp.async.bulk.prefetch.tensor]
    """
def prefetch_tensormap(tmap: Any) -> Any:
    """
    Brings a tensor map into the cache; no effect.  [PTX: prefetch.tensormap]
    """
def fence_proxy_async() -> Any:
    """
    Orders plain accesses and those of bulk copies with each other, of this thread and what others
    gave it, in all memory.  [PTX: fence.proxy.async]
    """
def fence_proxy_async_shared_cta() -> Any:
    """
    Orders plain accesses and those of bulk copies with each other, of this thread and what others
    gave it, in the CTA's shared memory.  [PTX: fence.proxy.async.shared::cta]
    """
def fence_proxy_async_global() -> Any:
    """
    Orders plain accesses and those of bulk copies with each other, of this thread and what others
    gave it, in global memory.  [PTX: fence.proxy.async.global]
    """
def fence_mbarrier_init() -> Any:
    """
    Makes `mbarrier_init` visible to other CTAs of the cluster.  [PTX:
    fence.mbarrier_init.release.cluster]
    """
def elect_sync(mask: Any) -> Any:
    """
    Whether this lane is the one elected among those of `mask`: the lowest that executes it.  All
    lanes of `mask` wait for each other.  [PTX: elect.sync]
    """
def setmaxnreg_inc(count: Any) -> Any:
    """
    The warp requests `count` registers per thread, a constant from 24 to 256 in steps of 8, and
    waits until other warps have released them.  All warps of a warpgroup execute it.  [PTX:
    setmaxnreg.inc.sync.aligned]
    """
def setmaxnreg_dec(count: Any) -> Any:
    """
    The warp releases all but `count` registers per thread, a constant from 24 to 256 in steps of 8.
    [PTX: setmaxnreg.dec.sync.aligned]
    """
def griddepcontrol_wait() -> Any:
    """
    Waits for the launches before this one; see `wsemu.Sequence`.  [PTX: griddepcontrol.wait]
    """
def griddepcontrol_launch_dependents() -> Any:
    """
    Lets the next launch begin; see `wsemu.Sequence`.  [PTX: griddepcontrol.launch_dependents]
    """
def cluster_ctaid_x() -> Any:
    """
    The CTA's index in its cluster, along x, int32.  [PTX: %cluster_ctaid.x]
    """
def cluster_ctaid_y() -> Any:
    """
    The CTA's index in its cluster, along y, int32.  [PTX: %cluster_ctaid.y]
    """
def cluster_ctaid_z() -> Any:
    """
    The CTA's index in its cluster, along z, int32.  [PTX: %cluster_ctaid.z]
    """
def cluster_nctaid_x() -> Any:
    """
    The CTAs of a cluster, along x, int32.  [PTX: %cluster_nctaid.x]
    """
def cluster_nctaid_y() -> Any:
    """
    The CTAs of a cluster, along y, int32.  [PTX: %cluster_nctaid.y]
    """
def cluster_nctaid_z() -> Any:
    """
    The CTAs of a cluster, along z, int32.  [PTX: %cluster_nctaid.z]
    """
def clusterid_x() -> Any:
    """
    The cluster's index in the grid, along x, int32.  [PTX: %clusterid.x]
    """
def clusterid_y() -> Any:
    """
    The cluster's index in the grid, along y, int32.  [PTX: %clusterid.y]
    """
def clusterid_z() -> Any:
    """
    The cluster's index in the grid, along z, int32.  [PTX: %clusterid.z]
    """
def nclusterid_x() -> Any:
    """
    The clusters of the grid, along x, int32.  [PTX: %nclusterid.x]
    """
def nclusterid_y() -> Any:
    """
    The clusters of the grid, along y, int32.  [PTX: %nclusterid.y]
    """
def nclusterid_z() -> Any:
    """
    The clusters of the grid, along z, int32.  [PTX: %nclusterid.z]
    """
def cluster_ctarank() -> Any:
    """
    The CTA's rank in its cluster, int32.  [PTX: %cluster_ctarank]
    """
def cluster_nctarank() -> Any:
    """
    The CTAs of a cluster, int32.  [PTX: %cluster_nctarank]
    """
def cluster_arrive() -> Any:
    """
    Arrives at the cluster barrier without waiting, and releases the thread's earlier accesses.  A
    thread arrives once, then waits.  [PTX: barrier.cluster.arrive]
    """
def cluster_arrive_relaxed() -> Any:
    """
    As `cluster_arrive`, but releases nothing: it orders no memory, except that mbarriers
    initialized before a `fence_mbarrier_init` are visible to all.  [PTX:
    barrier.cluster.arrive.relaxed]
    """
def cluster_wait() -> Any:
    """
    Waits until all threads of the cluster that have not exited have arrived.  [PTX:
    barrier.cluster.wait]
    """
def cluster_sync() -> Any:
    """
    `cluster_arrive` and `cluster_wait`.  [PTX: barrier.cluster.arrive, barrier.cluster.wait]
    """
def mapa(ary: Any, rank: Any) -> Any:
    """
    The shared array `ary` of the CTA of this rank in the cluster; its elements can be read, written
    and used in atomics while that CTA runs.  [PTX: mapa]
    """
def mbarrier_arrive_cluster(bar: Any, index: Any, count: Any = ..., scope: Any = ...) -> Any:
    """
    As `mbarrier_arrive`, of an mbarrier of the CTA or of another one of the cluster, an array that
    `mapa` gave; no token.  With the scope "cta" it releases nothing to other CTAs.  [PTX:
    mbarrier.arrive.release.cluster.shared::cluster]
    """
def mbarrier_arrive_drop_cluster(bar: Any, index: Any, count: Any = ...) -> Any:
    """
    As `mbarrier_arrive_drop`, of an mbarrier of the CTA or of another one of the cluster, an array
    that `mapa` gave; no token.  [PTX: mbarrier.arrive_drop.release.cluster.shared::cluster]
    """
def mbarrier_arrive_expect_tx_cluster(bar: Any, index: Any, bytes: Any) -> Any:
    """
    As `mbarrier_arrive_expect_tx`, of an mbarrier of the CTA or of another one of the cluster, an
    array that `mapa` gave; no token.  [PTX:
    mbarrier.arrive.expect_tx.release.cluster.shared::cluster]
    """
def mbarrier_expect_tx_cluster(bar: Any, index: Any, bytes: Any) -> Any:
    """
    As `mbarrier_expect_tx`, of an mbarrier of the CTA or of another one of the cluster, an array
    that `mapa` gave; no token.  [PTX: mbarrier.expect_tx.relaxed.cluster.shared::cluster]
    """
def mbarrier_complete_tx_cluster(bar: Any, index: Any, bytes: Any) -> Any:
    """
    As `mbarrier_complete_tx`, of an mbarrier of the CTA or of another one of the cluster, an array
    that `mapa` gave; no token.  [PTX: mbarrier.complete_tx.relaxed.cluster.shared::cluster]
    """
def cp_async_bulk_global_to_shared_multicast(dst: Any, i: Any, src: Any, j: Any, bytes: Any, bar: Any, k: Any, ctas: Any) -> Any:
    """
    As `cp_async_bulk_global_to_shared`, to the same offset in each CTA of the cluster whose rank
    has a bit in `ctas`; each credits its own `bar[k]`.  `bytes` and both addresses are multiples of
    16.  [PTX: cp.async.bulk.multicast::cluster]
    """
def cp_async_bulk_shared_to_cluster(dst: Any, i: Any, src: Any, j: Any, bytes: Any, bar: Any, k: Any) -> Any:
    """
    Copies `bytes` from element `j` of `src` in the CTA's shared memory to element `i` of `dst`,
    then credits the mbarrier `bar[k]`, which must expect its bytes.  `dst` and `bar` are of one CTA
    of the cluster, arrays that `mapa` gave.  `bytes` and both addresses are multiples of 16.  Plain
    stores to `src` need a `fence_proxy_async` before.  [PTX:
    cp.async.bulk.shared::cluster.shared::cta]
    """
def cp_async_bulk_tensor_global_to_shared_multicast(dst: Any, i: Any, tmap: Any, coordinates: Any, bar: Any, k: Any, ctas: Any) -> Any:
    """
    As `cp_async_bulk_tensor_global_to_shared`, to the same offset in each CTA of the cluster whose
    rank has a bit in `ctas`.  `tmap` is a `wsemu.TensorMap` that the kernel got; `coordinates` are
    those of the tile's first element, an int or a tuple, innermost first as in PTX, the innermost
    at a multiple of 16 bytes.  [PTX: cp.async.bulk.tensor.multicast::cluster]
    """
def st_async(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    Stores `value` to `dst[i]` asynchronously, and then credits the mbarrier `bar[k]`, which must
    expect its bytes.  `dst` and `bar` are of one CTA of the cluster, arrays that `mapa` gave.  Of
    numbers of 32 or 64 bits.  [PTX: st.async]
    """
def red_async_add(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` their sum, with `value`, as an atomic.  Of uint32, int32,
    uint64, int64.  [PTX: red.async]
    """
def red_async_min(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` the smaller one, with `value`, as an atomic.  Of uint32,
    int32, uint64, int64.  [PTX: red.async]
    """
def red_async_max(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` the larger one, with `value`, as an atomic.  Of uint32, int32,
    uint64, int64.  [PTX: red.async]
    """
def red_async_and(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` their common bits, with `value`, as an atomic.  Of uint32,
    int32, uint64, int64.  [PTX: red.async]
    """
def red_async_or(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` the bits of both, with `value`, as an atomic.  Of uint32,
    int32, uint64, int64.  [PTX: red.async]
    """
def red_async_xor(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` the bits in which they differ, with `value`, as an atomic.  Of
    uint32, int32, uint64, int64.  [PTX: red.async]
    """
def red_async_inc(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` 0 where the old one is at least `value`, else one more, with
    `value`, as an atomic.  Of uint32.  [PTX: red.async]
    """
def red_async_dec(dst: Any, i: Any, value: Any, bar: Any, k: Any) -> Any:
    """
    As `st_async`, puts into `dst[i]` `value` where the old one is 0 or above it, else one less,
    with `value`, as an atomic.  Of uint32.  [PTX: red.async]
    """
def mma_m16n8k16_f32_f16_f16_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32]
    """
def mma_m16n8k8_f32_f16_f16_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32]
    """
def mma_m16n8k16_f16_f16_f16_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16]
    """
def mma_m16n8k8_f16_f16_f16_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16]
    """
def mma_m16n8k16_f32_bf16_bf16_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32]
    """
def mma_m16n8k8_f32_bf16_bf16_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32]
    """
def mma_m16n8k8_f32_tf32_tf32_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32]
    """
def mma_m16n8k4_f32_tf32_tf32_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32]
    """
def mma_m16n8k32_f32_e4m3_e4m3_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32]
    """
def mma_m16n8k32_f32_e4m3_e5m2_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32]
    """
def mma_m16n8k32_f32_e5m2_e4m3_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32]
    """
def mma_m16n8k32_f32_e5m2_e5m2_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32]
    """
def mma_m16n8k16_f32_e4m3_e4m3_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32]
    """
def mma_m16n8k16_f32_e4m3_e5m2_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32]
    """
def mma_m16n8k16_f32_e5m2_e4m3_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e4m3.f32]
    """
def mma_m16n8k16_f32_e5m2_e5m2_f32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e5m2.f32]
    """
def mma_m16n8k32_f16_e4m3_e4m3_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16]
    """
def mma_m16n8k32_f16_e4m3_e5m2_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16]
    """
def mma_m16n8k32_f16_e5m2_e4m3_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e4m3.f16]
    """
def mma_m16n8k32_f16_e5m2_e5m2_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e5m2.f16]
    """
def mma_m16n8k16_f16_e4m3_e4m3_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e4m3.f16]
    """
def mma_m16n8k16_f16_e4m3_e5m2_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e5m2.f16]
    """
def mma_m16n8k16_f16_e5m2_e4m3_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f16.e5m2.e4m3.f16]
    """
def mma_m16n8k16_f16_e5m2_e5m2_f16(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 uint32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f16.e5m2.e5m2.f16]
    """
def mma_m8n8k16_s32_s8_s8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32]
    """
def mma_m8n8k16_s32_s8_s8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32]
    """
def mma_m8n8k16_s32_s8_u8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32]
    """
def mma_m8n8k16_s32_s8_u8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32]
    """
def mma_m8n8k16_s32_u8_s8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32]
    """
def mma_m8n8k16_s32_u8_s8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k16.row.col.satfinite.s32.u8.s8.s32]
    """
def mma_m8n8k16_s32_u8_u8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32]
    """
def mma_m8n8k16_s32_u8_u8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k16.row.col.satfinite.s32.u8.u8.s32]
    """
def mma_m16n8k16_s32_s8_s8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32]
    """
def mma_m16n8k16_s32_s8_s8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32]
    """
def mma_m16n8k16_s32_s8_u8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32]
    """
def mma_m16n8k16_s32_s8_u8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.u8.s32]
    """
def mma_m16n8k16_s32_u8_s8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32]
    """
def mma_m16n8k16_s32_u8_s8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k16.row.col.satfinite.s32.u8.s8.s32]
    """
def mma_m16n8k16_s32_u8_u8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32]
    """
def mma_m16n8k16_s32_u8_u8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k16.row.col.satfinite.s32.u8.u8.s32]
    """
def mma_m16n8k32_s32_s8_s8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32]
    """
def mma_m16n8k32_s32_s8_s8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32]
    """
def mma_m16n8k32_s32_s8_u8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32]
    """
def mma_m16n8k32_s32_s8_u8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32]
    """
def mma_m16n8k32_s32_u8_s8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32]
    """
def mma_m16n8k32_s32_u8_s8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32]
    """
def mma_m16n8k32_s32_u8_u8_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32]
    """
def mma_m16n8k32_s32_u8_u8_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.u8.s32]
    """
def mma_m8n8k32_s32_s4_s4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32]
    """
def mma_m8n8k32_s32_s4_s4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.s4.s32]
    """
def mma_m8n8k32_s32_s4_u4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k32.row.col.s32.s4.u4.s32]
    """
def mma_m8n8k32_s32_s4_u4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.u4.s32]
    """
def mma_m8n8k32_s32_u4_s4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k32.row.col.s32.u4.s4.s32]
    """
def mma_m8n8k32_s32_u4_s4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k32.row.col.satfinite.s32.u4.s4.s32]
    """
def mma_m8n8k32_s32_u4_u4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32]
    """
def mma_m8n8k32_s32_u4_u4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 2 int32, as `c` is; `a` has 1
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m8n8k32.row.col.satfinite.s32.u4.u4.s32]
    """
def mma_m16n8k32_s32_s4_s4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32]
    """
def mma_m16n8k32_s32_s4_s4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s4.s4.s32]
    """
def mma_m16n8k32_s32_s4_u4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.s4.u4.s32]
    """
def mma_m16n8k32_s32_s4_u4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s4.u4.s32]
    """
def mma_m16n8k32_s32_u4_s4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32]
    """
def mma_m16n8k32_s32_u4_s4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u4.s4.s32]
    """
def mma_m16n8k32_s32_u4_u4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k32.row.col.s32.u4.u4.s32]
    """
def mma_m16n8k32_s32_u4_u4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 2
    uint32, `b` 1, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u4.u4.s32]
    """
def mma_m16n8k64_s32_s4_s4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32]
    """
def mma_m16n8k64_s32_s4_s4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.s4.s32]
    """
def mma_m16n8k64_s32_s4_u4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32]
    """
def mma_m16n8k64_s32_s4_u4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.u4.s32]
    """
def mma_m16n8k64_s32_u4_s4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32]
    """
def mma_m16n8k64_s32_u4_s4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k64.row.col.satfinite.s32.u4.s4.s32]
    """
def mma_m16n8k64_s32_u4_u4_s32(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k64.row.col.s32.u4.u4.s32]
    """
def mma_m16n8k64_s32_u4_u4_s32_satfinite(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp, clamped to the range of int32: a tuple of 4 int32, as `c` is; `a` has 4
    uint32, `b` 2, the lane's fragments as PTX has them.  All lanes of the warp execute it together.
    [PTX: mma.sync.aligned.m16n8k64.row.col.satfinite.s32.u4.u4.s32]
    """
def mma_m8n8k128_s32_b1_b1_s32_xor_popc(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc]
    """
def mma_m8n8k128_s32_b1_b1_s32_and_popc(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 int32, as `c` is; `a` has 1 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc]
    """
def mma_m16n8k128_s32_b1_b1_s32_xor_popc(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc]
    """
def mma_m16n8k128_s32_b1_b1_s32_and_popc(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 2 uint32, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc]
    """
def mma_m16n8k256_s32_b1_b1_s32_xor_popc(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc]
    """
def mma_m16n8k256_s32_b1_b1_s32_and_popc(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 int32, as `c` is; `a` has 4 uint32, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc]
    """
def mma_m8n8k4_f64_f64_f64_f64(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 2 float64, as `c` is; `a` has 1 float64, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64]
    """
def mma_m16n8k4_f64_f64_f64_f64(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float64, as `c` is; `a` has 2 float64, `b` 1, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64]
    """
def mma_m16n8k8_f64_f64_f64_f64(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float64, as `c` is; `a` has 4 float64, `b` 2, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64]
    """
def mma_m16n8k16_f64_f64_f64_f64(a: Any, b: Any, c: Any) -> Any:
    """
    a b + c of the warp: a tuple of 4 float64, as `c` is; `a` has 8 float64, `b` 4, the lane's
    fragments as PTX has them.  All lanes of the warp execute it together.  [PTX:
    mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64]
    """
def ldmatrix_x1(array: Any, index: Any) -> Any:
    """
    Loads a matrix of 8 x 8 elements of 16 bits: 1 uint32 of the lane's fragments, as a tuple.  An
    index of an array of 16-bit elements in shared memory names the first of 8, at a multiple of 16
    bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute it together.  [PTX:
    ldmatrix.sync.aligned.m8n8.x1.shared.b16]
    """
def ldmatrix_x1_trans(array: Any, index: Any) -> Any:
    """
    Loads a matrix of 8 x 8 elements of 16 bits, transposed: 1 uint32 of the lane's fragments, as a
    tuple.  An index of an array of 16-bit elements in shared memory names the first of 8, at a
    multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute it
    together.  [PTX: ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16]
    """
def ldmatrix_x2(array: Any, index: Any) -> Any:
    """
    Loads 2 matrices of 8 x 8 elements of 16 bits: 2 uint32 of the lane's fragments, as a tuple.  An
    index of an array of 16-bit elements in shared memory names the first of 8, at a multiple of 16
    bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute it together.  [PTX:
    ldmatrix.sync.aligned.m8n8.x2.shared.b16]
    """
def ldmatrix_x2_trans(array: Any, index: Any) -> Any:
    """
    Loads 2 matrices of 8 x 8 elements of 16 bits, transposed: 2 uint32 of the lane's fragments, as
    a tuple.  An index of an array of 16-bit elements in shared memory names the first of 8, at a
    multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute it
    together.  [PTX: ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16]
    """
def ldmatrix_x4(array: Any, index: Any) -> Any:
    """
    Loads 4 matrices of 8 x 8 elements of 16 bits: 4 uint32 of the lane's fragments, as a tuple.  An
    index of an array of 16-bit elements in shared memory names the first of 8, at a multiple of 16
    bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute it together.  [PTX:
    ldmatrix.sync.aligned.m8n8.x4.shared.b16]
    """
def ldmatrix_x4_trans(array: Any, index: Any) -> Any:
    """
    Loads 4 matrices of 8 x 8 elements of 16 bits, transposed: 4 uint32 of the lane's fragments, as
    a tuple.  An index of an array of 16-bit elements in shared memory names the first of 8, at a
    multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute it
    together.  [PTX: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16]
    """
def stmatrix_x1(array: Any, index: Any, values: Any) -> Any:
    """
    Stores a matrix of 8 x 8 elements of 16 bits, of which `values` has the lane's fragments: a
    tuple of 1 uint32.  An index of an array of 16-bit elements in shared memory names the first of
    8, at a multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute
    it together.  [PTX: stmatrix.sync.aligned.m8n8.x1.shared.b16]
    """
def stmatrix_x1_trans(array: Any, index: Any, values: Any) -> Any:
    """
    Stores a matrix of 8 x 8 elements of 16 bits, transposed, of which `values` has the lane's
    fragments: a tuple of 1 uint32.  An index of an array of 16-bit elements in shared memory names
    the first of 8, at a multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the
    warp execute it together.  [PTX: stmatrix.sync.aligned.m8n8.x1.trans.shared.b16]
    """
def stmatrix_x2(array: Any, index: Any, values: Any) -> Any:
    """
    Stores 2 matrices of 8 x 8 elements of 16 bits, of which `values` has the lane's fragments: a
    tuple of 2 uint32.  An index of an array of 16-bit elements in shared memory names the first of
    8, at a multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute
    it together.  [PTX: stmatrix.sync.aligned.m8n8.x2.shared.b16]
    """
def stmatrix_x2_trans(array: Any, index: Any, values: Any) -> Any:
    """
    Stores 2 matrices of 8 x 8 elements of 16 bits, transposed, of which `values` has the lane's
    fragments: a tuple of 2 uint32.  An index of an array of 16-bit elements in shared memory names
    the first of 8, at a multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the
    warp execute it together.  [PTX: stmatrix.sync.aligned.m8n8.x2.trans.shared.b16]
    """
def stmatrix_x4(array: Any, index: Any, values: Any) -> Any:
    """
    Stores 4 matrices of 8 x 8 elements of 16 bits, of which `values` has the lane's fragments: a
    tuple of 4 uint32.  An index of an array of 16-bit elements in shared memory names the first of
    8, at a multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the warp execute
    it together.  [PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16]
    """
def stmatrix_x4_trans(array: Any, index: Any, values: Any) -> Any:
    """
    Stores 4 matrices of 8 x 8 elements of 16 bits, transposed, of which `values` has the lane's
    fragments: a tuple of 4 uint32.  An index of an array of 16-bit elements in shared memory names
    the first of 8, at a multiple of 16 bytes: lane 8 m + r has row r of matrix m.  All lanes of the
    warp execute it together.  [PTX: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16]
    """
def movmatrix_trans(a: Any) -> Any:
    """
    The lane's fragment of the transpose of a matrix of 8 x 8 elements of 16 bits, of which `a` is
    its fragment: uint32.  All lanes of the warp execute it together.  [PTX:
    movmatrix.sync.aligned.m8n8.trans.b16]
    """
def tcgen05_alloc(words: Any, index: Any, columns: Any) -> Any:
    """
    Allocates `columns` of tensor memory (32, 64, 128, 256 or 512), and writes their address to
    element `index` of the shared array `words` of uint32; waits until they are free.  All lanes of
    the warp execute it together.  [PTX: tcgen05.alloc]
    """
def tcgen05_dealloc(address: Any, columns: Any) -> Any:
    """
    Releases columns of tensor memory.  All lanes of the warp execute it together.  [PTX:
    tcgen05.dealloc]
    """
def tcgen05_relinquish_alloc_permit() -> Any:
    """
    Ends the CTA's allocations, so that other CTAs of the multiprocessor may allocate.  All lanes of
    the warp execute it together.  [PTX: tcgen05.relinquish_alloc_permit.cta_group::1]
    """
def tcgen05_wait_ld() -> Any:
    """
    Waits until the warp's loads from tensor memory are complete.  All lanes of the warp execute it
    together.  [PTX: tcgen05.wait::ld]
    """
def tcgen05_wait_st() -> Any:
    """
    Waits until the warp's stores to tensor memory are complete.  All lanes of the warp execute it
    together.  [PTX: tcgen05.wait::st]
    """
def tcgen05_fence_before_thread_sync() -> Any:
    """
    Orders the thread's earlier `tcgen05_*` before a relaxed arrival.  [PTX:
    tcgen05.fence::before_thread_sync]
    """
def tcgen05_fence_after_thread_sync() -> Any:
    """
    Orders the thread's later `tcgen05_*` after a relaxed wait.  [PTX:
    tcgen05.fence::after_thread_sync]
    """
def tcgen05_ld_32x32b_x1(address: Any) -> Any:
    """
    Loads 1 columns of the lane's row of tensor memory, asynchronously: a tuple of 1 uint32, to be
    used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from
    32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x1.b32]
    """
def tcgen05_ld_32x32b_x2(address: Any) -> Any:
    """
    Loads 2 columns of the lane's row of tensor memory, asynchronously: a tuple of 2 uint32, to be
    used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from
    32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x2.b32]
    """
def tcgen05_ld_32x32b_x4(address: Any) -> Any:
    """
    Loads 4 columns of the lane's row of tensor memory, asynchronously: a tuple of 4 uint32, to be
    used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from
    32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x4.b32]
    """
def tcgen05_ld_32x32b_x8(address: Any) -> Any:
    """
    Loads 8 columns of the lane's row of tensor memory, asynchronously: a tuple of 8 uint32, to be
    used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from
    32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x8.b32]
    """
def tcgen05_ld_32x32b_x16(address: Any) -> Any:
    """
    Loads 16 columns of the lane's row of tensor memory, asynchronously: a tuple of 16 uint32, to be
    used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from
    32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x16.b32]
    """
def tcgen05_ld_32x32b_x32(address: Any) -> Any:
    """
    Loads 32 columns of the lane's row of tensor memory, asynchronously: a tuple of 32 uint32, to be
    used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from
    32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x32.b32]
    """
def tcgen05_ld_32x32b_x64(address: Any) -> Any:
    """
    Loads 64 columns of the lane's row of tensor memory, asynchronously: a tuple of 64 uint32, to be
    used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from
    32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x64.b32]
    """
def tcgen05_ld_32x32b_x128(address: Any) -> Any:
    """
    Loads 128 columns of the lane's row of tensor memory, asynchronously: a tuple of 128 uint32, to
    be used after `tcgen05_wait_ld`.  `address`: lane << 16 | column; the warp accesses 32 lanes,
    from 32 times its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.ld.sync.aligned.32x32b.x128.b32]
    """
def tcgen05_st_32x32b_x1(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 1 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x1.b32]
    """
def tcgen05_st_32x32b_x2(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 2 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x2.b32]
    """
def tcgen05_st_32x32b_x4(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 4 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x4.b32]
    """
def tcgen05_st_32x32b_x8(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 8 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x8.b32]
    """
def tcgen05_st_32x32b_x16(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 16 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x16.b32]
    """
def tcgen05_st_32x32b_x32(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 32 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x32.b32]
    """
def tcgen05_st_32x32b_x64(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 64 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x64.b32]
    """
def tcgen05_st_32x32b_x128(address: Any, values: Any) -> Any:
    """
    Stores a tuple of 128 uint32 to columns of the lane's row of tensor memory, asynchronously, see
    `tcgen05_wait_st`.  `address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times
    its number modulo 4 on.  All lanes of the warp execute it together.  [PTX:
    tcgen05.st.sync.aligned.32x32b.x128.b32]
    """
def matrix_descriptor(array: Any, offset: Any, leading: Any, stride: Any, swizzle: Any = ...) -> Any:
    """
    The shared memory descriptor of a matrix that begins `offset` bytes after the first element of a
    shared array, uint64.  `leading` and `stride` are its leading and stride dimension byte offsets;
    all three are multiples of 16.  `swizzle` is 0, 32, 64 or 128 bytes, a constant.  [PTX: shared
    memory descriptor of tcgen05]
    """
def tcgen05_mma_f16(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, and so is `a`.  One thread executes it: each
    active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::f16]
    """
def tcgen05_mma_tf32(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, and so is `a`.  One thread executes it: each
    active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::tf32]
    """
def tcgen05_mma_f8f6f4(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, and so is `a`.  One thread executes it: each
    active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::f8f6f4]
    """
def tcgen05_mma_i8(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, and so is `a`.  One thread executes it: each
    active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::i8]
    """
def tcgen05_mma_f16_tmem(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, `a` an address in tensor memory.  One thread
    executes it: each active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::f16]
    """
def tcgen05_mma_tf32_tmem(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, `a` an address in tensor memory.  One thread
    executes it: each active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::tf32]
    """
def tcgen05_mma_f8f6f4_tmem(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, `a` an address in tensor memory.  One thread
    executes it: each active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::f8f6f4]
    """
def tcgen05_mma_i8_tmem(d: Any, a: Any, b: Any, idesc: Any, add: Any) -> Any:
    """
    Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there
    if `add` is false: asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor,
    with types and shape; `b` is a `matrix_descriptor`, `a` an address in tensor memory.  One thread
    executes it: each active lane performs its own.  [PTX: tcgen05.mma.cta_group::1.kind::i8]
    """
