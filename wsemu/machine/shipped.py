"""The object code of the VM in a wheel, so that the first launch needs no compiler.

`python -m wsemu.machine.shipped FILE` compiles each part for the baseline of this machine's architecture; `setup.py`
runs it for wheels. A checkout has no such file: its parts are compiled for its own CPU (`cache`). The file is used only
if this package has the modules from which it was compiled, and if the CPU reaches the baseline.
"""

from __future__ import annotations

import functools
import os
import platform
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wsemu.machine import cache
from wsemu.machine.checked import CHECKED
from wsemu.machine.parts import ALL_PARTS, compilation_order, compile_part

if TYPE_CHECKING:
    from wsemu.machine.lowering import Part

FILE = Path(__file__).with_name("shipped.bin")
MAGIC = b"wsemu shipped code 1\n"
MAX_PROCESSES = 8
"""maximum number of processes that compile for a wheel"""
_NUMBER = 12
"""width of a number in the file"""


class Baseline(NamedTuple):
    """A level of an architecture that nearly all CPUs reach."""

    cpu: str
    """name of the baseline in LLVM"""
    flags: frozenset[str]
    """its features by the names that Linux, or on other systems LLVM, uses"""


BASELINES = {
    ("linux", "x86_64"): Baseline("x86-64-v3", frozenset("abm avx2 bmi1 bmi2 f16c fma movbe xsave".split())),
    ("linux", "aarch64"): Baseline("generic", frozenset({"asimd"})),
    ("darwin", "arm64"): Baseline("apple-m1", frozenset()),  # the first CPU of its kind
    ("win32", "AMD64"): Baseline("x86-64-v3", frozenset("lzcnt avx2 bmi bmi2 f16c fma movbe xsave".split())),
}
"""(system, architecture) -> its baseline; `setup.py` has the same list"""


def baseline() -> Baseline | None:
    """Return the baseline of this machine, if its CPU reaches it."""
    found = None if CHECKED else BASELINES.get((sys.platform, platform.machine()))
    return found if found is not None and found.flags <= (_flags() if found.flags else found.flags) else None


def _flags() -> frozenset[str]:
    """Return the features of this CPU."""
    if sys.platform != "linux":
        import llvmlite.binding as llvm

        return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            line = next((line for line in stream if line.startswith(("flags", "Features"))), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


def read(part: str) -> Part | None:
    """Return a part of the VM; None if the package has none for this CPU, or if its modules were edited."""
    shipped = _table_in_use()
    if shipped is None or part not in shipped.places:
        return None
    offset, size = shipped.places[part]
    with FILE.open("rb") as stream:
        stream.seek(offset)
        return cache.unpack_file(part, shipped.key, stream.read(size))


def is_used() -> bool:
    """Return whether the parts of the VM come from the package."""
    return _table_in_use() is not None


class _Shipped(NamedTuple):
    key: bytes
    places: dict[str, tuple[int, int]]
    """part -> offset and size of its file"""


@functools.cache
def _table_in_use() -> _Shipped | None:
    """Return the table of the file, if it fits this package and this CPU."""
    try:
        with FILE.open("rb") as stream:
            if stream.readline() != MAGIC:
                return None
            lines = [line.split() for line in stream.read(int(stream.readline())).decode().splitlines()]
    except (OSError, ValueError):
        return None
    (cpu, key), *rest = lines
    own = baseline()
    modules = [name for name, *places in rest if not places]
    if own is None or own.cpu != cpu or _key(cpu, modules) != key.encode():
        return None
    cache.require_imported(str(cache.module_file(name)) for name in modules)
    return _Shipped(key.encode(), {name: (int(places[0]), int(places[1])) for name, *places in rest if places})


def _key(cpu: str, modules: list[str]) -> bytes | None:
    """Return the digest of the modules that the parts are compiled from."""
    try:
        texts = [cache.module_file(name).read_bytes() for name in modules]
    except OSError:
        return None
    fields = [cpu.encode(), *(one for name, text in zip(modules, texts, strict=True) for one in (name.encode(), text))]
    return cache.sha256_digest(b"".join(struct.pack("<Q", len(field)) + field for field in fields)).hex().encode()


def write(file: Path) -> None:
    """Compile all parts for the baseline and write them to a file."""
    from concurrent.futures import ProcessPoolExecutor  # needed for wheels only

    found = BASELINES[sys.platform, platform.machine()]
    modules = sorted(cache.all_sources())
    key = _key(found.cpu, modules)
    assert key is not None
    names = compilation_order(ALL_PARTS)
    with ProcessPoolExecutor(min(os.cpu_count() or 1, MAX_PROCESSES)) as processes:
        made = processes.map(functools.partial(compile_part, cpu=found.cpu), names)
        packed = {name: cache.pack_file(name, key, part) for name, part in zip(names, made, strict=True)}
    head = f"{found.cpu} {key.decode()}\n" + "".join(f"{name}\n" for name in modules)
    table = _table(head, packed, 0)
    table = _table(head, packed, len(MAGIC) + _NUMBER + 1 + len(table))
    file.write_bytes(MAGIC + f"{len(table):{_NUMBER}}\n".encode() + table + b"".join(packed.values()))


def _table(head: str, packed: dict[str, bytes], offset: int) -> bytes:
    """Return the table of a file, whose size does not depend on the offset of the first part."""
    lines = [head]
    for name, data in packed.items():
        lines.append(f"{name} {offset:{_NUMBER}} {len(data):{_NUMBER}}\n")
        offset += len(data)
    return "".join(lines).encode()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
