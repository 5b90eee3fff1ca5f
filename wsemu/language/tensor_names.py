"""The instructions of `wsemu.ptx` on tensor memory (`tcgen05`), for one CTA; `async_names` has `tcgen05_commit`.

Pairs of CTAs, scale factors, sparse products, other shapes of loads and stores, and `tcgen05.cp` exist in PTX only.
"""

from __future__ import annotations

from typing import Final

from wsemu.language.markers import functions

_WARP = "All lanes of the warp execute it together.  "
_ONE = "One thread executes it: each active lane performs its own.  "
MOVES: Final = {f"x{n}": n for n in (1, 2, 4, 8, 16, 32, 64, 128)}
"""repetition of a load or store -> its number of registers"""
KINDS: Final = ("f16", "tf32", "f8f6f4", "i8")
"""kinds of products without scale factors"""
SWIZZLES: Final = {0: 0, 32: 6, 64: 4, 128: 2}
"""swizzle in bytes -> bits 61 to 63 of a shared memory descriptor"""
VERSION: Final = 1 << 46
"""bits 46 to 48 of a shared memory descriptor of `tcgen05`"""
DISTANCES: Final = range(0, 1 << 18, 16)
"""byte offsets that a shared memory descriptor can hold"""
ADDRESS_SHIFT, LEADING_SHIFT, STRIDE_SHIFT = -4, 12, 28
"""shifts that move an address and byte offsets to their bits of a shared memory descriptor"""
PLAIN: Final = {
    "tcgen05_relinquish_alloc_permit": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05_wait_ld": "tcgen05.wait::ld.sync.aligned;",
    "tcgen05_wait_st": "tcgen05.wait::st.sync.aligned;",
    "tcgen05_fence_before_thread_sync": "tcgen05.fence::before_thread_sync;",
    "tcgen05_fence_after_thread_sync": "tcgen05.fence::after_thread_sync;",
}
"""name of a function without parameters -> PTX"""
_DOCS = {
    "tcgen05_relinquish_alloc_permit": "Ends the CTA's allocations, so that other CTAs of the multiprocessor may "
    f"allocate.  {_WARP}",
    "tcgen05_wait_ld": f"Waits until the warp's loads from tensor memory are complete.  {_WARP}",
    "tcgen05_wait_st": f"Waits until the warp's stores to tensor memory are complete.  {_WARP}",
    "tcgen05_fence_before_thread_sync": "Orders the thread's earlier `tcgen05_*` before a relaxed arrival.  ",
    "tcgen05_fence_after_thread_sync": "Orders the thread's later `tcgen05_*` after a relaxed wait.  ",
}
_ADDRESS = "`address`: lane << 16 | column; the warp accesses 32 lanes, from 32 times its number modulo 4 on.  "
_PRODUCT = (
    "Multiplies a and b, and adds the product to the sums at `d` in tensor memory, or stores it there if `add` is "
    "false: "
    "asynchronously, see `tcgen05_commit`.  `idesc` is the instruction descriptor, with types and shape; `b` is a "
    "`matrix_descriptor`, "
)
FUNCTIONS: Final = functions("ptx", "", {
    "tcgen05_alloc(words, index, columns)": "Allocates `columns` of tensor memory (32, 64, 128, 256 or 512), and "
    "writes their address to element `index` of the shared array `words` of uint32; waits until they are free.  "
    f"{_WARP}[PTX: tcgen05.alloc]",
    "tcgen05_dealloc(address, columns)": f"Releases columns of tensor memory.  {_WARP}[PTX: tcgen05.dealloc]",
    **{f"{name}()": f"{text}[PTX: {PLAIN[name].partition('.sync')[0].rstrip(';')}]" for name, text in _DOCS.items()},
    **{f"tcgen05_ld_32x32b_{name}(address)": (
        f"Loads {n} columns of the lane's row of tensor memory, asynchronously: a tuple of {n} uint32, to be used "
        f"after `tcgen05_wait_ld`.  {_ADDRESS}{_WARP}[PTX: tcgen05.ld.sync.aligned.32x32b.{name}.b32]"
    ) for name, n in MOVES.items()},
    **{f"tcgen05_st_32x32b_{name}(address, values)": (
        f"Stores a tuple of {n} uint32 to columns of the lane's row of tensor memory, asynchronously, see "
        f"`tcgen05_wait_st`.  {_ADDRESS}{_WARP}[PTX: tcgen05.st.sync.aligned.32x32b.{name}.b32]"
    ) for name, n in MOVES.items()},
    "matrix_descriptor(array, offset, leading, stride, swizzle=0)": "The shared memory descriptor of a matrix that "
    "begins `offset` bytes after the first element of a shared array, uint64.  `leading` and `stride` are its leading "
    "and stride dimension byte offsets; all three are multiples of 16.  `swizzle` is 0, 32, 64 or 128 bytes, a "
    "constant.  [PTX: shared memory descriptor of tcgen05]",
    **{f"tcgen05_mma_{kind}(d, a, b, idesc, add)": (
        f"{_PRODUCT}and so is `a`.  {_ONE}[PTX: tcgen05.mma.cta_group::1.kind::{kind}]"
    ) for kind in KINDS},
    **{f"tcgen05_mma_{kind}_tmem(d, a, b, idesc, add)": (
        f"{_PRODUCT}`a` an address in tensor memory.  {_ONE}[PTX: tcgen05.mma.cta_group::1.kind::{kind}]"
    ) for kind in KINDS},
})  # fmt: skip
"""kernel function of each name"""
COLUMNS: Final[dict[str, tuple[int, ...]]] = {"columns": (32, 64, 128, 256, 512)}
ALLOWED: Final[dict[str, dict[str, tuple[int, ...]]]] = {"tcgen05_alloc": COLUMNS, "tcgen05_dealloc": COLUMNS}
"""name -> parameter -> its valid values"""
