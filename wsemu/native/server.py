"""Run a program with the libraries of wsemu's driver instead of CUDA's, and serve its processes until it ends.

A private folder contains the socket to which the processes connect, and the PTX that compilers in them generate. It is
removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.machine import cache
from wsemu.native import start
from wsemu.native.build import find_libraries
from wsemu.native.compiler import AUDIT, DRIVER
from wsemu.native.messages import HEAD, MAX_MESSAGE, Operation
from wsemu.native.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.native.session import Watch

TICK = 0.05
"""seconds between checks whether the program has ended"""
LINGER = 2.0
"""seconds for which processes that outlive the program are served without a message"""
GRACE = 2.0
"""seconds between the request to end and the forced end"""


class Connection:
    """A process of the program, and the bytes that it has sent."""

    def __init__(self, stream: socket.socket, session: Session) -> None:
        self.stream = stream
        self.session = session
        self._data = bytearray()
        self._files: list[int] = []

    def receive(self) -> bool:
        """Read and handle the available messages; return whether the process is still connected."""
        try:
            data, files, _, _ = socket.recv_fds(self.stream, 1 << 20, 1)
        except OSError:
            return False
        self._files += files
        self._data += data
        if not data:
            return False
        while len(self._data) >= HEAD.size:
            operation, size = HEAD.unpack_from(self._data)
            if size > MAX_MESSAGE:
                return False
            if len(self._data) < HEAD.size + size:
                break
            body = bytes(self._data[HEAD.size : HEAD.size + size])
            del self._data[: HEAD.size + size]
            if not self._answer(operation, body):
                return False
        return True

    def _answer(self, operation: int, body: bytes) -> bool:
        if operation == Operation.HELLO:
            reply = self.session.begin(body, self._files.pop()) if self._files else b""
        else:
            reply = self.session.handle(operation, body)
        if not reply:
            return operation != Operation.HELLO
        try:
            self.stream.sendall(reply)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the connection and the session of the process."""
        for file in self._files:
            os.close(file)
        self.stream.close()
        self.session.end()


class Ended:
    """The end of a program."""

    def __init__(self, code: int) -> None:
        self.code = code
        """exit code of the program; negative: the signal that ended it"""


def run_program(command: Sequence[str], watch: Watch) -> Ended:
    """Run a command, with its launches checked, to its end; an interrupt or time limit ends it and is raised again."""
    libraries = find_libraries()
    with _exiting_by_signals(), _private_folder() as folder:
        kept = folder / "ptx"
        kept.mkdir()
        path = folder / "server"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen(64)
            program = subprocess.Popen(command, env=environment(libraries, path, kept))
            try:
                _serve(listening, program, kept, watch)
            except BaseException:
                _end(program)
                raise
        return Ended(program.wait())


def environment(libraries: Path, server: Path, kept: Path) -> dict[str, str]:
    """Return the environment of the program: that of this process, with the driver in front."""
    found = dict(os.environ)
    driver = str(libraries / DRIVER)

    def put_first(name: str, value: str, separator: str) -> None:
        found[name] = separator.join(filter(None, (value, found.get(name, ""))))

    put_first("LD_PRELOAD", driver, ":")
    put_first("LD_AUDIT", str(libraries / AUDIT), ":")
    put_first("LD_LIBRARY_PATH", str(libraries), ":")
    put_first("PYTHONPATH", str(Path(start.__file__).parent), ":")
    found |= {"WSEMU_SERVER": str(server), "WSEMU_KEPT_PTX": str(kept), "TRITON_LIBCUDA_PATH": str(libraries)}
    found.setdefault("TRITON_CACHE_DIR", str(kept / "triton"))
    found |= {"CUPY_CACHE_DIR": str(kept / "cupy"), "CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": str(kept)}
    found |= {"WSEMU_CACHE": str(cache.folder() or kept), "DG_JIT_DUMP_PTX": "1"}
    return found


@contextlib.contextmanager
def _exiting_by_signals() -> Iterator[None]:
    """Let signals that end this process raise SystemExit, so that the program ends as well, and nothing is left."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    ending = [one for one in (signal.SIGTERM, signal.SIGHUP) if is_main and signal.getsignal(one) is signal.SIG_DFL]
    for one in ending:
        signal.signal(one, leave)
    try:
        yield
    finally:
        for one in ending:
            signal.signal(one, signal.SIG_DFL)


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="wsemu-"))  # accessible only to this user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(listening: socket.socket, program: subprocess.Popen[bytes], kept: Path, watch: Watch) -> None:
    """Serve processes until the program and its child processes have ended."""
    idle = 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        try:
            while True:
                ready = selector.select(TICK)
                for key, _ in ready:
                    _serve_one(selector, listening, key, kept, watch)
                if ready or program.poll() is None:  # no system call for each message
                    idle = 0.0
                    continue
                idle += TICK
                if len(selector.get_map()) == 1 or idle >= LINGER:
                    return
        finally:
            for key in [*selector.get_map().values()]:
                if isinstance(key.data, Connection):
                    key.data.close()


def _serve_one(
    selector: selectors.BaseSelector, listening: socket.socket, key: selectors.SelectorKey, kept: Path, watch: Watch
) -> None:
    if key.fileobj is listening:
        stream, _ = listening.accept()
        selector.register(stream, selectors.EVENT_READ, Connection(stream, Session(kept, watch)))
        return
    connection: Connection = key.data
    if not connection.receive():
        selector.unregister(connection.stream)
        connection.close()


def _end(program: subprocess.Popen[bytes]) -> None:
    """End a program that is still running: request the end, then force it."""
    if program.poll() is not None:
        return
    program.send_signal(signal.SIGTERM)
    try:
        program.wait(GRACE)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
