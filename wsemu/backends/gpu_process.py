"""Launches on the GPU in a child process with a time limit, because a kernel that hangs makes the device's context
unusable.

The child is forked, so that it has all kernels, including those of a program that runs as `__main__`; this process must
not have used the GPU itself.  One child runs launches in sequence; if one hangs or breaks the context, a new child
continues with the next launch.
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
"""message of a child when a kernel is compiled and about to run on the GPU"""


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
    """number of an array among those of the arguments (`find_arrays`) -> its contents after the first run"""
    unequal: int = 0
    """number of runs whose arrays differed from those of the first run"""
    seconds: float = 0.0
    """duration of all runs, including copies"""
    error: str = ""
    """reason why there is no result: the driver's message, or a timeout"""
    hung: bool = False


def copy_arguments(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with separate copies of their arrays, in the same layout."""
    return tuple(
        np.array(a, order="K") if isinstance(a, np.ndarray) else a.copied() if hasattr(a, "copied") else a
        for a in arguments
    )


def find_arrays(arguments: Sequence[Any]) -> list[tuple[int, str, npt.NDArray[Any]]]:
    """Return the arrays in the arguments, each with the number of its argument and the path in it, such as `[0]`."""
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
    """Return the results of launches on the GPU, each within `limit` seconds; `children` processes share the
    launches."""
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
    """Return the result of `function` in a forked child; raise UsageError if it raises or takes longer than `limit`
    seconds."""
    return _Child(lambda pipe: pipe.send(function())).receive(limit)


class _Child:
    """A forked process that sends results."""

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
        # Python 3.12 warns of a fork if NumPy has threads, which the child does not use
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            self.process.start()
        other.close()

    def _run(self, work: Callable[[Connection], None], pipe: Connection) -> None:
        self.pipe.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(BrokenPipeError):
            try:
                work(pipe)
            except BaseException as error:  # the child can only report it to the parent
                pipe.send(GpuResult(error=f"{type(error).__name__}: {error}"))
        pipe.close()
        os._exit(0)  # a regular exit may hang with a broken context

    def receive(self, limit: float) -> Any:
        """Return the next message; None if the child has ended or the time is up."""
        try:
            return self.pipe.recv() if self.pipe.poll(limit) else None
        except EOFError:
            return None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _run_in_child(launches: Sequence[GpuLaunch], limit: float) -> list[GpuResult]:
    """Return the results up to and including the first launch that ended the child."""

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
    """Run a launch repeatedly, each time on fresh copies of its arguments; `begins` is called after it is compiled."""
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
