"""Buffering: one producer loop and one consumer loop, whatever the number of buffers.

    BUFFERS = Buffers.manual_double(CudaDMASequential(1, 32, 128, 128, 4 * TILE))

    tile = cuda.shared.array((BUFFERS.stages, TILE), np.float32)
    if cuda.threadIdx.x < 128:                                                # the compute warps
        BUFFERS.start()
        for i in range(tiles):
            BUFFERS.wait_for_dma_finish(i)
            ...                                                               # use tile[BUFFERS.buffer(i)]
            BUFFERS.start_async_dma(i, tiles)
    elif BUFFERS.owns_this_thread():                                          # the DMA warps
        for i in range(BUFFERS.first_tile(), tiles, BUFFERS.tile_step()):
            BUFFERS.execute_dma(i, tiles, x[i * TILE :], tile[BUFFERS.buffer(i)])
        BUFFERS.finish()

Tile i lies in buffer i % stages.  Every id has two barriers, and `stages / ids` tiles in a row share one generation of
them.  The producers take up the last arrive of the compute warps in `finish`, so that no arrival is left over.

Reference: the paper, section 4.3, and CudaDMA's page on buffering techniques.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from wsemu import cuda, ptx
from wsemu.model.errors import UsageError
from wsemu.patterns import rules
from wsemu.patterns.base import CudaDMA


@dataclass(frozen=True)
class Buffers:
    """`stages` buffers of one transfer, which use `ids` dmaIDs, starting with the pattern's own, and are filled by
    `sets` sets of DMA warps.

    `single`, `double` and `manual_double` are those of the paper.  More stages hide more latency and use more shared
    memory.  Fewer ids than stages save barriers but hand over several tiles at once.
    """

    pattern: Any
    """pattern that fills a buffer, with the first dma_id and the first set of DMA threads"""
    stages: int = 1
    """buffers, a multiple of ids"""
    ids: int = 1
    """dmaIDs, two named barriers each"""
    sets: int = 1
    """sets of DMA warps, side by side: 1, or one for each of the stages"""

    def __post_init__(self) -> None:
        rules.integers(self, "stages", "ids", "sets")
        rules.transfers(self.pattern)
        rules.multiple(self, "ids", 1)
        rules.multiple(self, "stages", self.ids, "the number of ids")
        if self.sets != 1 and not self.sets == self.ids == self.stages:
            raise UsageError(f"sets is {self.sets}: give 1, or as many sets as stages and ids, such as {self.stages}")
        first, last = self.pattern.dma_id, self.pattern.dma_id + self.ids - 1
        if last >= rules.MOST_OBJECTS:
            raise UsageError(
                f"the pattern has dma_id {first}, and {self.ids} ids follow from there on: give it "
                f"{rules.MOST_OBJECTS - self.ids} or less"
            )
        self.objects()  # threads and all

    @classmethod
    def single(cls, pattern: Any) -> Buffers:
        """Return one buffer: either the DMA warps or the compute warps work.

        It is for kernels that are short of shared memory or registers; several CTAs on an SM overlap each other.
        """
        return cls(pattern)

    @classmethod
    def double(cls, pattern: Any) -> Buffers:
        """Return two buffers, each with its own DMA warps, so that loads are always in flight.

        It is for kernels bound by memory that can afford the registers of a second set of DMA warps.
        """
        return cls(pattern, 2, 2, 2)

    @classmethod
    def manual_double(cls, pattern: Any) -> Buffers:
        """Return two buffers: the same DMA warps fill one while the compute warps use the other.

        It is for kernels that need the overlap but are short of registers.  If one set of DMA warps cannot saturate the
        memory, `double` is faster.
        """
        return cls(pattern, 2, 2)

    def objects(self) -> tuple[CudaDMA, ...]:
        """Return the object for each id."""
        own, threads = self.pattern, self.pattern.dma_threads
        return tuple(
            replace(own, dma_id=own.dma_id + n, first_dma_thread=own.first_dma_thread + n % self.sets * threads)
            for n in range(self.ids)
        )

    @property
    def dma_threads(self) -> int:
        """Return the number of DMA threads of all sets."""
        return int(self.pattern.dma_threads * self.sets)

    @property
    def share(self) -> int:
        """Return the number of consecutive tiles that share a generation."""
        return self.stages // self.ids

    @property
    def count(self) -> int:
        """Return the number of threads that each barrier counts."""
        return int(self.pattern.dma_threads + self.pattern.compute_threads)

    def buffer(self, i: Any) -> Any:
        """Return the buffer of tile i."""
        return i % self.stages

    def full(self, i: Any) -> Any:
        """Return the barrier that signals that tile i is full; the next barrier signals that its buffer is empty."""
        return 2 * (self.pattern.dma_id + i // self.share % self.ids)

    def closes(self, i: Any, tiles: Any) -> Any:
        """Return whether tile i is the last one of its generation."""
        return (i + 1) % self.share == 0 or i + 1 == tiles

    # -- compute warps ------------------------------------------------------------------------------------------------
    def start(self) -> Any:
        """Compute: all buffers are empty."""
        for n in range(self.ids):
            ptx.bar_arrive(2 * (self.pattern.dma_id + n) + 1, self.count)

    def wait_for_dma_finish(self, i: Any) -> Any:
        """Compute: wait until tile i is there."""
        if i % self.share == 0:
            ptx.bar_sync(self.full(i), self.count)

    def start_async_dma(self, i: Any, tiles: Any) -> Any:
        """Compute: tile i was used, its buffer is empty."""
        if self.closes(i, tiles):
            ptx.bar_arrive(self.full(i) + 1, self.count)

    # -- DMA warps ----------------------------------------------------------------------------------------------------
    def owns_this_thread(self) -> Any:
        """Return whether the calling thread transfers, in any set."""
        first = self.pattern.first_dma_thread
        return first <= cuda.threadIdx.x < first + self.dma_threads

    def first_tile(self) -> Any:
        """Return the first tile that the calling thread's set fills, which is the number of the set."""
        return (cuda.threadIdx.x - self.pattern.first_dma_thread) // self.pattern.dma_threads

    def tile_step(self) -> Any:
        """Return the distance from a tile to the next tile of the same set."""
        return self.sets

    def rank(self) -> Any:
        """Return the calling thread's number in its set."""
        return (cuda.threadIdx.x - self.pattern.first_dma_thread) % self.pattern.dma_threads

    def wait_for_dma_start(self, i: Any) -> Any:
        """Wait, in DMA threads, until the buffer of tile i is empty."""
        if i % self.share == 0:
            ptx.bar_sync(self.full(i) + 1, self.count)

    def finish_async_dma(self, i: Any, tiles: Any) -> Any:
        """Signal, in DMA threads, that tile i is complete."""
        if self.closes(i, tiles):
            ptx.bar_arrive(self.full(i), self.count)

    def execute_dma(self, i: Any, tiles: Any, src: Any, dst: Any, *index: Any) -> Any:
        """Wait until the buffer of tile i is empty, fill it, and signal that it is full.  Call this in DMA threads."""
        self.wait_for_dma_start(i)
        self.pattern.transfer(self.rank(), src, dst, *index)
        self.finish_async_dma(i, tiles)

    def start_xfer_async(self, src: Any, registers: Any, *index: Any) -> Any:
        """Load the first step of a tile into registers before its buffer is empty.  Call this in DMA threads."""
        self.pattern.prefetch(self.rank(), src, registers, *index)

    def wait_xfer_finish(self, i: Any, tiles: Any, src: Any, dst: Any, registers: Any, *index: Any) -> Any:
        """Wait until the buffer of tile i is empty, store the first step, transfer the rest, and signal that it is
        full.  Call this in DMA threads."""
        self.wait_for_dma_start(i)
        self.pattern.complete(self.rank(), src, dst, registers, *index)
        self.finish_async_dma(i, tiles)

    def finish(self) -> Any:
        """Wait, in DMA threads after the last tile, until all buffers are empty."""
        for n in range(self.first_tile(), self.ids, self.sets):
            ptx.bar_sync(2 * (self.pattern.dma_id + n) + 1, self.count)
