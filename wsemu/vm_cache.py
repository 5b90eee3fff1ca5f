"""Where the compiled VM is kept: one file of object code in the user's cache folder.

A file's name is a hash of everything that its code depends on: the text of every module that the VM is compiled from,
the compiler's version, the CPU.  Which modules those are is read off their own imports.  No file lies beside the
package: it would outlive it there, and a folder without modules hides those of the next installation.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import struct
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = __name__.rpartition(".")[0]
HOME = Path(__file__).parents[__name__.count(".")]
"""the folder that the whole package lies in"""
ROOTS = (f"{PACKAGE}.native", f"{PACKAGE}.vm")
"""modules that the VM is compiled from, with all that they import"""
KEPT = 8
"""files of other versions and CPUs stay, those used last, up to so many in all"""
ABANDONED = 3600.0
"""seconds after which a half-written file has lost its writer"""
MAGIC = b"wsemu object code 2\n"
Part = tuple[str, str, bytes]
"""symbol, functions it needs from elsewhere, object code"""
_IMPORT = re.compile(r"^(?:from[ ]+([\w.]+)[ ]+import[ ]+(\((?:[^)#]|#.*)*\)|.*)|import[ ]+(.*))$", re.MULTILINE)


# -- what the VM is compiled from -------------------------------------------------------------------------------------


def sources(home: Path = HOME) -> dict[str, bytes]:
    """Module -> text, of the modules of the package in `home` that the compiled VM depends on."""
    found: dict[str, bytes] = {}
    pending = list(ROOTS)
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = _file(home, name).read_bytes()
            pending += _imported(found[name].decode(), home)
    return dict(sorted(found.items()))


def _file(home: Path, module: str) -> Path:
    path = home.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _imported(text: str, home: Path) -> Iterator[str]:
    """The package's modules that a module imports when it is loaded, and the packages that they lie in.

    Imports inside functions and those for types alone are indented: what they bring does not get compiled.
    """
    for origin, names, modules in _IMPORT.findall(text):
        listed = [part.split()[0] for part in re.sub(r"#.*|[()]", "", names or modules).split(",") if part.strip()]
        if origin:
            folder = home.joinpath(*origin.split("."))
            inside = [f"{origin}.{name}" for name in listed] if _ours(origin) and folder.is_dir() else []
            listed = [origin, *(name for name in inside if _file(home, name).exists())]
        for parts in (name.split(".") for name in listed if _ours(name)):
            yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))


def _ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE.partition(".")[0]


def key_of(modules: dict[str, bytes]) -> str:
    """Hash of the modules, the compiler and the CPU."""
    digest = hashlib.sha256(MAGIC)
    machine = (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    compiler = (version("numba"), version("llvmlite"), sys.implementation.cache_tag or "")
    fields = [text.encode() for text in (*compiler, *machine)]
    for field in (*fields, *(part for name, text in modules.items() for part in (name.encode(), text))):
        digest.update(struct.pack("<Q", len(field)) + field)
    return digest.hexdigest()[:32]


@functools.cache
def key() -> str:
    """The key of the modules as they were when this process first asked."""
    return key_of(sources())


# -- where it lies ----------------------------------------------------------------------------------------------------


def folder() -> Path | None:
    """The folder that WSEMU_CACHE_DIR names, else the user's cache folder; None for a user without one."""
    chosen = os.environ.get("WSEMU_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    found = platformdirs.user_cache_path("wsemu", appauthor=False)
    return found if found.is_absolute() else None


def path() -> Path | None:
    """The file that the compiled VM of this version is kept in."""
    place = folder()
    return place / f"vm-{key()}.bin" if place else None


def read() -> dict[str, Part] | None:
    """The compiled parts; None if no file has them, or one that is torn or made of something else."""
    file = path()
    if file is None:
        return None
    try:
        parts = unpacked(file.read_bytes())
    except OSError:
        return None
    if parts:
        with contextlib.suppress(OSError):
            os.utime(file)  # was used
    return parts or None


def write(parts: dict[str, Part]) -> bool:
    """Put the file in place as a whole, and remove the oldest beyond KEPT; False where that is not allowed."""
    file = path()
    if file is None:
        return False
    temporary = ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix="vm-", suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(packed(parts))
        os.replace(temporary, file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    _tidy(file.parent)
    return True


def _tidy(place: Path) -> None:
    """Remove what no process will ask for: files beyond KEPT, and what a process that died left half-written."""
    for pattern, kept, age in (("vm-*.bin", KEPT, 0.0), ("vm-*.tmp", 0, ABANDONED)):
        with contextlib.suppress(OSError):
            dated = sorted(((file.stat().st_mtime, file) for file in place.glob(pattern)), reverse=True)
            for modified, file in dated[kept:]:
                if time.time() - modified >= age:
                    file.unlink()


# -- its bytes --------------------------------------------------------------------------------------------------------


def packed(parts: dict[str, Part]) -> bytes:
    """The bytes of a file: the key, the parts, and a hash of both."""
    fields = [key().encode()]
    for name, (symbol, needed, code) in parts.items():
        fields += [name.encode(), symbol.encode(), needed.encode(), code]
    body = MAGIC + b"".join(struct.pack("<Q", len(field)) + field for field in fields)
    return body + hashlib.sha256(body).digest()


def unpacked(data: bytes) -> dict[str, Part]:
    """The parts that `packed` made bytes of; none if it did not, or with another key."""
    body, digest = data[:-32], data[-32:]
    if not data.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        return {}
    fields, at = [], len(MAGIC)
    while at < len(body):
        (size,) = struct.unpack_from("<Q", body, at)
        fields.append(body[at + 8 : at + 8 + size])
        at += 8 + size
    if fields[0] != key().encode():
        return {}
    quads = zip(*(iter(fields[1:]),) * 4, strict=True)
    return {name.decode(): (symbol.decode(), needed.decode(), code) for name, symbol, needed, code in quads}
