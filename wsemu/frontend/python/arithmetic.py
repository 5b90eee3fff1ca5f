"""Python's operators on numbers, with Numba-CUDA's types and bit-identical results.

Integers are computed in 64 bits; `//` and `%` of integers round down, and return 0 for a zero divisor.  Float `%` is
computed by a division, as the GPU's compiler does it, and is not the exact remainder.  Products and sums are separate
operations, which the assembler fuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.python import complex_arithmetic, power, times
from wsemu.frontend.python.scalars import (
    FALSE,
    TRUE,
    both,
    cast,
    choose,
    choose_number,
    compute,
    constant,
    describe,
    differ,
    either,
    literal,
    negate,
    number,
    refusal,
    register,
    scalar_cast,
    truth,
    widen_half,
)
from wsemu.frontend.python.values import ArrayValue, ComplexValue, Scalar, Static, TupleValue, Value
from wsemu.language.numbers import HALVES, NumberType, boolean, float32, int64
from wsemu.language.promotion import number_type, resolve, unify
from wsemu.language.times import is_time
from wsemu.model.errors import KernelError

if TYPE_CHECKING:
    from wsemu.frontend.python.builder import Builder

__all__ = [
    "binary", "cast", "choose", "choose_number", "compare", "constant", "floor_quotient", "floor_remainder",
    "literal", "number_type", "register",
    "truth", "unary", "unify",
]  # fmt: skip

_NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "div", "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr"}
_RELATIONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}


def binary(b: Builder, op: str, x: Value, y: Value) -> Value:
    """Return `x op y` for one of + - * / // % ** << >> & | ^; tuples can be added."""
    if op == "+" and isinstance(x, TupleValue) and isinstance(y, TupleValue):
        return TupleValue(x.items + y.items)
    left, right = _operands(op, x, y)
    if is_time(left.type) or is_time(right.type):
        timed = times.binary(b, op, left, right) if isinstance(left, Scalar) and isinstance(right, Scalar) else None
        if timed is not None:
            return timed
    signature = resolve(op, left.type, right.type)
    if signature is None:
        raise KernelError(
            f"`{op}` is not defined for {left.type} and {right.type}", remedy=_remedy(op, left.type, right.type)
        )
    if op == "**":
        return power.raise_to(b, left, right, signature)
    result, (first, second) = signature.result, signature.operands
    if result.kind == "c":
        return complex_arithmetic.binary(b, op, cast(b, left, result), cast(b, right, result))
    assert isinstance(left, Scalar)
    assert isinstance(right, Scalar)
    if result.kind == "f" and first.kind in "iu":  # the quotient of two integers
        first = second = result
    p, q = scalar_cast(b, scalar_cast(b, left, first), result), scalar_cast(b, scalar_cast(b, right, second), result)
    return _scalar_binary(b, op, p, q)


def _operands(op: str, x: Value, y: Value) -> tuple[Scalar | ComplexValue, Scalar | ComplexValue]:
    for value in (x, y):
        if isinstance(value, ArrayValue):
            raise KernelError(
                f"`{op}` works on elements, not on the whole array `{value.name}`", remedy="index the array"
            )
    if not (isinstance(x, (Scalar, ComplexValue)) and isinstance(y, (Scalar, ComplexValue))):
        raise refusal(f"`{op}` is not defined for {describe(x)} and {describe(y)}", "use numbers", x, y)
    return x, y


def _remedy(op: str, x: NumberType, y: NumberType) -> str:
    if "c" in (x.kind, y.kind):
        return "use the .real and .imag parts"
    return "convert the float with `int(...)`" if "f" in (x.kind, y.kind) else "convert one operand"


def _scalar_binary(b: Builder, op: str, x: Scalar, y: Scalar) -> Scalar:
    """Return `x op y`; both operands have the type of the result."""
    type_ = x.type
    if op in ("//", "%"):
        return (floor_quotient if op == "//" else floor_remainder)(b, x, y)
    if type_ in HALVES:
        return scalar_cast(b, _scalar_binary(b, op, widen_half(b, x), widen_half(b, y)), type_)
    if type_.kind == "b":
        return compute(b, f"{_NAMES[op]}.pred", boolean, x, y)
    if type_.kind == "f":
        return compute(b, f"{_NAMES[op]}.{type_.register}", type_, x, y)
    same = _drop_neutral_operand(op, x, y)
    if same is not None:
        return same
    suffix = type_.suffix if op == ">>" else f"b{type_.bits}"
    return compute(b, f"{_NAMES[op]}.{suffix}", type_, x, y)


def _drop_neutral_operand(op: str, x: Scalar, y: Scalar) -> Scalar | None:
    """Return x for x + 0, x * 1 and similar, which need no instruction; None otherwise."""
    if y.literal == 0 and op in ("+", "-", "|", "^", "<<", ">>"):
        return Scalar(x.type, x.register, x.literal)
    if y.literal == 1 and op == "*":
        return Scalar(x.type, x.register, x.literal)
    if (x.literal == 0 and op in ("+", "|", "^")) or (x.literal == 1 and op == "*"):
        return Scalar(y.type, y.register, y.literal)
    return None


# -- floor division --------------------------------------------------------------------------------------------------


def floor_quotient(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """Return `x // y`; both operands have the type of the result."""
    if x.type.kind == "f":
        return _float_quotient(b, x, y)
    if _is_power_of_two(y):
        return _scalar_binary(b, ">>", x, constant(x.type, _value(y).bit_length() - 1))
    return compute(b, f"floordiv.{x.type.suffix}", x.type, x, y)


def floor_remainder(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """Return `x % y`; both operands have the type of the result."""
    if x.type.kind == "f":
        return _float_remainder(b, x, y)
    if _is_power_of_two(y):
        return compute(b, f"and.b{x.type.bits}", x.type, x, constant(x.type, _value(y) - 1))
    return compute(b, f"floormod.{x.type.suffix}", x.type, x, y)


def _value(x: Scalar) -> int:
    return int(x.literal or 0)


def _is_power_of_two(x: Scalar) -> bool:
    return _value(x) > 0 and _value(x).bit_count() == 1


class _Float:
    """Operations on floats of one type: `f("mul", x, y)`, `f.is_("lt", x, y)`."""

    def __init__(self, b: Builder, type_: NumberType) -> None:
        self.b, self.type = b, type_

    def __call__(self, name: str, *operands: Scalar) -> Scalar:
        return compute(self.b, f"{name}.{self.type.register}", self.type, *operands)

    def is_(self, relation: str, x: Scalar, y: Scalar) -> Scalar:
        return compute(self.b, f"setp.{relation}.{self.type.register}", boolean, x, y)

    def floor(self, x: Scalar) -> Scalar:
        return compute(self.b, f"cvt.rmi.{self.type.register}.{self.type.register}", self.type, x)

    def remainder(self, x: Scalar, y: Scalar) -> Scalar:
        """Return |x| - floor(|x| / |y|) * |y| with the sign of x, as the compiler lowers LLVM's `frem`."""
        size, divisor = self("abs", x), self("abs", y)
        rest = self("sub", size, self("mul", self.floor(self("div", size, divisor)), divisor))
        return choose(self.b, self.is_("lt", x, constant(self.type, 0.0)), self("neg", rest), rest)


def _float_remainder(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """Return the remainder with the sign of the divisor."""
    f, zero = _Float(b, x.type), constant(x.type, 0.0)
    rest = f.remainder(x, y)
    negative = f.is_("lt", y, zero)
    adjust = differ(b, negative, f.is_("lt", rest, zero))
    result = choose(b, adjust, f("add", rest, y), rest)
    signed_zero = choose(b, negative, constant(x.type, -0.0), zero)
    return choose(b, f.is_("neu", rest, zero), result, signed_zero)


def _float_quotient(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """Return CPython's float floor division, as Numba compiles it; `x / y` for a zero divisor."""
    f, zero = _Float(b, x.type), constant(x.type, 0.0)
    rest = f.remainder(x, y)
    ratio = f("div", f("sub", x, rest), y)
    adjust = differ(b, f.is_("lt", y, zero), f.is_("lt", rest, zero))
    below = f("add", ratio, constant(x.type, -1.0))
    ratio = choose(b, both(b, f.is_("neu", rest, zero), adjust), below, ratio)
    floor = f.floor(ratio)
    up = f.is_("gt", f("sub", ratio, floor), constant(x.type, 0.5))
    floor = choose(b, up, f("add", floor, constant(x.type, 1.0)), floor)
    signed_zero = f("div", f("mul", f("mul", ratio, ratio), x), y)
    quotient = choose(b, f.is_("equ", ratio, zero), signed_zero, floor)
    return choose(b, f.is_("eq", y, zero), f("div", x, y), quotient)


# -- one operand -----------------------------------------------------------------------------------------------------


def unary(b: Builder, op: str, x: Value) -> Value:
    """Return `-x`, `+x`, `~x` or `not x`."""
    if op == "not":
        return negate(b, truth(b, x))
    operand = number(x, f"`{op}`")
    if is_time(operand.type) and isinstance(operand, Scalar):
        timed = times.unary(b, op, operand)
        if timed is not None:
            return timed
    signature = resolve(op, operand.type)
    if signature is None:
        raise KernelError(f"`{op}` is not defined for {operand.type}", remedy="convert it with `int(...)`")
    if isinstance(operand, ComplexValue):
        return operand if op == "+" else complex_arithmetic.negative(b, operand)
    if op == "~" and operand.type.kind == "b":
        return negate(b, operand)
    if operand.type.kind == "b":
        operand = scalar_cast(b, operand, int64)
    if op == "+":
        return scalar_cast(b, operand, signature.result)
    value = _negative(b, operand) if op == "-" else compute(b, f"not.b{operand.type.bits}", operand.type, operand)
    value = scalar_cast(b, value, signature.result)  # after the operation: -uint32 wraps at 32 bits
    if isinstance(x, Scalar) and x.is_python_literal:
        return Scalar(value.type, None, value.literal, True)
    return value


def _negative(b: Builder, x: Scalar) -> Scalar:
    if x.type in HALVES:
        return scalar_cast(b, compute(b, "neg.f32", float32, widen_half(b, x)), x.type)
    return compute(b, f"neg.{x.type.register}", x.type, x)


# -- comparisons -----------------------------------------------------------------------------------------------------


def compare(b: Builder, op: str, x: Value, y: Value) -> Scalar:
    """Return `x op y` for one of < <= == != > >=, on numbers, tuples, and host objects such as strings, None and
    dtypes."""
    if isinstance(x, TupleValue) and isinstance(y, TupleValue):
        return _compare_tuples(b, op, x.items, y.items)
    if isinstance(x, Static) or isinstance(y, Static):
        return _compare_static(op, x, y)
    if op in ("==", "!=") and isinstance(x, TupleValue) != isinstance(y, TupleValue):
        raise KernelError(f"`{op}` compares {describe(x)} with {describe(y)}", remedy="compare the items one by one")
    left, right = _operands(op, x, y)
    if (is_time(left.type) or is_time(right.type)) and isinstance(left, Scalar) and isinstance(right, Scalar):
        return times.compare(b, op, left, right)
    signature = resolve(op, left.type, right.type)
    if signature is None:
        raise KernelError(
            f"`{op}` is not defined for {left.type} and {right.type}", remedy="compare the .real or .imag parts"
        )
    common = signature.operands[0]
    if common.kind == "c":
        return complex_arithmetic.equal(b, op, cast(b, left, common), cast(b, right, common))
    assert isinstance(left, Scalar)
    assert isinstance(right, Scalar)
    common = _comparison_type(left, right, common)
    return _compare_scalars(b, _RELATIONS[op], scalar_cast(b, left, common), scalar_cast(b, right, common))


def _comparison_type(x: Scalar, y: Scalar, common: NumberType) -> NumberType:
    """Return int32 instead of the 64-bit type if an int32 is compared with a literal that fits int32."""
    if common.kind in "iu":
        for known, other in ((x, y), (y, x)):
            wide = other.literal is None and other.type.kind in "iu" and other.type.bits >= 32
            if known.literal is not None and wide and constant(other.type, known.literal).literal == known.literal:
                return other.type
    return common


def _compare_scalars(b: Builder, relation: str, x: Scalar, y: Scalar) -> Scalar:
    type_ = x.type
    if type_.kind == "b":
        return _compare_bools(b, relation, x, y)
    if type_.kind == "f":
        p, q = widen_half(b, x), widen_half(b, y)
        return compute(b, f"setp.{'neu' if relation == 'ne' else relation}.{p.type.register}", boolean, p, q)
    suffix = f"b{type_.bits}" if relation in ("eq", "ne") else type_.suffix
    return compute(b, f"setp.{relation}.{suffix}", boolean, x, y)


def _compare_bools(b: Builder, relation: str, x: Scalar, y: Scalar) -> Scalar:
    """Compare bools: False is less than True."""
    if relation in ("eq", "ne"):
        different = differ(b, x, y)
        return different if relation == "ne" else negate(b, different)
    low, high = (x, y) if relation in ("lt", "ge") else (y, x)
    below = compute(b, "andn.pred", boolean, high, low)
    return below if relation in ("lt", "gt") else negate(b, below)


def _compare_tuples(b: Builder, op: str, x: tuple[Value, ...], y: tuple[Value, ...]) -> Scalar:
    """Compare tuples item by item: the first items that differ decide, then the lengths."""
    if op == "!=":
        return negate(b, _compare_tuples(b, "==", x, y))
    if op == "==":
        if len(x) != len(y):
            return FALSE
        result = TRUE
        for p, q in zip(x, y, strict=True):
            result = both(b, result, compare(b, "==", p, q))
        return result
    lengths = {"<": len(x) < len(y), "<=": len(x) <= len(y), ">": len(x) > len(y), ">=": len(x) >= len(y)}
    result = TRUE if lengths[op] else FALSE
    for p, q in reversed(list(zip(x, y, strict=False))):
        equal = compare(b, "==", p, q)
        result = either(b, both(b, equal, result), both(b, negate(b, equal), compare(b, op[0], p, q)))
    return result


def _compare_static(op: str, x: Value, y: Value) -> Scalar:
    """Compare host objects as Python does; a host object equals no run-time value."""
    if op not in ("==", "!="):
        raise refusal(f"`{op}` is not defined for {describe(x)} and {describe(y)}", "compare numbers", x, y)
    equal = False
    if isinstance(x, Static) and isinstance(y, Static):  # NumPy treats None as a dtype
        nothing = x.object is None or y.object is None
        equal = x.object is y.object if nothing else bool(x.object == y.object)
    return TRUE if equal == (op == "==") else FALSE
