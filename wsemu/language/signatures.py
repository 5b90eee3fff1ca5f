"""Signatures given to `jit`: `"void(float32[:], int32)"`, `numba.void(numba.float32[:])`, `(float32[:], int32)`.

A launch, and a call of a device function, converts its numbers to the declared types, as Numba-CUDA does.  It does not
convert arrays: the elements of an array with another dtype would be misinterpreted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.language.markers import ScalarType
from wsemu.language.promotion import CONVERSIONS, Conversion, number_type
from wsemu.model.data import NamedTuple
from wsemu.model.errors import MistypedError, UsageError
from wsemu.model.numba_library import load_numba

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.language.numbers import NumberType


class Declared(NamedTuple):
    """One signature; the types are Numba's."""

    arguments: tuple[Any, ...]
    result: Any
    """type of the result; None if the signature omits it"""

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.arguments))})"


def parse(given: Any, name: str) -> tuple[Declared, ...]:
    """Return the signatures that `jit` was given for the function `name`."""
    if given is None:
        return ()
    sigutils = load_numba("numba.core.sigutils")
    several = given if isinstance(given, list) else [given]
    try:
        return tuple(Declared(*sigutils.normalize_signature(_to_numba_type(item))) for item in several)
    except Exception as error:  # evaluating the text may raise anything
        raise UsageError(
            f'`jit` of `{name}` has the signature {given!r}, which is none ({error}): write "void(float32[:], int32)"'
        ) from error


def _to_numba_type(item: Any) -> Any:
    """Return an item with wsemu's own types replaced by Numba's."""
    types, signature = load_numba("numba.types"), load_numba("numba.core.typing").signature
    if isinstance(item, tuple):
        return tuple(getattr(types, t.number_name) if isinstance(t, ScalarType) else t for t in item)
    if hasattr(item, "return_type"):
        result, *arguments = _to_numba_type((item.return_type, *item.args))
        return signature(result, *arguments)
    return item


def number(type_: Any) -> NumberType | None:
    """Return the number type of a declared type, or None for an array, a tuple and other types."""
    return None if hasattr(type_, "ndim") or items(type_) is not None else number_type(type_)


def items(type_: Any) -> tuple[Any, ...] | None:
    """Return the types of the items of a declared tuple; None for any other type."""
    return tuple(type_.types) if hasattr(type_, "count") and hasattr(type_, "types") else None


def best(declared: Sequence[Declared], numbers: Sequence[NumberType | None]) -> Declared | None:
    """Return the signature with the fewest bad conversions of the arguments that are numbers; among equals, the
    first."""

    def rating(one: Declared) -> tuple[int, int, int]:
        pairs = zip(numbers, map(number, one.arguments), strict=True)
        ranks = [CONVERSIONS.get((a, b), Conversion.UNSAFE) for a, b in pairs if a and b]
        return ranks.count(Conversion.UNSAFE), ranks.count(Conversion.SAFE), ranks.count(Conversion.PROMOTE)

    return min((one for one in declared if len(one.arguments) == len(numbers)), key=rating, default=None)


def fit(declared: Sequence[Declared], arguments: Sequence[Any], name: str, names: Sequence[str]) -> tuple[Any, ...]:
    """Return the arguments of a launch of the kernel `name`, with numbers converted; raise MistypedError if no
    signature fits."""
    fitting = [one for one in declared if not _misfit(one, arguments, names)]
    chosen = best(fitting, [_number_type_of(value) for value in arguments])
    if chosen is None:
        why = _misfit(declared[0], arguments, names)
        others = f" (nor one of {len(declared) - 1} more)" if len(declared) > 1 else ""
        raise MistypedError(f"`{name}` is declared as {declared[0]}{others}: {why}")
    return tuple(_convert_value(value, type_) for value, type_ in zip(arguments, chosen.arguments, strict=True))


def _misfit(one: Declared, arguments: Sequence[Any], names: Sequence[str]) -> str:
    """Return why the arguments do not fit a signature; empty if they do."""
    if len(one.arguments) != len(arguments):
        return f"the launch has {len(arguments)} arguments, the signature {len(one.arguments)}"
    whys = (_misfit_argument(*each) for each in zip(one.arguments, arguments, names, strict=True))
    return next(filter(None, whys), "")


def _misfit_argument(type_: Any, value: Any, name: str) -> str:
    """Return why an argument does not fit its declared type; empty if it does."""
    parts = items(type_)
    if parts is not None:
        if not isinstance(value, tuple) or len(value) != len(parts):
            return f"`{name}` is {_describe_value(value)}, not a tuple of {len(parts)}"
        whys = (_misfit_argument(t, v, f"{name}[{n}]") for n, (t, v) in enumerate(zip(parts, value, strict=True)))
        return next(filter(None, whys), "")
    if not hasattr(type_, "ndim"):
        why = _misfit_number(type_, value)
        return f"`{name}` is {_describe_value(value)}{why}" if why else ""
    if not hasattr(value, "__array_interface__") or isinstance(value, np.generic):
        return f"`{name}` is {_describe_value(value)}, not an array"
    array = np.asarray(value)
    wanted = number_type(type_.dtype)
    if array.ndim != type_.ndim or (wanted is not None and not _holds(array.dtype, wanted)):
        return f"`{name}` is {_describe_value(array)}: make it one of {type_.dtype} with {type_.ndim} dimensions"
    if not getattr(array.flags, {"C": "c_contiguous", "F": "f_contiguous"}.get(type_.layout, ""), True):
        return f"`{name}` is not contiguous in the declared order {type_.layout}: copy it, or declare it with `[:]`"
    return ""


def _holds(dtype: np.dtype[Any], wanted: NumberType) -> bool:
    """Return whether elements of `dtype` can be read as the declared elements: Numba-CUDA does not check this, and
    integers of one size differ only in signedness."""
    given = number_type(dtype)
    if given is None or given is wanted:
        return given is wanted
    return given.bits == wanted.bits and {given.kind, wanted.kind} == {"i", "u"}


def _misfit_number(type_: Any, value: Any) -> str:
    """Return why a value does not convert to a number of a declared type; empty if it does, or if the type is not a
    number."""
    wanted, given = number(type_), _number_type_of(value)
    if wanted is None:
        return ""
    if given is None:
        return ", not a number"
    if given.kind == "c" and wanted.kind != "c":
        return f", which does not convert to {wanted}: pass its `.real` or `.imag`"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return ", which does not fit into 64 bits"
    return ""


def _number_type_of(value: Any) -> NumberType | None:
    """Return the number type of an argument."""
    if isinstance(value, np.generic):
        return number_type(value.dtype)
    return number_type(type(value)) if isinstance(value, (bool, int, float, complex)) else None


def _describe_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with {value.ndim} dimensions"
    return f"{value!r} of type {type(value).__name__}"


def _convert_value(value: Any, type_: Any) -> Any:
    parts = items(type_)
    if parts is not None:
        made = map(_convert_value, value, parts)
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    wanted = number(type_)
    if wanted is None:
        element = number_type(type_.dtype) if hasattr(type_, "ndim") else None
        if element is not None and number_type(value.dtype) is not element:
            return value.view(element.name)
        return value
    return np.asarray(value).astype(wanted.name)[()]
