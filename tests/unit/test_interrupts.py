"""Ctrl-C, wherever a command is: one line that says so, exit code 130, and nothing that is not known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands import wsemu

ROOT = Path(__file__).resolve().parents[2]
BROKEN = ROOT / "examples/broken/early_exit.py"
SUMS = ROOT / "docs/programs/sums.ptx"


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("options", [(), ("--all",)])
def test_before_the_program_runs(monkeypatch, options):
    monkeypatch.setattr("wsemu.app.chosen.resolve_settings", interrupt)
    done = wsemu("check", *options, BROKEN)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_what_was_found_is_told_where_edits_are_tried(monkeypatch):
    monkeypatch.setattr("wsemu.repair.trials.try_edits", interrupt)
    done = wsemu("check", "--fix-budget", 2, BROKEN)
    assert done.returncode == 130
    assert "error[" in done.stdout
    assert "failed: " in done.stdout
    assert "= note: the search for an edit that is a cure was interrupted\n" in done.stdout
    assert done.stdout.endswith("interrupted after 1 launch\n")
    assert done.stderr == ""


def test_no_fix_is_spoken_of_where_the_program_was_interrupted(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("raise KeyboardInterrupt")
    done = wsemu("check", "--fix", program)
    assert (done.returncode, done.stdout) == (130, "interrupted after 0 launches\n")


def test_while_a_patch_is_made(monkeypatch):
    monkeypatch.setattr("wsemu.app.fix.Fixes.finish", interrupt)
    done = wsemu("check", "--fix", BROKEN)
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (130, "interrupted", "")


def test_no_further_launch_file_is_run(tmp_path, monkeypatch):
    shutil.copy(SUMS, tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(
            f'{{"ptx": {SUMS.name!r}, "entry": "sums<true>", "grid": [1], "block": [64],'
            ' "args": ["f32[3,32]:ones", "f32[32]:empty", "i32:3"]}'.replace("'", '"')
        )
    monkeypatch.setattr("wsemu.app.program._execute", interrupt)
    done = wsemu("check", tmp_path)
    assert (done.returncode, done.stdout) == (130, "interrupted after 0 launches\n")


def test_nothing_is_said_of_proofs_that_were_not_seen(monkeypatch):
    monkeypatch.setattr("wsemu.app.program._execute", interrupt)
    done = wsemu("lean", BROKEN)
    assert (done.returncode, done.stdout) == (130, "interrupted after 0 launches\n")
