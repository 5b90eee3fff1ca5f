"""Each of the 60 bugs in the list of the reference of Blackwell has its tests."""

from __future__ import annotations

import importlib

import pytest

from tests.unit import test_tensor_bugs, test_tensor_rows
from tests.unit.blackwell_rows import BUGS, ROWS, BugRow, list_rows
from wsemu.model.codes import CODES


def test_all_60_rows_are_there():
    assert [row.number for row in list_rows()] == [*range(1, 61)]


@pytest.mark.parametrize("row", list_rows(), ids=lambda row: str(row.number))
def test_a_row_names_tests_and_a_code(row: BugRow):
    for place in (row.test, row.twin):
        file, function = place.split("::")
        assert callable(getattr(importlib.import_module(f"tests.unit.{file.removesuffix('.py')}"), function))
    assert row.code in CODES or row.code in ("values", "incomplete")


def test_rows_of_the_two_tables_have_the_codes_that_these_name():
    codes = {row: {*found} for row, _, _, found in test_tensor_bugs.EDITS}
    for found in test_tensor_bugs.EDITS:
        codes[found[0]] |= found[3]
    assert all(row.code in codes[row.number] for row in list_rows() if row.test == BUGS)
    named = {(row.number, row.code) for row in test_tensor_rows.ROWS}
    assert all((row.number, row.code) in named for row in list_rows() if row.test == ROWS)
