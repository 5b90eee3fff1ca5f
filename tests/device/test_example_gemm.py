"""`examples/hopper/gemm.cu` on the GPU: the driver compiles its PTX and encodes its tensor maps."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.device_bits import Gpu
from benchmarks.device_maps import encoded
from wsemu.model.tensor_map import TensorMap

PTX = Path(__file__).parents[2] / "examples" / "hopper" / "gemm.sm_90a.ptx"
TILE, SLICE, THREADS = 128, 64, 384
SHARED = 4 * 2 * TILE * SLICE * 2 + TILE * TILE * 2 + 64
MOST_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""


def product(m: int, n: int, k: int, a: Any, b: Any) -> Any:
    """a b^T as the GPU makes it."""
    gpu = Gpu()
    c = np.zeros((m, n), np.float16)
    addresses = [gpu.room(x.nbytes) for x in (a, b, c)]
    for address, x in zip(addresses, (a, b, c), strict=True):
        gpu.put(address, x)
    boxes = ([TILE, SLICE], [TILE, SLICE], [64, 64])
    maps = [
        encoded(gpu, TensorMap(x, box, swizzle="128B").fields._replace(address=address))
        for x, box, address in zip((a, b, c), boxes, addresses, strict=True)
    ]
    function = gpu.function(PTX.read_text(encoding="utf-8"), "gemm")
    gpu.done(gpu.driver.cuFuncSetAttribute(function, MOST_SHARED, SHARED))
    gpu.launch(function, (n // TILE, m // TILE), THREADS, SHARED, [*maps, ctypes.c_int32(k)])
    gpu.get(c, addresses[2])
    return c


@pytest.mark.parametrize("size", [(128, 128, 64), (256, 384, 512), (512, 512, 512)])
def test_the_product_is_that_of_the_emulator(size: tuple[int, int, int]) -> None:
    import wsemu

    m, n, k = size
    generator = np.random.default_rng(k)
    a, b = (generator.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float16)
    maps = [TensorMap(x, [TILE, SLICE], swizzle="128B") for x in (a, b)]
    arguments = (*maps, TensorMap(c, [64, 64], swizzle="128B"), np.int32(k))
    kernel = wsemu.load_ptx(PTX)["gemm"]
    report = wsemu.check(kernel, (n // TILE, m // TILE), THREADS, arguments, dynamic_shared=SHARED)
    assert report.verdict == "verified"
    assert np.array_equal(c.view(np.uint16), product(m, n, k, a, b).view(np.uint16))
