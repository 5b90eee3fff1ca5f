"""Conversion of `bf16`, `e4m3` and `e5m2`, which NumPy lacks: arrays hold the bits of such numbers as integers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


class Format(NamedTuple):
    """A format of small floats."""

    bits: str
    """name of the NumPy type that holds the bits"""
    exponent: int
    """number of bits of the exponent"""
    mantissa: int
    has_infinity: bool


FORMATS = {
    "bf16": Format("uint16", 8, 7, True),
    "e4m3": Format("uint8", 4, 3, False),
    "e5m2": Format("uint8", 5, 2, True),
}


def decode(name: str, bits: Array) -> Array:
    """Return the numbers that bits of a format encode."""
    if name == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    numbers: Array = _values(name)[bits]
    return numbers


def encode(name: str, numbers: Array) -> Array:
    """Return the bits of the nearest numbers of a format, ties to even.  Numbers out of range become infinite in
    `bf16`, and the largest finite number in the other formats, as with `cvt.satfinite`."""
    given = np.ascontiguousarray(numbers, np.float32)
    if name == "bf16":
        words = given.view(np.uint32)
        rounded = ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(given), np.uint16(0x7FFF), rounded)
    values = _finite(name)
    middles = (values[1:] + values[:-1]) / 2
    magnitude = np.abs(given).astype(np.float64)
    low = np.searchsorted(middles, magnitude, "left")
    is_tie = (low < middles.size) & (middles[np.minimum(low, middles.size - 1)] == magnitude)
    codes = low + (is_tie & (low % 2 == 1))
    codes = np.where(np.isnan(given), 0x7F, codes) | np.signbit(given) << 7
    return np.asarray(codes, np.uint8)


@functools.cache
def _values(name: str) -> Array:
    """Return the number of each of the 256 codes of a format of 8 bits."""
    form = FORMATS[name]
    codes = np.arange(256)
    exponent, mantissa = codes >> form.mantissa & (1 << form.exponent) - 1, codes & (1 << form.mantissa) - 1
    bias, one = (1 << form.exponent - 1) - 1, 1 << form.mantissa
    found = np.where(
        exponent == 0,
        mantissa / one * 2.0 ** (1 - bias),
        (1 + mantissa / one) * 2.0 ** (exponent.astype(float) - bias),
    )
    last = exponent == (1 << form.exponent) - 1
    if form.has_infinity:
        found = np.where(last, np.where(mantissa == 0, np.inf, np.nan), found)
    else:
        found = np.where(last & (mantissa == one - 1), np.nan, found)
    return np.where(codes >> 7, -found, found).astype(np.float32)


@functools.cache
def _finite(name: str) -> Array:
    """Return the finite numbers from 0 on, in the order of their codes."""
    values = _values(name)[:128].astype(np.float64)
    return values[np.isfinite(values)]
