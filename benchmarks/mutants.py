"""Test whether wsemu detects every broken barrier, count, stride and bound in mutants of the patterns and examples.

    python benchmarks/mutants.py [--sample N] [--workers N] [--files patterns/base.py ...] [--list]

Changes one location at a time in `patterns/*.py` and `examples/*.py` (selected by wsemu.repair.mutants), and runs each
mutant.  A pattern runs through a fixed list of transfers, pipelines and constructions (transfer_trials.py); an example
runs as it is, at a small size.  A mutant is killed

    checker    if wsemu finds an error in a launch, or a launch is no longer verified
    result     if the result of a program differs from NumPy's, or an object describes itself differently
    error      if something is rejected, does not compile, or raises
    cost       if accesses take more or fewer wavefronts or sectors, or the plan of a transfer differs

or it survives.  Prints the mutants and kills of each file and kind, and each survivor with the reason why it changes
nothing (survivors.py).  The exit code is 1 if a survivor has no reason, or a reason has no survivor.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.util
import io
import linecache
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import transfer_trials
from survivors import SURVIVORS

from wsemu.launch.hooks import observers
from wsemu.launch.result import CheckFailed, Report
from wsemu.model import settings
from wsemu.model.errors import WsemuError
from wsemu.repair.mutants import KINDS, Mutation, pattern_mutations, program_mutations

ROOT = Path(__file__).resolve().parents[1]
WAYS = ("checker", "result", "error", "cost", "survives")
INTERNAL = "internal error of wsemu: "
SECONDS = 60
"""seconds for a mutant, after which it counts as one that does not end"""
STRICT = settings.Settings(budget=20_000_000, fail_on=frozenset({"dangling-arrive"}))
"""settings for a launch of an example: a limit on warp instructions, and arrivals that are left over count as errors"""
CHUNK, CHUNKS = 4, 50
"""number of mutants that a worker processes at a time, and number of such chunks before the worker is replaced"""
ARGUMENTS = {
    "dgemm": ["128 128 48"],
    "fft": ["32768 2", "16384"],
    "saxpy": ["16384 1", "1048576"],
    "sgemv": ["256 all"],
    "stencil": ["64 32 3"],
}
"""small sizes with more than one CTA, tile and stage each; later ones are run only for mutants that survive the
first"""


class Verdict(NamedTuple):
    mutation: Mutation
    way: str
    """outcome, one of WAYS"""
    why: str
    """finding code, error message, or difference"""


class _Told(BaseException):
    """Raised after a launch that is not verified, because the mutant is then detected."""


class _Late(BaseException):
    """The time is up."""


# -- running a mutant --------------------------------------------------------------------------------------------------
class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module of `wsemu.patterns` with a change; `inspect` finds the changed source for its functions."""

    def __init__(self, mutation: Mutation, file: str) -> None:
        self.name = f"wsemu.patterns.{mutation.file.stem}".removesuffix(".__init__")
        self.file = file

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def get_filename(self, fullname: str) -> str:
        return self.file

    def get_data(self, path: str) -> bytes:
        return "".join(linecache.getlines(self.file)).encode()


@contextlib.contextmanager
def known_source(mutation: Mutation | None, path: Path, number: int) -> Iterator[str]:
    """Return a file name that does not exist, but under which the source is found."""
    source = mutation.source() if mutation else path.read_text()
    file = f"{path}#{number}"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        yield file
    finally:
        linecache.cache.pop(file, None)


@contextlib.contextmanager
def patterns_with(mutation: Mutation, number: int) -> Iterator[Any]:
    """Return `wsemu.patterns` with a change."""
    ours = {name: module for name, module in sys.modules.items() if name.startswith("wsemu.patterns")}
    with known_source(mutation, mutation.file, number) as file:
        finder = Changed(mutation, file)
        for name in ours:
            del sys.modules[name]
        sys.meta_path.insert(0, finder)
        try:
            yield importlib.import_module("wsemu.patterns")
        finally:
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name.startswith("wsemu.patterns")]:
                del sys.modules[name]
            sys.modules.update(ours)


def pattern_outcome(mutation: Mutation, number: int) -> tuple[str, str]:
    """Return the outcome of a mutant of a pattern."""
    with patterns_with(mutation, number) as patterns:
        for trial in transfer_trials.trials(mutation.file.name):
            try:
                found = trial.run(patterns)
            except Exception as error:
                return "error", f"{error_text(error)}, in {trial.name}"
            if found:
                way, _, why = found.partition(": ")
                return way, f"{why}{why and ', in '}{trial.name}"
    return "survives", ""


def learn() -> None:
    """Prepare a process: record the results of the unchanged patterns, which count as correct."""
    signal.signal(signal.SIGALRM, _late)
    transfer_trials.learn(importlib.import_module("wsemu.patterns"))


def example_outcome(mutation: Mutation, number: int) -> tuple[str, str]:
    """Return the outcome of an example with a change: run it at each of its sizes until a mutant is detected."""
    for arguments in ARGUMENTS.get(mutation.file.stem, [""]):
        way, why = run_example(mutation.file, arguments, mutation, number)
        if way != "survives":
            return way, why
    return "survives", ""


_costs: dict[tuple[Path, str], list[tuple[Any, ...]]] = {}
"""for every launch of an unchanged example: the kernel, its wavefronts and sectors"""


def right_costs(path: Path, arguments: str) -> list[tuple[Any, ...]]:
    if (path, arguments) not in _costs:
        _costs[path, arguments] = []
        way, why = run_example(path, arguments, None, 0)
        assert way == "survives", f"{path.name} {arguments}: {way} {why}, without a change"
    return _costs[path, arguments]


def run_example(path: Path, arguments: str, mutation: Mutation | None, number: int) -> tuple[str, str]:
    """Run an example, and return its outcome."""
    told: list[str] = []
    costs: list[tuple[Any, ...]] = []

    def observe(report: Report) -> None:
        c = report.counters
        shared, moved = c.shared_load_wavefronts, c.global_load_sectors
        costs.append((report.kernel, shared, c.shared_store_wavefronts, moved, c.global_store_sectors))
        if report.verdict != "verified":
            told.append(report.errors[0].code if report.errors else report.verdict)
            raise _Told

    wanted = right_costs(path, arguments) if mutation else []
    argv = sys.argv
    observers.append(observe)
    try:
        sys.argv = [str(path), *arguments.split()]
        with (
            known_source(mutation, path, number) as file,
            settings.using(STRICT),
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            code = compile("".join(linecache.getlines(file)), file, "exec")
            exec(code, {"__name__": "__main__", "__file__": file})
    except _Told:
        return "checker", told[0]
    except SystemExit as stopped:
        if stopped.code:
            return "result", str(stopped.code)
    except AssertionError as error:
        return "result", error_text(error)
    except CheckFailed as error:
        return "checker", error.report.errors[0].code
    except Exception as error:
        return "error", error_text(error)
    finally:
        sys.argv = argv
        observers.remove(observe)
    if mutation is None:
        _costs[path, arguments] = costs
    elif costs != wanted:
        return "cost", f"{next((a for a, b in zip(costs, wanted, strict=False) if a != b), '')}"
    return "survives", ""


def error_text(error: Exception) -> str:
    """Return an error as one line; an error that wsemu did not intend is called internal."""
    text = str(error).splitlines()
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = last.filename.startswith((f"{ROOT}/wsemu/", f"{ROOT}/checkers/")) and "/patterns/" not in last.filename
    internal = ours and not isinstance(error, WsemuError)
    return f"{INTERNAL * internal}{type(error).__name__}: {text[0] if text else ''}"[:100]


def _late(*_: object) -> None:
    raise _Late


def judge(numbered: tuple[int, Mutation]) -> Verdict:
    """Run a mutant."""
    number, mutation = numbered
    signal.alarm(SECONDS)
    try:
        if mutation.file.parent.name == "patterns":
            way, why = pattern_outcome(mutation, number)
        else:
            way, why = example_outcome(mutation, number)
    except _Late:
        way, why = "error", f"does not end in {SECONDS} s"
    finally:
        signal.alarm(0)
    return Verdict(mutation, way, why)


# -- survivors ---------------------------------------------------------------------------------------------------------
def reason(mutation: Mutation) -> tuple[str, str, str] | None:
    """Return the first entry of the table for a survivor."""
    name = f"{mutation.file.parent.name}/{mutation.file.name}"
    for entry in SURVIVORS:
        place, after, _ = entry
        file, _, function = place.partition(" ")
        if file == name and matches(function, mutation.function) and matches(after, mutation.after):
            return entry
    return None


def matches(pattern: str, text: str) -> bool:
    """Return whether a line matches one of the table, in which `...` matches anything."""
    text = re.sub(r"\s+#.*$", "", text)
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), text) is not None


# -- the whole ---------------------------------------------------------------------------------------------------------
def files(names: Sequence[str]) -> list[Path]:
    if names:
        return [(ROOT / name).resolve() for name in names]
    return [*sorted(ROOT.glob("patterns/*.py")), *sorted(ROOT.glob("examples/*.py"))]


def mutations_of(path: Path) -> list[Mutation]:
    return pattern_mutations(path) if path.parent.name == "patterns" else program_mutations(path)


def unchanged(paths: Sequence[Path]) -> None:
    """Check that everything passes without a change; this also compiles the engine."""
    learn()
    for trial in transfer_trials.trials(""):
        found = trial.run(importlib.import_module("wsemu.patterns"))
        assert not found, f"{trial.name}: {found}, without a change"
    for path in paths:
        if path.parent.name == "examples":
            for arguments in ARGUMENTS.get(path.stem, [""]):
                right_costs(path, arguments)


def table(verdicts: Sequence[Verdict]) -> str:
    """Return mutants and kills, by file and by kind."""
    lines = [f"{'':24} {'mutants':>8} {'killed':>8} {'rate':>7}   {'  '.join(f'{way:>8}' for way in WAYS)}"]

    def row(name: str, some: Sequence[Verdict]) -> None:
        ways = Counter(verdict.way for verdict in some)
        killed = len(some) - ways["survives"]
        counts = "  ".join(f"{ways[way] or '':>8}" for way in WAYS)
        rate = f"{killed / len(some):.1%}" if some else ""
        lines.append(f"{name:24} {len(some):>8,} {killed:>8,} {rate:>7}   {counts}".rstrip())

    named: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        named.setdefault(f"{verdict.mutation.file.parent.name}/{verdict.mutation.file.name}", []).append(verdict)
    for name, some in named.items():
        row(name, some)
    lines.append("")
    for kind in KINDS:
        row(kind, [verdict for verdict in verdicts if verdict.mutation.kind == kind])
    lines.append("")
    row("all", verdicts)
    return "\n".join(lines)


def explained(verdicts: Sequence[Verdict], whole: Sequence[Path]) -> int:
    """Print the survivors and their reasons; return the number of survivors without a reason and of unused reasons."""
    used, unknown = set(), 0
    for verdict in verdicts:
        if verdict.way == "survives":
            entry = reason(verdict.mutation)
            unknown += entry is None
            used.add(entry)
            print(f"{verdict.mutation}\n    {verdict.mutation.kind}: {entry[2] if entry else 'NO REASON GIVEN'}")
    names = {f"{path.parent.name}/{path.name}" for path in whole}
    stale = [entry for entry in SURVIVORS if entry not in used and entry[0].partition(" ")[0] in names]
    for place, after, _ in stale:
        print(f"no survivor needs this reason: {place}: {after}")
    return unknown + len(stale)


def main() -> int:
    parser = argparse.ArgumentParser(description="Change the patterns and the examples, and see that it is told.")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every N-th mutant alone (1: all)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    parser.add_argument("--files", nargs="+", default=(), metavar="FILE", help="such as patterns/base.py")
    parser.add_argument("--list", action="store_true", help="print what became of every mutant")
    options = parser.parse_args()
    if options.sample < 1 or options.workers < 1:
        parser.error("give 1 or more for the sample and the workers")
    paths = files(options.files)
    started = time.perf_counter()
    unchanged(paths)
    mutations = [mutation for path in paths for mutation in mutations_of(path)][:: options.sample]
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.workers, learn, maxtasksperchild=CHUNKS) as pool:
        verdicts = list(pool.imap(judge, enumerate(mutations, 1), chunksize=CHUNK))
    if options.list:
        for verdict in verdicts:
            print(f"{verdict.way:8} {verdict.mutation}\n         {verdict.mutation.kind}: {verdict.why}")
    print(table(verdicts))
    codes = Counter(verdict.why.partition(",")[0] for verdict in verdicts if verdict.way == "checker")
    print("\nby checkers: " + ", ".join(f"{code} {number:,}" for code, number in codes.most_common()))
    print(f"\n{sum(verdict.way == 'survives' for verdict in verdicts)} survivors")
    wrong = explained(verdicts, paths if options.sample == 1 else ())
    for verdict in verdicts:
        if verdict.why.startswith(INTERNAL):  # the mutant is detected, but not by the expected check
            print(f"{verdict.mutation}\n    {verdict.why}")
    print(f"\n{len(verdicts):,} mutants in {time.perf_counter() - started:.0f} s with {options.workers} workers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
