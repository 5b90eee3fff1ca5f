"""Two threads launch at the same time, and neither sees what the other one does."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

import wsemu
from wsemu import cuda
from wsemu.launch.hooks import Hooks, adding_hook, observers

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS, ROUNDS = 4, 5


@cuda.jit
def doubled(x: Any) -> None:
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    x[i] = 2 * x[i]


@cuda.jit
def reversed_(x: Any) -> None:
    tile = cuda.shared.array(64, np.int32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    x[i] = tile[63 - i]


@cuda.jit
def racing(x: Any) -> None:
    tile = cuda.shared.array(64, np.int32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    x[i] = tile[63 - i]


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """Return what each thread returns; all begin together."""
    start = threading.Barrier(THREADS)

    def run(number: int) -> Any:
        start.wait()
        return [work(number) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_launches_of_several_threads_are_those_of_one() -> None:
    def launch(number: int) -> tuple[str, list[str], list[int]]:
        kernel, verdict = ((doubled, "verified"), (reversed_, "verified"), (racing, "failed"))[number % 3]
        x = np.arange(64, dtype=np.int32) + number
        report = wsemu.check(kernel, 1, 64, (x,))
        assert (report.kernel, report.verdict) == (kernel.__name__, verdict)
        return report.kernel, sorted({one.code for one in report.findings}), x.tolist()

    expected = [launch(number) for number in range(THREADS)]
    for number, found in enumerate(at_once(launch)):
        assert [one[:2] for one in found] == [expected[number][:2]] * ROUNDS
        if expected[number][0] != "racing":
            assert found == [expected[number]] * ROUNDS


def test_each_thread_traces_its_own_launch() -> None:
    def trace(number: int) -> str:
        kernel = (doubled, reversed_)[number % 2]
        line = wsemu.trace(kernel, 1, 64, (np.zeros(64, np.int32),))
        return line.report.kernel

    assert at_once(trace) == [[("doubled", "reversed_")[number % 2]] * ROUNDS for number in range(THREADS)]


def test_observers_see_the_launches_of_all_threads() -> None:
    seen: list[str] = []
    lock = threading.Lock()

    def note(report: wsemu.Report) -> None:
        with lock:
            seen.append(report.kernel)

    with adding_hook(observers, note):
        at_once(lambda _: wsemu.check(doubled, 1, 64, (np.zeros(64, np.int32),)).verdict)
    assert seen == ["doubled"] * THREADS * ROUNDS
    assert not len(observers)


def test_a_hook_of_a_context_is_called_there_alone() -> None:
    hooks: Hooks[Callable[[], int]] = Hooks("of a test")
    hooks.append(lambda: 1)
    with hooks.adding_own(lambda: 2):
        assert [hook() for hook in hooks] == [1, 2]
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: [hook() for hook in hooks]).result() == [1]
        assert hooks[-1]() == 2
    assert len(hooks) == 1
