"""Run a check in a separate process, so that `--watch` and the language server stay responsive.

The process writes the names of the sources that it used into a file, whose name is in an environment variable.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from wsemu.app.exit_codes import INTERNAL
from wsemu.model.own import is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SOURCES = "WSEMU_SOURCES_FILE"
"""environment variable with the file for the names of the sources"""
_SECONDS_TO_STOP = 2.0
_OF_THE_START = ("sitecustomize", "usercustomize")
"""modules that Python imports at its start, wherever they lie: no sources of a program"""


class CheckProcess:
    """One run of `wsemu`, which can be stopped, and the sources that it used."""

    def __init__(
        self,
        words: Sequence[str],
        folder: str | None = None,
        output: IO[bytes] | None = None,
        *,
        module: str = "wsemu",
    ) -> None:
        """Start `python -m wsemu WORDS` in a folder; standard output is this process's, or goes to a file."""
        number, self._file = tempfile.mkstemp(prefix="wsemu-sources-", suffix=".json")
        os.close(number)
        command = [sys.executable, "-m", module, *words]
        environment = {**os.environ, SOURCES: self._file}
        errors = None if output is None else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )

    @property
    def code(self) -> int | None:
        """Return the exit code; None while the process runs."""
        code = self._process.poll()
        return INTERNAL if code is not None and code < 0 else code

    def wait(self, seconds: float) -> int | None:
        """Wait at most this number of seconds; return the exit code, None if the process still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.code

    def stop(self) -> None:
        """End the process."""
        if self.code is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> list[str]:
        """End the process if it is running; return the sources that it used, or none if it did not finish."""
        self.stop()
        try:
            found = json.loads(Path(self._file).read_text(encoding="utf-8") or "[]")
        except (OSError, ValueError):
            return []
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._file)
        return [name for name in found if isinstance(name, str)]


def write_sources(files: Iterable[str]) -> None:
    """Write the names of this process's sources, `files` among them, if a watching process requests them."""
    wanted = os.environ.get(SOURCES)
    if not wanted:
        return
    modules = [
        getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name not in _OF_THE_START
    ]
    names = [*files, *linecache.cache, *(name for name in modules if name)]
    sources = sorted({os.path.realpath(name) for name in names if _is_source(name)})
    with contextlib.suppress(OSError):
        Path(wanted).write_text(json.dumps(sources), encoding="utf-8")


def _is_source(name: str) -> bool:
    """Return whether a file is a source of the user: it exists, and is not part of an installed package."""
    path = os.path.realpath(name)
    return os.path.isfile(path) and not is_own(path) and not path.startswith(_installed_folders())


def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    return tuple({os.path.realpath(folder) + os.sep for folder in folders})
