"""Each checker declares the rank of its codes among causes, and the edits that may cure them."""

from __future__ import annotations

from typing import get_args

import pytest

from wsemu.checkers.registry import cures_of, module_of
from wsemu.model.codes import CHECKER_OF, CHECKERS, CODES
from wsemu.model.cure import Kind
from wsemu.model.remedy import LAST


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_declares_cures_of_its_codes_alone(checker: str) -> None:
    module = module_of(checker)
    assert set(module.CURES) == set(module.CODES) == {code for code in CODES if CHECKER_OF[code] == checker}


def test_two_codes_have_two_ranks_among_causes() -> None:
    ranks = [cures_of(code).rank for code in CODES]
    among = [rank for rank in ranks if rank != LAST]
    assert len(among) == len(set(among))
    assert max(among) < LAST


def test_costs_explain_nothing() -> None:
    assert {code for code in CODES if cures_of(code).rank == LAST} == {"bank-conflict", "uncoalesced"}


@pytest.mark.parametrize("code", CODES)
def test_edits_are_kinds_that_there_are(code: str) -> None:
    edits = cures_of(code).edits.split()
    assert set(edits) <= {*get_args(Kind)}
    assert len(edits) == len(set(edits))


def test_a_code_that_nobody_declares_comes_last() -> None:
    assert cures_of("no-such-code") == (LAST, "", (), ())
