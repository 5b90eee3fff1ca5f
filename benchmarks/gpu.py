"""Measure the patterns on a GPU, and compare them with other kernels and tools.

    python benchmarks/gpu.py [speed] [sweeps] [counters] [sanitizer]

speed       SAXPY and SGEMV in all versions, compared with a device-to-device copy
sweeps      SAXPY over compute intensity and DMA warps, as in figures 8 and 9 of the paper
counters    wavefronts and sectors: the emulator's numbers compared with measurements by Nsight Compute (`ncu`)
sanitizer   30 programs under racecheck and synccheck of `compute-sanitizer`, and under wsemu

It needs a GPU and Numba-CUDA (`pip install 'wsemu[gpu]'`), but no network.  Results go to benchmarks/results.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib.util
import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu import cuda, ptx
from wsemu.backends import gpu_process, numba_cuda
from wsemu.launch.check import examine
from wsemu.launch.crosscheck import Recorder, copy_arguments
from wsemu.launch.hooks import around, observers
from wsemu.model import settings
from wsemu.model.launch_shape import configure

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
LAUNCHES, REPEATS = 20, 11
"""number of launches of a kernel in a graph; number of launches of the graph"""
WARM = 30.0
"""milliseconds that a kernel has run at least before the launches that count: the clock of an idle GPU is low"""
CTAS = 264
"""two for each multiprocessor of an H200"""
TILES = 2048
"""number of tiles of a CTA"""


@functools.cache
def example(name: str, **constants: Any) -> ModuleType:
    """Return a copy of an example's module, with other constants in its source."""
    path = ROOT / "examples" / f"{name}.py"
    text = path.read_text()
    for constant, value in constants.items():
        lines = text.splitlines()
        at = [n for n, line in enumerate(lines) if line.startswith(f"{constant} = ")]
        assert len(at) == 1, f"{constant} is not assigned once in {path}"
        lines[at[0]] = f"{constant} = {value!r}"
        text = "\n".join(lines) + "\n"
    spec = importlib.util.spec_from_file_location(f"{name}_example", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def milliseconds(kernel: Any, grid: int, block: int, arguments: tuple[Any, ...], launches: int = LAUNCHES) -> float:
    """Return the median time of a launch in a CUDA graph of `launches`, so that the time that Python takes to launch
    does not count."""
    from cuda.bindings import driver

    device = numba_cuda.numba_cuda()
    stream = device.stream()
    handle = driver.CUstream(int(stream.handle))
    launch = numba_cuda.configure_kernel(kernel, grid, block, stream=stream)
    with numba_cuda.quiet():
        launch(*arguments)  # compiles it
        stream.synchronize()
        done(driver.cuStreamBeginCapture(handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        for _ in range(launches):
            launch(*arguments)
        graph = done(driver.cuStreamEndCapture(handle))
    ready = done(driver.cuGraphInstantiate(graph, 0))
    times = [0.0]
    while len(times) <= REPEATS or sum(times) < WARM:
        start, end = device.event(), device.event()
        start.record(stream)
        done(driver.cuGraphLaunch(ready, handle))
        end.record(stream)
        end.synchronize()
        times.append(device.event_elapsed_time(start, end))
    done(driver.cuGraphExecDestroy(ready))
    done(driver.cuGraphDestroy(graph))
    return float(np.median(times[-REPEATS:])) / launches


def done(result: tuple[Any, ...]) -> Any:
    """Return the result of a driver call."""
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) > 1 else None


def copy_rate() -> float:
    """Return the GB/s of a device-to-device copy, counting bytes read and written."""
    device = numba_cuda.numba_cuda()
    a, b = (device.device_array(1 << 28, np.float64) for _ in range(2))
    times = []
    for _ in range(2 * REPEATS):
        start, end = device.event(), device.event()
        start.record()
        b.copy_to_device(a)
        end.record()
        end.synchronize()
        times.append(device.event_elapsed_time(start, end))
    return 2 * 8 * (1 << 28) / float(np.median(times[REPEATS:])) / 1e6


def random_floats(n: int) -> Any:
    """Return n floats on the device, with a million different values."""
    return numba_cuda.numba_cuda().to_device(
        np.resize(np.random.default_rng(1).standard_normal(1 << 20, np.float32), n)
    )


def saxpy_rates(intensity: int = 0, wanted: tuple[str, ...] = (), **constants: Any) -> dict[str, float]:
    """Return the GB/s of the kernels of examples/saxpy.py, or of the selected ones: 12 bytes per element."""
    module = example("saxpy", **constants)
    n = CTAS * TILES * module.TILE
    x, y = random_floats(n), random_floats(n)
    return {
        kernel.__name__: 12 * n / milliseconds(kernel, CTAS, block, (n, np.float32(0.5), x, y, intensity), 5) / 1e6
        for kernel, block in module.KERNELS
        if not wanted or kernel.__name__ in wanted
    }


SHAPES: dict[str, dict[str, int]] = {
    "64": {},
    "128": {"COMPUTE_THREADS": 128, "TILE": 64, "STAGES": 5},
    "32": {"COMPUTE_THREADS": 32, "STAGES": 8, "RING_TILE": 32},
}
"""number of rows of a CTA -> constants of examples/sgemv.py: with fewer rows there are more CTAs"""


def sgemv_rates(sizes: tuple[int, ...], **constants: int) -> dict[str, dict[str, float]]:
    """Return n -> GB/s of the versions of examples/sgemv.py: 4 bytes per element of the matrix."""
    module = example("sgemv", **constants)
    found = {}
    for n in sizes:
        matrix, x, y = random_floats(n * n).reshape((n, n), order="F"), random_floats(n), random_floats(n)
        grid, arguments = n // module.COMPUTE_THREADS, (n, np.float32(0.75), matrix, x, y)
        found[str(n)] = {
            name: 4 * n * n / milliseconds(kernel, grid, block, arguments) / 1e6
            for name, (kernel, block) in module.VERSIONS.items()
        }
    return found


def speed() -> dict[str, Any]:
    found: dict[str, Any] = {"copy": copy_rate(), "saxpy": saxpy_rates()}
    found["sgemv"] = {rows: sgemv_rates((1024, 4096, 16384), **constants) for rows, constants in SHAPES.items()}
    return found


def sweeps() -> dict[str, Any]:
    """Measure figures 8 and 9 of the paper: SAXPY over compute intensity, and over the number of DMA warps."""
    intensity = {str(n): saxpy_rates(n) for n in (0, 4, 8, 16, 32, 64, 128, 256)}
    warps: dict[str, dict[str, float]] = {"cudadma": {}, "cudadma_double": {}}
    for threads in (32, 64, 96, 128):  # for x, and the same number for y; twice that with two buffers
        for name, rate in saxpy_rates(0, tuple(warps), DMA_THREADS=threads).items():
            sets = 4 if name == "cudadma_double" else 2
            warps[name][str(sets * threads // 32)] = rate
    return {"intensity": intensity, "warps": warps}


# -- counters --------------------------------------------------------------------------------------------------------
METRICS = {
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}
"""counter of a report -> metric of Nsight Compute"""


@functools.cache
def probe(kind: str, width: int) -> Any:
    """Return a kernel of one warp that performs one access of `width` bytes at given offsets."""
    is_shared = kind.startswith("shared")

    @cuda.jit
    def probe_kernel(offsets, data):  # type: ignore[no-untyped-def]
        tile = cuda.shared.array(4096, np.uint32, 16)
        lane = cuda.threadIdx.x
        offset = offsets[lane]
        if is_shared:  # otherwise the compiler would remove unused loads
            for word in range(lane, 4096, 32):
                tile[word] = word
            cuda.syncwarp()
        if offset >= 0:
            if kind == "shared load":
                ptx.st_bytes(data, 16 * lane, ptx.ld_bytes(tile, offset, width))
            elif kind == "shared store":
                ptx.st_bytes(tile, offset, ptx.ld_bytes(data, 16 * lane, width))
                data[4 * lane] = tile[offset // 4]
            elif kind == "global load":
                ptx.st_bytes(data, 16 * lane, ptx.ld_bytes(data, 16384 + offset, width))
            else:
                ptx.st_bytes(data, 16384 + offset, ptx.ld_bytes(data, 16 * lane, width))

    return probe_kernel


def probes(count: int) -> Iterator[tuple[str, Any, Any, tuple[Any, ...]]]:
    """Yield (name, kernel, launch, arguments) of random access patterns: strides, permutations, broadcasts, gaps."""
    random = np.random.default_rng(1)
    kinds = ("shared load", "shared store", "global load", "global store")
    for n in range(count):
        kind, width = kinds[n % 4], (4, 8, 16)[n // 4 % 3]
        stride, spread = int(random.integers(0, 40)), int(random.integers(1, 200))
        lanes = random.permutation(32) if n % 3 else np.arange(32)
        index = lanes * stride if n % 2 else random.integers(0, spread, 32)
        offsets = (index * width % 16384).astype(np.int64)
        offsets[random.random(32) < (n % 5 == 0) * 0.3] = -1
        data = random.integers(0, 1 << 31, 16384, dtype=np.uint32)
        yield f"{kind} {width} bytes, pattern {n}", probe(kind, width), configure(1, 32), (offsets, data)


def counted() -> list[tuple[str, Any, Any, tuple[Any, ...]]]:
    """Return the launches to run under Nsight Compute: the kernels of all examples, and 100 access patterns."""
    found = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        for e in launches_of(path, SMALL.get(path.stem, [])):
            found.append((f"{path.stem}: {e.kernel.__name__}", e.kernel, e.configuration, e.before))
    return found + list(probes(100))


COUNTED = 3
"""times that each kernel is measured: wavefronts differ by a few from run to run"""
SMALL = {"sgemv": ["512", "all"]}


def launches_of(path: Path, arguments: list[str]) -> list[Any]:
    """Return one launch of each kernel of a program, emulated."""
    recorder = Recorder()
    around.append(recorder)
    kept, sys.argv = sys.argv, [str(path), *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        around.remove(recorder)
        sys.argv = kept
    return list({id(e.kernel): e for e in reversed(recorder.emulated)}.values())[::-1]


def launch_counted() -> None:
    """Run the launches for Nsight Compute."""
    for _, kernel, configuration, arguments in counted() * COUNTED:
        numba_cuda.launch(
            kernel, configuration.grid, configuration.block, copy_arguments(arguments),
            dynamic_shared=configuration.dynamic_shared,
        )  # fmt: skip


def counters() -> dict[str, Any]:
    """Compare the emulator's predictions with the hardware counters."""
    command = ["ncu", "--csv", "--clock-control", "none", "--metrics", ",".join(METRICS.values())]
    own = [sys.executable, str(Path(__file__)), "--launch-counted"]
    said = subprocess.run([*command, *own], capture_output=True, text=True, check=False, timeout=500)
    lines = said.stdout.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {"error": (said.stdout + said.stderr)[-2000:]}
    measured: dict[str, dict[str, float]] = {}
    names = {metric: counter for counter, metric in METRICS.items()}
    for row in csv.DictReader(lines[start:]):
        if row["Metric Name"] in names:
            value = float(row["Metric Value"].replace(",", ""))
            measured.setdefault(row["ID"], {})[names[row["Metric Name"]]] = value
    rows = []
    wanted, runs = counted(), list(measured.values())
    for n, (name, kernel, configuration, arguments) in enumerate(wanted):
        counts = [run for k, run in enumerate(runs) if k % len(wanted) == n]
        if not counts:
            break
        report = examine(kernel, configuration, copy_arguments(arguments), settings.current())
        predicted = {counter: getattr(report.counters, counter) for counter in METRICS}
        found = {counter: sorted({int(run[counter]) for run in counts}) for counter in METRICS}
        equal = all(predicted[counter] in found[counter] for counter in METRICS)
        rows.append({"name": name, "predicted": predicted, "measured": found, "equal": equal})
    return {
        "kernels": len(rows),
        "launched": len(measured),
        "equal": sum(row["equal"] for row in rows),
        "unequal": [row for row in rows if not row["equal"]],
    }


# -- NVIDIA's checkers -----------------------------------------------------------------------------------------------
CORRECT = (
    "producer_consumer arrive_is_no_wait barriers_of_two_groups both_sides_arrive consumer_laps_producer "
    "different_trip_counts sgemv_both_single no_empty_wait no_wait_between_rounds store_after_arrive "
    "two_pipelines_one_id neighbour_without_syncwarp transpose_through_a_tile early_return three_warps"
).split()
BROKEN = (
    "race/no_empty_wait race/no_loop_back_barrier race/two_tiles_no_empty_wait race/wrong_stage_index "
    "race/store_after_arrive race/histogram_without_atomics race/shared_sum_of_two_warps race/ctas_write_one_array "
    "race/stencil_in_place intra-warp-race/neighbour_without_syncwarp barrier-recycling/no_wait_between_rounds "
    "deadlock/last_arrive_missing deadlock/crossed_barriers count-mismatch/counts_differ "
    "uninitialized-read/sum_without_a_start"
).split()
TOOLS = ("racecheck", "synccheck")


def run_program(path: str) -> None:
    """Run a program whose launches go to the GPU, unchecked, for NVIDIA's checkers."""

    def on_gpu(kernel: Any, c: Any, arguments: Any, run: Any) -> Any:
        numba_cuda.launch(kernel, c.grid, c.block, tuple(arguments), dynamic_shared=c.dynamic_shared)
        return SimpleNamespace(verdict="verified")

    observers.append(lambda report: None)
    around.append(on_gpu)
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except (AssertionError, SystemExit) as wrong:
        print(f"wrong result: {wrong}")


def sanitized(path: Path, tool: str) -> tuple[str, float]:
    """Return the result of a tool of compute-sanitizer for a program, in a few words, and the seconds that it took."""
    own = [sys.executable, str(Path(__file__)), "--program", str(path)]
    started = time.perf_counter()
    child = subprocess.Popen(
        ["compute-sanitizer", "--tool", tool, *own],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said = child.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return "hangs", time.perf_counter() - started
    seconds = time.perf_counter() - started
    summary = [line for line in said.splitlines() if "SUMMARY" in line]
    return (summary[-1].partition("SUMMARY:")[2].strip() if summary else said[-200:]), seconds


def sanitizer() -> dict[str, Any]:
    """Print for 30 programs the mistake, and the results of wsemu, racecheck and synccheck."""
    paths = [(ROOT / "tests" / "pass" / f"{name}.py", True) for name in CORRECT]
    paths += [(ROOT / "tests" / "fail" / f"{name}.py", False) for name in BROKEN]
    jobs = [(path, tool) for path, _ in paths for tool in TOOLS if path.is_file()]
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 2) // 2)) as pool:
        found = dict(zip(jobs, pool.map(lambda job: sanitized(*job), jobs), strict=True))
    rows = []
    for path, right in paths:
        started = time.perf_counter()
        said = subprocess.run([sys.executable, "-m", "wsemu.cli", "check", str(path)], capture_output=True, text=True)
        seconds = time.perf_counter() - started
        row: dict[str, Any] = {"program": path.stem, "correct": right}
        row["wsemu"] = {0: "verified", 1: "failed", 3: "incomplete"}.get(said.returncode, said.stderr[-200:])
        row["codes"] = sorted(set(re.findall(r"^(?:error|warning)\[(.*?)\]", said.stdout, re.MULTILINE)))
        row["wsemu_seconds"] = seconds
        for tool in TOOLS:
            row[tool], row[f"{tool}_seconds"] = found.get((path, tool), ("", 0.0))
        rows.append(row)
    return {"programs": rows}


def about() -> dict[str, str]:
    """Return date, card and versions."""
    import numba

    import wsemu

    device = numba_cuda.numba_cuda()
    name = device.get_current_device().name
    return {
        "date": time.strftime("%Y-%m-%d"),
        "card": name.decode() if isinstance(name, bytes) else str(name),
        "numba-cuda": device.__version__ if hasattr(device, "__version__") else "",
        "numba": numba.__version__,
        "wsemu": wsemu.__version__,
    }


PARTS = {"speed": speed, "sweeps": sweeps, "counters": counters, "sanitizer": sanitizer}


def main() -> None:
    if sys.argv[1:2] == ["--launch-counted"]:
        return launch_counted()
    if sys.argv[1:2] == ["--program"]:
        return run_program(sys.argv[2])
    chosen = sys.argv[1:] or list(PARTS)
    RESULTS.mkdir(exist_ok=True)
    for part in chosen:
        found = gpu_process.call(PARTS[part], 580)
        text = json.dumps({"about": gpu_process.call(about, 120), **found}, indent=1, default=str)
        (RESULTS / f"gpu_{part}.json").write_text(text + "\n")
        print(part, text)
    return None


if __name__ == "__main__":
    main()
