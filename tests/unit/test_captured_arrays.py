"""Arrays that a kernel names: device arrays belong to every launch, host arrays are constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda

ENGINES = ("vm", "reference")
pytestmark = pytest.mark.parametrize("engine", ENGINES)
DEVICE = cuda.to_device(np.arange(4.0))
HOST = np.arange(4.0)


class Foreign:
    """What other libraries' arrays are to Numba."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


@cuda.jit(device=True)
def of_device(i):
    return DEVICE[i]


@cuda.jit
def read_global(y):
    i = cuda.threadIdx.x
    y[i] = of_device(i) + DEVICE[i]


@cuda.jit
def read_host(y):
    i = cuda.threadIdx.x
    y[i] = HOST[i]


def run(kernel: Any, engine: Any, n: int = 4, **options: Any) -> Any:
    y = np.zeros(n)
    report = wsemu.check(kernel, 1, n, (y,), engine=engine, **options)
    assert report.verdict == "verified", report
    return y.tolist()


def test_a_captured_device_array_is_what_it_is_at_the_launch(engine: Any) -> None:
    for value in (1.0, 9.0):
        DEVICE.copy_to_device(np.full(4, value))
        assert run(read_global, engine) == [2 * value] * 4


def test_a_captured_host_array_is_what_it_was_when_the_kernel_was_compiled(engine: Any) -> None:
    HOST[:] = np.arange(4.0)
    assert run(read_host, engine) == [0, 1, 2, 3]
    HOST[:] = 9
    assert run(read_host, engine) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "make",
    [
        cuda.to_device,
        lambda a: cuda.to_device(np.repeat(a, 2))[::2],
        lambda a: cuda.to_device(a[::-1])[::-1],
        lambda a: Foreign(cuda.to_device(a)),
        lambda a: Foreign(cuda.to_device(np.repeat(a, 2))[::2]),
    ],
    ids=["plain", "strided", "backwards", "foreign", "foreign and strided"],
)
def test_a_closure_may_write_the_device_array_that_it_names(engine: Any, make: Any) -> None:
    array = make(np.arange(4.0))

    @cuda.jit
    def double(y):
        i = cuda.threadIdx.x
        array[i] *= 2
        y[i] = array[i]

    assert run(double, engine) == [0, 2, 4, 6]
    assert run(double, engine) == [0, 4, 8, 12]
    assert np.asarray(cuda.as_cuda_array(array)).tolist() == [0, 4, 8, 12]


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array, cuda.device_array])
def test_memory_that_host_and_kernels_share_is_live(engine: Any, make: Any) -> None:
    array = make(4)
    array[:] = 3

    @cuda.jit
    def read(y):
        i = cuda.threadIdx.x
        y[i] = array[i]

    assert run(read, engine) == [3] * 4
    array[:] = 4
    assert run(read, engine) == [4] * 4


def test_an_array_that_is_captured_and_passed_is_one_memory(engine: Any) -> None:
    array = cuda.to_device(np.zeros(64))

    @cuda.jit
    def race(y):
        i = cuda.threadIdx.x
        y[i] = i
        array[63 - i] = i

    report = wsemu.check(race, 1, 64, (array,), engine=engine)
    assert {finding.code for finding in report.errors} == {"race"}


def test_a_captured_array_that_nothing_has_written_is_uninitialized_once(engine: Any) -> None:
    array = cuda.device_array(4)

    @cuda.jit
    def read(y):
        i = cuda.threadIdx.x
        y[i] = array[i]

    codes = [[f.code for f in wsemu.check(read, 1, 4, (np.zeros(4),), engine=engine).errors] for _ in range(2)]
    assert codes == [["uninitialized-read"], []]


def test_an_index_outside_a_captured_array_is_found(engine: Any) -> None:
    report = wsemu.check(read_global, 1, 5, (np.zeros(5),), engine=engine)
    assert {finding.code for finding in report.errors} == {"out-of-bounds"}


def test_what_only_has_the_cuda_array_interface_is_an_argument(engine: Any) -> None:
    @cuda.jit
    def fill(y):
        y[cuda.threadIdx.x] = 1

    array = cuda.to_device(np.zeros((2, 4)))
    wsemu.check(fill, 1, 4, (Foreign(array[1]),), engine=engine).assert_clean()
    assert array.tolist() == [[0] * 4, [1] * 4]


@pytest.mark.parametrize(
    "ask", [cuda.as_cuda_array, lambda o: cuda.from_cuda_array_interface(o.__cuda_array_interface__)]
)
def test_memory_of_nobody_here_is_refused(engine: Any, ask: Any) -> None:
    array = cuda.to_device(np.zeros(4))
    for changes in ({"data": (64, False)}, {"shape": (5,)}, {"shape": (2,), "strides": (32,)}):
        foreign = Foreign(array, **changes)
        with pytest.raises(wsemu.UsageError, match="no device array here has"):
            ask(foreign)


@pytest.mark.parametrize("value", [object(), "text", None])
def test_what_is_no_array_does_not_become_one(engine: Any, value: Any) -> None:
    with pytest.raises(wsemu.UsageError, match="has no CUDA array interface"):
        cuda.as_cuda_array(value)


@pytest.mark.parametrize("part", [lambda a: a[4:], lambda a: a[::2], lambda a: a.reshape(2, 4)[1], lambda a: a])
def test_a_part_of_an_array_that_nothing_has_written_is_not_written_either(engine, part):
    array = cuda.device_array(8)
    captured = part(array)

    @cuda.jit
    def reads(y):
        y[cuda.threadIdx.x] = captured[cuda.threadIdx.x]

    report = wsemu.check(reads, 1, 4, (np.zeros(4),), engine=engine)
    assert [finding.code for finding in report.errors] == ["uninitialized-read"]
    array = cuda.device_array(8)
    captured = part(array)
    captured[0] = 1
    assert wsemu.check(reads, 1, 4, (np.zeros(4),), engine=engine).verdict == "verified"
    assert not array.blank


def test_a_copy_of_an_array_is_written(engine):
    assert not cuda.device_array(8).copy().blank
