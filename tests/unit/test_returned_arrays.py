"""Local arrays of device functions end with them: Numba-CUDA refuses to return one, but accepts it in a tuple."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda

ENGINES = ("vm", "reference")
pytestmark = pytest.mark.parametrize("engine", ENGINES)
POINT = np.dtype([("x", np.float32), ("y", np.int32)])


@cuda.jit(device=True)
def return_array(x):
    own = cuda.local.array(4, np.float32)
    own[0] = x[0]
    return own


@cuda.jit(device=True, inline="always")
def return_array_inlined(x):
    own = cuda.local.array(4, np.float32)
    own[0] = x[0]
    return own


@cuda.jit(device=True)
def return_from_inlined(x):
    return return_array_inlined(x)


@cuda.jit(device=True)
def return_of_parameter(function, x):
    return function(x)


@cuda.jit(device=True)
def return_view(x):
    own = cuda.local.array(4, np.float32)
    own[1] = x[0]
    return own[1:]


@cuda.jit(device=True)
def return_from_nested(x):
    def make(value):
        own = cuda.local.array(4, np.float32)
        own[0] = value
        return own

    return make(x[0])


@cuda.jit(device=True)
def return_in_tuple(x):
    own = cuda.local.array((2, 2), np.float32)
    own[0, 0] = own[1, 1] = x[0]
    return own, (own.reshape(4), 1), own[1]


@cuda.jit(device=True)
def return_through_another(x):
    return return_in_tuple(x)


@cuda.jit(device=True)
def return_record(x):
    own = cuda.local.array(2, POINT)
    own[1].x = x[0]
    return own[1]


@cuda.jit(device=True)
def return_function(x):
    own = cuda.local.array(2, np.float32)
    own[1] = x[0]

    def read():
        return own[1]

    return lambda: read()


@cuda.jit(device=True)
def return_either(x, given):
    own = cuda.local.array(4, np.float32)
    for n in range(4):
        own[n] = given[n] = x[n]
    chosen = given if x[cuda.threadIdx.x] else own
    return chosen, chosen[1:]


@cuda.jit(device=True)
def return_given(x, given):
    own = cuda.local.array(4, np.float32)
    own[0] = given[0] = x[0]
    return given


@cuda.jit(device=True)
def return_shared(x):
    tile = cuda.shared.array(32, np.float32)
    own = cuda.local.array(1, np.float32)
    own[0] = x[cuda.threadIdx.x]
    tile[cuda.threadIdx.x] = own[0]
    return tile, own[0]


def _check(kernel: Any, engine: Any, x: Any = None) -> tuple[wsemu.Report, list[float]]:
    y = np.zeros(32, np.float32)
    given = np.arange(1, 33, dtype=np.float32) if x is None else x
    report = wsemu.check(kernel, 1, 32, (given, y), engine=engine)
    return report, y.tolist()


def _kernel(device: Any, expression: Any) -> Any:
    """Return a kernel that stores an expression of what a device function returns."""

    @cuda.jit
    def kernel(x, y):
        y[cuda.threadIdx.x] = expression(device(x))

    return kernel


@pytest.mark.parametrize("device", [return_array, return_view, return_from_nested, return_from_inlined])
def test_a_returned_local_array_is_refused(device: Any, engine: Any) -> None:
    with pytest.raises(wsemu.KernelError) as caught:
        _check(_kernel(device, lambda got: got[0]), engine)
    name = device.py_func.__name__
    assert caught.value.message == f"`{name}` returns its local array `own`, which ends with it"
    assert caught.value.remedy == "pass the array in as an argument"
    assert caught.value.span is not None
    assert linecache.getline(__file__, caught.value.span.line).strip().startswith("return")


ACCESSES: dict[str, tuple[Any, Any]] = {
    "array": (return_in_tuple, lambda got: got[0][0, 0]),
    "reshaped": (return_in_tuple, lambda got: got[1][0][3]),
    "row": (return_in_tuple, lambda got: got[2][1]),
    "retyped": (return_in_tuple, lambda got: got[2].view(np.int32)[1]),
    "through another": (return_through_another, lambda got: got[0][1, 1]),
    "record": (return_record, lambda got: got.x),
    "function": (return_function, lambda got: got()),
}


@pytest.mark.parametrize("name", ACCESSES)
def test_a_local_array_ends_with_its_function(name: str, engine: Any) -> None:
    report, _ = _check(_kernel(*ACCESSES[name]), engine)
    assert report.verdict == "failed"
    (finding,) = report.findings
    assert (finding.code, finding.message) == (
        "out-of-bounds", "load of 4 bytes in a variable whose function has returned",
    )  # fmt: skip


def test_a_store_to_an_ended_array_is_out_of_bounds(engine: Any) -> None:
    @cuda.jit
    def kernel(x, y):
        whole, _, _ = return_in_tuple(x)
        whole[0, 1] = 1
        y[cuda.threadIdx.x] = 0

    report, _ = _check(kernel, engine)
    (finding,) = report.findings
    assert finding.message == "store of 4 bytes in a variable whose function has returned"


def test_an_array_of_an_earlier_iteration_has_ended(engine: Any) -> None:
    @cuda.jit
    def kernel(x, y):
        before = return_in_tuple(x)
        for n in range(3):
            now = return_in_tuple(x)
            if n == 2:
                y[cuda.threadIdx.x] = before[0][0, 0]
            before = now

    report, _ = _check(kernel, engine)
    assert [finding.code for finding in report.findings] == ["out-of-bounds"]


@pytest.mark.parametrize("first", [1, 0])
def test_an_array_that_was_given_does_not_end(first: int, engine: Any) -> None:
    @cuda.jit
    def kernel(x, y):
        mine = cuda.local.array(4, np.float32)
        whole, rest = return_either(x, mine)
        y[cuda.threadIdx.x] = whole[0] + rest[1]

    report, y = _check(kernel, engine, np.arange(first, 32 + first, dtype=np.float32))
    if first:
        assert (report.verdict, y) == ("verified", [4] * 32)
        return
    assert [finding.code for finding in report.findings] == ["out-of-bounds"] * 2
    assert y[1:] == [2] * 31


@pytest.mark.parametrize("inline", ["always", "never"])
def test_an_inlined_function_makes_arrays_of_its_caller(inline: str, engine: Any) -> None:
    @cuda.jit(device=True, inline=inline)
    def make(x):
        own = cuda.local.array(4, np.float32)
        own[0] = x[0]
        return own, 1

    report, y = _check(_kernel(make, lambda got: got[0][0]), engine)
    assert report.verdict == ("verified" if inline == "always" else "failed")
    assert y == [1 if inline == "always" else 0] * 32


def test_a_function_that_is_passed_is_not_inlined(engine: Any) -> None:
    @cuda.jit
    def kernel(x, y):
        y[cuda.threadIdx.x] = return_of_parameter(return_array_inlined, x)[0]

    with pytest.raises(wsemu.KernelError, match="returns its local array `own`"):
        _check(kernel, engine)


def test_what_outlives_a_function_is_verified(engine: Any) -> None:
    @cuda.jit
    def kernel(x, y):
        mine = cuda.local.array(4, np.float32)

        def make(value):
            own = cuda.local.array(2, np.float32)
            own[1] = value
            return own

        tile, own = return_shared(x)
        whole, _, row = return_in_tuple(x)
        inlined = return_array_inlined(x)
        y[cuda.threadIdx.x] = return_given(x, mine)[0] + make(x[1])[1] + tile[cuda.threadIdx.x] - own
        y[cuda.threadIdx.x] += whole.size + len(row) + inlined[0]

    report, y = _check(kernel, engine)
    assert (report.verdict, y) == ("verified", [10] * 32)
