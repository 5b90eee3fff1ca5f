"""The kernels of `tests/ptx` on the GPU: the driver compiles their PTX, and the results are those of the host."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.ptx.expected.launches import CASES, Case, Out

FOLDER = Path(__file__).parents[1] / "ptx"
LAUNCHES = [
    (case, path) for case in CASES if not case.says for path in sorted(FOLDER.glob(f"{case.source}.*.ptx"))
]  # every PTX file that was made of its source


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
def text(path: Path) -> str:
    """A module's text, under a version that the driver knows: Triton names a newer one than its instructions need."""
    return re.sub(r"^\.version 9\..$", ".version 9.0", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def function(path: Path, entry: str) -> ctypes.c_void_p:
    """A kernel of a module that is loaded for it: variables of the module start anew."""
    module, found = ctypes.c_void_p(), ctypes.c_void_p()
    done(driver().cuModuleLoadData(ctypes.byref(module), text(path).encode()))
    done(driver().cuModuleGetFunction(ctypes.byref(found), module, entry.encode()))
    return found


class Copies:
    """Arrays on the GPU."""

    def __init__(self) -> None:
        self.held: list[tuple[ctypes.c_uint64, Any]] = []

    def address(self, array: Any) -> int:
        pointer = ctypes.c_uint64()
        done(driver().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)))
        done(driver().cuMemcpyHtoD_v2(pointer, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)))
        self.held.append((pointer, array))
        return pointer.value

    def fetch(self) -> None:
        """Bring all arrays back, and free their copies."""
        for pointer, array in self.held:
            size = ctypes.c_size_t(array.nbytes)
            done(driver().cuMemcpyDtoH_v2(ctypes.c_void_p(array.ctypes.data), pointer, size))
            done(driver().cuMemFree_v2(pointer))

    def passed(self, value: Any) -> bytes:
        """The bytes of a parameter."""
        if isinstance(value, np.ndarray):
            return self.address(value).to_bytes(8, "little")
        if isinstance(value, tuple):  # a pointer and then numbers: no padding
            return b"".join(self.passed(part) for part in value)
        return bytes(8) if value is None else bytes(value.tobytes())


def launch(case: Case, path: Path, arguments: list[Any]) -> None:
    import wsemu

    entry = wsemu.load_ptx(path)[case.kernel].entry.name
    copies = Copies()
    buffers = [ctypes.create_string_buffer(data, len(data)) for data in map(copies.passed, arguments)]
    pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    shapes = [(*([shape] if isinstance(shape, int) else shape), 1, 1)[:3] for shape in (case.grid, case.block)]
    extents = [ctypes.c_uint(n) for shape in shapes for n in shape]
    done(driver().cuLaunchKernel(function(path, entry), *extents, ctypes.c_uint(case.shared), None, pointers, None))
    done(driver().cuCtxSynchronize())
    copies.fetch()


@pytest.mark.parametrize(("case", "path"), LAUNCHES, ids=lambda value: getattr(value, "kernel", "") or value.name)
def test_the_gpu_computes_what_the_host_does(case: Case, path: Path) -> None:
    given = case.arguments()
    left = [a.start.copy() if isinstance(a, Out) else a for a in given]
    launch(case, path, left)
    wrong = {n: a.difference(got) for n, (a, got) in enumerate(zip(given, left, strict=True)) if isinstance(a, Out)}
    assert not any(wrong.values()), wrong
