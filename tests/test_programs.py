"""Small programs with known bugs, their repaired twins, and correct ones that other tools complain about.

    fail/<code>/<name>.py         a kernel with a bug; the lines of its findings carry `# expect: <code>, ...`
    fail/<code>/<name>.expected   the diagnostics, 80 columns, no colour; rewritten by `pytest --bless`
    pass/<name>.py                the twin with the bug repaired, or a correct program; verified
    NAME.ptx beside NAME.py       what it launches, with marks `// expect: <code>`
    incomplete/<name>.py          right, and beyond a proof from one run; `# expect: incomplete` on the line that is why

Each runs on both engines, which must give the same report.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wsemu.checkers.registry import module_of
from wsemu.host.recorder import recorder
from wsemu.launch.hooks import observers, traceable
from wsemu.model import settings
from wsemu.model.codes import CHECKER_OF, CODES
from wsemu.model.finding import BETWEEN
from wsemu.report.terminal import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding

HERE = Path(__file__).parent
ROOT = HERE.parent
FAIL = sorted(HERE.glob("fail/*/*.py"))
PASS = sorted(HERE.glob("pass/*.py"))
INCOMPLETE = sorted(HERE.glob("incomplete/*.py"))
BROKEN = sorted(ROOT.glob("examples/broken/*.py"))
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
SMALL = {
    "sgemv_both_single": ["128"], "sgemv": ["128"], "saxpy": ["2048"], "stencil": ["32", "16", "1"],
    "hgemm": ["64", "64", "64"],
}  # fmt: skip
"""arguments of programs that take long on the reference engine"""
LARGE = {"dgemm", "fft"}
"""examples that have no size for the reference engine: a test of their own runs a part of them there"""
ESCALATED = {"undefined-shuffle"}
"""codes of warnings that are errors in these programs, for what their values reach"""
EXPECT = re.compile(r"(?:#|//) expect: ([a-z0-9\-, ]+)$")
Mark = tuple[str, int, str]
"""what the name of the file ends in, a line and a code"""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def programs(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=name)


def as_declared(report: Report, places: Places, trace: Any) -> None:
    """What an engine noted of a finding has the fields that its checker declares."""
    for raw in places.outcome.findings:
        if raw.code in CODES:
            detail = module_of(CHECKER_OF[raw.code]).DETAIL[raw.code]
            assert detail.allows(raw.detail), f"{raw.code} has {list(raw.detail)}: declare them in its checker's DETAIL"


def run(path: Path, engine: settings.Engine = "vm", arguments: list[str] | None = None) -> list[Report]:
    """The reports of all launches of a program."""
    reports: list[Report] = []
    argv = sys.argv
    recorder.reset()
    observers.append(reports.append)
    traceable.append(as_declared)
    try:
        sys.argv = [str(path), *(arguments or [])]
        with settings.using(settings.Settings(engine=engine)):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = argv
        observers.remove(reports.append)
        traceable.remove(as_declared)
    assert reports, "no kernel was launched"
    return reports


def marks(path: Path) -> set[Mark]:
    """The lines that carry an expectation, with the codes expected there."""
    found = (
        (file.suffix, n, EXPECT.search(line))
        for file in files(path)
        for n, line in enumerate(file.read_text().splitlines(), 1)
    )
    return {(suffix, n, code.strip()) for suffix, n, match in found if match for code in match[1].split(",")}


def files(path: Path) -> list[Path]:
    """A program, and the PTX beside it that it launches."""
    return [file for file in (path, path.with_suffix(".ptx")) if file.is_file()]


def lines(finding: Finding, path: Path) -> set[tuple[str, int]]:
    """The lines of the program where a finding says to look first."""
    sites = ((Path(site.file).resolve(), site) for site in finding.sites if site.primary)
    return {(file.suffix, site.line) for file, site in sites if file in files(path)}


def severity(code: str) -> str:
    return CODES[code][0]


def agree(path: Path, arguments: list[str] | None = None) -> list[Report]:
    """The reports of a program, the same ones on both engines."""
    reports = run(path, "vm", arguments)
    others = run(path, "reference", arguments)
    assert [r.model_dump(exclude={"seconds"}) for r in reports] == [r.model_dump(exclude={"seconds"}) for r in others]
    return reports


def text(reports: list[Report]) -> str:
    """What the reports say, without times."""
    return "\n\n".join(render(report.model_copy(update={"seconds": 0.0})) for report in reports) + "\n"


def compare(path: Path, reports: list[Report], bless: bool) -> None:
    """The diagnostics against the expected ones beside the program."""
    expected, said = path.with_suffix(".expected"), text(reports)
    assert str(ROOT) not in said, "the diagnostics name a folder of this machine"
    if bless:
        expected.write_text(said, encoding="utf-8")
    assert expected.is_file(), "no expected diagnostics: run `pytest --bless`, and read what it writes"
    assert said == expected.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagnostics name files relative to the working folder."""
    monkeypatch.chdir(ROOT)


def unexpected(path: Path, reports: list[Report]) -> Iterator[str]:
    """Errors at lines without an expectation, and expectations without a finding."""
    expected = marks(path)
    met: set[Mark] = set()
    for finding in (f for report in reports for f in report.findings):
        places = {(*line, finding.code) for line in lines(finding, path)}
        met |= places
        if finding.severity == "error" and not places & expected:
            yield f"not expected: {finding.code} at lines {sorted(line for _, line, _ in places)}: {finding.message}"
    for _, line, code in sorted(expected - met):
        yield f"not found: {code} at line {line}"


@programs(FAIL)
def test_a_bug_is_found_where_it_is(path: Path) -> None:
    reports = agree(path)
    assert not list(unexpected(path, reports))
    failed = any(severity(code) == "error" or code in ESCALATED for *_, code in marks(path))
    told = [report for report in reports if report.kernel == BETWEEN] or reports  # launches of such a program are right
    assert {report.verdict for report in told} == {"failed" if failed else "verified"}


@programs(FAIL + INCOMPLETE)
def test_the_diagnostics_are_the_expected_ones(path: Path, bless: bool) -> None:
    compare(path, run(path), bless)


@programs(PASS)
def test_a_correct_program_is_verified(path: Path) -> None:
    for report in agree(path, SMALL.get(path.stem)):
        assert report.verdict == "verified", text([report])
        if (HERE / "fail").joinpath(code_of_twin(path), path.name).is_file():
            assert code_of_twin(path) not in [finding.code for finding in report.findings], text([report])


@programs([path for path in PASS if path.stem in SMALL])
def test_a_large_program_is_verified(path: Path) -> None:
    assert {report.verdict for report in run(path)} == {"verified"}


@programs(INCOMPLETE)
def test_a_program_beyond_a_proof_is_incomplete(path: Path) -> None:
    reports = agree(path)
    assert {report.verdict for report in reports} == {"incomplete"}, text(reports)
    said = "\n".join(note for report in reports for note in report.notes)
    for _, line, _ in sorted(marks(path)):
        assert re.search(rf"(line |{path.name}:){line}\b", said), f"line {line} is not named in: {said}"


@programs(EXAMPLES)
def test_an_example_is_verified(path: Path) -> None:
    """The whole program; so every kernel of `saxpy` runs on both engines here."""
    reports = run(path) if path.stem in LARGE else agree(path, SMALL.get(path.stem))
    assert {report.verdict for report in reports} == {"verified"}


@programs(BROKEN)
def test_a_broken_example_has_the_bug_that_it_names(path: Path) -> None:
    assert code_in_docstring(path) in [finding.code for report in agree(path) for finding in report.findings]


# -- the programs themselves -----------------------------------------------------------------------------------------
def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def code_in_docstring(path: Path) -> str:
    """`Bank conflict: ...` names `bank-conflict`."""
    return docstring(path).partition(":")[0].lower().replace(" ", "-")


def code_of_twin(path: Path) -> str:
    """The folder of the program that a program of `pass` repairs; empty if there is none."""
    return next((twin.parent.name for twin in FAIL if twin.name == path.name), "")


@programs(FAIL)
def test_a_bug_has_a_folder_a_name_and_a_twin(path: Path) -> None:
    code = path.parent.name
    assert code in CODES
    assert code_in_docstring(path) == code
    assert "Hardware: " in docstring(path)
    assert code in {marked for *_, marked in marks(path)}
    assert (HERE / "pass" / path.name).is_file(), "no twin in pass/"


@programs(PASS)
def test_a_correct_program_says_what_it_is(path: Path) -> None:
    start = f"The fix of `{path.stem}`: " if code_of_twin(path) else "No false alarm: "
    assert docstring(path).startswith(start)
    assert not marks(path)


def test_names_are_unique_and_every_code_has_a_program() -> None:
    names = [path.name for path in FAIL]
    assert len(names) == len(set(names))
    covered = {path.parent.name for path in FAIL}
    assert covered == {code for code in CODES if not code.startswith("transfer-")}


def test_no_expected_diagnostics_without_a_program() -> None:
    assert [p for p in HERE.glob("*/**/*.expected") if not p.with_suffix(".py").is_file()] == []
