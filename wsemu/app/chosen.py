"""What holds for a program: the command line, pyproject.toml, the defaults.

Most programs are checked without either: `config`, which checks what they say, needs Pydantic and is not loaded then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.app.pyproject import find
from wsemu.model.data import NamedTuple
from wsemu.model.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Chosen(NamedTuple):
    """The settings of the program as a whole, which `config.Configuration` explains."""

    format: str = "text"
    all: bool = False
    limit: int | None = None
    time_limit: float | None = None
    save_witness: str = ""
    launch_skip: int = 0
    launch_count: int = 0
    save_launches: str = ""


def resolve_settings(program: Path, given: Mapping[str, Any]) -> tuple[Chosen, Settings]:
    """Return the settings of a program: those `given` by the command line (keys as in the file), else those of the
    nearest pyproject.toml that has the table, else the defaults. UsageError names the file, the key and its allowed
    values."""
    path, table = find(program)
    if not table and not given:
        return Chosen(), Settings()
    from wsemu.app.config import parse_table

    if path is not None:
        parse_table(table, f"{path.name}: [tool.wsemu]")
    model = parse_table({**table, **given}, "")
    return Chosen(*(getattr(model, name) for name in Chosen._fields)), model.settings(path)
