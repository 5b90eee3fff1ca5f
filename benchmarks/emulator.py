"""Speed of the emulator, in one run on one core, beside a plain Numba loop and Numba's CUDA simulator on the same
kernels.

    python benchmarks/emulator.py

Times are the best of several; `engine` is the time inside the VM, `launch` the whole call of `wsemu.check`, both per
memory access
of a thread.  Ratios hold within this run only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import kernels

import wsemu
from wsemu import execution
from wsemu.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 256
A = np.float32(2.5)


def best(run: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


class Engine:
    """Measures what is spent inside the VM while something runs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._run = execution.Machine.run

    def __enter__(self) -> Engine:
        def timed(machine: execution.Machine, *arguments: Any) -> int:
            start = time.perf_counter()
            status = self._run(machine, *arguments)
            self.seconds += time.perf_counter() - start
            return status

        execution.Machine.run = timed  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        execution.Machine.run = self._run  # type: ignore[method-assign]


def measure(kernel: Any, grid: int, block: int, args: tuple[Any, ...], repeats: int) -> tuple[float, float, Any]:
    """(engine seconds, launch seconds, report), each the best of the repeats."""
    engine, launch = [], []
    report = wsemu.check(kernel, grid, block, args, workers=1)
    for _ in range(repeats):
        with Engine() as timer:
            start = time.perf_counter()
            report = wsemu.check(kernel, grid, block, args, workers=1)
            launch.append(time.perf_counter() - start)
        engine.append(timer.seconds)
    return min(engine), min(launch), report


def row(name: str, size: int, grid: int, engine: float, launch: float, report: Any) -> None:
    counters = report.counters
    accesses = counters.accesses
    print(
        f"{name:8} {size:>9,} {grid:>6,} {accesses:>12,} "
        f"{1e9 * engine / accesses:>8.2f} {1e9 * launch / accesses:>8.2f} "
        f"{counters.thread_operations / engine / 1e6:>10,.0f}  {report.verdict}"
    )


def saxpy(n: int, grid: int, repeats: int) -> None:
    x, y = np.random.default_rng(1).random(n, np.float32), np.ones(n, np.float32)
    row("saxpy", n, grid, *measure(kernels.saxpy, grid, BLOCK, (A, x, y, n), repeats))


def sgemv(n: int, repeats: int) -> None:
    rng = np.random.default_rng(2)
    a, x, y = rng.random((n, n), np.float32), rng.random(n, np.float32), np.zeros(n, np.float32)
    row("sgemv", n, n // 128, *measure(kernels.sgemv, n // 128, 128, (a, x, y, n), repeats))


def tables() -> None:
    print(f"{'kernel':8} {'size':>9} {'CTAs':>6} {'accesses':>12} {'engine':>8} {'launch':>8} {'Mthread-op':>10}")
    print(f"{'':8} {'':>9} {'':>6} {'':>12} {'ns/acc':>8} {'ns/acc':>8} {'per s':>10}")
    for power in range(12, 23, 2):
        n = 1 << power
        for grid in (1, 16, 256, 4096):
            if grid * BLOCK <= n:
                saxpy(n, grid, 7 if power < 18 else 3)
    for n in (128, 256, 512, 1024, 2048, 4096):
        sgemv(n, 5 if n < 1024 else 2)


def against_loop() -> None:
    """The same SAXPY as a Numba CPU loop on one core."""
    from numba import njit

    @njit
    def loop(a, x, y):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            y[i] = a * x[i] + y[i]

    n = 1 << 20
    x, y = np.random.default_rng(1).random(n, np.float32), np.ones(n, np.float32)
    loop(A, x, y)
    plain = best(lambda: loop(A, x, y))
    engine, _, _ = measure(kernels.saxpy, 4096, BLOCK, (A, x, y, n), 3)
    print(
        f"\nsaxpy 2^20: plain Numba loop {1e3 * plain:.2f} ms, emulator {1e3 * engine:.2f} ms: "
        f"{engine / plain:.0f} times the loop"
    )


SIMULATOR = """
import os, sys, time, json, warnings
warnings.simplefilter("ignore")
os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
os.environ["WSEMU_BENCHMARK"] = "numba"
sys.path.insert(0, sys.argv[1])
import numpy as np, kernels as k
n, m = 1024, 128
x, y = np.ones(n, np.float32), np.ones(n, np.float32)
a, v, w = np.ones((m, m), np.float32), np.ones(m, np.float32), np.zeros(m, np.float32)
out = {}
for name, launch in (("saxpy", lambda: k.saxpy[4, 256](np.float32(2.5), x, y, n)), ("sgemv", lambda: k.sgemv[1,
128](a, v, w, m))):
    start = time.perf_counter(); launch(); out[name] = time.perf_counter() - start
print(json.dumps(out))
"""


def against_simulator() -> None:
    """Numba's own CUDA simulator, in a process of its own, on sizes it can bear."""
    done = subprocess.run(
        [sys.executable, "-c", SIMULATOR, str(Path(__file__).parent)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"\nNumba's simulator does not run here: {done.stderr.strip().splitlines()[-1]}")
        return
    theirs = json.loads(done.stdout)
    n, m = 1 << 20, 1024
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    a, v, w = np.ones((m, m), np.float32), np.ones(m, np.float32), np.zeros(m, np.float32)
    engine, _, _ = measure(kernels.saxpy, 4096, BLOCK, (A, x, y, n), 3)
    print(f"\nNumba's simulator, per element: saxpy {1e6 * theirs['saxpy'] / 1024:.1f} us", end="; ")
    print(f"emulator {1e9 * engine / n:.1f} ns: {theirs['saxpy'] / 1024 / (engine / n):,.0f} times faster")
    engine, _, _ = measure(kernels.sgemv, m // 128, 128, (a, v, w, m), 3)
    print(f"sgemv {1e6 * theirs['sgemv'] / 128**2:.1f} us; emulator {1e9 * engine / m**2:.1f} ns: ", end="")
    print(f"{theirs['sgemv'] / 128**2 / (engine / m**2):,.0f} times faster")


def small() -> None:
    """A 64-thread kernel of 8 steps: first from source, then compiled before."""
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    kernel = kernels.exchange
    function = kernel.py_func

    def fresh() -> None:  # another function object of the same code: compiled again, from its syntax tree
        copy = FunctionType(function.__code__, function.__globals__, function.__name__)
        wsemu.check(Kernel(copy), 1, 64, (x, y))

    source = best(fresh, 50)
    again = best(lambda: wsemu.check(kernel, 1, 64, (x, y)), 200)
    print(f"\n64 threads, 8 steps: source to verdict {1e3 * source:.2f} ms; compiled before {1e3 * again:.2f} ms")


FIRST = """
import sys; sys.path.insert(0, sys.argv[1])
import numpy as np, wsemu, kernels
x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
wsemu.check(kernels.exchange, 1, 64, (x, y))
"""


def process() -> None:
    """From process start to the first result, with the VM cached; and from nothing, with it compiled."""
    command = [sys.executable, "-c", FIRST, str(Path(__file__).parent)]

    def started(**extra: str) -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **extra})
        return time.perf_counter() - start

    print(f"process start to first result, cached: {min(started() for _ in range(3)):.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        print(f"the same with nothing cached (the VM is compiled): {started(WSEMU_CACHE_DIR=folder):.2f} s")


MEMORY = """
import sys; sys.path.insert(0, sys.argv[1])
import numpy as np, wsemu, kernels
n = 1 << 20
x, y = np.ones(n, np.float32), np.ones(n, np.float32)
wsemu.check(kernels.saxpy, 4096, 256, (np.float32(2.5), x, y, n), workers=1)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def memory() -> None:
    if not Path("/proc/self/status").exists():
        print("peak memory: not measured on this system")
        return
    command = [sys.executable, "-c", MEMORY, str(Path(__file__).parent)]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"a million threads (saxpy, 8 MB of arrays), a process of its own: {peak / 1024:.0f} MB at most")


if __name__ == "__main__":
    tables()
    against_loop()
    against_simulator()
    small()
    process()
    memory()
