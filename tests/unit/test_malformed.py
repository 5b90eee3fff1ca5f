"""A few malformed inputs of each kind end with a message and an exit code; `benchmarks/malformed.py` runs thousands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.malformed import KINDS, Input, make
from tests.malformed_runs import Ran, wrong

ROOT = Path(__file__).parents[2]
EACH = 5
ROW = re.compile(r"^([\w-]+) +(\d+) +(\d+) +[\d.]+ s   (.*)$", re.MULTILINE)
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the runs are forks with a limit of memory"
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int, str]]:
    """Kind -> inputs, failures, exit codes; the failures are kept in a folder that the test names."""
    keep = tmp_path_factory.mktemp("failures")
    command = [sys.executable, "benchmarks/malformed.py", "--each", str(EACH), "--keep", str(keep)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    print(done.stdout)
    return {row[1]: (int(row[2]), int(row[3]), row[4]) for row in ROW.finditer(done.stdout)}


@pytest.mark.parametrize("kind", KINDS)
def test_malformed_inputs_end_with_a_message(table: dict[str, tuple[int, int, str]], kind: str) -> None:
    inputs, failures, _ = table[kind]
    assert (inputs, failures) == (EACH, 0)


def test_they_end_in_all_ways(table: dict[str, tuple[int, int, str]]) -> None:
    """Else the inputs would be of one sort: what is refused, or what is right."""
    assert {"0", "1", "2", "3"} <= set(re.findall(r"(\d+):", " ".join(codes for _, _, codes in table.values())))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("witness") and kind != "options"])
def test_inputs_are_the_same_every_time(kind: str) -> None:
    assert [make(kind, 3, n, []) for n in range(5)] == [make(kind, 3, n, []) for n in range(5)]


TABLE = Input({}, ["check", "--format", "json", "program.py"])


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (Ran(None, "", "", 60.0, {}), "did not end in time"),
        (Ran(-11, "", "", 0.0, {}), "ended by signal 11"),
        (
            Ran(1, "", "Traceback (most recent call last):\n  ...\nValueError: x\n", 0.0, {}),
            "a traceback: ValueError: x",
        ),
        (Ran(4, "internal error: x\n", "", 0.0, {}), "exit code 4 internal error: x"),
        (Ran(2, "", " \n", 0.0, {}), "no message"),
        (Ran(2, '"\x1b[2J"', "", 0.0, {}), "the character '\\x1b' in the output"),
        (Ran(1, '{"a": ', "", 0.0, {}), "the document is not JSON"),
        (Ran(0, "{}", "", 0.0, {"made.html": b"<html>"}), "the file 'made.html' is half-written"),
        (Ran(0, "{}", "", 0.0, {".wsemu-x1": b""}), "the file '.wsemu-x1' is left over"),
        (Ran(0, "{}", "", 0.0, {"made.html": b"<html></html>\n"}), ""),
    ],
)
def test_what_is_required(ran: Ran, why: str) -> None:
    assert wrong(TABLE, ran) == why
