"""Tests that need a GPU: they are skipped without one, and if Numba-CUDA is not installed."""

from __future__ import annotations

import pytest

from wsemu.launch.crosscheck import require_gpu
from wsemu.model.errors import UsageError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests with a reason unless a GPU can be used; this process does not access it."""
    own = [item for item in items if "device" in item.path.parts]
    if not own:
        return
    try:
        require_gpu()
    except UsageError as error:
        for item in own:
            item.add_marker(pytest.mark.skip(reason=str(error)))
