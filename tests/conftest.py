"""Options of the test run."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # what tests share is `tests.NAME`

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As shells start what runs in the background: a program that a test starts and interrupts would ignore it as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", metavar="FOLDER", help="keep the pictures that headless Chromium takes of pages")
    parser.addoption("--bless", action="store_true", help="write the diagnostics of today as the expected ones")


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether expected diagnostics are to be written, not compared."""
    return bool(request.config.getoption("--bless"))
