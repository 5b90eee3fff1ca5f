"""The libraries that replace CUDA's driver and runtime: from the wheel, or compiled from `c/` into the cache.

A wheel that was built without a C compiler has no libraries; the first run compiles them, if it finds a compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from wsemu.machine import cache
from wsemu.machine.private_folder import find_problem, is_trusted
from wsemu.model.errors import UsageError
from wsemu.native.compiler import (
    FLAGS,
    FOLDER,
    SOURCES,
    CompileError,
    compile_libraries,
    find_platform_problem,
    library_names,
)

HERE = Path(__file__).parent


def find_libraries() -> Path:
    """Return the folder of the libraries, which are compiled if necessary; raise UsageError, which names what is
    missing, if that is impossible."""
    if problem := find_platform_problem():
        raise UsageError(problem)
    packed = HERE / "lib" / FOLDER
    if _is_complete(packed):
        return packed
    kept = cache.folder()
    if kept is None:
        raise UsageError(f"the CUDA driver of wsemu cannot be compiled: {cache.problem() or 'no cache folder'}")
    folder = kept / f"driver-{_digest()}" / FOLDER
    if not _is_usable(folder):
        _compile_into(folder)
    return folder


def is_built() -> bool:
    """Return whether the libraries exist without a compilation."""
    kept = cache.folder()
    return _is_complete(HERE / "lib" / FOLDER) or (
        kept is not None and _is_usable(kept / f"driver-{_digest()}" / FOLDER)
    )


def _compile_into(folder: Path) -> None:
    """Compile next to the folder and move the result there as a whole, so that another process finds all libraries or
    none; libraries that are not usable are removed."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder.parent.parent, prefix=".driver-") as place:
        made = Path(place) / folder.parent.name
        try:
            compile_libraries(made / FOLDER)
        except CompileError as error:
            raise UsageError(str(error)) from None
        for path in (made, *made.rglob("*")):
            path.chmod(0o700)  # the user's mask may let a group write
        try:
            os.rename(made, folder.parent)
        except OSError:  # a folder is there, which may be that of a process that was faster
            if not _is_usable(folder):
                shutil.rmtree(folder.parent, ignore_errors=True)
                os.rename(made, folder.parent)


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in library_names())


def _is_usable(folder: Path) -> bool:
    """Return whether a folder of the cache has all libraries, and no other user may write to them."""
    return (
        _is_complete(folder)
        and not find_problem(folder)
        and all(is_trusted((folder / name).stat()) for name in library_names())
    )


def _digest() -> str:
    """Return a digest of the sources of the libraries."""
    hash_ = hashlib.sha256(" ".join(FLAGS).encode())
    for path in sorted(SOURCES.iterdir()):
        hash_.update(path.name.encode() + path.read_bytes())
    return hash_.hexdigest()[:16]
