"""A deterministic share of the fuzzers of launch files and arguments: `benchmarks/hostile_fuzz.py` runs millions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests import hostile_targets
from tests.malformed import mutated
from tests.malformed_launches import changed_argument


@pytest.mark.parametrize("name", hostile_targets.TARGETS)
def test_every_input_ends_with_a_value_or_a_message(name: str, tmp_path: Path) -> None:
    chance = random.Random(40)
    with hostile_targets.at(tmp_path):
        for seed in hostile_targets.seeds(name):
            hostile_targets.TARGETS[name](seed)
            hostile_targets.TARGETS[name](mutated(seed, chance))
        for _ in range(150):
            hostile_targets.TARGETS[name](hostile_targets.changed(name, chance))


def test_a_file_that_is_opened_elsewhere_is_noticed(tmp_path: Path) -> None:
    with hostile_targets.at(tmp_path), hostile_targets._confined(), pytest.raises(AssertionError, match="is opened"):
        (tmp_path / "outside" / "x.npy").read_bytes()


def test_inputs_are_the_same_every_time() -> None:
    assert changed_argument(random.Random(1)) == changed_argument(random.Random(1))
