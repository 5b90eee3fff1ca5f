"""The design, tried: a checker in a folder of the tests plugs in at the places that docs/architecture.md counts.

Registered by `codes.register` (1), detected by `noted_by_the_machine` (2) and `noted_by_the_reference` (3), explained
by `toys/lone_store.py` (4), with the page `toys/pages/lone-store.md` (5), whose programs are the tests' (6).
"""

from __future__ import annotations

import sys
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import wsemu.checkers
from wsemu.app.command_line import app
from wsemu.checkers import page, registry
from wsemu.launch.hooks import observers
from wsemu.machine.run import Launch
from wsemu.model import codes, settings
from wsemu.model.isa import NAMES, OPERATIONS
from wsemu.model.outcome import RawFinding
from wsemu.reference import warp as reference_warp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.result import Report
    from wsemu.model.outcome import Outcome
    from wsemu.reference.warp import WarpRun

CODE = "lone-store"
TABLES: tuple[Any, ...] = (
    codes.CODES,
    codes.CODE_NAMES,
    codes.CODE_NUMBERS,
    codes.CHECKERS,
    codes.CHECKER_OF,
    codes.SOURCES,
    codes.SCHEDULES,
)


def is_store(operation: int) -> bool:
    return OPERATIONS[NAMES[operation]].kind == "store"


def noted_by_the_machine(launch: Launch, outcome: Outcome) -> Iterator[RawFinding]:
    """What compiled code would note: here, read off the events of the launch."""
    stores = frozenset(pc for pc, row in enumerate(launch.program.code.tolist()) if is_store(row[0]))
    lone: dict[int, list[Any]] = {}
    for event in launch.trace(stores).events:
        if event.kind == "access" and event.lanes.bit_count() == 1:
            lone.setdefault(event.pc, []).append(event)
    for pc, events in lone.items():
        first, detail = events[0], {"interval": events[0].interval}
        yield RawFinding(CODE, pc, first.cta, first.warp, first.lanes, detail=detail, count=len(events))


def noted_by_the_reference(run: WarpRun, lanes: int) -> None:
    """The same from the definition, one execution at a time."""
    cta, warp = run.cta, run.warp
    if lanes.bit_count() == 1:
        interval = cta.launch.watch.order.interval((cta.number, warp.number))
        cta.finding(CODE, run.group.pc, warp.number, lanes, interval=interval)


def detecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put both detections into their engines."""
    vm, store = Launch.run, reference_warp._EXECUTE["store"]

    def vm_with_it(self: Launch) -> Outcome:
        outcome = vm(self)
        outcome.findings += noted_by_the_machine(self, outcome)
        return outcome

    def store_with_it(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
        noted_by_the_reference(run, lanes)
        store(run, name, fields, lanes)

    monkeypatch.setattr(Launch, "run", vm_with_it)
    monkeypatch.setitem(reference_warp._EXECUTE, "store", store_with_it)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toy checker, in place for one test."""
    before = [copy(table) for table in TABLES]
    monkeypatch.setattr(wsemu.checkers, "__path__", [*wsemu.checkers.__path__, str(Path(__file__).parent / "toys")])
    codes.register(CODE, codes.Code("warning", "a store that a single lane of its warp executes", CODE))
    detecting(monkeypatch)
    yield
    for table, entries in zip(TABLES, before, strict=True):
        table.clear()
        (table.update if isinstance(table, dict) else table.extend)(entries)
    registry.module_of.cache_clear()
    page.page.cache_clear()
    sys.modules.pop("wsemu.checkers.lone_store", None)


def reports(program: str, file: Path, engine: settings.Engine = "vm") -> list[Report]:
    """What the launches of a program come to."""
    found: list[Report] = []
    file.write_text(program, encoding="utf-8")
    observers.append(found.append)
    try:
        with settings.using(settings.Settings(engine=engine)):
            exec(compile(program, str(file), "exec"), {"__name__": "__main__"})
    finally:
        observers.remove(found.append)
    return found


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_toy_checker_explains_what_an_engine_noted(engine: settings.Engine, tmp_path: Path) -> None:
    (report,) = reports(page.page(CODE).bad, tmp_path / "bad.py", engine)
    (finding,) = [finding for finding in report.findings if finding.code == CODE]
    assert (report.verdict, finding.severity, finding.count) == ("verified", "warning", 1)
    assert finding.message == "1 of 1 executions of this store are by one lane"
    assert (finding.sites[0].line, finding.sites[0].text) == (9, "stored by lane 0 of warp 0")
    (good,) = reports(page.page(CODE).good, tmp_path / "good.py", engine)
    assert CODE not in [finding.code for finding in good.findings]


@pytest.mark.usefixtures("toy")
def test_the_engines_note_what_a_toy_checker_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[RawFinding] = []
    explain = registry.explain

    def counted(raw: RawFinding, places: Any, trace: Any) -> Any:
        noted.append(raw)
        return explain(raw, places, trace)

    monkeypatch.setattr(registry, "explain", counted)
    engines: list[settings.Engine] = ["vm", "reference"]
    for engine in engines:
        (report,) = reports(page.page(CODE).bad, tmp_path / "bad.py", engine)
        assert report.findings[0].message
    lone = [raw for raw in noted if raw.code == CODE]
    assert lone[0] == lone[-1]
    assert registry.module_of(CODE).DETAIL[CODE].allows(lone[0].detail)


@pytest.mark.usefixtures("toy")
def test_the_command_line_knows_a_toy_checker(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(page.page(CODE).bad, encoding="utf-8")

    def said(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(arguments))
        return done.exit_code, done.output

    file = str(tmp_path / "bad.py")
    for name in ("lone-store", "lone_store"):
        status, text = said("check", "--only", name, file)
        assert (status, "warning[lone-store]: 1 of 1 executions" in text) == (0, True), text
    assert said("check", "--fail-on", CODE, file)[0] == 1
    assert "warning[" not in said("check", "--skip", CODE, file)[1]
    assert "None: a toy of the tests." in said("explain", CODE)[1]
    assert "`lone-store` (warning)" in said("explain")[1] or "lone-store (warning)" in said("explain")[1]


def test_without_it_the_tables_are_as_they_were() -> None:
    assert CODE not in codes.CODES
    assert list(codes.CODE_NUMBERS) == codes.CODE_NAMES


@pytest.mark.parametrize("checker", codes.CHECKERS)
def test_a_checker_declares_its_codes_and_its_details(checker: str) -> None:
    module = registry.module_of(checker)
    assert sorted(module.CODES) == sorted(codes.CHECKERS[checker])
    noted = codes.SOURCES[checker] == "engines"
    assert set(getattr(module, "DETAIL", {})) == (set(module.CODES) if noted else set())
    entry = {"engines": "explain", "host": "CURES"}.get(codes.SOURCES[checker], "examine")
    assert hasattr(module, entry)
    for heading in ("Detects: ", "Does not detect: ", "Reference: "):
        assert f"\n{heading}" in module.__doc__


def test_a_code_is_registered_once() -> None:
    with pytest.raises(ValueError, match="'race' is registered twice"):
        codes.register("race", codes.CODES["race"])


def test_only_the_modules_of_codes_that_were_found_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[str] = []
    module_of = registry.module_of

    def counted(checker: str) -> Any:
        wanted.append(checker)
        return module_of(checker)

    monkeypatch.setattr(registry, "module_of", counted)
    reports(page.page("misaligned").bad, tmp_path / "bad.py")
    of_any_launch = {"bank-conflict", "coalescing", "frozen-array", "strong-vector"}
    assert set(wanted) == {"bounds", *of_any_launch}
