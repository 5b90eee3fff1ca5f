"""Rules of Numba-CUDA's that were once broken in silence, on both engines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import KernelError, UsageError, cuda
from wsemu.reference_operations import LIBRARY

ENGINES = ("vm", "reference")
both_engines = pytest.mark.parametrize("engine", ENGINES)


def run(kernel: Any, engine: Any, *arguments: Any, block: int = 1) -> None:
    wsemu.check(kernel, 1, block, arguments, engine=engine).assert_clean()


# -- reshape -----------------------------------------------------------------------------------------------------------
@cuda.jit
def reshaped(x, n, m, y):
    a = x.reshape(n, m)
    y[0] = a.shape[0]
    y[1] = a.shape[1]
    y[2] = a[a.shape[0] - 1, a.shape[1] - 2]


@cuda.jit
def reshaped_empty(x, n, m, y):
    a = x.reshape((n, m))
    y[0] = a.shape[0]
    y[1] = a.shape[1]


@both_engines
@pytest.mark.parametrize(("n", "m", "shape"), [(-1, 3, (2, 3)), (2, -1, (2, 3)), (3, 2, (3, 2)), (-7, 2, (3, 2))])
def test_one_extent_below_zero_is_what_is_left_also_at_run_time(
    engine: Any, n: int, m: int, shape: tuple[int, int]
) -> None:
    y = np.zeros(3)
    run(reshaped, engine, np.arange(6.0), n, m, y)
    assert y.tolist() == [*shape, 4]


@both_engines
@pytest.mark.parametrize(("n", "m"), [(-1, -1), (4, -1), (2, 2), (7, 1), (0, -1)])
def test_a_shape_of_other_elements_is_found_where_they_are_used(engine: Any, n: int, m: int) -> None:
    report = wsemu.check(reshaped, 1, 1, (np.arange(6.0), n, m, np.zeros(3)), engine=engine)
    assert "out-of-bounds" in {finding.code for finding in report.errors}


@both_engines
def test_an_array_without_elements_has_any_shape_of_none(engine: Any) -> None:
    y = np.zeros(2)
    run(reshaped_empty, engine, np.zeros(0), 0, -1, y)
    assert y.tolist() == [0, 0]


@both_engines
@pytest.mark.parametrize("x", [np.arange(12.0)[::2], np.asarray(np.arange(6.0).reshape(2, 3), order="F")])
def test_only_an_array_whose_elements_lie_side_by_side_has_another_shape(engine: Any, x: Any) -> None:
    report = wsemu.check(reshaped, 1, 1, (x, 3, 2, np.zeros(3)), engine=engine)
    assert {finding.code for finding in report.errors} == {"out-of-bounds"}


def test_a_known_shape_of_other_elements_is_refused() -> None:
    @cuda.jit
    def wrong(y):
        a = cuda.local.array(6, np.float32)
        y[0] = a.reshape(4, -1).shape[0]

    with pytest.raises(KernelError, match="`a` of 6 elements is reshaped to 4 x 1"):
        wsemu.check(wrong, 1, 1, (np.zeros(1),))


# -- warps that are not whole ------------------------------------------------------------------------------------------
@cuda.jit
def ask_the_warp(y):
    i = cuda.threadIdx.x
    same, holds = cuda.match_all_sync(0xFFFFFFFF, 3)
    y[i, 0] = same
    y[i, 1] = holds
    y[i, 2] = cuda.match_any_sync(0xFFFFFFFF, i % 2)
    y[i, 3] = cuda.ballot_sync(0xFFFFFFFF, 1)
    y[i, 4] = cuda.all_sync(0xFFFFFFFF, 1)
    y[i, 5] = cuda.eq_sync(0xFFFFFFFF, 0)
    y[i, 6] = cuda.any_sync(0xFFFFFFFF, i > 4)


@both_engines
def test_lanes_that_do_not_exist_are_not_counted(engine: Any) -> None:
    y = np.zeros((5, 7), np.int32)
    run(ask_the_warp, engine, y, block=5)
    assert y.tolist() == [[31, 1, 0b10101 if i % 2 == 0 else 0b01010, 31, 1, 1, 0] for i in range(5)]


@cuda.jit
def after_some_left(y):
    i = cuda.threadIdx.x
    if i >= 8:
        return
    y[i] = cuda.match_all_sync(0xFFFFFFFF, 3)[0]


@both_engines
def test_lanes_that_have_left_are_not_counted(engine: Any) -> None:
    y = np.zeros(8, np.int32)
    run(after_some_left, engine, y, block=32)
    assert y.tolist() == [255] * 8


# -- arguments and dtypes ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [3 + 4j, np.complex64(1)])
@pytest.mark.parametrize("type_", ["i4", "f8", "b1"])
def test_a_complex_number_does_not_become_a_declared_real_one(type_: str, value: complex) -> None:
    @cuda.jit(f"void({type_}, f8[:])")
    def kernel(n, y):
        y[0] = n

    with pytest.raises(UsageError, match=r"`n` is .* does not convert to .*: pass its `.real`"):
        kernel[1, 1](value, np.zeros(1))


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    @cuda.jit("void(i4, f8[:])")
    def kernel(n, y):
        y[0] = n

    with pytest.raises(UsageError, match="does not fit into 64 bits"):
        kernel[1, 1](1 << 70, np.zeros(1))


def test_a_declared_array_of_any_layout_need_not_be_aligned() -> None:
    @cuda.jit("void(f8[:])")
    def kernel(y):
        y[0] = 1

    whole = np.zeros(17, np.uint8)
    kernel[1, 1](whole[:16].view(np.float64)[::1])
    kernel[1, 1](np.zeros(4)[::2])


DOUBLE = np.dtype("float64")


@cuda.jit
def with_dtypes(x, y):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(4, x.dtype)
    local = cuda.local.array((1,), dtype=DOUBLE)
    bits = x.view(DOUBLE)
    shared[i] = bits[i]
    local[0] = shared[i]
    y[i] = local[0] if x.dtype == DOUBLE else -1
    if x.dtype == None:  # noqa: E711
        y[i] = -2
    if x.dtype != None:  # noqa: E711
        y[i] += 1


@both_engines
def test_a_dtype_object_is_a_dtype_also_that_of_float64(engine: Any) -> None:
    y = np.zeros(4)
    run(with_dtypes, engine, np.arange(4.0), y, block=4)
    assert y.tolist() == [1, 2, 3, 4]


def test_float64_is_reduced() -> None:
    assert cuda.reduce(lambda a, b: a + b)(np.arange(100.0)) == 4950


# -- what is known by its type -----------------------------------------------------------------------------------------
@cuda.jit(device=True)
def by_type(x, a):
    if x is None:
        return a.nothing_like_this
    if not (x is not None) or x == None:  # noqa: E711
        return a.nothing_like_this
    if x is None and x > 3:  # type: ignore[operator]
        return a.nothing_like_this
    return 1.0 if x is not None or a.nothing_like_this else a.nothing_like_this


@cuda.jit(device=True)
def by_length(shape, a):
    if len(shape) == 1 or a.ndim == 2:
        return a.nothing_like_this
    return shape[1]


@cuda.jit
def call_them(y):
    y[0] = by_type(3, y)
    y[1] = by_type(True, y)
    y[2] = by_length((1, 2), y)


@both_engines
def test_a_branch_that_the_type_of_a_literal_argument_decides_is_pruned(engine: Any) -> None:
    y = np.zeros(3)
    run(call_them, engine, y)
    assert y.tolist() == [1, 1, 2]


@cuda.jit(device=True)
def by_number(x, a):
    return a.nothing_like_this if x == 3 else 1.0


def test_a_branch_that_the_number_of_a_literal_argument_decides_is_typed_on_both_arms() -> None:
    @cuda.jit
    def kernel(y):
        y[0] = by_number(4, y)

    with pytest.raises(KernelError, match="no attribute `nothing_like_this`"):
        wsemu.check(kernel, 1, 1, (np.zeros(1),))


@cuda.jit
def add_at(y, i):
    cuda.atomic.add(y, (i / 2, i), 1)


@both_engines
def test_an_atomic_converts_the_floats_of_a_tuple_to_indices(engine: Any) -> None:
    y = np.zeros((3, 4), np.int32)
    run(add_at, engine, y, 3)
    assert np.argwhere(y).tolist() == [[1, 3]]


@cuda.jit
def becomes_an_array(x, n, y):
    for t in range(1, n):
        for i in range(n):
            t = x
            y[i] = t[i]


@both_engines
def test_a_loop_variable_may_become_an_array(engine: Any) -> None:
    y = np.zeros(3)
    run(becomes_an_array, engine, np.arange(3.0), 3, y)
    assert y.tolist() == [0, 1, 2]


# -- library functions -------------------------------------------------------------------------------------------------
@cuda.jit
def library(x, y, z):
    i = cuda.grid(1)
    z[0, i] = math.hypot(x[i], y[i])
    z[1, i] = math.lgamma(x[i])
    z[2, i] = math.gamma(y[i])


def test_library_functions_of_both_engines_are_the_same_to_the_last_bit() -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(256) * 10.0 ** rng.integers(-3, 2, 256) for _ in range(2))
    found = []
    ways: Any = ENGINES
    for engine in ways:
        z = np.zeros((3, 256))
        wsemu.check(library, 8, 32, (x, y, z), engine=engine).assert_clean()
        found.append(z)
    assert np.array_equal(found[0], found[1], equal_nan=True)


def test_hypot_and_gamma_end_as_in_c() -> None:
    inf, nan = math.inf, math.nan
    assert LIBRARY["hypot"](inf, nan) == inf
    assert LIBRARY["hypot"](1e308, 1e308) == pytest.approx(2**0.5 * 1e308)
    assert [LIBRARY["tgamma"](v) for v in (0.0, -0.0, inf, 200.0)] == [inf, -inf, inf, inf]
    assert [LIBRARY["lgamma"](v) for v in (0.0, -1.0, -inf)] == [inf, inf, inf]
    assert math.isnan(LIBRARY["tgamma"](-1.0))
