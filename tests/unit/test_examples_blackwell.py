"""`examples/blackwell`: the product of pairs of CTAs with cluster launch control, and its broken twins."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import wsemu
from wsemu.launch.hooks import observers

EXAMPLES = Path(__file__).parents[2] / "examples"
load = cache(wsemu.load_ptx)


@pytest.fixture(autouse=True)
def _files_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsemu, "load_ptx", load)


def report(size: tuple[int, int, int], name: str) -> Any:
    """Return the report of a launch; a wrong result of a kernel without a mistake is raised."""
    found: list[Any] = []
    observers.append(found.append)
    try:
        runpy.run_path(str(EXAMPLES / "blackwell" / "gemm.py"))["main"](*size, name)
    except Exception:
        if name == "gemm":
            raise
    finally:
        observers.remove(found.append)
    return found[0]


def test_the_product_is_right_and_verified_for_every_assignment() -> None:
    made = report((512, 256, 128), "gemm")
    assert made.verdict == "verified"
    assert {finding.code for finding in made.findings} == {"uncoalesced"}


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("early", "race", "load_pair("),
        ("unwaited", "tmem-read-unfinished", "multiply(sums"),
        ("bytes", "deadlock", "wait_cluster("),
        ("deaf", "race", "request("),
        ("parity", "deadlock", "wait_cluster("),
        ("gone", "dsmem-after-exit", "arrive_at(&m.heard"),
    ],
)
def test_a_mistake_is_found(name: str, code: str, line: str) -> None:
    made = report((1024, 128, 256), f"gemm_{name}")
    errors = [finding for finding in made.findings if finding.severity == "error"]
    assert code in {finding.code for finding in errors}
    text = (EXAMPLES / "blackwell" / "gemm.cu").read_text(encoding="utf-8").splitlines()
    sites = [site for finding in errors if finding.code == code for site in finding.sites]
    assert any(line in text[site.line - 1] for site in sites if Path(site.file).name == "gemm.cu")
