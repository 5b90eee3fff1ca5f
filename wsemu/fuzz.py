"""`wsemu fuzz FILE::function`: many examples of a Hypothesis test, by several processes, kept in a file.

The examples of a campaign come in batches.  The seed of a batch follows from that of the campaign and from its place in
it, and a batch runs alone, so that the results are the same whatever the number of processes, and however often the
campaign was interrupted.  What is known from before, of the same sources, is not run again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wsemu.errors import UsageError
from wsemu.fuzz_results import Batch, Failure, Outcome, Results

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(".wsemu", "fuzz")
"""where result files are, below the working folder"""
_ALONE: dict[str, Any] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if sys.platform == "win32"
    else {"start_new_session": True}
)
"""how a process is started that Ctrl-C does not reach: whether to stop is decided here"""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is to be run."""

    file: Path
    function: str
    examples: int
    batch: int
    """examples of one seed"""
    seed: int

    @classmethod
    def of(cls, test: str, examples: int, batch: int, seed: int) -> Campaign:
        """The campaign of `FILE::function`."""
        file, separator, function = test.rpartition("::")
        if not separator or not file or not function.isidentifier():
            raise UsageError(f"`{test}` is no test: give FILE::function, such as tests/test_copy.py::test_any_stride")
        return cls(Path(file), function, examples, batch, seed)

    @property
    def name(self) -> str:
        return f"{self.file.as_posix()}::{self.function}"

    @property
    def results(self) -> Path:
        """The file that is taken where none is named."""
        return FOLDER / f"{self.file.stem}-{self.function}.sqlite"

    def batches(self) -> Iterator[Batch]:
        for first in range(0, self.examples, self.batch):
            yield Batch(first, min(self.batch, self.examples - first))

    def seed_of(self, batch: Batch) -> int:
        """The same for batches of any size that begin at the same example."""
        return int.from_bytes(hashlib.sha256(f"{self.seed} {batch.first}".encode()).digest()[:8])


@dataclass(slots=True)
class Progress:
    """How far a campaign is."""

    campaign: Campaign
    changed: bool = False
    """there are results of other sources, which do not count"""
    resumed: int = 0
    """examples that were known from before"""
    outcomes: dict[Batch, Outcome] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def done(self) -> int:
        """Examples, those of batches that failed early too."""
        return sum(batch.size for batch in self.outcomes)

    @property
    def failures(self) -> list[tuple[Batch, Failure]]:
        """In the order of the campaign."""
        return [(batch, o.failure) for batch, o in sorted(self.outcomes.items(), key=lambda p: p[0]) if o.failure]

    def kinds(self) -> dict[tuple[str, str], list[tuple[Batch, Failure]]]:
        """(title, place) -> the failures that are alike, those with the shortest parameters first."""
        found: dict[tuple[str, str], list[tuple[Batch, Failure]]] = {}
        for batch, failure in self.failures:
            found.setdefault((failure.title, failure.place), []).append((batch, failure))
        for alike in found.values():
            alike.sort(key=lambda pair: (sum(map(len, pair[1].parameters.values())), pair[0]))
        return found

    @property
    def exit_code(self) -> int:
        """0: all examples passed, 1: one failed, 130: interrupted, and none had failed."""
        return 1 if self.failures else 130 if self.interrupted else 0


class Watcher(Protocol):
    """Who is told how a campaign goes on."""

    def show(self, progress: Progress) -> None:
        """Something is new."""


# -- processes -------------------------------------------------------------------------------------------------------
class _Died(Exception):
    """A process ended without an answer."""


class _Process:
    """A process that runs batches: see `fuzz_worker`."""

    def __init__(self, campaign: Campaign) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wsemu.fuzz_worker", str(campaign.file), campaign.function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env={**os.environ, "PYTHONHASHSEED": "0"},
            **_ALONE,
        )

    def source(self) -> str:
        """The digest of the sources that it runs; UsageError where the test is wrong."""
        answer = self._answer()
        if "error" in answer:
            raise UsageError(answer["error"])
        return str(answer["source"])

    def run(self, seed: int, size: int) -> Outcome:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps({"seed": seed, "examples": size}) + "\n")
            self._process.stdin.flush()
        answer = self._answer()
        failure = answer["failure"]
        return Outcome(answer["examples"], None if failure is None else Failure(**failure))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            self._process.kill()
            raise _Died(f"exit code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


class _Crew:
    """The processes of a campaign, a thread each that waits for its answers."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.waiting: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[tuple[Batch, Outcome] | BaseException] = queue.SimpleQueue()
        self.processes: list[_Process] = []
        self.stopping = False
        self._lock = threading.Lock()
        first = self._started()
        try:
            self.source = first.source()
        except _Died as died:
            raise UsageError(f"`{campaign.file}` cannot be imported: the process that does ended ({died})") from None
        self._idle = [first]

    def _started(self) -> _Process:
        with self._lock:
            if self.stopping:
                raise _Died("stopped")
            process = _Process(self.campaign)
            self.processes.append(process)
        return process

    def start(self, jobs: int) -> None:
        for _ in range(jobs):
            threading.Thread(target=self._work, daemon=True).start()

    def _ready(self) -> _Process:
        """A process that has imported the same sources as the first."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        process = self._started()
        try:
            same = process.source() == self.source
        except _Died as died:
            raise UsageError(f"a process for {self.campaign.name} ended at its start ({died})") from None
        if not same:
            raise UsageError(f"the sources of {self.campaign.name} changed meanwhile: start again")
        return process

    def _work(self) -> None:
        process: _Process | None = None
        try:
            while True:
                batch = self.waiting.get_nowait()
                process = process or self._ready()
                outcome, process = self._outcome(process, batch)
                self.answers.put((batch, outcome))
        except queue.Empty:
            pass
        except BaseException as error:
            self.answers.put(error)

    def _outcome(self, process: _Process, batch: Batch) -> tuple[Outcome, _Process | None]:
        """What comes of a batch, and the process if it is still there.  One that dies is given a second chance."""
        seed = self.campaign.seed_of(batch)
        try:
            return process.run(seed, batch.size), process
        except _Died:
            process = self._ready()
        try:
            return process.run(seed, batch.size), process
        except _Died as died:
            title = f"the process that ran the test died ({died})"
            text = f"{title}\nexamples {batch.first} to {batch.first + batch.size - 1}, @seed({seed})"
            return Outcome(0, Failure(title, "", text)), None

    def stop(self) -> None:
        with self._lock:
            self.stopping = True
        for process in self.processes:
            process.end()


# -- a campaign ------------------------------------------------------------------------------------------------------
def run(campaign: Campaign, jobs: int, file: Path | None, watcher: Watcher, *, fresh: bool = False) -> Progress:
    """Run what is not yet known of a campaign and keep it in `file`; returns early on KeyboardInterrupt, with what is
    known by then.  UsageError where the test or the file will not do."""
    progress = Progress(campaign)
    crew: _Crew | None = None
    try:
        crew = _Crew(campaign)  # first: where there is no such test, no file is made for it
        with Results(file or campaign.results) as results:
            progress.changed = results.begin(campaign.name, campaign.seed, crew.source, fresh=fresh)
            wanted = {*campaign.batches()}
            progress.outcomes = {batch: outcome for batch, outcome in results.known().items() if batch in wanted}
            progress.resumed = progress.done
            watcher.show(progress)
            left = [batch for batch in campaign.batches() if batch not in progress.outcomes]
            for batch in left:
                crew.waiting.put(batch)
            crew.start(min(jobs, len(left)))
            for _ in left:
                batch, outcome = _next(crew)
                results.add(batch, outcome)
                progress.outcomes[batch] = outcome
                watcher.show(progress)
    except KeyboardInterrupt:
        progress.interrupted = True
    finally:
        if crew is not None:
            crew.stop()
    return progress


def _next(crew: _Crew) -> tuple[Batch, Outcome]:
    """The next answer; waits in steps, between which Ctrl-C is seen on every system."""
    while True:
        try:
            answer = crew.answers.get(timeout=0.5)
        except queue.Empty:
            continue
        if isinstance(answer, BaseException):
            raise answer
        return answer


def command(test: str, options: dict[str, int], jobs: int | None, file: Path | None, *, fresh: bool) -> int:
    """`wsemu fuzz`: run the campaign of `test` (`options` are those of `Campaign.of`), tell what came of it, and return
    the exit code."""
    from wsemu.fuzz_worker import exists
    from wsemu.report import fuzz as report
    from wsemu.report.terminal import Printer

    printer = Printer()
    try:
        campaign = Campaign.of(test, **options)
        exists(campaign.file)
        with report.Bar(printer, campaign.examples) as bar:
            progress = run(campaign, jobs or os.cpu_count() or 1, file, bar, fresh=fresh)
    except UsageError as error:
        printer.error(error)
        return 2
    report.tell(printer, progress, file or campaign.results, _save(progress, file or campaign.results))
    return progress.exit_code


def _save(progress: Progress, results: Path) -> dict[tuple[str, str], Path]:
    """Write the witness of each kind of failure beside the result file; returns where they are."""
    from wsemu.witness_file import SUFFIX, Witness

    files: dict[tuple[str, str], Path] = {}
    for kind, found in progress.kinds().items():
        failure = found[0][1]
        with contextlib.suppress(OSError, ValueError):  # a witness less is no reason to keep the rest back
            file = results.with_name(f"{results.stem}-{len(files) + 1}{SUFFIX}")
            if failure.witness:
                Witness.model_validate_json(failure.witness).save(file)
                files[kind] = file
    return files
