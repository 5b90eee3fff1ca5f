"""The work of campaigns in other processes, and on other machines.

A campaign is a set of requests to one function of one file: batches of a fuzzing campaign, sizes of a sweep.  Each
request is answered alone by a process for its kind (`worker`), so that the answer depends only on the sources and on
the request.  Any Executor (`concurrent.futures`) may carry requests: it calls `serve`.  A request whose worker dies is
made again; if a request is answered twice, only the first answer counts.

    serve in threads of this process                  the default: the threads wait for processes of this machine
    `on("tcp://host:8786")`                           Dask: its workers start the processes
    any other Executor, such as those of Ray and MPI  `wsemu.campaign.spread.answers(executor, ...)`

The sources are sent to other machines: the files below the working folder from which the campaign's process loads
modules.  The processes of another machine must have the same versions of wsemu, of the modules that the VM is compiled
from and of Hypothesis, and load the same sources.  Each answer contains a digest of all these.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wsemu.model.data import dataclass
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal["fuzz", "sweep", "mutate"]
MOST_LOST = 20
"""maximum number of repetitions of a request whose workers die or are lost, while no request is answered"""
PAUSE = 0.2
"""seconds before a request is repeated, so that a scheduler may come back"""
_ALONE: dict[str, Any] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if sys.platform == "win32"
    else {"start_new_session": True}
)
"""options of a process that Ctrl-C does not reach: the campaign decides when to stop"""


@dataclass(frozen=True)
class Bundle:
    """The work of a process."""

    kind: Kind
    file: str
    function: str
    files: tuple[tuple[str, bytes], ...] = ()
    """relative paths and contents of the sources; empty: the sources are in the working folder"""
    options: str = ""
    """further options of the process"""

    @property
    def digest(self) -> str:
        digest = hashlib.sha256(f"{self.kind} {self.file} {self.function} {self.options}".encode())
        for name, text in self.files:
            digest.update(name.encode() + b"\0" + hashlib.sha256(text).digest())
        return digest.hexdigest()[:32]


class Died(Exception):
    """A process ended without an answer."""


class Process:
    """A process that answers requests: see `worker`."""

    def __init__(self, bundle: Bundle, folder: str | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wsemu.campaign.worker", bundle.file, bundle.function, bundle.kind, bundle.options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": "0"}, **_ALONE,
        )  # fmt: skip
        self._hello: dict[str, Any] = {}

    def hello(self) -> dict[str, Any]:
        """Return the greeting of a process: `source`, a digest of everything that it runs; `stamp`, a digest that must
        be equal on another machine; and `files`, its sources that are not installed.  Raise UsageError if the function
        is unsuitable."""
        if not self._hello:
            self._hello = self._answer()
        if "error" in self._hello:
            raise UsageError(self._hello["error"])
        return self._hello

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            self.end()
            raise Died(f"exit code {self._process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


# -- where requests are answered -------------------------------------------------------------------------------------
_idle: defaultdict[str, list[Process]] = defaultdict(list)
_started: list[Process] = []
_lock = threading.Lock()


_dismissed = 0
"""number of calls of `dismiss`"""


def lend(bundle: Bundle, process: Process) -> None:
    """Let `serve` use a process that the caller has started and will end."""
    with _lock:
        _idle[bundle.digest].append(process)


def serve(bundle: Bundle, request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request in a process of this machine: {"stamp": ..., "answer": ...}.  Return {"died": why} if the
    processes were dismissed, or if the request ended two processes, which is due to the code that they run."""
    why, dismissed = "", _dismissed
    for _ in range(2):
        with _lock:
            if dismissed != _dismissed:
                return {"died": "dismissed"}
            process = _idle[bundle.digest].pop() if _idle[bundle.digest] else None
        try:
            if process is None:
                process = Process(bundle, _unpack_sources(bundle))
                with _lock:
                    _started.append(process)
            stamp = process.hello()["stamp"]
            answer = process.ask(request)
        except Died as died:
            why = str(died)
            continue
        with _lock:
            _idle[bundle.digest].append(process)
        return {"stamp": stamp, "answer": answer}
    return {"died": why}


def dismiss() -> None:
    """End the processes of this machine."""
    global _dismissed
    with _lock:
        _dismissed += 1
        ending, _started[:] = [*_started], []
        _idle.clear()
    for process in ending:
        process.end()


def _unpack_sources(bundle: Bundle) -> str | None:
    """Return the folder with the sources of a bundle, unpacked if necessary; None: the working folder."""
    if not bundle.files:
        return None
    with _unpacking:
        if (bundle.digest, os.getpid()) not in _folders:
            folder = tempfile.mkdtemp(prefix="wsemu-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            _write(bundle, Path(folder))
            _folders[bundle.digest, os.getpid()] = folder
        return _folders[bundle.digest, os.getpid()]


_folders: dict[tuple[str, int], str] = {}
"""digest of a bundle, process -> the folder of its sources, which no other user can enter"""
_unpacking = threading.Lock()


def _write(bundle: Bundle, folder: Path) -> None:
    """Write the sources of a bundle into a folder for this bundle alone."""
    for name, text in bundle.files:
        file = folder.joinpath(name)
        if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
            raise UsageError(f"`{name}` lies outside of the working folder: it is not sent to another machine")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)


# -- who asks ----------------------------------------------------------------------------------------------------------
def pack_sources(bundle: Bundle, hello: Mapping[str, Any]) -> Bundle:
    """Return the bundle for another machine: with the sources that a process of this machine has loaded."""
    here = os.path.realpath(os.getcwd())
    file = os.path.relpath(os.path.realpath(bundle.file), here)
    if file.startswith(os.pardir):
        raise UsageError(f"`{bundle.file}` lies outside of the working folder: start from a folder above it")
    files = tuple((name, Path(here, name).read_bytes()) for name in hello["files"])
    return Bundle(bundle.kind, file, bundle.function, files)


def answers(
    executor: Executor, bundle: Bundle, requests: Mapping[Any, dict[str, Any]], stamp: str
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield (request's name, answer) in the order of the answers, each request once; the answer is {"died": why} if the
    process dies of the request.

    All processes must have the same `stamp` (`Process.hello`).  Raise UsageError if a process has another stamp, or if
    a request is lost too often.
    """
    waiting: dict[Future[dict[str, Any]], Any] = {}
    lost: Counter[Any] = Counter()
    """losses of each request since the last answer to any: while others are answered, a loss is not its fault"""
    left = set(requests)

    def submit(name: Any) -> None:
        waiting[executor.submit(serve, bundle, requests[name])] = name

    try:
        for name in requests:
            submit(name)
        while left:
            done, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            again: list[Any] = []
            for future in done:
                name = waiting.pop(future)
                if name not in left:
                    continue
                try:
                    found = future.result()
                except UsageError:
                    raise
                except BaseException as error:
                    if isinstance(error, (KeyboardInterrupt, SystemExit)):
                        raise
                    lost[name] += 1
                    if lost[name] > MOST_LOST:
                        raise UsageError(
                            f"{name} was lost {MOST_LOST} times: {type(error).__name__}: {error}"
                        ) from None
                    again.append(name)
                    continue
                if "died" not in found and found["stamp"] != stamp:
                    raise UsageError(
                        "a worker has other sources or versions than this process: install the same wsemu there"
                    )
                left.discard(name)
                lost.clear()
                yield name, found if "died" in found else found["answer"]
            if again:
                time.sleep(PAUSE)
            for name in again:
                submit(name)
    finally:
        for future in waiting:
            future.cancel()


@contextlib.contextmanager
def on(address: str) -> Iterator[Executor]:
    """Open an Executor on a Dask cluster; raise UsageError if the scheduler does not answer, or Dask is not
    installed."""
    if not address.startswith(("tcp://", "tls://")):
        raise UsageError(f"`--on {address}`: give the address of a Dask scheduler, such as tcp://host:8786")
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UsageError("`--on` needs Dask, which is not installed: `pip install wsemu[dask]`") from None
    try:
        client = distributed.Client(address, timeout=30)
    except (OSError, TimeoutError) as error:
        raise UsageError(f"there is no Dask scheduler at {address}: {error}") from None
    try:
        yield client.get_executor(pure=False, retries=MOST_LOST)
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=5)
