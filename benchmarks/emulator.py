"""Measure the speed of the emulator with and without checks, compared with a plain Numba loop and, by `peers.py`, with
other tools on the same kernels.  All measurements are in one run on one core.

    python benchmarks/emulator.py

Times are the best of several.  `engine` is the time inside the VM, `launch` that of the whole call of `wsemu.check`,
both per memory access of a thread.  Ratios are valid only within one run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import kernels
import peers

import wsemu
from wsemu.launch.kernel import Kernel
from wsemu.machine import vm

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 256
A = np.float32(2.5)


def best(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the seconds of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


class Engine:
    """Measures the time inside the VM while something runs, and the size of its shadow memory."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.shadow_bytes = 0
        self._run = vm.Machine.run

    def __enter__(self) -> Engine:
        def timed(machine: vm.Machine, *arguments: Any, **options: Any) -> int:
            start = time.perf_counter()
            status = self._run(machine, *arguments, **options)
            self.seconds += time.perf_counter() - start
            self.shadow_bytes = machine.planes.nbytes if machine.planes else 0
            return status

        vm.Machine.run = timed  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        vm.Machine.run = self._run  # type: ignore[method-assign]


class Measured(NamedTuple):
    """Seconds of a launch, each the best of the repeats."""

    engine: float
    launch: float
    report: Any


def measure(
    kernel: Any, grid: int, block: int, args: tuple[Any, ...], repeats: int, checkers: tuple[str, ...] | None = ()
) -> Measured:
    """Measure a launch, by default without checks; `checkers` selects some, and None all of them."""
    engine, launch = [], []
    report = wsemu.check(kernel, grid, block, args, workers=1, checkers=checkers)
    for _ in range(repeats):
        with Engine() as timer:
            start = time.perf_counter()
            report = wsemu.check(kernel, grid, block, args, workers=1, checkers=checkers)
            launch.append(time.perf_counter() - start)
        engine.append(timer.seconds)
    return Measured(min(engine), min(launch), report)


def row(name: str, size: int, grid: int, block: int, kernel: Any, args: tuple[Any, ...], repeats: int) -> None:
    plain, checked = (measure(kernel, grid, block, args, repeats, checkers) for checkers in ((), None))
    counters = checked.report.counters

    def ns(seconds: float) -> str:
        return f"{1e9 * seconds / counters.accesses:>8.2f}"

    print(
        f"{name:10} {size:>9,} {grid:>6,} {counters.accesses:>12,} "
        f"{ns(plain.engine)} {ns(checked.engine)} {ns(plain.launch)} {ns(checked.launch)} "
        f"{checked.engine / plain.engine:>6.2f} {counters.thread_operations / plain.engine / 1e6:>10,.0f}"
        f"  {checked.report.verdict}"
    )


def saxpy(name: str, n: int, grid: int, repeats: int, dtype: type[np.floating[Any]] = np.float32) -> None:
    x, y = np.random.default_rng(1).random(n).astype(dtype), np.ones(n, dtype)
    row(name, n, grid, BLOCK, kernels.saxpy, (dtype(A), x, y, n), repeats)


def saxpy_vectors(n: int, grid: int, repeats: int) -> None:
    x, y = np.random.default_rng(1).random(4 * n, np.float32), np.ones(4 * n, np.float32)
    row("saxpy 16 B", n, grid, BLOCK, kernels.saxpy_vectors, (A, x, y, n), repeats)


def product(name: str, kernel: Any, block: int, n: int, repeats: int) -> None:
    rng = np.random.default_rng(2)
    a, x, y = rng.random((n, n), np.float32), rng.random(n, np.float32), np.zeros(n, np.float32)
    row(name, n, n // 128, block, kernel, (a, x, y, n), repeats)


def tables() -> None:
    heads = (
        ("kernel", "size", "CTAs", "accesses", "engine", "engine", "launch", "launch", "", "Mthread-op"),
        ("", "", "", "", "ns/acc", "checked", "ns/acc", "checked", "ratio", "per s"),
    )
    for a, b, c, d, *rest, ratio, last in heads:
        print(f"{a:10} {b:>9} {c:>6} {d:>12}", *(f"{text:>8}" for text in rest), f"{ratio:>6} {last:>10}")
    for power in range(12, 23, 2):
        n = 1 << power
        for grid in (1, 16, 256, 4096):
            if grid * BLOCK <= n:
                saxpy("saxpy", n, grid, 7 if power < 18 else 3)
    for power in (12, 16, 20):
        saxpy("saxpy 8 B", 1 << power, 16, 5 if power < 18 else 3, np.float64)
    for power in (12, 16, 20):
        saxpy_vectors(1 << power, 16, 5 if power < 18 else 3)
    for n in (128, 256, 512, 1024, 2048, 4096):
        product("sgemv", kernels.sgemv, 128, n, 5 if n < 1024 else 2)
    for n in (128, 512, 2048):
        product("staged", kernels.staged, 256, n, 5 if n < 1024 else 2)


def against_loop() -> None:
    """Measure the same SAXPY as a Numba CPU loop on one core."""
    from numba import njit

    @njit
    def loop(a, x, y):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            y[i] = a * x[i] + y[i]

    n = 1 << 20
    x, y = np.random.default_rng(1).random(n, np.float32), np.ones(n, np.float32)
    loop(A, x, y)
    plain = best(lambda: loop(A, x, y))
    args = (A, x, y, n)
    engine, checked = (measure(kernels.saxpy, 4096, BLOCK, args, 3, checkers).engine for checkers in ((), None))
    print(
        f"\nsaxpy 2^20: plain Numba loop {1e3 * plain:.2f} ms, emulator {1e3 * engine:.2f} ms: {engine / plain:.0f} "
        f"times the loop; with all checks {1e3 * checked:.2f} ms: {checked / plain:.0f} times"
    )


def small() -> None:
    """Measure a 64-thread kernel of 8 steps: first from source, then compiled earlier."""
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
    """Measure the time from process start to the first result, once with the VM cached, and once with the VM
    compiled."""
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
checkers = None if sys.argv[2] == "all" else []
def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
def launch(n):
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    before = peak()
    wsemu.check(kernels.saxpy, n // 256, 256, (np.float32(2.5), x, y, n), workers=1, checkers=checkers)
    return before
launch(256)
before = launch(int(sys.argv[3]))
print(peak(), peak() - before)
"""


def memory() -> None:
    """Measure the memory of separate processes, and the size of shadow memory that the emulator reports."""
    if not Path("/proc/self/status").exists():
        print("peak memory: not measured on this system")
        return

    def kilobytes(checkers: str, n: int) -> tuple[int, int]:
        """Return the peak memory of a process, and the increase due to the launch."""
        command = [sys.executable, "-c", MEMORY, str(Path(__file__).parent), checkers, str(n)]
        peak, growth = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        return int(peak), int(growth)

    print("a million threads (saxpy, 8 MB of arrays), a process of its own: ", end="")
    plain, checked = (kilobytes(checkers, 1 << 20)[0] for checkers in ("none", "all"))
    print(f"{plain / 1024:.0f} MB at most without checks, {checked / 1024:.0f} MB with all")
    n = 1 << 22
    growth, checked_growth = (kilobytes(checkers, n)[1] for checkers in ("none", "all"))
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    with Engine() as engine:
        wsemu.check(kernels.saxpy, n // BLOCK, BLOCK, (A, x, y, n), workers=1)
    print(
        f"shadow memory, bytes per 4-byte word of the array written (saxpy 2^22): {engine.shadow_bytes / n:.1f}; "
        f"all that checks add to a process's peak: {(checked_growth - growth) * 1024 / n:.1f}"
    )


if __name__ == "__main__":
    tables()
    against_loop()
    small()
    process()
    memory()
    print()
    peers.table()
