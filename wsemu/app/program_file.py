"""What file a program is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

COMPILED = (".cu", ".cuh", ".cubin", ".fatbin")
"""suffixes of what is not PTX yet, or no longer"""


def is_ptx(file: Path) -> bool:
    """Whether a file is PTX, by its name: it is launched, not run."""
    return file.suffix.lower() == ".ptx"


def refusal(file: Path) -> str:
    """Why a file cannot be run; nothing where it may be."""
    if not file.is_file():
        there = "is no ordinary file" if file.exists() else "does not exist"
        kind = "is a folder, not a program" if file.is_dir() else there
        return f"`{file}` {kind}: give a Python file that launches kernels, or PTX"
    if file.suffix.lower() in COMPILED:
        how = "PTX of it: `nvcc -ptx -lineinfo` makes a .ptx file"
        return f"`{file}` is nothing that wsemu runs: give a Python file, or {how}"
    return ""
