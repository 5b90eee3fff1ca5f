"""Measure fresh launches on an H200, and compare predictions with them.

    python benchmarks/time_device.py measure ROWS.jsonl    on the device: needs libcuda and Python alone
    python benchmarks/time_device.py compare ROWS.jsonl    anywhere: prints the table (--each: each launch)
    python benchmarks/time_device.py list                  the launches

The launches are of `time/rings.cu`: rings and plain kernels that no constant was fitted to. Every third one is held
back, with a line of its own. Each runs eight times in a graph, seven times over; the median counts.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from time_rings import TILE, predict_row, ptx, summarize

MULTIPROCESSORS = 132
GRAPH, REPEATS = 8, 7
BYTES = 1 << 30
"""of each of the two arrays"""
LEAST = {1: 120 * 1024, 2: 80 * 1024, 3: 72 * 1024, 4: 52 * 1024}
"""CTAs of a multiprocessor -> bytes of dynamic shared memory with which no more fit"""


def rings() -> list[tuple[str, int, int, int]]:
    """Return (kernel, threads, bytes of shared memory, bytes of a tile) of the fresh rings."""
    found = []
    for stages, warps, size in ((3, 1, 16), (3, 8, 16), (6, 2, 16), (2, 2, 8), (3, 4, 8), (1, 8, 4)):
        found.append((f"named_{stages}_{warps}_{size}", 256 + 32 * warps, stages * TILE, TILE))
    for stages, warps, size in ((1, 1, 16), (2, 1, 16), (2, 2, 16), (3, 2, 8), (4, 4, 16)):
        found.append((f"narrow_{stages}_{warps}_{size}", 128 + 32 * warps, stages * TILE, TILE))
    for stages, warps, size in ((1, 2, 16), (2, 4, 16), (3, 4, 8), (2, 8, 16)):
        found.append((f"large_{stages}_{warps}_{size}", 256 + 32 * warps, stages * 2 * TILE, 2 * TILE))
    for stages, size in ((6, 4096), (3, 8192), (6, 8192), (1, 16384), (3, 16384)):
        found.append((f"bulk_{stages}_{size}", 288, stages * (size + 16), size))
    for stages, size in ((1, 2048), (2, 2048), (4, 2048), (2, 4096), (5, 4096), (3, 8192)):
        found.append((f"slim_{stages}_{size}", 160, stages * (size + 16), size))
    for stages in (5, 7):
        found.append((f"cpasync_{stages}", 256, stages * TILE, TILE))
    return found


PLAIN = ("plain_copy", "plain_words", "plain_sums", "plain_turn", "plain_turn_padded", "plain_neighbors")


def launches() -> list[dict[str, Any]]:
    """Return the launches: rings with 1 to 4 CTAs a multiprocessor, plain kernels of many sizes."""
    found = []
    for number, (kernel, threads, shared, size) in enumerate(rings()):
        for each, it in ((1, 0), (2, 0), (1, 24), (4 if number % 2 else 3, 6 * (number % 3))):
            if shared * each > 220 * 1024:
                continue
            per = (384 if number % 3 else 48) * TILE // size
            found.append(row(kernel, threads, max(shared, LEAST[each]), size, MULTIPROCESSORS * each, per, it))
    for kernel in PLAIN:
        for each, per, it in ((1, 256, 0), (2, 16, 0), (4, 128, 0), (8, 32, 0), (8, 64, 16), (4, 96, 64), (8, 4, 0)):
            found.append(row(kernel, 256, 0, TILE, MULTIPROCESSORS * each, per, it))
    return found


def row(kernel: str, threads: int, dyn: int, size: int, grid: int, per: int, it: int) -> dict[str, Any]:
    """Return a launch in which each CTA has `per` tiles."""
    tiles = grid * per
    return {"kernel": kernel, "threads": threads, "dyn": dyn, "grid": grid, "tiles": tiles, "size": size, "it": it}


# -- the device -------------------------------------------------------------------------------------------------------


class Device:
    """The GPU, by CUDA's driver."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream, self.module = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.call("cuModuleLoadData", ctypes.byref(self.module), ctypes.c_char_p(ptx().encode()))
        self.arrays = [ctypes.c_uint64(), ctypes.c_uint64()]
        for array in self.arrays:
            self.call("cuMemAlloc_v2", ctypes.byref(array), ctypes.c_size_t(BYTES))
            self.call("cuMemsetD8_v2", array, ctypes.c_ubyte(0), ctypes.c_size_t(BYTES))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; RuntimeError for its errors."""
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: error {status}")

    def measure(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return a launch with its registers and its time in microseconds."""
        if one["tiles"] * one["size"] > BYTES:
            raise RuntimeError(f"{one['kernel']}: arrays of {one['tiles'] * one['size']:,} bytes are too large")
        function, registers = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, one["kernel"].encode())
        self.call("cuFuncGetAttribute", ctypes.byref(registers), 4, function)
        self.call("cuFuncSetAttribute", function, 8, one["dyn"])
        values = [*self.arrays, ctypes.c_int(one["tiles"]), ctypes.c_int(one["it"])]
        pointers = (ctypes.c_void_p * 4)(*(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values))
        graph, runs = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, 1)
        for _ in range(GRAPH):
            shape = (one["grid"], 1, 1, one["threads"], 1, 1, one["dyn"])
            self.call("cuLaunchKernel", function, *shape, self.stream, pointers, None)
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(runs), graph, ctypes.c_ulonglong(0))
        times = [self._time(runs) for _ in range(REPEATS + 2)][2:]
        self.call("cuGraphExecDestroy", runs)
        self.call("cuGraphDestroy", graph)
        return {**one, "regs": registers.value, "us": round(statistics.median(times), 3), "min": round(min(times), 3)}

    def _time(self, runs: Any) -> float:
        begin, end, milliseconds = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (begin, end):
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", begin, self.stream)
        self.call("cuGraphLaunch", runs, self.stream)
        self.call("cuEventRecord", end, self.stream)
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        return milliseconds.value * 1e3 / GRAPH


def measure(path: Path) -> None:
    """Write the measured launches."""
    device, wanted = Device(), launches()
    with path.open("w", encoding="utf-8") as stream:
        for one in wanted:
            stream.write(json.dumps(device.measure(one)) + "\n")
            stream.flush()
    print(f"{len(wanted)} launches: {path}")


def compare(path: Path, *, each: bool) -> None:
    """Print the errors of the predictions, by family and for the launches that are held back."""
    import wsemu

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "rings.ptx"
        text.write_text(ptx(), encoding="utf-8")
        module = wsemu.load_ptx(text)
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for number, one in enumerate(map(json.loads, path.read_text(encoding="utf-8").splitlines())):
        pair = one["us"], predict_row(module[one["kernel"]], one)
        family = "plain" if one["kernel"].startswith("plain") else "rings"
        found[family].append(pair)
        found[one["kernel"].split("_")[0] if family == "rings" else one["kernel"]].append(pair)
        found["all"].append(pair)
        if number % 3 == 2:
            found[f"{family}, held back"].append(pair)
        if each:
            shape = f"{one['grid']:5} x {one['tiles'] // one['grid']:<4} it {one['it']:<3}"
            print(f"{one['kernel']:20} {shape} {pair[0]:9.1f} {pair[1]:9.1f} {pair[1] / pair[0] - 1:+7.1%}", flush=True)
    for family, pairs in sorted(found.items()):
        print(summarize(family, pairs))


if __name__ == "__main__":
    command, *rest = sys.argv[1:] or ["help"]
    if command == "measure" and rest:
        measure(Path(rest[0]))
    elif command == "compare" and rest:
        compare(Path(rest[0]), each="--each" in rest)
    elif command == "list":
        print(len(launches()), *map(json.dumps, launches()), sep="\n")
    else:
        sys.exit(__doc__)
