"""The names that kernels import beyond Numba: PTX instructions that Numba-CUDA has no name for.

    from wsemu import cuda, ptx

    ptx.bar_arrive(1, 64)                     # give barrier 1 of 64 threads, without waiting
    ptx.bar_sync(1, 64)                       # wait on it
    a, b, c, d = ptx.ld_v4(x, i)              # one 16-byte load of x[i], ..., x[i + 3]
    ptx.st_v4(tile, j, (a, b, c, d))          # one 16-byte store
    words = ptx.ld_bytes(x, 64, 16, "cs")     # 16 bytes, 64 bytes after the start of x, whatever its type
    ptx.st_bytes(tile, 0, words)

A barrier id is 0 to 15 and a count is in threads, a multiple of the warp size.  `bar_*` are the aligned forms: all
lanes of a warp execute them together; `barrier_*` are the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.language import ptx_names as _names

if TYPE_CHECKING:
    from wsemu.language.ptx_signatures import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        return getattr(_names, name)


def __dir__() -> list[str]:
    return sorted(_names.FUNCTIONS)
