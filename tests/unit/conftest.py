"""What the tests of the machine share: a launch on either engine, and the lines of a kernel."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import wsemu

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["vm", "reference"])
def run(request: pytest.FixtureRequest) -> Callable[..., wsemu.Report]:
    """run(kernel, threads, *arguments, grid=1, ...): the report of a launch on one of the engines."""

    def check(kernel: Any, block: Any, *arguments: Any, grid: Any = 1, **options: Any) -> wsemu.Report:
        return wsemu.check(kernel, grid, block, arguments, engine=request.param, **options)

    return check


@pytest.fixture
def line() -> Callable[[Any, str], int]:
    """line(kernel, text): the number of the first source line of a kernel that contains the text."""

    def find(kernel: Any, text: str) -> int:
        lines, first = inspect.getsourcelines(kernel.py_func)
        return first + next(k for k, source in enumerate(lines) if text in source)

    return find
