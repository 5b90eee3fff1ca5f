"""The base of every transfer pattern: who transfers, who computes, and the four calls that keep them in step.

    compute warps                     DMA warps
    dma.start_async_dma()     --->    dma.wait_for_dma_start()      the buffer is empty: barrier 2 * dma_id + 1
                                      (transfer)
    dma.wait_for_dma_finish() <---    dma.finish_async_dma()        the buffer is full:  barrier 2 * dma_id

Reference: Bauer, Cook, Khailany, "CudaDMA: Optimizing GPU Memory Bandwidth via Warp Specialization" (SC 2011),
sections 3 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from wsemu import cuda, ptx
from wsemu.errors import UsageError

_WARP = 32
_MOST_THREADS = 1024
_MOST_OBJECTS = 8
"""two named barriers each, of 16"""


@dataclass(frozen=True)
class CudaDMA:
    """Synchronises DMA warps with the compute warps that use their buffer; blocks are one-dimensional.

    Its methods are kernel code.  Barrier 0 belongs to `dma_id` 0 and to `syncthreads` alike: use one of them.
    """

    dma_id: int
    """0 to 7; each object of a CTA has its own"""
    dma_threads: int
    """threads that transfer, a multiple of 32"""
    compute_threads: int
    """threads that use the buffer, a multiple of 32"""
    first_dma_thread: int
    """`threadIdx.x` of the first thread that transfers, a multiple of 32"""

    def __post_init__(self) -> None:
        for name in ("dma_id", "dma_threads", "compute_threads", "first_dma_thread"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"{name} is {value!r}, of type {type(value).__name__}: give an int")
        if not 0 <= self.dma_id < _MOST_OBJECTS:
            raise UsageError(f"dma_id {self.dma_id}: give 0 to {_MOST_OBJECTS - 1}, two of the 16 named barriers each")
        for name in ("dma_threads", "compute_threads"):
            value = getattr(self, name)
            if value < _WARP or value % _WARP:
                near = _whole_warps(value)
                raise UsageError(f"{name} is {value}: give a positive multiple of {_WARP}, such as {near}")
        first = self.first_dma_thread
        if first < 0 or first % _WARP:
            raise UsageError(f"first_dma_thread is {first}: give a multiple of {_WARP}, such as {_whole_warps(first)}")
        if first + self.dma_threads > _MOST_THREADS:
            raise UsageError(
                f"DMA threads {first} to {first + self.dma_threads - 1}: a CTA has at most {_MOST_THREADS}; "
                "lower first_dma_thread or dma_threads"
            )
        if self.dma_threads + self.compute_threads > _MOST_THREADS:
            raise UsageError(
                f"dma_threads {self.dma_threads} and compute_threads {self.compute_threads}: "
                f"a CTA has at most {_MOST_THREADS} together; lower one of them"
            )

    def owns_this_thread(self):  # type: ignore[no-untyped-def]
        """Whether the calling thread transfers for this object."""
        return self.first_dma_thread <= cuda.threadIdx.x < self.first_dma_thread + self.dma_threads

    def start_async_dma(self):  # type: ignore[no-untyped-def]
        """Compute: the buffer is empty, refill it.  Does not wait."""
        ptx.bar_arrive(2 * self.dma_id + 1, self.dma_threads + self.compute_threads)

    def wait_for_dma_finish(self):  # type: ignore[no-untyped-def]
        """Compute: wait until the buffer is full."""
        ptx.bar_sync(2 * self.dma_id, self.dma_threads + self.compute_threads)

    def wait_for_dma_start(self):  # type: ignore[no-untyped-def]
        """DMA: wait until the buffer is empty."""
        ptx.bar_sync(2 * self.dma_id + 1, self.dma_threads + self.compute_threads)

    def finish_async_dma(self):  # type: ignore[no-untyped-def]
        """DMA: the buffer is full, use it.  Does not wait."""
        ptx.bar_arrive(2 * self.dma_id, self.dma_threads + self.compute_threads)


def _whole_warps(threads: int) -> int:
    return max(-(-threads // _WARP), 1) * _WARP
