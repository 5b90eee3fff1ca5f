"""`examples/hopper` and `examples/ampere`: the right kernels, and what is said of those that are wrong."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import wsemu
from wsemu.launch.hooks import observers

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = {
    "hopper/gemm": (128, 128, 384), "hopper/gemm_pair": (256, 128, 384), "hopper/flash": (1, 256),
    "ampere/gemm": (100, 40, 264),
}  # fmt: skip
"""of a launch that has every mistake, by what the names of kernels begin with"""


@pytest.fixture(autouse=True)
def _files_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsemu, "load_ptx", load)


load = cache(wsemu.load_ptx)


@cache
def main(program: str) -> Any:
    return runpy.run_path(str(EXAMPLES / f"{program}.py"))["main"]


@cache
def report(name: str) -> Any:
    """Of the launch of a kernel; what is wrong with it is raised as an error, or its result is."""
    found: list[Any] = []
    size = max((program for program in SIZES if name.startswith(program)), key=len)
    observers.append(found.append)
    try:
        main(name.partition("_")[0])(*SIZES[size], name.rpartition("/")[2])
    except Exception:
        if name in SIZES:
            raise
    finally:
        observers.remove(found.append)
    return found[0]


@pytest.mark.parametrize("name", SIZES)
def test_the_result_is_right_and_verified(name: str) -> None:
    assert report(name).verdict == "verified"


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("hopper/gemm_early", "race", "load(m.a[stage]"),
        ("hopper/gemm_unfenced", "proxy", "store(c,"),
        ("hopper/gemm_one_stage", "deadlock", "wait(&m.empty[stage]"),
        ("hopper/gemm_untouched", "wgmma-register", "__floats2half2_rn"),
        ("hopper/gemm_pair_alone", "race", "load(m.b[stage]"),
        ("hopper/gemm_pair_half", "phase-alias", "load(m.b[stage]"),
        ("hopper/gemm_pair_hasty", "dsmem-before-start", "load(m.b[stage]"),
        ("hopper/gemm_pair_gone", "dsmem-after-exit", "arrive_at(&m.empty"),
        ("ampere/gemm_late", "race", "matrices(x[j]"),
        ("ampere/gemm_unshared", "race", "matrices(x[j]"),
        ("ampere/gemm_uncommitted", "race", "matrices(x[j]"),
        ("ampere/gemm_hasty", "race", "matrices(x[j]"),
        ("hopper/flash_one_id", "barrier-recycling", "pass(TURN, 256)"),
        ("hopper/flash_no_start", "deadlock", "wait(&m.k_empty[stage]"),
        ("hopper/flash_early", "race", "load(m.v[stage]"),
        ("hopper/flash_untouched", "wgmma-register", "fmaxf"),
        ("hopper/flash_unfenced", "proxy", "store(out,"),
        ("hopper/flash_greedy", "deadlock", "wait(&m.k_empty[stage]"),
        ("hopper/flash_one_ring", "deadlock", "wait(&m.v_empty[stage]"),
    ],
)
def test_a_mistake_is_found_where_it_is(name: str, code: str, line: str) -> None:
    found = [finding for finding in report(name).findings if finding.severity == "error"]
    assert code in {finding.code for finding in found}
    first = next(finding for finding in found if finding.code == code)
    site = next(site for site in first.sites if site.primary)
    text = (EXAMPLES / name.partition("/")[0] / Path(site.file).name).read_text(encoding="utf-8").splitlines()
    assert line in text[site.line - 1]


def test_ctas_of_a_cluster_are_told_to_meet_at_its_barrier() -> None:
    found = {finding.code: finding for finding in report("hopper/gemm_pair_hasty").findings}
    assert "`cooperative_groups::this_cluster().sync()`" in found["mbarrier-uninitialized"].help
