"""Preparations of pytest for the import of a test: `pythonpath` of the project's configuration, `conftest.py` files."""

from __future__ import annotations

import configparser
import importlib.util
import os
import shlex
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.campaign.user_file import project_files
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTIONS = {"pytest.ini": "pytest", ".pytest.ini": "pytest", "tox.ini": "pytest", "setup.cfg": "tool:pytest"}
"""file of pytest's configuration -> its section"""


def prepare_project(test: Path) -> None:
    """Extend `sys.path` by the `pythonpath` of a test's project, and import the project's `conftest.py` files, from the
    project's folder down to that of the test.  Raise UsageError if the configuration cannot be read."""
    folder = Path(os.path.realpath(test)).parent
    found = next(((one, paths) for one in (folder, *folder.parents) if (paths := _python_path(one)) is not None), None)
    root, paths = found or (Path(os.path.realpath(os.getcwd())), [])
    sys.path[:0] = [os.path.normpath(root / path) for path in paths]
    for one in reversed([one for one in (folder, *folder.parents) if one == root or root in one.parents]):
        if (one / "conftest.py").is_file():
            _import_conftest(one / "conftest.py")


def _python_path(folder: Path) -> list[str] | None:
    """Return the `pythonpath` of pytest's configuration in a folder; None if the folder has no such configuration."""
    tables = (table for table in _tables(folder) if table is not None)
    table = next(tables, None)
    if table is None:
        return None
    given = table.get("pythonpath", [])
    return shlex.split(given) if isinstance(given, str) else [str(path) for path in given]


def _tables(folder: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the tables of pytest's configuration in a folder, in pytest's order; None for a file without one."""
    for name, section in _SECTIONS.items():
        if name == "tox.ini":
            yield _pyproject_table(folder / "pyproject.toml")
        file = folder / name
        if file.is_file():
            parser = configparser.ConfigParser(interpolation=None)
            try:
                parser.read(file, encoding="utf-8")
            except (configparser.Error, UnicodeDecodeError) as error:
                raise UsageError(
                    f"`{file}` does not hold a configuration of pytest: {str(error).splitlines()[0]}"
                ) from None
            project_files.append(str(file))
            yield dict(parser[section]) if section in parser else {} if name.endswith("pytest.ini") else None


def _pyproject_table(file: Path) -> dict[str, Any] | None:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("pytest")
    except OSError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"`{file}` cannot be read: {error}") from None
    if table is None:
        return None
    project_files.append(str(file))
    options: dict[str, Any] = table.get("ini_options", table)
    return options


def _import_conftest(file: Path) -> None:
    """Import a `conftest.py` as the module `conftest`, as pytest does."""
    project_files.append(str(file))
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location("conftest", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["conftest"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
