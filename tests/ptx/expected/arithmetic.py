"""Arithmetic of a GPU on the host, where NumPy has none: fused multiply-add, directed rounding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]


def _to_odd(high: Floats, low: Floats) -> Floats:
    """high + low, rounded to odd in double precision: a second rounding to a narrower type is then right."""
    even = (high.view(np.int64) & 1) == 0
    towards = np.where((low > 0) == (high > 0), 1, -1)
    return np.where((low != 0) & even, (high.view(np.int64) + towards).view(np.float64), high)


def fma(a: Any, b: Any, c: Any) -> Floats:
    """a * b + c of float32, rounded once; not for results below 1e-30."""
    addend, p = np.broadcast_arrays(np.float64(c), np.float64(a) * np.float64(b))
    total = np.ascontiguousarray(p + addend)
    rest = total - p
    low = (p - (total - rest)) + (addend - rest)
    return _to_odd(total, low).astype(np.float32)


@np.vectorize
def _fma_64(a: float, b: float, c: float) -> float:
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def fma_64(a: Any, b: Any, c: Any) -> Floats:
    """a * b + c of finite doubles, rounded once."""
    return np.asarray(_fma_64(a, b, c), np.float64)


def directed(exact: Fraction, way: str, type_: type[np.floating[Any]]) -> np.floating[Any]:
    """The exact value as a float, by rounding: `n` to nearest, `z` to zero, `u` up, `d` down; not for zero."""
    near: Any = type_(float(exact)) if type_ is np.float64 else _nearest_32(exact)
    if way == "n" or Fraction(float(near)) == exact:
        return near  # type: ignore[no-any-return]
    up = way == "u" or (way == "z" and exact < 0)
    above = Fraction(float(near)) > exact
    if above == up:
        return near  # type: ignore[no-any-return]
    return np.nextafter(near, type_(np.inf if up else -np.inf))  # type: ignore[no-any-return]


def _nearest_32(exact: Fraction) -> np.float32:
    """The float32 nearest to an exact value, ties to even."""
    first = np.float32(float(exact))
    return min(
        (first, np.nextafter(first, np.float32(np.inf)), np.nextafter(first, np.float32(-np.inf))),
        key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.int32)) & 1),
    )
