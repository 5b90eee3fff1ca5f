"""`wsemu fuzz FILE::function`: run many examples of a Hypothesis test in several processes, and keep the results in a
file.

The examples of a campaign come in batches.  The seed of a batch is derived from the seed of the campaign and the number
of the batch, and each batch runs independently.  So the results do not depend on the number of processes, or on how
often the campaign was interrupted.  A batch that has a result for the same sources is not run again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import queue
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wsemu.campaign import spread
from wsemu.campaign.results import Batch, Failure, Outcome, Results
from wsemu.campaign.spread import Bundle, Died, Process
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

FOLDER = Path(".wsemu", "fuzz")
"""folder of result files, below the working folder"""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The description of a campaign."""

    file: Path
    function: str
    examples: int
    batch: int
    """number of examples per seed"""
    seed: int

    @classmethod
    def of(cls, test: str, examples: int, batch: int, seed: int) -> Campaign:
        """Return the campaign of `FILE::function`."""
        file, separator, function = test.rpartition("::")
        if not separator or not file or not function.isidentifier():
            raise UsageError(f"`{test}` is no test: give FILE::function, such as tests/test_copy.py::test_any_stride")
        return cls(Path(file), function, examples, batch, seed)

    @property
    def name(self) -> str:
        return f"{self.file.as_posix()}::{self.function}"

    @property
    def results(self) -> Path:
        """Return the default result file."""
        return FOLDER / f"{self.file.stem}-{self.function}.sqlite"

    def batches(self) -> Iterator[Batch]:
        for first in range(0, self.examples, self.batch):
            yield Batch(first, min(self.batch, self.examples - first))

    @property
    def bundle(self) -> Bundle:
        return Bundle("fuzz", str(self.file), self.function)

    def request(self, batch: Batch) -> dict[str, int]:
        """Return the request for a batch, for a process."""
        return {"seed": self.batch_seed(batch), "examples": batch.size}

    def batch_seed(self, batch: Batch) -> int:
        """Return the seed of a batch, which depends on its first example and not on its size."""
        return int.from_bytes(hashlib.sha256(f"{self.seed} {batch.first}".encode()).digest()[:8])


@dataclass(slots=True)
class Progress:
    """The progress of a campaign."""

    campaign: Campaign
    changed: bool = False
    """true if there are results for other sources, which are ignored"""
    resumed: int = 0
    """number of examples with known results"""
    outcomes: dict[Batch, Outcome] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def finished_examples(self) -> int:
        """Return the number of finished examples, including batches that failed early."""
        return sum(batch.size for batch in self.outcomes)

    @property
    def failures(self) -> list[tuple[Batch, Failure]]:
        """Return the failures in the order of the campaign."""
        return [(batch, o.failure) for batch, o in sorted(self.outcomes.items(), key=lambda p: p[0]) if o.failure]

    def kinds(self) -> dict[tuple[str, str], list[tuple[Batch, Failure]]]:
        """Return (title, place) -> the failures that have both, starting with those with the shortest parameters."""
        found: dict[tuple[str, str], list[tuple[Batch, Failure]]] = {}
        for batch, failure in self.failures:
            found.setdefault((failure.title, failure.place), []).append((batch, failure))
        for alike in found.values():
            alike.sort(key=lambda pair: (sum(map(len, pair[1].parameters.values())), pair[0]))
        return found

    @property
    def exit_code(self) -> int:
        """Return 0 if all examples passed, 1 if one failed, 130 if interrupted before one failed."""
        return 1 if self.failures else 130 if self.interrupted else 0


class Watcher(Protocol):
    """Receives the progress of a campaign."""

    def show(self, progress: Progress) -> None:
        """Show new progress."""


# -- processes -------------------------------------------------------------------------------------------------------
def _outcome(answer: dict[str, Any]) -> Outcome:
    failure = answer["failure"]
    return Outcome(answer["examples"], None if failure is None else Failure(**failure))


def _dead(campaign: Campaign, batch: Batch, why: str) -> Outcome:
    """Return the outcome of a batch that repeatedly ends its process."""
    title = f"the process that ran the test died ({why})"
    last = batch.first + batch.size - 1
    text = f"{title}\nexamples {batch.first} to {last}, @seed({campaign.batch_seed(batch)})"
    return Outcome(0, Failure(title, "", text))


class _Crew:
    """The processes of a campaign, each with a thread that waits for its answers."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.waiting: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[tuple[Batch, Outcome] | BaseException] = queue.SimpleQueue()
        self.processes: list[Process] = []
        self.stopping = False
        self._lock = threading.Lock()
        first = self._start_process()
        try:
            self.source = first.hello()["source"]
        except (Died, UsageError) as error:
            first.end()
            if not isinstance(error, Died):
                raise
            why = f"the process that does ended ({error})"
            raise UsageError(f"`{campaign.file}` cannot be imported: {why}") from None
        self._idle = [first]

    def _start_process(self) -> Process:
        with self._lock:
            if self.stopping:
                raise Died("stopped")
            process = Process(self.campaign.bundle)
            self.processes.append(process)
        return process

    def start(self, jobs: int) -> None:
        for _ in range(jobs):
            threading.Thread(target=self._work, daemon=True).start()

    def _ready(self) -> Process:
        """Return a process that has imported the same sources as the first process."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        process = self._start_process()
        try:
            same = process.hello()["source"] == self.source
        except Died as died:
            raise UsageError(f"a process for {self.campaign.name} ended at its start ({died})") from None
        if not same:
            raise UsageError(f"the sources of {self.campaign.name} changed meanwhile: start again")
        return process

    def _work(self) -> None:
        process: Process | None = None
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

    def _outcome(self, process: Process, batch: Batch) -> tuple[Outcome, Process | None]:
        """Run a batch, and return its outcome, with the process if that still runs.

        If the process dies, the batch is tried once more.
        """
        request = self.campaign.request(batch)
        try:
            return _outcome(process.ask(request)), process
        except Died:
            process = self._ready()
        try:
            return _outcome(process.ask(request)), process
        except Died as died:
            return _dead(self.campaign, batch, str(died)), None

    def stop(self) -> None:
        with self._lock:
            self.stopping = True
        for process in self.processes:
            process.end()


# -- a campaign ------------------------------------------------------------------------------------------------------
def run(
    campaign: Campaign, jobs: int, file: Path | None, watcher: Watcher, *, fresh: bool = False,
    executor: Executor | None = None, time_limit: float | None = None,
) -> Progress:  # fmt: skip
    """Run the batches of a campaign without known results and store the results in `file`.  Return early, with the
    results so far, on KeyboardInterrupt or after `time_limit` seconds.  `executor` runs the batches, instead of `jobs`
    processes of this machine.  UsageError if the test or the file is unsuitable."""
    progress = Progress(campaign)
    ends = None if time_limit is None else time.monotonic() + time_limit
    crew: _Crew | None = None
    try:
        crew = _Crew(campaign)  # before the file is created, because the test may not exist
        with Results(file or campaign.results) as results:
            progress.changed = results.begin(campaign.name, campaign.seed, crew.source, fresh=fresh)
            wanted = {*campaign.batches()}
            progress.outcomes = {
                batch: outcome for batch, outcome in results.known_outcomes().items() if batch in wanted
            }
            progress.resumed = progress.finished_examples
            watcher.show(progress)
            left = [batch for batch in campaign.batches() if batch not in progress.outcomes]
            for batch, outcome in (
                _outcomes(crew, left, jobs) if executor is None else _remote_results(crew, left, executor)
            ):
                results.add(batch, outcome)
                progress.outcomes[batch] = outcome
                watcher.show(progress)
                if ends is not None and time.monotonic() > ends:
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        progress.interrupted = True
    finally:
        if crew is not None:
            crew.stop()
    return progress


def _outcomes(crew: _Crew, left: list[Batch], jobs: int) -> Iterator[tuple[Batch, Outcome]]:
    """Yield the outcomes of batches in the order of completion, from processes of this machine."""
    for batch in left:
        crew.waiting.put(batch)
    crew.start(min(jobs, len(left)))
    for _ in left:
        yield _next_answer(crew)


def _remote_results(crew: _Crew, left: list[Batch], executor: Executor) -> Iterator[tuple[Batch, Outcome]]:
    """Yield outcomes of batches from a remote executor, whose sources must match those of this machine."""
    campaign, hello = crew.campaign, crew.processes[0].hello()
    requests = {batch: campaign.request(batch) for batch in left}
    for batch, answer in spread.answers(
        executor, spread.pack_sources(campaign.bundle, hello), requests, hello["stamp"]
    ):
        dead = _dead(campaign, batch, answer["died"]) if "died" in answer else None
        yield batch, dead or _outcome(answer)


def _next_answer(crew: _Crew) -> tuple[Batch, Outcome]:
    """Return the next answer.  It waits in short intervals, so that Ctrl-C is noticed on every system."""
    while True:
        try:
            answer = crew.answers.get(timeout=0.5)
        except queue.Empty:
            continue
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _needs_hypothesis() -> None:
    if importlib.util.find_spec("hypothesis") is None:
        raise UsageError("`wsemu fuzz` needs Hypothesis: pip install hypothesis")


def command(
    test: str, options: dict[str, int], jobs: int | None, file: Path | None, *, fresh: bool, on: str = "",
    progress: str = "bar", time_limit: float | None = None,
) -> int:  # fmt: skip
    """Run `wsemu fuzz`: run the campaign of `test` (`options` are those of `Campaign.of`), print its result, and return
    the exit code.  `on` is the address of a cluster that runs it, `progress` as in `watch.showing_progress`,
    `time_limit` in seconds."""
    from wsemu.campaign import progress as report
    from wsemu.campaign.user_file import exists
    from wsemu.report.terminal import Printer

    printer = Printer()
    try:
        campaign = Campaign.of(test, **options)
        exists(campaign.file)
        if not on:
            _needs_hypothesis()
        with (
            report.watcher(printer, campaign.examples, progress) as bar,
            spread.on(on) if on else contextlib.nullcontext() as executor,
        ):
            done = run(
                campaign, jobs or os.cpu_count() or 1, file, bar, fresh=fresh, executor=executor, time_limit=time_limit
            )
    except UsageError as error:
        printer.error(error)
        return 2
    report.tell(printer, done, file or campaign.results, _save(done, file or campaign.results))
    return done.exit_code


def _save(progress: Progress, results: Path) -> dict[tuple[str, str], Path]:
    """Write the witness of each kind of failure next to the result file; return the paths."""
    from wsemu.launch.replay.witness_file import SUFFIX, Witness

    files: dict[tuple[str, str], Path] = {}
    for kind, found in progress.kinds().items():
        failure = found[0][1]
        with contextlib.suppress(OSError, ValueError):  # the remaining results do not need this witness
            file = results.with_name(f"{results.stem}-{len(files) + 1}{SUFFIX}")
            if failure.witness:
                Witness.model_validate_json(failure.witness).save(file)
                files[kind] = file
    return files
