"""Trust in a folder with machine code, by the rules of ssh for keys: only the user and root may be able to write there.

A folder and all folders above it must belong to the user or to root, and others must not be able to write to them.
Above the folder, a sticky folder such as /tmp is allowed. A group without other members counts as the user.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def find_problem(folder: Path) -> str:
    """Return why machine code from a folder must not be loaded; empty if it may be, or if the system has no user
    numbers."""
    if not hasattr(os, "geteuid"):
        return ""
    place, is_above = os.path.realpath(folder), False
    while True:
        problem = _find_problem(place, is_above)
        above = os.path.dirname(place)
        if problem or above == place:
            return problem
        place, is_above = above, True


def is_trusted(state: os.stat_result) -> bool:
    """Return whether a file is a regular one that only the user, or root, can have written."""
    if not hasattr(os, "geteuid"):
        return stat.S_ISREG(state.st_mode)
    return stat.S_ISREG(state.st_mode) and state.st_uid in (os.geteuid(), 0) and not _is_open(state)


def _find_problem(place: str, is_above: bool) -> str:
    try:
        state = os.stat(place)
    except OSError:  # it does not exist yet, or cannot be entered: nothing is read from it
        return ""
    if state.st_uid not in (os.geteuid(), 0):
        return f"`{place}` belongs to another user"
    if _is_open(state) and not (is_above and state.st_mode & stat.S_ISVTX):
        return f"others may write to `{place}`"
    return ""


def _is_open(state: os.stat_result) -> bool:
    if state.st_mode & stat.S_IWOTH:
        return True
    return bool(state.st_mode & stat.S_IWGRP) and not _is_own_group(state.st_gid)


def _is_own_group(group: int) -> bool:
    """Return whether a group has no member but the user (or root, who may do everything)."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except (KeyError, OSError):
        return False
    is_primary = user.pw_gid == group and found.gr_name == user.pw_name
    return (is_primary or group == 0) and {*found.gr_mem} <= {user.pw_name, "root"}
