"""What is not proved is told: launches that are incomplete, verdicts of some checkers, errors in 80 columns."""

from __future__ import annotations

import io
import json
import pickle

import pytest

import wsemu
from tests.commands import python
from tests.commands import wsemu as command
from wsemu.launch import check
from wsemu.report.terminal import WIDTH, Printer

PROGRAM = """\
import sys
import numpy as np
from wsemu import cuda

@cuda.jit
def take_a_ticket(x, counter):
    place, other = cuda.atomic.add(counter, 0, 1), cuda.atomic.add(counter, 1, 1)
    x[place + other - other] = cuda.threadIdx.x

@cuda.jit
def good(x):
    x[cuda.threadIdx.x] = 1

@cuda.jit
def tries(x):
    try:
        x[0] = 1
    except ValueError:
        pass

x = np.zeros(64, np.int32)
good[1, 32](x)
for _ in range("tickets" in sys.argv and 2):
    take_a_ticket[1, 32](x, np.zeros(2, np.int32))
for _ in range("tries" in sys.argv and 2):
    tries[1, 32](x)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("says_so") / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_a_plain_launch_that_is_incomplete_says_so_once(program, monkeypatch):
    monkeypatch.setattr(check, "_told", set())
    done = python(program, "tickets")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wsemu: `take_a_ticket` is incomplete (atomics): `wsemu check` says why\n"


def test_a_plain_run_of_clean_kernels_is_silent(program, monkeypatch):
    monkeypatch.setattr(check, "_told", set())
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_launch_that_others_tell_of_is_not_told_twice(program, monkeypatch):
    monkeypatch.setattr(check, "_told", set())
    assert command("check", program, "tickets").stderr == ""


def test_json_counts_launches_that_were_not_run(program):
    done = command("check", "--format", "json", program, "tries")
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode == 3
    assert document["verdicts"] == {"verified": 1, "failed": 0, "incomplete": 2}
    assert [report["kernel"] for report in document["reports"]] == ["good", "tries", "tries"]
    not_run = document["reports"][1]
    assert not_run["verdict"] == "incomplete"
    assert not_run["notes"][-1] == "it was not run: its arrays are as they were"
    assert not_run["notes"][0].startswith("program.py:16: ")
    assert [message["level"] for message in document["messages"]] == ["warning", "warning", "note"]


def test_sarif_tells_of_a_launch_that_was_not_run_once(program):
    (log,) = json.loads(command("check", "--format", "sarif", program, "tries").stdout)["runs"]
    told = [note["message"]["text"] for note in log["invocations"][0]["toolExecutionNotifications"]]
    assert sum("`try`" in text for text in told) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "deadlock"], "verified: looked for deadlock alone, no error in this schedule"),
        (["--only", "race", "--only", "deadlock"], "verified: looked for deadlock, race alone, no error in"),
        (["--skip", "race"], "verified: no error in this schedule; not looked for: race"),
        (["--skip", "bounds"], "verified: deadlock-free and race-free in every schedule; not looked for: bounds"),
    ],
)  # fmt: skip
def test_a_verdict_of_some_checkers_says_what_was_looked_for(program, options, said):
    done = command("check", *options, program)
    assert said in " ".join(done.stdout.split())


def test_what_is_no_file_is_not_said_to_be_missing(tmp_path):
    assert command("check", "/dev/null").stdout.startswith("error: `/dev/null` is no ordinary file: give a Python file")
    assert "nothing.py` does not exist" in " ".join(command("check", tmp_path / "nothing.py").stdout.split())


def test_sentences_are_wrapped_and_what_a_program_says_is_not():
    stream = io.StringIO()
    printer = Printer(stream)
    printer.text(f"error: {'what is wrong, ' * 20}", "error")
    assert max(map(len, stream.getvalue().splitlines())) <= WIDTH
    printer.text("x " * WIDTH)
    assert "x " * (WIDTH - 1) + "x\n" in stream.getvalue()


ERRORS = [getattr(wsemu, name) for name in wsemu.__all__ if isinstance(getattr(wsemu, name), type)]


@pytest.mark.parametrize("error", [e for e in ERRORS if issubclass(e, Exception)], ids=lambda error: error.__name__)
def test_a_public_exception_is_named_as_users_know_it(error):
    assert error.__module__ == "wsemu"
    assert pickle.loads(pickle.dumps(error)) is error
