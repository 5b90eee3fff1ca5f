"""`wsemu ...` and `python FILE ...` as they are typed, without the second that a new process takes to start.

A command runs in this process and finds what a new one would: its own `sys.argv`, working folder, environment, output,
settings, filters of warnings and random numbers, no source line and no module of an earlier program, and a machine that
is compiled: what a first start says of that is left out.  Afterwards all is as before.  What is about the process
itself (signals, file descriptors, what gets imported) is tested in one.
"""

from __future__ import annotations

import contextlib
import contextvars
import gc
import io
import linecache
import os
import random
import runpy
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO, TYPE_CHECKING

import numpy as np

from wsemu.cli import main
from wsemu.frontend.python.source import _code_source
from wsemu.host import takeover  # noqa: F401 - its hook is there before they are first put back
from wsemu.launch import hooks
from wsemu.machine.build import COMPILING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Done = CompletedProcess[str]
_HOOKS = [hook for hook in vars(hooks).values() if isinstance(hook, list)]


def wsemu(*arguments: object, cwd: Path | None = None, **environment: str) -> Done:
    """Run `wsemu ARGUMENTS` in a folder, with additional environment variables."""
    return _done(["wsemu", *map(str, arguments)], main, cwd, {"NO_COLOR": "1", **environment})


def python(file: Path, *arguments: object, cwd: Path | None = None, **environment: str) -> Done:
    """Run `python FILE ARGUMENTS` in a folder, with additional environment variables."""

    def program() -> None:
        sys.path[0] = str(file.resolve().parent)
        runpy.run_path(str(file), run_name="__main__")

    return _done([str(file), *map(str, arguments)], program, cwd, environment)


def _done(argv: list[str], run: Callable[[], None], cwd: Path | None, environment: dict[str, str]) -> Done:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _as_a_new_process(argv, cwd or Path.cwd(), environment), _writing_to(out.fileno(), err.fileno()):
            code = contextvars.Context().run(_exit_code, run)
        return CompletedProcess(argv, code, _read(out), _read(err).replace(f"{COMPILING}\n", ""))


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8")


def _exit_code(run: Callable[[], None]) -> int:
    """Return the exit code of a process that would run this; Python's own message for an exception is on standard
    error."""
    try:
        run()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def _writing_to(out: int, err: int) -> Iterator[None]:
    """Redirect standard output and error to files, as if they went to a document; a program may close them."""
    before = sys.stdin, sys.stdout, sys.stderr
    made = [open(os.dup(number), "w", encoding="utf-8", buffering=1) for number in (out, err)]  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), *made
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in made:
            stream.close()


@contextlib.contextmanager
def _as_a_new_process(argv: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(_restored(argv, environment))
        stack.enter_context(warnings.catch_warnings())
        _as_python_warns()
        yield


def _as_python_warns() -> None:
    """Use the filters with which Python starts, and print warnings to standard error."""
    warnings.resetwarnings()
    for hidden in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", hidden)
    warnings.showwarning = lambda *said, **_: print(warnings.formatwarning(*said[:4]), end="", file=sys.stderr)


@contextlib.contextmanager
def _restored(argv: list[str], environment: dict[str, str]) -> Iterator[None]:
    """Give the `with` block its own `sys`, `os.environ`, hooks, source lines and random numbers, and restore them
    afterwards."""
    variables, path, before, modules = dict(os.environ), [*sys.path], sys.argv, dict(sys.modules)
    excepthook, limit, garbage = sys.excepthook, sys.getrecursionlimit(), gc.get_threshold()
    drawn, seeded = random.getstate(), np.random.get_state()
    hooked, lines = [[*hook] for hook in _HOOKS], dict(linecache.cache)
    os.environ.update(environment)
    sys.argv = argv
    sys.path.insert(0, os.getcwd())
    _forget_sources()
    for hook in _HOOKS:
        hook.clear()
    random.seed()
    np.random.seed()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:], sys.argv, sys.excepthook = path, before, excepthook
        _forget_modules(modules)
        sys.setrecursionlimit(limit)
        gc.set_threshold(*garbage)
        random.setstate(drawn)
        np.random.set_state(seeded)
        for hook, entries in zip(_HOOKS, hooked, strict=True):
            hook[:] = entries
        _forget_sources()
        linecache.cache.update(lines)


def _forget_sources() -> None:
    """Forget what is cached by file name: `program.py` in another folder is another file."""
    linecache.clearcache()
    _code_source.cache_clear()


def _forget_modules(before: Mapping[str, object]) -> None:
    """Forget modules that a program imported: those that Python would not find without it."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name not in before and file and not _is_found(Path(file)):
            del sys.modules[name]


def _is_found(file: Path) -> bool:
    return any(entry and file.is_relative_to(entry) for entry in map(os.path.realpath, sys.path))
