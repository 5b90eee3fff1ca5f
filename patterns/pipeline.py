"""A ring of buffers between warps that fill them and warps that use them, in step by mbarriers.

    RING = Pipeline(4, 1, 128)                                                # 4 buffers, 128 threads use each

    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    RING.start(bars)                                                          # all threads of the CTA
    if cuda.threadIdx.x == 128:                                               # the producer
        for i in range(tiles):
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared(
                tile, (RING.stage(i), 0), x, i * TILE, 4 * TILE, bars, RING.full(i))
            RING.producer_commit(bars, i, 4 * TILE)
    elif cuda.threadIdx.x < 128:                                              # the consumers
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            ...                                                               # use tile[RING.stage(i)]
            RING.consumer_release(bars, i)

Tile i lies in buffer i % stages.  A buffer has two mbarriers: one that completes a phase when it is full, one when it
is empty again.  A phase counts the arrivals of all producers, or of all consumers: each of them calls its two methods
for every tile, or for every tile of the buffers that it serves.  If one lane is the consumer of a warp, the other lanes
also wait for tiles, and meet it in a `cuda.syncwarp()` before it releases a tile.

`Pipeline(4, 1, 1, consumer="tcgen05")` has a consumer that multiplies the matrices in a buffer.  It releases the buffer
when these products are complete.  The buffers of `Pipeline(2, 1, 128, engine="tcgen05")` are columns of tensor memory.
They are full when the products of their producer are complete.

Reference: PTX ISA, "mbarrier"; CUTLASS' pipelines, whose names these are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wsemu import cuda, ptx
from wsemu.model.errors import UsageError
from wsemu.patterns import rules

_PRODUCTS = "tcgen05"


@dataclass(frozen=True)
class Pipeline:
    """`stages` buffers that `producers` threads fill and `consumers` threads use, a pair of mbarriers each.

    Its methods are kernel code.  `bars` is a shared array of `barriers` mbarriers, and i the number of a tile.
    """

    stages: int
    """number of buffers, at least 1"""
    producers: int
    """threads that call `producer_acquire` and `producer_commit` for a tile; with bulk copies mostly 1"""
    consumers: int
    """threads that call `consumer_wait` and `consumer_release` for a tile"""
    engine: str = field(default="bulk", kw_only=True)
    """engine that fills the buffers: "bulk" copies, "cp.async", or stores ("warps").  "tcgen05": products, which fill
    columns of tensor memory"""
    consumer: str = field(default="warps", kw_only=True)
    """engine that reads the buffers: the consumers themselves ("warps"), or products that they issue ("tcgen05")"""

    def __post_init__(self) -> None:
        rules.integers(self, "stages", "producers", "consumers")
        rules.check_choice(self, "engine", (*rules.ENGINES, _PRODUCTS))
        rules.check_choice(self, "consumer", ("warps", _PRODUCTS))
        if self.engine == self.consumer == _PRODUCTS:
            raise UsageError(
                "engine and consumer are both tcgen05: products order themselves; let warps read the columns"
            )
        for name in ("stages", "producers", "consumers"):
            if not 1 <= getattr(self, name) <= rules.MOST_THREADS:
                raise UsageError(f"{name} is {getattr(self, name)}: give 1 to {rules.MOST_THREADS}")

    @classmethod
    def of(cls, pattern: Any, stages: int) -> Pipeline:
        """Return the pipeline for a transfer pattern and its compute threads: see `execute_dma`."""
        rules.transfers(pattern)
        if pattern.to_global:
            raise UsageError("pattern is a scatter: a pipeline fills buffers in shared memory")
        producers = 1 if pattern.bulk else pattern.dma_threads
        return cls(stages, producers, pattern.compute_threads, engine=pattern.engine)

    @property
    def barriers(self) -> int:
        """Return the size of `bars`: the mbarriers of full buffers, then those of empty buffers."""
        return 2 * self.stages

    @property
    def bulk(self) -> bool:
        """Return whether bulk copies fill the buffers."""
        return self.engine == "bulk"

    @property
    def copied(self) -> bool:
        """Return whether `cp.async` fills the buffers."""
        return self.engine == "cp.async"

    @property
    def holds_sums(self) -> bool:
        """Return whether products fill the buffers, which are columns of tensor memory."""
        return self.engine == _PRODUCTS

    @property
    def multiplies(self) -> bool:
        """Return whether products read the buffers."""
        return self.consumer == _PRODUCTS

    def stage(self, i: Any) -> Any:
        """Return the buffer of tile i."""
        return i % self.stages

    def full(self, i: Any) -> Any:
        """Return the mbarrier for a full tile i, which bulk copies credit."""
        return i % self.stages

    def empty(self, i: Any) -> Any:
        """Return the mbarrier for the empty buffer of tile i."""
        return self.stages + i % self.stages

    def parity(self, i: Any) -> Any:
        """Return the parity of the phase that ends when tile i has arrived, and that of the phase that ends when it was
        used."""
        return i // self.stages & 1

    def start(self, bars: Any) -> Any:
        """Initialize the mbarriers, and wait until this is done.  All threads of the CTA call this."""
        if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0 and cuda.threadIdx.z == 0:
            for n in range(self.stages):
                ptx.mbarrier_init(bars, n, self.producers)
                ptx.mbarrier_init(bars, self.stages + n, self.consumers)
            ptx.fence_mbarrier_init()
        cuda.syncthreads()

    # -- producers ----------------------------------------------------------------------------------------------------
    def producer_acquire(self, bars: Any, i: Any) -> Any:
        """Wait, in a producer, until the buffer of tile i is empty.

        If the kernel itself writes the global memory that bulk copies read, it must execute `fence_proxy_async_global`
        after these writes.
        """
        ptx.mbarrier_wait_parity(bars, self.empty(i), self.parity(i) ^ 1)
        if self.bulk and not self.multiplies:
            ptx.fence_proxy_async_shared_cta()  # orders the copy after the reads of the consumers

    def producer_commit(self, bars: Any, i: Any, bytes: Any = 0) -> Any:  # noqa: A002
        """Commit tile i in a producer.  `bytes` is the total of this thread's bulk copies that complete on
        `full(i)`."""
        if self.bulk:
            ptx.mbarrier_arrive_expect_tx(bars, self.full(i), bytes)
        elif self.holds_sums:
            ptx.tcgen05_commit(bars, self.full(i))
        else:
            if self.copied:
                ptx.cp_async_mbarrier_arrive(bars, self.full(i))
            ptx.mbarrier_arrive(bars, self.full(i))

    def execute_dma(self, bars: Any, i: Any, pattern: Any, src: Any, dst: Any, *index: Any) -> Any:
        """Wait until the buffer of tile i is empty, start its transfer, and commit it.  The DMA threads of a pattern
        call this."""
        thread = pattern.rank()
        if self.bulk:
            if thread == 0:
                self.producer_acquire(bars, i)
                pattern.issue_bulk(src, dst, bars, self.full(i), *index)
                self.producer_commit(bars, i, pattern.total_bytes())
        else:
            self.producer_acquire(bars, i)
            pattern.start_transfer(thread, src, dst, *index)
            self.producer_commit(bars, i)

    # -- consumers ----------------------------------------------------------------------------------------------------
    def consumer_wait(self, bars: Any, i: Any) -> Any:
        """Wait, in a consumer, until tile i is complete."""
        ptx.mbarrier_wait_parity(bars, self.full(i), self.parity(i))
        if self.multiplies and not self.bulk:
            ptx.fence_proxy_async_shared_cta()  # orders the products after the stores of the producers

    def consumer_release(self, bars: Any, i: Any) -> Any:
        """Signal, in a consumer, that tile i was used, so that its buffer is empty.

        If products read the buffer, this is signaled when the products that the consumer has issued are complete.
        Loads from tensor memory must be complete before (`tcgen05_wait_ld`).
        """
        if self.multiplies:
            ptx.tcgen05_commit(bars, self.empty(i))
        else:
            ptx.mbarrier_arrive(bars, self.empty(i))
