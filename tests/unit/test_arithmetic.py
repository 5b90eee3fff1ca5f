"""Operators: what is emitted computes what folding computes, and both are what Numba-CUDA's compiled code computes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsemu.frontend.assemble.graph import Graph, Register
from wsemu.frontend.python import arithmetic as a
from wsemu.frontend.python import folding
from wsemu.frontend.python.folding import evaluate, wrap
from wsemu.frontend.python.scalars import constant
from wsemu.frontend.python.values import ArrayValue, ComplexValue, Scalar, Static, TupleValue
from wsemu.language.numbers import (
    NUMBERS,
    NumberType,
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
from wsemu.language.promotion import resolve
from wsemu.model.errors import KernelError
from wsemu.model.isa import OPERATIONS

MIN64, MAX64 = -(2**63), 2**63 - 1
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^")
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
REAL = [t for t in NUMBERS.values() if t.kind != "c"]
SPECIAL: dict[str, list[Any]] = {
    "b": [False, True],
    "i": [0, 1, -1, 2, 3, 7, -8, 63, 64, 100],
    "u": [0, 1, 2, 3, 7, 63, 64, 100],
    "f": [0.0, -0.0, 1.0, -1.5, 2.0, 0.5, 1e3, 3.0e4, math.inf, -math.inf, math.nan],
}


class Recorder:
    """A builder that keeps what is emitted, and computes it by the rules of folding where operands are known."""

    def __init__(self) -> None:
        self.graph = Graph("test")
        self.values: dict[Register, Any] = {}
        self.operations: list[str] = []
        self.effects: list[tuple[str, tuple[Register, ...], dict[str, Any]]] = []

    def emit(self, operation: str, *operands: Register, immediate: int = 0) -> Register:
        """Check the operand count and types' widths, then compute the result if all operands are known."""
        described = OPERATIONS[operation]
        assert described.kind == "alu"
        for wanted, operand in zip(described.operands, operands, strict=True):
            assert wanted[1:] == self.graph.types[operand][1:], f"{operation} with {self.graph.types[operand]}"
        self.operations.append(operation)
        result = self.graph.new(described.result)
        if folding.foldable(operation) and all(r in self.values for r in operands):
            self.values[result] = folding.evaluate(operation, tuple(self.values[r] for r in operands))
        return result

    def constant(self, type_: str, value: float) -> Register:
        register = self.graph.constant(type_, value)
        self.values[register] = value
        return register

    def special(self, name: str) -> Register:
        return self.graph.special(name)

    def effect(
        self, operation: str, operands: tuple[Register, ...] = (), results: tuple[str, ...] = (), **rest: Any
    ) -> tuple[Register, ...]:
        assert operation in OPERATIONS
        self.effects.append((operation, operands, rest))
        return tuple(self.graph.new(t) for t in results)

    def unknown(self, type_: NumberType, value: Any = None) -> Scalar:
        """A number in a register; `value` is what it would be at run time."""
        register = self.graph.new(type_.register)
        if value is not None:
            self.values[register] = value
        return Scalar(type_, register)


def recorder() -> Any:
    """A stand-in for the builder."""
    return Recorder()


def values(type_: Any) -> list[Any]:
    """Edge cases of a type."""
    extremes = []
    if type_.kind in "iu":
        low = -(1 << (type_.bits - 1)) if type_.kind == "i" else 0
        extremes = [low, low + (1 << type_.bits) - 1]
    return [constant(type_, v).literal for v in SPECIAL[type_.kind]] + extremes


def same(x: Any, y: Any) -> bool:
    """Equal, nan to nan, zeros by sign."""
    if isinstance(x, float) and isinstance(y, float):
        return (x != x and y != y) or (x == y and math.copysign(1, x) == math.copysign(1, y))
    return bool(x == y)


def folded(op: str, x: Scalar, y: Scalar) -> Any:
    result = a.binary(recorder(), op, x, y)
    assert isinstance(result, Scalar)
    return result.literal


def lit(value: Any) -> Scalar:
    made = a.literal(value)
    assert isinstance(made, Scalar)
    return made


@pytest.mark.parametrize("op", OPERATORS)
def test_emitted_code_computes_what_folding_computes(op: str) -> None:
    for left, right in itertools.product(REAL, repeat=2):
        signature = resolve(op, left, right)
        if signature is None:
            continue
        for x, y in itertools.product(values(left)[::3], values(right)[::4]):
            b = recorder()
            emitted = a.binary(b, op, b.unknown(left, x), b.unknown(right, y))
            assert isinstance(emitted, Scalar)
            assert emitted.type is signature.result
            assert emitted.register is not None
            known = folded(op, constant(left, x), constant(right, y))
            if known is None or emitted.register not in b.values:
                continue  # a library function is left to the machine
            computed = constant(emitted.type, b.values[emitted.register]).literal
            assert same(computed, known), (left, x, op, right, y)


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_emitted_and_folded(op: str) -> None:
    for left, right in itertools.product(REAL, repeat=2):
        for x, y in itertools.product(values(left)[::3], values(right)[::4]):
            known = a.compare(recorder(), op, constant(left, x), constant(right, y)).literal
            for p_known, q_known in ((False, False), (True, False), (False, True)):
                b = recorder()
                p = constant(left, x) if p_known else b.unknown(left, x)
                q = constant(right, y) if q_known else b.unknown(right, y)
                emitted = a.compare(b, op, p, q)
                result = emitted.literal if emitted.register is None else b.values[emitted.register]
                assert result == known, (left, x, op, right, y)


def test_casts_emitted_and_folded() -> None:
    for source, to in itertools.product(REAL, repeat=2):
        for x in values(source):
            b = recorder()
            known, emitted = a.cast(b, constant(source, x), to), a.cast(b, b.unknown(source, x), to)
            assert isinstance(known, Scalar)
            assert isinstance(emitted, Scalar)
            assert emitted.register is not None
            assert same(constant(to, b.values[emitted.register]).literal, known.literal), (source, x, to)


@given(st.integers(MIN64, MAX64), st.integers(MIN64, MAX64))
def test_integer_division_is_pythons(x: int, y: int) -> None:
    quotient, remainder = folded("//", lit(x), lit(y)), folded("%", lit(x), lit(y))
    if y == 0 or (x == MIN64 and y == -1):
        assert (quotient, remainder) == (0, 0)
    else:
        assert (quotient, remainder) == divmod(x, y)


@given(st.integers(MIN64, MAX64), st.integers(0, 62))
def test_division_by_a_literal_power_of_two_is_a_shift(x: int, shift: int) -> None:
    b = recorder()
    quotient = a.binary(b, "//", b.unknown(int64, x), lit(1 << shift))
    remainder = a.binary(b, "%", b.unknown(int64, x), lit(1 << shift))
    assert set(b.operations) <= {"shr.s64", "and.b64"}
    for value, expected in zip((quotient, remainder), divmod(x, 1 << shift), strict=True):
        assert isinstance(value, Scalar)
        assert value.register is not None
        assert wrap(b.values[value.register], 64, True) == expected


def test_integers_compute_in_64_bits() -> None:
    big = constant(int32, 2**31 - 1)
    assert folded("*", big, big) == (2**31 - 1) ** 2
    assert folded("+", lit(MAX64), lit(1)) == MIN64
    assert folded("+", constant(uint32, 5), constant(uint32, 6)) == 11
    assert folded("-", constant(uint32, 5), constant(uint32, 6)) == 2**64 - 1
    assert folded("-", constant(uint64, 5), constant(int32, 6)) == -1


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [(uint32, 1, 2**32 - 1), (int32, -(2**31), -(2**31)), (int8, -128, -128), (uint8, 3, 253), (boolean, True, -1)],
)
def test_negation_wraps_before_it_widens(type_: Any, value: int, expected: int) -> None:
    result = a.unary(recorder(), "-", constant(type_, value))
    assert isinstance(result, Scalar)
    assert result.literal == expected


def test_invert() -> None:
    b = recorder()
    assert a.unary(b, "~", constant(uint8, 1)) == Scalar(uint64, None, 254)
    assert a.unary(b, "~", constant(int32, 1)) == Scalar(int64, None, -2)
    assert a.unary(b, "~", constant(boolean, True)).literal is False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "to", "expected"),
    [
        (3.99, int32, 3), (-3.99, int32, -3), (3e9, int32, 2**31 - 1), (-3e9, int32, -(2**31)), (-1.0, uint32, 0),
        (math.nan, int64, -(1 << 63)), (math.inf, int64, MAX64), (300.0, int8, 44), (300.0, uint8, 44),
        (70000.0, uint8, 255),
        (-1.0, uint8, 0), (-70000.0, int8, 0), (1e19, uint64, 10**19), (math.nan, boolean, True),
        (-0.0, boolean, False),
    ],
)  # fmt: skip
def test_float_to_integer(value: float, to: Any, expected: int) -> None:
    result = a.cast(recorder(), constant(float64, value), to)
    assert isinstance(result, Scalar)
    assert result.literal == expected


def test_float16_rounds_to_the_nearest_integer() -> None:
    casts = [a.cast(recorder(), constant(float16, v), int32) for v in (0.5, 1.5, -1.6)]
    assert [x.literal for x in casts if isinstance(x, Scalar)] == [0, 2, -2]


@given(st.integers(0, 2**64 - 1))
def test_integer_to_float_rounds_once(x: int) -> None:
    assert evaluate("cvt.rn.f32.u64", (x,)) == float(np.uint64(x).astype(np.float32))
    signed = wrap(x, 64, True)
    assert evaluate("cvt.rn.f32.s64", (signed,)) == float(np.int64(signed).astype(np.float32))


@given(st.floats(width=32), st.floats(width=32))
def test_float32_is_computed_in_float32(x: float, y: float) -> None:
    p, q = constant(float32, x), constant(float32, y)
    with np.errstate(all="ignore"):
        for op, expected in (
            ("+", np.float32(x) + np.float32(y)), ("-", np.float32(x) - np.float32(y)),
            ("*", np.float32(x) * np.float32(y)), ("/", np.float32(x) / np.float32(y)),
        ):  # fmt: skip
            assert same(folded(op, p, q), float(expected))


@given(st.integers(-1000, 1000), st.integers(-1000, 1000).filter(bool))
def test_float_division_of_small_numbers_is_pythons(x: int, y: int) -> None:
    p, q = lit(float(x)), lit(float(y))
    assert same(folded("//", p, q), float(x) // float(y))
    assert same(folded("%", p, q), float(x) % float(y))


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("//", 1.0, 0.0, math.inf), ("//", -1.0, 0.0, -math.inf), ("//", 0.0, 0.0, math.nan), ("%", 1.0, 0.0, math.nan),
        ("%", 1.0, math.inf, math.nan), ("/", 1.0, 0.0, math.inf), ("/", -1.0, 0.0, -math.inf), ("%", -1.0, 3.0, 2.0),
        ("%", -3.0, 3.0, 0.0), ("%", 3.0, -3.0, -0.0), ("%", 1.0, math.nan, math.nan),
    ],
)  # fmt: skip
def test_float_division_edges(op: str, x: float, y: float, expected: float) -> None:
    assert same(folded(op, lit(x), lit(y)), expected)


def test_shifts_beyond_the_width() -> None:
    assert folded("<<", lit(1), lit(64)) == 0
    assert folded(">>", lit(-5), lit(64)) == -1
    assert folded(">>", constant(uint32, 5), lit(70)) == 0
    assert folded("<<", constant(int32, 1), lit(40)) == 1 << 40


# -- powers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (lit(3), 4, 81), (lit(-2), 63, MIN64), (lit(2), 63, MIN64), (lit(3), 0, 1), (lit(0), -1, MIN64),
        (lit(5), -1, 0), (constant(uint64, 2**63 + 1), 1, MIN64), (lit(MAX64), 1, MAX64),
        (lit(-1), -3, -1), (lit(2**53 + 1), 1, 2**53), (constant(uint8, 3), 2, 9), (lit(1.5), 2, 2.25),
        (constant(float32, 0.1), 2, float(np.float32(0.1) * np.float32(0.1))),
        (constant(float32, 3.0), -1, float(np.float32(1) / np.float32(3))), (lit(0.0), -1, math.inf),
    ],
)  # fmt: skip
def test_power_with_a_known_exponent(base: Scalar, exponent: int, expected: float) -> None:
    """Integer powers wrap at 64 bits, then pass through float64 and saturate, as in Numba's code."""
    assert folded("**", base, lit(exponent)) == expected


@pytest.mark.parametrize("base", [-3, -1, 0, 1, 2, 7, 10])
def test_power_with_any_exponent_is_that_of_the_known_one(base: int) -> None:
    for type_, exponent in itertools.product((int64, float32, float64), range(-5, 20)):
        b = recorder()
        emitted = a.binary(b, "**", b.unknown(type_, base), b.unknown(int32, exponent))
        assert isinstance(emitted, Scalar)
        # the library's pow is for exponents beyond 65536: any number will do here
        emitted = _with_library(type_, base, exponent)
        known = a.binary(recorder(), "**", constant(type_, base), lit(exponent))
        assert isinstance(known, Scalar)
        assert same(emitted, known.literal), (type_, base, exponent)


def _with_library(type_: Any, base: float, exponent: int) -> Any:
    class WithPow(Recorder):
        def emit(self, operation: str, *operands: int, immediate: int = 0) -> int:
            register = super().emit(operation, *operands, immediate=immediate)
            if operation.startswith("pow"):
                self.values[register] = 0.0
            return register

    b: Any = WithPow()
    result = a.binary(b, "**", b.unknown(type_, base), b.unknown(int32, exponent))
    assert isinstance(result, Scalar)
    assert result.register is not None
    return constant(result.type, b.values[result.register]).literal


def test_float_exponents_are_left_to_the_library() -> None:
    b = recorder()
    result = a.binary(b, "**", b.unknown(float32), constant(float32, 0.5))
    assert isinstance(result, Scalar)
    assert (result.type, b.operations) == (float32, ["pow.f32"])


# -- comparisons, truth ------------------------------------------------------------------------------------------------


def test_int64_against_uint64_compares_as_floats() -> None:
    """Numba has no common integer: beyond 2**53 neighbours are equal."""
    b = recorder()
    assert a.compare(b, "==", constant(uint64, 2**63), constant(int64, MAX64)).literal is True
    assert a.compare(b, "<", constant(int64, -1), constant(uint64, 1)).literal is True


def test_comparison_with_a_small_literal_stays_narrow() -> None:
    b = recorder()
    a.compare(b, "<", b.unknown(int32), lit(100))
    assert b.operations == ["setp.lt.s32"]
    b = recorder()
    a.compare(b, "<", b.unknown(uint32), lit(-1))
    assert "setp.lt.s64" in b.operations


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_with_nan(op: str) -> None:
    nan = constant(float32, math.nan)
    assert a.compare(recorder(), op, nan, nan).literal is (op == "!=")


@pytest.mark.parametrize("op", COMPARISONS)
@given(x=st.tuples(st.integers(0, 2), st.integers(0, 2)), y=st.lists(st.integers(0, 2), max_size=3).map(tuple))
def test_tuples_compare_as_in_python(op: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    p, q = (TupleValue(tuple(lit(v) for v in t)) for t in (x, y))
    expected = {"<": x < y, "<=": x <= y, "==": x == y, "!=": x != y, ">": x > y, ">=": x >= y}[op]
    assert a.compare(recorder(), op, p, q).literal is expected


def test_host_objects_compare_by_equality() -> None:
    b = recorder()
    assert a.compare(b, "==", Static("a"), Static("a")).literal is True
    assert a.compare(b, "!=", Static(None), lit(3)).literal is True
    with pytest.raises(KernelError, match="`<` is not defined"):
        a.compare(b, "<", Static("a"), Static("b"))


def test_truth() -> None:
    b = recorder()
    assert a.truth(b, lit(0.0)).literal is False
    assert a.truth(b, lit(math.nan)).literal is True
    assert a.truth(b, TupleValue(())).literal is False
    assert a.truth(b, Static(None)).literal is False
    a.truth(b, b.unknown(int16))
    assert b.operations == ["setp.ne.b16"]


# -- complex -----------------------------------------------------------------------------------------------------------

finite = st.floats(-1e3, 1e3)


def complex_literal(z: complex) -> ComplexValue:
    value = a.literal(z)
    assert isinstance(value, ComplexValue)
    return value


def host(z: Any) -> complex:
    return complex(z.real.literal, z.imag.literal)


@given(
    st.complex_numbers(max_magnitude=1e3, allow_nan=False), st.complex_numbers(min_magnitude=1e-3, max_magnitude=1e3)
)
def test_complex_operators(x: complex, y: complex) -> None:
    b, p, q = recorder(), complex_literal(x), complex_literal(y)
    assert host(a.binary(b, "+", p, q)) == x + y
    assert host(a.binary(b, "-", p, q)) == x - y
    assert host(a.binary(b, "*", p, q)) == x * y
    assert host(a.binary(b, "/", p, q)) == pytest.approx(x / y, rel=1e-12, abs=1e-300)
    assert a.compare(b, "==", p, q).literal is (x == y)
    assert a.compare(b, "!=", p, q).literal is (x != y)


def test_complex_types() -> None:
    b = recorder()
    z = ComplexValue(complex64, constant(float32, 1), constant(float32, 2))
    assert a.binary(b, "*", z, constant(float32, 3)).type is complex64  # type: ignore[attr-defined]
    assert a.binary(b, "*", z, lit(3)).type is complex128  # type: ignore[attr-defined]
    with pytest.raises(KernelError, match=r"complex64 does not convert to float32.*\.real"):
        a.cast(b, z, float32)
    with pytest.raises(KernelError, match="not defined"):
        a.compare(b, "<", z, z)


# -- literals and errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (1, int64), (2**63, uint64), (True, boolean), (1.5, float64), (np.float32(1.5), float32), (np.uint8(3), uint8),
        (np.bool_(True), boolean), (np.int16(-3), int16), (np.uint16(3), uint16), (np.float16(0.5), float16),
    ],
)  # fmt: skip
def test_literal_types(value: Any, type_: Any) -> None:
    made = a.literal(value)
    assert made.type is type_
    assert isinstance(made, Scalar)
    assert made.literal == value
    assert made.is_python_literal is not isinstance(value, np.generic)


def test_negative_literals_stay_literals() -> None:
    assert a.unary(recorder(), "-", lit(3)) == Scalar(int64, None, -3, True)


def test_integers_beyond_64_bits() -> None:
    with pytest.raises(KernelError, match="does not fit into 64 bits"):
        a.literal(2**64)


def test_one_register_for_one_bit_pattern() -> None:
    b = recorder()
    assert a.register(b, constant(uint64, 2**64 - 1)) == a.register(b, lit(-1))
    assert a.register(b, lit(0.0)) != a.register(b, lit(-0.0))


def test_nothing_is_emitted_for_neutral_operands() -> None:
    b = recorder()
    x = b.unknown(int64)
    for op, y in (("+", 0), ("*", 1), ("-", 0), ("<<", 0), ("//", 1)):
        assert a.binary(b, op, x, lit(y)).register == x.register  # type: ignore[attr-defined]
    assert b.operations == []


@pytest.mark.parametrize(
    ("op", "x", "y", "message"),
    [
        ("<<", lit(1.0), lit(1), r"`<<` is not defined for float64 and int64 .*int"),
        ("+", Static("a"), lit(1), "`\\+` is not defined for 'a' and int64"),
        ("%", complex_literal(1j), lit(1), r"`%` is not defined for complex128"),
        (
            "*", ArrayValue(np.dtype("f4"), 0, (lit(3),), (lit(4),), "x", "global", (lit(0), lit(12))), lit(1),
            r"not on the whole array `x` \(help: index the array\)",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_operands(op: str, x: Any, y: Any, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        a.binary(recorder(), op, x, y)
