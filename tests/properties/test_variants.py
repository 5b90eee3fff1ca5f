"""Changes that keep what a program can do keep its verdict; `benchmarks/soundness.py --kind variants` has more."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.properties.programs import FAMILIES
from tests.properties.variant_programs import judged_variants

if TYPE_CHECKING:
    from wsemu.model.settings import Engine


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize(("engine", "programs"), [("vm", 40), ("reference", 6)])
def test_variants_of_a_program_have_its_verdict(family: str, engine: Engine, programs: int) -> None:
    source = random.Random(f"{family} {engine}")
    verdicts = set()
    for _ in range(programs):
        found = judged_variants(family, source, engine)
        assert not found.complaints, str(found)
        verdicts.add(found.verdict)
    assert {"verified", "failed"} >= verdicts
