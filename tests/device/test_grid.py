"""Cooperative grids on the GPU: the driver compiles the PTX of `tests/ptx/cooperative.cu`, and each of 20 launches
gives what the emulator gives, bit for bit.  Kernels in Python that meet in the grid are among those of
test_agreement.py."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wsemu
from tests.device.test_clusters import done, driver

PTX = Path(__file__).parents[1] / "ptx" / "cooperative.sm_90.ptx"
LAUNCHES = 20
THREADS = 64


class Case(NamedTuple):
    """A launch, of arrays and then numbers."""

    kernel: str
    ctas: int
    arrays: tuple[Any, ...]
    numbers: tuple[int, ...] = ()


def floats(ctas: int) -> tuple[Any, ...]:
    x = np.arange(ctas * THREADS, dtype=np.float32)
    return x, np.zeros_like(x)


CASES = [
    Case("stencil", 8, floats(8), (8 * THREADS, 5)),
    Case("stencil", 64, floats(64), (64 * THREADS, 3)),
    Case("split", 16, (np.zeros(16 * THREADS, np.int32), np.zeros(16 * THREADS, np.int32))),
    Case("tiles", 1, (np.zeros(THREADS, np.int32), np.zeros(THREADS, np.int32))),
]


def emulated(case: Case) -> list[Any]:
    arrays = [array.copy() for array in case.arrays]
    report = wsemu.check(wsemu.load_ptx(PTX)[case.kernel], case.ctas, THREADS, (*arrays, *case.numbers))
    assert report.verdict == "verified", report
    return arrays


def launched(module: ctypes.c_void_p, case: Case) -> list[Any]:
    """The arrays after one cooperative launch."""
    cuda, found = driver(), ctypes.c_void_p()
    done(cuda.cuModuleGetFunction(ctypes.byref(found), module, case.kernel.encode()))
    pointers = [ctypes.c_uint64() for _ in case.arrays]
    for pointer, array in zip(pointers, case.arrays, strict=True):
        done(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)))
        done(cuda.cuMemcpyHtoD_v2(pointer, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)))
    buffers = [*pointers, *(ctypes.c_int(number) for number in case.numbers)]
    places = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(buffer) for buffer in buffers))
    done(cuda.cuLaunchCooperativeKernel(found, case.ctas, 1, 1, THREADS, 1, 1, 0, None, places))
    done(cuda.cuCtxSynchronize())
    results = []
    for pointer, array in zip(pointers, case.arrays, strict=True):
        result = np.empty_like(array)
        done(cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(result.ctypes.data), pointer, ctypes.c_size_t(result.nbytes)))
        done(cuda.cuMemFree_v2(pointer))
        results.append(result)
    return results


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kernel}-{case.ctas}")
def test_every_cooperative_launch_gives_what_the_emulator_gives(case: Case) -> None:
    module = ctypes.c_void_p()
    driver()
    done(driver().cuModuleLoadData(ctypes.byref(module), PTX.read_bytes() + b"\0"))
    wanted = emulated(case)
    for _ in range(LAUNCHES):
        for own, theirs in zip(wanted, launched(module, case), strict=True):
            assert np.array_equal(own, theirs)
