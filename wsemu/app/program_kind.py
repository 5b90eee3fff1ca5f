"""Distinguish programs that wsemu runs in this process from programs that it runs unmodified, on its driver."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ELF, _SCRIPT = b"\x7fELF", b"#!"
_LARGEST = 4 << 20
"""maximum size in bytes of a Python file that is searched for imports"""
_IMPORT = re.compile(r"(?:^|;)[ \t]*(?:from[ \t]+([\w.]+)|import[ \t]+([^#;\n]+))", re.MULTILINE)
_SPEAKS_OF_CUDA = re.compile(r"\bcuda\b|\bcpp_extension\b")
DRIVER_CLIENTS = ("torch", "triton", "cupy", "cupyx", "cutlass", "cuda.core", "cuda.bindings", "pycuda")
"""packages that launch kernels through CUDA's driver"""
OWN_CLIENTS = ("wsemu", "numba.cuda", "numba_cuda", "numba_cuda_mlir")
"""packages whose programs run in this process"""


def find_command(file: Path, arguments: Sequence[str], module: str = "") -> list[str] | None:
    """Return the command of a program that runs on wsemu's driver; None for a Python program whose kernels wsemu
    compiles itself, and for a missing file."""
    path = _find(file)
    if path is None:
        return None
    start = _read(path, 4)
    if start == _ELF or (start[:2] == _SCRIPT and path.suffix != ".py"):
        return [os.path.abspath(path), *arguments]
    if path.suffix == ".py" and is_client(path):
        return [sys.executable, *(("-m", module) if module else (str(path),)), *arguments]
    return None


def uses_device(path: Path) -> bool:
    """Return whether a Python file is a program for the driver; a file that imports only torch must also mention
    CUDA."""
    text = _read(path, _LARGEST).decode(errors="replace")
    packages = {name.partition(".")[0] for name in _find_imports(text)} & {*DRIVER_CLIENTS, "cuda"}
    return is_client(path) and (packages != {"torch"} or _SPEAKS_OF_CUDA.search(text) is not None)


def _find(file: Path) -> Path | None:
    """Return the file, or the command with this name."""
    if file.is_file():
        return file
    found = shutil.which(str(file)) if len(file.parts) == 1 and not file.exists() else None
    return None if found is None else Path(found)


def is_client(path: Path) -> bool:
    """Return whether a Python file imports a package that launches through the driver, and none of wsemu's own."""
    text = _read(path, _LARGEST).decode(errors="replace")
    names = _find_imports(text)

    def imports(packages: Sequence[str]) -> bool:
        return any(name == package or name.startswith(f"{package}.") for name in names for package in packages)

    own = imports(OWN_CLIENTS) or re.search(r"^[ \t]*from[ \t]+numba[ \t]+import\b.*\bcuda\b", text, re.MULTILINE)
    return imports(DRIVER_CLIENTS) and not own


def _find_imports(text: str) -> list[str]:
    """Return the names of the modules that a Python file imports: `import a, b as c` has two."""
    names = []
    for source, modules in _IMPORT.findall(text):
        names += [source] if source else [words[0] for one in modules.split(",") if (words := one.split())]
    return names


def _read(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(size)
    except OSError:
        return b""
