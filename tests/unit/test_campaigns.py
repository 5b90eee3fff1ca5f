"""The campaign of random programs reaches each family of programs, early."""

from __future__ import annotations

import pytest

from benchmarks import soundness


def test_families_have_names_of_their_own() -> None:
    names = [family for shares in soundness.SHARES.values() for family in shares]
    assert len(names) == len(set(names))


def test_all_kinds_have_a_share() -> None:
    assert soundness.OF_ALL.keys() == soundness.SHARES.keys()


@pytest.mark.parametrize("kind", [*soundness.SHARES, *soundness.MIXES])
def test_as_many_programs_as_asked_for_are_made(kind: str) -> None:
    made = soundness.parts(kind, 10_000, 3, 0)
    assert sum(part.programs for part in made) == 10_000
    assert len({part.seed for part in made}) == len(made)


@pytest.mark.parametrize("kind", soundness.MIXES)
def test_a_campaign_that_is_cut_has_programs_of_all_families(kind: str) -> None:
    made = soundness.parts(kind, 100_000, 3, 0)
    fifth = {part.family for part in made[: len(made) // 5]}
    families = {family for one in soundness.MIXES[kind] for family in soundness.SHARES[one]}
    assert fifth == {part.family for part in made} == families
