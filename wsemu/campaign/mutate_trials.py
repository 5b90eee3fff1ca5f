"""Trials of `wsemu mutate`: a function, a program, or tests in an open pytest session."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.campaign.mutate import Failure, describe_failure
from wsemu.campaign.user_file import import_file
from wsemu.model.errors import UsageError, WsemuError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.campaign.mutate import Trial

HELP = "give FILE::test, such as tests/test_copy.py::test_rows, or a program"


def run_with_trials(target: str, use: Callable[[Sequence[Trial]], None]) -> None:
    """Call `use` with the trials of `FILE::test`, `FILE::function` or `FILE`; the trials can be run until `use`
    returns.  Raise UsageError if there are none."""
    file, _, name = target.partition("::")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"`{file}` does not exist: {HELP}")
    if path.suffix != ".py":
        raise UsageError(f"`{file}` is no Python file: mutants are of kernels in Python")
    if is_test(path, name):
        run_in_pytest(target, use)
    elif name:
        use([_load_function(path, name)])
    else:
        use([Program(path)])


def is_test(file: Path, name: str) -> bool:
    """Return whether pytest runs a function as a test."""
    if name.isidentifier() and not name.startswith("test"):
        return False
    named = bool(name) or file.name.startswith("test_") or file.stem.endswith("_test")
    if named and importlib.util.find_spec("pytest") is None:
        if name.isidentifier():
            return False
        raise UsageError(f"`{file}` is for pytest, which is not installed: `pip install pytest`")
    return named


class Called:
    """A function without parameters."""

    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        self.name, self.function = name, function

    def run(self) -> Failure | None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                self.function()
        except (Exception, SystemExit) as error:
            return _failure(error)
        return None


def _load_function(file: Path, name: str) -> Called:
    """Return the function of a file as a trial."""
    try:
        module = import_file(file)
    except WsemuError as error:
        raise UsageError(f"`{file}` cannot be imported: {error}") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"`{file}` cannot be imported: {type(error).__name__}: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"`{file}` has no function `{name}`: {HELP}")
    free = [p.name for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]  # fmt: skip
    if free:
        raise UsageError(f"`{name}` takes `{free[0]}`: give a function that launches by itself, or a test of pytest's")
    return Called(f"{file.as_posix()}::{name}", function)


class Program:
    """A program, run like `python FILE`."""

    def __init__(self, file: Path) -> None:
        self.file, self.name = file, file.as_posix()

    def run(self) -> Failure | None:
        argv, path = sys.argv, [*sys.path]
        sys.argv, sys.path[:0] = [str(self.file)], [os.path.dirname(os.path.realpath(self.file))]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path(str(self.file), run_name="__main__")
        except (Exception, SystemExit) as error:
            return _failure(error)
        finally:
            sys.argv, sys.path[:] = argv, path
        return None


def _failure(error: BaseException) -> Failure | None:
    if isinstance(error, SystemExit):
        return Failure("test", f"exit code {error.code}") if error.code else None
    return describe_failure(error)


# -- pytest ------------------------------------------------------------------------------------------------------------
class Item:
    """A test in a pytest session, run with all its fixtures, including those of the session."""

    def __init__(self, item: Any) -> None:
        self.item, self.name = item, str(item.nodeid)
        self.raised: BaseException | None = None
        """exception of its last run, as observed by the pytest plugin"""

    def run(self) -> Failure | None:
        from _pytest.runner import runtestprotocol

        if hasattr(self.item, "_initrequest"):
            self.item._initrequest()
        self.raised = None
        running.append(self)
        try:
            reports = runtestprotocol(self.item, log=False, nextitem=None)
        finally:
            running.remove(self)
        failed = next((report for report in reports if report.failed), None)
        if failed is None:
            return None
        if self.raised is not None:
            return describe_failure(self.raised)
        return Failure("test", str(failed.longrepr).partition("\n")[0])


running: list[Item] = []
"""the test that runs as a trial, for the plugin"""


class _Session:
    """A plugin of pytest that returns the tests of a session instead of running them."""

    def __init__(self, use: Callable[[Sequence[Trial]], None]) -> None:
        self.use = use
        self.error: UsageError | None = None
        self.ran = False

    def loop(self, session: Any) -> bool:
        self.ran = True
        try:
            if session.testsfailed:
                raise UsageError("the tests cannot be collected: `pytest` says why")
            self.use([Item(item) for item in session.items])
        except UsageError as error:
            self.error = error
        return True


def run_in_pytest(target: str, use: Callable[[Sequence[Trial]], None]) -> None:
    """Call `use` with tests inside a session of pytest's."""
    import pytest

    made = _Session(use)

    class Plugin:
        """The hooks for pytest."""

        @staticmethod
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(session: pytest.Session) -> bool:
            return made.loop(session)

    options = ["-q", "-p", "no:cacheprovider", *(["-n0"] if importlib.util.find_spec("xdist") else [])]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # because wsemu is already imported
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*options, target], plugins=[Plugin()])
    if made.error is not None:
        raise made.error
    if not made.ran:
        raise UsageError(f"pytest finds no `{target}`, or cannot import it: `pytest {target}` says why")
