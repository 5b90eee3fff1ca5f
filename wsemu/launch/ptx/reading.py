"""PTX text as a module of the front end."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import linecache
import os
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.module import make_module
from wsemu.launch.ptx.program_store import open_store
from wsemu.model.errors import KernelError, UsageError
from wsemu.model.input_limits import INPUT_LIMITS
from wsemu.model.own_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.frontend.ptx import Module
    from wsemu.launch.ptx.nvcc import Request


def read(source: str | os.PathLike[str], roots: Sequence[str] = ()) -> Module:
    """Return the module of a PTX text or file.  `roots` are folders in which reports look for the source files that it
    refers to.

    Raise UsageError for a file that cannot be read, and KernelError, with line and column, for text that is not PTX.
    """
    return _read(*_text(source), roots)


def read_cuda(request: Request) -> Module:
    """Return the module for CUDA C++ that `nvcc` compiles.  Raise UsageError if `nvcc` fails."""
    from wsemu.launch.ptx.nvcc import compile_cuda

    text = compile_cuda(request)
    file = f"<ptx of {os.path.basename(request.file)}>"
    _show(file, text)
    return _read(text, file, request.folders)


def _read(text: str, file: str, roots: Sequence[str]) -> Module:
    """Parse a text, or load its tree if that is kept."""
    store = open_store(text)
    tree = store.load("tree") if store is not None else None
    if tree is not None:
        return make_module(tree, text, file, roots)
    from wsemu.frontend.ptx import parse

    try:
        with pausing_collection():
            return parse(text, file, roots)
    except RecursionError:
        raise KernelError(f"`{os.path.basename(file)}` nests blocks too deeply") from None


@contextlib.contextmanager
def pausing_collection() -> Iterator[None]:
    """Pause the garbage collector, which would find nothing to free among the many objects that a compiler creates."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text, and the file name under which it is shown."""
    if isinstance(source, str) and ("\n" in source or ".version" in source):
        file = f"<ptx {hashlib.sha256(source.encode(errors='replace')).hexdigest()[:8]}>"
        _show(file, source)
        return source, file
    if not isinstance(source, (str, os.PathLike)):
        raise UsageError(f"load_ptx got a {type(source).__name__}: give PTX text, or the path of a file")
    path = Path(source)
    data = read_regular(path, INPUT_LIMITS["ptx-bytes"].most)
    if b"\0" in data:
        what = "a cubin or an object file" if data.startswith(b"\x7fELF") else "no text"
        raise UsageError(f"`{path}` is {what}: give PTX text, as `nvcc -ptx` writes it")
    return data.decode(errors="replace"), os.path.abspath(path)


def _show(file: str, text: str) -> None:
    """Let reports find the lines of a text that is in no file."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
