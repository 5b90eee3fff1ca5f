"""What a kernel's paths share, how functions are typed, and which names and records Numba-CUDA refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.cuda import threadIdx
from wsemu.frontend.python.compile import argument_type, compile_kernel

THREADS = 32
LANES = np.arange(THREADS)


def launched(kernel: Any, *arguments: Any, engine: str = "vm", expect: str = "verified") -> Any:
    """The int64 array with an element per thread that a kernel fills."""
    y = np.zeros(THREADS, np.int64)
    report = wsemu.check(cuda.jit(kernel), 1, THREADS, (y, *arguments), engine=engine)  # type: ignore[arg-type]
    assert report.verdict == expect, (report.findings, report.notes)
    return y


def types_of(kernel: Any, *arguments: Any) -> dict[str, str]:
    """Variable -> the type of its last assignment."""
    compiled = compile_kernel(kernel, tuple(argument_type(a, "argument") for a in arguments))
    return {variable.name: variable.type for variable in compiled.variables}


# -- a value computed on one path is not known on the others ----------------------------------------------------------
def sevenfold_of_small(a):
    if a > 5:
        return 1
    return a * 7


def early_return(y):
    i = cuda.threadIdx.x
    v = sevenfold_of_small(i)
    y[i] = v * 1000 + i * 7


def continue_in_unrolled_loop(y):
    i = cuda.threadIdx.x
    for k in (1, 2):
        if i > 5:
            continue
        y[i] = i * 7 + k
    y[i] += i * 7


def break_around_else(y):
    i = cuda.threadIdx.x
    for _ in range(i % 3, 2):
        break
    else:
        y[i] = i * 11
    y[i] += i * 11


def return_out_of_loop(y):
    i = cuda.threadIdx.x
    y[i] = first_multiple(i) + i * 13 + (i - 1)


def first_multiple(a):
    k = 1
    while k < 9:
        if a % k == 3:
            return k
        k += 1 + (a * 13) % 2
    return a - 1


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (early_return, np.where(LANES > 5, 1, LANES * 7) * 1000 + LANES * 7),
        (continue_in_unrolled_loop, np.where(LANES > 5, 0, LANES * 7 + 2) + LANES * 7),
        (break_around_else, np.where(LANES % 3 == 2, LANES * 11, 0) + LANES * 11),
        (return_out_of_loop, np.array([first_multiple(i) for i in range(THREADS)]) + LANES * 13 + LANES - 1),
    ],
)
def test_a_value_of_one_path_is_not_reused_on_another(kernel: Any, expected: Any, engine: str) -> None:
    np.testing.assert_array_equal(launched(kernel, engine=engine), expected)


def test_a_chained_comparison_stops_at_the_first_that_fails() -> None:
    def guarded(y, x):
        i = cuda.threadIdx.x
        k = i + 1
        y[i] = k < x.size < x[k]

    x = np.arange(THREADS) * 3
    np.testing.assert_array_equal(launched(guarded, x), (LANES < 31) & (3 * (LANES + 1) > 32))


# -- loops that count through arrays -----------------------------------------------------------------------------------
def test_enumerate_and_zip_run_over_arrays_and_ranges() -> None:
    def sums(y, x, n):
        i = cuda.threadIdx.x
        for k, v in enumerate(x, 2):
            y[i] += k * v
        for v, k in zip(x, range(n, 100, 3)):  # noqa: B905 - Numba knows no `strict`
            y[i] += v * k
        for k, (v, w) in enumerate(zip(x, (5, i))):  # noqa: B905
            y[i] += k * v * w

    x = np.arange(4, 12)
    total = sum(k * v for k, v in enumerate(x, 2)) + sum(v * k for v, k in zip(x, range(7, 100, 3), strict=False))
    np.testing.assert_array_equal(launched(sums, x, 7), total + x[1] * LANES)


# -- types -------------------------------------------------------------------------------------------------------------
def doubled_if(x, flag=False):
    if flag:
        return x * 2.0
    return x


def chosen(x, mode):
    number = mode + 1
    return x if number == 1 else x * 2.0


def test_a_function_is_typed_without_the_numbers_it_is_called_with() -> None:
    """As in Numba: both returns count, though the caller's constant decides which is taken."""

    def kernel(y, x):
        a = doubled_if(x, False)
        b = doubled_if(x)
        c = chosen(x, 0)
        d = doubled_if(x, True)
        y[cuda.threadIdx.x] = a + b + c + d

    types = types_of(kernel, np.zeros(THREADS), np.float32(1))
    assert {types[name] for name in "abcd"} == {"float64"}


LEVEL = 0


def test_a_branch_on_a_global_is_typed_with_the_arm_that_runs() -> None:
    def kernel(y, x):
        if LEVEL:
            v = x * 2.0
        else:
            v = x
        y[cuda.threadIdx.x] = v

    assert types_of(kernel, np.zeros(THREADS), np.float32(1))["v"] == "float32"


# -- what Numba-CUDA refuses -------------------------------------------------------------------------------------------
def test_markers_are_known_by_their_full_names_only() -> None:
    def kernel(y):
        y[threadIdx.x] = 1

    with pytest.raises(wsemu.KernelError, match=r"`threadIdx` is `cuda.threadIdx`.*write `cuda.threadIdx`"):
        launched(kernel)


def test_fields_of_records_have_to_be_aligned() -> None:
    def kernel(y, r):
        y[0] = r[0].b

    packed = np.dtype([("a", np.int32), ("b", np.float64)])
    with pytest.raises(wsemu.KernelError, match="field `b` of record `r` is a float64 at byte 4, which is not aligned"):
        launched(kernel, np.zeros(2, packed))
    aligned = np.ones(2, np.dtype([("a", np.int32), ("b", np.float64)], align=True))
    y = np.zeros(1, np.int64)
    assert wsemu.check(cuda.jit(kernel), 1, 1, (y, aligned)).verdict == "verified"
    assert y[0] == 1
