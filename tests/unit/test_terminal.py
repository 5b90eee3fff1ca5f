"""Reports as text."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from wsemu.launch.result import Report
from wsemu.model.errors import KernelError, UnsupportedError, UsageError
from wsemu.model.finding import Counters, Finding, Site
from wsemu.model.program import Span
from wsemu.model.version import DOCS
from wsemu.report import terminal

SOURCE = """\
def kernel(x, tile):
    if lane >= 32:
        ptx.bar_sync(3, 64)
        tile[lane] = x[lane]
        ptx.bar_arrive(2, 64)

    ptx.bar_sync(2, 64)
    größe = tile[lane] + x[lane]
\ty = 1
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "kernel.py"
    file.write_text(SOURCE, encoding="utf-8")
    return str(file)


def site(file: str, line: int, what: str, text: str = "", **fields: Any) -> Site:
    """The site of `what` in a line of SOURCE."""
    before = SOURCE.splitlines()[line - 1].partition(what)[0]
    column = len(before.encode())
    return Site.at(Span(file, line, column, line, column + len(what.encode())), text, **fields)


def test_a_finding(source):
    finding = Finding(
        code="deadlock",
        message="2 of 2 live warps wait on named barriers that cannot complete",
        sites=[
            site(source, 3, "ptx.bar_sync(3, 64)", "warp 1 (DMA) waits"),
            site(source, 5, "ptx.bar_arrive(2, 64)", "would release warp 0, but follows line 3", primary=False),
            site(source, 3, "ptx.bar_sync(3, 64)", "here again"),
        ],
        notes=["cycle: warp 1 -> barrier 3 -> warp 0 -> barrier 2 -> warp 1, and more words that make this line long"],
        holds_in="every schedule",
        help="move the arrive",
        count=1200,
    )
    assert terminal.render_finding(finding) == (
        "error[deadlock]: 2 of 2 live warps wait on named barriers that cannot complete\n"
        " --> kernel.py:3:9\n"
        "  |\n"
        "3 |         ptx.bar_sync(3, 64)\n"
        "  |         ^^^^^^^^^^^^^^^^^^^ warp 1 (DMA) waits\n"
        "5 |         ptx.bar_arrive(2, 64)\n"
        "  |         --------------------- would release warp 0, but follows line 3\n"
        "...\n"
        "3 |         ptx.bar_sync(3, 64)\n"
        "  |         ^^^^^^^^^^^^^^^^^^^ here again\n"
        "  |\n"
        "  = note: cycle: warp 1 -> barrier 3 -> warp 0 -> barrier 2 -> warp 1, and more\n"
        "          words that make this line long\n"
        "  = note: seen 1,200 times; this is the first\n"
        "  = holds in: every schedule\n"
        "  = hint: move the arrive\n"
        "  = run `wsemu explain deadlock` for more"
    )


def test_the_place_at_the_head_is_the_first_primary_one(source, tmp_path):
    places = [
        site(source, 4, "x[lane]", "(1) loaded", primary=False),
        site(source, 8, "tile[lane]", "(2) stored"),
        site(source, 7, "ptx", "here too"),
    ]
    lines = terminal.render_finding(Finding(code="race", message="m", sites=places)).split("\n")
    assert lines[1] == " --> kernel.py:8:13"
    assert [line[0] for line in lines if re.match(r"\d \|", line)] == ["4", "8", "7"]
    other = tmp_path / "other.py"
    other.write_text("y = x[lane]\n")
    places[0] = Site(file=str(other), line=1, column=5, end_column=12, text="(1) loaded", primary=False)
    lines = terminal.render_finding(Finding(code="race", message="m", sites=places)).split("\n")
    assert [line for line in lines if "-->" in line or ":::" in line] == [" --> kernel.py:8:13", " ::: other.py:1:5"]


def test_two_sites_of_one_line_share_it(source):
    places = [site(source, 4, "tile[lane]", "(2) stored"), site(source, 4, "x[lane]", "(1) loaded")]
    finding = Finding(code="race", message="m", sites=places)
    text = terminal.render_finding(finding)
    assert text.count("tile[lane] = x[lane]") == 1
    assert text.count("^") == len("tile[lane]") + len("x[lane]")


def test_columns_count_characters_not_bytes(source):
    text = terminal.render_finding(Finding(code="race", message="m", sites=[site(source, 8, "tile[lane]")]))
    assert "kernel.py:8:13" in text
    assert "  |             ^^^^^^^^^^\n" in text


def test_a_tab_is_shown_as_four_blanks(source):
    text = terminal.render_finding(Finding(code="race", message="m", sites=[site(source, 9, "y")]))
    assert "9 |     y = 1\n  |     ^\n" in text


def test_a_place_over_several_lines_is_marked_to_the_end_of_the_first(source):
    there = Site(file=source, line=3, column=9, end_line=5, end_column=3)
    assert f"  |         {'^' * len('ptx.bar_sync(3, 64)')}\n" in terminal.render_finding(
        Finding(code="race", message="m", sites=[there])
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_keep_to_the_width(tmp_path, width):
    file = tmp_path / "wide.py"
    file.write_text(f"    total = {' + '.join(f'tile[{i}]' for i in range(60))}\n")
    places = [
        Site(file=str(file), line=1, column=c, end_column=c + 7, text="a label of some words " * 3)
        for c in (5, 200, 500)
    ]
    finding = Finding(code="race", message="many words " * 20, sites=places, notes=["words " * 40], help="do " * 60)
    lines = terminal.render_finding(finding, width).split("\n")
    assert max(len(line) for line in lines if "-->" not in line) <= width
    marked = [i for i, line in enumerate(lines) if "^" in line]
    sources = [line for line in lines if line.startswith("1 | ")]
    assert len(sources) == len(marked) == 3  # each mark stands under its own cut of the line
    for i, place in zip(marked, places, strict=True):
        start = lines[i].index("^")
        expected = file.read_text()[place.column - 1 : place.end_column - 1]
        assert lines[i - 1][start : start + lines[i].count("^")] == expected


def test_a_source_that_is_gone_leaves_the_place():
    text = terminal.render_finding(Finding(code="race", message="m", sites=[SITE_WITHOUT_SOURCE]))
    assert (
        text
        == "error[race]: m\n --> <string>:7:3\n  |\n7 | stored by warp 1\n  |\n  = run `wsemu explain race` for more"
    )


SITE_WITHOUT_SOURCE = Site(file="<string>", line=7, column=3, end_column=4, text="stored by warp 1")


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    file = tmp_path / "odd.py"
    file.write_text("x = '\x1b[31m'\n")
    finding = Finding(code="race", message="a\x1b[0m", sites=[Site(file=str(file), line=1, column=1, end_column=2)])
    assert "\x1b" not in terminal.render_finding(finding)


def test_many_places_are_counted(source):
    finding = Finding(code="race", message="m", sites=[site(source, 3, "ptx")] * 20)
    assert "8 more places are not shown" in terminal.render_finding(finding)


def launch(verdict: Any, **fields: Any) -> Report:
    return Report(kernel="sgemv", grid=8, block=(288, 1, 1), verdict=verdict, **fields)  # type: ignore[arg-type]


def test_summaries():
    counters = Counters(
        accesses=1306624, shared_load_wavefronts=5, ideal_shared_load_wavefronts=5,
        global_load_sectors=100, ideal_global_load_sectors=97,
    )  # fmt: skip
    verified = launch("verified", proof="deadlock-free in every schedule", counters=counters, seconds=0.018)
    assert terminal.summary(verified) == (
        "sgemv[grid 8, block 288]  verified: deadlock-free in every schedule\n"
        "  1,306,624 accesses, 0 bank conflicts, 97% coalesced, 0.02 s"
    )
    assert terminal.summary(launch("incomplete", notes=["budget used up"])) == (
        "sgemv[grid 8, block 288]  incomplete: no error seen, nothing proven\n"
        "  0 accesses, 0.00 s\n"
        "  = note: budget used up"
    )
    failed = launch("failed", findings=[Finding(code=c, message="m") for c in ("race", "race", "bank-conflict")])
    assert terminal.summary(failed).startswith("sgemv[grid 8, block 288]  failed: 2 errors, 1 warning\n")
    assert "block 16 x 4]" in terminal.summary(failed.model_copy(update={"block": (16, 4, 1)}))
    assert "grid 16 x 4 x 2," in terminal.summary(failed.model_copy(update={"grid": (16, 4, 2)}))


def test_an_incomplete_report_is_never_rendered_as_clean():
    text = terminal.render(launch("incomplete", findings=[Finding(code="bank-conflict", message="m")], notes=["why"]))
    assert "warning[bank-conflict]" in text
    assert "nothing proven" in text
    assert "why" in text


def test_an_error_in_a_kernel(source):
    calls = (Span(source, 7, 4, 7, 23),)
    error = KernelError("unknown name `ptx`", Span(source, 3, 8, 3, 11), "import it", calls)
    assert terminal.render_error(error) == (
        "error: unknown name `ptx`\n"
        " --> kernel.py:3:9\n"
        "  |\n"
        "3 |         ptx.bar_sync(3, 64)\n"
        "  |         ^^^\n"
        "...\n"
        "7 |     ptx.bar_sync(2, 64)\n"
        "  |     ------------------- called from here\n"
        "  |\n"
        "  = help: import it"
    )
    assert terminal.render_error(UnsupportedError("no `try`", None)) == "unsupported: no `try`"
    assert terminal.render_error(UsageError("grid is empty")) == "error: grid is empty"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (Terminal, {"TERM": "xterm-256color"}, True),
        (Terminal, {"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {"TERM": "xterm-256color"}, False),
    ],
)
def test_colour_only_on_a_terminal(monkeypatch, stream, environment, coloured, source):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = stream()
    finding = Finding(code="race", message="m", sites=[site(source, 3, "ptx.bar_sync(3, 64)", "here")])
    terminal.Printer(out).report(launch("failed", findings=[finding]))
    text = out.getvalue()
    assert ("\x1b[" in text) == coloured
    assert (f"{DOCS}codes/race.html\x1b\\" in text) == coloured
    shown = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;.*?\x1b\\", "", text)
    assert "= run `wsemu explain race` for more\n" in shown
    assert shown.startswith("error[race]: m\n --> kernel.py:3:9\n")
    assert "^^^^^^^^^^^^^^^^^^^ here" in shown
