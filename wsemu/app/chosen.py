"""Settings of a program: the command line, pyproject.toml, the defaults.

Most programs are checked without options or a table: then `config`, which validates them and needs Pydantic, is not
imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from wsemu.app.pyproject import find
from wsemu.model.data import NamedTuple
from wsemu.model.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Chosen(NamedTuple):
    """Settings of the program as a whole; `config.Configuration` explains them."""

    format: str = "text"
    all: bool = False
    limit: int | None = None
    time_limit: float | None = None
    save_witness: str = ""
    launch_skip: int = 0
    launch_count: int = 0
    save_launches: str = ""
    baseline: str = ""
    statistics: bool = False
    certificate: str = ""


def resolve_settings(program: Path, given: Mapping[str, Any], *, baseline: bool = True) -> tuple[Chosen, Settings]:
    """Return the settings of a program.  A setting `given` on the command line (by its key in the file) takes
    precedence over the nearest pyproject.toml that has the table, and the table takes precedence over the default.
    Raise UsageError, which names the file, the key and its allowed values.  With `baseline` False, no baseline is
    read."""
    path, table = find(program)
    if not table and not given:
        return Chosen(), Settings()
    from wsemu.app.config import parse_table

    if path is not None:
        parse_table(table, f"{path.name}: [tool.wsemu]")
    if path is not None and isinstance(written := table.get("baseline"), str) and written:
        table = {**table, "baseline": os.path.relpath(path.parent / written)}
    model = parse_table({**table, **given}, "")
    chosen = Chosen(*(getattr(model, name) for name in Chosen._fields))
    return chosen, model.settings(path, baseline=baseline)
