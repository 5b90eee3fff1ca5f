"""What file a program is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COMPILED = (".cu", ".cuh", ".cubin", ".fatbin")
"""suffixes of what is not PTX yet, or no longer"""


LAUNCH_OPTIONS = ("entry", "grid", "block", "arg", "dynamic_shared", "cluster", "set", "link", "out", "like")
"""options of a launch, for PTX files alone"""


class Target(NamedTuple):
    """A file that is run."""

    file: Path
    arguments: Sequence[str] = ()
    """of the program, or the words of a launch of PTX"""
    is_ptx: bool = False
    """whether the file is PTX, which is launched, whatever its name: nothing in it is run as Python"""


def is_ptx(file: Path) -> bool:
    """Whether a file is PTX, by its name: it is launched, not run."""
    return file.suffix.lower() == ".ptx"


def is_launch(file: Path) -> bool:
    """Whether a file is data that describes launches: PTX, a launch file, or a folder of those."""
    return is_ptx(file) or file.suffix.lower() in (".json", ".toml") or file.is_dir()


def refusal(file: Path, *, as_ptx: bool = False) -> str:
    """Why a file cannot be run; nothing where it may be."""
    if not file.is_file():
        there = "is no ordinary file" if file.exists() else "does not exist"
        kind = "is a folder, not a program" if file.is_dir() else there
        return f"`{file}` {kind}: give a Python file that launches kernels, or PTX"
    if file.suffix.lower() in COMPILED and not as_ptx:
        how = "PTX of it: `nvcc -ptx -lineinfo` makes a .ptx file"
        return f"`{file}` is nothing that wsemu runs: give a Python file, or {how}"
    return ""
