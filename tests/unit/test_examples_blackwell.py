"""`examples/blackwell`: the right kernels are verified, and each mistake is found on its line."""

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


SIZES = {"gemm": (512, 256, 128), "fp4": (384, 256, 512), "flash": (1, 256), "tiles": (256, 192, 256)}
MISTAKEN = {**SIZES, "gemm": (1024, 128, 256)}
"""sizes of launches in which each mistake has consequences"""


def report(size: tuple[int, ...], name: str) -> Any:
    """Return the report of a launch; a wrong result of a kernel without a mistake is raised."""
    found: list[Any] = []
    observers.append(found.append)
    program = name.partition("_")[0]
    try:
        runpy.run_path(str(EXAMPLES / "blackwell" / f"{program}.py"))["main"](*size, name)
    except Exception:
        if name in SIZES:
            raise
    finally:
        observers.remove(found.append)
    return found[0]


def test_the_product_is_right_and_verified_for_every_assignment() -> None:
    made = report(SIZES["gemm"], "gemm")
    assert made.verdict == "verified"
    assert {finding.code for finding in made.findings} == {"uncoalesced"}


@pytest.mark.parametrize("name", ["fp4", "flash"])
def test_the_result_is_right_and_verified(name: str) -> None:
    made = report(SIZES[name], name)
    assert made.verdict == "verified"
    assert not made.findings


def test_the_product_in_python_is_right_and_verified() -> None:
    made = report(SIZES["tiles"], "tiles")
    assert made.verdict == "verified"
    assert {finding.code for finding in made.findings} == {"uncoalesced"}


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("tiles_early", "race", "global_to_shared(x, (stage, 0, 0)"),
        ("tiles_unwaited", "tmem-read-unfinished", "line = ptx.tcgen05_ld"),
        ("tiles_apart", "tmem-race", "line = ptx.tcgen05_ld"),
        ("gemm_early", "race", "load_pair("),
        ("gemm_unwaited", "tmem-read-unfinished", "multiply(sums"),
        ("gemm_bytes", "deadlock", "wait_cluster("),
        ("gemm_deaf", "race", "request("),
        ("gemm_parity", "deadlock", "wait_cluster("),
        ("gemm_gone", "dsmem-after-exit", "arrive_at(&m.heard"),
        ("fp4_bytes", "deadlock", "wait(&m.full"),
        ("fp4_early", "race", "load(m.a[stage]"),
        ("fp4_apart", "tmem-race", "multiply_scaled("),
        ("fp4_few", "tmem-uninitialized", "load32(s + j"),
        ("fp4_one_sum", "tmem-race", "load32(s + j"),
        ("fp4_unready", "tmem-race", "load32(s + j"),
        ("fp4_parity", "deadlock", "wait(&m.spare"),
        ("fp4_many", "tcgen05-issued-by-many", "multiply_scaled("),
        ("fp4_kept", "tmem-leak", "allocate_own("),
        ("fp4_unfenced", "proxy", "store(c,"),
        ("flash_unstored", "tmem-race", "values(i, g)"),
        ("flash_hasty", "race", "*factor = less"),
        ("flash_over", "deadlock", "wait(&m.scores"),
        ("flash_early", "race", "load(m.v[stage]"),
        ("flash_started", "tmem-race", "load32(o, columns"),
        ("flash_unready", "tmem-race", "store32(columns, p)"),
        ("flash_turned", "tmem-wrong-quarter", "load32(o, columns"),
        ("flash_one_ring", "deadlock", "wait(&m.v_full"),
        ("flash_unfenced", "proxy", "store(out,"),
        ("flash_kept", "tmem-uninitialized", "load32(o, columns"),
    ],
)
def test_a_mistake_is_found(name: str, code: str, line: str) -> None:
    program = name.partition("_")[0]
    made = report(MISTAKEN[program], name)
    errors = [finding for finding in made.findings if finding.severity == "error"]
    assert code in {finding.code for finding in errors}
    source = f"{program}.{'py' if program == 'tiles' else 'cu'}"
    text = (EXAMPLES / "blackwell" / source).read_text(encoding="utf-8").splitlines()
    sites = [site for finding in errors if finding.code == code for site in finding.sites]
    assert any(line in text[site.line - 1] for site in sites if Path(site.file).name == source)
