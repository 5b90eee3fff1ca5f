"""Test what a launch reports about other launches, how work is spread over processes, and how long small tasks take.

    python benchmarks/scale.py [--programs 10000] [--seed 0] [--jobs N] [--only PART] [--examples 0] [--patience 1]

every       `--programs` generated kernels of loops (tests/properties/loop_programs.py).  Each "for every trip count" is
            tested at 0 to 30 iterations, each "for all contents" with three other fills.  Prints how often each was
            reported, the reasons why nothing more was reported, and every contradiction
corners     the same number of kernels whose CTAs are symmetric or almost so (tests/properties/cta_programs.py).  The
            report of `--corners` on some CTAs is compared with a launch of all CTAs
ptx         both for kernels in PTX (tests/properties/ptx_loop_programs.py), one fifth of the number
sweep       sizes per second of `wsemu sweep`, in one process and in `--jobs`; whether the reports are equal
launches    a launch that was compiled earlier, one from source, and a whole `wsemu check` of a tiny program, each the
            best of several
peers       whole processes of `wsemu check` and, if it is installed, SentryWard on the same PTX
cores       SGEMV and SAXPY of 32 CTAs and more on 1, 2, ... cores; whether the arrays are equal; and what the machine
            can give: the throughput of as many independent processes, and of a kernel that hardly uses memory
rings       a ring of mbarriers launched 200 times, on memory of the previous launch and on new memory
cluster     with `--examples N`: a fuzzing campaign of N examples on a Dask cluster of 4 workers, one of which is killed
            every 2 s (`--kill-every`), compared with an undisturbed local one

Each part runs in its own process, for at most the seconds of LIMITS times `--patience`; together they take less than
nine minutes.  The results of generated kernels up to that time are reported.  The exit code is 1 if something is
contradicted, differs, or was not finished in time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import wsemu
from benchmarks import ring
from tests.properties import cta_programs, loop_programs, ptx_loop_programs
from tests.properties.loop_programs import tried
from wsemu import cuda
from wsemu.machine import workers

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 50
"""number of kernels that a process handles at a time"""
LIMITS = {
    "launches": 40, "rings": 20, "peers": 40, "cores": 70, "sweep": 30, "every": 100, "corners": 50, "ptx": 100,
    "cluster": 80,
}  # fmt: skip
"""part -> time limit in seconds"""
STARTS = 10
"""part of that time for starting processes"""


# -- every, corners, ptx ---------------------------------------------------------------------------------------------
MADE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "every": (loop_programs.program, loop_programs.loaded),
    "corners": (cta_programs.program, loop_programs.loaded),
    "every, PTX": (ptx_loop_programs.program, ptx_loop_programs.loaded),
    "corners, PTX": (ptx_loop_programs.alike, ptx_loop_programs.loaded),
}
"""kind -> function that makes a program from a seed, and function that loads several programs from a folder"""


def _chunk(part: tuple[str, int, int]) -> tuple[Counter[str], Counter[str], list[str]]:
    """Return counts, reasons and contradictions of the programs with these seeds."""
    name, first, last = part
    make, load = MADE[name]
    trying = _every if name.startswith("every") else _corners
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    wrong: list[str] = []
    programs = [make(seed) for seed in range(first, last)]
    with tempfile.TemporaryDirectory() as folder:
        kernels = load(programs, Path(folder), f"made_{first}")
        for seed, made, kernel in zip(range(first, last), programs, kernels, strict=True):
            became, why, contradictions = trying(made, kernel)
            counts.update(became)
            reasons.update(why)
            wrong += [f"seed {seed}: {what}\n{made.source}" for what in contradictions]
    return counts, reasons, wrong


def _every(made: Any, kernel: Any) -> tuple[list[str], list[str], list[str]]:
    found = tried(made, kernel)
    said = {
        "for every trip count": found.trips, "for all contents of an array": found.contents,
        "for all values of a scalar": found.values,
    }  # fmt: skip
    why = [_reason(found.reason)] if found.verdict == "verified" and not found.trips else []
    return [found.verdict, *(what for what, holds in said.items() if holds)], why, found.contradictions


def _corners(made: Any, kernel: Any) -> tuple[list[str], list[str], list[str]]:
    became, contradiction = cta_programs.tried(made, kernel)
    return [became], [], [contradiction] if contradiction else []


def _reason(text: str) -> str:
    """Return a reason without locations and numbers."""
    what = text.rpartition("; ")[2].partition(": ")[2].partition(": nothing is shown")[0]
    return "".join("N" if c.isdigit() else c for c in what) or "there is no loop that the argument ends"


def generated(name: str, programs: int, seed: int, jobs: int, seconds: float) -> bool:
    """Generate kernels of a kind of MADE, as many as fit into these seconds, and test what wsemu reports about them."""
    parts = [(name, n, min(n + CHUNK, seed + programs)) for n in range(seed, seed + programs, CHUNK)]
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    wrong: list[str] = []
    began, done = time.perf_counter(), 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        answers = pool.imap_unordered(_chunk, parts)
        with contextlib.suppress(multiprocessing.TimeoutError):
            for _ in parts:
                some, why, contradictions = answers.next(max(0.0, began + seconds - time.perf_counter()))
                counts += some
                reasons += why
                wrong += contradictions
                done += 1
        pool.terminate()
    tried = min(done * CHUNK, programs)
    of = "" if tried == programs else f" of {programs:,}, for which there was no time,"
    print(f"{name}: {tried:,} kernels{of} in {time.perf_counter() - began:.0f} s")
    print("  " + ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())))
    for why, count in reasons.most_common(12):
        print(f"  no every: {count:,} {why}")
    print(f"  contradicted: {len(wrong)}", flush=True)
    for what in wrong[:5]:
        print(what)
    return not wrong and tried == programs


def ptx(programs: int, seed: int, jobs: int, seconds: float) -> bool:
    every, corners = (generated(name, programs, seed, jobs, seconds / 2) for name in ("every, PTX", "corners, PTX"))
    return every and corners


# -- sweep ------------------------------------------------------------------------------------------------------------
SWEPT = """
import numpy as np
from wsemu import cuda

@cuda.jit
def scale(n, x):
    tile = cuda.shared.array((2, 64), np.float32)
    for k in range(cuda.blockIdx.x, -(-n // 64), cuda.gridDim.x):
        i = k * 64 + cuda.threadIdx.x
        tile[k % 2, cuda.threadIdx.x] = x[i] if i < n else 0
        cuda.syncthreads()
        if i < n:
            x[i] = 2 * tile[k % 2, cuda.threadIdx.x]
        cuda.syncthreads()

def run(n, ctas):
    x = np.ones(n, np.float32)
    scale[ctas, 64](n, x)
    assert (x == 2).all()
"""


def sweep(jobs: int) -> bool:
    told = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "swept.py").write_text(SWEPT)
        for count in dict.fromkeys((1, jobs)):
            command = [sys.executable, "-m", "wsemu.cli", "sweep", "swept.py::run", "--size", "ctas=1,2,3,8"]
            began = time.perf_counter()
            done = subprocess.run([*command, "--jobs", str(count), "--format", "json"], cwd=folder, capture_output=True)
            seconds = time.perf_counter() - began
            told.append(json.loads(done.stdout))
            sizes = len(told[-1]["sizes"])
            print(f"sweep: {sizes} sizes in {seconds:.2f} s by {count}: {sizes / seconds:.0f} a second")
    return all(report == told[0] for report in told)


# -- launches ---------------------------------------------------------------------------------------------------------
SOURCE = """
from wsemu import cuda

@cuda.jit
def k(x):
    i = cuda.grid(1)
    v = x[i]
    w = v * 2 + {n}
    if i > 3:
        w += 1
    x[i] = w
"""
TINY = SOURCE.format(n=1) + "import numpy as np\nk[1, 64](np.ones(64, np.float32))\n"


def _best(call: Callable[[], Any], times: int) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return 1e3 * min(found)


def launches() -> bool:
    x = np.ones(64, np.float32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sys.path.insert(0, name)
        modules = []
        for n in range(20):
            (folder / f"fresh{n}.py").write_text(SOURCE.format(n=n))
            modules.append(__import__(f"fresh{n}"))
        modules[0].k[1, 64](x)
        fresh = iter(modules[1:])
        print(f"launches: compiled before {_best(lambda: modules[0].k[1, 64](x), 300):.2f} ms")
        print(f"launches: from source     {_best(lambda: next(fresh).k[1, 64](x), 19):.2f} ms")
        (folder / "tiny.py").write_text(TINY)
        check = _process([sys.executable, "-m", "wsemu.cli", "check", "tiny.py"], folder)
        imports = _process([sys.executable, "-c", "import numpy, pydantic.main"], folder)
        print(f"launches: wsemu check     {check:.0f} ms; NumPy and Pydantic alone take {imports:.0f} ms")
    return True


# -- peers ------------------------------------------------------------------------------------------------------------
STEPS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry steps(.param .u64 x, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<6>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, tile;
    add.u32 %r5, %r4, %r3;
    xor.b32 %r6, %r3, 252;
    add.u32 %r6, %r4, %r6;
    mov.u32 %r7, 0;
    mov.u32 %r8, %r2;
$again:
    setp.ge.u32 %p1, %r7, %r1;
    @%p1 bra $done;
    st.shared.u32 [%r5], %r8;
    bar.sync 0;
    ld.shared.u32 %r8, [%r6];
    bar.sync 0;
    add.u32 %r7, %r7, 1;
    bra $again;
$done:
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r8;
    ret;
}
"""
"""a loop of n rounds with two barriers each"""


def peers() -> bool:
    program = shutil.which("sentryward", path=str(Path(sys.executable).parent)) or shutil.which("sentryward")
    if program is None:
        print("peers: there is no sentryward here; TIRx-harness takes no PTX")
        return True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "steps.ptx").write_text(STEPS)
        for n in (1, 100):
            launch = {"grid_dim": [1, 1, 1], "block_dim": [64, 1, 1], "cluster_dim": [1, 1, 1]}
            given = {
                "schema": "spverify.kernel-input/v1", "entry": "steps", "launch": {**launch, "dynamic_shared_bytes": 0},
                "declarations": [{"parameter": "x", "type": "pointer", "object": "x"}],
                "arguments": [{"parameter": "n", "type": "u32", "value": n}],
            }  # fmt: skip
            (folder / "launch.json").write_text(json.dumps(given))
            arguments = ["--grid", "1", "--block", "64", "--arg", "u32[64]:zeros", "--arg", f"u32:{n}"]
            command = [sys.executable, "-m", "wsemu.cli", "check", "steps.ptx", *arguments]
            ours, own = _process(command, folder), _processor_time(command, folder)
            command = [program, "steps.ptx", "--input", "launch.json"]
            theirs, other = _process(command, folder), _processor_time(command, folder)
            print(
                f"peers: {n} rounds of two barriers, whole processes: {ours:.0f} ms, SentryWard {theirs:.0f} ms: ",
                end="",
            )
            print(f"{ours / theirs:.2f} of its time; of processors {own:.0f} and {other:.0f} ms", flush=True)
    return True


def _made(command: list[str], folder: Path) -> None:
    """Run a process, so that its modules are compiled."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "cache")
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)


def _process(command: list[str], folder: Path) -> float:
    """Return the milliseconds of a process, the best of several runs."""
    _made(command, folder)
    return _best(lambda: _made(command, folder), 5)


def _processor_time(command: list[str], folder: Path) -> float:
    """Return the processor time of a process, which depends less on other load."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _made(command, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1e3 * min(found)


# -- cores ------------------------------------------------------------------------------------------------------------
@cuda.jit
def sgemv(a, x, y):
    """Compute one row per thread."""
    row = cuda.grid(1)
    total = np.float32(0)
    for column in range(a.shape[1]):
        total += a[row, column] * x[column]
    y[row] = total


@cuda.jit
def saxpy(alpha, x, y):
    i = cuda.grid(1)
    y[i] = alpha * x[i] + y[i]


@cuda.jit
def sums(n, y):
    """Compute arithmetic only, to show how processors behave that share nothing, not even memory."""
    i = cuda.grid(1)
    v = i
    for k in range(n):
        v = v * 3 + k
    y[i] = v


def _sgemv_arrays() -> tuple[Any, ...]:
    draw = np.random.default_rng(0)
    return draw.random((4096, 4096), np.float32), draw.random(4096, np.float32), np.zeros(4096, np.float32)


def _saxpy_arrays() -> tuple[Any, ...]:
    x = np.random.default_rng(0).random(1 << 22, np.float32)
    return np.float32(2), x, x.copy()


SPREAD: dict[str, tuple[Any, int, int, Callable[[], tuple[Any, ...]]]] = {
    "SGEMV 4096": (sgemv, 32, 128, _sgemv_arrays),
    "SAXPY 2^22": (saxpy, 16384, 256, _saxpy_arrays),
    "arithmetic alone": (sums, 64, 256, lambda: (3000, np.zeros(64 * 256, np.int32))),
}
REPEATS = 7


def _launched(name: str, workers: int) -> tuple[float, bytes]:
    """Return the milliseconds of a launch on some cores, the best of several, and the bytes of its result."""
    kernel, grid, block, make = SPREAD[name]
    first = make()
    found, result = [], b""
    for _ in range(REPEATS):
        arguments = (*first[:-1], first[-1].copy())
        began = time.perf_counter()
        wsemu.check(kernel, grid, block, arguments, workers=workers)
        found.append(time.perf_counter() - began)
        result = arguments[-1].tobytes()
    return 1e3 * min(found), result


def _beside(name: str, together: Any, times: Any) -> None:
    """Run such a launch in one of several simultaneous processes, each on one core; print its median in ms."""
    kernel, grid, block, make = SPREAD[name]
    arguments = make()
    wsemu.check(kernel, grid, block, arguments, workers=1)
    found = []
    for _ in range(REPEATS):
        together.wait()
        began = time.perf_counter()
        wsemu.check(kernel, grid, block, arguments, workers=1)
        found.append(time.perf_counter() - began)
    times.put(1e3 * sorted(found)[REPEATS // 2])


def _machine_gives(name: str, count: int, alone: float) -> float:
    """Return the throughput of several cores relative to one, for simultaneous independent launches."""
    spawn = multiprocessing.get_context("spawn")
    together, times = spawn.Barrier(count), spawn.Queue()
    processes = [spawn.Process(target=_beside, args=(name, together, times)) for _ in range(count)]
    for process in processes:
        process.start()
    taken = [times.get() for _ in processes]
    for process in processes:
        process.join()
    return alone * count / sum(taken)


def cores() -> bool:
    same = True
    for name in SPREAD:
        results, alone, count = set(), 0.0, 1
        while count <= (os.cpu_count() or 1):
            taken, result = _launched(name, count)
            results.add(result)
            alone = alone or taken
            linear, given = alone / taken / count, _machine_gives(name, count, alone)
            print(f"cores: {name} on {count}: {taken:.1f} ms, {linear:.2f} of linear; ", end="")
            print(f"so many processes at once, each with a launch of its own: {given:.2f}", flush=True)
            count *= 2
        same &= len(results) == 1
    return same


# -- cluster ----------------------------------------------------------------------------------------------------------
FUZZED = """
from hypothesis import given, strategies as st

@given(x=st.integers(0, 10**6), y=st.lists(st.integers()))
def test_rarely_fails(x, y):
    assert not (x % 97 == 1 and len(y) > 1), "x and y"
"""


class _Nobody:
    def show(self, progress: Any) -> None:
        """Ignore the progress."""


def cluster(examples: int, jobs: int, every: float) -> bool:
    import distributed

    from wsemu.campaign import fuzz, spread

    here = Path.cwd()
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    try:
        Path("fuzzed.py").write_text(FUZZED)
        campaign = fuzz.Campaign.of("fuzzed.py::test_rarely_fails", examples, 200, 0)
        began = time.perf_counter()
        quiet = fuzz.run(campaign, jobs, folder / "here.sqlite", _Nobody())
        print(
            f"cluster: {quiet.finished_examples:,} examples here, undisturbed, in {time.perf_counter() - began:.0f} s",
            flush=True,
        )
        kills = 0
        options = {"n_workers": 4, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
        with distributed.LocalCluster(**options) as workers:
            stop = threading.Event()

            def kill() -> None:
                nonlocal kills
                while not stop.wait(every):
                    nannies = [*workers.workers.values()]
                    running = [one.pid for one in nannies if one.pid and one.process.status.name == "running"]
                    if running:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(running[kills % len(running)], signal.SIGKILL)
                            kills += 1

            killer = threading.Thread(target=kill, daemon=True)
            killer.start()
            began = time.perf_counter()
            with spread.on(workers.scheduler_address) as executor:
                killed = fuzz.run(campaign, jobs, folder / "there.sqlite", _Nobody(), executor=executor)
            seconds = time.perf_counter() - began
            stop.set()
            killer.join()
        same = quiet.outcomes == killed.outcomes and killed.finished_examples == examples
        said = "the same" if same else "OTHERS"
        print(f"cluster: {killed.finished_examples:,} examples, {kills} workers killed in {seconds:.0f} s: {said}")
        return same
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


# -- rings ------------------------------------------------------------------------------------------------------------
def rings() -> bool:
    x, again = np.zeros(ring.LARGE // 4, np.float32), 200
    arguments = (x, 8, ring.SMALL)

    def launch() -> None:
        assert wsemu.check(ring.ring, 1, 128, arguments, dynamic_shared=ring.STAGES * ring.LARGE).verdict == "verified"

    def launch_anew() -> None:
        workers._kept.clear()
        launch()

    launch()
    kept, anew = (_best(one, again) for one in (launch, launch_anew))
    print(
        f"rings: {ring.STAGES} stages, 8 tiles, the best of {again} launches: {kept:.2f} ms, {anew:.2f} on new memory"
    )
    return True


# -- all --------------------------------------------------------------------------------------------------------------
def _apart(name: str, given: argparse.Namespace) -> bool:
    """Run a part in a separate process, which is ended when its time is over."""
    command = [sys.executable, __file__, "--only", name]
    for option in ("programs", "seed", "jobs", "examples", "kill_every", "patience"):
        command += [f"--{option.replace('_', '-')}", str(getattr(given, option))]
    limit = LIMITS[name] * given.patience
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        print(f"{name}: not done within {limit:.0f} s", flush=True)
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument("--kill-every", type=float, default=2.0, help="seconds")
    parser.add_argument("--patience", type=float, default=1.0, help="times the limits of all parts")
    parser.add_argument("--only", choices=LIMITS, action="append")
    given = parser.parse_args()
    if given.only and len(given.only) == 1:
        return 0 if _part(given.only[0], given) else 1
    wanted = [name for name in LIMITS if name in (given.only or LIMITS)]
    good = [_apart(name, given) for name in wanted if name != "cluster" or given.examples]
    return 0 if all(good) else 1


def _part(name: str, given: argparse.Namespace) -> bool:
    seconds = (LIMITS[name] - STARTS) * given.patience
    kernels = given.programs, given.seed, given.jobs, seconds
    parts: dict[str, Callable[[], bool]] = {
        "launches": launches,
        "rings": rings,
        "peers": peers,
        "cores": cores,
        "sweep": lambda: sweep(given.jobs),
        "every": lambda: generated("every", *kernels),
        "corners": lambda: generated("corners", *kernels),
        "ptx": lambda: ptx(given.programs // 5, *kernels[1:]),
        "cluster": lambda: cluster(given.examples, given.jobs, given.kill_every),
    }
    return parts[name]()


if __name__ == "__main__":
    sys.exit(main())
