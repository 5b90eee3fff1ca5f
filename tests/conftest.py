"""Options of the test run."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # what tests share is `tests.NAME`
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
"""of a run: each takes seconds to start"""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As shells start what runs in the background: a program that a test starts and interrupts would ignore it as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", metavar="FOLDER", help="keep the pictures that headless Chromium takes of pages")
    parser.addoption("--bless", action="store_true", help="write the diagnostics of today as the expected ones")


@pytest.fixture(autouse=True)
def _streams_of_its_own() -> None:
    """Streams and events of another test are those of another program."""
    recording = sys.modules.get("wsemu.host.recorder")
    if recording is not None:
        recording.recorder.reset()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite takes the processors of a small machine; tests that are named run in one process, as do those
    that write a file."""
    if hasattr(config, "workerinput"):  # one of these processes, which starts no others
        return
    option = config.option
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not (option.bless or option.usepdb)
    if whole and getattr(option, "numprocesses", 0) is None:  # pytest-xdist is there, and `-n` not given
        option.numprocesses = min(os.cpu_count() or 1, MOST_PROCESSES)
        option.dist = "worksteal"  # tests of a file stay together, and so what they share
        build.keep_all()  # else each of these processes compiles the VM


hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)  # how fast the machine is, is no matter of the tests
hypothesis.settings.load_profile("busy")
settings.FIX_BUDGET = 0.0  # edits are tried where a test is about them: others need not wait


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting the tests makes stays: the garbage collector need not go through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests before pytest chooses by marks."""
    durations.mark(items)


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether expected diagnostics are to be written, not compared."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where orders are too many, that is what the test is about, and not what some of them, drawn at random, do."""
    from wsemu.launch.explore import samples

    monkeypatch.setattr(samples, "MOST_ORDERS", 2)


@pytest.fixture(autouse=True)
def no_second_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not modelled is incomplete, also where Numba-CUDA is installed and could compile it."""
    check = sys.modules.get("wsemu.launch.check")
    if check is not None:
        monkeypatch.setattr(check, "_second_way", lambda *_: None)
