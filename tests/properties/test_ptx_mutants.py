"""A share of `benchmarks/ptx_mutants.py`: changed PTX ends with a report or an error, the same on all engines."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tests.ptx_mutants import GUARD, GuardChanged, check_guards, mutants, run_apart, with_guards

IN_BLOCKS = (0, 1, 2)
"""seeds of which some mutant runs as compiled blocks, too"""


@pytest.mark.parametrize("seed", range(4))
def test_changed_ptx_ends_as_it_must(seed: int) -> None:
    tiers = set[str]()
    for mutant in itertools.islice(mutants(random.Random(f"share:{seed}")), 4):
        ending = run_apart(mutant)
        assert not ending.wrong, mutant.what
        tiers.update(ending.verdicts)
    assert tiers >= {"off", "reference"}
    assert "always" in tiers or seed not in IN_BLOCKS


def test_mutants_depend_on_the_seed_alone() -> None:
    one, other = ([mutant.what for mutant in itertools.islice(mutants(random.Random("again")), 50)] for _ in range(2))
    assert one == other
    assert len(set(one)) > 40


def test_a_byte_beside_an_array_is_noticed() -> None:
    array, whole = with_guards(np.arange(4))
    check_guards(whole)
    assert array.tolist() == [0, 1, 2, 3]
    whole[GUARD - 1] += 1
    with pytest.raises(GuardChanged):
        check_guards(whole)
