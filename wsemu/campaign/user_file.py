"""The file that a campaign takes its function from."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def exists(file: Path) -> None:
    """UsageError unless there is the file of a test."""
    if not file.is_file():
        raise UsageError(f"`{file}` does not exist: give FILE::function, such as tests/test_copy.py::test_any_stride")


def imported(file: Path) -> ModuleType:
    """The module of a file, with its folder and the working folder to import from, as pytest has them."""
    sys.path[:0] = [str(file.resolve().parent), os.getcwd()]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{file}` is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
