"""The pytest plugin: a fixture and a marker `wsemu`, and the settings of the test run.

    def test_copy(wsemu):
        wsemu.check(copy_tile, 1, 64, (src, dst)).assert_clean(bank_ways=1)

    @pytest.mark.wsemu(lockstep=True, skip=["coalescing"])
    def test_old_kernel(wsemu):
        wsemu.launch(butterfly, 1, 32, (x,))

The table `[tool.wsemu]` in pyproject.toml applies to every launch of the tests, including `kernel[grid, block](...)`.
Options in pytest's configuration (`wsemu_arch = sm_80`) take precedence over the table, options on the command line
(`--wsemu-arch sm_80`) over both, and a marker over all; the names are the same.  Lists in a configuration are separated
by blanks.

pytest loads this module at every start, so a module that takes time to import is imported only when a test needs it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType

    from wsemu.launch.result import Report
    from wsemu.model.settings import Settings

OPTIONS: dict[str, tuple[Literal["string", "bool", "args"], str]] = {
    "arch": ("string", "architecture whose limits apply"),
    "ranks": ("string", "GPUs of one host among which the CTAs of each launch are divided"),
    "sms": ("string", "multiprocessors of the GPU; 0: as many as the largest GPU of the architecture has"),
    "clc": ("string", "CTAs that take the work of canceled clusters: robin, one, or reverse"),
    "heap": ("string", "bytes of the heap from which kernels allocate memory"),
    "fma": ("bool", "contract a * b + c into one rounding, as the GPU's compiler does"),
    "mma": ("string", "sums of matrix instructions: hardware, or exact, rounded once"),
    "budget": ("string", "warp instructions after which a launch ends as incomplete"),
    "effort": (
        "string",
        "multiplies how many interleavings of atomics are explored and how far undefined values are followed",
    ),
    "engine": ("string", "vm, or the slow reference"),
    "only": ("args", "run only these checkers; a finding code selects its checker"),
    "skip": ("args", "do not run these checkers"),
    "numba_ptx": ("bool", "run kernels that wsemu cannot compile itself as PTX of Numba-CUDA, if it is installed"),
    "lockstep": ("bool", "the lanes of a warp run together, as before sm_70"),
    "strict": ("bool", "fail on warnings that the verdict names, and note correct code that looks like a mistake"),
    "managed": ("string", "use of managed memory by host and device: concurrent, or exclusive"),
    "pageable": ("string", "order of asynchronous copies of pageable memory: promised by CUDA, or usual"),
    "every": ("bool", "report for which other array contents and trip counts a verdict also holds"),
    "corners": ("bool", "run representative CTAs of a grid of symmetric CTAs"),
    "fail_on": ("args", "codes of warnings that count as errors"),
    "allow_incomplete": ("bool", "an incomplete launch is a warning, and does not fail its test"),
    "baseline": ("string", "file of findings that are accepted, which `wsemu baseline` writes"),
    "fix_budget": ("string", "CPU seconds for trying fixes of a launch with findings; 0: none"),
    "kernel": ("args", "check only launches of these kernels; * and ? match"),
}
"""names of `[tool.wsemu]` (with `_` for `-`) -> pytest's type of configuration value, help"""
_NUMBERS: dict[str, type[int] | type[float]] = {
    "sms": int,
    "ranks": int,
    "heap": int,
    "budget": int,
    "effort": int,
    "fix_budget": float,
}
_TABLE = re.compile(rb"\btool\s*\.\s*wsemu\b|^\s*wsemu\s*[.=]", re.MULTILINE)
_HERE = os.path.dirname(os.path.realpath(__file__)) + os.sep


class Wsemu:
    """The fixture `wsemu`.  It has no state, so that tests with Hypothesis may use it."""

    def check(self, kernel: Any, grid: Any, block: Any, args: Sequence[Any] = (), **options: Any) -> Report:
        """Run `kernel[grid, block](*args)` with all checks; the options are those of `wsemu.check`."""
        from wsemu.launch.check import check

        return check(kernel, grid, block, args, **options)

    def launch(self, kernel: Any, grid: Any, block: Any, args: Sequence[Any] = (), **options: Any) -> Report:
        """Check a launch; raise CheckFailed with its diagnostics unless it is verified, or `incomplete` and allowed."""
        from wsemu.model.settings import current

        report = self.check(kernel, grid, block, args, **options)
        if report.verdict != "incomplete" or not current().allow_incomplete:
            report.assert_clean()
        return report

    def check_transfer(self, pattern: Any, **options: Any) -> Report:
        """Run one transfer of a pattern, byte by byte; the options are those of `wsemu.check_transfer`."""
        from wsemu.launch.transfer import check_transfer

        return check_transfer(pattern, **options)

    def __repr__(self) -> str:
        return "wsemu"


@pytest.fixture(scope="session")
def wsemu() -> Wsemu:
    """`wsemu.check`, `wsemu.launch` and `wsemu.check_transfer`: kernels on the emulator, with all checks."""
    return Wsemu()


# -- settings --------------------------------------------------------------------------------------------------------
class _Chosen(NamedTuple):
    """The configuration of all tests."""

    path: Path | None
    table: dict[str, Any]
    settings: Settings


_CHOSEN = pytest.StashKey["_Chosen | None"]()
"""None if nothing was configured"""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wsemu", "GPU kernels on the emulator")
    for name, (kind, text) in OPTIONS.items():
        flag = f"--wsemu-{name.replace('_', '-')}"
        if kind == "bool":
            group.addoption(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            group.addoption(flag, action="append" if kind == "args" else "store", metavar=name.upper(), help=text)
        parser.addini(f"wsemu_{name}", text, type=kind, default=None)
    for name, text in _SESSIONS.items():
        group.addoption(f"--wsemu-{name}", action=argparse.BooleanOptionalAction, default=None, help=text)
        parser.addini(f"wsemu_{name}", text, type="bool", default=False)
    group.addoption("--wsemu-mutate", action="store_true", help=_MUTATE)
    for name, text in _MUTATE_OPTIONS.items():
        group.addoption(f"--wsemu-mutate-{name}", action="append", metavar=name.upper(), default=[], help=text)


_SESSIONS = {
    "numba": "run tests with wsemu in place of Numba-CUDA: `from numba import cuda` imports `wsemu.cuda`",
    "cuda": "run the whole session on wsemu's CUDA driver: Triton, torch on `cuda`, CuPy, CuTe DSL, and extensions",
}
"""kinds of sessions -> their help texts"""
_MUTATE = (
    "then change the kernels in one place at a time, and report the mutants that no test detects: exit code 1 if any"
)
_MUTATE_OPTIONS = {"kind": "only mutants of this kind, such as barrier", "kernel": "only mutants of this kernel"}
_TAKEN = pytest.StashKey["ExitStack"]()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Run the session on the driver, or replace Numba-CUDA, before a conftest imports it."""
    if _wants_session(early_config, "cuda") and not os.environ.get(_SERVER):
        _run_on_driver(early_config)
    if not _wants_session(early_config, "numba", default=os.environ.get("WSEMU_NUMBA") == "1"):
        return
    from wsemu.host import takeover
    from wsemu.launch.hooks import adding_hook, undecided

    stack = early_config.stash[_TAKEN] = ExitStack()
    stack.enter_context(takeover.numba_cuda())
    stack.enter_context(takeover.propagating_to_subprocesses())
    stack.enter_context(adding_hook(undecided, _UNDECIDED.append))


def _wants_session(config: pytest.Config, name: str, *, default: bool = False) -> bool:
    """Return whether the command line, or else pytest's configuration, requests a session of this kind."""
    given = getattr(config.known_args_namespace, f"wsemu_{name}")
    return bool(config.getini(f"wsemu_{name}") or default) if given is None else bool(given)


_UNDECIDED: list[Report] = []
"""incomplete launches of Python kernels since the last phase of a test, in a session that replaces Numba-CUDA"""
_SERVER = "WSEMU_SERVER"
"""environment variable of programs on the driver"""
_LAUNCHED = pytest.StashKey[str]()
"""reports of failed launches of the current phase of a test"""
_SECTION = "wsemu: launches of this test"


def _run_on_driver(config: pytest.Config) -> None:
    """Run this session in a process on wsemu's CUDA driver, and end with its exit code."""
    from wsemu.launch.hooks import adding_hook, observers
    from wsemu.model.errors import UsageError
    from wsemu.model.settings import using
    from wsemu.native.server import run_program
    from wsemu.native.session import Watch

    known = vars(config.known_args_namespace)
    given = {name: value for name in OPTIONS if (value := known.get(f"wsemu_{name}")) is not None}
    given = {name: _NUMBERS[name](value) if name in _NUMBERS else value for name, value in given.items()}
    chosen = _resolve_settings(config, given)
    command = [sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)]
    sys.stdout.flush()
    try:
        with using(chosen.settings) if chosen else nullcontext(), adding_hook(observers, lambda _: None):
            ended = run_program(command, Watch())
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    raise SystemExit(ended.code if ended.code >= 0 else 128 - ended.code)


def _take_reports() -> list[tuple[str, str, str]]:
    """Return (verdict, kernel, report) of the launches on the driver since the last call, except verified ones."""
    import ctypes
    import json

    take = ctypes.CDLL("libcuda.so.1").wsemu_take_reports
    take.restype, take.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(_MAX_REPORTS)
    size = take(text, len(text))
    if size > len(text):
        return [("failed", "", f"error: reports of launches take {size:,} bytes, and cannot be shown")]
    found = json.loads(ctypes.string_at(text, size)) if size else []
    return [(verdict, kernel, report) for verdict, kernel, report in found]


_MAX_REPORTS = 4 << 20
"""number of bytes of the reports of a phase: more than a server sends"""


def _clear_error() -> None:
    """Reset the error state that a launch has left on the device."""
    import ctypes

    ctypes.CDLL("libcuda.so.1").wsemu_clear_error()


def _is_on_driver(config: pytest.Config) -> bool:
    return bool(os.environ.get(_SERVER)) and _wants_session(config, "cuda")


def _failed_launches(config: pytest.Config, settings: Settings | None) -> str:
    """Return the reports of the launches since the last call that failed or, unless that is allowed, are incomplete;
    warn of the others."""
    import warnings

    found = _take_reports() if _is_on_driver(config) else []
    if _UNDECIDED:
        from wsemu.launch.result import CheckFailed

        found += [(report.verdict, report.kernel, str(CheckFailed(report))) for report in _UNDECIDED]
        _UNDECIDED.clear()
    allowed = _trial() is not None or (settings is not None and settings.allow_incomplete)
    failed = []
    for verdict, kernel, report in found:
        if verdict == "failed":
            failed.append(report)
        elif allowed:
            warnings.warn(f"a launch of `{kernel}` is {verdict}", stacklevel=2)
        else:
            failed.append(f"{report.rstrip()}\n{_ALLOW}")
    return "\n".join(failed)


_ALLOW = "help: `--wsemu-allow-incomplete` makes an incomplete launch a warning"


@contextmanager
def _checking_launches(item: pytest.Item) -> Generator[None]:
    """Fail a phase of a test whose launches failed on the driver or are incomplete; if it raises, keep their reports
    for its failure."""
    if not _is_on_driver(item.config) and _TAKEN not in item.config.stash:
        yield
        return
    settings = item.stash.get(_SETTINGS, None)
    try:
        yield
    except BaseException as raised:
        item.stash[_LAUNCHED] = text = _failed_launches(item.config, settings)
        if not text or not isinstance(raised, pytest.skip.Exception):
            raise
    else:
        item.stash[_LAUNCHED] = text = _failed_launches(item.config, settings)
    if text:
        pytest.fail(text, pytrace=False)


def _attach_launches(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the reports of failed launches to a failure that does not show them."""
    text = item.stash.get(_LAUNCHED, "")
    item.stash[_LAUNCHED] = ""
    if not text or text in report.longreprtext:
        return
    add = getattr(report.longrepr, "addsection", None)  # these sections also appear in JUnit's XML
    if add is not None:
        add(_SECTION, text)
    else:
        report.sections.append((_SECTION, text))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a file whose launches on the driver failed at its import."""
    report = yield
    if isinstance(collector, pytest.File):
        chosen = collector.config.stash.get(_CHOSEN, None)
        if text := _failed_launches(collector.config, chosen.settings if chosen else None):
            report.outcome, report.result = "failed", []
            report.longrepr = text if report.longrepr is None else f"{report.longreprtext}\n{text}"
        if _is_on_driver(collector.config):
            _clear_error()
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    if _TAKEN in config.stash:
        config.stash[_TAKEN].close()


def pytest_configure(config: pytest.Config) -> None:
    names = ", ".join(f"{name}=..." for name in OPTIONS)
    config.addinivalue_line("markers", f"wsemu({names}): settings for the launches of a test")
    given = {name: value for name in OPTIONS if (value := _option_or_ini(config, name)) is not None}
    config.stash[_CHOSEN] = _resolve_settings(config, given) if given or _has_table(config.rootpath) else None


def _option_or_ini(config: pytest.Config, name: str) -> Any:
    """Return a setting from the command line, else from pytest's configuration, else None."""
    value = config.getoption(f"wsemu_{name}")
    try:
        value = config.getini(f"wsemu_{name}") if value is None else value
        return _NUMBERS[name](value) if name in _NUMBERS and value is not None else value
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"wsemu_{name}: {error}") from None


def _has_table(folder: Path) -> bool:
    """Return whether a pyproject.toml in this folder or above may configure wsemu; it is parsed only in that case."""
    for place in (folder, *folder.parents):
        try:
            if _TABLE.search((place / "pyproject.toml").read_bytes()):
                return True
        except OSError:
            continue
    return False


def _resolve_settings(config: pytest.Config, given: Mapping[str, Any]) -> _Chosen | None:
    """Return the settings from the project's pyproject.toml and from these options; raise pytest.UsageError if they are
    invalid."""
    from wsemu.app.config import parse_table
    from wsemu.app.pyproject import find
    from wsemu.model.errors import UsageError

    try:
        path, table = find(config.rootpath / "pyproject.toml")
        if path is None and not given:
            return None
        parse_table(table, f"{path}: [tool.wsemu]")
        table = {**table, **_hyphenate_names(given)}
        return _Chosen(path, table, parse_table(table, "wsemu's options of pytest:").settings(path))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _hyphenate_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the names of `[tool.wsemu]`, and with lists split."""
    return {
        name.replace("_", "-"): list(value) if isinstance(value, (tuple, set, frozenset)) else value
        for name, value in given.items()
    }


def _marker_settings(item: pytest.Item) -> dict[str, Any]:
    """Return the settings in the markers of a test; the closest marker takes precedence."""
    from wsemu.model.errors import UsageError

    said: dict[str, Any] = {}
    for marker in item.iter_markers("wsemu"):
        unknown = [repr(value) for value in marker.args] + [name for name in marker.kwargs if name not in OPTIONS]
        if unknown:
            raise UsageError(f"the marker wsemu has no setting {unknown[0]}: give name=value of {', '.join(OPTIONS)}")
        said = {**marker.kwargs, **said}
    return said


def _test_settings(item: pytest.Item) -> Settings | None:
    """Return the settings of a test's launches; None if there are none."""
    chosen = item.config.stash.get(_CHOSEN, None)
    if item.get_closest_marker("wsemu") is None:
        return chosen.settings if chosen else None
    from wsemu.app.config import parse_table
    from wsemu.model.errors import UsageError

    path, table = (chosen.path, chosen.table) if chosen else (None, {})
    try:
        return parse_table({**table, **_hyphenate_names(_marker_settings(item))}, "the marker wsemu:").settings(path)
    except UsageError as error:
        message = str(error)
    pytest.fail(message, pytrace=False)


_SETTINGS = pytest.StashKey["Settings | None"]()


def _trial() -> Any:
    """Return the trial that a test represents if it runs with a mutant of its kernels; None if it runs normally."""
    trials = sys.modules.get("wsemu.campaign.mutate_trials")
    return trials.running[-1] if trials is not None and trials.running else None


def _using_settings(item: pytest.Item) -> AbstractContextManager[object]:
    """Apply the settings of a test inside the block."""
    chosen = item.stash.get(_SETTINGS, None)
    if chosen is None:
        return nullcontext()
    from wsemu.model.settings import current, using

    if _trial() is not None:
        from dataclasses import replace

        chosen = replace(chosen, fix_budget=0.0, budget=min(chosen.budget, current().budget))
    return using(chosen)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[_SETTINGS] = _test_settings(item)
    recording = sys.modules.get("wsemu.host.recorder")
    if recording is not None:  # streams of another test count as streams of another program
        recording.recorder.reset()
    with _checking_launches(item), _using_settings(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with _checking_launches(item), _using_settings(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    try:
        with _checking_launches(item), _using_settings(item):
            return (yield)
    finally:
        if _is_on_driver(item.config):  # so that the next test is independent
            _clear_error()


# -- mutants ---------------------------------------------------------------------------------------------------------
_MUTANTS = pytest.StashKey[Any]()
"""outcomes of the mutants, by name"""
_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """With `--wsemu-mutate`, run the tests, then run those that passed with mutants of the kernels that they launch."""
    done = yield
    config = session.config
    if config.getoption("wsemu_mutate") and not config.option.collectonly and not hasattr(config, "workerinput"):
        from wsemu.campaign.mutate_session import run

        kinds, kernels = (config.getoption(f"wsemu_mutate_{name}") for name in _MUTATE_OPTIONS)
        items = [item for item in session.items if item.stash.get(_PASSED, False)]
        mutated = config.stash[_MUTANTS] = run(items, config.rootpath, kinds, kernels)
        if mutated is not None and mutated.exit_code == 1:
            session.testsfailed += 1  # sets pytest's exit code
        if mutated is not None and mutated.stopped:
            raise KeyboardInterrupt
    return done


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("wsemu_mutate"):
        return
    from wsemu.campaign.mutate_report import lines

    terminalreporter.section("wsemu: mutants")
    mutated = config.stash.get(_MUTANTS, None)
    found = (
        [("no test that passes launches a Python kernel in this process", "")] if mutated is None else lines(mutated)
    )
    for text, _ in found:
        terminalreporter.write_line(text)


# -- failures --------------------------------------------------------------------------------------------------------
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End the traceback of a failed check in the test, not in wsemu, and add the line that repeats an example of
    Hypothesis."""
    ours = _failures(call.excinfo)
    trial = _trial()
    if call.excinfo is not None and trial is not None:
        trial.raised = call.excinfo.value
    if call.excinfo is not None and ours and not item.config.getoption("fulltrace", False):
        _cut(call.excinfo.tb)
    for error in ours:
        codes = [finding.code for finding in error.report.errors]
        item.user_properties.append(("wsemu", ", ".join(dict.fromkeys(codes)) or error.report.verdict))
    report = yield
    _attach_launches(item, report)
    if call.when == "call" and trial is None:
        item.stash[_PASSED] = report.passed
    kept = [line for error in ours if (line := _example_text(error, item))]
    report.sections.extend(("wsemu: keep this example", line) for line in kept)
    return report


def _cut(traceback: TracebackType | None) -> None:
    """Remove the frames of wsemu from a traceback."""
    while traceback is not None:
        following = traceback.tb_next
        while following is not None and os.path.realpath(following.tb_frame.f_code.co_filename).startswith(_HERE):
            following = following.tb_next
        traceback.tb_next = following
        traceback = following


def _failures(raised: pytest.ExceptionInfo[BaseException] | None) -> list[Any]:
    """Return the failed checks that a test raised."""
    errors = sys.modules.get("wsemu.launch.result")
    if raised is None or errors is None:
        return []
    from wsemu.campaign.falsified import leaves

    return [error for error in leaves(raised.value) if isinstance(error, errors.CheckFailed)]


def _example_text(error: BaseException, item: pytest.Item) -> str:
    """Return `@example(...)` with the parameters for which a test of Hypothesis failed."""
    from wsemu.campaign.falsified import decorator, given_names, parameters

    return decorator(parameters(error, given_names(getattr(item, "obj", None))))
