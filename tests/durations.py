"""Which tests are slow: `pytest -p tests.durations` writes `durations.json`, whose tests `pytest -m "not slow"` skips.

The file has the seconds of processor time of each test that takes `SLOW` or more, so a loaded machine gives the same
list, and of files and parametrized functions whose tests are slow.  A run of a part of the tests keeps the numbers of
the others.  `WSEMU_TESTS_CAP=15` ends each file after 15 seconds, and takes the mean of its tests for those that did
not run.
"""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

FILE = Path(__file__).with_suffix(".json")
SLOW = 0.02
"""seconds of processor time: the other tests take less than a minute on two processors"""
CAP = float(os.environ.get("WSEMU_TESTS_CAP", "inf"))

_spent: dict[str, float] = defaultdict(float)
"""file -> seconds of its tests so far"""
_measured: dict[str, float] = {}
_left_out: set[str] = set()


def known() -> dict[str, float]:
    """Return the seconds of each slow test, by its node id, its function's, or its file's."""
    seconds: dict[str, float] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return seconds


@functools.cache
def slow_files() -> frozenset[str]:
    """Return the files whose tests are all slow."""
    return frozenset(test for test in known() if "::" not in test)


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of the file as slow."""
    slow = known()
    for item in items:
        if not slow.keys().isdisjoint((item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0])):
            item.add_marker(pytest.mark.slow)


def _processor_time() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    file, before = item.nodeid.partition("::")[0], _processor_time()
    if _spent[file] > CAP:
        item.user_properties.append(("left out", True))
        item.add_marker(pytest.mark.skip("the file's time is used up"))
    done = yield
    _spent[file] += _processor_time() - before
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    now = _processor_time()
    report = yield
    began = item.stash.setdefault(_LAST, [now, 0.0])
    if call.when == "teardown":
        report.user_properties = [*item.user_properties, ("seconds", now - began[0])]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_LAST] = [_processor_time(), 0.0]


_LAST: pytest.StashKey[list[float]] = pytest.StashKey()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    found = dict(report.user_properties) if report.when == "teardown" else {}
    if found.get("left out"):
        _left_out.add(report.nodeid)
    elif "seconds" in found:
        _measured[report.nodeid] = float(str(found["seconds"]))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        return
    write()


def write() -> None:
    """Write the file with the measured numbers; the numbers of other tests stay."""
    totals: dict[str, list[float]] = defaultdict(list)
    for test, seconds in _measured.items():
        totals[test.partition("::")[0]].append(seconds)
    for test in _left_out:
        ran = totals[test.partition("::")[0]]
        _measured.setdefault(test, sum(ran) / len(ran) if ran else SLOW)
    kept = {test: taken for test, taken in known().items() if test not in _measured}
    slow = {test: round(taken, 2) for test, taken in _measured.items() if taken >= SLOW}
    FILE.write_text(json.dumps(dict(sorted((kept | slow).items())), indent=0) + "\n", encoding="utf-8")
