"""Types that all packages share.

Compiled code is made from the files of modules, after the modules were imported.  So each package with such modules
records the states of its files before it imports them; `wsemu.machine.cache` compares.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def file_state(path: str) -> list[int]:
    """Return the values that change with a file when it is written or replaced; for a folder, when a module is added or
    removed."""
    state = os.stat(path)
    return [state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def module_states(folder: str) -> Iterator[tuple[str, list[int]]]:
    """Yield the file and the state of each module in a folder and its subfolders."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, file_state(entry.path)
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from module_states(entry.path)


IMPORTED_AT = time_ns()
"""time at which this process imported this package, which most others import first, in nanoseconds"""
IMPORTED_STATES = dict(module_states(__path__[0]))
"""file -> its state before this process imported its module"""
