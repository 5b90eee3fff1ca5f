"""The libraries that stand in for CUDA's driver and runtime: those of the wheel, or compiled from `c/` into the cache.

A wheel that was built without a C compiler has none; the first run compiles them, if there is a compiler by then.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from wsemu.machine import cache
from wsemu.model.errors import UsageError

HERE = Path(__file__).parent
SOURCES = HERE / "c"
FOLDER = "wsemu-driver"
"""name of the folder of the libraries; the audit library looks for it"""
DRIVER, AUDIT = "libcuda.so.1", "libwsemu-audit.so"
RUNTIMES = ("11.0", "12", "13")
"""versions of the runtime's library"""
_PARTS = ("state", "core", "errors", "driver", "runtime", "stubs", "patch")
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared")


def find_libraries() -> Path:
    """Return the folder of the libraries, which are compiled if need be; UsageError says what is missing."""
    if problem := find_platform_problem():
        raise UsageError(problem)
    packed = HERE / "lib" / FOLDER
    if _is_complete(packed):
        return packed
    kept = cache.folder()
    if kept is None:
        raise UsageError(f"the CUDA driver of wsemu cannot be compiled: {cache.problem() or 'there is no cache folder'}")
    folder = kept / f"driver-{_digest()}" / FOLDER
    if not _is_complete(folder):
        _compile_into(folder)
    return folder


def find_platform_problem() -> str:
    """Return why programs cannot run as they are on this system; nothing if they can."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "programs run as they are on Linux on x86-64: use that, a container, or WSL"
    return ""


def find_compiler() -> str | None:
    """Return the C compiler: `$CC`, or the first of the usual names."""
    names = (os.environ.get("CC", ""), sysconfig.get_config_var("CC") or "", "cc", "gcc", "clang")
    words = (name.split()[0] for name in names if name.strip())
    return next((found for name in words if (found := shutil.which(name))), None)


def is_built() -> bool:
    """Return whether the libraries are there without a compilation."""
    kept = cache.folder()
    return _is_complete(HERE / "lib" / FOLDER) or (
        kept is not None and _is_complete(kept / f"driver-{_digest()}" / FOLDER)
    )


def compile_libraries(folder: Path) -> None:
    """Compile the libraries into a folder; UsageError with what the compiler prints."""
    compiler = find_compiler()
    if compiler is None:
        raise UsageError(
            "programs as they are need the CUDA driver of wsemu, and this installation has none: install a C compiler "
            "(`apt install gcc`), or a wheel of wsemu for Linux"
        )
    folder.mkdir(parents=True, exist_ok=True)
    parts = [str(SOURCES / f"{name}.c") for name in _PARTS]
    last = ("-Wl,--hash-style=both", "-ldl", "-lpthread")
    _run(compiler, *_FLAGS, f"-Wl,-soname,{DRIVER}", "-o", str(folder / DRIVER), *parts, *last)
    _run(compiler, *_FLAGS, "-o", str(folder / AUDIT), str(SOURCES / "audit.c"))
    for version in RUNTIMES:
        name = f"libcudart.so.{version}"
        with tempfile.TemporaryDirectory() as place:
            script, empty = Path(place) / "version", Path(place) / "empty.c"
            script.write_text(f"{name} {{ }};\n", encoding="ascii")
            empty.write_text("", encoding="ascii")
            library = ("-Wl,--no-as-needed", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}")
            own = (f"-L{folder}", f"-l:{DRIVER}", "-Wl,-rpath,$ORIGIN")
            _run(compiler, *_FLAGS, *library, "-o", str(folder / name), str(empty), *own)
    link = folder / "libcuda.so"
    if not link.exists():
        link.symlink_to(DRIVER)


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"`{words[0]}` cannot compile the CUDA driver of wsemu:\n{done.stderr.strip()[-2000:]}")


def _compile_into(folder: Path) -> None:
    """Compile beside the folder and move it there whole, so that another process finds all of it or nothing."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder.parent.parent, prefix=".driver-") as place:
        made = Path(place) / folder.parent.name
        compile_libraries(made / FOLDER)
        try:
            os.rename(made, folder.parent)
        except OSError:
            if not _is_complete(folder):
                raise


def _is_complete(folder: Path) -> bool:
    names = (DRIVER, AUDIT, *(f"libcudart.so.{version}" for version in RUNTIMES))
    return all((folder / name).is_file() for name in names)


def _digest() -> str:
    """Return what tells the sources of the libraries apart."""
    hash_ = hashlib.sha256(" ".join(_FLAGS).encode())
    for path in sorted(SOURCES.iterdir()):
        hash_.update(path.name.encode() + path.read_bytes())
    return hash_.hexdigest()[:16]
