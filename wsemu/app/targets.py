"""Targets of a command: a program, launches of PTX or CUDA C++, a launch file, or a folder of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app.own_launch import find_commented, find_own
from wsemu.app.program_file import Target, has_main, is_ptx
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.app.ptx_launch import Options


def find_targets(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> list[Target]:
    """Return the targets of a command: the file with its arguments, or the launches of a launch file or a folder of
    launch files.

    `launch` are the options of a launch.  Raise UsageError for options and arguments that the file does not accept.
    """
    is_folder = file.is_dir()
    if not is_folder and file.suffix.lower() != ".json":
        if has_main(file) and not launch.keys() - {"nvcc"} and not find_own(file, launch):
            return [Target(file, arguments, flags=tuple(launch.get("nvcc", ())))]
        if is_ptx(file):
            return [Target(file, options.words(), True) for options in _launches(file, arguments, launch)]
        return [Target(file, _words(file, arguments, launch))]
    from wsemu.app.launch_file import launches

    if arguments:
        raise UsageError(f"`{arguments[0]}` after `{file}`: its launches take no arguments but those that it lists")
    if launch:
        option = f"--{next(iter(launch)).replace('_', '-')}"
        raise UsageError(f"`{option}` is for PTX and CUDA C++: `{file}` describes its launches itself")
    found = launches(file)
    if is_folder:
        sources = sorted(file.glob("*.cu"))
        found += [Target(source, options.words(), True) for source in sources for options in find_commented(source)]
    if not found:
        raise UsageError(
            f"`{file}` is a folder, not a program, and has no launch files (.json) and no CUDA C++ with a launch "
            "comment (`// wsemu: launch`): give a program, CUDA C++ or PTX"
        )
    return found


def find_target(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> Target:
    """Return the single target of a command; raise UsageError for a folder or file with several launches."""
    found = find_targets(file, arguments, launch)
    if len(found) > 1:
        remedy = "give one of them" if file.is_dir() else "choose one by `--entry`, or give one with `--like`"
        what = "launch files" if file.is_dir() else "launches"
        raise UsageError(f"`{file}` has {len(found):,} {what}: {remedy}")
    return found[0]


def _words(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> Sequence[str]:
    """Return the arguments of a program; raise UsageError if there are options of a launch."""
    if launch:
        option = f"--{next(iter(launch)).replace('_', '-')}"
        raise UsageError(
            f"`{option}` is for PTX and CUDA C++: `{file}` is a program, which launches its kernels itself"
        )
    return arguments


def _launches(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> list[Options]:
    """Return the launches of a file of kernels: from the options, from `--like`, or from its comments."""
    if arguments:
        word = arguments[0]
        remedy = "give options without a `--` before them" if word[:1] == "-" else f"give an argument as `--arg {word}`"
        kind = "PTX" if file.suffix.lower() == ".ptx" else "CUDA C++"
        raise UsageError(f"`{word}` after `{file}`, which is {kind} and takes no words: {remedy}")
    from wsemu.app.ptx_launch import REPEATED, Options

    given: dict[str, Any] = {name: tuple(value) if name in REPEATED else value for name, value in launch.items()}
    if like := given.pop("like", ""):
        from wsemu.app.launch_file import LaunchFile

        return [LaunchFile.read(Path(like)).options(Path(like), given)]
    return (find_own(file, given) if file.is_file() else []) or [Options(**given)]
