"""Safe access to files that other files name: launch files, witnesses and PTX may come from a stranger.

`find_below` resolves such a name below a folder.  `read_regular` reads a file up to a maximum size, unless it is a
device or a pipe.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from wsemu.model.errors import UsageError


def find_below(folder: Path, name: str, naming: str) -> Path:
    """Return the file to which data refers; with all links resolved, it must be below `folder`.

    `naming` begins the error message and describes where the name comes from.  Raise UsageError for an absolute name,
    for a name with `..`, and for a name whose links lead out of the folder.
    """
    outside = f"{naming} names a file outside of its folder, `{name}`: move that file below the folder"
    if "\0" in name or not name.strip():
        raise UsageError(f"{naming} names `{name}`, which is no name of a file")
    parts = name.replace("\\", "/").split("/") if os.name == "nt" else name.split("/")
    if os.path.isabs(name) or os.path.splitdrive(name)[0] or os.pardir in parts:
        raise UsageError(outside)
    path = folder / name
    if not is_below(path, folder):
        raise UsageError(outside)
    return path


def is_below(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Return whether a path is below a folder, both with their links resolved; a folder is not below itself."""
    try:
        inside, outer = os.path.realpath(path), os.path.realpath(folder)
    except (OSError, ValueError):
        return False
    return inside.startswith(os.path.join(outer, ""))


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes.

    Raise UsageError for a file that is missing or larger, a device or a pipe.
    """
    with open_regular(path, limit) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:  # the file has grown, or the system does not know its size
        raise UsageError(f"`{os.fspath(path)}` has more bytes than wsemu reads: at most {limit:,}")
    return data


def open_regular(path: str | os.PathLike[str], limit: int) -> BinaryIO:
    """Open a regular file of at most `limit` bytes.  Raise UsageError as `read_regular` does.  Opening a pipe does not
    block."""
    name = os.fspath(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(name, flags)
    except (OSError, ValueError) as error:
        raise UsageError(f"`{name}` cannot be read: {getattr(error, 'strerror', None) or error}") from None
    state = os.fstat(handle)
    if stat.S_ISREG(state.st_mode) and state.st_size <= limit:
        return os.fdopen(handle, "rb")
    os.close(handle)
    if not stat.S_ISREG(state.st_mode):
        raise UsageError(f"`{name}` cannot be read: {_kind(state.st_mode)}")
    raise UsageError(f"`{name}` has {state.st_size:,} bytes: wsemu reads at most {limit:,}")


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    return f"it is a {'pipe' if stat.S_ISFIFO(mode) else 'device'}, no ordinary file"
