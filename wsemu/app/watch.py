"""`wsemu check --watch FILE`: check again after each change of a source.

Changes are detected by polling the times and sizes of the files four times a second.  This has no measurable cost for a
few dozen files, and needs no package.  It also works in containers, on network drives and on WSL, where the system does
not report changes of files.  Each check runs in a new process, which imports the current sources.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from wsemu.app.check_process import CheckProcess
from wsemu.report.diagnostic import plural
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SECONDS = 0.25
"""interval between two polls of the files, in seconds"""
SUFFIXES = (".py", ".cu", ".cuh", ".h", ".hpp", ".inc", ".ptx", ".toml")
"""sources next to the program, watched between checks: a check may write some itself"""
WRITTEN = (".npz", ".npy", ".html", ".sarif", ".xml")
"""files that a command writes"""
State = dict[str, tuple[int, int] | None]
"""file -> time and size; None: it does not exist"""


def watch_program(words: Sequence[str], *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Run the command without `--watch` repeatedly until Ctrl+C; return the exit code of the last run."""
    command = drop_watch_option(words)
    printer, code = Printer(sys.stderr), 0
    sources = _named_files(command)
    try:
        while True:
            state = read_state(sources)
            check = CheckProcess(command)
            try:
                while check.code is None and read_state(sources) == state:
                    check.wait(SECONDS)
                finished = check.code
            finally:
                used = check.close()
            if finished is not None:
                code = finished
                sources = {*sources, *used}
                state = {**read_state(sources), **state}
            watched = {**read_state(_neighbors(sources)), **state}
            if finished is not None:
                if not watched:  # none of the command's files exists
                    return finished
                printer.text(f"watching {plural(len(watched), 'file')}: Ctrl+C ends")
            while read_state(watched) == watched:
                sleep(SECONDS)
            printer.text("changed: checking again", "strong")
    except KeyboardInterrupt:
        return code


def drop_watch_option(words: Sequence[str]) -> list[str]:
    """Return the words of the command without `--watch`; after `--`, the option belongs to the program and stays."""
    end = words.index("--") if "--" in words else len(words)
    return [*(word for word in words[:end] if word != "--watch"), *words[end:]]


def read_state(files: Iterable[str]) -> State:
    """Return the times and sizes of files."""
    return {file: _file_state(file) for file in files}


def _file_state(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _named_files(words: Sequence[str]) -> set[str]:
    """Return the files among the words of a command, and the launch files of a folder."""
    files = {os.path.realpath(word) for word in words if os.path.isfile(word) and not word.endswith(WRITTEN)}
    for folder in filter(os.path.isdir, words):
        files |= {os.path.realpath(entry.path) for entry in os.scandir(folder) if entry.name.endswith(".json")}
    return files


def _neighbors(files: Iterable[str]) -> set[str]:
    """Return the sources in the folders of files."""
    found = set()
    for folder in {os.path.dirname(file) for file in files}:
        try:
            found |= {entry.path for entry in os.scandir(folder) if entry.name.endswith(SUFFIXES) and entry.is_file()}
        except OSError:
            continue
    return found
