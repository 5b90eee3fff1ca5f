"""Measure fresh launches on an H200, and compare predictions with the measurements.

    python benchmarks/time_device.py measure --out ROWS.json [--stalls]    on the device: needs libcuda and Python alone
    python benchmarks/time_device.py stalls --out ROWS.json    on the device: adds reasons of stalls that are missing
    python benchmarks/time_device.py compare ROWS.json [--held-out|--all] [--each] [FAMILY ...]    anywhere: the table
    python benchmarks/time_device.py resolve ROWS.json    anywhere: how far apart predictions must be to be in order
    python benchmarks/time_device.py list
    python benchmarks/time_device.py measure --drawn=SET --out ROWS.json, and compare --drawn=SET ROWS.json [--each]:
    the same of launches that `time_drawn.py` drew; SET is `first` or `second`

The launches are those of `time/launches.json.gz`, which `time_launches.py` collects.  Each launch runs eight times in a
graph, and the graph seven times; the median counts.  `--stalls` also reads the reasons of stalls, with Nsight Compute
(`ncu`).  `stalls` profiles the launches without reasons in ROWS.json, divided among all devices.  `compare`
shows the launches that are not held out, with `--held-out` the others, and with `--all` both.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import gzip
import io
import itertools
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "time"
LAUNCHES = HERE / "launches.json.gz"
DRAWN = {"first": HERE / "drawn.json.gz", "second": HERE / "drawn_second.json.gz"}
"""sets of launches that `time_drawn.py` draws"""
GRAPH, REPEATS = 8, 7
RANDOM_BYTES = 1 << 22
STALLS = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
REASONS = (
    "barrier", "branch_resolve", "dispatch_stall", "drain", "lg_throttle", "long_scoreboard", "math_pipe_throttle",
    "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected", "short_scoreboard", "sleeping",
    "tex_throttle", "wait", "gmma",
)  # fmt: skip
COUNTERS = ("smsp__inst_executed.sum", "sm__cycles_elapsed.max", "smsp__issue_active.sum", "dram__bytes.sum")
STALL_SECONDS = 60
"""number of seconds after which `measure` profiles no further launch"""
MORE_STALL_SECONDS = 200
"""number of seconds after which `stalls` profiles no further launch"""
_PACK = {"int32": "i", "int64": "q", "uint32": "I", "uint64": "Q", "float32": "f", "float64": "d", "bool": "?"}


def drawn_predictions(drawn: str) -> Path:
    """Return the file with the predictions of a drawn set, which were made before it was measured."""
    return DRAWN[drawn].with_name(DRAWN[drawn].name.replace(".json.gz", ".predicted.json"))


def collection(*, drawn: str = "") -> dict[str, Any]:
    """Return the PTX modules and the launches, or those of a drawn set."""
    made: dict[str, Any] = json.loads(gzip.decompress((DRAWN[drawn] if drawn else LAUNCHES).read_bytes()))
    return made


# -- the device -------------------------------------------------------------------------------------------------------


class Device:
    """The GPU, by CUDA's driver."""

    def __init__(self, modules: dict[str, str]) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.modules, self.loaded = modules, {}  # type: dict[str, str], dict[str, Any]
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.random = {name: _random(name) for name in ("float16", "float32", "float64")}

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raise RuntimeError for its errors."""
        status = getattr(self.cuda, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'').decode()}")

    def module(self, name: str) -> Any:
        """Return a module, which is loaded once."""
        if name not in self.loaded:
            self.loaded[name] = ctypes.c_void_p()
            text = ctypes.c_char_p(self.modules[name].encode())
            self.call("cuModuleLoadData", ctypes.byref(self.loaded[name]), text)
        return self.loaded[name]

    def allocate(self, size: int, dtype: str) -> Any:
        """Return the address of memory with random numbers."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 256)))
        data = self.random.get(dtype, bytes(RANDOM_BYTES))
        first = min(size, RANDOM_BYTES)
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_char_p(data), ctypes.c_size_t(first))
        while first < size:
            part = min(first, size - first)
            to = ctypes.c_uint64(address.value + first)
            self.call("cuMemcpyDtoD_v2", to, address, ctypes.c_size_t(part))
            first += part
        self.call("cuCtxSynchronize")
        return address

    def prepare(self, one: dict[str, Any]) -> tuple[Any, Any, list[Any], dict[str, int]]:
        """Return the function, its parameters, the memory to release, and what ptxas reports about the function."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module(one["module"]), one["entry"].encode())
        found = {}
        for name, attribute in (("registers", 4), ("local_bytes", 3), ("shared_bytes", 1)):
            value = ctypes.c_int()
            self.call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
            found[name] = value.value
        self.call("cuFuncSetAttribute", function, 8, one["dynamic"])
        held = [self.allocate(size, dtype) for size, dtype in one["arrays"]]
        sizes = self._sizes(function, len(one["parameters"]))
        values = [self._value(p, size, held) for p, size in zip(one["parameters"], sizes, strict=True)]
        return function, values, held, found

    def _sizes(self, function: Any, count: int) -> list[int]:
        """Return the sizes of the parameters of a function."""
        sizes = []
        for number in range(count):
            offset, size = ctypes.c_size_t(), ctypes.c_size_t()
            self.call("cuFuncGetParamInfo", function, number, ctypes.byref(offset), ctypes.byref(size))
            sizes.append(size.value)
        return sizes

    def _value(self, parameter: dict[str, Any], size: int, held: list[Any]) -> Any:
        """Return the bytes of a parameter, aligned to 128 bytes."""
        if "map" in parameter:
            data = struct.pack("<Q", held[parameter["array"]].value) + bytes.fromhex(parameter["map"])[8:]
            if size == 8:
                place = self.allocate(len(data), "")
                self.call("cuMemcpyHtoD_v2", place, ctypes.c_char_p(data), ctypes.c_size_t(len(data)))
                held.append(place)
                data = struct.pack("<Q", place.value)
        elif "array" in parameter:
            data = struct.pack("<Q", held[parameter["array"]].value)
        else:
            data = struct.pack("<" + _PACK[parameter["dtype"]], parameter["value"])
            data = data.ljust(size, b"\0")[:size]
        raw = (ctypes.c_uint8 * (len(data) + 128))()
        placed = (ctypes.c_uint8 * len(data)).from_buffer(raw, -ctypes.addressof(raw) % 128)
        ctypes.memmove(placed, data, len(data))
        return placed

    def launch(self, one: dict[str, Any], function: Any, values: list[Any]) -> None:
        """Launch a function."""
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        shape = (*one["grid"], one["block"], 1, 1, one["dynamic"])
        self.call("cuLaunchKernel", function, *shape, self.stream, pointers, None)

    def measure(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return the time of a launch in microseconds, and the registers of a thread."""
        function, values, held, found = self.prepare(one)
        try:
            self.launch(one, function, values)
            self.call("cuStreamSynchronize", self.stream)
            graph, runs = ctypes.c_void_p(), ctypes.c_void_p()
            self.call("cuStreamBeginCapture_v2", self.stream, 1)
            for _ in range(GRAPH):
                self.launch(one, function, values)
            self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
            self.call("cuGraphInstantiateWithFlags", ctypes.byref(runs), graph, ctypes.c_ulonglong(0))
            times = [self._time(runs) for _ in range(REPEATS + 2)][2:]
            self.call("cuGraphExecDestroy", runs)
            self.call("cuGraphDestroy", graph)
        finally:
            self.release(held)
        return {**found, "us": round(statistics.median(times), 3), "min": round(min(times), 3)}

    def release(self, held: list[Any]) -> None:
        """Release memory."""
        for address in held:
            self.call("cuMemFree_v2", address)

    def _time(self, runs: Any) -> float:
        begin, end, milliseconds = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (begin, end):
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", begin, self.stream)
        self.call("cuGraphLaunch", runs, self.stream)
        self.call("cuEventRecord", end, self.stream)
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        for event in (begin, end):
            self.call("cuEventDestroy_v2", event)
        return milliseconds.value * 1e3 / GRAPH


def _random(dtype: str) -> bytes:
    """Return numbers in [-1, 1)."""
    generator = random.Random(0)
    code, size = {"float16": ("e", 2), "float32": ("f", 4), "float64": ("d", 8)}[dtype]
    count = 1 << 16
    some = struct.pack(f"<{count}{code}", *(generator.uniform(-1, 1) for _ in range(count)))
    return some * (RANDOM_BYTES // (count * size))


def identify(one: dict[str, Any]) -> str:
    """Return a name that no other launch has."""
    return f"{one['group']}: {one['version']} {one['grid']}"


def measure(path: Path, *, stalls: bool, resume: bool = False, drawn: str = "") -> None:
    """Write the measured times, and with `stalls` the reasons of stalls.

    A failed launch leaves no context: then the process starts again, with the launches that are left.
    """
    made = collection(drawn=drawn)
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if resume else []
    known = {row["launch"] for row in rows}
    device = Device(made["modules"])
    started = time.perf_counter()
    for one in made["launches"]:
        if identify(one) in known:
            continue
        try:
            found = device.measure(one)
        except RuntimeError as error:
            found = {"error": str(error)}
            print(f"{identify(one)}: {error}", flush=True)
        rows.append({"launch": identify(one), **found})
        path.write_text(json.dumps(rows), encoding="utf-8")
        if "error" in found:
            options = ["--stalls"] * stalls + [f"--drawn={drawn}"] * bool(drawn)
            os.execv(sys.executable, [sys.executable, __file__, "measure", "--resume", *options, "--out", str(path)])
    print(f"{len(rows)} launches, {time.perf_counter() - started:.0f} s", flush=True)
    if stalls:
        read = profile()
        for row in rows:
            row["stalls"] = read.get(row["launch"], {})
        path.write_text(json.dumps(rows), encoding="utf-8")
        print(f"{len(read)} launches with stalls, {time.perf_counter() - started:.0f} s", flush=True)


def once(rows: Path | None, part: int, parts: int, seconds: float) -> None:
    """Launch each kernel once, for a profiler, and print its name.

    Launches whose row in the file has reasons of stalls are left out, and the others are divided into parts.
    """
    made, started = collection(), time.perf_counter()
    known = {row["launch"] for row in read_rows(rows) if row.get("stalls") or "error" in row}
    device = Device(made["modules"])
    launches = sorted(made["launches"], key=lambda one: random.Random(identify(one)).random())
    for one in [one for one in launches if identify(one) not in known][part::parts]:
        if time.perf_counter() - started > seconds:
            break
        function, values, held, _ = device.prepare(one)
        device.launch(one, function, values)
        device.call("cuStreamSynchronize", device.stream)
        device.release(held)
        print(f"LAUNCHED {identify(one)}", flush=True)


def read_rows(path: Path | None) -> list[dict[str, Any]]:
    """Return the rows of a file; none without a file."""
    return json.loads(path.read_text(encoding="utf-8")) if path else []


def add_stalls(path: Path) -> None:
    """Add the reasons of stalls to rows that have none, with one profiler for each device."""
    count = ctypes.c_int()
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    cuda.cuDeviceGetCount(ctypes.byref(count))
    started, rows = time.perf_counter(), read_rows(path)
    with ThreadPoolExecutor(count.value) as pool:
        parts = range(count.value)
        read = list(pool.map(lambda part: profile(path, part, count.value, MORE_STALL_SECONDS), parts))
    for row in rows:
        row["stalls"] = row.get("stalls") or next((some[row["launch"]] for some in read if row["launch"] in some), {})
    path.write_text(json.dumps(rows), encoding="utf-8")
    added = sum(len(some) for some in read)
    print(f"reasons of stalls of {added} more launches, {time.perf_counter() - started:.0f} s", flush=True)


def profile(
    rows: Path | None = None, part: int = 0, parts: int = 1, seconds: float = STALL_SECONDS
) -> dict[str, dict[str, float]]:
    """Return launch -> its counters from Nsight Compute; empty if Nsight Compute is missing."""
    ncu = shutil.which("ncu")
    if ncu is None:
        print("no ncu")
        return {}
    subprocess.run([ncu, "--version"], check=False)
    wanted = ",".join([*(STALLS.format(reason) for reason in REASONS), *COUNTERS])
    program = [sys.executable, __file__, "once", str(rows or ""), str(part), str(parts), str(seconds)]
    command = [ncu, "--csv", "--clock-control", "none", "--metrics", wanted, *program]
    # one folder each, because profilers lock a file in the folder for temporary files
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(subprocess.TimeoutExpired):
        chosen = {"CUDA_VISIBLE_DEVICES": str(part)} if parts > 1 else {}
        environment = {**os.environ, **chosen, "TMPDIR": folder}
        limit = 60 + 2 * seconds
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, env=environment)
        return read_counters(run)
    print("ncu does not end")
    return {}


def read_counters(run: subprocess.CompletedProcess[str]) -> dict[str, dict[str, float]]:
    """Return launch -> its counters, from the output of Nsight Compute and of `once`."""
    names = [line.partition(" ")[2] for line in run.stdout.splitlines() if line.startswith("LAUNCHED ")]
    table = [line for line in run.stdout.splitlines() if line.startswith('"')]
    if not table:
        print(run.stdout[-2000:], run.stderr[-2000:])
        return {}
    found: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(io.StringIO("\n".join(table))):
        value = row["Metric Value"].replace(",", "")
        if row["ID"].isdigit() and value not in ("", "n/a"):
            name = row["Metric Name"].removeprefix("smsp__average_warps_issue_stalled_")
            found[int(row["ID"])][name.removesuffix("_per_issue_active.ratio")] = float(value)
    return {names[number]: counters for number, counters in found.items() if number < len(names)}


# -- predictions ------------------------------------------------------------------------------------------------------


def compare(path: Path, families: list[str], *, held_out: bool | None, each: bool) -> None:
    """Print the errors of the predictions by family and kind, and how good the picks of versions and first reasons are.

    `held_out` chooses the launches; with None, all are compared.
    """
    from time_rings import summarize

    made = collection()
    predictor = Predictor(made["modules"])
    measured = {row["launch"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    groups: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    reasons: list[bool] = []
    for one in made["launches"]:
        row = measured.get(identify(one), {})
        family = one["family"]
        if held_out not in (None, one["held_out"]) or "us" not in row or (families and family not in families):
            continue
        try:
            made_ = predictor.predict(one, row["registers"])
        except Exception as error:  # a launch that the model rejects is listed, and the others are compared
            print(f"{identify(one)}: {type(error).__name__}: {error}", flush=True)
            continue
        pair = row["us"], made_.microseconds
        for name in (family, "all", *(["own kernels"] if family in OWN else []), f"kind: {printed_kind(made_)}"):
            found[name].append(pair)
        groups[one["group"]].append(pair)
        first = ""
        if row.get("stalls"):
            theirs, ours = first_reason(row["stalls"]), first_reason(as_counters(made_.reasons))
            reasons.append(theirs == ours)
            first = f"{theirs:>10} {ours:>10}"
        if each:
            print(f"{identify(one):56} {pair[0]:9.1f} {pair[1]:9.1f} {pair[1] / pair[0] - 1:+7.1%} {first}", flush=True)
    for family, pairs in sorted(found.items()):
        print(summarize(family, pairs))
    picks = [pick(pairs) for pairs in groups.values() if len(pairs) > 2]
    if picks:
        print(f"picks: {sum(loss <= 0.05 for loss in picks)} of {len(picks)} groups within 5% of the fastest")
    if reasons:
        print(f"first reason of stalls: the same in {sum(reasons)} of {len(reasons)}")


def compare_drawn(path: Path, drawn: str, *, each: bool) -> None:
    """Print the errors of the drawn launches: as predicted before the measurement, and as predicted now."""
    from time_rings import summarize

    made, before = collection(drawn=drawn), json.loads(drawn_predictions(drawn).read_text(encoding="utf-8"))
    predictor = Predictor(made["modules"])
    measured = {row["launch"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in made["launches"]:
        name = identify(one)
        time_ = measured.get(name, {}).get("us")
        if time_ is None:
            print(f"{name}: not measured: {measured.get(name, {}).get('error', 'no row')}")
            continue
        now = predictor.predict(one, one["registers"]).microseconds
        kind = one["family"] if one["family"] in ("rings", "clusters") else "examples"
        for when, predicted in (("before", before[name]), ("now", now)):
            for family in (kind, "all"):
                found[f"{when}: {family}"].append((time_, predicted))
        if each:
            errors = before[name] / time_ - 1, now / time_ - 1
            print(f"{name:56} {time_:9.1f} {before[name]:9.1f} {errors[0]:+7.1%} {errors[1]:+7.1%}", flush=True)
    for family, pairs in sorted(found.items()):
        print(summarize(family, pairs))


RELIABLE = 0.9
"""share of pairs whose measured order must be the predicted one"""


def resolve(path: Path) -> None:
    """Print by class and family how far apart two predictions of a group must be for a reliable order.

    The share of pairs in the predicted order, which grows with their distance, is fitted by isotonic regression. Each
    line has the pairs, the resolution, and the pairs in order below and beyond it. Pairs with a held-out launch also
    have lines of their own.
    """
    from wsemu.timing.resolution import classify_launch

    made = collection()
    predictor = Predictor(made["modules"])
    measured = {row["launch"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
    groups: defaultdict[str, list[tuple[str, dict[str, Any], float, float]]] = defaultdict(list)
    for one in made["launches"]:
        row = measured.get(identify(one), {})
        if "us" in row:
            found = predictor.run(one, row["registers"])
            groups[one["group"]].append((classify_launch(found), one, row["us"], found.seconds))
    pairs: defaultdict[str, list[tuple[float, bool]]] = defaultdict(list)
    for versions in groups.values():
        for (class_, one, time_, seconds), (class2, two, time2, seconds2) in itertools.combinations(versions, 2):
            pair = max(seconds, seconds2) / min(seconds, seconds2) - 1, (time_ - time2) * (seconds - seconds2) > 0
            which = "held out" if one["held_out"] or two["held_out"] else "not held out"
            class_ = class_ if class_ == class2 else "two classes"
            for name in ("all", f"all, {which}", f"family {one['family']}", class_, f"{class_}, {which}"):
                pairs[name].append(pair)
    for name, some in sorted(pairs.items()):
        print(describe_pairs(name, some))


def describe_pairs(name: str, pairs: list[tuple[float, bool]]) -> str:
    """Return a line on (distance, whether the order is right) of pairs."""
    least = resolution(pairs)
    near = [right for distance, right in pairs if least is None or distance < least]
    far = [right for distance, right in pairs if least is not None and distance >= least]
    text = "none" if least is None else f"{least:.1%}"
    return (
        f"{name:40} {len(pairs):4}  resolution {text:>6}  below {sum(near)}/{len(near)}  beyond {sum(far)}/{len(far)}"
    )


def resolution(pairs: list[tuple[float, bool]]) -> float | None:
    """Return the least distance from which on an isotonic fit finds enough pairs in the right order; None if none."""
    blocks: list[tuple[float, int, int]] = []
    for distance, right in sorted(pairs):
        blocks.append((distance, int(right), 1))
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][2] >= blocks[-1][1] * blocks[-2][2]:
            (first, good, count), (_, more, others) = blocks[-2:]
            blocks[-2:] = [(first, good + more, count + others)]
    return next((first for first, good, count in blocks if good >= RELIABLE * count), None)


OWN = ("saxpy", "sgemv", "stencil", "dgemm", "fft", "hgemm", "ampere", "gemm", "flash")
"""families of the kernels in `examples/`"""


def printed_kind(prediction: Any) -> str:
    """Return the kind of launches in the sentence on accuracy of a prediction."""
    return str(prediction.accuracy).partition(": ")[2].partition(" are within")[0]


def pick(pairs: list[tuple[float, float]]) -> float:
    """Return how much slower the version with the smallest predicted time is than the fastest one."""
    chosen = min(pairs, key=lambda pair: pair[1])
    return chosen[0] / min(time_ for time_, _ in pairs) - 1


KINDS = {
    "memory": ("long_scoreboard", "lg_throttle", "gmma"),
    "barrier": ("barrier",),
    "fence": ("membar",),
    "shared": ("short_scoreboard", "mio_throttle"),
    "arithmetic": ("wait", "math_pipe_throttle", "dispatch_stall"),
}
"""kinds of reasons -> those of Nsight Compute, which counts waits on mbarriers as long scoreboard"""
_AS_COUNTERS = {"mbarrier": "long_scoreboard", "copies": "long_scoreboard", "tensor": "gmma"}


def as_counters(reasons: dict[str, float]) -> dict[str, float]:
    """Return predicted reasons under the names of Nsight Compute."""
    found: defaultdict[str, float] = defaultdict(float)
    for name, share in reasons.items():
        found[_AS_COUNTERS.get(name, name)] += share
    return found


def first_reason(counters: dict[str, float]) -> str:
    """Return the kind of reasons with the largest share."""
    return max(KINDS, key=lambda kind: sum(counters.get(name, 0.0) for name in KINDS[kind]))


class Predictor:
    """Predicts the collected launches."""

    def __init__(self, modules: dict[str, str]) -> None:
        self.modules, self.loaded = modules, {}  # type: dict[str, str], dict[str, Any]

    def kernel(self, module: str, entry: str) -> Any:
        """Return a kernel; its module is loaded once."""
        import wsemu

        if module not in self.loaded:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "module.ptx"
                path.write_text(self.modules[module], encoding="utf-8")
                self.loaded[module] = wsemu.load_ptx(path)
        return self.loaded[module][entry]

    def predict(self, one: dict[str, Any], registers: int) -> Any:
        """Return the prediction of a launch."""
        from wsemu.timing.constants import H200
        from wsemu.timing.describe import describe

        return describe(self.run(one, registers), H200)

    def run(self, one: dict[str, Any], registers: int) -> Any:
        """Run the model for a launch."""
        from wsemu.launch.running import bind_launch
        from wsemu.model import settings
        from wsemu.model.launch_shape import configure
        from wsemu.timing.constants import H200
        from wsemu.timing.predict import predict

        kernel = self.kernel(one["module"], one["entry"])
        arguments = kernel.fit(arguments_of(one))
        configuration = kernel.apply_cluster(configure(tuple(one["grid"]), one["block"], 0, one["dynamic"], None))
        bound, _ = bind_launch(kernel, configuration, arguments, settings.current())
        return predict(bound, H200, registers=registers, in_place=True)


def arguments_of(one: dict[str, Any]) -> list[Any]:
    """Return the arguments of a launch: arrays of zeros, numbers, tensor maps."""
    import numpy as np

    import wsemu

    arrays = [np.zeros(size // np.dtype(dtype).itemsize, dtype) for size, dtype in one["arrays"]]
    found: list[Any] = []
    for parameter in one["parameters"]:
        if "map" in parameter:
            array = arrays[parameter["array"]].reshape(parameter["shape"])
            swizzle = (None, "32B", "64B", "128B")[parameter["swizzle"]]
            found.append(wsemu.TensorMap(array, parameter["box"], swizzle=swizzle))
        elif "array" in parameter:
            found.append(arrays[parameter["array"]])
        else:
            found.append(np.dtype(parameter["dtype"]).type(parameter["value"]))
    return found


def main(words: list[str]) -> None:
    """Run a command of the documentation above."""
    command, *rest = words or ["help"]
    drawn = next((word.partition("=")[2] for word in rest if word.startswith("--drawn=")), "")
    plain = [word for word in rest if not word.startswith("-")]
    if command == "measure" and plain:
        measure(Path(plain[0]), stalls="--stalls" in rest, resume="--resume" in rest, drawn=drawn)
    elif command == "compare" and plain and drawn:
        compare_drawn(Path(plain[0]), drawn, each="--each" in rest)
    elif command == "compare" and plain:
        chosen = None if "--all" in rest else "--held-out" in rest
        compare(Path(plain[0]), plain[1:], held_out=chosen, each="--each" in rest)
    elif command == "resolve" and plain:
        resolve(Path(plain[0]))
    elif command == "list":
        for one in collection(drawn=drawn)["launches"]:
            print(f"{one['family']:9} {identify(one)}{'  held out' * one['held_out']}")
    elif command == "stalls" and plain:
        add_stalls(Path(plain[0]))
    elif command == "once":
        rows, part, parts, seconds = rest
        once(Path(rows) if rows else None, int(part), int(parts), float(seconds))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
