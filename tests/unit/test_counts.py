"""What is said of operations outside the rooms that are theirs gets less, and never more (`tests/counts.py`)."""

from __future__ import annotations

from tests.counts import count

MOST_LITERALS, MOST_MBARRIER_FILES, MOST_SIDE_TABLES = 190, 60, 12
"""lower them when a count has fallen; a new fact about an operation is a field of its row in `model/effects.py`"""


def test_what_is_said_of_operations_elsewhere_gets_less() -> None:
    counted = count()
    assert sum(counted.literals.values()) <= MOST_LITERALS, counted.literals
    assert len(counted.mbarrier_files) <= MOST_MBARRIER_FILES, counted.mbarrier_files
    assert len(counted.side_tables) <= MOST_SIDE_TABLES, counted.side_tables
