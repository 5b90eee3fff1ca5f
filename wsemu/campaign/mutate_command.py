"""`wsemu mutate FILE::test`: the command, from its options to its exit code.

Processes of this machine (`worker`), each of which has opened the tests, try the mutants.  Each result is written to a
file immediately, so the same command continues after an interruption.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.campaign import mutate_report, spread
from wsemu.campaign.mutate import Mutant, Told
from wsemu.campaign.mutate_report import Mutated
from wsemu.campaign.mutate_results import Results
from wsemu.campaign.watch import State, showing_progress
from wsemu.model.errors import UsageError, WsemuError
from wsemu.repair.mutants import OF_KERNELS
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FOLDER = Path(".wsemu", "mutate")
"""folder of result files, below the working folder"""


def command(
    test: str, *, kinds: Sequence[str] = (), kernels: Sequence[str] = (), sample: int = 1, jobs: int = 1,
    file: Path | None = None, fresh: bool = False, progress: str = "bar", time_limit: float | None = None,
    json_format: bool = False, whole: bool = False,
) -> int:  # fmt: skip
    """Try the mutants of a test's kernels and report the survivors; with `sample`, only every `sample`-th mutant of
    these kinds and kernels."""
    printer = Printer()
    try:
        unknown = next((kind for kind in kinds if kind not in OF_KERNELS), None)
        if unknown is not None:
            raise UsageError(f"no kind of mutants `{unknown}`: there are {', '.join(OF_KERNELS)}")
        chosen = json.dumps([[*kinds], [*kernels]])
        with showing_progress(progress) as each, _opening_test(test, chosen) as (hello, mutants, bundle):
            wanted = [*range(0, len(mutants), sample)]
            mutated = Mutated(test, mutants)
            with Results(file or results_file(test)) as results:
                results.begin(test, hello["source"], fresh=fresh)
                tried = Campaign(mutated, wanted, results, each, time_limit)
                tried.run(lambda left: _answers(bundle, hello["stamp"], left, jobs))
    except WsemuError as error:
        printer.error(error)
        return 2
    if json_format:
        sys.stdout.write(json.dumps(mutate_report.document(mutated), indent=2) + "\n")
    else:
        for text, style in mutate_report.lines(mutated, whole=whole):
            printer.text(text, style)
        printer.text(f"results: {file or results_file(test)}")
    return mutated.exit_code


def results_file(test: str) -> Path:
    """Return the default result file."""
    file, _, name = test.partition("::")
    words = [Path(file).stem, *re.findall(r"\w+", name)]
    return FOLDER / f"{'-'.join(words)[:100]}.sqlite"


class Campaign:
    """The mutants of a test without known outcomes."""

    def __init__(
        self, mutated: Mutated, wanted: Sequence[int], results: Results, each: Callable[[State], None],
        time_limit: float | None = None,
    ) -> None:  # fmt: skip
        self.mutated, self.wanted, self.results, self.each = mutated, wanted, results, each
        self.ends = None if time_limit is None else time.monotonic() + time_limit

    def run(self, answers: Callable[[Sequence[int]], Iterator[tuple[int, Told]]]) -> None:
        """Try the mutants; return early on KeyboardInterrupt and at the time limit."""
        mutated, names = self.mutated, [mutant.name for mutant in self.mutated.mutants]
        known = self.results.known_outcomes()
        mutated.told = {n: known[names[n]] for n in self.wanted if names[n] in known}
        mutated.resumed = len(mutated.told)
        try:
            self._show()
            for number, told in answers([n for n in self.wanted if n not in mutated.told]):
                self.results.add(names[number], told)
                mutated.told[number] = told
                self._show()
                if self.ends is not None and time.monotonic() > self.ends:
                    raise TimeoutError
        except KeyboardInterrupt:
            mutated.stopped = "interrupted"
        except TimeoutError:
            mutated.stopped = "the time limit is reached"

    def _show(self) -> None:
        done, alive = len(self.mutated.told), len(self.mutated.survivors())
        self.each(State(self.mutated.name, done, len(self.wanted), "mutants", {"survive": alive}))


@contextlib.contextmanager
def _opening_test(test: str, chosen: str) -> Iterator[tuple[dict[str, Any], list[Mutant], spread.Bundle]]:
    """Open a test in a process; return what the process reports about itself, and the mutants."""
    file, _, name = test.partition("::")
    bundle = spread.Bundle("mutate", file, name, options=chosen)
    process = spread.Process(bundle)
    try:
        hello = process.hello()
        mutants = [Mutant(**fields) for fields in process.ask({"mutants": True})["mutants"]]
        spread.lend(bundle, process)
        yield hello, mutants, bundle
    except spread.Died as died:
        raise UsageError(f"a process for `{test}` ended at its start ({died})") from None
    finally:
        process.end()
        spread.dismiss()


def _answers(bundle: spread.Bundle, stamp: str, left: Sequence[int], jobs: int) -> Iterator[tuple[int, Told]]:
    """Yield the outcomes of mutants in the order of completion."""
    requests = {number: {"mutant": number} for number in left}
    executor = ThreadPoolExecutor(max(min(jobs, len(left)), 1))
    try:
        for number, answer in spread.answers(executor, bundle, requests, stamp):
            died = answer.get("died")
            yield number, Told("time", f"the process that ran it died ({died})") if died else Told(**answer)
    finally:
        spread.dismiss()  # before all else, so that threads which wait for a process continue
        executor.shutdown(cancel_futures=True)
