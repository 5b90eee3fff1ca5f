"""Test that every malformed input ends with a message and an exit code.

    python benchmarks/malformed.py [--seed N] [--factor F | --each N] [--kinds KIND ...] [--only KIND:NUMBER]
        [--keep FOLDER]

The benchmark generates witness files, configurations, suppressions and programs that are truncated, mutated, of other
versions or of random syntax (tests/malformed.py, tests/malformed_kernels.py), and runs `wsemu` on each.  It requires
the rules of tests/malformed_runs.py: a documented exit code within a minute, a message, no traceback, no control
character, and no partly written file.

Prints inputs, exit codes and failures by kind.  Each failure is shrunk, and kept in a folder with the command that
shows it.  The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.malformed import KINDS, Input, Saved, make
from tests.malformed_runs import Ran, folder, run, samples, warm, wrong

TRIALS = 80
"""number of runs to shrink a failure; of equal failures of one kind, only the first is shrunk"""


class Failure(NamedTuple):
    kind: str
    number: int
    why: str
    given: Input
    ran: Ran


def tried(given: Input) -> tuple[str, Ran]:
    """Return what is wrong with the result of an input, and the result."""
    with folder() as place:
        ran = run(given, place)
    return wrong(given, ran), ran


def shrunk(given: Input, why: str) -> Input:
    """Return the input with lines of its files removed as long as the same is wrong; an input that hangs is
    unchanged."""
    if "in time" in why:
        return given
    trials = TRIALS
    for name in given.files:
        size = max(given.files[name].count(b"\n") // 2, 1)
        while size and trials > 0:
            lines, at = given.files[name].splitlines(keepends=True), 0
            while at < len(lines) and trials > 0:
                less = given._replace(files={**given.files, name: b"".join(lines[:at] + lines[at + size :])})
                trials -= 1
                if tried(less)[0] == why:
                    given = less
                    del lines[at : at + size]
                else:
                    at += size
            size //= 2
    return given


def keep(failure: Failure, place: Path) -> None:
    """Write a failing input, its command, and the command's output."""
    target = place / f"{failure.kind}-{failure.number}"
    target.mkdir(parents=True, exist_ok=True)
    for name, data in failure.given.files.items():
        (target / name).write_bytes(data)
    said = f"{failure.why}\n\n$ {shlex.join(['wsemu', *failure.given.arguments])}\n{failure.ran.out}{failure.ran.err}"
    (target / "failure.txt").write_text(said, encoding="utf-8", errors="backslashreplace")


def run_kind(kind: str, numbers: range, seed: int, saved: list[Saved], place: Path) -> list[Failure]:
    """Run inputs of a kind and print their row."""
    failures: list[Failure] = []
    codes: Counter[str] = Counter()
    slowest = 0.0
    for number in numbers:
        given = make(kind, seed, number, saved)
        why, ran = tried(given)
        codes["none" if ran.code is None else str(ran.code)] += 1
        slowest = max(slowest, ran.seconds)
        if why:
            small = given if any(why == failure.why for failure in failures) else shrunk(given, why)
            failures.append(Failure(kind, number, why, small, tried(small)[1] if small is not given else ran))
            keep(failures[-1], place)
    told = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
    print(f"{kind:18} {len(numbers):6} {len(failures):8}  {slowest:7.1f} s   {told}", flush=True)
    return failures


def parsed(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs wsemu on malformed inputs.")
    parser.add_argument("--seed", type=int, default=0, help="other inputs")
    parser.add_argument("--factor", type=float, default=1.0, help="so many times the usual number of inputs")
    parser.add_argument("--each", type=int, metavar="N", help="so many inputs of each kind instead")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="this input alone")
    parser.add_argument("--keep", type=Path, default=Path("build/malformed"), help="folder of the failures")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Run all kinds; return the exit code."""
    options = parsed(given)
    warm()
    saved, started = samples(), time.monotonic()
    chosen = {
        kind: range(options.each if options.each is not None else round(KINDS[kind][0] * options.factor))
        for kind in options.kinds
    }
    if options.only:
        kind, _, number = options.only.partition(":")
        chosen = {kind: range(int(number), int(number) + 1)}
    print(f"{'kind':18} {'inputs':>6} {'failures':>8}  {'slowest':>9}   exit codes: inputs")
    failures = [
        failure
        for kind, numbers in chosen.items()
        for failure in run_kind(kind, numbers, options.seed, saved, options.keep)
    ]
    count = sum(map(len, chosen.values()))
    print(f"{'all':18} {count:6} {len(failures):8}  {time.monotonic() - started:7.0f} s in all, seed {options.seed}")
    for failure in failures:
        print(f"{options.keep}/{failure.kind}-{failure.number}: {failure.why}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
