"""`examples/hopper/gemm.py`: the right kernel, and what is said of those that are wrong."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from wsemu.launch.hooks import observers

PATH = Path(__file__).parents[2] / "examples" / "hopper" / "gemm.py"
MAIN = runpy.run_path(str(PATH))["main"]


def report(name: str) -> Any:
    """Of the launch of a kernel; what is wrong with it is raised as an error, or its result is."""
    found: list[Any] = []
    observers.append(found.append)
    try:
        MAIN(128, 128, 384, name)
    except Exception:
        if name == "gemm":
            raise
    finally:
        observers.remove(found.append)
    return found[0]


def test_the_product_is_right_and_verified() -> None:
    assert report("gemm").verdict == "verified"


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("gemm_early", "race", 'asm volatile("cp.async.bulk.tensor.2d.shared::cluster'),
        ("gemm_unfenced", "proxy", 'asm volatile("cp.async.bulk.tensor.2d.global'),
        ("gemm_one_stage", "deadlock", "try_wait"),
        ("gemm_untouched", "wgmma-register", "__floats2half2_rn"),
    ],
)
def test_a_mistake_is_found_where_it_is(name: str, code: str, line: str) -> None:
    (found,) = [finding for finding in report(name).findings if finding.severity == "error"]
    assert found.code == code
    site = next(site for site in found.sites if site.primary)
    text = PATH.with_name(Path(site.file).name).read_text(encoding="utf-8").splitlines()
    assert line in text[site.line - 1]
