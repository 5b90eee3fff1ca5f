"""Each file of the corpora ends with a return or an error of wsemu; `benchmarks/coverage_fuzz.py` looks for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz_targets import CORPORA, TARGETS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("file", sorted(CORPORA.glob("*/*")), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_a_file_of_a_corpus_ends_as_it_must(file: Path) -> None:
    TARGETS[file.parent.name](file.read_bytes())


def test_every_target_has_a_corpus() -> None:
    assert {folder.name for folder in CORPORA.iterdir()} == set(TARGETS)
