"""Random programs with undefined values against all choices of their bits."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.properties.undefined_programs import (
    GIVEN,
    UNDEFINED_FAMILIES,
    Enumerated,
    Statement,
    UndefinedProgram,
    judged_undefined,
    undefined_program,
)

NUMBERS = [Statement("number", (register, 0)) for register in range(5)]
CASES = {
    (Statement("register", (0,)), Statement("store", (0, 0))): True,
    (Statement("register", (0,)), Statement("store", (1, 0))): False,
    (Statement("load", (0, 1)), Statement("binary", ("and.b32", 1, 0, 2)), Statement("store", (1, 0))): False,
    (Statement("load", (0, 1)), Statement("binary", ("or.b32", 1, 0, 2)), Statement("store", (1, 0))): True,
    (
        Statement("shuffle", (0, 1, 4)),
        Statement("compare", ("setp.lt.u32", 0, 0, 2)),
        Statement("store if", (0, 1, 0)),
    ): (False),
    (
        Statement("shuffle", (0, 1, 4)),
        Statement("compare", ("setp.lt.u32", 0, 0, 1)),
        Statement("store if", (0, 1, 0)),
    ): (True),
    (Statement("shuffle", (0, 1, 3)), Statement("store", (0, 0))): False,
}
"""statements -> whether the result depends on undefined values"""


@pytest.mark.parametrize("statements", CASES, ids=lambda statements: "; ".join(map(str, statements)))
def test_what_depends_on_undefined_values(statements: tuple[Statement, ...]) -> None:
    program = UndefinedProgram((*NUMBERS, *statements), tree=True)
    assert Enumerated(program, GIVEN).depends == CASES[statements]
    for engine in ("vm", "reference"):
        assert not judged_undefined(program, engine).complaint


def test_all_choices_are_enumerated() -> None:
    found = Enumerated(
        UndefinedProgram((*NUMBERS, Statement("register", (0,)), Statement("load", (1, 3))), True), GIVEN
    )
    assert found.bits == 8
    assert np.array_equal(GIVEN, [3, 0, 0xFFFFFFFF, 6])


@pytest.mark.parametrize("family", UNDEFINED_FAMILIES)
@pytest.mark.parametrize("seed", range(6))
def test_verdicts_are_those_of_all_choices(family: str, seed: int) -> None:
    draw = random.Random(f"undefined {family} {seed}")
    for n in range(10):
        found = judged_undefined(undefined_program(draw, family), "vm" if n % 4 else "reference")
        assert not found.complaint, str(found)
