"""Constant folding: the value of an operation with known operands, bit-identical to the result of the machine.

Integers wrap at the operation's width; float32 is computed in float32.  Library functions (`sin`, `pow`, ...) are not
folded, so that a constant and a variable give the same bits.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Number = int | float | bool


_SCALAR: dict[int, type[np.floating[Any]]] = {16: np.float16, 32: np.float32, 64: np.float64}


def wrap(value: int, bits: int, signed: bool) -> int:
    """Return `value` modulo 2**bits, as a signed or unsigned number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def round_to(value: float, bits: int) -> float:
    """Return `value` rounded to nearest even as a float of 16, 32 or 64 bits."""
    with np.errstate(all="ignore"):
        return float(_SCALAR[bits](value))


def bfloat16_bits(value: float) -> int:
    """Return the bits of `value` as a bfloat16, rounded once, to nearest even; 0x7FFF for a nan."""
    if math.isnan(value):
        return 0x7FFF
    with np.errstate(all="ignore"):
        single = np.float32(value)
    bits = int(single.view(np.uint32))
    # round to odd: the second rounding then knows the side of the exact value
    if float(single) != value and math.isfinite(value):
        bits = (bits - (abs(float(single)) > abs(value))) | 1
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def bfloat16_value(bits: int) -> float:
    """Return the number that 16 bits encode as a bfloat16."""
    return float(np.uint32(bits << 16).view(np.float32))


def _divide(a: int, b: int, bits: int) -> int:
    """Divide, rounded toward zero; all ones for a zero divisor."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor(a: int, b: int, bits: int) -> tuple[int, int]:
    """Return Python's quotient and remainder; (0, 0) for a zero divisor and for the most negative number by -1."""
    return (0, 0) if b == 0 or (b == -1 and a == -1 << (bits - 1)) else divmod(a, b)


_INTEGER: dict[str, Callable[..., int]] = {
    "mov": lambda a, bits: a,
    "neg": lambda a, bits: -a,
    "not": lambda a, bits: ~a,
    "abs": lambda a, bits: abs(a),
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul": lambda a, b, bits: a * b,
    "and": lambda a, b, bits: a & b,
    "or": lambda a, b, bits: a | b,
    "xor": lambda a, b, bits: a ^ b,
    "min": lambda a, b, bits: min(a, b),
    "max": lambda a, b, bits: max(a, b),
    "shl": lambda a, b, bits: a << b if 0 <= b < bits else 0,
    "shr": lambda a, b, bits: a >> (b if 0 <= b < bits else bits),
    "div": _divide,
    "rem": lambda a, b, bits: -1 if b == 0 else a - b * _divide(a, b, bits),
    "floordiv": lambda a, b, bits: _floor(a, b, bits)[0],
    "floormod": lambda a, b, bits: _floor(a, b, bits)[1],
    "mulhi": lambda a, b, bits: a * b >> bits,
    "popc": lambda a, bits: (a & (1 << bits) - 1).bit_count(),
    "clz": lambda a, bits: bits - (a & (1 << bits) - 1).bit_length(),
    "ffs": lambda a, bits: (a & -a).bit_length(),
    "brev": lambda a, bits: int(f"{a & (1 << bits) - 1:0{bits}b}"[::-1], 2),
}
_FLOAT: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a,
    "abs": abs,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rcp": lambda a: type(a)(1) / a,
    "sqrt": np.sqrt,
    "copysign": np.copysign,
    "min": lambda a, b: a if b != b or a < b or (a == b and np.signbit(a)) else b,
    "max": lambda a, b: a if b != b or a > b or (a == b and not np.signbit(a)) else b,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_PREDICATE: dict[str, Callable[..., bool]] = {
    "mov": lambda a: a,
    "not": lambda a: not a,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "andn": lambda a, b: a and not b,
}
_ROUND: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def evaluate(operation: str, operands: tuple[Any, ...]) -> Number | None:
    """Return the result of an `operation` of the bytecode on known operands; None if it is not folded."""
    base, *_, type_ = operation.split(".")
    if base == "selp":
        return operands[0] if operands[2] else operands[1]  # type: ignore[no-any-return]
    if base == "cvt":
        return _convert(operation, operands[0])
    if base == "setp":
        return _compare(operation, *operands)
    if type_ == "pred":
        return bool(_PREDICATE[base](*operands))
    if type_[0] == "f":
        function = _FLOAT.get(base)
        return None if function is None else _fold_in_float(function, type_, operands)
    if base not in _INTEGER:
        return None
    bits, signed = int(type_[1:]), type_[0] == "s"
    if base in ("shl", "shr"):  # the amount is always unsigned
        operands = (wrap(operands[0], bits, signed), wrap(operands[1], bits, False))
    else:
        operands = tuple(wrap(a, bits, signed) for a in operands)
    return wrap(_INTEGER[base](*operands, bits=bits), 64, False)


def _fold_in_float(function: Callable[..., Any], type_: str, operands: tuple[Any, ...]) -> float:
    scalar = np.float32 if type_ == "f32" else np.float64
    with np.errstate(all="ignore"):
        return float(function(*(scalar(a) for a in operands)))


def _compare(operation: str, a: Any, b: Any) -> bool:
    _, relation, type_ = operation.split(".")
    if type_[0] == "f":
        unordered = a != a or b != b
        if relation.endswith("u"):
            return unordered or _COMPARE[relation[:-1]](a, b)
        return not unordered and _COMPARE[relation](a, b)
    bits, signed = int(type_[1:]), type_[0] == "s"
    return _COMPARE[relation](wrap(a, bits, signed), wrap(b, bits, signed))


def _convert(operation: str, value: Any) -> Number:
    """Fold `cvt.b64.s32`, `cvt.rn.f32.s64`, `cvt.rzi.s32.f32`, `cvt.rmi.f32.f32`, `cvt.f16.f32`."""
    _, *rounding, to, source = operation.split(".")
    bits = int(to[1:])
    if source[0] != "f":
        value = wrap(value, int(source[1:]), source[0] == "s")
        if to[0] == "b":
            return wrap(value, bits, False)
        exact = np.int64(value) if source[0] == "s" else np.uint64(value)
        return float(exact.astype(np.float32 if bits == 32 else np.float64))
    if to[0] != "f":
        return _saturate(rounding[0], value, bits, to[0] == "s", source)
    if rounding:
        return value if not math.isfinite(value) else math.copysign(float(_ROUND[rounding[0]](value)), value)
    return round_to(value, bits)


def _saturate(rounding: str, value: float, bits: int, signed: bool, source: str) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if value != value:
        return low or 1 << (bits - 1) if source == "f64" or bits == 64 else 0
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(_ROUND[rounding](value), low), high)


@functools.cache
def foldable(operation: str) -> bool:
    """Return whether `evaluate` may fold this operation."""
    base, *rounding, type_ = operation.split(".")
    if base in ("selp", "setp", "cvt"):
        return True
    return not rounding and base in (_PREDICATE if type_ == "pred" else _FLOAT if type_[0] == "f" else _INTEGER)
