"""Kernels whose atomics commute or give out places: verified where they are right, and found broken."""

from __future__ import annotations

from typing import Any

import pytest

import wsemu
from tests.unit import steering_places as kernels
from tests.unit.steering_kernels import variant


def report(name: str, ctas: int = 3, **parts: Any) -> wsemu.Report:
    return wsemu.check(variant(getattr(kernels, name), **parts), ctas, 64, kernels.arguments(name, ctas))


@pytest.mark.parametrize("name", kernels.BROKEN)
def test_a_correct_kernel_is_verified(name: str) -> None:
    found = report(name)
    assert found.verdict == "verified", found.notes


@pytest.mark.parametrize(
    ("name", "parts", "code"), [(name, parts, code) for name, cases in kernels.BROKEN.items() for parts, code in cases]
)
def test_what_is_broken_is_found(name: str, parts: dict[str, Any], code: str) -> None:
    found = report(name, **parts)
    assert found.verdict == "failed", found.notes
    assert code in {finding.code for finding in found.findings}
