"""Decide which source files reports may show: a `.file` directive of untrusted PTX can name any file, and reports show
lines of it.

A source is shown if it is the file of a Python module that this process has loaded.  It is also shown if it is a
regular file of at most `MAX_SOURCE_BYTES` with the suffix of a source below an allowed folder.  Allowed folders, all
links resolved, are the PTX's folder, the working folder and those of `WSEMU_SOURCE_ROOTS` (`--source-root`).  Otherwise
findings show PTX, as if the source did not exist.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE = "WSEMU_SOURCE_ROOTS"
"""environment variable with the folders whose sources are shown, separated as in PATH"""
MAX_SOURCE_BYTES = 16 << 20
SUFFIXES = frozenset(
    (".cu", ".cuh", ".cuf", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".inc",
     ".py", ".jl", ".rs", ".cl", ".f90", ".f", ".mojo", ".ptx")
)  # fmt: skip
"""source suffixes of CUDA compilers and of languages that are compiled to PTX"""


def find_sources(
    names: Mapping[int, str], folder: str, roots: Sequence[str] = ()
) -> tuple[dict[int, str | None], dict[int, str]]:
    """Return two tables indexed by the number of `.file`: the locations of the sources that may be shown (None for any
    other), and the locations of existing sources that must not be shown.

    `folder` is the folder of the PTX, or empty for PTX without a file; `roots` are further folders whose sources may be
    shown.
    """
    folders = _shown_folders(folder, roots)
    paths = {number: _find_shown(name, folder, folders) for number, name in names.items()}
    missing = [number for number, path in paths.items() if path is None]
    hidden = {number: _find_hidden(names[number], folder) for number in missing}
    return paths, {number: path for number, path in hidden.items() if path is not None}


def _find_shown(name: str, folder: str, folders: Sequence[str]) -> str | None:
    return next((path for path in _candidates(name, folder) if _may_be_shown(path, folders)), None)


def _find_hidden(name: str, folder: str) -> str | None:
    return next((path for path in _candidates(name, folder) if _has_suffix(os.path.realpath(path))), None)


def _shown_folders(folder: str, roots: Sequence[str]) -> list[str]:
    """Return the folders whose sources may be shown, with their links resolved and a separator at the end."""
    named = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    found = []
    for root in dict.fromkeys((os.getcwd(), *filter(None, (folder, *roots)), *named)):
        with contextlib.suppress(OSError, ValueError):
            found.append(os.path.join(os.path.realpath(root), ""))
    return found


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


def _may_be_shown(path: str, folders: Sequence[str]) -> bool:
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return False
    if not _has_suffix(real):  # a link to a file that is not a source
        return False
    return real.startswith(tuple(folders)) or (real.endswith(".py") and real in _module_files(len(sys.modules)))


@functools.lru_cache(maxsize=1)
def _module_files(count: int) -> frozenset[str]:
    """Return the files of the Python modules of this process; `count` is their number."""
    files = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
    return frozenset(os.path.realpath(file) for file in files if isinstance(file, str))
