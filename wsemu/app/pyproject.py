"""Find and read the table `[tool.wsemu]` of pyproject.toml, without validation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from wsemu.model.errors import UsageError

FILE = "pyproject.toml"
LARGEST = 1 << 20
"""maximum bytes of a pyproject.toml that is read"""


def find(program: Path) -> tuple[Path | None, dict[str, Any]]:
    """Return the nearest pyproject.toml with `[tool.wsemu]`, from the program's folder upwards, and the table."""
    for folder in Path(os.path.realpath(program)).parents:
        path = folder / FILE
        if path.is_file():
            table = read(path)
            if table is not None:
                return path, table
    return None, {}


def read(path: Path) -> dict[str, Any] | None:
    """Return the table `[tool.wsemu]` of a file, without validation; None if it has none.  UsageError if the file is
    not TOML."""
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= LARGEST else ""
    except OSError as error:
        raise UsageError(f"{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path.name} is not UTF-8: byte {error.start}") from None
    if size > LARGEST:
        raise UsageError(f"{path.name} has {size:,} bytes: wsemu reads at most {LARGEST:,}")
    import tomllib  # not needed without such a file

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name} is not TOML: {str(error)[:1].lower()}{str(error)[1:]}") from None
    except (RecursionError, ValueError):
        raise UsageError(f"{path.name} is not TOML that can be read: nested too deeply, or a number too long") from None
    tool = document.get("tool", {})
    table = tool.get("wsemu") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path.name}: `tool.wsemu` is {kind(table)}: write the table `[tool.wsemu]`")
    return table


def kind(value: Any) -> str:
    """Return the type of a TOML value, in words."""
    names = {dict: "a table", list: "a list", str: "a string", bool: "true or false", int: "an integer"}
    return names.get(type(value), f"a {type(value).__name__}")
