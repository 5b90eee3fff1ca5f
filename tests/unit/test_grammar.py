"""One grammar for all commands: options before or after the operand, help in groups, suggestions, the manual page."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.commands import wsemu
from wsemu.app.command_line import app
from wsemu.app.front_page import COMMANDS
from wsemu.app.manual import manual_page
from wsemu.app.option_groups import GROUPS, OTHERS, group_parameters

ROOT = Path(__file__).resolve().parents[2]
MANUAL = ROOT / "docs" / "man" / "wsemu.1"
PTX = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 p)
{
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    st.global.u32 [%rd2], 7;
    ret;
}
"""
LAUNCH = '{"ptx": "fill.ptx", "grid": [1], "block": [1], "args": ["i32[1]"]}\n'
PROGRAM = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def fill(x):
    x[0] = 7

fill[1, 1](np.zeros(1, np.int32))
"""


def commands() -> dict[str, Any]:
    return typer.main.get_command(app).commands  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program, PTX, a launch file, and a folder of launch files."""
    below = tmp_path / "launches"
    below.mkdir()
    for place in (tmp_path, below):
        (place / "fill.ptx").write_text(PTX)
        (place / "fill.json").write_text(LAUNCH)
    (tmp_path / "fill.py").write_text(PROGRAM)
    return tmp_path


OPERANDS = {
    "fill.py": [], "fill.ptx": ["--grid", "1", "--block=1", "--arg", "i32[1]"], "fill.json": [], "launches": [],
}  # fmt: skip


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("command", ["check", "run", "baseline", "time", "lean", "trace"])
def test_options_may_be_on_both_sides_of_every_operand(folder: Path, command: str, operand: str) -> None:
    options = [*OPERANDS[operand], "--arch", "sm_90"]
    pairs = [["--budget", "1000"], *([["--format=json"]] if command in ("check", "run", "time") else [])]
    said = set()
    for before in ([], pairs[:1], pairs):
        after = itertools.chain(*(pair for pair in pairs if pair not in before))
        done = wsemu(command, *itertools.chain(*before), *options[:2], operand, *options[2:], *after, cwd=folder) if (
            operand == "fill.ptx"
        ) else wsemu(command, *itertools.chain(*before), operand, *options, *after, cwd=folder)  # fmt: skip
        assert done.returncode in (0, 3), done.stdout + done.stderr
        said.add(re.sub(r"\d+\.\d\d s|\(\d+ new, \d+ gone\)", "", done.stdout))
    assert len(said) == 1


def test_words_of_a_program_are_its_own_and_a_slip_is_named(folder: Path) -> None:
    (folder / "fill.py").write_text(PROGRAM + "import sys\nprint(sys.argv[1:])\n")
    done = wsemu("check", "fill.py", "--formt", "json", cwd=folder)
    assert "['--formt', 'json']" in done.stdout
    assert done.stderr == (
        "note: `--formt` is an argument of fill.py: did you mean `--format`? If not, write it after `--`\n"
    )
    assert wsemu("check", "fill.py", "--", "--formt", "json", cwd=folder).stderr == ""
    assert wsemu("check", "fill.py", "--size", "3", cwd=folder).stderr == ""


def test_a_second_program_is_an_argument_with_a_note(folder: Path) -> None:
    (folder / "fill.py").write_text(PROGRAM)
    (folder / "other.py").write_text(PROGRAM)
    done = wsemu("check", "fill.py", "other.py", cwd=folder)
    assert done.stderr == (
        "note: `other.py` is an argument of fill.py, and is not checked: check several programs with "
        "`python -m wsemu.app.each`; if it is an argument, write it after `--`\n"
    )
    for words in (["--", "other.py"], ["none.py"]):
        assert wsemu("check", "fill.py", *words, cwd=folder).stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chek", "a.py"], "no such command 'chek', did you mean `check`?"),
        (["bench"], "no such command 'bench'"),
        (["fill.py"], "no such command 'fill.py': give a command before the file, as in `wsemu check fill.py`"),
        (["check", "--formt", "json", "fill.py"], "no such option: --formt, did you mean `--format`?"),
        (["check", "fill.ptx", "--gird", "1"], "no such option: --gird, did you mean `--grid`?"),
        (["time", "--devise", "H100", "fill.py"], "no such option: --devise, did you mean `--device`?"),
        (["sweep", "--tires=3", "fill.py::f"], "no such option: --tires, did you mean `--tries`?"),
        (["check", "--xyzzy", "fill.py"], "no such option: --xyzzy"),
        (["explain", "rase"], "no finding code 'rase': did you mean `race`?"),
    ],
)
def test_the_closest_name_is_suggested(folder: Path, words: list[str], message: str) -> None:
    done = wsemu(*words, cwd=folder)
    assert done.returncode == 2
    assert (done.stdout + done.stderr).splitlines()[-1] == f"error: {message}"


def test_help_has_groups_and_each_option_is_in_one() -> None:
    known = {name for names in GROUPS.values() for name in names.split()}
    for name, command in ((name, commands()[name]) for name in COMMANDS):
        options = {p.name for p in command.params if p.param_type_name == "option"} - {"help"}
        assert options <= known, name
    page = wsemu("check", "--help").stdout
    titles = re.findall(r"(?m)^(\S[^\n]*):$", page)
    assert titles == ["Arguments", *GROUPS, OTHERS]
    assert [*group_parameters(commands()["explain"].params)] == ["Arguments"]


def test_the_manual_page_is_that_of_today(bless: bool) -> None:
    if bless:
        MANUAL.write_text(manual_page(), encoding="utf-8")
    assert MANUAL.read_text(encoding="utf-8") == manual_page(), "run `pytest --bless` on this test"


def test_the_manual_page_has_every_command_and_option() -> None:
    page = manual_page().replace("\\-", "-")
    for name in COMMANDS:
        assert f".SS wsemu {name} [OPTIONS]" in page
        for parameter in commands()[name].params:
            assert all(flag in page for flag in (*parameter.opts, *parameter.secondary_opts) if flag[0] == "-")


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_the_manual_page_is_roff_without_a_warning() -> None:
    done = subprocess.run(["groff", "-man", "-Tascii", "-ww", str(MANUAL)], check=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert "WSEMU(1)" in done.stdout
