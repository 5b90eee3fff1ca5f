"""The cell magic `%%wsemu`, which `%load_ext wsemu` registers: run a notebook's cell, and show reports of its launches.

Such a cell starts with `%%wsemu --arch sm_100 --trace`.  Inside it `wsemu.cuda` replaces `numba.cuda`, also for kernels
and names that earlier cells have from Numba-CUDA.  If no GPU is found, the extension replaces it in all cells.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import shlex
from typing import TYPE_CHECKING, Any, get_args

from wsemu.backends.driver import has_gpu
from wsemu.host import takeover
from wsemu.host.replaced_names import replace_names, replacing_names, restore_names
from wsemu.launch.hooks import adding_hook, observers, traceable
from wsemu.launch.tracing import build
from wsemu.model import settings
from wsemu.model.arch import arch_of
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.launch.timeline import Timeline
    from wsemu.model.outcome import Tracer

OPTIONS = {
    "--trace": "show the time line and the costs of each launch",
    "--strict": "as `wsemu check --strict`",
    "--every": "as `wsemu check --every`",
    "--arch": "architecture, such as `sm_100`",
    "--engine": "`vm` or `reference`",
}
"""option -> its meaning; the last two options take a value"""
WITH_VALUES = ("--arch", "--engine")


_NO_GPU = "note: no GPU here: from now on `numba.cuda` is `wsemu.cuda` in this notebook, until `%unload_ext wsemu`"
_replaced: dict[str, tuple[Any, Any]] = {}
"""names of the notebook that `load_ipython_extension` has replaced"""


def load_ipython_extension(shell: Any) -> None:
    """Register `%%wsemu` with an IPython shell; if no GPU is found, replace Numba-CUDA in all cells."""

    def check_cell(line: str, cell: str) -> Any:
        return run_cell(shell, line, cell)

    check_cell.__doc__ = "Check the launches of a cell.\n\n" + "\n".join(f"{n:10}{text}" for n, text in OPTIONS.items())
    shell.register_magic_function(check_cell, "cell", "wsemu")
    if not has_gpu() and not takeover.is_in_force():
        takeover.install()
        _replaced.update(replace_names(shell.user_ns))
        print(_NO_GPU)


def unload_ipython_extension(shell: Any) -> None:
    """Restore Numba-CUDA in the notebook."""
    takeover.remove()
    restore_names(shell.user_ns, _replaced)
    _replaced.clear()


@contextlib.contextmanager
def _replacing_numba(names: dict[str, Any]) -> Iterator[None]:
    """Inside the `with` block, `wsemu.cuda` replaces `numba.cuda` and Numba-CUDA's objects in the notebook."""
    if takeover.is_in_force():
        yield
        return
    with takeover.numba_cuda(), replacing_names(names):
        yield


def run_cell(shell: Any, line: str, cell: str) -> Any:
    """Run a cell, display the report of each of its launches, and return the value of its last expression."""
    try:
        chosen, traces = parse_options(line)
    except UsageError as error:  # IPython shows it without a traceback
        raise importlib.import_module("IPython.core.error").UsageError(str(error)) from None
    with (
        settings.using(dataclasses.replace(settings.current(), **chosen)),
        _replacing_numba(shell.user_ns),
        _displaying(shell, traces),
    ):
        return _execute(shell, cell)


def parse_options(line: str) -> tuple[dict[str, Any], bool]:
    """Return the settings in a line, and whether it requests time lines."""
    try:
        words = iter(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"the options of %%wsemu cannot be split: {str(error).lower()}") from None
    chosen: dict[str, Any] = {}
    for word in words:
        name, has_value, value = word.partition("=")
        if name not in OPTIONS or (has_value and name not in WITH_VALUES):
            raise UsageError(f"%%wsemu has no option `{word}`: {', '.join(OPTIONS)}")
        if name in WITH_VALUES and not has_value:
            value = next(words, "")
        if name in WITH_VALUES and not value:
            raise UsageError(f"`{name}` needs a value")
        if name == "--arch":
            arch_of(value)
        elif name == "--engine" and value not in get_args(settings.Engine):
            raise UsageError(f"`--engine {value}`: give {' or '.join(get_args(settings.Engine))}")
        chosen[name[2:]] = value if name in WITH_VALUES else True
    return chosen, bool(chosen.pop("trace", False))


@contextlib.contextmanager
def _displaying(shell: Any, traces: bool) -> Iterator[None]:
    """Display each report, and after it its time line."""
    display = importlib.import_module("IPython.display").display
    lines: list[Timeline] = []

    def draw(report: Report, places: Places, tracer: Tracer) -> None:
        lines.append(build(report, places, tracer))

    def show(report: Report) -> None:
        display(report.helped())
        while lines:
            display(lines.pop())

    with adding_hook(observers, show), adding_hook(traceable, draw) if traces else contextlib.nullcontext():
        yield


def _execute(shell: Any, cell: str) -> Any:
    """Execute a cell in the user's namespace; as in the notebook, the magic is on line 1."""
    source = "\n" + shell.transform_cell(cell)
    number = len(shell.history_manager.input_hist_parsed) - 1  # number of this cell, in every version of IPython
    name = shell.compile.cache(source, number, raw_code=cell)
    statements = ast.parse(source, name)
    last = statements.body.pop() if statements.body and isinstance(statements.body[-1], ast.Expr) else None
    exec(compile(statements, name, "exec"), shell.user_ns)
    return eval(compile(ast.Expression(last.value), name, "eval"), shell.user_ns) if last is not None else None
