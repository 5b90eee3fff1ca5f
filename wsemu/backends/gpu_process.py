"""Launches on the GPU in a child process with a time limit: a kernel that hangs takes the device's context with it.

The child is forked, so that it has the kernels as they are, also those of a program that runs as `__main__`; this
process must not have used the GPU itself.  One child runs launches one after the other; if one hangs or breaks the
context, a new child continues with the next.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wsemu.backends import driver, numba_cuda
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UsageError
from wsemu.model.tensor_map import TensorMap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

    from wsemu.language.markers import Declared
    from wsemu.model.launch_shape import LaunchConfiguration

_START = 120.0
"""seconds that a child may take to import Numba-CUDA and to compile a kernel"""
_STARTED = "started"
"""message of a child when a kernel is compiled and goes to the GPU"""


@dataclass(frozen=True, slots=True)
class GpuLaunch:
    """One kernel with its launch shape and arguments, to be run `times` times on equal arguments."""

    kernel: Declared | driver.Entry
    configuration: LaunchConfiguration
    arguments: tuple[Any, ...]
    times: int = 1


@dataclass(slots=True)
class GpuResult:
    """The results of a launch on the GPU."""

    arrays: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    """number among the arrays of the arguments (`find_arrays`) -> the array after the first run"""
    unequal: int = 0
    """runs whose arrays differed from the first one's"""
    seconds: float = 0.0
    """duration of all runs, with copies"""
    error: str = ""
    """reason why there is no result: the driver's message, or a timeout"""
    hung: bool = False


def copy_arguments(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments with arrays of their own, of the same layout."""
    return tuple(
        np.array(a, order="K") if isinstance(a, np.ndarray) else a.copied() if hasattr(a, "copied") else a
        for a in arguments
    )


def find_arrays(arguments: Sequence[Any]) -> list[tuple[int, str, npt.NDArray[Any]]]:
    """Return the arrays of arguments, each with the number of its argument, and the path to it in that one: `[0]`."""
    found: list[tuple[int, str, npt.NDArray[Any]]] = []
    for k, value in enumerate(arguments):
        if isinstance(value, TensorMap):
            found.append((k, "", value.array))
        elif isinstance(value, np.ndarray):
            found.append((k, "", value))
        elif hasattr(value, "all_arrays"):
            memory = {id(block.memory) for _, block in value.all_blocks()}
            ways = [(way, array) for way, array in value.all_arrays() if id(array) not in memory]
            found += [(k, "".join(f"[{step}]" for step in way), array) for way, array in ways]
    return found


def run(launches: Sequence[GpuLaunch], limit: float, children: int = 1) -> list[GpuResult]:
    """The results of launches on the GPU, each within `limit` seconds; `children` processes share them."""
    if children == 1:
        return _one_by_one(launches, limit)
    with ThreadPoolExecutor(children) as pool:
        parts = list(pool.map(lambda n: _one_by_one(launches[n::children], limit), range(children)))
    return [parts[n % children][n // children] for n in range(len(launches))]


def _one_by_one(launches: Sequence[GpuLaunch], limit: float) -> list[GpuResult]:
    results: list[GpuResult] = []
    while len(results) < len(launches):
        results += _run_in_child(launches[len(results) :], limit)
    return results


def call(function: Callable[[], Any], limit: float) -> Any:
    """Return the result of `function` in a forked child; UsageError if it raises or takes longer than `limit`
    seconds."""
    return _Child(lambda pipe: pipe.send(function())).receive(limit)


class _Child:
    """A forked process that sends what it makes."""

    def __init__(self, work: Callable[[Connection], None]) -> None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise UsageError(
                "the GPU is used from a forked process, which this system does not have: use Linux, or WSL"
            )
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = context.Process(target=self._run, args=(work, other), daemon=True)
        with warnings.catch_warnings():  # Python 3.12 warns of fork where NumPy has threads, which the child lets be
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            self.process.start()
        other.close()

    def _run(self, work: Callable[[Connection], None], pipe: Connection) -> None:
        self.pipe.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(BrokenPipeError):
            try:
                work(pipe)
            except BaseException as error:  # the child has nobody else to tell
                pipe.send(GpuResult(error=f"{type(error).__name__}: {error}"))
        pipe.close()
        os._exit(0)  # a broken context may hang at a proper end

    def receive(self, limit: float) -> Any:
        """The next thing sent; None when the child is gone or the time is up."""
        try:
            return self.pipe.recv() if self.pipe.poll(limit) else None
        except EOFError:
            return None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _run_in_child(launches: Sequence[GpuLaunch], limit: float) -> list[GpuResult]:
    """The results up to the first launch that ended the child, that one included."""

    def work(pipe: Connection) -> None:
        for launch in launches:
            pipe.send(_launch(launch, lambda: pipe.send(_STARTED)))

    child = _Child(work)
    results: list[GpuResult] = []
    try:
        while len(results) < len(launches):
            result = child.receive(_START)
            if result == _STARTED:
                started = time.monotonic()
                result = child.receive(limit)
                if result is None and time.monotonic() - started >= limit:
                    result = GpuResult(error=f"no end within {limit:g} s", hung=True)
            result = result or GpuResult(error="the process that used the GPU ended")
            results.append(result)
            if result.error:
                break
    finally:
        child.stop()
    return results


def _launch(launch: GpuLaunch, begins: Callable[[], None]) -> GpuResult:
    """Run a launch, each time on fresh copies of its arguments; `begins` is called once it is compiled."""
    result = GpuResult()
    c = launch.configuration
    if isinstance(launch.kernel, driver.Entry):
        driver.ensure_compiled(launch.kernel)
    else:
        numba_cuda.ensure_compiled(launch.kernel, c.threads, launch.arguments)
    begins()
    started = time.perf_counter()
    for n in range(launch.times):
        arguments = copy_arguments(launch.arguments)
        if isinstance(launch.kernel, driver.Entry):
            driver.launch(launch.kernel, c, arguments)
        else:
            numba_cuda.launch(
                launch.kernel, c.grid, c.block, arguments, dynamic_shared=c.dynamic_shared, cluster=c.cluster
            )
        arrays = {k: a for k, (_, _, a) in enumerate(find_arrays(arguments))}
        if n == 0:
            result.arrays = arrays
        elif any(a.tobytes() != result.arrays[k].tobytes() for k, a in arrays.items()):
            result.unequal += 1
    result.seconds = time.perf_counter() - started
    return result
