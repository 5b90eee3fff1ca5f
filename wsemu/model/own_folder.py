"""`.wsemu`: the folder for files that wsemu keeps next to a program.  It contains its own `.gitignore`."""

from __future__ import annotations

import contextlib
from pathlib import Path

NAME = ".wsemu"
_IGNORE = "# made by wsemu: what lies here can be made again\n*\n"


def make_folder(folder: Path) -> None:
    """Create a folder and its parents; if a folder `.wsemu` is created, make git ignore its contents."""
    folder.mkdir(parents=True, exist_ok=True)
    for place in (folder, *folder.parents):
        ignore = place / ".gitignore"
        if place.name == NAME and not ignore.exists():
            with contextlib.suppress(OSError):  # results are kept even without a `.gitignore`
                ignore.write_text(_IGNORE, encoding="utf-8")
