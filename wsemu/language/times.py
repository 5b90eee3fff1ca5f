"""Units of dates and durations, `datetime64[D]` and `timedelta64[h]`: types of int64, one for each name."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from wsemu.language.numbers import NumberType
from wsemu.model.errors import KernelError, UnsupportedError

NAT = -(1 << 63)
_SECONDS = {
    "W": Fraction(604800), "D": Fraction(86400), "h": Fraction(3600), "m": Fraction(60), "s": Fraction(1),
    **{unit: Fraction(1, 1000**n) for n, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"), 1)},
}  # fmt: skip
_MONTHS = {"Y": Fraction(12), "M": Fraction(1)}
TYPES: dict[str, NumberType] = {}
"""dates and durations by name"""


def time_type(name: str) -> NumberType:
    """The one type of a name such as `datetime64[D]`."""
    return TYPES.setdefault(name, NumberType(name, "i", 64))


def is_time(type_: NumberType) -> bool:
    """Whether it is a date or a duration."""
    return type_.name in TYPES


def is_date(type_: NumberType) -> bool:
    """Whether a time is a date."""
    return type_.name.startswith("datetime64")


def ratio(source: NumberType, target: NumberType) -> int:
    """How many of one unit the other one holds; an error names units that do not convert."""
    (unit, count), (wanted, many) = (np.datetime_data(np.dtype(t.name)) for t in (source, target))
    if unit == "generic" or (unit, count) == (wanted, many):
        return 1
    for units in (_SECONDS, _MONTHS):
        if unit in units and wanted in units:
            parts = units[unit] * count / (units[wanted] * many)
            if parts.denominator == 1:
                return int(parts)
            raise KernelError(f"a {source} does not convert to {target}", remedy="use an array of the finer unit")
    raise UnsupportedError(f"a {source} as {target}", remedy="convert it before the launch, with `astype`")
