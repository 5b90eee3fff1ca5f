"""Kill `wsemu fuzz` at random points and resume it: the result set must equal that of an undisturbed run.

    python benchmarks/fuzz_kills.py [KILLS] [SEED]

There are two campaigns: one with transfers that all pass, and one with failures that shrink.  A kill is a SIGKILL, to
the command alone or also to one of its processes, at a random time after a random number of new batches.  The exit code
is 0 if every result set was equal.  The benchmark requires Linux.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TESTS = """\
from hypothesis import given, strategies as st
from wsemu import check_transfer
from wsemu.strategies import sequential_transfers

@given(transfer=sequential_transfers())
def test_transfers(transfer):
    check_transfer(transfer).assert_clean()

@given(x=st.integers(0, 10**6), y=st.lists(st.integers()))
def test_rarely_fails(x, y):
    assert not (x % 97 == 1 and len(y) > 1), "x and y"
    assert not (x % 89 == 2 and len(y) > 3), "x and a longer y"
"""
CAMPAIGNS = {"test_transfers": (2000, 20), "test_rarely_fails": (4000, 50)}
"""test -> number of examples, batch size"""


def command(test: str, results: str, jobs: int) -> list[str]:
    examples, batch = CAMPAIGNS[test]
    options = ["--examples", examples, "--batch", batch, "--jobs", jobs, "--results", results]
    return [sys.executable, "-m", "wsemu.cli", "fuzz", f"test_x.py::{test}", *map(str, options)]


def rows(file: Path) -> list[Any]:
    """Return the result set; empty if there is none yet."""
    if not file.is_file():
        return []
    with sqlite3.connect(file) as database:
        try:
            return database.execute("SELECT first, size, examples, failure FROM batch ORDER BY first, size").fetchall()
        except sqlite3.OperationalError:
            return []


def children(process: int) -> list[int]:
    """Return the processes that a process started (Linux)."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], check=False, capture_output=True, text=True)
    return [int(word) for word in listed.stdout.split()]


def disturbed(folder: Path, test: str, kills: int, dice: random.Random) -> list[int]:
    """Kill and resume a campaign, then let it end; return the known batches after each kill."""
    file, known = folder / "killed.sqlite", [0]
    examples, batch = CAMPAIGNS[test]
    most = 2 * examples // batch // (kills + 1)
    for _ in range(kills):
        process = subprocess.Popen(command(test, file.name, dice.choice([1, 2])), cwd=folder, stdout=subprocess.DEVNULL)
        wanted = known[-1] + dice.randint(0, most)
        while process.poll() is None and len(rows(file)) < wanted:
            time.sleep(0.02)
        time.sleep(dice.uniform(0, 2))
        own = children(process.pid)
        for victim in [process.pid, *dice.sample(own, dice.randint(0, min(1, len(own))))]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.wait()
        known.append(len(rows(file)))
    subprocess.run(command(test, file.name, 2), cwd=folder, check=False, stdout=subprocess.DEVNULL)
    return known[1:]


def main(kills: int = 20, seed: int = 0) -> int:
    dice, wrong = random.Random(seed), 0
    for test in CAMPAIGNS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "test_x.py").write_text(TESTS)
            subprocess.run(command(test, "whole.sqlite", 1), cwd=folder, check=False, stdout=subprocess.DEVNULL)
            known = disturbed(folder, test, kills, dice)
            whole, after = rows(folder / "whole.sqlite"), rows(folder / "killed.sqlite")
        failures = sum(row[3] is not None for row in whole)
        same = whole == after and bool(whole)
        wrong += not same
        print(f"{test}: {len(whole)} batches, {failures} with a failure")
        print(f"  batches known after each of {kills} kills: {' '.join(map(str, known))}")
        print(f"  result set {'the same' if same else 'DIFFERS'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
