"""Public bugs between launches, each as a small program that fails and its repaired twin.

    corpora/between/rows.toml   a table per bug: its sources, what went wrong, the code of the finding
    corpora/between/ID.py       both twins: `# bad` marks lines of the first alone, `# fixed` those of the second
    corpora/between/ID.expected the findings of the first, rewritten by `pytest --bless`

Lines of findings carry `# expect: CODE`.  Each program runs on both engines.
"""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wsemu.host.recorder import recorder
from wsemu.launch.hooks import adding_hook, observers
from wsemu.model import settings
from wsemu.model.finding import BETWEEN
from wsemu.report.terminal import render

if TYPE_CHECKING:
    from wsemu.launch.result import Report

CORPUS = Path(__file__).parent / "corpora" / "between"
ROWS: list[dict[str, Any]] = tomllib.loads((CORPUS / "rows.toml").read_text())["row"]
OTHER = {"bad": "fixed", "fixed": "bad"}
ENGINES: tuple[settings.Engine, ...] = ("vm", "reference")
EXPECT = re.compile(r"# expect: ([a-z0-9-]+)$")
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])


def twin(row: dict[str, Any], which: str) -> str:
    """Return the text of a twin: lines of the other one are empty, so that lines keep their numbers."""
    lines = (CORPUS / f"{row['id'].lower()}.py").read_text().split("\n")
    return "\n".join("" if re.search(rf"# {OTHER[which]}\b", line) else line for line in lines)


def run_twin(text: str, row: dict[str, Any], engine: settings.Engine, folder: Path) -> list[Report]:
    """Return the reports of a twin."""
    file = folder / f"{row['id'].lower()}.py"
    file.write_text(text)
    reports: list[Report] = []
    recorder.reset()
    chosen = settings.Settings(engine=engine)
    with adding_hook(observers, reports.append), settings.using(chosen):
        runpy.run_path(str(file), run_name="__main__")
    return reports


def found_lines(reports: list[Report], name: str) -> set[tuple[int, str]]:
    """Return the primary lines in a file, and the code of the finding that has each."""
    return {
        (site.line, finding.code)
        for report in reports for finding in report.findings for site in finding.sites
        if site.primary and Path(site.file).name == name
    }  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs import the kernels that they share; findings name files relative to the working folder."""
    monkeypatch.syspath_prepend(str(CORPUS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["program"])


@rows
def test_a_public_bug_is_found_where_it_is(row: dict[str, Any], tmp_path: Path, bless: bool) -> None:
    text = twin(row, "bad")
    expected = {
        (n, match[1]) for n, line in enumerate(text.split("\n"), 1) if (match := EXPECT.search(line)) is not None
    }
    assert row["code"] in {code for _, code in expected}
    said = set()
    for engine in ENGINES:
        reports = run_twin(text, row, engine, tmp_path)
        assert found_lines(reports, f"{row['id'].lower()}.py") == expected
        failed = [report for report in reports if report.findings]
        assert {report.verdict for report in failed} == {"failed"}
        shown = "\n\n".join(render(one.model_copy(update={"seconds": 0.0})) for one in failed) + "\n"
        said.add(shown.replace(f"{CORPUS.parents[2]}/", ""))  # the checkout may be in any folder
    assert len(said) == 1, "the engines disagree"
    file = CORPUS / f"{row['id'].lower()}.expected"
    if bless:
        file.write_text(*said)
    assert {file.read_text()} == said


@rows
def test_the_repaired_twin_is_verified(row: dict[str, Any], tmp_path: Path) -> None:
    """A twin without a kernel has no report if its host code is right."""
    text = twin(row, "fixed")
    for engine in ENGINES:
        reports = run_twin(text, row, engine, tmp_path)
        assert bool(reports) == ("from kernels" in text or "@cuda.jit" in text)
        for report in reports:
            assert (report.verdict, report.findings) == ("verified", []), render(report)


def test_each_row_has_a_program_and_a_source() -> None:
    names = {row["id"].lower() for row in ROWS}
    assert {file.stem for file in CORPUS.glob("*.py")} == names | {"kernels"}
    assert len(names) == len(ROWS)
    assert all(row["sources"] and row["what"] for row in ROWS)
    assert BETWEEN not in names
