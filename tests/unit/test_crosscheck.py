"""`crosscheck` on a machine without a GPU: what it refuses, how it compares, what it says."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.backends import gpu_process
from wsemu.backends.gpu_process import GpuLaunch, GpuResult
from wsemu.launch.crosscheck import compare, disagreements, emulate
from wsemu.model.errors import UsageError, WsemuError
from wsemu.model.launch_shape import configure


@cuda.jit
def double(x, y):
    i = cuda.threadIdx.x
    y[i] = x[i] + x[i]


@cuda.jit
def sine(x, y):
    i = cuda.threadIdx.x
    y[i] = cuda.libdevice.sinf(x[i])


@cuda.jit
def stuck(x):
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)
    x[cuda.threadIdx.x] = 1


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, *results: GpuResult) -> list[GpuLaunch]:
    """Let a GPU answer with these results; the launches it was asked for."""
    asked: list[GpuLaunch] = []

    def run(launches: Any, limit: float, children: int = 1) -> list[GpuResult]:
        asked.extend(launches)
        return list(results[: len(launches)])

    monkeypatch.setattr(gpu_process, "run", run)
    monkeypatch.setitem(vars(sys.modules["wsemu.launch.crosscheck"]), "require_gpu", lambda: None)
    return asked


def arrays() -> tuple[Any, Any]:
    return np.arange(32, dtype=np.float32), np.zeros(32, np.float32)


def test_equal_arrays_are_the_same(monkeypatch):
    x, y = arrays()
    asked = on_a_gpu(monkeypatch, GpuResult({0: x, 1: 2 * x}))
    report = wsemu.crosscheck(double, 1, 32, (x, y), launches=3)
    assert (report.status, report.launches, report.compared, asked[0].times) == ("same", 3, 64, 3)
    assert str(report) == "double: integers and copies identical, floats identical, 3 launches"
    assert not y.any()  # the caller's arrays are left alone
    report.assert_same()


def test_a_difference_is_told_with_its_place(monkeypatch):
    x, y = arrays()
    wrong = 2 * x
    wrong[5] = np.nextafter(wrong[5], np.float32(99))
    on_a_gpu(monkeypatch, GpuResult({0: x, 1: wrong}))
    report = wsemu.crosscheck(double, 1, 32, (x, y))
    assert (report.status, report.different) == ("differs", 1)
    (difference,) = report.differences
    assert (difference.array, difference.index, difference.ulps) == ("y", (5,), 1)
    assert difference.place.startswith("test_crosscheck.py:")
    with pytest.raises(WsemuError, match=r"y\[5\]: emulator 10.0, GPU 10.000001"):
        report.assert_same()


def test_library_functions_may_differ_in_the_last_places(monkeypatch):
    x, y = arrays()
    exact = np.sin(x.astype(np.float64)).astype(np.float32)
    near = np.nextafter(exact, np.float32(9))
    on_a_gpu(monkeypatch, GpuResult({0: x, 1: near}))
    report = wsemu.crosscheck(sine, 1, 32, (x, y))
    assert (report.status, report.ulps) == ("same", 4)
    assert "within 4 ulp (library functions)" in str(report)
    on_a_gpu(monkeypatch, GpuResult({0: x, 1: near}))
    assert wsemu.crosscheck(sine, 1, 32, (x, y), ulps=0).status == "differs"


def test_launches_that_differ_from_each_other_are_told(monkeypatch):
    x, y = arrays()
    on_a_gpu(monkeypatch, GpuResult({0: x, 1: 2 * x}, unequal=2))
    report = wsemu.crosscheck(double, 1, 32, (x, y))
    assert report.status == "differs"
    assert "2 of 20 launches on the GPU differ from its first" in str(report)


def test_what_is_not_verified_is_refused_unless_forced(monkeypatch):
    asked = on_a_gpu(monkeypatch, GpuResult(error="no end within 5 s", hung=True))
    report = wsemu.crosscheck(stuck, 1, 64, (np.zeros(64),))
    assert (report.status, asked) == ("refused", [])
    assert "the emulator says failed" in report.message
    report = wsemu.crosscheck(stuck, 1, 64, (np.zeros(64),), force=True)
    assert (report.status, report.message) == ("failed", "no end within 5 s")


def test_reports_come_in_the_order_of_the_launches(monkeypatch):
    x, y = arrays()
    on_a_gpu(monkeypatch, GpuResult({0: x, 1: 2 * x}), GpuResult({0: x, 1: x}))
    good = emulate(double, configure(1, 32), (x, y))
    bad = emulate(stuck, configure(1, 64), (np.zeros(64),))
    assert [r.status for r in compare([good, bad, good])] == ["same", "refused", "differs"]


def test_without_numba_cuda_the_extra_is_named(monkeypatch):
    from wsemu.backends import numba_cuda

    def missing() -> Any:
        raise UsageError("Numba-CUDA is not installed: pip install '.[gpu]'")

    monkeypatch.setattr(numba_cuda, "numba_cuda", missing)
    with pytest.raises(UsageError, match=r"pip install '\.\[gpu\]'"):
        wsemu.crosscheck(double, 1, 32, arrays())
    with pytest.raises(UsageError, match=r"pip install '\.\[gpu\]'"):
        double.on("gpu")[1, 32](*arrays())


def test_clusters_go_to_the_gpu(monkeypatch):
    x, y = arrays()
    asked = on_a_gpu(monkeypatch, GpuResult({0: x, 1: 2 * x}))
    wsemu.crosscheck(double, 2, 32, (x, y), cluster=2, force=True)
    assert asked[0].configuration.cluster == (2, 1, 1)


@pytest.mark.parametrize(("options", "message"), [({"launches": 0}, "0 launches: give 1 or more")])
def test_wrong_options(options, message):
    with pytest.raises(UsageError, match=message):
        wsemu.crosscheck(double, 1, 32, arrays(), **options)


def test_targets():
    assert double.on("emulator") is double
    with pytest.raises(UsageError, match="no target 'tpu'"):
        double.on("tpu")


# -- comparing -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ulps_count_the_floats_in_between(dtype):
    one = np.ones(4, dtype)
    near = np.array([1, np.nextafter(dtype(1), dtype(2)), np.nextafter(dtype(1), dtype(0)), 1], dtype)
    wrong, distance = disagreements(one, near, 0)
    assert wrong.tolist() == [1, 2]
    assert distance is not None
    assert distance.tolist() == [0, 1, 1, 0]
    assert not disagreements(one, near, 1)[0].size


def test_signs_of_zero_and_nans():
    a = np.array([0.0, -0.0, np.nan, np.inf, -1.0])
    b = np.array([-0.0, -0.0, -np.nan, np.inf, 1.0])
    wrong, distance = disagreements(a, b, 0)
    assert wrong.tolist() == [0, 4]
    assert distance is not None
    assert distance[0] == 1
    assert disagreements(a, b, 1)[0].tolist() == [4]


def test_integers_records_and_complex_numbers_are_compared_by_their_bits():
    a, b = np.arange(4), np.array([0, 1, 7, 3])
    assert disagreements(a, b, 99)[0].tolist() == [2]
    records = np.zeros(3, [("a", "i4"), ("b", "f4")])
    others = records.copy()
    others["b"][1] = 1
    assert disagreements(records, others, 99)[0].tolist() == [1]
    assert disagreements(np.array([1 + 1j, 2]), np.array([1 + 1j, 2 + 1j]), 0)[0].tolist() == [1]


# -- the process -----------------------------------------------------------------------------------------------------
def test_a_child_process_answers():
    assert gpu_process.call(lambda: 6 * 7, 10.0) == 42


def test_a_child_that_takes_too_long_is_given_up():
    started = time.monotonic()
    assert gpu_process.call(lambda: time.sleep(60), 0.2) is None
    assert time.monotonic() - started < 30


def test_what_a_child_raises_is_told():
    def fail() -> None:
        raise ValueError("no such luck")

    result = gpu_process.call(fail, 10.0)
    assert result.error == "ValueError: no such luck"
