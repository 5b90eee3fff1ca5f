"""Speed beside other tools that run kernels on the CPU: Oclgrind with and without its checks, Numba's CUDA simulator.

    python benchmarks/peers.py

Equal kernels (`kernels.py`, `peers/*.cl`), equal shapes and data, one thread of the processor each.  A figure is the
CPU time of a launch per memory access of a thread, in nanoseconds; the accesses are those of the kernel text, the same
for everyone, and wsemu's own count of them is compared.  Of Oclgrind, whose whole process is measured, the time of an
empty kernel with the same program and buffers is subtracted.  wsemu's figures are the whole call of `wsemu.check` of a
kernel that was compiled before; under `net` its empty kernel is subtracted too.  Ratios hold within one run only.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(__file__).parent / "peers"
OCLGRIND = "oclgrind-kernel"
OCLGRIND_OPTIONS = {
    "plain": (),
    "races": ("--data-races",),
    "all": ("--data-races", "--uninitialized", "--max-errors", "1000"),
}
"""column -> options; the bounds of memory are checked always, and `--check-api` has nothing to see without host code"""
TYPES = {"float32": "float", "float64": "double"}
A = 2.5


class Case(NamedTuple):
    """A kernel with its launch, on every machine."""

    name: str
    size: int
    kernel: str
    """its name in `kernels`"""
    grid: int
    block: int
    arguments: tuple[Any, ...]
    accesses: int
    """loads and stores of all threads together, as the kernel's text has them"""
    source: str
    """file in `peers` and name of the OpenCL kernel in it"""
    real: str = ""
    """OpenCL type of an element, where the kernel leaves it open"""

    @property
    def width(self) -> int:
        """Numbers in an element."""
        return int(self.real[-1]) if self.real[-1:].isdigit() else 1


def saxpy(n: int, name: str, dtype: type[np.floating[Any]], width: int = 1) -> Case:
    x, y = (np.ones(n * width, dtype) for _ in range(2))
    real = TYPES[x.dtype.name] + (str(width) if width > 1 else "")
    kernel = "saxpy" if width == 1 else "saxpy_vectors"
    return Case(name, n, kernel, n // 256, 256, (dtype(A), x, y, n), 3 * n, "saxpy", real)


def product(n: int, name: str, block: int) -> Case:
    a, x, y = np.ones((n, n), np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
    grid = n // 128
    return Case(name, n, name, grid, block, (a, x, y, n), 4 * n * n + 2 * n * grid + n, name)


def cases() -> list[Case]:
    return [
        *(saxpy(1 << power, "saxpy", np.float32) for power in (12, 14, 16, 18)),
        saxpy(1 << 16, "saxpy 8 B", np.float64),
        saxpy(1 << 16, "saxpy 16 B", np.float32, 4),
        *(product(n, "sgemv", 128) for n in (128, 256, 512)),
        *(product(n, "staged", 256) for n in (128, 256, 512)),
    ]


def simulated() -> dict[str, float]:
    """Name of a case -> ns per access in Numba's simulator, on sizes that it can bear.

    For a process of its own: it needs the simulator's environment.
    """
    small = [
        saxpy(1024, "saxpy", np.float32),
        saxpy(1024, "saxpy 8 B", np.float64),
        product(128, "sgemv", 128),
        product(128, "staged", 256),
    ]
    result = {}
    for case in small:
        kernel = getattr(kernels, case.kernel)
        seconds = []
        for _ in range(4):
            start = time.process_time()
            kernel[case.grid, case.block](*case.arguments)
            seconds.append(time.process_time() - start)
        result[case.name] = 1e9 * min(seconds) / case.accesses
    return result


def simulator() -> dict[str, float]:
    """The same, from here; empty with a line about why where it does not run."""
    extra = {"NUMBA_ENABLE_CUDASIM": "1", "WSEMU_BENCHMARK": "numba", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "simulator"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **extra})
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it gives no reason"])[-1]
        print(f"Numba's simulator does not run here: {reason}")
        return {}
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


class Own(NamedTuple):
    """CPU seconds of a launch on wsemu."""

    whole: float
    """of the call of `wsemu.check`"""
    net: float
    """the same less the call for an empty kernel of one CTA with the same arguments"""
    said: str


def wsemu_seconds(case: Case, checkers: list[str] | None) -> Own:
    import wsemu

    def seconds(kernel: Any, grid: int) -> tuple[float, Any]:
        best = float("inf")
        for repeat in range(8):
            start = time.process_time()
            report = wsemu.check(kernel, grid, case.block, case.arguments, workers=1, checkers=checkers)
            if repeat:  # the first one compiles
                best = min(best, time.process_time() - start)
        return best, report

    empty, _ = seconds(kernels.empty, 1)
    whole, report = seconds(getattr(kernels, case.kernel), case.grid)
    said = ""
    if report.counters.accesses != case.accesses:
        said = f"wsemu counts {report.counters.accesses:,} accesses"
    if report.verdict == "failed" or report.findings:
        said = f"wsemu: {report.verdict}, {', '.join(sorted({f.code for f in report.findings}))}"
    return Own(whole, max(1e-9, whole - empty), said)


class Oclgrind:
    """Runs cases in Oclgrind, by its front end for single kernels."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder

    def seconds(self, case: Case, options: tuple[str, ...]) -> tuple[float, str]:
        """CPU seconds of the launch without start-up, and what Oclgrind said if it said anything."""
        said: list[str] = []

        def run(kernel: str, work_items: int) -> float:
            seconds, output = self._run(case, kernel, work_items, options)
            said.extend(line for line in output.splitlines() if line.strip())
            return seconds

        empty = _best(lambda: run("empty", case.block))
        whole = _best(lambda: run(case.source, case.grid * case.block))
        return max(0.0, whole - empty), f"Oclgrind: {said[0].strip()}" if said else ""

    def _run(self, case: Case, kernel: str, work_items: int, options: tuple[str, ...]) -> tuple[float, str]:
        """CPU seconds of one process, and its output."""
        import resource

        description = self.folder / f"{case.source}.sim"
        description.write_text(_description(case, kernel, work_items))
        build = ("--build-options", f"-DREAL={case.real}") if case.real else ()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [self.program, "--num-threads", "1", *build, *options, description.name],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"{OCLGRIND} ended with {done.returncode}: {done.stdout.strip()}")
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def _best(run: Callable[[], float]) -> float:
    """The best of several; the shorter, the more."""
    first = run()
    return min(first, *(run() for _ in range(2 if first > 0.4 else 8)))


def _description(case: Case, kernel: str, work_items: int) -> str:
    """A simulator file: program, kernel, NDRange, work-group size, arguments."""
    arguments = []
    for value in case.arguments:
        if isinstance(value, np.ndarray):
            arguments.append(f"<size={value.nbytes} {TYPES[value.dtype.name]} fill={value.flat[0]:g}>")
        elif isinstance(value, np.floating):
            arguments.append(f"<size={value.nbytes * case.width} {TYPES[value.dtype.name]} fill={value:g}>")
        else:
            arguments.append(f"<size=4 int> {value}")
    return "\n".join([f"{case.source}.cl", kernel, f"{work_items} 1 1", f"{case.block} 1 1", *arguments, ""])


HEADS = (
    ("", "", "", "wsemu", "", "", "Oclgrind", "", "", "Oclgrind all /", "", "simulator", "simulator /"),
    ("kernel", "size", "accesses", "none", "all", "net", "none", "races", "all", "wsemu all", "net", "", "wsemu all"),
)
WIDTHS = (-10, 7, 9, 7, 7, 7, 9, 7, 7, 15, 6, 10, 12)


def print_row(cells: tuple[str, ...], *remarks: str) -> None:
    texts = [f"{cell:{'<' if width < 0 else '>'}{abs(width)}}" for cell, width in zip(cells, WIDTHS, strict=True)]
    print(" ".join(texts), *(f" [{remark}]" for remark in remarks), flush=True)


def row(case: Case, oclgrind: Oclgrind | None, slow: float | None) -> float | None:
    """Print a row, `slow` being the simulator's ns; the ratio of Oclgrind's time to wsemu's, both with all checks."""

    def ns(seconds: float, digits: int) -> str:
        return f"{1e9 * seconds / case.accesses:,.{digits}f}"

    plain, own = wsemu_seconds(case, []), wsemu_seconds(case, None)
    remarks = [own.said]
    cells = [ns(plain.whole, 2), ns(own.whole, 2), ns(own.net, 2)]
    ratio, theirs = None, []
    if oclgrind:
        try:
            theirs = [oclgrind.seconds(case, options) for options in OCLGRIND_OPTIONS.values()]
        except RuntimeError as error:
            remarks.append(str(error))
    if theirs:
        remarks += [said for _, said in theirs]
        ratio = theirs[-1][0] / own.whole
        cells += [ns(seconds, 0) for seconds, _ in theirs] + [f"{ratio:,.0f}", f"{theirs[-1][0] / own.net:,.0f}"]
    else:
        cells += ["-"] * 5
    cells += [f"{slow:,.0f}", f"{slow / (1e9 * own.whole / case.accesses):,.0f}"] if slow else ["-", "-"]
    print_row((case.name, f"{case.size:,}", f"{case.accesses:,}", *cells), *dict.fromkeys(filter(None, remarks)))
    return ratio


def table() -> None:
    program = shutil.which(OCLGRIND)
    if not program:
        print(f"no {OCLGRIND} on the path: its columns stay empty (how to install it: README.md beside this file)")
    slow = simulator()
    version = _version(program) if program else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in SOURCES.glob("*.cl"):
            shutil.copy(source, folder)
        oclgrind = Oclgrind(program, folder) if program else None
        print(f"CPU ns per access{version and f'; Oclgrind {version}'}; all: all checks, net: less an empty kernel")
        for head in HEADS:
            print_row(head)
        ratios = [ratio for case in cases() if (ratio := row(case, oclgrind, slow.get(case.name))) is not None]
    if ratios:
        print(
            f"all checks on both sides: {min(ratios):,.0f} to {max(ratios):,.0f} times Oclgrind's speed, "
            f"median {statistics.median(ratios):,.0f}"
        )


def _version(program: str) -> str:
    """What it calls itself, such as 21.10."""
    words = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return words[1] if len(words) > 1 else ""


if __name__ == "__main__":
    if sys.argv[1:] == ["simulator"]:
        print(json.dumps(simulated()))
    else:
        table()
