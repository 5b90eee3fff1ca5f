"""The test whether a file belongs to wsemu: reports point at the user's files if possible."""

from __future__ import annotations

import functools
import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
HARNESS = os.path.join(_PACKAGE, "launch", "transfer.py")
"""name of the kernel in which `check_transfer` runs a pattern; reports do not show it"""


def _folder(name: str) -> str:
    """Return the location of `wsemu.NAME`: in the package, or in a checkout next to it."""
    inside = os.path.join(_PACKAGE, name)
    return os.path.realpath(inside if os.path.isdir(inside) else os.path.join(os.path.dirname(_PACKAGE), name))


PATTERNS = _folder("patterns") + os.sep
"""the folder of the transfer patterns"""
_FOLDERS = {"wsemu": _PACKAGE + os.sep, "wsemu/patterns": PATTERNS, "wsemu/checkers": _folder("checkers") + os.sep}


@functools.lru_cache(maxsize=1 << 12)
def is_own(file: str) -> bool:
    """Return whether a file is a part of wsemu."""
    return os.path.realpath(file).startswith(tuple(_FOLDERS.values()))


@functools.lru_cache(maxsize=1 << 12)
def is_library(file: str) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    path = os.path.realpath(file)
    packages = any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
    return packages or path.startswith(_library_folders()) or file.startswith("<")


@functools.cache
def _library_folders() -> tuple[str, ...]:
    import sysconfig  # computed on demand, because most processes do not need it

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(os.path.realpath(sysconfig.get_path(name)) + os.sep for name in names)


def own_name(file: str) -> str | None:
    """Return a name such as `wsemu/patterns/base.py` for a file of wsemu, wherever it is installed, or None for any
    other file."""
    path = os.path.realpath(file)
    for name, folder in _FOLDERS.items():
        if path.startswith(folder):
            return f"{name}/{path.removeprefix(folder)}".replace(os.sep, "/")
    return None
