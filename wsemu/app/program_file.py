"""Determine the kind of a program's file."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.app.program_kind import uses_device
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COMPILED = (".cuh", ".cubin", ".fatbin")
"""suffixes of headers and machine code, which cannot be checked"""
KERNELS = (".ptx", ".cu")
"""suffixes of files of kernels, which wsemu launches itself"""


LAUNCH_OPTIONS = ("entry", "grid", "block", "arg", "dynamic_shared", "cluster", "set", "link", "nvcc", "out", "like")
"""options of a launch, only for files of kernels"""
DATA_OPTIONS = tuple(f"--{name.replace('_', '-')}" for name in LAUNCH_OPTIONS[:-2])
"""launch options, in the form of the command line"""


_MAIN = re.compile(r"^[ \t]*(?:extern[ \t]+\"C\"[ \t]+)?(?:int|void|auto)\s+main\s*\(", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(r"\bcuda\b(?s:.*)\bjit\b|\bload_ptx\b")
_LARGEST = 16 << 20
"""maximum size in bytes of a source that is searched"""
_MOST_MODULES = 1000
"""maximum number of modules that are searched for the kernels of a program; beyond it, a program is assumed to have
kernels"""


class Target(NamedTuple):
    """A file to run."""

    file: Path
    arguments: Sequence[str] = ()
    """arguments of the program, or the words of a launch"""
    is_ptx: bool = False
    """true if the file is PTX, or CUDA C++ to be compiled to PTX: whatever its name, it is launched and never run as
    Python"""
    flags: tuple[str, ...] = ()
    """options of `nvcc`, for CUDA C++ that is compiled to a program"""


def is_ptx(file: Path) -> bool:
    """Return whether a file name is that of PTX or CUDA C++, whose kernels are launched instead of running the file."""
    return file.suffix.lower() in KERNELS


def has_main(file: Path) -> bool:
    """Return whether a file is CUDA C++ with a host program: it defines `main`."""
    if file.suffix.lower() != ".cu":
        return False
    try:
        with file.open("rb") as stream:
            text = stream.read(_LARGEST).decode(errors="replace")
    except OSError:
        return False
    return _MAIN.search(_COMMENT.sub(" ", text)) is not None


def is_launch(file: Path) -> bool:
    """Return whether a file is data that describes launches: PTX, CUDA C++, a launch file, or a folder of these."""
    return is_ptx(file) or file.suffix.lower() in (".json", ".toml") or file.is_dir()


def has_kernels(file: str) -> bool:
    """Return whether a file can contain checked launches.  A program can if it, or a module next to it that it imports
    directly or indirectly, names a kernel or imports a package that launches through the driver."""
    if not file.endswith(".py"):
        return True
    found, rest = {Path(file)}, [Path(file)]
    while rest and len(found) <= _MOST_MODULES:
        module = rest.pop()
        try:
            text = module.read_bytes()[:_LARGEST].decode(errors="replace")
        except (OSError, ValueError):  # `wsemu check` reports the error
            return True
        if _KERNEL.search(text) is not None or uses_device(module):
            return True
        imported = _imported_files(text, module.parent, Path(file).parent) - found
        found |= imported
        rest += imported
    return bool(rest)


def _imported_files(text: str, folder: Path, root: Path) -> set[Path]:
    """Return the files of the modules that a source imports, if they are below the folder of the program (`root`) or,
    for relative imports, next to the source (in `folder`)."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    files = set[Path]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = folder.joinpath(*[".."] * (node.level - 1)) if node.level else root
            names = [alias.name for alias in node.names]
            named = [(start, f"{node.module}.{name}" if node.module else name) for name in names]
        else:
            continue
        for start, name in named:
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                place = start.joinpath(*parts[:end])
                files |= {path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()}
    return files


def refusal(file: Path, *, as_ptx: bool = False) -> str:
    """Return the reason why a file cannot be run; empty if it can."""
    if not file.is_file():
        there = "is no ordinary file" if file.exists() else "does not exist"
        kind = "is a folder, not a program" if file.is_dir() else there
        return (
            f"`{file}` {kind}: give a Python file that launches kernels, CUDA C++ (.cu), PTX, an executable or a script"
        )
    if file.suffix.lower() in COMPILED and not as_ptx:
        return f"`{file}` is nothing that wsemu runs: give a Python file, CUDA C++ (.cu) or PTX (.ptx)"
    return ""


@contextlib.contextmanager
def run_as_main(file: Path, arguments: Sequence[str], module: str = "") -> Iterator[None]:
    """Set `sys.argv` and `sys.path` as `python file arguments...` or `python -m module` does."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(file))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path


def read_source(path: Path) -> tuple[str, str]:
    """Return the text of a Python file, with its line ends, and its encoding."""
    data = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding), encoding
