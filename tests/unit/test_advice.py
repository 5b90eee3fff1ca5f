"""What wsemu says where something is missing or misspelled, and what it leaves beside a program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands import wsemu
from wsemu.app import doctor
from wsemu.backends import numba_cuda
from wsemu.checkers.page import page
from wsemu.model.errors import UsageError
from wsemu.model.own_folder import make_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("nonsense", "`wsemu explain` lists them all"),
        ("wait", "did you mean `missing-pdl-wait`?"),
        ("rase", "did you mean `race`?"),
        ("bank", "did you mean `bank-conflict`?"),
        ("Bank_Conflit", "did you mean `bank-conflict`?"),
        ("recycling", "did you mean `barrier-recycling`?"),
    ],
)
def test_a_code_is_suggested_for_what_is_like_it_and_for_nothing_else(word, advice):
    with pytest.raises(UsageError, match=f"no finding code '{word}': {re.escape(advice)}"):
        page(word)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "--nope", "x.py"], "error: no such option: --nope"),
        (
            ["--tier", "off", "check", "x.py"],
            "error: no such option: --tier before the command: give it behind, as in `wsemu check --tier`",
        ),
        (["nope"], "error: no such command 'nope'"),
        (["check"], "error: missing argument 'FILE'"),
        (["explain", "nope"], "error: no finding code 'nope'"),
    ],
)
def test_every_error_begins_alike(arguments, said):
    done = wsemu(*arguments)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout
    assert "Error" not in done.stderr + done.stdout


def test_doctor_and_crosscheck_advise_what_the_readme_has(monkeypatch):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"(?m)^    (pip install '.*\[gpu\]')$", readme)
    assert command in doctor.WANTED["numba-cuda"]
    assert command == numba_cuda._INSTALL


def test_the_folder_of_wsemu_is_ignored_by_git(tmp_path):
    make_folder(tmp_path / ".wsemu" / "fuzz")
    ignore = tmp_path / ".wsemu" / ".gitignore"
    assert "*" in ignore.read_text().splitlines()
    ignore.write_text("mine")
    make_folder(tmp_path / ".wsemu" / "fuzz")
    assert ignore.read_text() == "mine"
    make_folder(tmp_path / "other" / "place")
    assert not list((tmp_path / "other").rglob(".gitignore"))


def test_a_shell_completes_commands_and_codes(monkeypatch):
    done = wsemu(_WSEMU_COMPLETE="complete_bash", COMP_CWORD="2", COMP_WORDS="wsemu explain bar")
    assert done.stdout.split() == ["barrier-recycling", "barrier-divergence"]
    done = wsemu(_WSEMU_COMPLETE="complete_bash", COMP_CWORD="1", COMP_WORDS="wsemu cr")
    assert done.stdout.split() == ["crosscheck"]
