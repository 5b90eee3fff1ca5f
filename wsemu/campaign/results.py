"""The result file of `wsemu fuzz`: an SQLite database with a row for every batch of examples that has run.

A row is written in one transaction when its batch is done, so that the file is consistent even if the process is
killed.  Rows contain nothing that differs between runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wsemu.campaign.database import Database
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION, VERSION = 0x57534655, 1
"""`WSFU`, and the version of the tables"""
_TABLES = """
CREATE TABLE IF NOT EXISTS campaign (
    id INTEGER PRIMARY KEY, test TEXT NOT NULL, seed INTEGER NOT NULL, source TEXT NOT NULL, UNIQUE (test, seed, source)
);
CREATE TABLE IF NOT EXISTS batch (
    campaign INTEGER NOT NULL, first INTEGER NOT NULL, size INTEGER NOT NULL, examples INTEGER NOT NULL, failure TEXT,
    PRIMARY KEY (campaign, first, size)
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """Examples of one seed."""

    first: int
    """number of its first example in the campaign"""
    size: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure, with the smallest example that fails."""

    title: str
    place: str
    """`file:line` in the test, or empty"""
    text: str
    parameters: dict[str, str] = field(default_factory=dict)
    """parameters of the example, as source text"""
    example: str = ""
    """`@example(...)`, or empty if the parameters are not Python source text"""
    witness: str = ""
    """a witness file, if there is a schedule to replay"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a batch."""

    examples: int
    """number of runs of the test, including shrinking"""
    failure: Failure | None = None


class Results(Database):
    """A result file for one campaign: a test with its current sources, and a seed."""

    def __init__(self, path: Path) -> None:
        """Open or create a file; raise UsageError if the file exists and has other contents."""
        super().__init__(path, APPLICATION, VERSION, _TABLES, "wsemu fuzz")
        self._campaign = 0

    def begin(self, test: str, seed: int, source: str, *, fresh: bool = False) -> bool:
        """Choose the campaign; `fresh` deletes its batches.  Return whether there are results for other sources."""
        key = (test, seed, source)
        self._execute("INSERT OR IGNORE INTO campaign (test, seed, source) VALUES (?, ?, ?)", key)
        query = "SELECT id FROM campaign WHERE test = ? AND seed = ? AND source = ?"
        self._campaign = self._execute(query, key)[0][0]
        if fresh:
            self._execute("DELETE FROM batch WHERE campaign = ?", (self._campaign,))
        others = "SELECT count(*) FROM batch JOIN campaign ON id = campaign WHERE test = ? AND seed = ? AND source <> ?"
        return bool(self._execute(others, key)[0][0])

    def add(self, batch: Batch, outcome: Outcome) -> None:
        """Store the outcome of a batch."""
        failure = outcome.failure
        text = None if failure is None else json.dumps({name: getattr(failure, name) for name in Failure.__slots__})
        row = (self._campaign, batch.first, batch.size, outcome.examples, text)
        self._execute("INSERT OR REPLACE INTO batch VALUES (?, ?, ?, ?, ?)", row)

    def known_outcomes(self) -> dict[Batch, Outcome]:
        """Return the known batches of the campaign, in order."""
        query = "SELECT first, size, examples, failure FROM batch WHERE campaign = ? ORDER BY first, size"
        try:
            return {
                Batch(int(first), int(size)): Outcome(int(examples), None if text is None else _failure(text))
                for first, size, examples, text in self._execute(query, (self._campaign,))
            }
        except (AttributeError, TypeError, ValueError, KeyError, RecursionError):
            raise UsageError(f"`{self.path}` is damaged: remove it, or give --results another name") from None


def _failure(text: str) -> Failure:
    fields = json.loads(text)
    values = {str(name): str(value) for name, value in fields["parameters"].items()}
    names = ("title", "place", "text", "example", "witness")
    title, place, told, example, witness = (str(fields[name]) for name in names)
    return Failure(title, place, told, values, example, witness)
