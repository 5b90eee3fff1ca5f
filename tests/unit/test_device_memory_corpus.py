"""Launches of the corpus of PTX in a `DeviceMemory`, every pointer and tensor map as bytes, as from a CUDA program: the
report is that of the launch with arrays."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import DeviceMemory
from wsemu.launch.binding import Packed
from wsemu.model.settings import Engine
from wsemu.model.tensor_map import MAP_BYTES

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.ptx import build
from tests.ptx.expected.launches import BROKEN, CASES, Case, Out

FOLDER = Path(__file__).parents[1] / "ptx"
SOURCES = {"bulk", "fences", "functions", "language", "memory", "broken_memory", "broken_async"}
SOME = [case for case in [*CASES, *BROKEN] if case.source in SOURCES]
ARENA = 80 << 40


class Client:
    """What a CUDA program does with the arguments of a launch: it allocates, copies, and passes addresses."""

    def __init__(self, *, arena: bool) -> None:
        self.memory = DeviceMemory()
        self.arena = self.memory.add_arena(ARENA, np.zeros(1 << 22, np.uint8)) if arena else 0
        self.known: dict[tuple[int, int], int] = {}
        """bounds of an array of the host -> address of the copy"""

    def address(self, array: np.ndarray) -> int:
        """Return the address of the first element of an array, whose memory is copied first."""
        if not array.size:
            return 0
        low, high = np.lib.array_utils.byte_bounds(array)
        first = array.__array_interface__["data"][0]
        for (start, end), known in self.known.items():
            if start <= low and high <= end:
                return int(known + first - start)
        data = np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), np.uint8)  # type: ignore[call-overload]
        self.known[low, high] = at = self.store(data)
        return int(at + first - low)

    def store(self, data: np.ndarray) -> int:
        at = self.memory.allocate(data.nbytes, arena=self.arena)
        self.memory.write(at, data)
        return at

    def contents(self, array: np.ndarray) -> bytes:
        return self.memory.view(self.known[np.lib.array_utils.byte_bounds(array)]).tobytes()

    def argument(self, fitted: Any) -> Any:
        """Return an argument as bytes or an address."""
        if isinstance(fitted, np.ndarray):
            return self.address(fitted)
        assert isinstance(fitted, Packed)
        data = bytearray(fitted.data)
        for at, _, array in fitted.arrays:
            data[at : at + 8] = self.address(array).to_bytes(8, "little")
        for at, _, block in fitted.blocks:
            inner = self.store(np.frombuffer(self.argument(block.packed), np.uint8))
            data[at : at + 8] = inner.to_bytes(8, "little")
        for at, _, tensor_map in fitted.maps:
            data[at : at + MAP_BYTES] = tensor_map.encoded(self.address(tensor_map.array))
        return bytes(data)


@pytest.mark.parametrize(("engine", "arena"), [("vm", False), ("vm", True), ("reference", True)])
@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name.replace(" ", "_"))
def test_a_launch_with_addresses_is_the_launch_with_arrays(case: Case, engine: Engine, arena: bool) -> None:
    kernel = wsemu.load_ptx(FOLDER / f"{case.source}.{build.variants(case.source)[0].suffix}.ptx")[case.kernel]
    given = [a.start.copy() if isinstance(a, Out) else a for a in case.arguments()]
    client = Client(arena=arena)
    addresses = [client.argument(one) for one in kernel.fit(given)]
    options: Any = {"dynamic_shared": case.shared, "engine": engine}
    report = wsemu.check(kernel, case.grid, case.block, addresses, **options, memory=client.memory)
    expected = wsemu.check(kernel, case.grid, case.block, given, **options)
    assert (report.verdict, report.counters) == (expected.verdict, expected.counters)
    assert [(f.code, f.count) for f in report.findings] == [(f.code, f.count) for f in expected.findings]
    for array in given:
        if isinstance(array, np.ndarray) and array.size and report.verdict != "failed":
            assert client.contents(array) == array.tobytes()


# -- tensor maps -------------------------------------------------------------------------------------------------------
TENSORS = wsemu.load_ptx(FOLDER / "tensor_copies.sm_90a.ptx")
ON_BOTH = pytest.mark.parametrize(("engine", "arena"), [("vm", False), ("vm", True), ("reference", False)])


def check_tensors(client: Client, name: str, given: tuple[Any, ...], engine: Engine, **options: Any) -> wsemu.Report:
    """Launch with tensor maps as the 128 bytes that the driver writes."""
    kernel = TENSORS[name]
    arguments = [client.argument(one) for one in kernel.fit(given)]
    return wsemu.check(kernel, options.pop("grid", 1), 32, arguments, memory=client.memory, engine=engine, **options)


@ON_BOTH
def test_maps_have_the_addresses_of_the_client(engine: Engine, arena: bool) -> None:
    client = Client(arena=arena)
    x = np.arange(40 * 32, dtype=np.float32).reshape(40, 32)
    y, sums = np.zeros_like(x), np.zeros(32, np.float32)
    maps = wsemu.TensorMap(x, [16, 32], swizzle="128B"), wsemu.TensorMap(y, [16, 32])
    report = check_tensors(client, "through_cuda_ptx", (*maps, sums), engine, grid=3)
    assert report.verdict == "verified", report
    assert client.contents(y) == (2 * x).tobytes()


@ON_BOTH
def test_maps_in_structures_and_maps_that_a_kernel_makes(engine: Engine, arena: bool) -> None:
    client = Client(arena=arena)
    x, total = np.arange(3 * 7 * 64, dtype=np.float32).reshape(3, 7, 64), np.zeros((12, 32), np.float32)
    maps = wsemu.TensorMap(x, [1, 16, 32]), wsemu.TensorMap(total, [16, 32])
    parameters = (np.float32(2), *maps, np.int32(3))
    report = check_tensors(client, "in_a_structure", (parameters,), engine, dynamic_shared=2048)
    assert report.verdict == "verified", report
    assert client.contents(total)[128:1024] == (2 * x[:, :, :32].sum(0)).tobytes()
    map_ = wsemu.TensorMap(np.zeros((16, 32), np.float32), [16, 32])
    given = np.zeros(16, np.uint64), map_, np.zeros(2048, np.float32)
    report = check_tensors(client, "replaced", given, engine)
    assert (report.verdict, report.findings) == ("verified", []), report


@ON_BOTH
def test_a_copy_of_a_freed_array_by_its_map(engine: Engine, arena: bool) -> None:
    client = Client(arena=arena)
    x, y = np.zeros((40, 32), np.float32), np.zeros((40, 32), np.float32)
    given = wsemu.TensorMap(x, [16, 32], swizzle="128B"), wsemu.TensorMap(y, [16, 32]), np.zeros(32, np.float32)
    kernel = TENSORS["through_cuda_ptx"]
    arguments = [client.argument(one) for one in kernel.fit(given)]
    client.memory.free(client.address(x))
    report = wsemu.check(kernel, 1, 32, arguments, memory=client.memory, engine=engine)
    finding = report.findings[0]
    assert finding.code == "out-of-bounds"
    assert finding.message.endswith("`, which was freed"), report
