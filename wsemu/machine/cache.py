"""Cache of the compiled VM: a file of object code for each of its parts, in the user's cache folder.

A file is named after its part and a hash of everything on which the code depends: the text of every module from which
the part is compiled, the compiler's version, and the CPU.  The imports of the modules determine these modules.  No file
is stored in the package's folder: it would remain there after an uninstallation, and hide the next installation.

The text is that of the imported modules: a process whose files changed after the import neither computes a key nor
compiles a part (`require_imported_text`).

A file contains its own name, the key and a digest of its contents, which are compared before it is loaded.  No file is
read from a folder to which other users may write (`private_folder`).
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import os
import re
import struct
import sys
import time
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.machine.checked import CHECKED
from wsemu.machine.parts import ALL_PARTS, PARTS, roots
from wsemu.machine.private_folder import find_problem, is_trusted
from wsemu.model import IMPORTED_AT, IMPORTED_STATES, file_state
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wsemu.machine.lowering import Part

PACKAGE = __name__.partition(".")[0]
HOME = Path(__file__).parents[__name__.count(".")]
"""the folder that contains the package"""
KEPT = 8
"""maximum number of files of each part, with those of other versions and CPUs: the most recently used ones stay"""
ABANDONED = 3600.0
"""seconds after which the writer of a half-written file is assumed to be dead"""
SETTLED = 2_000_000_000
"""nanoseconds after which a rewritten file is sure to get a different modification time"""
MAGIC = b"wsemu object code 5\n"
BLOCK_ROOTS = tuple(f"{PACKAGE}.machine.{name}" for name in ("parts", "lowering", "tier.block"))
"""the modules that blocks are compiled from, and those that compile them"""
Sources = dict[str, bytes]
"""source text of each module by name"""
_IMPORT = re.compile(r"^(?:from[ ]+([\w.]+)[ ]+import[ ]+(\((?:[^)#]|#.*)*\)|.*)|import[ ]+(.*))$", re.MULTILINE)


# -- what the VM is compiled from -------------------------------------------------------------------------------------


def sources(part: str, home: Path = HOME) -> Sources:
    """Return the modules of the package in `home` that a part of the compiled VM depends on."""
    return _Package(home).closure(roots(part))


def all_sources(home: Path = HOME) -> Sources:
    """Return the modules that any part depends on."""
    return _Package(home).closure(root for part in PARTS for root in roots(part))


class _Package:
    """The modules of the package, each read once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._modules: dict[str, tuple[bytes, list[str]]] = {}

    def closure(self, names: Iterable[str]) -> Sources:
        """Return the named modules and all modules of the package that they import, directly or not."""
        found: Sources = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in found:
                found[name], imported = self._module(name)
                pending += imported
        return dict(sorted(found.items()))

    def _module(self, name: str) -> tuple[bytes, list[str]]:
        if name not in self._modules:
            text = module_file(name, self._home).read_bytes()
            self._modules[name] = text, list(_imported_modules(text.decode(), self._home))
        return self._modules[name]


def module_file(module: str, home: Path = HOME) -> Path:
    """Return the file of a module of the package in `home`."""
    path = home.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _imported_modules(text: str, home: Path) -> Iterator[str]:
    """Yield the package's modules that a module imports when it is loaded, and the packages that contain them.

    Imports inside functions and imports only for types are indented: the imported names are not compiled.
    """
    for origin, names, modules in _IMPORT.findall(text):
        listed = [part.split()[0] for part in re.sub(r"#.*|[()]", "", names or modules).split(",") if part.strip()]
        if origin:
            folder = home.joinpath(*origin.split("."))
            inside = [f"{origin}.{name}" for name in listed] if _ours(origin) and folder.is_dir() else []
            listed = [origin, *(name for name in inside if module_file(name, home).exists())]
        for parts in (name.split(".") for name in listed if _ours(name)):
            yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))


def _ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def key_of(part: str, modules: Sources) -> str:
    """Return the hash of a part's name, its modules, the compiler and the CPU."""
    import hashlib  # imported here: usually the keys come from the note

    digest = hashlib.sha256(MAGIC)
    fields = [part.encode(), *_surroundings()]
    for field in (*fields, *(text for name, module in modules.items() for text in (name.encode(), _digest(module)))):
        digest.update(struct.pack("<Q", len(field)) + field)
    return digest.hexdigest()[:32]


@functools.lru_cache(maxsize=64)
def _digest(module: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(module).digest()


@functools.cache
def _surroundings() -> tuple[bytes, ...]:
    import llvmlite
    import llvmlite.binding as llvm

    machine = (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    compiler = (llvmlite.__version__, sys.implementation.cache_tag or "")
    build = ("checked",) if CHECKED else ()
    return tuple(text.encode() for text in (*compiler, *machine, *build))


def current_keys() -> dict[str, str]:
    """Return part -> the key of its modules as they are now."""
    package = _Package(HOME)
    return {part: key_of(part, package.closure(roots(part))) for part in ALL_PARTS}


@functools.cache
def keys() -> dict[str, str]:
    """Return part -> the key of its modules, as this process imported them.

    Reading and hashing all modules takes as long as a launch, so a note keeps the keys, with the state of each file.
    Raise UsageError if a module's file changed after the import.
    """
    note = _note()
    if note is None:
        found = current_keys()
        require_imported_text()
        return found
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        files, found = _parse_note(note.read_text(encoding="utf-8"))
        if files == _states(files) and {*found} == {*ALL_PARTS}:
            require_imported(files)
            return found
    before = _states(_files_of(_Package(HOME)))
    found = current_keys()
    require_imported_text()
    settled = time.time_ns() - SETTLED
    if before == _states(before) and all(max(times) < settled for _, _, *times in before.values()):
        with contextlib.suppress(OSError):
            _put(note, _as_note(before, found).encode())
            _tidy(note.parent, "keys")
    return found


def _note() -> Path | None:
    """Return the file in which keys are recorded: for this location of the package, this compiler and this CPU."""
    place = folder()
    return place / f"vm-keys-{binascii.crc32(_here().encode()):08x}.bin" if place else None


def _as_note(files: dict[str, list[int]], found: dict[str, str]) -> str:
    """Return the text of the note: the location that it is valid for, a line for each file, a line for each key.  It is
    not JSON, which takes longer to load than the note saves."""
    states = (f"file {' '.join(map(str, state))} {path}" for path, state in files.items())
    return "\n".join([_here(), *states, *(f"key {key} {part}" for part, key in found.items())])


def _parse_note(text: str) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Return the files and the keys of a note.  Raise ValueError if the text is not a note, or is the note of another
    folder."""
    lines = text.split("\n")
    if lines[0] != _here():
        raise ValueError("of another place")
    files, found = {}, {}
    for line in lines[1:]:
        kind, rest = line.split(" ", 1)
        if kind == "file":
            *state, path = rest.split(" ", 4)
            files[path] = [int(number) for number in state]
        else:
            key, part = rest.split(" ", 1)
            found[part] = key
    return files, found


@functools.cache
def _here() -> str:
    """Return the location of the package, the compiler and the CPU, on one line.  The compiler is left out if possible:
    it takes longer to load than a small launch."""
    cpu, compiler = _cpu(), PathFinder.find_spec("llvmlite")
    if not cpu or compiler is None or compiler.origin is None:
        return key_of(str(HOME), {})
    version = os.path.join(os.path.dirname(compiler.origin), "_version.py")
    return repr((MAGIC, str(HOME), sys.implementation.cache_tag, cpu, _states([version]), CHECKED))


def _cpu() -> bytes:
    """Return Linux's description of the first processor: its model and features; empty on other systems."""
    try:
        with open("/proc/cpuinfo", "rb") as stream:
            text = stream.read(1 << 14)
    except OSError:
        return b""
    first = text.partition(b"\n\n")[0]
    wanted = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags", b"CPU ", b"Features")
    return b"\n".join(line for line in first.splitlines() if line.startswith(wanted))


def _files_of(package: _Package) -> list[str]:
    """Return the files of all modules that parts are compiled from, and the folders that contain these files."""
    names = {name for part in PARTS for name in package.closure(roots(part))}
    files = {module_file(name) for name in names}
    return sorted(str(path) for path in files | {file.parent for file in files})


def _states(paths: Iterable[str]) -> dict[str, list[int]]:
    """Return the state of each file or folder."""
    return {path: file_state(path) for path in paths}


def require_imported_text() -> None:
    """Raise UsageError if a file from which parts or blocks are compiled changed after this process imported it.

    A part that is compiled from such files mixes two versions, and its key belongs to neither.
    """
    require_imported(_compiled_files())


def require_imported(paths: Iterable[str]) -> None:
    """Raise UsageError if one of these files was written, replaced or removed after this process imported it."""
    for path in paths:
        try:
            state = file_state(path)
        except FileNotFoundError:
            state = []
        # without the time of the last change of the status: a link to the file, from another environment, changes it
        if IMPORTED_STATES.get(path, state)[:3] != state[:3]:
            name = Path(path).relative_to(HOME).as_posix()
            raise UsageError(f"`{name}` changed after this process imported it: start the process again")


@functools.cache
def _compiled_files() -> list[str]:
    """Return the files of all modules from which parts or blocks are compiled."""
    package = _Package(HOME)
    names = {*package.closure(BLOCK_ROOTS), *(name for root in PARTS for name in package.closure(roots(root)))}
    return [str(module_file(name)) for name in names]


# -- where it lies ----------------------------------------------------------------------------------------------------


def folder() -> Path | None:
    """Return the folder that WSEMU_CACHE_DIR names, else the user's cache folder; None if the user has none, or if
    other users may write to the folder."""
    place = _chosen_folder()
    return None if place is None or find_problem(place) else place


def problem() -> str:
    """Return the reason why machine code cannot be kept in a folder; empty if it can be."""
    place = _chosen_folder()
    return "this user has no cache folder" if place is None else find_problem(place)


def _chosen_folder() -> Path | None:
    chosen = os.environ.get("WSEMU_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    found = platformdirs.user_cache_path("wsemu", appauthor=False)
    return found if found.is_absolute() else None


def path(part: str) -> Path | None:
    """Return the file for a part of this version; None without a folder."""
    place = folder()
    return place / f"vm-{part}-{keys()[part]}.bin" if place else None


def cached_files() -> dict[str, Path]:
    """Return part -> its file, for each part that the cache has."""
    return {part: file for part in PARTS if (file := path(part)) and read(part)}


def read(part: str) -> Part | None:
    """Return a compiled part; None if its file is missing, torn or made from other sources."""
    file = path(part)
    if file is None:
        return None
    try:
        found = unpack_part(part, _read(file))
    except OSError:
        return None
    if found:
        with contextlib.suppress(OSError):
            os.utime(file)  # was used
    return found


def _read(file: Path) -> bytes:
    """Read a file of machine code; return no bytes if other users may have written the file, or if it is too large."""
    with file.open("rb") as stream:
        state = os.fstat(stream.fileno())
        return stream.read() if is_trusted(state) and state.st_size <= BLOCK_BYTES else b""


def write(part: str, made: Part) -> bool:
    """Write a part's file as a whole, and remove the oldest files beyond KEPT; False if the file cannot be written."""
    file = path(part)
    if file is None:
        return False
    try:
        _put(file, pack_part(part, made))
    except OSError:
        return False
    _tidy(file.parent, part)
    return True


def _put(file: Path, data: bytes) -> None:
    """Write a file as a whole; raise OSError if that fails."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix="vm-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _tidy(place: Path, part: str) -> None:
    """Remove files that no process will request: files of a part beyond KEPT, and half-written ones of a process that
    died."""
    for pattern, most, age in ((f"vm-{part}-*.bin", KEPT, 0.0), ("vm-*.tmp", 0, ABANDONED)):
        with contextlib.suppress(OSError):
            dated = sorted(((file.stat().st_mtime, file) for file in place.glob(pattern)), reverse=True)
            for modified, file in dated[most:]:
                if time.time() - modified >= age:
                    file.unlink()


# -- blocks of programs ------------------------------------------------------------------------------------------------

MOST_BLOCKS, BLOCK_BYTES = 256, 64 << 20
"""maximum number of kept blocks of programs, and of their bytes; the most recently used blocks stay"""


@functools.cache
def _blocks_key() -> bytes:
    """Return the key of the modules that blocks are compiled from, as this process imported them."""
    key = key_of("block", _Package(HOME).closure(BLOCK_ROOTS)).encode()
    require_imported_text()
    return key


def read_block(symbol: str) -> Part | None:
    """Return a compiled block; None if its file is missing, torn or of another version."""
    place = folder()
    try:
        found = unpack_file(symbol, _blocks_key(), _read(place / f"vm-{symbol}.bin")) if place else None
        if found and place:
            os.utime(place / f"vm-{symbol}.bin")  # was used
    except OSError:
        return None
    return found


def kept_blocks() -> dict[Path, os.stat_result]:
    """Return the files of all kept blocks, including those of other versions, with the status of each file."""
    return _kept_files("vm-block_*.bin")


def _kept_files(pattern: str) -> dict[Path, os.stat_result]:
    """Return the files of the cache whose names match a pattern, with the status of each file."""
    place, found = folder(), {}
    for file in place.glob(pattern) if place else ():
        with contextlib.suppress(OSError):  # removed by another process
            found[file] = file.stat()
    return found


def write_block(symbol: str, made: Part) -> None:
    """Write a block's file as a whole, if possible, and remove the oldest blocks beyond the limits."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        _put(place / f"vm-{symbol}.bin", pack_file(symbol, _blocks_key(), made))
        _remove_oldest("vm-block_*.bin", MOST_BLOCKS, BLOCK_BYTES)


def _remove_oldest(pattern: str, files: int, size: int) -> None:
    """Remove the files of a pattern that were used longest ago, beyond a number of files or bytes, or raise OSError."""
    for number, (file, state) in enumerate(sorted(_kept_files(pattern).items(), key=lambda one: -one[1].st_mtime)):
        size -= state.st_size
        if number and (number >= files or size < 0):
            file.unlink()


# -- compiled programs -------------------------------------------------------------------------------------------------

MAX_PROGRAMS, PROGRAM_BYTES = 64, 64 << 20
"""maximum number of kept files of programs, and of their bytes; the most recently used files stay"""


@functools.cache
def package_state() -> bytes:
    """Return a digest of the names, sizes and times of the package's modules.  Return nothing for a package without
    files, or if a file changed after this process began to import the package."""
    found = sorted(_module_states(str(HOME / PACKAGE)))
    if any(max(times) >= IMPORTED_AT for _, _, *times in found):
        return b""
    files = [(file, size, modified) for file, size, modified, _ in found]
    return sha256_digest(repr((files, sys.version)).encode()) if files else b""


def _module_states(place: str) -> Iterator[tuple[str, int, int, int]]:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                yield entry.path, state.st_size, state.st_mtime_ns, state.st_ctime_ns
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _module_states(entry.path)


def read_program(name: str) -> bytes | None:
    """Return the bytes that `write_program` stored under a name; None without a trusted file of this version."""
    place, state = folder(), package_state()
    if place is None or not state:
        return None
    file = place / f"program-{name}.bin"
    try:
        found = unpack_file(name, state, _read(file))
        if found:
            os.utime(file)  # was used
    except OSError:
        return None
    return found[2] if found else None


def write_program(name: str, data: bytes) -> None:
    """Store the bytes of a compiled program under a name, if possible, and remove the oldest programs beyond the
    limits."""
    place, state = folder(), package_state()
    if place is None or not state:
        return
    with contextlib.suppress(OSError):
        _put(place / f"program-{name}.bin", pack_file(name, state, ("", "", data)))
        _remove_oldest("program-*.bin", MAX_PROGRAMS, PROGRAM_BYTES)


# -- its bytes --------------------------------------------------------------------------------------------------------


def pack_part(part: str, made: Part) -> bytes:
    """Pack a part into the bytes of its file: the part's name, its key, the object code, and a digest of all three."""
    return pack_file(part, keys()[part].encode(), made)


def pack_file(name: str, key: bytes, made: Part) -> bytes:
    """Pack a part into the bytes of a file under a name and a key."""
    symbol, needed, code = made
    fields = (name.encode(), key, symbol.encode(), needed.encode(), code)
    body = MAGIC + b"".join(struct.pack("<Q", len(field)) + field for field in fields)
    return body + sha256_digest(body)


def unpack_part(part: str, data: bytes) -> Part | None:
    """Return the part that `pack_part` packed into these bytes; None if the bytes, the name or the key do not fit."""
    return unpack_file(part, keys()[part].encode(), data)


def unpack_file(name: str, key: bytes, data: bytes) -> Part | None:
    """Return the part that `pack_file` packed into these bytes; None if the bytes, the name or the key do not fit."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(MAGIC) or sha256_digest(body) != digest:
        return None
    fields, at = [], len(MAGIC)
    with contextlib.suppress(struct.error, ValueError):
        while at < len(body):
            (size,) = struct.unpack_from("<Q", body, at)
            fields.append(body[at + 8 : at + 8 + size])
            at += 8 + size
        own_name, own_key, symbol, needed, code = fields
        if (own_name, own_key, at) == (name.encode(), key, len(body)):
            return symbol.decode(), needed.decode(), code
    return None


_DIGEST_BYTES = 32


def sha256_digest(body: bytes) -> bytes:
    """Return the digest of a file's content; `hashlib` takes too long to load for a small launch."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found, no-redef, unused-ignore]
        except ImportError:
            from hashlib import sha256
    made: bytes = sha256(body).digest()
    return made
