"""End a benchmark that lacks a package or a program, with the command that installs it."""

from __future__ import annotations

import importlib.util
import shutil
import sys

INSTALLED_BY = {
    "atheris": "`pip install atheris`",
    "matplotlib": "`pip install matplotlib`",
    "numba_cuda": "`pip install 'wsemu[gpu]'`",
    "nvcc": "install the CUDA toolkit, and put its `bin` on the path",
}
"""package or program -> what installs it"""


def require(*packages: str, programs: tuple[str, ...] = ()) -> None:
    """Exit with code 2 if a package or a program is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    missing += [name for name in programs if shutil.which(name) is None]
    for name in missing:
        print(f"{sys.argv[0]} needs {name}: {INSTALLED_BY[name]}", file=sys.stderr)
    if missing:
        sys.exit(2)
