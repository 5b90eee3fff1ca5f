"""Compiles the libraries that replace CUDA's driver and runtime; the build of the wheel runs only this module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "c"
FOLDER = "wsemu_driver"
"""name of the folder of the libraries; the audit library looks for it"""
DRIVER, AUDIT = "libcuda.so.1", "libwsemu_audit.so"
RUNTIMES = ("11.0", "12", "13")
"""versions of the runtime's library"""
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared")
_PARTS = (
    "state",
    "core",
    "errors",
    "driver",
    "runtime",
    "stubs",
    "patch",
    "tensors",
    "link",
    "arrays",
    "graphs",
    "runtime_graphs",
)


class CompileError(Exception):
    """The libraries cannot be compiled."""


def find_platform_problem() -> str:
    """Return why programs cannot run on this system; empty if they can."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "programs run as they are on Linux on x86-64: use that, a container, or WSL"
    return ""


def find_compiler() -> str | None:
    """Return the C compiler: `$CC`, or the first of the usual names."""
    names = (os.environ.get("CC", ""), sysconfig.get_config_var("CC") or "", "cc", "gcc", "clang")
    words = (name.split()[0] for name in names if name.strip())
    return next((found for name in words if (found := shutil.which(name))), None)


def compile_libraries(folder: Path) -> None:
    """Compile the libraries into a folder; raise CompileError with the compiler's output."""
    compiler = find_compiler()
    if compiler is None:
        raise CompileError(
            "programs as they are need the CUDA driver of wsemu, and this installation has none: install a C compiler "
            "(`apt install gcc`), or a wheel of wsemu for Linux"
        )
    folder.mkdir(parents=True, exist_ok=True)
    parts = [str(SOURCES / f"{name}.c") for name in _PARTS]
    last = ("-Wl,--hash-style=both", "-Wl,-z,initfirst", "-ldl", "-lpthread")
    _run(compiler, *FLAGS, f"-Wl,-soname,{DRIVER}", "-o", str(folder / DRIVER), *parts, *last)
    _run(compiler, *FLAGS, "-o", str(folder / AUDIT), str(SOURCES / "audit.c"))
    for version in RUNTIMES:
        name = f"libcudart.so.{version}"
        with tempfile.TemporaryDirectory() as place:
            script, empty = Path(place) / "version", Path(place) / "empty.c"
            script.write_text(f"{name} {{ }};\n", encoding="ascii")
            empty.write_text("", encoding="ascii")
            library = ("-Wl,--no-as-needed", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}")
            own = (f"-L{folder}", f"-l:{DRIVER}", "-Wl,-rpath,$ORIGIN")
            _run(compiler, *FLAGS, *library, "-o", str(folder / name), str(empty), *own)


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"`{words[0]}` cannot compile the CUDA driver of wsemu:\n{done.stderr.strip()[-2000:]}")


def library_names() -> tuple[str, ...]:
    """Return the files that a compilation creates."""
    return (DRIVER, AUDIT, *(f"libcudart.so.{version}" for version in RUNTIMES))
