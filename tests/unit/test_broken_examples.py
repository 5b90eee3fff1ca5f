"""`examples/broken`: every code that these programs can show has one, and `wsemu check` says so with its exit code."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wsemu.app.command_line import app
from wsemu.model.codes import CODES

FOLDER = Path(__file__).parents[2] / "examples" / "broken"
ESCALATED = {"undefined-shuffle"}
"""codes of warnings that are errors in these programs, for what their values reach"""
PROGRAMS = sorted(FOLDER.glob("*.py"))


def code(path: Path) -> str:
    """`Bank conflict: ...`, the docstring's first words, name `bank-conflict`."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition(":")[0].lower().replace(" ", "-")


def check(*arguments: object) -> tuple[int, str]:
    """The exit code of `wsemu check`, and what it prints."""
    done = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return done.exit_code, done.output


def test_every_code_has_a_program():
    assert {code(path) for path in PROGRAMS} == set(CODES)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_its_code_is_shown_with_the_exit_code(path):
    severity = "error" if code(path) in ESCALATED else CODES[code(path)][0]
    exit_code, output = check("--all", path)
    assert f"{severity}[{code(path)}]: " in output
    assert exit_code == (1 if severity == "error" else 0), output
    launched = "ptx" if path.with_suffix(".ptx").is_file() else "py"
    assert f"broken{os.sep}{path.stem}.{launched}:" in re.sub(r"\s+", "", output)


@pytest.mark.parametrize(
    "path", [path for path in PROGRAMS if CODES[code(path)][0] == "warning"], ids=lambda path: path.stem
)
def test_a_warning_can_be_made_an_error(path):
    exit_code, output = check("--fail-on", code(path), path)
    assert exit_code == 1
    assert f"error[{code(path)}]: " in output
