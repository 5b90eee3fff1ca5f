"""A process of a campaign: it imports the function, then answers each line that it reads.

    python -m wsemu.campaign.worker FILE FUNCTION fuzz|sweep|mutate [OPTIONS]
    <- {"source": ..., "stamp": ..., "files": [...]} or {"error": ...}            once, when it is ready
    -> {"seed": 7, "examples": 200}                 a batch of examples of a test, or
    <- {"examples": 200, "failure": null}           what failed, as `describe` has it
    -> {"n": 33, "tile": 32}                        sizes of a sweep
    <- {"sizes": [33], "came": "holds", ...}        a `sweep.Tried`
    -> {"mutants": true} or {"mutant": 7}           the mutants of what a test launches, or one of them
    <- {"mutants": [...]} or {"way": "check", ...}  as `mutate.Mutant` and `mutate.Told` have it

JSON on the standard streams, one object a line; the test's own output goes nowhere.  A batch depends only on the
sources, its seed and its size, not on earlier batches or on the process that runs it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from wsemu.campaign.falsified import decorator, given_names, leaves, parameters
from wsemu.campaign.pytest_project import prepare_project
from wsemu.campaign.user_file import digest_files, exists, files, import_file, sources, versions
from wsemu.launch.result import CheckFailed
from wsemu.model.errors import UsageError, WsemuError
from wsemu.model.own import is_own

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from wsemu.campaign.mutate import Bench

KNOWN = {"wsemu"}
"""fixtures that a test may take"""


# -- the test --------------------------------------------------------------------------------------------------------
def load(file: Path, name: str) -> Any:
    """Return the Hypothesis test function in a file; raise UsageError, which names the fault, if there is none."""
    exists(file)
    try:
        prepare_project(file)
        module = import_file(file)
    except UsageError:
        raise
    except WsemuError as error:
        raise UsageError(f"`{file}` cannot be imported: {error}") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"`{file}` cannot be imported: {type(error).__name__}: {error}") from None
    test = getattr(module, name, None)
    if test is None:
        found = [n for n, value in vars(module).items() if getattr(value, "is_hypothesis_test", False)]
        raise UsageError(f"`{file}` has no function `{name}`: its tests with @given are {', '.join(found) or 'none'}")
    if not getattr(test, "is_hypothesis_test", False):
        raise UsageError(f"`{name}` draws nothing: decorate it with Hypothesis' @given")
    others = [n for n in inspect.signature(test).parameters if n not in KNOWN]
    if others:
        raise UsageError(
            f"`{name}` takes `{others[0]}`, which @given does not draw: of pytest's fixtures, `wsemu` alone"
        )
    return test


def _greeting() -> dict[str, Any]:
    """Return the greeting of a process: see `spread.Process`."""
    from wsemu.machine import cache

    ours = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), os.pardir)) + os.sep
    own = [name for name in files() if not os.path.realpath(name).startswith(ours)]
    vm = hashlib.sha256(b"".join(name.encode() + text for name, text in cache.all_sources().items())).hexdigest()
    return {"source": sources(), "stamp": digest_files(f"{versions()} {vm}", own), "files": own}


# -- a batch ---------------------------------------------------------------------------------------------------------
class Batches:
    """A test, prepared to run batches of examples."""

    def __init__(self, test: Any) -> None:
        from hypothesis import HealthCheck, Phase, Verbosity, settings

        from wsemu.machine import build as native

        # takes seconds once per installation, so it must not count toward the deadline of an example
        native.keep_all()
        _freeze_constants()
        self.test, self.ran = test, 0
        self.names = given_names(test)
        test.hypothesis.inner_test = self._count_examples(test.hypothesis.inner_test)
        self.settings = settings(
            test._hypothesis_internal_use_settings,
            database=None,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate, Phase.target, Phase.shrink],  # pytest runs the examples of @example
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.normal,
        )

    def _count_examples(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.ran += 1
            return inner(*args, **kwargs)

        return run

    def run(self, seed: int, examples: int) -> dict[str, Any]:
        """Return the outcome of a batch: the number of runs of the test, and the smallest failing example."""
        import hypothesis

        self.ran = 0
        test = hypothesis.seed(seed)(self.test)
        test._hypothesis_internal_use_settings = hypothesis.settings(self.settings, max_examples=examples)
        arguments = {name: _fixture() for name in inspect.signature(self.test).parameters}
        failure = None
        try:
            test(**arguments)
        except Exception as error:
            failure = describe(next(leaves(error)), self.names)
        return {"examples": self.ran, "failure": failure}


def _fixture() -> Any:
    from wsemu.pytest_plugin import Wsemu

    return Wsemu()


def _leave_out_our_constants() -> None:
    """Exclude wsemu's constants: Hypothesis draws constants from the sources of loaded modules outside of
    `site-packages`, and which modules of a checkout of wsemu are loaded depends on earlier compilations."""
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "is_local_module_file"):
        is_local = providers.is_local_module_file
        providers.is_local_module_file = lambda path: is_local(path) and not is_own(path)


def _freeze_constants() -> None:
    """Keep only the constants of the modules that are loaded now: a batch may load others, and batches must not depend
    on earlier ones."""
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "_get_local_constants"):
        constants = providers._get_local_constants()
        providers._get_local_constants = lambda: constants


def describe(error: BaseException, names: tuple[str, ...] | None) -> dict[str, Any]:
    """Return a failure as data that is the same in every run.

    It has the title (one line), `place` (`file:line` in the test), text (the diagnostics), parameters, example (the
    decorator that repeats it), and witness (JSON); the last two may be empty.
    """
    values = parameters(error, names)
    if isinstance(error, CheckFailed):
        error.report = error.report.model_copy(update={"seconds": 0.0})
    text = str(error).strip()
    if not isinstance(error, WsemuError):
        text = ": ".join(part for part in (type(error).__name__, text) if part)
    return {
        "title": text.partition("\n")[0],
        "place": _place(error.__traceback__),
        "text": text,
        "parameters": values,
        "example": decorator(values),
        "witness": _witness(error),
    }


def _witness(error: BaseException) -> str:
    """Return the schedule of the first error that has one, for `wsemu.replay`."""
    from wsemu.launch.replay.witness_file import Witness

    if isinstance(error, CheckFailed) and error.report.inputs is not None:
        for finding in error.report.errors:
            if finding.steps:
                return Witness.of(error.report, finding).model_dump_json()
    return ""


def _place(traceback: TracebackType | None) -> str:
    """Return the location at which the test failed: the last frame below the working folder that is not wsemu's."""
    here = os.path.realpath(os.getcwd()) + os.sep
    place = ""
    while traceback is not None:
        file = os.path.realpath(traceback.tb_frame.f_code.co_filename)
        if file.startswith(here) and "site-packages" not in file and not is_own(file):
            place = f"{file.removeprefix(here)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


# -- the process -----------------------------------------------------------------------------------------------------
def _streams() -> tuple[TextIO, TextIO]:
    """Return the standard streams for the protocol; the test has no input, and its output is discarded."""
    reads, writes = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    return reads, writes


def _requests(reads: TextIO) -> queue.SimpleQueue[dict[str, Any]]:
    """Return a queue of requests.  When the requester has ended, this process ends as well, even while the test
    runs."""
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in reads:
            requests.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return requests


class _Sizes:
    """A sweep that is ready to try sizes."""

    def __init__(self, file: Path, name: str) -> None:
        from wsemu.campaign.sweep_command import load_sweep

        self._function = load_sweep(file, name).function

    def run(self, **sizes: int) -> dict[str, Any]:
        from dataclasses import asdict

        from wsemu.campaign.sweep import attempt

        return asdict(attempt(self._function, sizes))


class _Mutants:
    """Open tests, and the mutants of the kernels that they launch."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(self, mutants: bool = False, mutant: int = 0) -> dict[str, Any]:
        from dataclasses import asdict

        if mutants:
            return {"mutants": [asdict(one) for one in self._bench.mutants()]}
        return asdict(self._bench.judge(mutant))


def main(file: str, name: str, kind: str = "fuzz", options: str = "") -> None:
    """Answer requests until the input ends."""
    from wsemu.app.chosen import resolve_settings
    from wsemu.host import takeover
    from wsemu.model.settings import using

    reads, writes = _streams()
    requests = _requests(reads)

    def answer(what: dict[str, Any]) -> None:
        writes.write(json.dumps(what) + "\n")
        writes.flush()

    def serve(served: _Sizes | Batches | _Mutants) -> None:
        answer(_greeting())
        while True:
            answer(served.run(**requests.get()))

    try:
        _, settings = resolve_settings(Path(file), {})
        with using(settings), takeover.numba_cuda():
            if kind == "mutate":
                _open(file, name, options, serve)
            else:
                serve(_Sizes(Path(file), name) if kind == "sweep" else _batches(Path(file), name))
    except UsageError as error:
        answer({"error": str(error)})


def _open(file: str, name: str, options: str, serve: Callable[[_Mutants], None]) -> None:
    """Serve while the tests are open."""
    from wsemu.campaign.mutate import Bench
    from wsemu.campaign.mutate_trials import run_with_trials

    kinds, kernels = json.loads(options)
    run_with_trials(f"{file}::{name}" if name else file, lambda trials: serve(_Mutants(Bench(trials, kinds, kernels))))


def _batches(file: Path, name: str) -> Batches:
    _leave_out_our_constants()
    return Batches(load(file, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
