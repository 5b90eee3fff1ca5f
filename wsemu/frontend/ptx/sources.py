"""Which source files PTX may name: `.file` is text of a file that anybody may have written, and reports show lines of
what it names.

A source is shown if it is a regular file of at most `MAX_SOURCE_BYTES`, has the suffix of a source, and is located, all
links resolved, below the PTX's folder, the working folder or a folder of `WSEMU_SOURCE_ROOTS` (`--source-root`), or is
the file of a Python module that this process has loaded.  Otherwise findings show PTX, as if the source were gone.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

from wsemu.model.own_files import is_below

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE = "WSEMU_SOURCE_ROOTS"
"""environment variable: folders whose sources are shown, as PATH lists them"""
MAX_SOURCE_BYTES = 16 << 20
SUFFIXES = frozenset(
    (".cu", ".cuh", ".cuf", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".inc",
     ".py", ".jl", ".rs", ".cl", ".f90", ".f", ".mojo", ".ptx")
)  # fmt: skip
"""of sources; compilers of CUDA, and of languages that are compiled to PTX, name no others"""


def find_source(name: str, folder: str, roots: Sequence[str] = ()) -> str | None:
    """Return where the source that `.file` names is located, or None if it is not to be shown.

    `folder` is the PTX's, or `` for PTX without a file; `roots` are more folders whose sources may be shown.
    """
    return next((path for path in _candidates(name, folder) if _may_be_shown(path, folder, roots)), None)


def find_hidden(name: str, folder: str, roots: Sequence[str] = ()) -> str | None:
    """Return where the source that `.file` names is located if it is there, and is outside of all folders."""
    if find_source(name, folder, roots) is not None:
        return None
    return next((path for path in _candidates(name, folder) if _has_suffix(os.path.realpath(path))), None)


def hidden_note(paths: Sequence[str]) -> str:
    """Return the note of a report on sources that are not shown; nothing if there are none."""
    if not paths:
        return ""
    more = f" (and {len(paths) - 1:,} more)" if len(paths) > 1 else ""
    root = os.path.dirname(os.path.realpath(paths[0]))
    return (
        f"`{paths[0]}`{more} is not shown: it is outside of the working folder and of the PTX's: give "
        f"`--source-root {root}`, or set `{VARIABLE}`"
    )


def _candidates(name: str, folder: str) -> list[str]:
    if "\0" in name or not _has_suffix(name):
        return []
    return [path for path in (name, os.path.join(folder, name)) if _is_source(path)]


def _has_suffix(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in SUFFIXES


def _is_source(path: str) -> bool:
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(state.st_mode) and state.st_size <= MAX_SOURCE_BYTES


def _may_be_shown(path: str, folder: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    if not _has_suffix(real):  # a link to something else
        return False
    named = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    return any(is_below(real, root) for root in (os.getcwd(), *filter(None, (folder, *roots)), *named)) or (
        real.endswith(".py") and real in _module_files(len(sys.modules))
    )


@functools.lru_cache(maxsize=1)
def _module_files(count: int) -> frozenset[str]:
    """Return the files of the Python modules of this process, which are so many."""
    files = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
    return frozenset(os.path.realpath(file) for file in files if isinstance(file, str))
