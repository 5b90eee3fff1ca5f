"""Runs malformed inputs: a process that has wsemu loaded forks for each, in a folder of its own, and judges the end.

Required are a documented exit code in time, a message where it is not 0, no traceback, no character that moves a
terminal's cursor, and files that are whole: none half-written, none left over.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.malformed import PROGRAM, Input, Saved

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 60.0
"""maximum seconds for an input"""
MEMORY = 6 << 30
"""maximum bytes of address space for an input, beyond those of the process"""
ROOT = Path(__file__).parents[1]
BUGS = (
    "examples/broken/no_empty_wait.py", "examples/broken/both_wait_first.py", "examples/broken/two_pipelines_one_id.py",
    "tests/fail/intra-warp-race/lanes_store_different_values.py", "tests/fail/race/ctas_write_one_array.py",
    "tests/fail/out-of-bounds/last_tile_unguarded.py",
)  # fmt: skip
"""programs whose witnesses are changed"""


class Ran(NamedTuple):
    """What an input came to."""

    code: int | None
    """exit code; None: it did not end in time; negative: the signal that ended it"""
    out: str
    err: str
    seconds: float
    left: dict[str, bytes]
    """files that it wrote"""


def warm() -> None:
    """Load the modules that the commands load, and compile the emulator, so that forks need not."""
    import wsemu.report.collected  # noqa: F401
    from tests.commands import wsemu as typed
    from wsemu.report import github, html, json, perfetto, replay, sarif, timeline_terminal  # noqa: F401

    for engine in ("vm", "reference"):
        typed("check", "--workers", "1", "--engine", engine, ROOT / BUGS[0])
    with folder() as place:
        typed("check", "--save-witness", place, ROOT / BUGS[0])
        for witness in place.iterdir():
            typed("replay", witness)
        from tests.malformed_launches import LONG

        (place / PROGRAM).write_bytes(LONG.replace(b"* 0 + 1", b"* 0 + 2"))
        typed("check", "--tier", "always", place / PROGRAM)  # with the parts of the machine that blocks need
    gc.freeze()  # exclude loaded objects from garbage collection in the forks


def run(given: Input, folder: Path, seconds: float = SECONDS) -> Ran:
    """Run the command of an input in `folder`, which is empty, in a fork of this process."""
    from tests.malformed_launches import lay_out

    lay_out(given, folder)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.environ.update(given.environment)
            _child(given.arguments, folder, out.fileno(), err.fileno())
        code = _wait(child, started + seconds)
        taken = time.monotonic() - started
        texts = [_read(stream.fileno()) for stream in (out, err)]
    left = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and not str(path.relative_to(folder)).startswith("cache/")
        and str(path.relative_to(folder)) not in given.files
        and "__pycache__" not in path.parts
    }
    return Ran(code, texts[0], texts[1], taken, left)


def _read(number: int) -> str:
    os.lseek(number, 0, os.SEEK_SET)
    with os.fdopen(os.dup(number), "rb") as stream:
        return stream.read(1 << 22).decode("utf-8", "surrogateescape")


def _child(arguments: list[str], folder: Path, out: int, err: int) -> None:
    """Do what `wsemu ARGUMENTS` does as a process of its own; do not return."""
    os.setsid()
    os.chdir(folder)
    for number, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(number, target)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode) for n, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.argv = ["wsemu", *arguments]
    code = 1
    try:
        from wsemu.cli import main

        main()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else 1
    except BaseException:
        traceback.print_exc(file=os.fdopen(os.dup(2), "w"))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code & 0xFF)


def _wait(child: int, until: float) -> int | None:
    """Return the exit code of a child, minus the signal that ended it, or None if it was ended because it took too
    long."""
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _end_group(child)
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            _end_group(child)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(pause * 1.3, 0.02)


def _end_group(child: int) -> None:
    """End a child and its own children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Yield an empty folder, which is removed afterwards."""
    made = Path(tempfile.mkdtemp(prefix="wsemu-malformed-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def samples() -> list[Saved]:
    """Return programs with bugs, and the witnesses of them that `wsemu check --save-witness` writes."""
    found = []
    for name in BUGS:
        source = (ROOT / name).read_bytes()
        with folder() as place, _no_edits():
            ran = run(Input({PROGRAM: source}, ["check", "--save-witness", ".", PROGRAM]), place)
        if not ran.left:
            raise RuntimeError(f"{name} gave no witness: exit code {ran.code}: {ran.out}{ran.err}")
        found += [Saved(source, data) for data in ran.left.values()]
    return found


@contextlib.contextmanager
def _no_edits() -> Iterator[None]:
    """Try no edits for findings, since witnesses do not contain any."""
    from wsemu.model import settings

    before, settings.FIX_BUDGET = settings.FIX_BUDGET, 0.0
    try:
        yield
    finally:
        settings.FIX_BUDGET = before


# -- what is required --------------------------------------------------------------------------------------------------
def wrong(given: Input, ran: Ran) -> str:
    """Return what is wrong with the end of an input; empty if nothing is."""
    if ran.code is None:
        return "did not end in time"
    if ran.code < 0:
        return f"ended by signal {-ran.code}"
    if "Traceback (most recent call last)" in ran.out + ran.err:
        return f"a traceback: {(ran.out + ran.err).strip().splitlines()[-1]}"
    if ran.code not in given.codes:
        told = next((line for line in (ran.out + ran.err).splitlines() if line.startswith("internal error")), "")
        return f"exit code {ran.code} {told}".rstrip()
    if "SECRET" in ran.out + ran.err:
        return "a file is shown that is none of its own"
    return _unclean(ran) or _unfinished(given, ran)


def _unclean(ran: Ran) -> str:
    for name, text in (("output", ran.out), ("error output", ran.err)):
        bad = next((c for c in text if not c.isprintable() and c != "\n"), None)
        if bad is not None:
            return f"the character {bad!a} in the {name}"
    return "" if ran.code == 0 or (ran.out + ran.err).strip() else "no message"


def _unfinished(given: Input, ran: Ran) -> str:
    """Return the files that are only partly written."""
    if _format(given) in ("json", "sarif") and ran.out.strip() and not _is_json(ran.out):
        return "the document is not JSON"
    for name, data in ran.left.items():
        if name.endswith(".html"):
            whole = data.rstrip().endswith(b"</html>")
        elif name.endswith(".json"):
            whole = _is_json(data.decode("utf-8", "replace"))
        else:
            return f"the file {name!a} is left over"
        if not whole:
            return f"the file {name!a} is half-written"
    return ""


def _format(given: Input) -> str:
    arguments = given.arguments
    return arguments[arguments.index("--format") + 1] if "--format" in arguments[:-1] else ""


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
