"""What is wrong with a value that a user wrote: where it stands, what it is, what may stand there."""

from __future__ import annotations

import json

import pytest

from tests.commands import wsemu as command

LAUNCH = {"ptx": "kernels.ptx", "grid": [1], "block": [64]}
KEYS = "ptx, entry, grid, block, dynamic_shared, cluster, args, expect, set, nvcc, link, memory, variables"


def flat(text: str) -> str:
    """Without the breaks of lines."""
    return " ".join(text.split())


@pytest.mark.parametrize(("text", "said"), [
    ("", "is not JSON: EOF while parsing a value at line 1 column 0"),
    ('{"grid": [1]', "is not JSON: EOF while parsing an object at line 1 column 12"),
    ("[]", f"has a list where an object belongs: its keys are {KEYS}"),
    ("null", f"has null where an object belongs: its keys are {KEYS}"),
    ("{}", f"lacks `grid`: its keys are {KEYS}"),
    (json.dumps(LAUNCH | {"zzz": 1}), f"has no key `zzz`: the keys are {KEYS}"),
    (json.dumps({"grid": 1, "gird": [1]}), "has no key `gird`: did you mean `grid`?"),
])  # fmt: skip
def test_a_launch_file_that_is_none(tmp_path, text, said):
    (tmp_path / "bad.json").write_text(text)
    done = command("check", "bad.json", cwd=tmp_path)
    assert (done.returncode, flat(done.stdout)) == (2, f"error: `bad.json` {said}")


@pytest.mark.parametrize(("options", "said"), [
    (("--budget", "0"), "invalid value for '--budget': give 1 or more"),
    (("--budget", "x"), "invalid value for '--budget': give an integer"),
    (("--time-limit", "x"), "invalid value for '--time-limit': give a number"),
    (("--time-limit", "0"), "`--time-limit` is 0.0: give more than 0"),
    (("--engine", "x"), "invalid value for '--engine': 'x' is not one of 'vm', 'reference'"),
    (("--tier", "x"), "invalid value for '--tier': 'x' is not one of 'auto', 'off', 'always', 'restless'"),
    (("--only", "nix"), "`--only`: no checker 'nix': one of deadlock, race, intra-warp, "),
    (("--arch", "sm_1"), "`--arch`: unknown arch 'sm_1': "),
])  # fmt: skip
def test_an_option(tmp_path, options, said):
    (tmp_path / "program.py").write_text("")
    done = command("check", *options, "program.py", cwd=tmp_path)
    assert done.returncode == 2
    assert f"error: {said}" in flat(done.stdout + done.stderr)


def test_all_checkers_are_listed(tmp_path):
    (tmp_path / "program.py").write_text("")
    done = command("check", "--skip", "nix", "program.py", cwd=tmp_path)
    assert "bank-conflict, coalescing, transfer" in flat(done.stdout)


@pytest.mark.parametrize("digits", [13, 24, 99])
def test_a_number_is_told_in_full(tmp_path, digits):
    (tmp_path / "k.ptx").write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
    number = int("9" * digits)
    done = command("check", "k.ptx", "--grid", number, "--block", 32, cwd=tmp_path)
    assert f"error: grid.x is {number:,}: at most 2,147,483,647 on sm_90" in flat(done.stdout)
    done = command("check", "k.ptx", "--grid", 1, "--block", 32, "--dynamic-shared", number, cwd=tmp_path)
    assert f"error: {number:,} bytes of dynamic shared memory: at most 232,448 on sm_90; lower" in flat(done.stdout)
    done = command("check", "k.ptx", "--grid", 1, "--block", 32, "--arg", f"u8[{number}]", cwd=tmp_path)
    assert f"has {number:,} bytes: at most " in flat(done.stdout)
