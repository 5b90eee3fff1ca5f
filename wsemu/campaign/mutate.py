"""Find mutants of the kernels that tests launch which neither a test nor a check detects.

A trial is a test or a program.  It is first run unchanged.  Then the functions of its kernels are changed, one location
at a time (`wsemu.repair.mutants`), in memory, and the trial is run again.  A mutant is killed

    `check`    If wsemu finds an error in a launch that had none, or a launch is no longer verified.
    `test`     If the trial fails.
    `error`    If the kernel does not compile, or the launch is rejected.
    `time`     If the trial does not end.

Otherwise it survives.  A survivor is equivalent, as far as these launches show, if each of them is compiled to the same
code, or performs the same accesses in the same order.  It is also equivalent if a mutant that removes something is
verified in each launch, with the same results.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import linecache
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from wsemu.frontend.python.source import editing_source
from wsemu.launch.attempts import program_digest
from wsemu.launch.compiled import nothing_compiled
from wsemu.launch.hooks import starting, traceable
from wsemu.launch.result import CheckFailed
from wsemu.model import settings
from wsemu.model.data import NamedTuple, dataclass, field, replace
from wsemu.model.errors import UsageError, WsemuError
from wsemu.model.isa import FIRST_ARRAY
from wsemu.model.own import is_own
from wsemu.repair.mutants import SYNCHRONISING, Mutation, kernel_mutations
from wsemu.repair.search import difference, differs
from wsemu.repair.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.finding import Verdict
    from wsemu.model.outcome import Tracer

Way = Literal["check", "test", "error", "time", "survives"]
Same = Literal["", "code", "accesses", "proof"]
_WORSE: dict[Verdict, int] = {"verified": 0, "incomplete": 1, "failed": 2}
_LONGER, _AT_LEAST = 20, 200_000
"""factor and minimum for the warp instructions of a mutant's launch, relative to the largest launch"""
_PATIENCE, _SECONDS = 20.0, 10.0
"""factor and minimum in seconds for the duration of a mutant's trial"""
MOST_TRACED = 200_000
"""maximum number of accesses of threads in a launch that is compared access by access"""
MOST_KEPT = 64 << 20
"""maximum bytes of a launch's final arrays that are compared element by element"""


class Failure(NamedTuple):
    """The reason why a trial failed."""

    way: Way
    why: str


class Trial(Protocol):
    """A test, in the form that a campaign runs."""

    @property
    def name(self) -> str:
        """Return the name of the test."""

    def run(self) -> Failure | None:
        """Run the trial; return None if it passes."""


def describe_failure(error: BaseException) -> Failure:
    """Return the failure that an exception of a trial reports."""
    if isinstance(error, CheckFailed):
        return Failure("check", ", ".join(dict.fromkeys(f.code for f in error.report.errors)) or error.report.verdict)
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, WsemuError):
        return Failure("error", text)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Failure("test", said)


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of a mutant."""

    way: Way
    why: str = ""
    """reason in one line: the codes of findings or the test's message; for a survivor, its change"""
    test: str = ""
    """the trial that killed it"""
    same: Same = ""
    """the part of a survivor that is identical to the original, which makes it equivalent for these launches"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant as data."""

    file: str
    line: int
    kind: str
    """one of `wsemu.repair.mutants.OF_KERNELS`"""
    function: str
    before: str
    after: str
    diff: list[str]
    """hunks of a unified diff, line by line, without line ends and without file names"""

    @property
    def name(self) -> str:
        """Return the name that distinguishes the mutant from others of the same sources."""
        return f"{self.file}:{self.line}:{self.before}:{self.after}"


# -- launches ----------------------------------------------------------------------------------------------------------
class _Worse(BaseException):
    """Raised if a launch became worse, so that the trial can stop.  It is not an Exception, because a test may catch
    those."""


class _Late(BaseException):
    """The time limit has been reached."""


@dataclass(slots=True)
class _Seen:
    """A launch of a trial."""

    kernel: str
    verdict: Verdict
    codes: frozenset[str]
    instructions: int
    program: bytes = b""
    accesses: bytes = b""
    """accesses with their addresses; empty: not compared"""
    results: tuple[tuple[str, Any], ...] = ()


@dataclass(slots=True)
class _Watch:
    """Observes the launches of a trial."""

    expected: Sequence[_Seen] | None = None
    """launches without the mutant; None if the trial runs without a mutant"""
    deep: bool = False
    """true to record the accesses of launches"""
    launches: list[_Seen] = field(default_factory=list)
    lines: dict[str, set[int]] = field(default_factory=dict)
    """lines of the user's files with code of the launches"""
    worse: Failure | None = None
    kernels: tuple[str, ...] = ()
    """patterns of the names of kernels to mutate; empty: all kernels"""
    _bound: Bound | None = None
    _kept: int = 0

    def __enter__(self) -> _Watch:
        starting.append(self._start)
        traceable.append(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        starting.remove(self._start)
        traceable.remove(self._look)

    def _start(self, bound: Bound) -> None:
        self._bound = bound

    def _look(self, report: Report, places: Places, tracer: Tracer) -> None:
        seen = _Seen(
            report.kernel, report.verdict, frozenset(f.code for f in report.findings),
            report.counters.warp_instructions,
        )  # fmt: skip
        self.launches.append(seen)
        wanted = not self.kernels or any(fnmatch.fnmatchcase(report.kernel, k) for k in self.kernels)
        for span in places.program.spans if self.expected is None and wanted else ():
            if not is_own(span.file):
                self.lines.setdefault(span.file, set()).add(span.line)
        if self.deep:
            self._keep(seen, places, tracer)
        if self.expected is not None:
            self._compare(seen, report)

    def _compare(self, seen: _Seen, report: Report) -> None:
        assert self.expected is not None
        number = len(self.launches) - 1
        before = self.expected[number] if number < len(self.expected) else None
        usual = max((_WORSE[launch.verdict] for launch in self.expected), default=0)
        if _WORSE[seen.verdict] > (_WORSE[before.verdict] if before is not None else usual):
            codes = dict.fromkeys(f.code for f in report.errors)
            self.worse = self.worse or Failure("check", ", ".join(codes) or f"incomplete: {', '.join(report.reasons)}")
            raise _Worse

    def _keep(self, seen: _Seen, places: Places, tracer: Tracer) -> None:
        """Keep the effects of a launch, for comparison."""
        seen.program = program_digest(places.program)
        if sum(count.lanes for count in places.outcome.accesses.values()) <= MOST_TRACED:
            seen.accesses = _accesses(places, tracer)
        if self._bound is None:
            return
        arrays = {a.name: a for a in self._bound.arrays if 0 not in a.shape}
        for name, array in arrays.items():
            data = self._bound.segments[array.segment - FIRST_ARRAY][0]
            self._kept += data.nbytes
            if self._kept <= MOST_KEPT:
                value = np.ndarray(array.shape, array.dtype, data.data, array.offset, array.strides).copy()
                seen.results += ((name, value),)


def _accesses(places: Places, tracer: Tracer) -> bytes:
    """Return a digest of a launch's accesses and synchronization, in order; empty if a trace cannot contain all of
    them."""
    trace = tracer(frozenset(places.outcome.accesses), None)
    if not trace.complete:
        return b""
    digest = hashlib.blake2b(np.asarray(trace.addresses, np.int64).tobytes())
    for e in trace.events:
        digest.update(repr((e.kind, e.cta, e.warp, e.place, e.generation, e.lanes, e.amount)).encode())
    return digest.digest()


# -- trials and mutants ------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Known:
    """The effects of a trial without a mutant."""

    launches: list[_Seen]
    seconds: float
    functions: set[tuple[str, int]]
    """file and first line of the functions of its kernels"""
    deep: list[_Seen] | None = None


class Bench:
    """Trials, and the mutants of the kernels that they launch."""

    def __init__(
        self, trials: Sequence[Trial], kinds: Sequence[str] = (), kernels: Sequence[str] = (), *, strict: bool = True
    ) -> None:
        """Run the trials without mutants.  Raise UsageError if one fails (without `strict`, it is skipped instead), or
        if none launches a kernel."""
        self.strict = strict
        self.kinds, self.kernels = frozenset(kinds), tuple(kernels)
        self.texts: dict[str, Text] = {}
        self.known: dict[str, _Known] = {}
        self.trials = {trial.name: trial for trial in trials}
        with _quick():
            for trial in trials:
                self._learn(trial)
        if not self.texts:
            raise UsageError(self._missing_mutants_reason())
        largest = max(s.instructions for known in self.known.values() for s in known.launches)
        self.budget = max(_LONGER * largest, _AT_LEAST)
        self.mutations = [m for file in sorted(self.texts) for m in self._mutations(file)]

    def _missing_mutants_reason(self) -> str:
        """Return why there are no mutants."""
        launched = dict.fromkeys(seen.kernel for known in self.known.values() for seen in known.launches)
        if not self.kernels or not launched:
            return "no launch of a Python kernel is made: there is nothing to mutate"
        wanted, names = (", ".join(f"`{name}`" for name in some) for some in (self.kernels, launched))
        return f"no kernel named {wanted} is launched, but {names}: there is nothing to mutate"

    def _learn(self, trial: Trial) -> None:
        started = time.perf_counter()
        with _Watch(kernels=self.kernels) as watch:
            failed = trial.run()
        if failed is not None and not self.strict:
            return
        if failed is not None:
            raise UsageError(f"{trial.name} fails as it is ({failed.why}): mutants are of what passes")
        functions = set()
        for file, lines in watch.lines.items():
            source = "".join(linecache.getlines(file))
            if not source:
                continue
            text = self.texts.setdefault(file, Text(file, source))
            functions |= {(file, f.lineno) for line in lines if (f := text.innermost(line)) is not None}
        self.known[trial.name] = _Known(watch.launches, time.perf_counter() - started, functions)

    def _mutations(self, file: str) -> list[Mutation]:
        used = {line for known in self.known.values() for name, line in known.functions if name == file}
        text = self.texts[file]
        found = kernel_mutations(Path(file), text, [f for f in text.functions() if f.lineno in used])
        return [m for m in found if not self.kinds or m.kind in self.kinds]

    def mutants(self) -> list[Mutant]:
        """Return all mutants, as data."""
        found = []
        for m in self.mutations:
            text = self.texts[str(m.file)]
            diff = difference(text, m.apply_to(text.source))
            found.append(Mutant(str(m.file), m.line, m.kind, m.function, m.before, m.after, diff))
        return found

    # -- one mutant ----------------------------------------------------------------------------------------------------
    def judge(self, number: int) -> Told:
        """Run trials until one of them detects the mutant, and return its outcome."""
        mutation = self.mutations[number]
        with self._applying_mutation(mutation) as compiles:
            if not compiles:
                return Told("error", "it is no Python")
            concerned = self._trials_to_run(mutation)
            for name in concerned:
                failed = self._kill_reason(name)
                if failed is not None:
                    return Told(failed.way, failed.why, name)
            if not concerned:
                return Told("survives", "no trial launches it")
            with self._patience(concerned):
                launches = [self._own_effects(name) for name in concerned]
        return self._survivor(mutation, concerned, launches)

    def _trials_to_run(self, mutation: Mutation) -> list[str]:
        """Return the trials that launch the changed kernel, fast ones first."""
        function = self.texts[str(mutation.file)].innermost(mutation.line)
        place = str(mutation.file), function.lineno if function is not None else 0
        names = [name for name, known in self.known.items() if place in known.functions]
        return sorted(names, key=lambda name: self.known[name].seconds)

    @contextlib.contextmanager
    def _applying_mutation(self, mutation: Mutation) -> Iterator[bool]:
        """Inside the block, kernels are compiled from the mutated source."""
        text = self.texts[str(mutation.file)]
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(editing_source(text.file, text.tree, mutation.apply_to(text.source)))
            except (SyntaxError, ValueError):
                yield False
                return
            stack.enter_context(nothing_compiled())
            stack.enter_context(_quick(self.budget))
            yield True

    @contextlib.contextmanager
    def _patience(self, names: Sequence[str]) -> Iterator[None]:
        usual = sum(self.known[name].seconds for name in names)
        with within(_SECONDS + _PATIENCE * usual):
            yield

    def _kill_reason(self, name: str) -> Failure | None:
        """Return why a trial detects the current mutant."""
        watch = _Watch(self.known[name].launches)
        failed: Failure | None = None
        try:
            with self._patience([name]), watch:
                failed = self.trials[name].run()
        except _Worse:
            pass
        except _Late:
            return Failure("time", "the test does not end")
        return watch.worse or failed

    # -- survivors -----------------------------------------------------------------------------------------------------
    def _own_effects(self, name: str) -> list[_Seen]:
        """Return the effects of a trial's launches in the present source."""
        with _Watch([], deep=True) as watch, contextlib.suppress(_Worse, _Late):
            watch.expected = self.known[name].launches
            self.trials[name].run()
        return watch.launches

    def _as_it_is(self, name: str) -> list[_Seen] | None:
        """Return the effects of a trial's launches without a mutant; None if the effects differ between runs."""
        known = self.known[name]
        if known.deep is None:
            with nothing_compiled(), _quick():
                known.deep, again = self._own_effects(name), self._own_effects(name)
            if not _have_same_effects(known.deep, again):
                known.deep = []
        return known.deep or None

    def _survivor(self, mutation: Mutation, names: Sequence[str], launches: Sequence[list[_Seen]]) -> Told:
        pairs: list[_Pair] = []
        for name, now in zip(names, launches, strict=True):
            before = self._as_it_is(name)
            if before is None or len(before) != len(now):
                why = "its launches differ from run to run" if before is None else "as many launches are not made"
                return Told("survives", f"no test tells it; {why}: they are not compared")
            for number, (a, b) in enumerate(zip(before, now, strict=True), 1):
                which = f"`{a.kernel}`" if len(now) == 1 else f"launch {number:,} (`{a.kernel}`)"
                pairs.append(_Pair(a, b, which if len(names) == 1 else f"{which} in {name}"))
        return compare_survivor(mutation, pairs)


class _Pair(NamedTuple):
    """A launch without the mutant, and the same launch with it."""

    a: _Seen
    b: _Seen
    which: str


def compare_survivor(mutation: Mutation, pairs: Sequence[_Pair]) -> Told:
    """Compare the launches with a surviving mutant to those without it, and return the mutant's outcome."""
    count = f"{len(pairs):,} launch{'es' * (len(pairs) != 1)}"
    if all(a.program == b.program for a, b, _ in pairs):
        return Told("survives", "it compiles to the same code", same="code")
    warned = sorted({code for a, b, _ in pairs for code in b.codes - a.codes})
    more = f"; wsemu warns: {', '.join(warned)}" if warned else ""
    for a, b, which in pairs:
        if not _same_results(a, b):
            seen = f"after {which} {differs(a.results, b.results)}, and no assertion looks at it"
            return Told("survives", seen + more)
    if all(a.accesses and a.accesses == b.accesses for a, b, _ in pairs):
        why = f"all threads make the same accesses, in {count}: no size here makes a difference{more}"
        return Told("survives", why, same="accesses")
    if mutation.kind in SYNCHRONISING and all(a.verdict == b.verdict == "verified" for a, b, _ in pairs):
        why = f"the proof does not need it: verified in every schedule, with the same results, in {count}{more}"
        return Told("survives", why, same="" if warned else "proof")
    less = sum(a.instructions - b.instructions for a, b, _ in pairs)
    steps = f", in {abs(less):,} warp instructions {'fewer' if less > 0 else 'more'}" if less else ""
    return Told("survives", f"the results are the same{steps}{more}")


def _same_results(a: _Seen, b: _Seen) -> bool:
    return [name for name, _ in a.results] == [name for name, _ in b.results] and all(
        x.tobytes() == y.tobytes() for (_, x), (_, y) in zip(a.results, b.results, strict=True)
    )


def _have_same_effects(one: list[_Seen], other: list[_Seen]) -> bool:
    """Return whether two runs had the same effects."""
    return len(one) == len(other) and all(
        (a.program, a.accesses) == (b.program, b.accesses) and _same_results(a, b)
        for a, b in zip(one, other, strict=True)
    )


@contextlib.contextmanager
def _quick(budget: int | None = None) -> Iterator[None]:
    """Inside the block, try no edits for findings, and give launches a step budget unless the test sets one."""
    now = settings.current()
    least = now.budget if budget is None else min(now.budget, budget)
    with settings.using(replace(now, fix_budget=0.0, budget=least)):
        yield


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise _Late inside the block after this number of seconds, if the system can interrupt."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
