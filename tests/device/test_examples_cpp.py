"""The examples in CUDA C++ on the GPU: the driver compiles their PTX and encodes their tensor maps."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.device_bits import Gpu
from benchmarks.device_maps import encoded
from wsemu.model.tensor_map import TensorMap

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""
LAUNCHES = 20
SCALARS: dict[str, Any] = {"i": ctypes.c_int32, "f": ctypes.c_float}


def random_halves(*shape: int) -> Any:
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(np.float16)


def gemm(name: str, m: int, n: int, k: int) -> tuple[Any, ...]:
    """A launch: file, kernel, grid, block, bytes of shared memory, arguments."""
    maps = [
        TensorMap(random_halves(rows, k), [box, 64], swizzle="128B")
        for rows, box in ((m, 128), (n, 64 if name == "gemm_pair" else 128))
    ]
    maps.append(TensorMap(np.zeros((m, n), np.float16), [64, 64], swizzle="128B"))
    grid, shared = (n // 128, m // 128), 4 * 2 * 128 * 64 * 2 + 128 * 128 * 2 + 64
    return "hopper/gemm.sm_90a.ptx", name, grid, 384, shared, (*maps, np.int32(k))


def flash(heads: int, length: int) -> tuple[Any, ...]:
    q, k, v = (random_halves(3, heads * length, 64)[n] for n in range(3))
    maps = [TensorMap(x, [64, 64], swizzle="128B") for x in (q, k, v, np.zeros_like(q))]
    scalars = np.int32(length), np.float32(0.125)
    return "hopper/flash.sm_90a.ptx", "flash", (length // 128, heads), 384, 6 * 8192 + 72, (*maps, *scalars)


def ampere(m: int, n: int, k: int) -> tuple[Any, ...]:
    arrays = random_halves(m, k), random_halves(n, k), np.zeros((m, n), np.float32)
    return (
        "ampere/gemm.sm_80.ptx",
        "gemm",
        (-(-n // 64), -(-m // 64)),
        128,
        65_536,
        (*arrays, *np.array([m, n, k], np.int32)),
    )


LAUNCHED = {
    "gemm-128-128-64": gemm("gemm", 128, 128, 64),
    "gemm-256-384-512": gemm("gemm", 256, 384, 512),
    "gemm-512-512-512": gemm("gemm", 512, 512, 512),
    "gemm_pair-256-384-320": gemm("gemm_pair", 256, 384, 320),
    "gemm_pair-512-512-512": gemm("gemm_pair", 512, 512, 512),
    "flash-1-128": flash(1, 128),
    "flash-4-512": flash(4, 512),
    "ampere-100-70-360": ampere(100, 70, 360),
    "ampere-256-256-256": ampere(256, 256, 256),
}


def array_of(argument: Any) -> Any:
    return argument.array if isinstance(argument, TensorMap) else argument


def on_gpu(file: str, name: str, grid: Any, block: int, shared: int, arguments: tuple[Any, ...]) -> list[Any]:
    """What the arrays among the arguments hold after the last of some launches."""
    gpu = Gpu()
    arrays = [np.array(array_of(x)) for x in arguments if not isinstance(x, np.generic)]
    addresses = iter([gpu.room(x.nbytes) for x in arrays])
    places: list[int] = []
    parameters: list[Any] = []
    for x in arguments:
        if isinstance(x, np.generic):
            parameters.append(SCALARS[x.dtype.char](x))
            continue
        places.append(next(addresses))
        of_map = isinstance(x, TensorMap)
        parameters.append(
            encoded(gpu, x.fields._replace(address=places[-1])) if of_map else ctypes.c_uint64(places[-1])
        )
    function = gpu.function((EXAMPLES / file).read_text(encoding="utf-8"), name)
    gpu.done(gpu.driver.cuFuncSetAttribute(function, MOST_SHARED, shared))
    results: list[bytes] = []
    for _ in range(LAUNCHES):
        for place, x in zip(places, arrays, strict=True):
            gpu.put(place, x)
        gpu.launch(function, grid, block, shared, parameters)
        after = [np.empty_like(x) for x in arrays]
        for place, x in zip(places, after, strict=True):
            gpu.get(x, place)
        results.append(b"".join(x.tobytes() for x in after))
    assert len(set(results)) == 1
    return after


@pytest.mark.parametrize("launch", LAUNCHED.values(), ids=LAUNCHED)
def test_the_result_is_that_of_the_emulator(launch: tuple[Any, ...]) -> None:
    file, name, grid, block, shared, arguments = launch
    there = on_gpu(*launch)
    report = wsemu.check(wsemu.load_ptx(EXAMPLES / file)[name], grid, block, arguments, dynamic_shared=shared)
    assert report.verdict == "verified"
    here = [array_of(x) for x in arguments if not isinstance(x, np.generic)]
    for x, y in zip(here, there, strict=True):
        assert np.array_equal(x.view(np.uint8), y.view(np.uint8))
