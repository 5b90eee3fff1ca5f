"""Dates and durations in kernels: values are those of NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from wsemu import cuda
from wsemu.launch.check import check
from wsemu.launch.result import CheckFailed
from wsemu.model.errors import KernelError

DAYS = np.array(["2005-02-01", "2024-02-29", "NaT", "1969-12-31"], "M8[D]")
OTHERS = np.array(["2005-02-03", "1970-01-01", "2000-01-01", "NaT"], "M8[D]")
SPANS = np.array([3, -7, "NaT", 100], "m8[D]")
HOURS = np.array([5, -30, 48, 7], "m8[h]")


def of_two(op: Any, x: Any, y: Any, dtype: str) -> Any:
    @cuda.jit
    def compute(x, y, out):
        for i in range(out.size):
            out[i] = op(x[i], y[i])

    out = np.zeros(len(x), dtype)
    check(compute, 1, 1, (x, y, out)).assert_clean()
    return out


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("sub", DAYS, OTHERS), ("add", DAYS, SPANS), ("add", SPANS, DAYS), ("sub", DAYS, SPANS), ("add", SPANS, SPANS),
        ("sub", SPANS, SPANS), ("add", DAYS, HOURS), ("sub", HOURS, SPANS), ("mul", SPANS, np.array([2, 3, 4, -5])),
        ("mul", np.array([2, 3, 4, -5]), SPANS), ("mul", SPANS, np.array([0.5, 1.25, 2, np.nan])),
        ("truediv", SPANS, HOURS), ("truediv", SPANS, np.array([2, 2, 3, 7])), ("floordiv", SPANS, HOURS),
        ("truediv", SPANS, np.array([0.5, 2.0, 3.0, 7.0])), ("mod", SPANS, HOURS), ("lt", DAYS, OTHERS),
        ("ge", DAYS, OTHERS), ("eq", DAYS, DAYS), ("ne", DAYS, OTHERS), ("gt", SPANS, HOURS), ("eq", SPANS, SPANS),
        ("le", SPANS, SPANS), ("ne", SPANS, SPANS),
    ],
)  # fmt: skip
def test_operators(name: str, x: Any, y: Any) -> None:
    op = getattr(operator, name)
    with np.errstate(invalid="ignore"):
        wanted = op(x, y)
    got = of_two(op, x, y, str(wanted.dtype))
    assert np.array_equal(got, wanted, equal_nan=wanted.dtype.kind in "fmM")


def test_signs_sizes_and_missing_ones() -> None:
    @cuda.jit
    def compute(spans, days, out, flags):
        for i in range(spans.size):
            out[0, i] = -spans[i]
            out[1, i] = abs(spans[i])
            out[2, i] = +spans[i]
            flags[i] = np.isnat(days[i])

    out, flags = np.zeros((3, 4), "m8[D]"), np.zeros(4, bool)
    check(compute, 1, 1, (SPANS, DAYS, out, flags)).assert_clean()
    assert np.array_equal(out, [-SPANS, abs(SPANS), SPANS], equal_nan=True)
    assert (flags == np.isnat(DAYS)).all()


LIMIT = np.datetime64("2005-03-01")


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_arguments_constants_and_variables(engine: Any) -> None:
    @cuda.jit
    def latest(days, step, out):
        best = days[0]
        for day in days:
            if day > best or day == LIMIT:
                best = day
        out[0] = best + step
        out[1] = LIMIT if step > step - step else best

    out = np.zeros(2, "M8[s]")
    check(latest, 1, 1, (DAYS, np.timedelta64(36, "h"), out), engine=engine).assert_clean()
    assert out.tolist() == np.array(["2024-03-01T12:00:00", LIMIT], "M8[s]").tolist()


def test_dates_are_no_numbers() -> None:
    numbers = np.zeros(4)
    with pytest.raises(KernelError, match=r"a datetime64\[D\] does not convert to float64"):
        of_two(lambda x, y: x, DAYS, DAYS, "f8")
    with pytest.raises(KernelError, match=r"`\+` is not defined for datetime64\[D\] and datetime64\[D\]"):
        of_two(operator.add, DAYS, DAYS, "M8[D]")
    with pytest.raises(KernelError, match="is not defined"):
        of_two(operator.lt, DAYS, numbers, "?")
    with pytest.raises(KernelError, match=r"a timedelta64\[h\] does not convert to timedelta64\[D\]"):
        of_two(lambda x, y: x, HOURS, HOURS, "m8[D]")
    with pytest.raises(CheckFailed, match=r"a datetime64\[M\] as datetime64\[D\]: not modelled"):
        of_two(lambda x, y: x, DAYS.astype("M8[M]"), DAYS, "M8[D]")


def test_ufuncs_of_dates() -> None:
    from numba.np.numpy_support import from_dtype

    day = from_dtype(np.dtype("M8[D]"))
    # a signature without a result: its type is what the function returns
    difference = cuda.vectorize([(day, day)])(lambda start, end: end - start)
    assert np.array_equal(difference(DAYS, OTHERS), OTHERS - DAYS, equal_nan=True)
