"""The verdict does not hang on which branch of an `if` is written first: every program, with all branches swapped."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.test_programs import BROKEN, EXAMPLES, FAIL, INCOMPLETE, PASS, ROOT, SMALL, name, run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.launch.result import Report

KERNEL = """
import numpy as np
from wsemu import cuda, ptx

@cuda.jit
def diverges(x, y):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t >= 32:
        if {condition}:
            {one}
        else:
            {other}
        {after}
    else:
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]
"""
STORE, ARRIVE, SYNC, MEET = (
    "tile[lane] = x[lane]",
    "ptx.barrier_arrive(1, 64)",
    "ptx.barrier_sync(1, 64)",
    "cuda.syncwarp()",
)
BRANCHES = (
    (STORE,),
    (ARRIVE,),
    (STORE, ARRIVE),
    (ARRIVE, STORE),
    (SYNC,),
    (STORE, "return"),
    ("ptx.barrier_arrive(2, 64)", STORE),
    ("ptx.bar_arrive(1, 64)",),
    ("ptx.bar_sync(1, 64)", "return"),
    ("cuda.syncwarp()", ARRIVE),
)
SMALLER = {**SMALL, "fft": ["16384"], "dgemm": ["64", "64", "64"]}
AFTER = ("pass", f"{MEET}; {ARRIVE}", "cuda.syncthreads()")


class Mirror(ast.NodeTransformer):
    """Negates each condition and swaps its branches."""

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        turned = ast.UnaryOp(ast.Not(), node.test)
        return ast.copy_location(ast.If(turned, node.orelse or [ast.Pass()], node.body), node)


def mirrored(text: str) -> str:
    return ast.unparse(ast.fix_missing_locations(Mirror().visit(ast.parse(text))))


def said(reports: Iterable[Report]) -> list[tuple[str, set[str]]]:
    """The verdict and the codes of each launch; in which order a race is run, and so whether its load finds something
    written, is not among them."""
    return [(report.verdict, _codes(report)) for report in reports]


def _codes(report: Report) -> set[str]:
    codes = {finding.code for finding in report.findings}
    return codes - {"uninitialized-read"} if codes & {"race", "intra-warp-race"} else codes


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize("path", [*PASS, *FAIL, *INCOMPLETE, *BROKEN, *EXAMPLES], ids=name)
def test_a_program_with_its_branches_swapped_gets_the_same_verdict(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = path.read_text(encoding="utf-8")
    texts = mirrored(source), ast.unparse(ast.parse(source))
    if texts[0] == texts[1]:
        return  # it has no branch
    monkeypatch.chdir(ROOT)
    arguments = SMALLER.get(path.stem)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # some programs run these
    folder = tmp_path / "tests" / "programs"
    folder.mkdir(parents=True)
    turned, same = folder / path.name, folder / f"same_{path.name}"
    if path.with_suffix(".ptx").is_file():
        (folder / f"{path.stem}.ptx").symlink_to(path.with_suffix(".ptx"))
        (folder / f"same_{path.stem}.ptx").symlink_to(path.with_suffix(".ptx"))
    turned.write_text(texts[0], encoding="utf-8")
    same.write_text(texts[1], encoding="utf-8")
    assert said(run(turned, "vm", arguments)) == said(run(same, "vm", arguments))


def checked(text: str, path: Path) -> Report:
    """The report of the kernel in a text."""
    path.write_text(text, encoding="utf-8")
    space: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), space)
    arrays = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    return wsemu.check(space["diverges"], 1, 64, arrays)


@pytest.mark.parametrize(("condition", "after"), [*zip(["lane < 16", "lane == 3", "lane >= 5"], AFTER, strict=True)])
def test_lanes_that_diverge_before_a_barrier_get_one_verdict_in_either_order(
    condition: str, after: str, tmp_path: Path
) -> None:
    different = []
    for number, (one, other) in enumerate(itertools.combinations(BRANCHES, 2)):
        parts = {"condition": condition, "one": "; ".join(one), "other": "; ".join(other), "after": after}
        text = KERNEL.format(**parts)
        texts = [text, mirrored(text)]
        reports = [checked(t, tmp_path / f"{number}_{k}.py") for k, t in enumerate(texts)]
        if len({(verdict, *sorted(codes)) for verdict, codes in said(reports)}) > 1:
            different.append((one, other, said(reports)))
    assert not different
