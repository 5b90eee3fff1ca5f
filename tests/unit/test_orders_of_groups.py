"""Kernels whose CTAs meet in clusters or in the grid: verified where they are right, and found broken."""

from __future__ import annotations

from typing import Any

import pytest

import wsemu
from tests.unit import steering_groups as kernels
from tests.unit.steering_kernels import variant

BROKEN: dict[str, list[tuple[dict[str, Any], str]]] = {
    "grid_stencil": [({"MEETS": False}, "race"), ({"STAYS": False}, "deadlock")],
    "cluster_histogram": [
        ({"STARTS": False}, "dsmem-before-start"), ({"MEETS": False}, "dsmem-after-exit"), ({"ATOMIC": False}, "race"),
    ],
    "cluster_reduce": [({"MEETS": False}, "race"), ({"STAYS": False}, "dsmem-after-exit")],
    "multicast_ring": [
        ({"WAITS": False}, "phase-alias"), ({"BYTES": 128}, "deadlock"), ({"STAYS": False}, "dsmem-after-exit"),
    ],
}  # fmt: skip
"""kernel -> what is changed in it, and a code of what is found then"""


def report(name: str, ctas: int = 4, **parts: Any) -> wsemu.Report:
    cluster = kernels.CLUSTERS[name]
    options: dict[str, Any] = {"cluster": cluster} if cluster else {}
    kernel = variant(getattr(kernels, name), **parts)
    return wsemu.check(kernel, ctas, 64, kernels.arguments(name, ctas), **options)


@pytest.mark.parametrize("name", BROKEN)
def test_a_correct_kernel_is_verified(name: str) -> None:
    found = report(name)
    assert found.verdict == "verified", found.notes


@pytest.mark.parametrize(
    ("name", "parts", "code"), [(name, parts, code) for name, cases in BROKEN.items() for parts, code in cases]
)
def test_what_is_broken_is_found(name: str, parts: dict[str, Any], code: str) -> None:
    found = report(name, **parts)
    assert found.verdict == "failed"
    assert code in {finding.code for finding in found.findings}
