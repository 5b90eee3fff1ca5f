"""The base of every transfer pattern: its DMA warps and compute warps, and the four calls that synchronize them.

    compute warps                     DMA warps
    dma.start_async_dma()     --->    dma.wait_for_dma_start()      the buffer is empty: barrier 2 * dma_id + 1
                                      (transfer)
    dma.wait_for_dma_finish() <---    dma.finish_async_dma()        the buffer is full:  barrier 2 * dma_id

Reference: Bauer, Cook, Khailany, "CudaDMA: Optimizing GPU Memory Bandwidth via Warp Specialization" (SC 2011),
sections 3 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from wsemu import cuda, ptx
from wsemu.model.errors import UsageError
from wsemu.patterns import rules


@dataclass(frozen=True)
class CudaDMA:
    """Synchronizes DMA warps with the compute warps that use their buffer; blocks are one-dimensional.

    Its methods are kernel code.  Both `dma_id` 0 and `syncthreads` use barrier 0, so a kernel may use only one of them.
    """

    dma_id: int
    """number from 0 to 7, different for each object of a CTA"""
    dma_threads: int
    """threads that transfer, a multiple of 32"""
    compute_threads: int
    """threads that use the buffer, a multiple of 32"""
    first_dma_thread: int
    """`threadIdx.x` of the first thread that transfers, a multiple of 32"""
    first_compute_thread: int = field(default=0, kw_only=True)
    """number of the first thread that computes; by convention the compute warps come first"""
    specialized: bool = field(default=True, kw_only=True)
    """if False, all threads of the CTA transfer, and the four calls do nothing; see `unspecialized`"""

    if TYPE_CHECKING:

        def transfer(self, *arguments: Any, **_: Any) -> Any:  # a form that any `transfer` may override
            """Transfer everything without a barrier: `transfer(self, thread, src, dst, *index)`, which every pattern
            defines; `thread` is the rank among the DMA threads."""

    def __post_init__(self) -> None:
        rules.integers(self, "dma_id", "dma_threads", "compute_threads", "first_dma_thread", "first_compute_thread")
        rules.flag(self, "specialized")
        if not 0 <= self.dma_id < rules.MOST_OBJECTS:
            raise UsageError(
                f"dma_id is {self.dma_id}: give 0 to {rules.MOST_OBJECTS - 1}, two of the 16 named barriers each"
            )
        for name in ("dma_threads", "compute_threads"):
            rules.multiple(self, name, rules.WARP)
        for name in ("first_dma_thread", "first_compute_thread"):
            rules.multiple(self, name, rules.WARP, least=0)
        if self.first_dma_thread + self.dma_threads > rules.MOST_THREADS:
            raise UsageError(
                f"DMA threads {_range(self.first_dma_thread, self.dma_threads)}: a CTA has at most "
                f"{rules.MOST_THREADS}; lower first_dma_thread or dma_threads"
            )
        if self.specialized:
            self._check_roles()

    def _check_roles(self) -> None:
        """Check that no thread both transfers and computes, and that the barriers' count fits a CTA."""
        if self.dma_threads + self.compute_threads > rules.MOST_THREADS:
            raise UsageError(
                f"dma_threads {self.dma_threads} and compute_threads {self.compute_threads}: "
                f"a CTA has at most {rules.MOST_THREADS} together; lower one of them"
            )
        first, compute = self.first_dma_thread, self.first_compute_thread
        if first < compute + self.compute_threads and compute < first + self.dma_threads:
            raise UsageError(
                f"DMA threads {_range(first, self.dma_threads)} overlap the compute threads "
                f"{_range(compute, self.compute_threads)}: give first_dma_thread={compute + self.compute_threads}, or "
                f"first_compute_thread={first + self.dma_threads} if the compute warps come later"
            )

    @classmethod
    def unspecialized(cls, threads: int, *fields: int, **options: object) -> Self:
        """Return the pattern for a CTA of `threads` threads, all of which transfer.

        The program needs a `syncthreads` after the transfer and another one before the next transfer.
        """
        return cls(0, threads, threads, 0, *fields, specialized=False, **options)  # type: ignore[arg-type]

    def objects(self) -> tuple[CudaDMA, ...]:
        """Return the patterns whose threads `block_size` counts: only this one."""
        return (self,)

    def owns_this_thread(self) -> bool:
        """Return whether the calling thread transfers for this object."""
        return self.first_dma_thread <= cuda.threadIdx.x < self.first_dma_thread + self.dma_threads

    def rank(self) -> int:
        """Return the calling thread's number among the threads that transfer, from 0."""
        return cuda.threadIdx.x - self.first_dma_thread

    def start_async_dma(self) -> Any:
        """Compute: the buffer is empty, refill it.  Does not wait."""
        if self.specialized:
            ptx.bar_arrive(2 * self.dma_id + 1, self.dma_threads + self.compute_threads)

    def wait_for_dma_finish(self) -> Any:
        """Compute: wait until the buffer is full."""
        if self.specialized:
            ptx.bar_sync(2 * self.dma_id, self.dma_threads + self.compute_threads)

    def wait_for_dma_start(self) -> Any:
        """Wait, in DMA threads, until the buffer is empty."""
        if self.specialized:
            ptx.bar_sync(2 * self.dma_id + 1, self.dma_threads + self.compute_threads)

    def finish_async_dma(self) -> Any:
        """Signal, in DMA threads, that the buffer is full; do not wait."""
        if self.specialized:
            ptx.bar_arrive(2 * self.dma_id, self.dma_threads + self.compute_threads)

    def execute_dma(self, src: Any, dst: Any, *index: Any) -> Any:
        """Wait until the buffer is empty, transfer, and signal that it is full.  Call this in DMA threads."""
        self.wait_for_dma_start()
        self.transfer(self.rank(), src, dst, *index)
        self.finish_async_dma()

    def execute_dma_no_sync(self, src: Any, dst: Any, *index: Any) -> Any:
        """Transfer without a barrier.  Call this in DMA threads."""
        self.transfer(self.rank(), src, dst, *index)


def block_size(*users: Any) -> int:
    """Return the number of threads of a CTA in which these patterns and `Buffers` work, including compute threads.

    Raise UsageError if they cannot work together.  There may be at most 8 objects with different ids.  DMA threads of
    one object must not be among the compute threads of another, or be only part of its DMA threads.  Two objects may
    share all of their DMA threads (manual double buffering).
    """
    objects = [each for user in users for each in user.objects()]
    if len(objects) > rules.MOST_OBJECTS:
        raise UsageError(f"{len(objects)} objects in a CTA: at most {rules.MOST_OBJECTS}, two of the 16 barriers each")
    for n, one in enumerate(objects):
        for other in objects[:n]:
            _check_pair(one, other)
    ends = [max(o.first_dma_thread + o.dma_threads, o.first_compute_thread + o.compute_threads) for o in objects]
    return max(ends, default=0)


def _check_pair(one: CudaDMA, other: CudaDMA) -> None:
    if one.dma_id == other.dma_id and one.specialized:
        raise UsageError(f"dma_id {one.dma_id} belongs to two objects: give each its own, 0 to 7")
    ranges = [(o.first_dma_thread, o.dma_threads) for o in (one, other)]
    if ranges[0] != ranges[1] and _overlap(*ranges[0], *ranges[1]):
        raise UsageError(
            f"DMA threads {_range(*ranges[0])} of dma_id {one.dma_id} overlap {_range(*ranges[1])} of dma_id "
            f"{other.dma_id}: let one begin where the other ends, first_dma_thread={sum(ranges[1])}"
        )
    for dma, user in ((one, other), (other, one)):
        computing = (user.first_compute_thread, user.compute_threads)
        if dma.specialized and _overlap(dma.first_dma_thread, dma.dma_threads, *computing):
            raise UsageError(
                f"DMA threads {_range(dma.first_dma_thread, dma.dma_threads)} of dma_id {dma.dma_id} overlap the "
                f"compute threads {_range(*computing)} of dma_id {user.dma_id}: give first_dma_thread={sum(computing)}"
            )


def _overlap(first: int, count: int, other_first: int, other_count: int) -> bool:
    return first < other_first + other_count and other_first < first + count


def _range(first: int, count: int) -> str:
    return f"{first} to {first + count - 1}"
