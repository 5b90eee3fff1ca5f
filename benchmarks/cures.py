"""Measure how often an edit is found that fixes a broken program, and how large the edit is.

    python benchmarks/cures.py [--seconds N] [--mutants N] [--mutants-alone] [--cuda [PART]] [--bless]

The programs are those of `tests/fail` and `examples/broken`, and mutants of the programs of `tests/pass`
(wsemu.repair.mutants): `--mutants` of those in which wsemu finds something, evenly spread.  Each program is checked as
by `wsemu check`, with `--seconds` for edits.  The first edit that is printed is applied literally to the text of the
file, and the result is checked again.

Prints each program.  For each set, it prints how many programs have a fix, how many of the fixes have no more lines
than the hand-written repair, and how many programs are verified with the fix, which must be all of them.  The exit code
is 1 if one is not, if fixes are found for less than 80%, or small ones for less than 60%.  `--bless` writes the fixes
of the programs, without those of mutants, to tests/data/cures.json, which a test applies.

`--cuda` uses only mutants of CUDA C++ programs (benchmarks/cures_cuda.py; nvcc compiles them), or those whose name
contains PART.  A NumPy model that `wsemu` does not see judges the results of each fixed mutant, for three sizes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import io
import json
import linecache
import runpy
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from wsemu.launch.hooks import observers
from wsemu.model import settings
from wsemu.model.errors import WsemuError
from wsemu.repair.mutants import program_mutations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.result import Report
    from wsemu.model.cure import Cure

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "tests" / "data" / "cures.json"
FOUND, SMALL = 0.80, 0.60
"""minimum share of programs with a fix; minimum share of these with a small fix"""
LINES = 2
"""maximum number of lines of a small edit, for programs without a hand-written repair"""
BUDGET = 2_000_000
"""warp instructions of a launch: a mutant may not end"""


class Program(NamedTuple):
    """A broken program, and the repaired one."""

    name: str
    source: str
    repaired: str
    """the repaired program; empty if there is none: an edit of one or two lines then counts as small"""


class Result(NamedTuple):
    program: Program
    cure: Cure | None
    small: bool
    """true if the edit is no larger than that of the repaired program"""
    verified: bool
    """with the cure applied"""
    seconds: float
    """CPU time of the search for edits"""
    tried: int


def checked(source: str, folder: Path) -> list[Report]:
    """Return the reports of a program's launches."""
    file = folder / "program.py"
    file.write_text(source, encoding="utf-8")
    linecache.checkcache(str(file))
    reports: list[Report] = []
    observers.append(reports.append)
    try:
        with contextlib.redirect_stdout(io.StringIO()), settings.using(settings.Settings(budget=BUDGET)):
            runpy.run_path(str(file), run_name="__main__")
    except (WsemuError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError, SystemExit):
        pass  # the program itself may not be right
    finally:
        observers.remove(reports.append)
    return reports


def tried(program: Program, seconds: float) -> Result | None:
    """Return the result for a program; None if nothing is found in it."""
    with tempfile.TemporaryDirectory() as name:
        reports = checked(program.source, Path(name))
        report = next((r for r in reports if r.errors), next((r for r in reports if r.findings), None))
        if report is None:
            return None
        started = time.process_time()
        trials = report.helped(seconds).trials
        took = time.process_time() - started
        cure = trials.cure if trials else None
        if cure is None:
            return Result(program, None, False, False, took, trials.tried if trials else 0)
        again = checked(cure.applied(program.source), Path(name))
    number = reports.index(report)
    verified = len(again) > number and again[number].verdict == "verified"
    most = changed(program.source, program.repaired) if program.repaired else LINES
    small = changed(program.source, cure.applied(program.source)) <= most
    return Result(program, cure, small, verified, took, trials.tried if trials else 0)


def changed(one: str, other: str) -> int:
    """Return the number of lines that differ between two programs; lines without code do not count."""
    old, new = (code(text) for text in (one, other))
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for tag, a, b, c, d in blocks if tag != "equal")


def code(text: str) -> list[str]:
    """Return the lines of a program, without its docstring, comments and blank lines."""
    tree = ast.parse(text)
    first = tree.body[0]
    skipped = range(first.lineno, (first.end_lineno or 0) + 1) if ast.get_docstring(tree) else range(0)
    lines = (line.partition("#")[0].rstrip() for n, line in enumerate(text.splitlines(), 1) if n not in skipped)
    return [line for line in lines if line.strip()]


def of_tests() -> Iterator[Program]:
    """Yield the programs with known bugs; their hand-written repairs are in tests/pass."""
    for path in sorted(ROOT.glob("tests/fail/*/*.py")):
        yield program(path, (ROOT / "tests" / "pass" / path.name).read_text(encoding="utf-8"))
    for path in sorted(ROOT.glob("examples/broken/*.py")):
        yield program(path, "")


def program(path: Path, repaired: str) -> Program:
    return Program(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"), repaired)


def of_mutants(count: int) -> list[Program]:
    """Return broken mutants of correct programs, evenly spread."""
    found = []
    for path in sorted(ROOT.glob("tests/pass/*.py")):
        source = path.read_text(encoding="utf-8")
        if len(source) > 4000:
            continue
        for mutation in program_mutations(path):
            found.append(Program(f"{path.name}:{mutation.line} {mutation.before} -> {mutation.after}",
                                 mutation.source(), source))  # fmt: skip
    step = max(len(found) // (3 * count), 1)
    return found[::step]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=settings.FIX_BUDGET, help="for the edits of a program")
    parser.add_argument("--mutants", type=int, default=100, help="how many")
    parser.add_argument("--mutants-alone", action="store_true", help="leave out the programs")
    parser.add_argument("--bless", action="store_true", help="write the cures that tests apply")
    parser.add_argument("--cuda", nargs="?", const="", metavar="PART", help="the mutants of CUDA C++ programs alone")
    given = parser.parse_args()
    if given.cuda is not None:
        from benchmarks import cures_cuda

        return int(cures_cuda.print_sum(cures_cuda.run_mutants(given.seconds, given.cuda)) > 0)
    bad = 0
    programs = [] if given.mutants_alone else [*of_tests()]
    results = [done for p in programs if (done := tried(p, given.seconds)) is not None]
    if results:
        bad += summed("programs", results)
    if given.bless:
        stored: dict[str, Any] = {
            r.program.name: {"says": r.cure.says, "diff": r.cure.diff} for r in results if r.cure is not None
        }
        STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    made: list[Result] = []
    for mutant in of_mutants(given.mutants) if given.mutants else []:
        done = tried(mutant, given.seconds)
        if done is not None:
            made.append(done)
        if len(made) == given.mutants:
            break
    if made:
        bad += summed("mutants", made)
    return int(bad > 0)


def summed(what: str, results: list[Result]) -> int:
    """Print a set of results; return the number of goals that it misses."""
    for r in results:
        state = "none" if r.cure is None else "WRONG" if not r.verified else "small" if r.small else "cured"
        print(f"{state:6}{r.tried:4} {r.seconds:5.1f} s  {r.program.name[:110]}")
        if r.cure is not None:
            print(f"{'':18}{r.cure.says[:110]}")
    cured = [r for r in results if r.cure is not None]
    small, right = sum(r.small for r in cured), sum(r.verified for r in cured)
    print(f"{what}: {len(results)}, cured {len(cured)} ({len(cured) / len(results):.0%}), as small as the repaired one "
          f"{small} ({small / len(results):.0%}), verified as printed {right} of {len(cured)}, "
          f"slowest {max(r.seconds for r in results):.1f} s\n")  # fmt: skip
    return (len(cured) < FOUND * len(results)) + (small < SMALL * len(results)) + (right < len(cured))


if __name__ == "__main__":
    sys.exit(main())
