"""The operands of asynchronous operations that are addresses in shared memory."""

from __future__ import annotations

from wsemu.model.isa import OPERATIONS

IN_SHARED_MEMORY: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((name for name in OPERATIONS if name.startswith(("mbarrier.", "cp.async."))), (0,)),
    **dict.fromkeys((name for name in OPERATIONS if name.startswith("async.")), (0, 1)),
    **dict.fromkeys(("bulk.load", "bulk.multicast"), (0, 3)),
    **dict.fromkeys(("bulk.send", "bulk.send_reduce"), (0, 1, 3)),
    **dict.fromkeys(("bulk.store", "bulk.reduce"), (1,)),
    **dict.fromkeys(("tensor.load", "tensor.multicast"), (0, 2)),
    **dict.fromkeys(("bulk.zero", "tensor.store", "tensor.reduce", "tcgen05.alloc", "tcgen05.commit"), (0,)),
    **dict.fromkeys(("mbarrier.pending_count", "cp.async.commit", "cp.async.wait"), ()),
}
"""asynchronous operation -> its operands that are addresses in shared memory"""
