"""`cuda.reduce`: an array reduced to one number by a function of two, in launches that are checked like any other.

Numbers are combined in Numba-CUDA's order, so that sums of floats have the same bits. Each thread of up to 64 CTAs
takes elements at a fixed stride, a warp halves its 32 values five times, and the CTA's four warps are combined
crosswise. Elements beyond the last whole CTA go to one more, and a last one combines the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.host.driver import device_array
from wsemu.language import cuda_names as cuda
from wsemu.launch.kernel import jit
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from wsemu.launch.kernel import Kernel

THREADS = 128
"""threads of a CTA: the four warps that are combined at the end"""
CTAS = 64


class Reduce:
    """`total = cuda.reduce(lambda a, b: a + b)`, then `total(array)`."""

    def __init__(self, functor: Callable[[Any, Any], Any]) -> None:
        self._functor = functor
        self._kernels: dict[Any, tuple[Kernel, Kernel]] = {}

    def __call__(self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: object = 0) -> Any:
        """Combine `init` and the first `size` elements of a 1-D array; also store the result in `res[0]` if given."""
        if arr.ndim != 1:
            raise UsageError(f"`reduce` of an array of {arr.ndim} dimensions: give it `ravel()` of it")
        arr = arr[:size]
        start = arr.dtype.type(init)
        if arr.size == 0:
            return start
        whole, rest = self._find_kernels(arr.dtype)
        ctas, left = min(arr.size // THREADS, CTAS), arr.size % THREADS
        parts = device_array(ctas + (left > 0), arr.dtype)
        if ctas:
            whole[ctas, THREADS, stream](arr[: arr.size - left], parts[:ctas], start, True)
        if left:
            rest[1, left, stream](arr[arr.size - left :], parts[ctas:], start, not ctas)
        if parts.size > 1:
            rest[1, parts.size, stream](parts, parts, start, False)
        if res is None:
            return parts[0]
        res[:1].copy_to_device(parts[:1])
        return None

    def _find_kernels(self, dtype: np.dtype[Any]) -> tuple[Kernel, Kernel]:
        if dtype not in self._kernels:
            self._kernels[dtype] = _kernels(self._functor, dtype)
        return self._kernels[dtype]


def _kernels(functor: Any, dtype: np.dtype[Any]) -> tuple[Kernel, Kernel]:
    """Return the kernels for CTAs of four whole warps, and for a single CTA that has a thread for each element."""
    combine = jit(device=True)(getattr(functor, "py_func", functor))

    @jit(device=True)
    def halve(tile: Any, value: Any) -> Any:
        """Combine the values of a warp into column 0 of its row."""
        row = tile[cuda.threadIdx.x // 32, :]
        lane = cuda.threadIdx.x % 32
        row[lane] = value
        cuda.syncwarp()
        width = 16
        while width:
            if lane < width:
                row[lane] = combine(row[lane], row[lane + width])
            cuda.syncwarp()
            width //= 2

    def whole(values: Any, parts: Any, start: Any, with_start: Any) -> None:
        tile = cuda.shared.array((4, 33), dtype)
        thread = cuda.threadIdx.x
        value = values[cuda.grid(1)]
        for n in range(cuda.grid(1) + cuda.gridsize(1), values.size, cuda.gridsize(1)):
            value = combine(value, values[n])
        halve(tile, value)
        cuda.syncthreads()
        if thread < 2:
            tile[thread, 0] = combine(tile[thread, 0], tile[thread + 2, 0])
            cuda.syncwarp(3)
        if thread == 0:
            parts[cuda.blockIdx.x] = combine(tile[0, 0], tile[1, 0])
            if with_start and cuda.blockIdx.x == 0:
                parts[0] = combine(parts[0], start)

    def rest(values: Any, parts: Any, start: Any, with_start: Any) -> None:
        tile = cuda.shared.array((4, 33), dtype)
        thread = cuda.threadIdx.x
        warp = thread // 32
        tile[warp, thread % 32] = values[thread]
        cuda.syncthreads()
        if (warp + 1) * 32 < values.size:
            halve(tile, values[thread])
        elif thread % 32 == 0:  # the last warp may have lanes without a value
            for n in range(1, values.size - warp * 32):
                tile[warp, 0] = combine(tile[warp, 0], tile[warp, n])
        cuda.syncthreads()
        if thread == 0:
            total = tile[0, 0]
            for n in range(1, (cuda.blockDim.x + 31) // 32):
                total = combine(total, tile[n, 0])
            parts[0] = total
            if with_start:
                parts[0] = combine(parts[0], start)

    for kernel in (whole, rest):
        kernel.__name__ = f"reduce({functor.__name__})"
    return jit(whole), jit(rest)
