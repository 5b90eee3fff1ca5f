"""Kernels in PTX for a GPU, with a driver that is none: what it is asked for, and what comes back."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.backends import driver, gpu_process
from wsemu.launch import crosscheck as crosschecks
from wsemu.model.errors import UsageError

FOLDER = Path(__file__).parents[1] / "ptx"
TABLE = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 table, .param .align 8 .b8 fields[16], .param .f32 by)
{
.reg .b64 %rd<4>;
.reg .b32 %r<2>;
ld.param.u64 %rd1, [table];
ld.u64 %rd2, [%rd1];
ld.param.u64 %rd3, [fields+8];
mov.u32 %r1, 7;
st.u32 [%rd2], %r1;
st.u32 [%rd3], %r1;
ret;
}
"""


class Driver:
    """Answers as libcuda does; memory of the GPU is memory here."""

    def __init__(self, kernel: Any = lambda *places: None, *, fails: dict[str, int] | None = None) -> None:
        self.kernel, self.fails = kernel, fails or {}
        self.asked: list[str] = []
        self.memory: dict[int, Any] = {}
        self.config: Any = None

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any) -> int:
            self.asked.append(name)
            does = getattr(type(self), f"do_{name.removesuffix('_v2')}", None)
            if does is not None:
                does(self, *arguments)
            return self.fails.get(name, 0)

        return called

    def do_cuGetErrorName(self, error: int, name: Any) -> None:
        name._obj.value = b"CUDA_ERROR_INVALID_CLUSTER_SIZE"

    def do_cuModuleLoadDataEx(self, module: Any, text: bytes, count: int, options: Any, values: Any) -> None:
        if "cuModuleLoadDataEx" in self.fails:
            ctypes.memmove(values[0], b"ptxas fatal\n  : Unknown symbol", 31)

    def do_cuMemAlloc(self, pointer: Any, size: Any) -> None:
        held = ctypes.create_string_buffer(size.value)
        pointer._obj.value = ctypes.addressof(held)
        self.memory[pointer._obj.value] = held

    def do_cuMemcpyHtoD(self, to: Any, source: Any, size: Any) -> None:
        ctypes.memmove(to.value, source.value, size.value)

    do_cuMemcpyDtoH = do_cuMemcpyHtoD

    def do_cuMemFree(self, pointer: Any) -> None:
        del self.memory[pointer.value]

    def do_cuLaunchKernelEx(self, config: Any, function: Any, places: Any, rest: Any) -> None:
        self.config = config._obj
        self.kernel(*places)

    def attributes(self) -> dict[int, list[int]]:
        """Of the last launch."""
        return {a.id: list(a.value[:3]) for a in self.config.attributes[: self.config.count]}


@pytest.fixture
def answered(monkeypatch):
    """Let a driver answer, in this process."""

    def answer(made: Driver) -> Driver:
        driver._load_module.cache_clear()
        monkeypatch.setattr(driver, "_library", lambda: made)
        monkeypatch.setattr(crosschecks, "require_driver", lambda: None)
        monkeypatch.setattr(
            gpu_process, "run", lambda jobs, *_: [gpu_process._launch(job, lambda: None) for job in jobs]
        )
        return made

    yield answer
    driver._load_module.cache_clear()


def words(address: int, count: int) -> Any:
    """Memory as numbers of 32 bits."""
    return (ctypes.c_int32 * count).from_address(address)


def pointed(place: int) -> int:
    return int(ctypes.c_uint64.from_address(place).value)


def test_a_cluster_launch_of_ptx_is_compared(answered):
    kernel = wsemu.load_ptx(FOLDER / "clusters.sm_90a.ptx")["reduce"]
    x = np.arange(512, dtype=np.float32)

    def sums(out: int, given: int) -> None:
        made = (ctypes.c_float * 4).from_address(pointed(out))
        made[:] = [2016, 2016, 6112, 6112]

    asked = answered(Driver(sums))
    y = np.zeros(4, np.float32)
    report = wsemu.crosscheck(kernel, 4, 32, (y, x), cluster=2, launches=3)
    assert report.status == "same", report
    assert (asked.asked.count("cuLaunchKernelEx"), asked.memory, y.tolist()) == (3, {}, [0] * 4)
    assert asked.attributes() == {4: [2, 1, 1]}
    assert list(asked.config.extents) == [4, 1, 1, 32, 1, 1]


def test_a_difference_of_ptx_is_told(answered):
    kernel = wsemu.load_ptx(FOLDER / "clusters.sm_90a.ptx")["reduce"]
    answered(Driver())
    report = wsemu.crosscheck(kernel, 4, 32, (np.zeros(4, np.float32), np.arange(512, dtype=np.float32)), cluster=2)
    assert (report.status, report.different) == ("differs", 4)


@pytest.mark.parametrize(("name", "cluster", "wanted"), [("stencil", (), {2: [1, 0, 0]}), ("histogram", (2,), {})])
def test_kernels_say_how_they_are_launched(answered, name, cluster, wanted):
    """A grid that meets is launched cooperatively; of clusters that the text gives the driver knows."""
    file = "cooperative.sm_90" if name == "stencil" else "clusters.sm_90a"
    x = np.zeros(256, np.float32 if name == "stencil" else np.int32)
    given = (x, x.copy(), 256, 2) if name == "stencil" else (x, np.int32(16), x.copy(), np.int32(256))
    asked = answered(Driver())
    wsemu.load_ptx(FOLDER / f"{file}.ptx")[name].on("gpu")[(4, 64, 0, 64, *cluster)](*given)
    assert asked.attributes() == wanted


def test_addresses_stand_in_structures_and_tables(answered):
    x, y = np.zeros(4, np.int32), np.zeros(4, np.int32)

    def stores(table: int, fields: int, by: int) -> None:
        words(pointed(pointed(table)), 1)[0] = 7
        words(pointed(fields + 8), 1)[0] = int(ctypes.c_float.from_address(by).value)

    answered(Driver(stores))
    kernel = wsemu.load_ptx(TABLE)["k"]
    kernel.on("gpu")[1, 1]([x], (np.int64(3), y[1:]), 5.0)
    assert (x.tolist(), y.tolist()) == ([7, 0, 0, 0], [0, 5, 0, 0])
    report = wsemu.crosscheck(kernel, 1, 1, ([x[1:]], (np.int64(3), y), 7.0))
    assert report.status == "same", report
    assert (x.tolist(), y.tolist()) == ([7, 0, 0, 0], [0, 5, 0, 0])


def test_parts_of_one_array_are_parts_of_one_there(answered):
    x = np.zeros(8, np.int32)
    seen = []
    answered(Driver(lambda table, fields, by: seen.append(pointed(pointed(table)) - pointed(fields + 8))))
    kernel = wsemu.load_ptx(TABLE)["k"]
    kernel.on("gpu")[1, 1]([x, x[2:]], (np.int64(3), x[4:]), 5.0)
    assert seen == [-16]
    with pytest.raises(UsageError, match="two arrays share a part of their memory: pass the whole one first"):
        kernel.on("gpu")[1, 1]([x[:4]], (np.int64(3), x[2:]), 5.0)


@pytest.mark.parametrize(("name", "message"), [
    ("cuLaunchKernelEx", "cuLaunchKernelEx: the CUDA driver says CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    ("cuModuleLoadDataEx", "`k` is not compiled: the CUDA driver says .*: ptxas fatal : Unknown symbol"),
])  # fmt: skip
def test_what_the_driver_refuses_is_told(answered, name, message):
    asked = answered(Driver(fails={name: 912}))
    x = np.zeros(4, np.int32)
    with pytest.raises(UsageError, match=message):
        wsemu.load_ptx(TABLE)["k"].on("gpu")[1, 1]([x], (np.int64(3), x), 5.0)
    assert not asked.memory


def test_what_is_more_than_a_text_is_refused(tmp_path):
    text = (
        ".version 8.8\n.target sm_90\n.address_size 64\n.visible .global .u32 total;\n"
        ".visible .entry k(.param .u64 x)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [x];\nret;\n}\n"
    )
    (tmp_path / "a.ptx").write_text(text)
    (tmp_path / "b.ptx").write_text(text.replace("total", "other").replace("entry k", "entry l"))
    linked = wsemu.load_ptx(tmp_path / "a.ptx", tmp_path / "b.ptx")["k"]
    with pytest.raises(UsageError, match="`k` is linked of several files: wsemu sends one to a GPU"):
        linked.on("gpu")[1, 32](np.zeros(1))
    with pytest.raises(UsageError, match="`k` takes a texture or surface: wsemu makes none on a GPU"):
        wsemu.load_ptx(text)["k"].on("gpu")[1, 32](wsemu.Texture(np.zeros((4, 4), np.float32)))
    module = wsemu.load_ptx(text)
    module.set(total=3)
    with pytest.raises(UsageError, match="variables of `k` were set: wsemu sends no values of them"):
        module["k"].on("gpu")[1, 32](np.zeros(1))


def test_without_a_driver_that_is_told(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError("libcuda.so.1: cannot open")))
    driver._library.cache_clear()
    assert not driver.available()
    with pytest.raises(UsageError, match=r"no CUDA driver here \(libcuda.so.1: cannot open\): run this on a machine"):
        wsemu.load_ptx(TABLE)["k"].on("gpu")[1, 1]([np.zeros(4)], (np.int64(3), np.zeros(4)), 5.0)
