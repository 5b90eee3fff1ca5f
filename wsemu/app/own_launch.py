"""Find the launches that a file of kernels describes itself, for `wsemu check kernel.cu`.

    // wsemu: launch --entry 'sums<true>' --grid 1 --block 64 --arg 'f32[3,32]:arange'
    //   --arg 'f32[32]:empty' --arg i32:3

Several comments are several launches.  A comment continues in comment lines that begin with `--`.  It may
be `/* wsemu: launch ... */` as well, of any number of lines.  A file without comments may have a launch file beside it,
`kernel.launch.json`.  A comment may have what a launch file may have: files that it names are below the folder, and it
writes none.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app.program_file import DATA_OPTIONS
from wsemu.model.errors import UsageError
from wsemu.model.own_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wsemu.app.launch_file import LaunchFile
    from wsemu.app.ptx_launch import Options

_LARGEST = 16 << 20
"""maximum size in bytes of a source that is searched"""
_BEGIN = re.compile(r"(?P<mark>//|/\*)[ \t]*wsemu:[ \t]*launch\b")
_FURTHER = re.compile(r"[ \t]*//[ \t]*(?=--)([^\n]*)(?:\n|$)")


def find_own(file: Path, given: Mapping[str, Any]) -> list[Options]:
    """Return the launches that a file describes; options in `given` replace the same options in the file.  The result
    is empty if the file describes none.

    With `entry` among the options, only launches of this kernel are returned.  Raise UsageError, which names the line,
    for an invalid comment.
    """
    from wsemu.app.launch_file import LaunchFile

    found = _commented_launches(file)
    beside = file.with_suffix(".launch.json")
    if not found and beside.is_file():
        found = [(beside, LaunchFile.read(beside))]
    entry = given.get("entry")
    return [
        launch.options(path, given) for path, launch in found if not (entry and launch.entry) or entry == launch.entry
    ]


def find_commented(file: Path) -> list[Options]:
    """Return the launches that the comments of a file describe."""
    return [launch.options(path, {}) for path, launch in _commented_launches(file)]


def _commented_launches(file: Path) -> list[tuple[Path, LaunchFile]]:
    text = read_regular(file, _LARGEST).decode(errors="replace")
    return [(file, _read(file, line, words)) for line, words in _comments(text)]


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each comment that describes a launch."""
    for begin in _BEGIN.finditer(text):
        line = text.count("\n", 0, begin.start()) + 1
        end = text.find("*/" if begin["mark"] == "/*" else "\n", begin.end())
        end = len(text) if end < 0 else end
        words = text[begin.end() : end]
        if begin["mark"] == "//":
            while further := _FURTHER.match(text, end + 1):
                words, end = f"{words} {further[1]}", further.end() - 1
        yield line, re.sub(r"\\?\n[ \t]*\*?", " ", words.rstrip(" \t\r\\"))


def _read(file: Path, line: int, words: str) -> LaunchFile:
    """Return the launch that a comment describes; a UsageError names the comment's line."""
    from wsemu.app.launch_file import LaunchFile
    from wsemu.app.ptx_launch import Options

    where = f"{file.name}:{line}: the launch in this comment"
    try:
        given = _split(words)
        if wrong := next((word for word in given[::2] if word.startswith("--") and word not in DATA_OPTIONS), None):
            Options.read([wrong, ""])  # not a valid option
            raise UsageError(f"`{wrong}` is for the command line")
        options = Options.read(given)
        return LaunchFile.of(options)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _split(words: str) -> list[str]:
    """Return the words of a comment, with `--grid=4` as two words."""
    try:
        split = shlex.split(words)
    except ValueError as error:
        raise UsageError(f"its words cannot be split: {str(error).lower()}") from None
    return [
        part for word in split for part in (word.split("=", 1) if word.partition("=")[0] in DATA_OPTIONS else [word])
    ]
