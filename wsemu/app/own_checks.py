"""Run a program again with an edit, to see whether its own assertions hold: with an edit, a launch may be verified, but
compute something else.

The program runs in a process that cannot change anything outside of it.  The process may not write files, start
processes or open connections: if the program tries, its checks are unknown.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.machinery
import io
import json
import linecache
import os
import re
import subprocess
import sys
import traceback
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.machine import cache
from wsemu.model.cure import PASS
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.settings import Settings, using
from wsemu.repair.questions import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.launch.result import Report
    from wsemu.model.cure import Cure, Trials

_PASSED, _FAILED, _UNKNOWN = 0, 1, 2
"""exit codes of the process"""
_TRIED = 3
"""maximum number of edits with which a program is run again"""
_LONGER = 5
"""time limit of a run, as a multiple of the seconds of the search for edits"""
_FORBIDDEN = frozenset(
    "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown os.system os.exec os.fork "
    "os.forkpty os.posix_spawn os.spawn os.kill os.putenv subprocess.Popen socket.connect socket.bind socket.sendto "
    "shutil.rmtree shutil.move shutil.copyfile".split()
)
"""audit events that the program must not cause"""
_KEEPING = frozenset(("os.rename", "os.remove", "os.mkdir"))
"""events that are allowed in the folder in which wsemu keeps compiled code"""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OWN = ("cache", "/dev/null", "/dev/shm")
"""parts of paths that the program may write: caches of compiled code"""
_CHECKS = ("assert", "allclose", "array_equal")
"""parts of the names of functions that check results"""
_ENDS = re.compile(r"_?(?:System)?[eE]xit$")
"""names of functions that end a program"""


class Forbidden(BaseException):
    """The program tried to change something outside of the process."""


class _Run(NamedTuple):
    """A program, its arguments and its settings."""

    file: str
    arguments: tuple[str, ...]
    module: str


@dataclass(slots=True)
class OwnChecks:
    """The checks of the current program."""

    run: _Run
    settings: Settings
    _known: dict[str, str] = field(default_factory=dict)
    """text of a file -> the result of the checks with it"""

    @classmethod
    def of(cls, file: Path, arguments: tuple[str, ...], module: str, settings: Settings) -> OwnChecks | None:
        """Return the checks of a Python program; None if it has none."""
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return cls(_Run(str(file), tuple(arguments), module), settings) if has_checks(tree) else None

    def confirm(self, report: Report) -> Report:
        """Return a report whose first fixes include the result of the program's checks; fixes that edit values are
        removed if the checks fail."""
        trials = report.trials
        if trials is None or not trials.cures or not self.settings.fix_budget:
            return report
        return report.model_copy(update={"trials": self._confirm_first(trials)})

    def _confirm_first(self, trials: Trials) -> Trials:
        cures = [*trials.cures]
        tried, lost = 0, 0
        while cures and tried < _TRIED:
            first, tried = cures[0], tried + 1
            found = self._check(first)
            cures[0] = first.model_copy(update={"checks": found})
            if found in ("", PASS) or {edit.kind for edit in first.edits} <= ORDERS:
                break
            lost += sum(cure.results == first.results for cure in cures)
            cures = [cure for cure in cures if cure.results != first.results]
        if cures and cures[0].checks == PASS:
            cures = [cure for cure in cures if cure.results == cures[0].results]
        if cures and cures[0].results:
            cures = [cure.model_copy(update={"differs": ""}) if n == 0 else cure for n, cure in enumerate(cures)]
        stopped = trials.stopped
        if not cures and lost:
            stopped = f"edits that remove the errors fail the program's own checks ({lost} tried)"
        return trials.model_copy(update={"cures": cures, "stopped": stopped})

    def _check(self, cure: Cure) -> str:
        """Run the program with an edit; return the result of the program's checks."""
        try:
            text = cure.applied("".join(linecache.getlines(cure.file)))
        except ValueError:
            return ""
        if not cure.changes:
            return ""
        if text not in self._known:
            self._known[text] = self._start_process(cure.file, text)
        return self._known[text]

    def _start_process(self, file: str, text: str) -> str:
        asked = {"run": self.run, "edited": file, "text": text, "arch": self.settings.arch, "fma": self.settings.fma}
        command = [sys.executable, "-c", "from wsemu.app.own_checks import main; main()"]
        try:
            done = subprocess.run(
                command, input=json.dumps(asked).encode(), capture_output=True, check=False,
                timeout=_LONGER * self.settings.fix_budget, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""
        if done.returncode == _PASSED:
            return PASS
        return done.stderr.decode(errors="replace").strip() if done.returncode == _FAILED else ""


def has_checks(tree: ast.Module) -> bool:
    """Return whether the host code of a program asserts, calls a comparison function, or exits with a code."""
    kernels = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list)
        for inner in ast.walk(node)
    }
    return any(_checks(node) for node in ast.walk(tree) if id(node) not in kernels)


def _checks(node: ast.AST) -> bool:
    if isinstance(node, (ast.Assert, ast.Raise)):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).rpartition(".")[2]
    return any(part in name for part in _CHECKS) or (_ENDS.match(name) is not None and bool(node.args))


# -- code of the process -----------------------------------------------------------------------------------------------
def main() -> None:
    """Run the program that standard input describes; the exit code is the result of its checks."""
    asked = json.loads(sys.stdin.buffer.read())
    answers = os.dup(2)
    quiet = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(quiet, number)
    code, words = _run_edited(_Run(*asked["run"]), asked)
    os.write(answers, words.encode())
    os._exit(code)


def _run_edited(run: _Run, asked: dict[str, Any]) -> tuple[int, str]:
    """Run a program with the text of one file replaced; return the exit code of the process, and the failure."""
    from wsemu.app.program_file import run_as_main
    from wsemu.host import takeover
    from wsemu.launch.hooks import adding_hook, observers, refused

    verdicts: list[str] = []
    missing: list[Any] = []
    settings = Settings(fix_budget=0.0, arch=asked["arch"], fma=asked["fma"])
    is_edited = os.path.realpath(run.file) == os.path.realpath(asked["edited"])
    try:
        with (
            _replace_text(asked["edited"], asked["text"], *[run.file] * is_edited),
            using(settings),
            takeover.numba_cuda(),
            run_as_main(Path(run.file), run.arguments, run.module),
            adding_hook(observers, lambda report: verdicts.append(report.verdict)),
            adding_hook(refused, lambda *given: missing.append(given)),
        ):
            sys.addaudithook(forbid_changes)
            _execute(run, asked["text"] if is_edited else None)
    except SystemExit as exit_:
        failed = exit_.code not in (None, 0)
        words = f"it ends with exit code {exit_.code}" if isinstance(exit_.code, int) else str(exit_.code)
        return _judge(verdicts, missing, words if failed else "")
    except Exception as error:
        return _judge(verdicts, missing, _describe(error, run.file, asked["text"] if is_edited else ""))
    except BaseException:
        return _UNKNOWN, ""
    return _judge(verdicts, missing, "")


def _judge(verdicts: list[str], missing: list[Any], words: str) -> tuple[int, str]:
    """Return the exit code for a program that has ended, and a description if it failed.  If another launch failed,
    that explains the failure."""
    if "failed" in verdicts or missing or not verdicts:
        return _UNKNOWN, ""
    return (_FAILED, words) if words else (_PASSED, "")


def _describe(error: Exception, file: str, edited: str) -> str:
    """Return the program's line that raised an exception, numbered as without the edit."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not frames:
        return f"`{type(error).__name__}`"
    line, number = (frames[-1].line or "").strip(), frames[-1].lineno or 0
    number = _original_line(number, edited, Path(file).read_text(encoding="utf-8")) if edited else number
    return f"`{line or type(error).__name__}` in line {number}"


def _original_line(number: int, edited: str, text: str) -> int:
    """Return the number of a line of the edited text in the original text."""
    blocks = difflib.SequenceMatcher(None, text.splitlines(), edited.splitlines(), autojunk=False).get_matching_blocks()
    return next((number - b + a for a, b, size in blocks if b < number <= b + size), number)


def _execute(run: _Run, text: str | None) -> None:
    """Run a program, perhaps with another text."""
    if run.module:
        import runpy

        runpy.run_module(run.module, run_name="__main__", alter_sys=True)
        return
    program = types.ModuleType("__main__")
    program.__file__ = run.file
    sys.modules["__main__"] = program
    exec(compile(Path(run.file).read_bytes() if text is None else text, run.file, "exec"), program.__dict__)


@contextlib.contextmanager
def _replace_text(file: str, text: str, *names: str) -> Iterator[None]:
    """Inside the block, imports, kernel compilers and tracebacks read another text for a file."""
    data, real = text.encode(), os.path.realpath(file)
    read = importlib.machinery.SourceFileLoader.get_data

    def get_data(self: Any, path: str) -> bytes:
        return data if os.path.realpath(path) == real else read(self, path)

    def path_stats(self: Any, path: str) -> Any:
        if os.path.realpath(path) == real:
            raise OSError  # the cached bytecode belongs to the original text
        return stats(self, path)

    stats = importlib.machinery.SourceFileLoader.path_stats
    importlib.machinery.SourceFileLoader.get_data = get_data  # type: ignore[method-assign]
    importlib.machinery.SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]
    for name in {file, real, *names}:
        linecache.cache[name] = (len(data), None, io.StringIO(text).readlines(), name)
    try:
        yield
    finally:
        importlib.machinery.SourceFileLoader.get_data = read  # type: ignore[method-assign]
        importlib.machinery.SourceFileLoader.path_stats = stats  # type: ignore[method-assign]


def forbid_changes(event: str, arguments: Any) -> None:
    """Raise Forbidden for an event that changes something outside of the process."""
    if event in _FORBIDDEN and not (event in _KEEPING and _keeps_code(arguments)):
        raise Forbidden(event)
    if event != "open" or isinstance(arguments[0], int):  # a descriptor, whose file was opened before
        return
    writes = arguments[2] & _WRITES and not any(part in str(arguments[0]) for part in _OWN)
    if writes and not _keeps_code(arguments[:1]):
        raise Forbidden(str(arguments[0]))


def _keeps_code(arguments: Sequence[Any]) -> bool:
    """Return whether all paths of an event are in the folder in which wsemu keeps compiled code."""
    place = cache.folder()
    paths = [Path(os.fsdecode(path)) for path in arguments if isinstance(path, (str, bytes, os.PathLike))]
    return place is not None and bool(paths) and all(p.is_relative_to(place) and ".." not in p.parts for p in paths)
