"""`wsemu explain`: the pages, whose kernels are run, and what the command says."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING

import pytest

from wsemu.checkers.page import SECTIONS
from wsemu.checkers.page import page as page_of
from wsemu.host.recorder import recorder
from wsemu.launch.hooks import observers
from wsemu.model.codes import CHECKER_OF, CODES
from wsemu.model.errors import UsageError
from wsemu.model.finding import BETWEEN

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu.launch.result import Report

ESCALATED = {"undefined-shuffle"}
"""codes of warnings that are errors in these programs, for what their values reach"""
OF_A_LATER_LAUNCH = {"frozen-array"}
"""codes that a first launch cannot have: their programs launch twice, and the second launch counts"""


def reports(program: str, file: Path, code: str) -> list[Report]:
    """Return the report of the launch that a page's program is about, or what was found between its launches."""
    found: list[Report] = []
    file.write_text(program, encoding="utf-8")
    linecache.checkcache()
    observers.append(found.append)
    try:
        exec(compile(program, str(file), "exec"), {"__name__": "__main__"})
    finally:
        observers.remove(found.append)
    if CHECKER_OF[code] == "between":
        recorder.reset()
        assert {report.verdict for report in found if report.kernel != BETWEEN} == {"verified"}
        return [report for report in found if report.kernel == BETWEEN] or found[-1:]
    if code in OF_A_LATER_LAUNCH:
        return found[1:]
    assert len(found) == 1, "a page's program launches one kernel"
    return found


@pytest.mark.parametrize("code", CODES)
def test_a_page_has_its_sections(code):
    page = page_of(code)
    headings = [line.removeprefix("## ") for line in page.text.splitlines() if line.startswith("## ")]
    assert page.text.startswith(f"# {code}\n\n{CODES[code][0].capitalize()}: ")
    assert headings == list(SECTIONS)
    assert max(map(len, page.text.splitlines())) <= 130


@pytest.mark.parametrize("code", CODES)
def test_the_bad_kernel_has_the_bug(code, tmp_path):
    (report,) = reports(page_of(code).bad, tmp_path / "bad.py", code)
    assert code in [finding.code for finding in report.findings]
    assert report.verdict == ("failed" if CODES[code][0] == "error" or code in ESCALATED else "verified")


@pytest.mark.parametrize("code", CODES)
def test_the_good_kernel_is_verified(code, tmp_path):
    (report,) = reports(page_of(code).good, tmp_path / "good.py", code)
    assert report.verdict == "verified"
    assert not report.findings


def test_an_unknown_code_has_a_near_one():
    with pytest.raises(UsageError, match="no finding code 'bank_conflit': did you mean `bank-conflict`"):
        page_of("bank_conflit")
    with pytest.raises(UsageError, match="`wsemu explain` lists them all"):
        page_of("\x1b[31m")


def test_every_page_is_of_a_code():
    from importlib.resources import files

    pages = {entry.name.removesuffix(".md") for entry in files("wsemu.checkers").joinpath("pages").iterdir()}
    assert pages == set(CODES)


def test_options_that_pages_name_exist():
    import re

    from typer.main import get_command

    from wsemu.app.command_line import app

    commands = get_command(app).commands.values()  # type: ignore[attr-defined]
    flags = {
        flag for command in commands for option in command.params for flag in (*option.opts, *option.secondary_opts)
    }
    named = {(code, flag) for code in CODES for flag in re.findall(r"`(?:wsemu \w+ )?(--[a-z-]+)", page_of(code).text)}
    assert named
    assert {(code, flag) for code, flag in named if flag not in flags} == set()
