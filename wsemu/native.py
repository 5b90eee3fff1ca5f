"""The compiled VM, from its cache or from the compiler.

The cache (`vm_cache`) holds object code by itself, so that a start needs neither Numba nor the bitcode that Numba would
keep beside it: a tenth of a second and some 40 MB.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from wsemu import vm_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.vm_cache import Part

COMPILING = "wsemu: compiling the VM, once per installation (about 8 s)"
SECOND = ("access_entry", "shadow_entry", "run")
"""the parts that a second process compiles"""
CANNOT_KEEP = "wsemu: the compiled VM cannot be kept: set WSEMU_CACHE_DIR to a folder that can be written"


def _object_code() -> dict[str, Part]:
    """The compiled parts, from the cache, else made and put there."""
    parts = vm_cache.read()
    if parts is not None:
        return parts
    print(COMPILING, file=sys.stderr, flush=True)
    parts = _compile()
    edited = vm_cache.key_of(vm_cache.sources()) != vm_cache.key()  # meanwhile: who knows what was compiled
    if not edited and not vm_cache.write(parts):
        place = vm_cache.folder() or "this user has no cache folder"
        print(f"{CANNOT_KEEP} ({place})", file=sys.stderr, flush=True)
    return parts


def _compile() -> dict[str, Part]:
    """All parts; where there are two cores, some of them in a second process meanwhile."""
    helper = None
    if (os.cpu_count() or 1) > 1 and sys.executable:
        paths = [str(vm_cache.HOME), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with contextlib.suppress(OSError):
            helper = subprocess.Popen(
                [sys.executable, "-P", "-m", __spec__.name, vm_cache.key()],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
    from wsemu import vm  # imports Numba

    parts = {name: vm.compile_part(name) for name in vm.PARTS if name not in SECOND}
    made = vm_cache.unpacked(helper.communicate()[0]) if helper else {}
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

    if sys.argv[1:] == [vm_cache.key()]:  # the same sources and compiler as the process that asks
        sys.stdout.buffer.write(vm_cache.packed({name: vm.compile_part(name) for name in SECOND}))
