"""Numba-CUDA's typing of numbers: the choice of an operation's signature for the types of its operands.

Numba has a list of signatures for every operator and function, and a rank for the conversion between every pair of
types.  It selects the signature with the fewest bad conversions; among equals, the first.  This module defines the
conversions and the lists; all results (`int32 + int32` is int64, `float32 * int64` is float64, ...) follow from them.
"""

from __future__ import annotations

import functools
from enum import IntEnum
from typing import Any

import numpy as np

from wsemu.language.numbers import (
    EIGHTS,
    HALVES,
    NUMBERS,
    NumberType,
    bfloat16,
    boolean,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wsemu.language.times import is_time, time_type
from wsemu.model.data import NamedTuple

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
REAL = (float32, float64)
COMPLEX = (complex64, complex128)
ARITHMETIC = frozenset(("+", "-", "*", "/"))
COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))


class Conversion(IntEnum):
    """The rank of a type conversion; smaller is better."""

    EXACT = 0
    PROMOTE = 1
    SAFE = 2
    UNSAFE = 3


class Signature(NamedTuple):
    """Result and operand types of one variant of a computation."""

    result: NumberType
    operands: tuple[NumberType, ...]


def _conversions() -> dict[tuple[NumberType, NumberType], Conversion]:
    """Return the best conversion between every two types that have one: a chain of conversions has the rank of its
    worst step."""
    promote, safe, unsafe = Conversion.PROMOTE, Conversion.SAFE, Conversion.UNSAFE
    forward = [
        (boolean, int8, safe), (boolean, uint8, safe),
        (int8, int16, promote), (int16, int32, promote), (int32, int64, promote),
        (uint8, uint16, promote), (uint16, uint32, promote), (uint32, uint64, promote),
        (uint8, int16, safe), (uint16, int32, safe), (uint32, int64, safe),
        (int8, float16, safe), (int16, float32, safe), (int32, float64, safe),
        (int16, float16, unsafe), (int32, float32, unsafe),
        (int64, float64, safe), (uint64, float64, safe),
        (float16, float32, promote), (float32, float64, promote), (complex64, complex128, promote),
    ]  # fmt: skip
    best = {(a, b): rank for a, b, rank in forward}
    best |= {(b, a): unsafe for a, b, _ in forward}
    best |= {(float32, complex64): safe, (float64, complex128): safe}
    best |= {(t, t): Conversion.EXACT for t in NUMBERS.values()}
    _close(best)
    best |= {(t, bfloat16): unsafe for t in (*SIGNED, *UNSIGNED, float16, *REAL)}
    best |= {(bfloat16, t): unsafe for t in (*SIGNED, *UNSIGNED, float16)}
    best |= {(int8, bfloat16): safe, (uint8, bfloat16): safe}
    best |= {(bfloat16, float32): safe, (bfloat16, float64): safe, (bfloat16, bfloat16): Conversion.EXACT}
    return best


def _close(best: dict[tuple[NumberType, NumberType], Conversion]) -> None:
    """Enter the results of chains of conversions, through each type in turn."""
    into: dict[NumberType, dict[NumberType, Conversion]] = {t: {} for t in NUMBERS.values()}
    for (a, b), rank in best.items():
        into[a][b] = rank
    for via, onward in into.items():
        for first in into.values():
            link = first.get(via)
            if link is None or first is onward:
                continue
            for b, rank in onward.items():
                worst = rank if rank > link else link
                known = first.get(b)
                if known is None or worst < known:
                    first[b] = worst
    best.update({(a, b): rank for a, first in into.items() for b, rank in first.items()})


CONVERSIONS = _conversions()


def select(cases: tuple[Signature, ...], operands: tuple[NumberType, ...], *, unsafe: bool = True) -> Signature | None:
    """Return the signature of `cases` that fits best, or None; `unsafe` allows conversions that lose information."""
    best: tuple[tuple[int, int, int], Signature] | None = None
    for case in cases:
        if len(case.operands) != len(operands):
            continue
        ranks = [CONVERSIONS.get(pair) for pair in zip(operands, case.operands, strict=True)]
        if None in ranks or (not unsafe and Conversion.UNSAFE in ranks):
            continue
        rating = (ranks.count(Conversion.UNSAFE), ranks.count(Conversion.SAFE), ranks.count(Conversion.PROMOTE))
        if best is None or rating < best[0]:
            best = (rating, case)
    return None if best is None else best[1]


def same(types: tuple[NumberType, ...], count: int, result: NumberType | None = None) -> tuple[Signature, ...]:
    """Return, for each type, a signature with `count` operands of the type, and the type (or `result`) as result."""
    return tuple(Signature(result or t, (t,) * count) for t in types)


def _widest(*types: NumberType) -> NumberType:
    """Return the 64-bit integer type in which Numba computes: unsigned only if all operands are."""
    return int64 if any(t.kind == "i" for t in types) else uint64


_MACHINE = (int64, uint64)
_INTEGERS = tuple(Signature(_widest(a, b), (a, b)) for a in _MACHINE for b in _MACHINE)
_QUOTIENTS = tuple(Signature(float64, (a, b)) for a in _MACHINE for b in _MACHINE)
_POWERS = tuple(Signature(f, (f, i)) for f in REAL for i in (int32, int64, uint64))
_SHIFTS = tuple(Signature(_widest(a), (a, b)) for a in (*SIGNED, *UNSIGNED) for b in (uint64, int64))
_LOGIC = (*same((boolean,), 2), *_INTEGERS)
_ORDERED = same((boolean, *SIGNED, *UNSIGNED, *REAL, bfloat16), 2, boolean)
_SIGNS = (
    *(Signature(_widest(t), (t,)) for t in (*UNSIGNED, *SIGNED)),
    *same((*HALVES, *REAL, *COMPLEX), 1),
    Signature(int64, (boolean,)),
)

BINARY: dict[str, tuple[Signature, ...]] = {
    **dict.fromkeys("+-*", (*_INTEGERS, *same((*REAL, *COMPLEX, bfloat16), 2))),
    "/": (*_QUOTIENTS, *same((*REAL, *COMPLEX, bfloat16), 2)),
    **dict.fromkeys(("//", "%"), (*_INTEGERS, *same(REAL, 2))),
    "**": (*_INTEGERS, *_POWERS, *same((*REAL, *COMPLEX), 2)),
    **dict.fromkeys(("<<", ">>"), _SHIFTS),
    **dict.fromkeys("&|^", _LOGIC),
    **dict.fromkeys(("<", "<=", ">", ">="), _ORDERED),
    **dict.fromkeys(("==", "!="), (*_ORDERED, *same(COMPLEX, 2, boolean))),
    "divmod": same((*_MACHINE, *REAL), 2),
}
UNARY: dict[str, tuple[Signature, ...]] = {
    "-": _SIGNS,
    "+": _SIGNS,
    "~": (*same((boolean,), 1), *(Signature(_widest(t), (t,)) for t in (*UNSIGNED, *SIGNED))),
    "abs": (
        *same((*SIGNED, *UNSIGNED, *HALVES, *REAL), 1),
        Signature(float32, (complex64,)),
        Signature(float64, (complex128,)),
    ),
}
_LOSSLESS = frozenset(("<<", ">>", "&", "|", "^", "~"))


@functools.cache
def resolve(op: str, *operands: NumberType) -> Signature | None:
    """Return the signature with which Numba-CUDA computes `op` (an operator, `divmod` or `abs`) on operands of these
    types; None if it does not."""
    if float16 in operands and len(operands) == 2 and op in ARITHMETIC | COMPARISONS:
        other = operands[1] if operands[0] is float16 else operands[0]
        if CONVERSIONS.get((other, float16), Conversion.UNSAFE) < Conversion.UNSAFE:
            return Signature(float16 if op in ARITHMETIC else boolean, (float16, float16))
    cases = (UNARY if len(operands) == 1 else BINARY).get(op, ())
    return select(cases, operands, unsafe=op not in _LOSSLESS)


@functools.cache
def unify(a: NumberType, b: NumberType) -> NumberType | None:
    """Return the type of a variable that is assigned both types on different paths: NumPy's promotion, as in Numba."""
    if bfloat16 in (a, b):
        other = b if a is bfloat16 else a
        return other if other in (bfloat16, *REAL) else None
    if a in EIGHTS or b in EIGHTS:
        return a if a is b else None
    if is_time(a) or is_time(b):
        return number_type(np.promote_types(a.name, b.name)) if a.name[:8] == b.name[:8] else None
    return NUMBERS[np.promote_types(a.name, b.name).name]


_PYTHON: dict[object, NumberType] = {int: int64, float: float64, bool: boolean, complex: complex128}


def number_type(obj: Any) -> NumberType | None:
    """Return the number type that a host object names, or None.

    Examples are `np.float32`, `np.dtype("i4")`, `"float32"`, `int`, `float`, `bool`, `complex`, `numba.float32`,
    `cuda.types.float32`.
    """
    if isinstance(obj, NumberType):
        return obj
    if isinstance(obj, type):
        return _PYTHON.get(obj) or (
            _number_type_of(np.dtype(obj)) if issubclass(obj, np.generic) and obj in _SCALARS else None
        )
    if isinstance(obj, np.dtype):
        return _number_type_of(obj)
    if isinstance(obj, str):
        if obj.startswith(("datetime64[", "timedelta64[")):
            return _number_type_of(np.dtype(obj))
        if obj.startswith("fp8_"):
            return next((type_ for type_ in EIGHTS if type_.name == obj), None)
        return bfloat16 if obj == "bfloat16" else NUMBERS.get({"bool_": "bool", "boolean": "bool"}.get(obj, obj))
    if type(obj).__module__.split(".")[0] in ("numba", "numba_cuda", "numba_cuda_mlir"):
        inner = getattr(obj, "instance_type", getattr(obj, "dtype", obj))
        return number_type(str(inner))
    name = getattr(obj, "number_name", None)
    return number_type(name) if isinstance(name, str) else None


_SCALARS = frozenset(np.dtype(c).type for c in "?bhilqBHILQefdFD")


@functools.lru_cache(maxsize=256)
def _number_type_of(dtype: np.dtype[Any]) -> NumberType | None:
    if dtype == RAW or dtype.name == "bfloat16":
        return bfloat16
    if dtype.kind in "mM" and dtype.isnative:
        return time_type(dtype.name)
    return NUMBERS.get(dtype.name) if dtype.kind in "biufc" and dtype.isnative else None


RAW = np.dtype("V2")
"""dtype of an array of bfloat16, which NumPy does not have; the dtype of the package ml_dtypes is accepted as well"""


def element_dtype(type_: NumberType) -> np.dtype[Any]:
    """Return the NumPy dtype of elements of this type."""
    return RAW if type_ is bfloat16 else np.dtype(type_.name)
