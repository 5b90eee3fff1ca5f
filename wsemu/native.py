"""The compiled VM, from its cache or from the compiler.

The cache holds object code by itself, so that a start needs neither Numba nor the bitcode that Numba would keep
beside it: a tenth of
a second and some 40 MB.  Its name is a hash of everything that the code depends on: the VM's source, the compiler's
version, the CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import struct
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = (
    "bytecode",
    "operations",
    "layout",
    "machine",
    "memory",
    "read_only",
    "costs",
    "divergence",
    "named_barrier",
    "cells",
    "clocks",
    "lane_clocks",
    "shadow",
    "lane_order",
    "warp_operations",
    "codes",
    "vm",
    "native",
)
"""modules whose text ends up in the compiled VM"""
COMPILING = "wsemu: compiling the VM, once per installation (about 8 s)"
SECOND = ("access_entry", "shadow_entry", "run")
"""the parts that a second process compiles"""
MAGIC = b"wsemu object code 1\n"
Part = tuple[str, str, bytes]
"""symbol, functions it needs from elsewhere, object code"""


def _key() -> str:
    """Hash of the sources, the compiler and the CPU."""
    digest = hashlib.sha256(MAGIC)
    folder = Path(__file__).parent
    for name in SOURCES:
        digest.update((folder / f"{name}.py").read_bytes())
    machine = (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    for text in (version("numba"), version("llvmlite"), sys.implementation.cache_tag or "", *machine):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def folders() -> list[Path]:
    """Where the cache may lie, the preferred place first: WSEMU_CACHE_DIR, beside the source, the user's cache."""
    chosen = os.environ.get("WSEMU_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    user = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else os.environ.get("XDG_CACHE_HOME")
    fallback = Path(user) if user else Path.home() / ".cache"
    return [Path(__file__).parent / "__pycache__", fallback / "wsemu"]


def _read(path: Path) -> dict[str, Part] | None:
    """The parts in a cache file; None if it is not there, torn or not ours."""
    try:
        return _unpacked(path.read_bytes()) or None
    except OSError:
        return None


def _unpacked(data: bytes) -> dict[str, Part]:
    """The parts that `_packed` made bytes of; none if it did not."""
    body, digest = data[:-32], data[-32:]
    if not data.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        return {}
    parts, at = {}, len(MAGIC)
    while at < len(body):
        fields = []
        for _ in range(4):
            (size,) = struct.unpack_from("<Q", body, at)
            fields.append(body[at + 8 : at + 8 + size])
            at += 8 + size
        parts[fields[0].decode()] = (fields[1].decode(), fields[2].decode(), fields[3])
    return parts


def _packed(parts: dict[str, Part]) -> bytes:
    fields = (
        field
        for name, (symbol, needed, code) in parts.items()
        for field in (name.encode(), symbol.encode(), needed.encode(), code)
    )
    body = MAGIC + b"".join(struct.pack("<Q", len(f)) + f for f in fields)
    return body + hashlib.sha256(body).digest()


def _write(path: Path, parts: dict[str, Part]) -> bool:
    """Put a cache file in place as a whole; False where that is not allowed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(_packed(parts))
        os.replace(temporary, path)
    except OSError:
        return False
    return True


def _paths() -> list[Path]:
    """The files that may hold the compiled VM, the preferred one first."""
    return [folder / f"vm-{_key()}.bin" for folder in folders()]


def cached() -> Path | None:
    """The file that holds the compiled VM, where there is one that is whole."""
    return next((path for path in _paths() if _read(path) is not None), None)


def _object_code() -> dict[str, Part]:
    """The compiled parts, from the first cache that has them, else made and put into the first that takes them."""
    paths = _paths()
    for path in paths:
        parts = _read(path)
        if parts is not None:
            return parts
    print(COMPILING, file=sys.stderr, flush=True)
    parts = _compile()
    if not any(_write(path, parts) for path in paths):
        print(
            "wsemu: the compiled VM cannot be kept: set WSEMU_CACHE_DIR to a folder that can be written",
            file=sys.stderr,
        )
    return parts


def _compile() -> dict[str, Part]:
    """All parts; where there are two cores, some of them in a second process meanwhile."""
    helper = None
    if (os.cpu_count() or 1) > 1 and sys.executable:
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with contextlib.suppress(OSError):
            helper = subprocess.Popen(
                [sys.executable, "-P", "-m", "wsemu.native", _key()],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
    from wsemu import vm  # imports Numba

    parts = {name: vm.compile_part(name) for name in vm.PARTS if name not in SECOND}
    made = _unpacked(helper.communicate()[0]) if helper else {}
    return parts | {name: made.get(name) or vm.compile_part(name) for name in SECOND}


_engines: list[llvm.ExecutionEngine] = []
"""kept: the code lives as long as they do"""


@functools.cache
def compiled() -> tuple[Callable[[int], int], dict[str, int]]:
    """The VM: an entry that takes the host address of a machine and returns why it stopped (the GIL is released while
    it
    runs), and the addresses of the other parts, which are fields of that machine."""
    parts = _object_code()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    addresses = {}
    for name, (symbol, needed, code) in parts.items():
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
        _resolve(needed.split())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)
        addresses[name] = engine.get_function_address(symbol)
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(addresses.pop("run"))
    return entry, addresses


def _resolve(names: list[str]) -> None:
    """Give every function that the code names an address.

    One missing would leave all of them unset.  Those that only Numba has belong to paths that raise exceptions, which
    this code
    never takes: they end the process.
    """
    stop = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
    for name in names:
        if llvm.address_of_symbol(name) is None:
            llvm.add_symbol(name, stop)


def _target() -> llvm.TargetMachine:
    return llvm.Target.from_default_triple().create_target_machine(jit=True)


if __name__ == "__main__":
    from wsemu import vm

    if sys.argv[1:] == [_key()]:  # the same sources and compiler as the process that asks
        sys.stdout.buffer.write(_packed({name: vm.compile_part(name) for name in SECOND}))
