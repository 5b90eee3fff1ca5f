"""The result file of `wsemu mutate`: a row for every mutant of the current sources that was tried."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from wsemu.campaign.database import Database
from wsemu.campaign.mutate import Told
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION, VERSION = 0x57534D55, 1
"""`WSMU`, and the version of the tables"""
_TABLES = """
CREATE TABLE IF NOT EXISTS campaign (
    id INTEGER PRIMARY KEY, test TEXT NOT NULL, source TEXT NOT NULL, UNIQUE (test, source)
);
CREATE TABLE IF NOT EXISTS mutant (
    campaign INTEGER NOT NULL, name TEXT NOT NULL, told TEXT NOT NULL, PRIMARY KEY (campaign, name)
) WITHOUT ROWID
"""


class Results(Database):
    """A result file for one campaign: a test with its current sources."""

    def __init__(self, path: Path) -> None:
        """Open or create a file; raise UsageError if the file exists and has other contents."""
        super().__init__(path, APPLICATION, VERSION, _TABLES, "wsemu mutate")
        self._campaign = 0

    def begin(self, test: str, source: str, *, fresh: bool = False) -> None:
        """Choose the campaign; with `fresh`, its known outcomes are deleted."""
        self._execute("INSERT OR IGNORE INTO campaign (test, source) VALUES (?, ?)", (test, source))
        query = "SELECT id FROM campaign WHERE test = ? AND source = ?"
        self._campaign = self._execute(query, (test, source))[0][0]
        if fresh:
            self._execute("DELETE FROM mutant WHERE campaign = ?", (self._campaign,))

    def add(self, name: str, told: Told) -> None:
        """Store the outcome of a mutant."""
        row = (self._campaign, name, json.dumps(asdict(told)))
        self._execute("INSERT OR REPLACE INTO mutant VALUES (?, ?, ?)", row)

    def known_outcomes(self) -> dict[str, Told]:
        """Return the mutants of the campaign with known outcomes, by name."""
        rows = self._execute("SELECT name, told FROM mutant WHERE campaign = ?", (self._campaign,))
        try:
            return {str(name): Told(**json.loads(text)) for name, text in rows}
        except (TypeError, ValueError, RecursionError):
            raise UsageError(f"`{self.path}` is damaged: remove it, or give --results another name") from None
