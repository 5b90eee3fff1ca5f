"""Options of the test run."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # shared helpers of the tests are `tests.NAME`
if sys.dont_write_bytecode:
    # Not beside the sources, then; but a thousand modules need not be compiled in each process of each run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", "")
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / ".pytest_cache" / "bytecode"))

from tests import durations  # noqa: E402
from wsemu.cli import GARBAGE  # noqa: E402
from wsemu.machine import build  # noqa: E402 - finds and leaves bytecode as was said above
from wsemu.model import settings  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

MOST_PROCESSES = 8
"""maximum number of processes of a run; each takes seconds to start"""
MEMORY_KEPT = 1_000
"""number of tests after which a process gives memory back to the system"""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start background commands in this way: a program that a test starts and interrupts would ignore the signal
    # as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", metavar="FOLDER", help="keep the pictures that headless Chromium takes of pages")
    parser.addoption("--bless", action="store_true", help="write the diagnostics of today as the expected ones")


@pytest.fixture(autouse=True)
def _streams_of_its_own() -> None:
    """Streams and events of another test belong to another program."""
    recording = sys.modules.get("wsemu.host.recorder")
    if recording is not None:
        recording.recorder.reset()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use all processors of a small machine for the whole suite.  Tests that are named run in one process, as do those
    that write a file."""
    if hasattr(config, "workerinput"):  # this is one of these processes, which starts no others
        return
    option = config.option
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not (option.bless or option.usepdb)
    if whole and getattr(option, "numprocesses", 0) is None:  # pytest-xdist is installed, and `-n` is not given
        option.numprocesses = min(os.cpu_count() or 1, MOST_PROCESSES)
        option.dist = "worksteal"  # tests of a file stay together, and so do their shared objects
        build.keep_all()  # else each of these processes compiles the VM


hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)  # the speed of the machine must not affect the tests
hypothesis.settings.load_profile("busy")
settings.FIX_BUDGET = 0.0  # edits are tried only in tests about them: other tests need not wait


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freeze the objects that the collection of tests creates, so that the garbage collector does not examine them
    repeatedly."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])


_finished = itertools.count(1)
_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Give memory back from time to time: commands that tests run freeze garbage, and glibc keeps freed memory.  After
    20,000 tests, a process had 12 GB."""
    if next(_finished) % MEMORY_KEPT == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        _trim(0)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of slow tests only, if these are not wanted."""
    if config.option.markexpr == "not slow" and collection_path.suffix == ".py":
        return True if collection_path.relative_to(ROOT).as_posix() in durations.slow_files() else None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests before pytest chooses by marks."""
    durations.mark(items)


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Return whether to write expected diagnostics instead of comparing them."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample few interleavings if there are too many: tests are about that limit, not about the results of random
    samples."""
    from wsemu.launch.explore import samples

    monkeypatch.setattr(samples, "MOST_ORDERS", 2)


@pytest.fixture(autouse=True)
def no_second_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the PTX fallback: what is not modeled is incomplete, even if Numba-CUDA is installed and could compile
    it."""
    check = sys.modules.get("wsemu.launch.check")
    if check is not None:
        monkeypatch.setattr(check, "_second_way", lambda *_: None)
