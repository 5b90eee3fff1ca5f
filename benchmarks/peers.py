"""Compare the speed with other tools that run kernels on the CPU: Oclgrind with and without its checks, Numba's CUDA
simulator, and PoCL's native code, which checks nothing.

    python benchmarks/peers.py             launches of milliseconds: Oclgrind, the simulator
    python benchmarks/peers.py --long      launches for which compiled blocks are profitable: Oclgrind, PoCL

All tools run equal kernels (`kernels.py`, examples, `peers/*.cl`) with equal shapes and data, on one thread of the
processor.  A figure is the CPU time of a launch per memory access of a thread, in nanoseconds.  The accesses are those
in the kernel's text, the same for all tools, and are compared with wsemu's own count.  For Oclgrind, the whole process
is measured, and the time of an empty kernel with the same program and buffers is subtracted.  wsemu's figures are the
whole call of `wsemu.check` of a kernel that was compiled earlier.  Under `net`, the time of its empty kernel is
subtracted as well.  Under `blocks`, its block was compiled earlier; elsewhere it has none.  Ratios are valid only
within one run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
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

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).parent))
import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES = Path(__file__).parent / "peers"
OCLGRIND = "oclgrind-kernel"
OCLGRIND_OPTIONS = {
    "plain": (),
    "races": ("--data-races",),
    "all": ("--data-races", "--uninitialized", "--max-errors", "1000"),
}
"""column -> options.  The bounds of memory are always checked; `--check-api` would have no host code to check"""
TYPES = {"float32": "float", "float64": "double"}
A = 2.5
ONE_THREAD = {"POCL_MAX_PTHREAD_COUNT": "1", "POCL_CPU_MAX_CU_COUNT": "1"}
"""PoCL's variable, by its names before and since version 4"""


class Case(NamedTuple):
    """A kernel with its launch, on every machine."""

    name: str
    size: int
    kernel: str
    """its name in its module"""
    grid: tuple[int, ...]
    block: int
    arguments: tuple[Any, ...]
    accesses: int
    """loads and stores of all threads together, as the kernel's text has them"""
    source: str
    """file in `peers` and name of the OpenCL kernel in it"""
    real: str = ""
    """OpenCL type of an element, if the kernel leaves it open"""
    module: str = "kernels"
    sizes: tuple[int, ...] = ()
    """sizes that the OpenCL kernel takes as further arguments, because an array has no shape there"""

    @property
    def width(self) -> int:
        """The number of numbers in an element."""
        return int(self.real[-1]) if self.real[-1:].isdigit() else 1


def saxpy(n: int, name: str, dtype: type[np.floating[Any]], width: int = 1) -> Case:
    x, y = (np.ones(n * width, dtype) for _ in range(2))
    real = TYPES[x.dtype.name] + (str(width) if width > 1 else "")
    kernel = "saxpy" if width == 1 else "saxpy_vectors"
    return Case(name, n, kernel, (n // 256,), 256, (dtype(A), x, y, n), 3 * n, "saxpy", real)


def product(n: int, name: str, block: int) -> Case:
    a, x, y = np.ones((n, n), np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
    grid = n // 128
    return Case(name, n, name, (grid,), block, (a, x, y, n), 4 * n * n + 2 * n * grid + n, name)


def cases() -> list[Case]:
    return [
        *(saxpy(1 << power, "saxpy", np.float32) for power in (12, 14, 16, 18)),
        saxpy(1 << 16, "saxpy 8 B", np.float64),
        saxpy(1 << 16, "saxpy 16 B", np.float32, 4),
        *(product(n, "sgemv", 128) for n in (128, 256, 512)),
        *(product(n, "staged", 256) for n in (128, 256, 512)),
    ]


def saxpy_staged(n: int) -> Case:
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    arguments = n, np.float32(A), x, y, 0
    return Case("saxpy staged", n, "staged", (4,), 512, arguments, 7 * n, "saxpy_staged", module="saxpy")


def dgemm(n: int) -> Case:
    a, b, c = np.ones((n, n)), np.ones((n, n)), np.zeros((n, n))
    grid, block = (n // 64, n // 64), 256
    accesses = n * n // 16 * (n // 16 * (8 + 8 + 16 * 8) + 16)  # of a thread: 8 numbers loaded and stored, 16 rounds
    return Case("dgemm", n, "algorithm_1", grid, block, (a, b, c), accesses, "dgemm", module="dgemm", sizes=(n,))


def stencil(n: int) -> Case:
    """Return a stencil on n x n / 2 x 32 points."""
    slices, rows = 32, n // 2
    volume, result = np.ones((slices + 8, rows + 8, n + 16), np.float32), np.zeros((slices, rows, n), np.float32)
    grid, block = (n // 32, rows // 16), 512
    halo = 2 * 2 * (8 * 32 + 8 * 16) // 2  # a CTA's, loaded and stored
    accesses = grid[0] * grid[1] * (block * (8 + slices * (1 + 1 + 16 + 1)) + slices * halo)
    return Case("stencil", n, "reference", grid, block, (volume, result), accesses, "stencil", module="stencil",
                sizes=(slices,))  # fmt: skip


def long_cases() -> list[Case]:
    """Return each case twice: at a size that is feasible with Oclgrind (250,000 accesses per second), and at one that
    is large enough for compiled blocks."""
    return [
        *(product(n, "sgemv", 128) for n in (1024, 4096)),
        *(product(n, "staged", 256) for n in (1024, 4096)),
        *(dgemm(n) for n in (128, 1024)),
        *(saxpy_staged(1 << power) for power in (20, 22)),
        *(stencil(n) for n in (128, 512)),
    ]


def simulated() -> dict[str, float]:
    """Return for each case the ns per access in Numba's simulator, at sizes that are feasible with it.

    Call this in a separate process, which needs the simulator's environment.
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


def elsewhere(tool: str, *arguments: str, **environment: str) -> Any:
    """Return what this program prints as JSON in a separate process; print a line with the reason and return None if it
    does not run."""
    command = [sys.executable, __file__, "--in", tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it gives no reason"])[-1]
        print(f"{tool} does not run here: {reason}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def simulator() -> dict[str, float]:
    """Return the results of `simulated` from a separate process."""
    extra = {"NUMBA_ENABLE_CUDASIM": "1", "WSEMU_BENCHMARK": "numba", "PYTHONWARNINGS": "ignore"}
    return elsewhere("Numba's simulator", **extra) or {}


def pocl_device() -> Any:
    """Return PoCL's device of this processor, or None."""
    import pyopencl as cl

    for platform in cl.get_platforms():
        if platform.name == "Portable Computing Language":
            return platform.get_devices(cl.device_type.CPU)[0]
    sys.exit("OpenCL has no such platform")


def compiled_by_pocl(case: Case) -> float:
    """Return the CPU seconds of a launch of native code that was compiled earlier.  Call this in a separate process,
    since PoCL loads its own LLVM."""
    import pyopencl as cl

    context = cl.Context([pocl_device()])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, (SOURCES / f"{case.source}.cl").read_text()).build()
    kernel = cl.Kernel(program, case.source)
    access = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR

    def on_device(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return cl.Buffer(context, access, hostbuf=value)
        return np.int32(value) if isinstance(value, int) else value

    arguments = [on_device(value) for value in (*case.arguments, *case.sizes)]  # a kernel does not keep buffers alive
    kernel.set_args(*arguments)

    def launch() -> float:
        start = time.process_time()
        cl.enqueue_nd_range_kernel(queue, kernel, *_range(case))
        queue.finish()
        return time.process_time() - start

    launch()
    return _best(launch)


def _range(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of work-items in total and in a work-group, by dimension."""
    first, *others = case.grid
    return (first * case.block, *others), (case.block, *(1 for _ in others))


class Own(NamedTuple):
    """CPU seconds of a launch on wsemu."""

    whole: float
    """seconds of the whole call of `wsemu.check`"""
    net: float
    """the same less the call for an empty kernel of one CTA with the same arguments"""
    said: str


def wsemu_seconds(
    case: Case, checkers: list[str] | None, *, blocks: bool = False, empty: Any = None
) -> tuple[float, Any]:
    """Return the CPU seconds of `wsemu.check` of the kernel, or of one CTA of an empty kernel, compiled earlier, and
    its report."""
    import wsemu
    from wsemu.machine.tier import hot

    kernel = empty or getattr(importlib.import_module(case.module), case.kernel)
    grid = 1 if empty else case.grid
    os.environ[hot.VARIABLE] = "auto" if blocks else "off"

    def launch() -> tuple[float, Any]:
        start = time.process_time()
        report = wsemu.check(kernel, grid, case.block, case.arguments, workers=1, checkers=checkers)
        return time.process_time() - start, report

    _, report = launch()
    executed = 0
    while blocks and executed <= hot.HOT:  # until a compiled block is profitable
        executed += launch()[1].counters.warp_instructions
        hot.wait_for_blocks()
    return _best(lambda: launch()[0]), report


def remark(case: Case, report: Any) -> str:
    """Return a remark on a launch; empty if it is verified."""
    if report.verdict == "failed" or report.findings:
        return f"wsemu: {report.verdict}, {', '.join(sorted({f.code for f in report.findings}))}"
    if report.counters.accesses != case.accesses:
        return f"wsemu counts {report.counters.accesses:,} accesses"
    return ""


def own(case: Case, checkers: list[str] | None) -> Own:
    empty, _ = wsemu_seconds(case, checkers, empty=kernels.empty)
    whole, report = wsemu_seconds(case, checkers)
    return Own(whole, max(1e-9, whole - empty), remark(case, report))


class Oclgrind:
    """Runs cases in Oclgrind, by its front end for single kernels."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder

    def seconds(self, case: Case, options: tuple[str, ...]) -> tuple[float, str]:
        """Return the CPU seconds of the launch without start-up, and the messages of Oclgrind, if any."""
        said: list[str] = []

        def run(kernel: str, work_items: tuple[int, ...]) -> float:
            seconds, output = self._run(case, kernel, work_items, options)
            said.extend(line for line in output.splitlines() if line.strip())
            return seconds

        work_items, group = _range(case)
        empty = _best(lambda: run("empty", group), 1)
        whole = _best(lambda: run(case.source, work_items), 1)
        return max(0.0, whole - empty), f"Oclgrind: {said[0].strip()}" if said else ""

    def _run(self, case: Case, kernel: str, work_items: tuple[int, ...], options: tuple[str, ...]) -> tuple[float, str]:
        """Return the CPU seconds of one process, and its output."""
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
        if done.returncode or "FATAL" in done.stdout:  # after which it may end with 0
            raise RuntimeError(f"{OCLGRIND} ended with {done.returncode}: {' '.join(done.stdout.split())}")
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def _best(run: Callable[[], float], seconds: float = 5) -> float:
    """Return the best of several runs, which take about this number of seconds in total; short runs are repeated more
    often."""
    first = run()
    return min(first, *(run() for _ in range(min(max(2, int(seconds / first)), 40))))


def _description(case: Case, kernel: str, work_items: tuple[int, ...]) -> str:
    """Return a simulator file: program, kernel, NDRange, work-group size, arguments."""
    arguments = []
    for value in (*case.arguments, *case.sizes):
        if isinstance(value, np.ndarray):
            arguments.append(f"<size={value.nbytes} {TYPES[value.dtype.name]} fill={value.flat[0]:g}>")
        elif isinstance(value, np.floating):
            arguments.append(f"<size={value.nbytes * case.width} {TYPES[value.dtype.name]} fill={value:g}>")
        else:
            arguments.append(f"<size=4 int> {value}")
    ranges = [" ".join(map(str, (*sizes, 1, 1)[:3])) for sizes in (work_items, (case.block,))]
    return "\n".join([f"{case.source}.cl", kernel, *ranges, *arguments, ""])


HEADS = (
    ("", "", "", "wsemu", "", "", "Oclgrind", "", "", "Oclgrind all /", "", "simulator", "simulator /"),
    ("kernel", "size", "accesses", "none", "all", "net", "none", "races", "all", "wsemu all", "net", "", "wsemu all"),
)
WIDTHS = (-10, 7, 9, 7, 7, 7, 9, 7, 7, 15, 6, 10, 12)
LONG_HEADS = (
    ("", "", "", "wsemu", "", "blocks", "", "PoCL", "wsemu / PoCL", "Oclgrind", "Oclgrind / wsemu"),
    ("kernel", "size", "accesses", "none", "all", "none", "all", "none", "", "all", ""),
)
LONG_WIDTHS = (-12, 9, 11, 7, 7, 7, 7, 7, 13, 9, 17)


def print_row(widths: tuple[int, ...], cells: tuple[str, ...], *remarks: str) -> None:
    texts = [f"{cell:{'<' if width < 0 else '>'}{abs(width)}}" for cell, width in zip(cells, widths, strict=True)]
    print(" ".join(texts), *(f" [{remark}]" for remark in remarks), flush=True)


def ns(case: Case, seconds: float, digits: int) -> str:
    """Return nanoseconds per access."""
    return f"{1e9 * seconds / case.accesses:,.{digits}f}"


def row(case: Case, oclgrind: Oclgrind | None, slow: float | None) -> float | None:
    """Print a row, and return the ratio of Oclgrind's time to wsemu's, both with all checks; `slow` is the simulator's
    time in ns."""
    plain, checked = own(case, []), own(case, None)
    remarks = [checked.said]
    cells = [ns(case, plain.whole, 2), ns(case, checked.whole, 2), ns(case, checked.net, 2)]
    ratio, theirs = None, []
    if oclgrind:
        try:
            theirs = [oclgrind.seconds(case, options) for options in OCLGRIND_OPTIONS.values()]
        except RuntimeError as error:
            remarks.append(str(error))
    if theirs:
        remarks += [said for _, said in theirs]
        ratio = theirs[-1][0] / checked.whole
        cells += [ns(case, seconds, 0) for seconds, _ in theirs]
        cells += [f"{ratio:,.0f}", f"{theirs[-1][0] / checked.net:,.0f}"]
    else:
        cells += ["-"] * 5
    cells += [f"{slow:,.0f}", f"{slow / (1e9 * checked.whole / case.accesses):,.0f}"] if slow else ["-", "-"]
    shape = case.name, f"{case.size:,}", f"{case.accesses:,}"
    print_row(WIDTHS, (*shape, *cells), *dict.fromkeys(filter(None, remarks)))
    return ratio


def long_row(case: Case, oclgrind: Oclgrind | None, pocl: float | None, *, blocks: bool) -> None:
    """Print a row, `pocl` being the seconds of PoCL's code."""
    measured = [wsemu_seconds(case, on, blocks=each) for each in (False, True)[: 1 + blocks] for on in ([], None)]
    seconds = [each for each, _ in measured]
    checked = seconds[-1]
    remarks = [remark(case, report) for _, report in measured]
    cells = [ns(case, each, 2) for each in seconds] + ["-"] * (4 - len(seconds))
    cells += [ns(case, pocl, 2), f"{checked / pocl:,.1f}"] if pocl else ["-", "-"]
    theirs = ["-", "-"]
    if oclgrind:
        try:
            slow, said = oclgrind.seconds(case, OCLGRIND_OPTIONS["all"])
            theirs = [ns(case, slow, 0), f"{slow / checked:,.0f}"]
        except RuntimeError as error:
            said = str(error)
        remarks.append(said)
    shape = case.name, f"{case.size:,}", f"{case.accesses:,}"
    print_row(LONG_WIDTHS, (*shape, *cells, *theirs), *dict.fromkeys(filter(None, remarks)))


@contextlib.contextmanager
def oclgrind_here() -> Iterator[Oclgrind | None]:
    """Prepare Oclgrind in a folder with the kernels, if it is installed; print its version, or that it is missing."""
    program = shutil.which(OCLGRIND)
    if not program:
        print(f"no {OCLGRIND} on the path: its columns stay empty (how to install it: README.md beside this file)")
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        for source in SOURCES.glob("*.cl"):
            shutil.copy(source, name)
        print(f"Oclgrind {_version(program)}")
        yield Oclgrind(program, Path(name))


def table() -> None:
    slow = simulator()
    with oclgrind_here() as oclgrind:
        print("CPU ns per access; all: all checks, net: less an empty kernel")
        for head in HEADS:
            print_row(WIDTHS, head)
        ratios = [ratio for case in cases() if (ratio := row(case, oclgrind, slow.get(case.name))) is not None]
    if ratios:
        print(
            f"all checks on both sides: {min(ratios):,.0f} to {max(ratios):,.0f} times Oclgrind's speed, "
            f"median {statistics.median(ratios):,.0f}"
        )


def long_table() -> None:
    device = elsewhere("PoCL", **ONE_THREAD)
    if device:
        print(device)
    with oclgrind_here() as oclgrind:
        print("CPU ns per access; all: all checks, blocks: with compiled blocks")
        for head in LONG_HEADS:
            print_row(LONG_WIDTHS, head)
        for place, case in enumerate(long_cases()):
            pocl = elsewhere("PoCL", str(place), **ONE_THREAD) if device else None
            blocks = bool(place % 2)
            long_row(case, None if blocks else oclgrind, pocl, blocks=blocks)


def _version(program: str) -> str:
    """Return the version that Oclgrind reports, such as 21.10."""
    words = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return words[1] if len(words) > 1 else ""


def child(tool: str, *place: str) -> object:
    """Print what `elsewhere` requests."""
    if tool != "PoCL":
        return simulated()
    return compiled_by_pocl(long_cases()[int(place[0])]) if place else pocl_device().version


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--long", action="store_true", help="launches that are worth blocks, beside Oclgrind and PoCL")
    parser.add_argument("--in", nargs="+", dest="tool", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.tool:
        print(json.dumps(child(*given.tool)))
    else:
        (long_table if given.long else table)()
