"""What a command runs: a program, a launch of PTX, a launch file, or a folder of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app.program_file import Target, is_ptx
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def find_targets(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> list[Target]:
    """Return what a command runs: the file with its arguments, or the launches of a launch file or a folder of them.

    `launch` are the options of a launch.  UsageError for options and arguments that the file does not take.
    """
    is_folder = file.is_dir()
    if not is_folder and file.suffix.lower() != ".json":
        return [Target(file, _words(file, arguments, launch), is_ptx(file))]
    from wsemu.app.launch_file import launches

    if arguments:
        raise UsageError(f"`{arguments[0]}` after `{file}`: its launches take no arguments but those that it lists")
    if launch:
        option = f"--{next(iter(launch)).replace('_', '-')}"
        raise UsageError(f"`{option}` is for PTX files: `{file}` describes its launches itself")
    found = launches(file)
    if not found:
        raise UsageError(f"`{file}` is a folder, not a program, and has no launch files (.json): give a program or PTX")
    return found


def find_target(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> Target:
    """Return the one thing that a command runs; UsageError for a folder of several launches."""
    found = find_targets(file, arguments, launch)
    if len(found) > 1:
        raise UsageError(f"`{file}` has {len(found):,} launch files: give one of them")
    return found[0]


def _words(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> Sequence[str]:
    """Return the arguments of a program; of a PTX file the options of its launch."""
    option = f"--{next(iter(launch), '').replace('_', '-')}"
    if not is_ptx(file):
        if launch:
            raise UsageError(f"`{option}` is for PTX files: `{file}` is a program, which launches its kernels itself")
        return arguments
    if arguments:
        word = arguments[0]
        remedy = "give options without a `--` before them" if word[:1] == "-" else f"give an argument as `--arg {word}`"
        raise UsageError(f"`{word}` after `{file}`, which is PTX and takes no words: {remedy}")
    from wsemu.app.ptx_launch import REPEATED, Options

    given: dict[str, Any] = {name: tuple(value) if name in REPEATED else value for name, value in launch.items()}
    if like := given.pop("like", ""):
        from wsemu.app.launch_file import LaunchFile

        return LaunchFile.read(Path(like)).options(Path(like), given).words()
    return Options(**given).words()
