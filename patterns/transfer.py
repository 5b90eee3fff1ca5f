"""Transfers of patterns: the distribution of elements among threads, and the calls that all patterns have.

A transfer moves *elements*, runs of bytes that lie side by side on both ends.  Threads move an element in *units* of
`alignment` bytes, one access each.  A group of `lanes` threads works on one element at a time, `together` groups side
by side; a group needs `turns` rounds for the units of an element.  A thread's rounds for all of its elements, numbered
consecutively, are its *slots*.  A *step* is `bytes_per_thread / alignment` slots: their loads are issued one after the
other into registers, and then their stores, so that the loads overlap.

Reference: the paper, section 4.1; the second generation of CudaDMA prefetches the first step (its manual).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu import cuda, ptx
from wsemu.model.errors import UsageError
from wsemu.patterns import rules
from wsemu.patterns.base import CudaDMA

_WARPS = rules.MOST_THREADS // rules.WARP
"""maximum warps of a CTA: each may have an mbarrier"""


@dataclass(frozen=True)
class Rows:
    """One end of a transfer: elements that are `stride` bytes apart; the first one is at the start of `array`."""

    array: Any
    stride: int

    def offset(self, element: Any) -> Any:
        """Return the offset of an element from the start of the array, in bytes."""
        return element * self.stride


@dataclass(frozen=True)
class Copy:
    """The DMA threads of `pattern` move `elements` elements of `element_bytes` bytes, `lanes` threads on each."""

    pattern: Any
    lanes: int
    elements: int
    element_bytes: int

    def slots(self) -> Any:
        """Return the number of units that a thread moves in a step."""
        return self.pattern.register_bytes // self.pattern.alignment

    def together(self) -> Any:
        """Return the number of elements that are moved in parallel."""
        return self.pattern.dma_threads // self.lanes

    def turns(self) -> Any:
        """Return the number of slots of a thread for one element."""
        units = (self.element_bytes + self.pattern.alignment - 1) // self.pattern.alignment
        return (units + self.lanes - 1) // self.lanes

    def steps(self) -> Any:
        """Return the number of steps of the whole transfer."""
        rounds = (self.elements + self.together() - 1) // self.together() * self.turns()
        return (rounds + self.slots() - 1) // self.slots()

    def way(self) -> str:
        """Return the method by which elements are split among lanes; see `strided.lanes_per_element`."""
        if self.lanes * self.pattern.alignment >= self.element_bytes and self.lanes <= rules.WARP:
            return "split"
        return "full" if self.turns() <= self.slots() else "big"

    def locate(self, thread: Any, slot: Any) -> Any:
        """Return (element, offset in it, bytes from there to its end) for a slot; 0 bytes without such a slot."""
        group = thread // self.lanes
        element = group + slot // self.turns() * self.together()
        offset = (thread % self.lanes + slot % self.turns() * self.lanes) * self.pattern.alignment
        if group < self.together() and element < self.elements:
            left = self.element_bytes - offset
        else:
            left = 0
        return element, offset, left

    def load_step(self, step: Any, thread: Any, source: Any, registers: Any) -> Any:
        """Load the units of a step into registers."""
        unit, qualifier = self.pattern.alignment, self.pattern.load
        for slot in range(self.slots()):
            element, offset, left = self.locate(thread, step * self.slots() + slot)
            if left >= unit:
                words = ptx.ld_bytes(source.array, source.offset(element) + offset, unit, qualifier)
                ptx.st_bytes(registers, slot * unit, words)
            elif self.element_bytes % unit != 0:  # the end of an element, word by word
                for byte in range(0, unit - 4, 4):
                    if byte < left:
                        word = ptx.ld_bytes(source.array, source.offset(element) + offset + byte, 4, qualifier)
                        ptx.st_bytes(registers, slot * unit + byte, word)

    def store_step(self, step: Any, thread: Any, destination: Any, registers: Any) -> Any:
        """Store the values that `load_step` loaded."""
        unit, qualifier = self.pattern.alignment, self.pattern.store
        for slot in range(self.slots()):
            element, offset, left = self.locate(thread, step * self.slots() + slot)
            if left >= unit:
                words = ptx.ld_bytes(registers, slot * unit, unit)
                ptx.st_bytes(destination.array, destination.offset(element) + offset, words, qualifier)
            elif self.element_bytes % unit != 0:
                for byte in range(0, unit - 4, 4):
                    if byte < left:
                        word = ptx.ld_bytes(registers, slot * unit + byte, 4)
                        ptx.st_bytes(destination.array, destination.offset(element) + offset + byte, word, qualifier)

    def issue(self, thread: Any, source: Any, destination: Any) -> Any:
        """Start copies of all units, which bypass the registers: `engine` is "cp.async"."""
        unit = self.pattern.alignment
        for slot in range(self.steps() * self.slots()):
            element, offset, left = self.locate(thread, slot)
            if left >= unit:
                to, origin = destination.offset(element) + offset, source.offset(element) + offset
                if self.pattern.past_l1:
                    ptx.cp_async_cg_bytes(destination.array, to, source.array, origin, 16)
                else:
                    ptx.cp_async_ca_bytes(destination.array, to, source.array, origin, unit)
            elif self.element_bytes % unit != 0:  # the end of an element, word by word
                for byte in range(0, unit - 4, 4):
                    if byte < left:
                        to, origin = destination.offset(element) + offset, source.offset(element) + offset
                        ptx.cp_async_ca_bytes(destination.array, to + byte, source.array, origin + byte, 4)

    def issue_bulk(self, source: Any, destination: Any, bars: Any, k: Any) -> Any:
        """Start a bulk copy of each element, which credits the mbarrier `bars[k]`."""
        size = self.element_bytes // 16 * 16  # all of it: bulk elements are multiples of 16, others are not copied
        for element in range(self.elements):
            to, origin = destination.offset(element), source.offset(element)
            ptx.cp_async_bulk_global_to_shared_bytes(destination.array, to, source.array, origin, size, bars, k)

    def run(self, thread: Any, source: Any, destination: Any, registers: Any) -> Any:
        """Load and store all steps."""
        for step in range(self.steps()):
            self.load_step(step, thread, source, registers)
            self.store_step(step, thread, destination, registers)

    def complete(self, thread: Any, source: Any, destination: Any, registers: Any) -> Any:
        """Complete the copy after the load of its first step."""
        self.store_step(0, thread, destination, registers)
        for step in range(1, self.steps()):
            self.load_step(step, thread, source, registers)
            self.store_step(step, thread, destination, registers)


@dataclass(frozen=True)
class Transfer(CudaDMA):
    """A pattern that knows how to transfer: kernels call `execute_dma`, or its two halves.

    `src` and `dst` are arrays of any type and shape, or views of them (`x[i:]`, `a[row:, column:]`): a transfer begins
    at their first element.  Addresses there are multiples of `alignment`.

        execute_dma(src, dst)                    wait until the buffer is empty, transfer, say that it is full
        execute_dma_no_sync(src, dst)            transfer

        registers = cuda.local.array(dma.register_bytes, np.uint8, 16)
        start_xfer_async(src, registers)         load the first step, before the buffer is empty
        wait_xfer_finish(src, dst, registers)    wait until it is, store, transfer the rest, say that it is full

    A subclass declares how elements are distributed (`copy`) and where they are located (`source`, `destination`).

    With another `engine` than "warps" the bytes do not go through registers: `start_xfer_async` does nothing.  One
    thread starts bulk copies, with an mbarrier of its own that ends with the transfer.
    """

    if TYPE_CHECKING:

        def copy(self) -> Any: ...
        def source(self, src: Any, *index: Any) -> Any: ...
        def destination(self, dst: Any, *index: Any) -> Any: ...

    alignment: int = field(default=4, kw_only=True)
    """bytes of an access, 4, 8 or 16: addresses and strides are multiples of it"""
    bytes_per_thread: int = field(default=0, kw_only=True)
    """bytes that a thread loads before it stores them, a multiple of alignment; 0 stands for four times alignment"""
    load: str = field(default="", kw_only=True)
    """cache operator of the loads: ca, cg, cs (streaming), lu (last use), cv (volatile), nc"""
    store: str = field(default="", kw_only=True)
    """cache operator of the stores: wb (write back), cg, cs (streaming), wt (write through)"""

    engine: str = field(default="warps", kw_only=True)
    """engine that moves the bytes: "warps" (loads and stores), "cp.async" (to shared memory; sm_80), or "bulk"
    (elements, addresses, strides and alignment are multiples of 16 bytes; sm_90)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        rules.check_choice(self, "engine", rules.ENGINES)
        if self.bulk:
            object.__setattr__(self, "alignment", rules.BULK)
            object.__setattr__(self, "bytes_per_thread", 0)
        rules.integers(self, "alignment", "bytes_per_thread")
        rules.check_choice(self, "alignment", ptx.ACCESS_WIDTHS)
        if self.bytes_per_thread:
            rules.multiple(self, "bytes_per_thread", self.alignment, "the alignment")
        rules.check_choice(self, "load", ptx.LOAD_QUALIFIERS)
        rules.check_choice(self, "store", ptx.STORE_QUALIFIERS)
        object.__setattr__(self, "bytes_per_thread", self.register_bytes)
        if self.asynchronous:
            self._check_engine()

    def _check_engine(self) -> None:
        """Raise UsageError if the engine cannot do this transfer."""
        if self.to_global and not self.bulk:
            raise UsageError(f"engine is {self.engine!r}, which copies to shared memory only: give 'warps' or 'bulk'")
        if self.store:
            raise UsageError(f"store is {self.store!r}, but engine {self.engine!r} has no stores: leave store out")
        allowed = ("",) if self.bulk else ("", "ca", "cg") if self.alignment == rules.BULK else ("", "ca")
        if self.load not in allowed:
            said = " or ".join(map(repr, allowed))
            raise UsageError(
                f"load is {self.load!r}: with engine {self.engine!r} and {self.alignment}-byte accesses give {said}"
            )

    @property
    def bulk(self) -> bool:
        """Return whether one thread starts bulk copies."""
        return self.engine == "bulk"

    @property
    def asynchronous(self) -> bool:
        """Return whether the copy bypasses the registers."""
        return self.engine != "warps"

    @property
    def past_l1(self) -> bool:
        """Return whether copies bypass the L1 cache."""
        return self.load == "cg"

    @property
    def to_global(self) -> bool:
        """Return whether the destination is in global memory."""
        return False

    @property
    def register_bytes(self) -> int:
        """Return the number of bytes of registers that a thread needs for a step."""
        return self.bytes_per_thread if self.bytes_per_thread else 4 * self.alignment

    def parts(self) -> tuple[tuple[str, Copy], ...]:
        """Return the parts that are distributed separately, each with the name of its method."""
        return ((self.copy().way(), self.copy()),)

    def plan(self, arch: str = "sm_90", *, time: bool = False) -> Any:
        """Return the steps, wavefronts and sectors of this transfer as a `Plan` that prints as a table; with `time`,
        also its predicted cycles."""
        from wsemu.launch.transfer import plan  # the emulator, which kernels do not need

        made = plan(self, arch)
        if time:
            from wsemu.timing.transfers import add_time

            made = add_time(made)
        return made

    def start_xfer_async(self, src: Any, registers: Any, *index: Any) -> Any:
        """Load the first step into registers before the buffer is known to be empty.  Call this in DMA threads."""
        self.prefetch(self.rank(), src, registers, *index)

    def wait_xfer_finish(self, src: Any, dst: Any, registers: Any, *index: Any) -> Any:
        """Wait until the buffer is empty, store the first step, transfer the rest, and signal that it is full.  Call
        this in DMA threads."""
        self.wait_for_dma_start()
        self.complete(self.rank(), src, dst, registers, *index)
        self.finish_async_dma()

    def transfer(self, thread: Any, src: Any, dst: Any, *index: Any) -> Any:
        if self.bulk:
            if thread == 0:
                self.copy_in_bulk(src, dst, *index)
        else:
            self.start_transfer(thread, src, dst, *index)
            if self.asynchronous:
                ptx.cp_async_wait_all()

    def start_transfer(self, thread: Any, src: Any, dst: Any, *index: Any) -> Any:
        """Transfer, or with engine "cp.async" start the transfer.  All DMA threads call this."""
        if self.asynchronous:
            self.issue(thread, src, dst, *index)
        else:
            registers = cuda.local.array(self.register_bytes, np.uint8, 16)
            self.through_registers(thread, src, dst, registers, *index)

    def prefetch(self, thread: Any, src: Any, registers: Any, *index: Any) -> Any:
        if not self.asynchronous:
            self.load_first(thread, src, registers, *index)

    def complete(self, thread: Any, src: Any, dst: Any, registers: Any, *index: Any) -> Any:
        if self.asynchronous:
            self.transfer(thread, src, dst, *index)
        else:
            self.store_first(thread, src, dst, registers, *index)

    def copy_in_bulk(self, src: Any, dst: Any, *index: Any) -> Any:
        """Start bulk copies, and wait for them.  Only one thread executes this."""
        self.load_in_bulk(src, dst, *index)

    def load_in_bulk(self, src: Any, dst: Any, *index: Any) -> Any:
        """Load the transfer into shared memory with bulk copies and wait for them."""
        bars = cuda.shared.array(_WARPS, np.uint64)
        warp = cuda.threadIdx.x // cuda.warpsize
        ptx.mbarrier_init(bars, warp, 1)
        ptx.fence_mbarrier_init()
        ptx.fence_proxy_async()  # orders the copies after plain accesses to the buffer
        token = ptx.mbarrier_arrive_expect_tx(bars, warp, self.total_bytes())
        self.issue_bulk(src, dst, bars, warp, *index)
        ptx.mbarrier_wait(bars, warp, token)
        ptx.mbarrier_inval(bars, warp)

    # -- of patterns with one `copy`; a pattern of several parts overrides these ---------------------------------------
    def total_bytes(self) -> Any:
        """Return the number of bytes that are moved."""
        copy = self.copy()
        return copy.elements * copy.element_bytes

    def issue(self, thread: Any, src: Any, dst: Any, *index: Any) -> Any:
        self.copy().issue(thread, self.source(src, *index), self.destination(dst, *index))

    def issue_bulk(self, src: Any, dst: Any, bars: Any, k: Any, *index: Any) -> Any:
        self.copy().issue_bulk(self.source(src, *index), self.destination(dst, *index), bars, k)

    def through_registers(self, thread: Any, src: Any, dst: Any, registers: Any, *index: Any) -> Any:
        self.copy().run(thread, self.source(src, *index), self.destination(dst, *index), registers)

    def load_first(self, thread: Any, src: Any, registers: Any, *index: Any) -> Any:
        self.copy().load_step(0, thread, self.source(src, *index), registers)

    def store_first(self, thread: Any, src: Any, dst: Any, registers: Any, *index: Any) -> Any:
        self.copy().complete(thread, self.source(src, *index), self.destination(dst, *index), registers)
