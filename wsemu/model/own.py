"""Which files are wsemu's own: what a user reads should point at the user's, wherever there is one."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
HARNESS = os.path.join(_PACKAGE, "launch", "transfer.py")
"""the kernel in which `check_transfer` runs a pattern: nothing to show"""
PATTERNS = os.path.realpath(os.path.join(_PACKAGE, "patterns")) + os.sep
"""the folder of the transfer patterns, in a checkout a link"""
_FOLDERS = (_PACKAGE + os.sep, PATTERNS, os.path.realpath(os.path.join(_PACKAGE, "checkers")) + os.sep)


def is_own(file: str) -> bool:
    """Whether a file is a part of wsemu."""
    return os.path.realpath(file).startswith(_FOLDERS)
