"""Findings are counted, all of them; explained are those that somebody reads, each as what it means."""

from __future__ import annotations

import copy
import linecache
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.app.program import run
from wsemu.checkers import intra_warp, race
from wsemu.launch import verdict
from wsemu.launch.result import Report
from wsemu.machine import readout, tables
from wsemu.model import settings
from wsemu.model.finding import MOST_SHOWN, Finding
from wsemu.model.suppression import Suppression
from wsemu.reference import run as reference
from wsemu.report.terminal import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENGINES: tuple[settings.Engine, ...] = ("vm", "reference")
THREADS = 64


def diffusion(rounds: int) -> str:
    """Unrolled straight-line code over many buffers, with a barrier now and then: each round stores a buffer that the
    other warp may still read, and reads one that it may not have stored."""
    lines = ["@cuda.jit", "def kernel(y):", "    t = cuda.threadIdx.x", "    a = np.float32(0)"]
    lines += [f"    s{k} = cuda.shared.array({THREADS}, np.float32)" for k in range(4)]
    lines += [f"    s{k}[t] = 0" for k in range(4)] + ["    cuda.syncthreads()"]
    for k in range(rounds):
        lines += [f"    s{k % 4}[t] = a + {k}", f"    a += s{k % 4}[t ^ 32]"]
        lines += ["    cuda.syncthreads()"] if k % 16 == 15 else []
    return "\n".join([*lines, "    y[t] = a", ""])


def build(source: str, name: str = "<diffusion>") -> Any:
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"cuda": cuda, "np": np}
    exec(compile(source, name, "exec"), space)
    return space["kernel"]


def report_of(rounds: int, **options: Any) -> Report:
    return wsemu.check(build(diffusion(rounds)), 1, THREADS, (np.zeros(THREADS, np.float32),), **options)


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The codes of the findings that were explained with a trace, one after another."""
    made: list[str] = []

    def watch(module: Any) -> None:
        explain: Callable[..., Finding] = module.explain

        def counted(raw: Any, places: Any, trace: Any = None) -> Finding:
            made.extend([raw.code] * (trace is not None))
            return explain(raw, places, trace)

        monkeypatch.setattr(module, "explain", counted)

    for module in (race, intra_warp):
        watch(module)
    return made


def test_findings_are_counted_without_being_explained(explained: list[str]) -> None:
    report = report_of(448)
    assert report.verdict == "failed"
    assert len(report.errors) > 512
    assert {finding.code for finding in report.errors} == {"race"}
    assert all(finding.holds_in == "every schedule" and finding.count for finding in report.errors)
    assert explained == []


def test_a_finding_is_explained_once_when_it_is_read(explained: list[str]) -> None:
    report = report_of(32)
    last = report.findings[-1]
    assert last.message.endswith("hazard on shared `" + (last.sites[0].array or "") + "[t]`") or last.message
    assert last.steps
    assert last.notes
    assert last.sites
    assert explained == ["race"]


def test_a_text_shows_the_first_findings_and_counts_all(explained: list[str]) -> None:
    report = report_of(64)
    count = len(report.errors)
    said = render(report)
    assert said.count("error[race]") == MOST_SHOWN == len(explained)
    assert f"failed: {count:,} errors" in said
    assert f"{count - MOST_SHOWN:,} findings not shown" in said


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_limit_is_one_of_work(
    limit: int, explained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    call = f"kernel[1, {THREADS}](np.zeros({THREADS}, np.float32))\n"
    program.write_text(f"import numpy as np\nfrom wsemu import cuda\n{diffusion(64)}\n\n{call}", encoding="utf-8")
    assert run(program, [], settings.Settings(), limit=limit) == 1
    assert len(explained) == limit
    assert f"{len(report_of(64).errors) - limit:,} findings not shown: raise `--limit`" in capsys.readouterr().out


def test_what_was_not_read_is_the_same_as_what_was() -> None:
    read, unread = (report_of(32) for _ in range(2))
    for finding in read.findings:
        assert finding.steps
    assert read.model_copy(update={"seconds": 0.0}) == unread.model_copy(update={"seconds": 0.0})


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_finding_that_was_not_read_can_be_copied(way: Callable[[Finding], Finding]) -> None:
    finding = report_of(16).findings[0]
    assert way(finding) == finding


def test_all_findings_are_in_json() -> None:
    report = report_of(32)
    assert Report.model_validate_json(report.model_dump_json()) == report


def test_the_repr_of_a_finding_is_whole() -> None:
    finding = report_of(16).findings[0]
    assert "schedule_steps" in repr(finding)


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> int:
    """A launch keeps 8 findings."""
    for module in (tables, readout, reference, verdict):
        monkeypatch.setattr(module, "MOST_FINDINGS", 8)
    return 8


@pytest.mark.parametrize("engine", ENGINES)
def test_findings_beyond_those_that_are_kept_are_counted(engine: settings.Engine, request: Any) -> None:
    everything = len(report_of(32).findings)
    request.getfixturevalue("little_room")
    report = report_of(32, engine=engine)
    assert len(report.findings) + report.untold == everything
    assert report.untold
    assert any(f"{report.untold:,} more" in note for note in report.notes)
    assert f"failed: {everything:,} errors" in wsemu.report.terminal.summary(report)


def test_accepting_those_that_are_kept_proves_nothing(little_room: int) -> None:
    """Of the others nobody has said that they are accepted."""
    rule = Suppression(frozenset({"race"}), "known", ("pyproject.toml", 1), "configuration", "*")
    with settings.using(settings.Settings(suppressions=(rule,))):
        report = report_of(32)
    assert len(report.suppressed) == little_room
    assert report.verdict == "incomplete"


# -- which execution it is --------------------------------------------------------------------------------------------


def reports(kernel: Any, threads: int, *arguments: Any) -> Iterator[Report]:
    for engine in ENGINES:
        yield wsemu.check(kernel, 1, threads, tuple(value.copy() for value in arguments), engine=engine)


@cuda.jit
def stored_first(y):
    red = cuda.shared.array(8, np.float32)
    t = cuda.threadIdx.x
    if t < 8:
        red[t] = 0
    cuda.syncthreads()
    if t == 0:
        red[3] = 1
    if t // 32 == 1:
        total = np.float32(0)
        for w in range(8):
            total += red[w]
        y[t % 32] = total


@cuda.jit
def loaded_first(y):
    red = cuda.shared.array(8, np.float32)
    t = cuda.threadIdx.x
    if t < 8:
        red[t] = 0
    cuda.syncthreads()
    if t // 32 == 0:
        total = np.float32(0)
        for w in range(8):
            total += red[w]
        y[t % 32] = total
    elif t == 32:
        red[3] = 1


@cuda.jit
def scattered(y, places):
    s = cuda.shared.array(128, np.int32)
    t = cuda.threadIdx.x
    s[t] = 0
    s[t + 64] = 0
    cuda.syncthreads()
    if t == 0:
        s[77] = 1
    if t // 32 == 1:
        total = 0
        for k in range(4):
            total += s[places[k, t % 32]]
        y[t % 32] = total


def spread() -> Any:
    """Element 77 is read in the third iteration alone, and all of them reach around it."""
    places = np.array([[0 if lane % 2 else 100 for lane in range(32)] for _ in range(4)])
    places[2, 5] = 77
    return places


@pytest.mark.parametrize(
    ("kernel", "arguments", "iteration", "element"),
    [
        (stored_first, (), "w=3", "red[3]"),
        (loaded_first, (), "w=3", "red[3]"),
        (scattered, (spread(),), "k=2", "s[77]"),
    ],
)
def test_a_race_names_the_iteration_that_meets_the_other_access(
    kernel: Any, arguments: tuple[Any, ...], iteration: str, element: str
) -> None:
    y = np.zeros(32, np.float32)
    for report in reports(kernel, 64, y, *arguments):
        (finding,) = report.errors
        assert any(site.text.endswith(f", {iteration}") for site in finding.sites)
        assert wsemu.replay(report.witness(finding), kernel, (y, *arguments)).element == element


# -- what is not yet written ------------------------------------------------------------------------------------------


@cuda.jit
def late(y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < 32:
        y[t] = s[t]
    else:
        s[t - 32] = 1


@cuda.jit
def late_but_ordered(y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    y[t] = s[t ^ 32]
    cuda.syncthreads()
    s[t] = 1


@cuda.jit
def never(y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    y[t] = s[t]


def test_a_read_of_what_is_not_yet_written_is_told_by_the_race_with_the_write() -> None:
    for report in reports(late, 64, np.zeros(64, np.float32)):
        (finding,) = report.errors
        assert finding.code == "race"
        assert any("memory that nothing had stored to" in note for note in finding.notes)


def test_a_read_that_comes_too_early_names_the_write() -> None:
    for report in reports(late_but_ordered, 64, np.zeros(64, np.float32)):
        (finding,) = report.errors
        assert finding.code == "uninitialized-read"
        assert finding.sites[0].text.endswith("not yet written")
        line = finding.sites[0].line + 2
        assert any(f"on line {line} only after this read" in note for note in finding.notes)


def test_what_nothing_writes_is_never_written() -> None:
    for report in reports(never, 64, np.zeros(64, np.float32)):
        (finding,) = report.errors
        assert finding.sites[0].text.endswith("never written")


# -- what to do about it ----------------------------------------------------------------------------------------------


@cuda.jit
def broadcast(y):
    s = cuda.shared.array(1, np.float32)
    lane = cuda.threadIdx.x
    if lane == 0:
        s[0] = 1
    y[lane] = s[0]


def test_a_value_for_all_lanes_wants_a_syncwarp_or_a_shuffle() -> None:
    for report in reports(broadcast, 32, np.zeros(32, np.float32)):
        (finding,) = report.errors
        assert finding.code == "intra-warp-race"
        assert "cuda.syncwarp()" in (finding.help or "")
        assert "cuda.shfl_sync" in (finding.help or "")
        assert "atomic" not in (finding.help or "")


def test_advice_is_in_the_words_of_the_source() -> None:
    from wsemu.launch.words import text

    assert text("declare it with `alignment=16`") == "declare it with `__align__(16)`"
    assert text("pass the value on with `cuda.shfl_sync`") == "pass the value on with `__shfl_sync`"


@cuda.jit
def all_lanes_store(y, values):
    t = cuda.threadIdx.x
    y[0] = values[0]
    y[1 + t // 2] = values[t // 2]


@pytest.mark.parametrize("strict", [False, True])
def test_lanes_that_store_one_value_are_noted_where_that_is_asked_for(strict: bool) -> None:
    arguments = np.zeros(17), np.arange(16.0)
    for engine in ENGINES:
        report = wsemu.check(all_lanes_store, 1, 32, arguments, engine=engine, strict=strict)
        assert report.verdict == "verified"
        said = [note for note in report.notes if "same value to one element of `y`" in note]
        assert len(said) == (2 if strict else 0)
