"""Units of dates and durations, `datetime64[D]` and `timedelta64[h]`: one type, based on int64, for each name."""

from __future__ import annotations

import numpy as np

from wsemu.language.numbers import NumberType
from wsemu.model.errors import KernelError, UnsupportedError

NAT = -(1 << 63)
_SECONDS = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1}
_ATTOSECONDS = {
    **{unit: seconds * 10**18 for unit, seconds in _SECONDS.items()},
    **{unit: 1000**n for n, unit in enumerate(("as", "fs", "ps", "ns", "us", "ms"))},
}
_MONTHS = {"Y": 12, "M": 1}
TYPES: dict[str, NumberType] = {}
"""types of dates and durations by name"""


def time_type(name: str) -> NumberType:
    """Return the type with a name such as `datetime64[D]`; equal names give the same object."""
    return TYPES.setdefault(name, NumberType(name, "i", 64))


def is_time(type_: NumberType) -> bool:
    """Return whether a type is a date or a duration."""
    return type_.name in TYPES


def is_date(type_: NumberType) -> bool:
    """Return whether a time is a date."""
    return type_.name.startswith("datetime64")


def ratio(source: NumberType, target: NumberType) -> int:
    """Return the number of target units in a source unit; an error names units that do not convert."""
    (unit, count), (wanted, many) = (np.datetime_data(np.dtype(t.name)) for t in (source, target))
    if unit == "generic" or (unit, count) == (wanted, many):
        return 1
    for units in (_ATTOSECONDS, _MONTHS):
        if unit in units and wanted in units:
            parts, rest = divmod(units[unit] * count, units[wanted] * many)
            if not rest:
                return parts
            raise KernelError(f"a {source} does not convert to {target}", remedy="use an array of the finer unit")
    raise UnsupportedError(f"a {source} as {target}", remedy="convert it before the launch, with `astype`")
