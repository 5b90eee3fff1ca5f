"""An SQLite file with the results of a campaign, which is consistent even if the process is killed."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from wsemu.model.errors import UsageError
from wsemu.model.own_folder import make_folder

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self


class Database:
    """A file with tables of one command."""

    def __init__(self, path: Path, application: int, version: int, tables: str, command: str) -> None:
        """Open or create a file; raise UsageError if the file exists and has other contents."""
        self.path = path
        try:
            make_folder(path.parent)
            self._database = sqlite3.connect(path, isolation_level=None, timeout=60)
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"`{path}` cannot be opened: {error}") from None
        try:
            self._prepare(application, version, tables)
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise UsageError(
                f"`{path}` is no result file of `{command}` ({error}): give --results another name"
            ) from None

    def _prepare(self, application: int, version: int, tables: str) -> None:
        known = self._database.execute("PRAGMA application_id").fetchone()[0]
        made = self._database.execute("PRAGMA user_version").fetchone()[0]
        used = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if used and (known, made) != (application, version):
            raise sqlite3.DatabaseError(f"version {made}" if known == application else "another program's")
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("BEGIN IMMEDIATE")
        signed = f"PRAGMA application_id = {application}; PRAGMA user_version = {version}"
        for statement in f"{tables};{signed}".split(";"):
            self._database.execute(statement)
        self._database.execute("COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _execute(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise UsageError(f"`{self.path}` cannot be used ({error}): give --results another name") from None
