"""Clusters on the GPU: the driver compiles the PTX of `tests/ptx/clusters.cu`, and each of 20 launches gives what the
emulator gives (tests/unit/test_clusters.py), bit for bit."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

PTX = Path(__file__).parents[1] / "ptx" / "clusters.sm_90a.ptx"
LAUNCHES = 20
CLUSTER_DIMENSION = 4
"""CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16))


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("extents", ctypes.c_uint * 6), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


class Case(NamedTuple):
    """A launch, whose first array is the result."""

    kernel: str
    arguments: tuple[Any, ...]
    wanted: Any
    grid: tuple[int, int] = (4, 1)
    cluster: tuple[int, int] = (0, 0)
    """(0, 0): as the kernel asks"""
    shared: int = 0


X = np.arange(512, dtype=np.float32)
INPUT = np.random.default_rng(0).integers(0, 16, 256).astype(np.int32)
PASSED = [np.arange(k, k + 32) + np.arange(32) + 32 for k in (32, 0, 96, 64)]
WHERE = [
    [x % 2 + 2 * (y % 2), 4, x % 2 + 10 * (y % 2), 22, 3, x // 2, 2, 1] for y in range(2) for x in range(4)
]  # fmt: skip
CASES = [
    Case("histogram", (np.zeros(16, np.int32), np.int32(16), INPUT, np.int32(256)), np.bincount(INPUT, minlength=16),
         shared=64),
    Case("reduce", (np.zeros(4, np.float32), X), [2016, 2016, 6112, 6112], cluster=(2, 1)),
    Case("pass_on", (np.zeros(128, np.int32), np.arange(128, dtype=np.int32)), np.concatenate(PASSED)),
    Case("multicast", (np.zeros(128, np.float32), X), np.tile(X[:32] + X[32:64], 4)),
    Case("whereabouts", (np.zeros(64, np.uint32),), np.ravel(WHERE), grid=(4, 2), cluster=(2, 2)),
]  # fmt: skip


@functools.cache
def driver() -> ctypes.CDLL:
    """The CUDA driver, with the first device's context current."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    done(cuda.cuInit(0))
    done(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    done(cuda.cuCtxSetCurrent(context))
    return cuda


def done(error: int) -> None:
    assert error == 0, f"CUDA driver error {error}"


@functools.cache
def module() -> ctypes.c_void_p:
    loaded = ctypes.c_void_p()
    done(driver().cuModuleLoadData(ctypes.byref(loaded), PTX.read_bytes() + b"\0"))
    return loaded


def launched(case: Case) -> Any:
    """The result of one launch."""
    cuda, found = driver(), ctypes.c_void_p()
    done(cuda.cuModuleGetFunction(ctypes.byref(found), module(), case.kernel.encode()))
    pointers: list[ctypes.c_uint64] = []
    buffers: list[Any] = []
    for value in case.arguments:
        if isinstance(value, np.ndarray):
            pointer = ctypes.c_uint64()
            done(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(value.nbytes)))
            done(cuda.cuMemcpyHtoD_v2(pointer, ctypes.c_void_p(value.ctypes.data), ctypes.c_size_t(value.nbytes)))
            pointers.append(pointer)
            buffers.append(pointer)
        else:
            buffers.append(ctypes.c_int(int(value)))
    places = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(buffer) for buffer in buffers))
    attribute = Attribute(CLUSTER_DIMENSION, 0, (ctypes.c_uint * 16)(*case.cluster, 1))
    extents = (ctypes.c_uint * 6)(*case.grid, 1, 32, 1, 1)
    config = Config(extents, case.shared, None, ctypes.pointer(attribute), int(case.cluster != (0, 0)))
    done(cuda.cuLaunchKernelEx(ctypes.byref(config), found, places, None))
    done(cuda.cuCtxSynchronize())
    result = np.empty_like(case.arguments[0])
    done(cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(result.ctypes.data), pointers[0], ctypes.c_size_t(result.nbytes)))
    for pointer in pointers:
        done(cuda.cuMemFree_v2(pointer))
    return result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_every_launch_gives_what_the_emulator_gives(case: Case) -> None:
    for _ in range(LAUNCHES):
        assert np.array_equal(launched(case), case.wanted)
