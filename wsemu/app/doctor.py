"""`wsemu doctor`: report wsemu's environment, to find the cause of a problem or to describe it in a bug report."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wsemu import __version__
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

State = Literal["good", "note", "bad"]
"""`bad`: wsemu does not work as it should; `note`: something useful is missing"""
NEEDED = ("numpy", "llvmlite", "platformdirs", "pydantic", "rich", "typer")
WANTED = {
    "numba": "signatures of `jit` and types beyond wsemu's own need it: pip install 'wsemu[numba]'",
    "numba-cuda": "`wsemu crosscheck` and kernels on a GPU need it: pip install 'wsemu[gpu]'",
    "hypothesis": "`wsemu.strategies` and `wsemu fuzz` need it: pip install hypothesis",
    "pytest": "the pytest plugin needs it",
}
UNPACKERS = dict.fromkeys(("zstandard", "lz4"), "PTX in programs of `nvcc` is compressed: pip install 'wsemu[run]'")
CLIENTS = {
    "torch": "docs/triton.md", "triton": "docs/triton.md", "cupy-cuda13x": "docs/cupy.md",
    "cupy-cuda12x": "docs/cupy.md", "cuda-core": "docs/cuda_core.md", "cuda-bindings": "docs/cuda_core.md",
    "nvidia-cutlass-dsl": "docs/cute.md",
}  # fmt: skip
"""packages that launch through the driver, and the page of each"""
CPU_TORCH = "install the CPU wheel: pip install torch --index-url https://download.pytorch.org/whl/cpu"
PATIENCE = 20.0
"""maximum seconds to wait for the GPU's driver"""


class Item(NamedTuple):
    """One line: a thing, its state, and details."""

    state: State
    name: str
    text: str


def examine(program: Path | None = None) -> Iterator[Item]:
    """Yield all items.  The configuration that is examined is the pyproject.toml that applies to `program` or, without
    one, to the working folder."""
    yield Item("good", "wsemu", f"{__version__} in {Path(__file__).parents[1]}")
    yield Item("good", "Python", f"{platform.python_version()} ({sys.implementation.name}), {sys.executable}")
    yield Item("good", "system", f"{platform.platform()}, {os.cpu_count()} processors")
    yield from _packages()
    yield from _clients()
    for look in (_vm, _cache, _blocks, _nvcc, _gpu, lambda: _configuration(program), _terminal):
        yield _run_probe(look)


def _run_probe(look: Callable[[], Item]) -> Item:
    """Run a probe; an exception becomes a bad item."""
    try:
        return look()
    except Exception as error:
        name = getattr(look, "__name__", "").strip("_<>")
        return Item("bad", name, f"{type(error).__name__}: {error}")


def _packages() -> Iterator[Item]:
    for name in (*NEEDED, *WANTED):
        try:
            yield Item("good", name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            state: State = "bad" if name in NEEDED else "note"
            yield Item(state, name, "not installed" + (f": {WANTED[name]}" if name in WANTED else ""))


def _clients() -> Iterator[Item]:
    """Yield the requirements of `wsemu run` for CUDA programs, and the installed packages that it supports."""
    from wsemu.native.build import is_built
    from wsemu.native.compiler import find_compiler, find_platform_problem

    compiler, problem = find_compiler(), find_platform_problem()
    if problem:
        yield Item("note", "CUDA driver", problem)
        return
    if is_built():
        yield Item("good", "CUDA driver", "compiled, for `wsemu run ./app`")
    elif compiler:
        yield Item("good", "CUDA driver", f"compiled by {compiler} at the first `wsemu run ./app`")
    else:
        yield Item("note", "CUDA driver", "needs a C compiler (`apt install gcc`), or a wheel of wsemu for Linux")
    for name, purpose in UNPACKERS.items():
        version = _version(name)
        yield Item("good", name, version) if version else Item("note", name, f"not installed: {purpose}")
    versions = {name: _version(name) for name in CLIENTS}
    for name, version in versions.items():
        if name == "torch" and (cuda := _cuda_of_torch()):
            yield Item("note", name, f"{version} for CUDA {cuda}, which does not run: {CPU_TORCH}")
        elif version:
            yield Item("good", name, f"{version}, which `wsemu run file.py` runs ({CLIENTS[name]})")
    if absent := [name for name, version in versions.items() if not version]:
        yield Item("good", "clients", f"not here: {', '.join(absent)}")


def _cuda_of_torch() -> str:
    """Return the CUDA version for which torch was built; empty for the CPU build, or if torch is not installed."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"""^cuda\b[^=\n]*=\s*['"]([^'"]+)""", text, re.MULTILINE)
    return found[1] if found else ""


def _version(package: str) -> str:
    """Return the version of a package; nothing if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _nvcc() -> Item:
    """Report the compiler for `wsemu check kernel.cu`."""
    from wsemu.launch.ptx.nvcc import PACKAGES, find_nvcc

    found = find_nvcc()
    return Item("good", "nvcc", found) if found else Item("note", "nvcc", f"none, for CUDA C++: `{PACKAGES}`")


def _vm() -> Item:
    """Report whether the compiled VM of this version exists and works."""
    import numpy as np

    from wsemu import check, cuda
    from wsemu.machine import cache, shipped

    held = set() if shipped.is_used() else set(cache.cached_files())

    @cuda.jit
    def probe(x):  # type: ignore[no-untyped-def]
        x[cuda.threadIdx.x] = cuda.threadIdx.x

    data = np.zeros(32, np.int64)
    check(probe, 1, 32, (data,))
    if data.tolist() != list(range(32)):
        return Item("bad", "VM", f"a kernel that numbers 32 words gives {data.tolist()[:4]}...")
    if shipped.is_used():
        return Item("good", "VM", "runs a kernel; compiled in the package")
    return Item(
        "good", "VM", "runs a kernel; " + ("compiled before" if held == set(cache.cached_files()) else "compiled now")
    )


def _cache() -> Item:
    """Report where the compiled VM is and how many of its parts exist; a part is compiled at its first use."""
    from wsemu.machine import cache, shipped
    from wsemu.machine.parts import PARTS

    folder = cache.folder()
    files = () if shipped.is_used() else cache.cached_files().values()
    if folder is not None and shipped.is_used() and _can_be_made(folder):
        return Item("good", "cache", f"{folder}, for programs: the VM is compiled in the package")
    if folder is not None and files:
        size = sum(file.stat().st_size for file in files)
        return Item("good", "cache", f"{len(files)} of {len(PARTS)} parts in {folder} ({size:,} bytes)")
    if folder is not None and _can_be_made(folder):
        return Item("note", "cache", f"nothing for this version in {folder}: it was cleared, or the source was edited")
    if folder is not None:
        return Item("bad", "cache", f"{folder} cannot be written: set WSEMU_CACHE_DIR to a folder that can be written")
    remedy = "make it yours alone (`chown`, `chmod go-w`), or set WSEMU_CACHE_DIR to a folder of your own"
    return Item("bad", "cache", f"{cache.problem()}, and no machine code is loaded from there: {remedy}")


def _blocks() -> Item:
    """Report the number of compiled regions in the cache, and whether regions are compiled at all."""
    from wsemu.machine import cache
    from wsemu.machine.tier import hot

    files, tier = cache.kept_blocks().values(), hot.resolve_tier()
    size = sum(file.st_size for file in files)
    kept = f"{len(files)} of at most {cache.MOST_BLOCKS} ({size:,} of {cache.BLOCK_BYTES:,} bytes)"
    return Item("good", "blocks", kept if tier == "auto" else f"{kept}; {hot.VARIABLE} is {tier}")


def _can_be_made(folder: Path) -> bool:
    """Return whether files can be written into a folder that may not exist yet."""
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    try:
        tempfile.TemporaryDirectory(dir=there).cleanup()
    except OSError:  # permissions alone do not decide, for example in /proc or on a read-only disk
        return False
    return True


def _gpu() -> Item:
    """Report the GPUs that the driver lists; wsemu needs none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Item("note", "GPU", "none found (no nvidia-smi): `wsemu crosscheck` needs one, nothing else does")
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, check=False, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Item("note", "GPU", f"nvidia-smi does not answer: {error}")
    cards = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not cards:
        return Item("note", "GPU", "none found by nvidia-smi: `wsemu crosscheck` needs one, nothing else does")
    return Item("good", "GPU", "; ".join(f"{card.replace(', ', ', driver ')}" for card in cards))


def _configuration(program: Path | None) -> Item:
    """Report the pyproject.toml that applies, and whether it is valid."""
    from wsemu.app.chosen import resolve_settings
    from wsemu.app.pyproject import FILE, find
    from wsemu.model.errors import UsageError

    start = program or Path.cwd() / FILE
    try:
        path, table = find(start)
        resolve_settings(start, {})
    except UsageError as error:
        return Item("bad", "configuration", str(error))
    if path is None:
        return Item("good", "configuration", "no pyproject.toml with [tool.wsemu] from here upwards: defaults")
    keys = ", ".join(ascii(key).strip("'") for key in table)
    return Item("good", "configuration", f"{path}: {keys or 'empty'}")


def _terminal() -> Item:
    stream = sys.stdout
    if not stream.isatty():
        return Item("good", "terminal", f"none: plain text, 80 columns, {stream.encoding}")
    colours = "no colours" if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else "colours"
    columns = shutil.get_terminal_size().columns
    return Item(
        "good", "terminal", f"{os.environ.get('TERM', 'unknown')}, {columns} columns, {colours}, {stream.encoding}"
    )
