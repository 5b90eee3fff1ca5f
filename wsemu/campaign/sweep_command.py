"""`wsemu sweep FILE::function`: from options to an exit code."""

from __future__ import annotations

import contextlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.campaign import spread, sweep_report
from wsemu.campaign.sweep import Sweep, Tried, of
from wsemu.campaign.user_file import import_file
from wsemu.campaign.watch import State, showing_progress
from wsemu.model.errors import UsageError, WsemuError
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from wsemu.campaign.sweep import Sizes, Swept

MOST_GIVEN = 10_000
"""maximum number of sizes that an option may list"""


def command(
    test: str, given: Sequence[str], options: dict[str, Any], *, most: int | None = None, json_format: bool = False,
    jobs: int = 1, on: str = "", progress: str = "", times: bool = False,
) -> int:  # fmt: skip
    """Sweep a function with these `--size` options, and print the result; `options` are those of `Sweep.run`.  The
    sizes are tried by `jobs` processes, or by the cluster at `on`.  With `times`, times on an H200 are predicted."""
    from wsemu.app.chosen import resolve_settings
    from wsemu.host import takeover
    from wsemu.model.settings import using

    printer = Printer()
    try:
        if times and (on or jobs > 1):
            raise UsageError("`--time` predicts in this process: leave out `--jobs` and `--on`")
        file, name = _split(test)
        _, settings = resolve_settings(file, {})
        with (
            using(settings),
            takeover.numba_cuda(),
            _executor(jobs, on) as executor,
            showing_progress(progress) as each,
        ):
            sweep = load_sweep(file, name, given, most)
            attempts = None if executor is None else _Afar(executor, file, name, tuple(sweep.given), bool(on))
            options |= {"attempts": attempts, "device": "H200" if times else ""}
            swept = sweep.run(**options, each=lambda swept, total: each(_state(swept, total)))
    except WsemuError as error:
        printer.error(error)
        return 2
    if json_format:
        sys.stdout.write(json.dumps(sweep_report.document(swept), indent=2) + "\n")
    else:
        sweep_report.tell(printer, swept)
    return swept.exit_code


def _state(swept: Swept, total: int) -> State:
    return State(swept.name, len(swept.tried), total, "sizes", {"failed": len(swept.of("fails"))})


@contextlib.contextmanager
def _executor(jobs: int, on: str) -> Iterator[Executor | None]:
    """Provide the executor that runs sizes in other processes; None if they run in this one."""
    if on:
        with spread.on(on) as executor:
            yield executor
    elif jobs > 1:
        try:
            with ThreadPoolExecutor(jobs) as executor:
                yield executor
        finally:
            spread.dismiss()
    else:
        yield None


class _Afar:
    """Tries sizes in other processes."""

    def __init__(self, executor: Executor, file: Path, name: str, parameters: tuple[str, ...], sent: bool) -> None:
        self.executor, self.parameters = executor, parameters
        bundle = spread.Bundle("sweep", str(file), name)
        process = spread.Process(bundle)  # its greeting has the stamp that other processes must match
        try:
            hello = process.hello()
        except spread.Died as died:
            raise UsageError(f"a process for `{file}` ended at its start ({died})") from None
        finally:
            process.end()
        self.stamp = hello["stamp"]
        self.bundle = spread.pack_sources(bundle, hello) if sent else bundle

    def __call__(self, wanted: Sequence[Sizes]) -> Iterator[Tried]:
        requests = {sizes: dict(zip(self.parameters, sizes, strict=True)) for sizes in wanted}
        for sizes, answer in spread.answers(self.executor, self.bundle, requests, self.stamp):
            if "died" in answer:
                yield Tried(sizes, "fails", f"the process that tried it died ({answer['died']})")
            else:
                yield Tried(**{**answer, "sizes": tuple(answer["sizes"])})


def _split(test: str) -> tuple[Path, str]:
    file, separator, name = test.rpartition("::")
    if not separator or not file or not name.isidentifier():
        raise UsageError(f"`{test}` is no function: give FILE::function, such as sgemv.py::multiply")
    return Path(file), name


def load_sweep(file: Path, name: str, given: Sequence[str] = (), most: int | None = None) -> Sweep:
    """Return the sweep of a function in a file, with the sizes of options instead of its own."""
    if not file.is_file():
        raise UsageError(f"`{file}` does not exist: give FILE::function")
    try:
        module = import_file(file)
    except WsemuError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"`{file}` cannot be imported: {type(error).__name__}: {error}") from None
    function = getattr(module, name, None)
    if function is None:
        found = [n for n, value in vars(module).items() if isinstance(value, Sweep)]
        its = f": its sweeps are {', '.join(found)}" if found else ""
        raise UsageError(f"`{file}` has no function `{name}`{its}")
    try:
        sweep = of(function)
    except UsageError as error:
        raise UsageError(f"`{file.as_posix()}::{name}`: {error}") from None
    sizes = dict(_sizes(option) for option in given)
    return Sweep(sweep.function, {**sweep.given, **sizes}, sweep.most if most is None else most)


def _sizes(option: str) -> tuple[str, Any]:
    """Parse `n=0,1,8:12` into the name and its sizes."""
    name, _, text = option.partition("=")
    if text.strip() == "...":
        return name, ...
    found: list[int] = []
    try:
        for part in text.split(","):
            first, separator, last = part.partition(":")
            numbers = range(int(first), int(last)) if separator else range(int(first), int(first) + 1)
            if len(numbers) + len(found) > MOST_GIVEN:
                raise UsageError(f"`--size {option}` names more than {MOST_GIVEN:,} sizes")
            found += numbers
    except ValueError:
        raise UsageError(f"`--size {option}`: give NAME=SIZES, such as n=0,1,30:34 or n=...") from None
    return name, found
