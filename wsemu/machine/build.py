"""Load the compiled VM from the package, the cache or the compiler.

A part (`parts`) is loaded when a launch first needs it.  The cache (`cache`) contains object code, so a start needs no
compiler.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from collections import deque
from typing import IO, TYPE_CHECKING

import numpy as np

from wsemu.machine import cache, object_file, shipped
from wsemu.machine.arithmetic.families import FAMILIES as FAMILY_NAMES
from wsemu.machine.arithmetic.families import members
from wsemu.machine.parts import ENTRIES, PARTS, compilation_order, compile_part, part_for_width
from wsemu.model.isa import N_ALU, OPCODE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from llvmlite.binding import ExecutionEngine

    from wsemu.machine.lowering import Part

COMPILING = "wsemu: compiling parts of the VM, each once per installation"
CANNOT_KEEP = "wsemu: the compiled VM cannot be kept: set WSEMU_CACHE_DIR to a folder that can be written"
TICK = 0.1
"""seconds between two updates of the progress line"""


# -- the parts ---------------------------------------------------------------------------------------------------------


def _object_code(names: Collection[str]) -> dict[str, Part]:
    """Return parts from the package or the cache; compile the others, and store them in the cache."""
    found = {name: shipped.read(name) for name in names}
    found |= {name: cache.read(name) for name, part in found.items() if part is None}
    made = _compiled_now([name for name in compilation_order(names) if not found[name]])
    return {name: part for name, part in (found | made).items() if part}


def _compiled_now(names: list[str]) -> dict[str, Part]:
    """Compile parts, store them in the cache, and return them.

    Raise UsageError if they are not compiled from the modules that this process imported.
    """
    if not names:
        return {}
    cache.require_imported_text()
    with _Progress(len(names)) as progress:
        made = _compile(names, progress.step)
    cache.require_imported_text()
    if not all(cache.write(name, part) for name, part in made.items()):
        place = cache.folder() or cache.problem()
        print(f"{CANNOT_KEEP} ({place})", file=sys.stderr, flush=True)
    return made


def _compile(names: list[str], done: Callable[[], None]) -> dict[str, Part]:
    """Compile parts; with two cores, a second process takes parts from the same list."""
    left = deque(names)
    made: dict[str, Part] = {}
    with contextlib.ExitStack() as stack:
        if len(names) > 1 and (os.cpu_count() or 1) > 1 and sys.executable:
            stack.enter_context(_second_process(left, made, done))
        with contextlib.suppress(IndexError):  # the list is empty
            while True:
                _make(left.popleft(), made, done)
    for name in names:
        if name not in made:  # the second process failed to compile it
            _make(name, made, done)
    return made


def _make(name: str, made: dict[str, Part], done: Callable[[], None]) -> None:
    made[name] = compile_part(name)
    done()


@contextlib.contextmanager
def _second_process(left: deque[str], made: dict[str, Part], done: Callable[[], None]) -> Iterator[None]:
    """Let a second process compile parts from `left` inside the block; at its end, these parts are in `made`."""
    import subprocess

    paths = [str(cache.HOME), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-P", "-m", __spec__.name]
    try:
        helper = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        yield
        return
    with helper:
        assert helper.stdin is not None
        assert helper.stdout is not None
        arguments = (helper.stdin, helper.stdout, left, made, done)
        feeder = threading.Thread(target=_feed, args=arguments, daemon=True)
        feeder.start()
        try:
            yield
            feeder.join()
        except BaseException:  # interrupted, or no compiler: do not wait for it
            helper.kill()
            raise
        finally:
            feeder.join()


def _feed(to: IO[bytes], from_: IO[bytes], left: deque[str], made: dict[str, Part], done: Callable[[], None]) -> None:
    """Send names of parts to the second process until the list is empty or the process fails."""
    with contextlib.suppress(OSError, ValueError, IndexError), to:
        while from_.readline() == READY:
            name = left.popleft()
            to.write(f"{name} {cache.keys()[name]}\n".encode())
            to.flush()
            part = cache.unpack_part(name, from_.read(int(from_.readline() or b"0")))
            if part is None:
                return
            made[name] = part
            done()


READY = b"ready\n"


def _serve(from_: IO[bytes], to: IO[bytes]) -> None:
    """Run the second process: compile each requested part, if sources and compiler are the same."""
    while True:
        to.write(READY)
        to.flush()
        name, _, key = from_.readline().decode().strip().partition(" ")
        if not name or cache.keys().get(name) != key:
            return
        data = cache.pack_part(name, compile_part(name))
        to.write(b"%d\n" % len(data) + data)


class _Progress:
    """Reports on standard error that parts are compiled; a terminal also shows the number of finished parts and the
    time."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._start = time.perf_counter()
        self._stop = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            self._show()
            self._clock.start()
        else:
            print(COMPILING, file=sys.stderr, flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        _spent[0] += time.perf_counter() - self._start
        if self._clock.is_alive():
            self._stop.set()
            self._clock.join()
            self._show()
            print(file=sys.stderr, flush=True)

    def step(self) -> None:
        self._done += 1

    def _tick(self) -> None:
        while not self._stop.wait(TICK):
            self._show()

    def _show(self) -> None:
        seconds = time.perf_counter() - self._start
        text = f"{COMPILING}: {self._done} of {self._total} parts, {seconds:.1f} s"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


_spent = [0.0]


def seconds_spent() -> float:
    """Return the seconds that this process has spent on compiling."""
    return _spent[0]


# -- their addresses ---------------------------------------------------------------------------------------------------

_engines: list[ExecutionEngine] = []
"""all engines, which are kept because they own the code"""
_loaded: dict[str, int] = {}
_loading = threading.RLock()
FAMILIES = np.zeros(N_ALU, np.int64)
"""address of the family of each arithmetic operation outside the core"""


def load_parts(names: Collection[str] = tuple(PARTS), width: int = 0) -> dict[str, int]:
    """Load parts, and return the address of each loaded part that is a field of a machine.

    `width` is an index of `cell_bits.WIDTHS`.
    """
    with _loading:
        missing = [name for name in (part_for_width(name, width) for name in names) if name not in _loaded]
        for name, part in (_object_code(missing) if missing else {}).items():
            _load(name, part)
        entries = ((name, _loaded.get(part_for_width(name, width))) for name in ENTRIES if name != "run")
        return {name: address for name, address in entries if address is not None}


def address(name: str, width: int = 0) -> int:
    """Return the address of a part for a machine of a width."""
    return _loaded[part_for_width(name, width)]


def keep_all() -> None:
    """Compile every part that is in neither the package nor the cache, so that no launch waits for the compiler."""
    if shipped.is_used():
        return
    files = [cache.path(part) for part in PARTS]
    if not all(file and file.is_file() for file in files):
        load_parts()


@functools.cache
def entry(width: int = 0) -> Callable[[int], int]:
    """Return the function that runs the machine at a host address and returns why it stopped; it releases the GIL."""
    load_parts(("run",), width)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(_loaded[part_for_width("run", width)])


def from_outside(name: str, function: Callable[..., int]) -> int:
    """Compile a function that is not a part of the VM, for this process only, and return its address."""
    from wsemu.machine.lowering import compile_function

    with _loading:
        if name not in _loaded:
            _load(name, compile_function(function, name, rare=True))
        return _loaded[name]


def load_extra_part(name: str, part: Part) -> int:
    """Load code that is compiled like a part of the VM, and return its address."""
    with _loading:
        if name not in _loaded:
            symbol, needed, code = part
            _loaded[name] = object_file.load(code, symbol) or _load_by_llvm(symbol, needed, code)
        return _loaded[name]


def _load(name: str, part: Part) -> None:
    """Load a part into this process."""
    load_extra_part(name, part)
    for operation in members(name) if name in FAMILY_NAMES else ():
        FAMILIES[OPCODE[operation]] = _loaded[name]


def _load_by_llvm(symbol: str, needed: str, code: bytes) -> int:
    """Return the address of a part's exports, from LLVM's own loader."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine(jit=True)
    )
    _resolve(needed.split())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address: int = engine.get_function_address(symbol)
    return address


def _resolve(names: list[str]) -> None:
    """Define the address of every function that the code references; one missing address would leave all undefined."""
    import llvmlite.binding as llvm

    stop = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
    for name in names:
        if llvm.address_of_symbol(name) is None:
            llvm.add_symbol(name, stop)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
