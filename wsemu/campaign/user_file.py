"""The file with a campaign's function, and the sources on which it depends."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType


def exists(file: Path) -> None:
    """Raise UsageError unless the file of a test exists."""
    if not file.is_file():
        raise UsageError(f"`{file}` does not exist: give FILE::function, such as tests/test_copy.py::test_any_stride")


def import_file(file: Path) -> ModuleType:
    """Import a file as a module, with its folder and the working folder on the path, as pytest does."""
    sys.path[:0] = [os.path.dirname(os.path.realpath(file)), os.getcwd()]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{file}` is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def sources() -> str:
    """Return a digest of the modules that are loaded from below the working folder, and of everything else that
    influences a result."""
    return digest_files(versions(), files())


def digest_files(of: str, names: list[str]) -> str:
    """Return a digest of files, relative to the working folder, and of everything else that influences a result."""
    digest = hashlib.sha256(of.encode())
    here = os.path.realpath(os.getcwd())
    for name in names:
        digest.update(name.encode() + b"\0" + Path(here, name).read_bytes() + b"\0")
    return digest.hexdigest()


def versions() -> str:
    """Return the versions of wsemu, Python and Hypothesis."""
    from wsemu import __version__

    hypothesis = sys.modules.get("hypothesis")
    return f"{__version__} {getattr(hypothesis, '__version__', '')} {sys.version_info[:2]}"


def files() -> list[str]:
    """Return the files of the modules that are loaded from below the working folder, and `project_files`, relative to
    it."""
    here = os.path.realpath(os.getcwd()) + os.sep
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = {os.path.realpath(file) for file in loaded if file and file.endswith(".py")} | {*project_files}
    inside = [path for path in sorted(paths) if path.startswith(here) and "site-packages" not in path]
    return [path.removeprefix(here) for path in inside]


project_files: list[str] = []
"""real paths of the files of a project of pytest that modules depend on: its configuration, and `conftest.py`"""
