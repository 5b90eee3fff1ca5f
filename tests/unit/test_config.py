"""`[tool.wsemu]`: the same names as the options, precedence, suppressions, and files that are wrong."""

from __future__ import annotations

import dataclasses
import random
import re
import runpy
from typing import TYPE_CHECKING, Any

import pytest

from wsemu.app import pyproject
from wsemu.app.chosen import Chosen, resolve_settings
from wsemu.app.config import Configuration, Suppress
from wsemu.launch.hooks import observers
from wsemu.model import settings
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu.launch.result import Report

PROGRAM = """\
import numpy as np
from wsemu import cuda, ptx

@cuda.jit
def first_come(x, y):
    y[0] = x[cuda.threadIdx.x]
    y[1] = 1

@cuda.jit
def aside(y):
    y[cuda.threadIdx.x] = 1

def launches():
    first_come[1, 64](np.arange(64), np.zeros(64, np.int64))
    aside[1, 32](np.zeros(32, np.int64))

if __name__ == "__main__":
    launches()
"""
VALID = """\
[project]
name = "kernels"

[tool.wsemu]
arch = "sm_80"
fma = false
budget = 1_000_000
engine = "vm"
only = ["race", "bank_conflict"]
skip = []
lockstep = true
fail-on = ["uncoalesced"]
kernel = ["first*"]
limit = 3
format = "text"

[[tool.wsemu.suppress]]
code = "race"
file = "*.py"
reason = "any value will do"

[[tool.wsemu.suppress]]
code = "bank-conflict"
file = "other/slow.py"
line = 12
function = "slow"
array = "tile"
reason = "the slow one is slow"
"""


@pytest.fixture
def program(tmp_path):
    """A program with a pyproject.toml beside it: program(text of the table) returns its path."""

    def write(table: str, source: str = PROGRAM) -> Path:
        (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
        file: Path = tmp_path / "program.py"
        file.write_text(source, encoding="utf-8")
        return file

    return write


def reports(file: Path) -> list[Report]:
    """What the launches of a program come to, as configured."""
    found: list[Report] = []
    observers.append(found.append)
    try:
        with settings.using(resolve_settings(file, {})[1]):
            runpy.run_path(str(file), run_name="__main__")
    finally:
        observers.remove(found.append)
    return found


def test_the_keys_are_the_options():
    import typer

    from wsemu.app.command_line import app
    from wsemu.app.ptx_launch import Options

    launch = {field.name.replace("_", "-") for field in dataclasses.fields(Options)}
    commands: Any = typer.main.get_command(app)
    for name in ("check", "run"):
        options = {p.opts[0].removeprefix("--") for p in commands.commands[name].params if p.opts[0].startswith("--")}
        keys = {field.replace("_", "-") for field in Configuration.model_fields}
        assert (
            keys - {"suppress"}
            == options - {"help", "fix", "write", "like", "progress", "tier", "source-root", "watch"} - launch
        )


def test_the_keys_are_those_of_the_pytest_plugin():
    from wsemu.pytest_plugin import OPTIONS

    elsewhere = {"suppress", "format", "limit", "all", "time_limit", "save_witness", "statistics", "certificate"}
    elsewhere |= {"launch_skip", "launch_count", "save_launches"}
    assert set(OPTIONS) == set(Configuration.model_fields) - elsewhere


def test_every_key_counts(program):
    chosen, held = resolve_settings(program(VALID), {})
    assert (held.arch, held.fma, held.budget, held.lockstep) == ("sm_80", False, 1_000_000, True)
    assert held.checkers == {"race", "bank-conflict"}
    assert held.fail_on == {"uncoalesced"}
    assert [held.wants(name) for name in ("first_come", "aside")] == [True, False]
    assert (chosen.limit, chosen.format) == (3, "text")
    assert [(s.line, s.function, s.array, s.written[1]) for s in held.suppressions] == [
        (None, None, None, 17), (12, "slow", "tile", 22),
    ]  # fmt: skip


def test_the_defaults_are_those_of_a_launch(program):
    assert resolve_settings(program(""), {})[1] == settings.Settings()


def test_the_command_line_goes_first(program):
    given = {"arch": "sm_90", "only": ["deadlock"], "limit": 0}
    chosen, held = resolve_settings(program(VALID), given)
    assert held.checkers == {"deadlock"}
    assert (held.arch, chosen.limit, held.fma) == ("sm_90", 0, False)


def test_the_nearest_file_with_the_table_counts(tmp_path):
    inner = tmp_path / "kernels" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.wsemu]\narch = "sm_70"\n')
    (inner.parent / "pyproject.toml").write_text("[project]\nname = 'no table'\n")
    assert resolve_settings(inner / "program.py", {})[1].arch == "sm_70"
    (inner / "pyproject.toml").write_text("[tool.wsemu]\n")
    assert resolve_settings(inner / "program.py", {})[1].arch == "sm_90"


ENTRY = '[[tool.wsemu.suppress]]\ncode = "race"\nfile = "a.py"\nreason = "known"\n'
WRONG = {
    "[tool.wsemu]\nfail_on = []": "has no key \"fail_on\": did you mean `fail-on`?",
    "[tool.wsemu]\nlockstp = true": 'has no key "lockstp": did you mean `lockstep`?',
    "[tool.wsemu]\nzzz = 1": 'has no key "zzz": the keys are arch, sms, clc, ranks, heap, fma, mma, budget, engine, ',
    "[tool.wsemu]\nbudget = 'many'": '`budget` is "many": give an integer',
    "[tool.wsemu]\nbudget = 0": "`budget` is 0: give 1 or more",
    "[tool.wsemu]\nlimit = true": "`limit` is True: give an integer",
    "[tool.wsemu]\nfma = 'no'": '`fma` is "no": give true or false',
    "[tool.wsemu]\nskip = 'race'": '`skip` is "race": give a list',
    "[tool.wsemu]\nskip = [1]": "`skip` has an item 1: give a string",
    "[tool.wsemu]\nskip = ['rase']": "`skip`: no checker 'rase': one of deadlock, race, ",
    "[tool.wsemu]\nfail-on = ['rase']": "`fail-on`: no finding code 'rase': one of deadlock, race, ",
    "[tool.wsemu]\narch = 'sm_1'": "`arch`: unknown arch 'sm_1': use one of sm_13, ",
    "[tool.wsemu]\nengine = 'gpu'": "`engine` is \"gpu\": give one of 'vm' or 'reference'",
    "[tool.wsemu]\nformat = 1979-05-27": "`format` is a date: give one of 'text', ",
    '[tool.wsemu]\nsave-witness = "a\\u0000b"': "`save-witness`: no folder has the character 0 in its name",
    "[tool.wsemu]\nonly = ['race']\nskip = ['race']": "nothing left to look for",
    "[tool]\nwsemu = 3": "pyproject.toml: `tool.wsemu` is an integer: write the table `[tool.wsemu]`",
    "[tool.wsemu]\nsuppress = 1": "`suppress` is 1: give a list",
    "[tool.wsemu]\nsuppress = [1]": "`suppress` has an item 1: give a table `[[tool.wsemu.suppress]]`",
    ENTRY.replace("reason", "because"): 'number 1 has no key "because": the keys are code, file, ',
    ENTRY + ENTRY.replace("file", "# file"): "`suppress` number 2 lacks `file`: its keys are code, file, reason, ",
    ENTRY.replace("known", " "): "number 1 `reason`: say why the finding is accepted",
    ENTRY.replace("race", "rase"): "number 1 `code`: no finding code 'rase'",
    ENTRY + "line = 0": "number 1 `line` is 0: give 1 or more",
    ENTRY + "array = ''": 'number 1 `array` is "": give a string that is not empty',
    "[tool.wsemu": "pyproject.toml is not TOML: expected ']'",
    "a = " + "[" * 100_000: "pyproject.toml is not TOML",
    "a = " + "1" * 10_000: "pyproject.toml is not TOML",
}  # fmt: skip


@pytest.mark.parametrize("table", WRONG, ids=lambda table: table[:40])
def test_a_wrong_file_has_a_message(program, table):
    with pytest.raises(UsageError) as caught:
        resolve_settings(program(table), {})
    assert WRONG[table] in str(caught.value)
    assert str(caught.value).startswith(("pyproject.toml", "nothing left"))


def test_a_file_that_cannot_be_read_has_a_message(program, tmp_path):
    file = program("")
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.wsemu]\n# \xff\n")
    with pytest.raises(UsageError, match=r"pyproject\.toml is not UTF-8: byte 15"):
        resolve_settings(file, {})
    (tmp_path / "pyproject.toml").write_bytes(b"#" * (pyproject.LARGEST + 1))
    with pytest.raises(UsageError, match="has 1,048,577 bytes: wsemu reads at most 1,048,576"):
        resolve_settings(file, {})


def mutated(text: bytes, chance: random.Random) -> bytes:
    """A file with one thing wrong, more or less."""
    at = chance.randrange(len(text))
    lines = text.splitlines(keepends=True)
    line = chance.randrange(len(lines))
    values = [
        b"-1",
        b"''",
        b"[]",
        b"{}",
        b"[[]]",
        b"1e999",
        b"nan",
        b"true",
        b"1979-05-27",
        b'"\\u001b[2J<b>"',
        b"{a=1}",
    ]
    key, equals, _ = lines[line].partition(b"=")
    kinds = {
        "truncated": text[:at],
        "flipped": text[:at] + bytes([text[at] ^ 1 << chance.randrange(8)]) + text[at + 1 :],
        "inserted": text[:at] + bytes(chance.randrange(256) for _ in range(8)) + text[at:],
        "cut": text[:at] + text[at + chance.randrange(1, 40) :],
        "line lost": b"".join(lines[:line] + lines[line + 1 :]),
        "line twice": b"".join(lines[: line + 1] + lines[line:]),
        "other value": b"".join([*lines[:line], key + equals + chance.choice(values) + b"\n", *lines[line + 1 :]]),
        "other key": b"".join([*lines[:line], b"x" + lines[line], *lines[line + 1 :]]),
    }
    return kinds[chance.choice(sorted(kinds))]


@pytest.mark.parametrize("seed", range(200))
def test_a_mutated_file_has_a_message_or_counts(program, tmp_path, seed):
    file = program("")
    (tmp_path / "pyproject.toml").write_bytes(mutated(VALID.encode(), random.Random(seed)))
    try:
        resolve_settings(file, {})
    except UsageError as error:
        message = str(error)
        assert message.isprintable()
        assert len(message) < 400
        assert str(tmp_path) not in message


def test_most_mutated_files_are_wrong(program, tmp_path):
    """Else the test above would test little."""
    wrong = 0
    for seed in range(200):
        file = program("")
        (tmp_path / "pyproject.toml").write_bytes(mutated(VALID.encode(), random.Random(seed)))
        try:
            resolve_settings(file, {})
        except UsageError:
            wrong += 1
    assert wrong > 80


# -- suppressions ------------------------------------------------------------------------------------------------------
def table(**entry: object) -> str:
    fields = {"code": "race", "file": "*.py", "reason": "any value will do", **entry}
    lines = (f"{key} = {value!r}" for key, value in fields.items() if value is not None)
    return "[[tool.wsemu.suppress]]\n" + "\n".join(lines) + "\n"


def codes(report: Report) -> list[str]:
    return sorted(finding.code for finding in report.findings)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"file": "program.py"},
        {"file": "pro?ram.py"},
        {"function": "first_come"},
        {"line": 6, "array": "y"},
    ],
)
def test_a_suppression_in_the_table_accepts(program, entry):
    report, other = reports(program(table(**entry) + table(code="intra-warp-race") + table(line=7)))
    assert report.verdict == "verified"
    assert report.findings == []
    assert {s.finding.code for s in report.suppressed} == {"race", "intra-warp-race"}
    assert {s.reason for s in report.suppressed} == {"any value will do"}
    assert report.proof == "no error in this schedule besides the suppressed ones"
    assert other.proof.startswith("deadlock-free and race-free")


@pytest.mark.parametrize(
    "entry", [{"file": "other.py"}, {"line": 8}, {"array": "x"}, {"function": "aside"}, {"code": "deadlock"}]
)
def test_a_suppression_of_something_else_does_not(program, entry):
    report, _ = reports(program(table(**entry)))
    assert codes(report) == ["intra-warp-race", "race", "race"]
    assert report.suppressed == []


@pytest.mark.parametrize(
    ("entry", "unused"),
    [
        ({}, [False, True]),  # `aside` has no race
        ({"code": "deadlock"}, [True, True]),
        ({"function": "aside"}, [False, True]),
        ({"file": "other.py"}, [False, False]),
        ({"function": "elsewhere"}, [False, False]),
        ({"line": 100}, [False, False]),
    ],
)
def test_an_unused_suppression_is_told_where_it_could_have_matched(program, entry, unused):
    found = reports(program(table(**entry)))
    assert [bool(report.unused) for report in found] == unused


def test_a_suppression_is_not_unused_where_nobody_looked(program):
    found = reports(program('[tool.wsemu]\nskip = ["deadlock"]\n' + table(code="deadlock")))
    assert [report.unused for report in found] == [[], []]


def commented(comment: str) -> str:
    return PROGRAM.replace("    y[1] = 1\n", f"    y[1] = 1  {comment}\n")


@pytest.mark.parametrize(
    "comment",
    [
        "# wsemu: ignore[race] they store the same",
        "#wsemu:ignore[race, deadlock]: they store the same",
        "# noqa # wsemu: ignore[deadlock,race] they store the same",
    ],
)
def test_a_comment_accepts_what_is_on_its_line(program, comment):
    report, _ = reports(program("", commented(comment)))
    assert codes(report) == ["intra-warp-race", "race"]
    ((accepted),) = report.suppressed
    assert (accepted.reason, accepted.line, accepted.kind) == ("they store the same", 7, "source")
    assert report.unused == []


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# wsemu: ignore[race]", "`ignore[race]` does not count without a reason"),
        ("# wsemu: ignore", "names no finding code: write `# wsemu: ignore[CODE] reason`"),
        ("# wsemu: ignore[] reason", "names no finding code"),
        ("# wsemu: ignore[rase] reason", "does not count: no finding code 'rase'"),
        ("# wsemu: ignore[misaligned] reason", "the suppression of misaligned matches nothing: remove it"),
    ],
)
def test_a_comment_that_does_not_count_is_told(program, comment, message):
    report, other = reports(program("", commented(comment)))
    assert len(report.findings) == 3
    (unused,) = report.unused
    assert message in unused.message
    assert unused.line == 7
    assert other.unused == []  # the comment is in another kernel


def test_a_suppressed_deadlock_is_not_verified(program):
    source = PROGRAM.replace("y[0] = x[cuda.threadIdx.x]", "ptx.bar_sync(1, 128)")
    report, _ = reports(program(table(code="deadlock") + table(code="oversubscribed"), source))
    assert report.verdict == "incomplete"
    assert {s.finding.code for s in report.suppressed} >= {"deadlock"}


def test_every_field_of_a_suppression_is_documented():
    assert set(Suppress.model_fields) == {"code", "file", "reason", "line", "function", "array"}
    assert re.findall(r"\w+(?= = )", table()) == ["code", "file", "reason"]


def test_without_a_table_the_defaults_of_the_model_hold(tmp_path):
    defaults = Configuration()
    chosen = Chosen(*(getattr(defaults, name) for name in Chosen._fields))
    assert resolve_settings(tmp_path / "program.py", {}) == (chosen, defaults.settings())
