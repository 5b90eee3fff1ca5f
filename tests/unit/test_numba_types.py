"""Result types of operators: the matrix that Numba-CUDA 0.30 prints, held against the rules that derive it."""

from __future__ import annotations

import numpy as np
import pytest

from wsemu.language.numbers import NUMBERS, float32, float64, int8, int32, int64, uint8, uint32, uint64
from wsemu.language.promotion import number_type, resolve, unify

COLUMNS = "bool int8 uint8 int32 uint32 int64 uint64 float16 float32 float64".split()

# operator; then a row for each left operand: its type, and the result for each right operand (-: does not compile)
MATRIX = """
+
  bool     int64    int64    int64    int64    int64    int64    int64    float16  float32  float64
  int8     int64    int64    int64    int64    int64    int64    int64    float16  float32  float64
  uint8    int64    int64    uint64   int64    uint64   int64    uint64   float32  float32  float64
  int32    int64    int64    int64    int64    int64    int64    int64    float64  float64  float64
  uint32   int64    int64    uint64   int64    uint64   int64    uint64   float64  float64  float64
  int64    int64    int64    int64    int64    int64    int64    int64    float64  float64  float64
  uint64   int64    int64    uint64   int64    uint64   int64    uint64   float64  float64  float64
  float16  float16  float16  float32  float64  float64  float64  float64  float16  float32  float64
  float32  float32  float32  float32  float64  float64  float64  float64  float32  float32  float64
  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
/
  bool     float64  float64  float64  float64  float64  float64  float64  float16  float32  float64
  int8     float64  float64  float64  float64  float64  float64  float64  float16  float32  float64
  uint8    float64  float64  float64  float64  float64  float64  float64  float32  float32  float64
  int32    float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
  uint32   float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
  int64    float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
  uint64   float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
  float16  float16  float16  float32  float64  float64  float64  float64  float16  float32  float64
  float32  float32  float32  float32  float64  float64  float64  float64  float32  float32  float64
  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
//
  bool     int64    int64    int64    int64    int64    int64    int64    float32  float32  float64
  int8     int64    int64    int64    int64    int64    int64    int64    float32  float32  float64
  uint8    int64    int64    uint64   int64    uint64   int64    uint64   float32  float32  float64
  int32    int64    int64    int64    int64    int64    int64    int64    float64  float64  float64
  uint32   int64    int64    uint64   int64    uint64   int64    uint64   float64  float64  float64
  int64    int64    int64    int64    int64    int64    int64    int64    float64  float64  float64
  uint64   int64    int64    uint64   int64    uint64   int64    uint64   float64  float64  float64
  float16  float32  float32  float32  float64  float64  float64  float64  float32  float32  float64
  float32  float32  float32  float32  float64  float64  float64  float64  float32  float32  float64
  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
<<
  bool     int64    int64    int64    int64    int64    int64    int64    -        -        -
  int8     int64    int64    int64    int64    int64    int64    int64    -        -        -
  uint8    uint64   uint64   uint64   uint64   uint64   uint64   uint64   -        -        -
  int32    int64    int64    int64    int64    int64    int64    int64    -        -        -
  uint32   uint64   uint64   uint64   uint64   uint64   uint64   uint64   -        -        -
  int64    int64    int64    int64    int64    int64    int64    int64    -        -        -
  uint64   uint64   uint64   uint64   uint64   uint64   uint64   uint64   -        -        -
  float16  -        -        -        -        -        -        -        -        -        -
  float32  -        -        -        -        -        -        -        -        -        -
  float64  -        -        -        -        -        -        -        -        -        -
&
  bool     bool     int64    int64    int64    int64    int64    int64    -        -        -
  int8     int64    int64    int64    int64    int64    int64    int64    -        -        -
  uint8    int64    int64    uint64   int64    uint64   int64    uint64   -        -        -
  int32    int64    int64    int64    int64    int64    int64    int64    -        -        -
  uint32   int64    int64    uint64   int64    uint64   int64    uint64   -        -        -
  int64    int64    int64    int64    int64    int64    int64    int64    -        -        -
  uint64   int64    int64    uint64   int64    uint64   int64    uint64   -        -        -
  float16  -        -        -        -        -        -        -        -        -        -
  float32  -        -        -        -        -        -        -        -        -        -
  float64  -        -        -        -        -        -        -        -        -        -
**
  bool     int64    int64    int64    float32  int64    int64    int64    float32  float32  float64
  int8     int64    int64    int64    int64    int64    int64    int64    float32  float32  float64
  uint8    int64    int64    uint64   int64    uint64   int64    uint64   float32  float32  float64
  int32    int64    int64    int64    int64    int64    int64    int64    float64  float64  float64
  uint32   int64    int64    uint64   int64    uint64   int64    uint64   float64  float64  float64
  int64    int64    int64    int64    int64    int64    int64    int64    float64  float64  float64
  uint64   int64    int64    uint64   int64    uint64   int64    uint64   float64  float64  float64
  float16  float32  float32  float32  float32  float32  float32  float32  float32  float32  float64
  float32  float32  float32  float32  float32  float32  float32  float32  float32  float32  float64
  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
"""


def _cases() -> list[tuple[str, str, str, str]]:
    cases = []
    operator = ""
    for line in MATRIX.strip().splitlines():
        if not line.startswith(" "):
            operator = line
            continue
        left, *results = line.split()
        cases += [(operator, left, right, result) for right, result in zip(COLUMNS, results, strict=True)]
    return cases


@pytest.mark.parametrize(("operator", "left", "right", "expected"), _cases())
def test_result_type(operator: str, left: str, right: str, expected: str) -> None:
    signature = resolve(operator, NUMBERS[left], NUMBERS[right])
    assert (signature.result.name if signature else "-") == expected


def test_the_matrix_is_whole() -> None:
    assert len(_cases()) == 6 * 10 * 10


@pytest.mark.parametrize(("like", "others"), [("+", "-*"), ("//", "%"), ("<<", [">>"]), ("&", "|^")])
def test_operators_that_type_alike(like: str, others: str) -> None:
    for left in NUMBERS.values():
        for right in NUMBERS.values():
            assert {resolve(op, left, right) for op in others} == {resolve(like, left, right)}


@pytest.mark.parametrize(
    ("operator", "operand", "expected"),
    [
        ("-", "bool", "int64"), ("-", "int8", "int64"), ("-", "uint32", "uint64"), ("-", "float32", "float32"),
        ("~", "bool", "bool"), ("~", "uint8", "uint64"), ("~", "int32", "int64"), ("~", "float32", "-"),
        ("abs", "int32", "int32"), ("abs", "bool", "int8"), ("abs", "complex64", "float32"),
        ("abs", "uint16", "uint16"),
    ],
)  # fmt: skip
def test_unary_result_type(operator: str, operand: str, expected: str) -> None:
    signature = resolve(operator, NUMBERS[operand])
    assert (signature.result.name if signature else "-") == expected


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("int32", "uint32", "int64"), ("int8", "uint8", "int16"), ("int64", "uint64", "float64"),
        ("bool", "bool", "bool"),
        ("int32", "float32", "float64"), ("int16", "float32", "float32"), ("uint64", "int32", "float64"),
        ("float16", "int8", "float16"), ("bool", "uint8", "uint8"), ("int32", "int64", "int64"),
    ],
)  # fmt: skip
def test_comparison_happens_in(left: str, right: str, common: str) -> None:
    signature = resolve("<", NUMBERS[left], NUMBERS[right])
    assert signature is not None
    assert [t.name for t in signature.operands] == [common, common]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(int64, uint64, float64), (int32, float32, float64), (int8, uint8, NUMBERS["int16"]), (float32, float32, float32)],
)
def test_unify_is_numpys_promotion(a, b, expected) -> None:
    assert unify(a, b) is expected
    assert unify(b, a) is expected


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (int, int64), (float, float64), (np.float32, float32), (np.dtype("i4"), int32), ("uint8", uint8),
        (np.uint32, uint32),
        (np.bool_, NUMBERS["bool"]), (np.complex64, NUMBERS["complex64"]), (str, None), (np.dtype(">i4"), None),
        (3, None),
        (np.void, None), (np.generic, None), (None, None),
    ],
)  # fmt: skip
def test_number_type(obj: object, expected: object) -> None:
    assert number_type(obj) is expected


def test_number_type_of_numbas_types() -> None:
    numba = pytest.importorskip("numba")
    for type_ in NUMBERS.values():
        if type_.name not in ("bool", "float16"):
            assert number_type(getattr(numba, type_.name)) is type_
    assert number_type(numba.boolean) is NUMBERS["bool"]
    assert number_type(int8) is int8
