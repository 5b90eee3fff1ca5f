"""Build steps that pyproject.toml cannot express: links of an editable installation to `patterns` and `checkers`, and
compiled code.

They lie beside `wsemu` and are imported as `wsemu.patterns` and `wsemu.checkers`.  Wheels put them there.  For an
editable installation this hook links them into `wsemu/`, where mypy, pyright and editors look too.  Git does not see
the links, so that a checkout has none: on Windows they are junctions, which need no privilege.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
LINKED = ("patterns", "checkers")


def link(root: Path = ROOT) -> None:
    """Make `wsemu/patterns` and `wsemu/checkers`, where they are missing or do not lead where they should."""
    for name in LINKED:
        place, target = root / "wsemu" / name, root / name
        if place.exists() and place.samefile(target):
            continue
        if place.is_symlink() or place.is_file():  # leads elsewhere; or a link as git writes it where there are none
            place.unlink()
        _link(place, target)


def _link(place: Path, target: Path) -> None:
    if sys.platform == "win32":
        import _winapi

        _winapi.CreateJunction(str(target), str(place))
    else:
        place.symlink_to(os.path.relpath(target, place.parent), target_is_directory=True)


def load_compiler() -> Any:
    """Return the module that compiles the CUDA driver, without the package, which needs what is not installed here."""
    spec = importlib.util.spec_from_file_location("wsemu_compiler", ROOT / "wsemu" / "native" / "compiler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has_driver() -> bool:
    """Return whether the wheel gets the CUDA driver: on Linux with a C compiler, unless WSEMU_PURE_WHEEL is set."""
    compiler = load_compiler()
    is_wanted = not os.environ.get("WSEMU_PURE_WHEEL")
    return is_wanted and not compiler.find_platform_problem() and compiler.find_compiler() is not None


BASELINES = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64"))
"""system and architecture of the wheels with object code, as `wsemu/machine/shipped.py` has them"""


def has_machine_code() -> bool:
    """Return whether the wheel gets the VM's object code, for which the build needs LLVM."""
    is_known = (sys.platform, platform.machine()) in BASELINES
    needed = ("llvmlite", "numpy", "platformdirs")
    return is_known and not os.environ.get("WSEMU_PURE_WHEEL") and all(map(importlib.util.find_spec, needed))


class Build(build_py):
    """The package, with the VM compiled, and the CUDA driver for programs that run as they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        place = Path(self.build_lib).resolve()
        if has_driver():
            compiler = load_compiler()
            compiler.compile_libraries(place / "wsemu" / "native" / "lib" / compiler.FOLDER)
        if has_machine_code():
            paths = os.pathsep.join([str(place), *filter(None, sys.path)])
            command = [sys.executable, "-m", "wsemu.machine.shipped", str(place / "wsemu" / "machine" / "shipped.bin")]
            environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
            subprocess.run(command, check=True, env=environment, cwd=place)


def make_wheel_command() -> type:
    """Return the command that makes a wheel for every Python, and for one platform if it has compiled code."""
    from setuptools.command.bdist_wheel import bdist_wheel  # older versions, which only install, have none

    class Wheel(bdist_wheel):
        def get_tag(self) -> tuple[str, str, str]:
            _, _, platform = super().get_tag()
            return "py3", "none", platform

    return Wheel


class Package(Distribution):
    """The distribution, which is not pure if it has the CUDA driver or the VM's object code."""

    def has_ext_modules(self) -> bool:
        return has_driver() or has_machine_code()


class Editable(editable_wheel):
    """An editable installation: one line in a `.pth` file, which tools that do not run Python read as well."""

    def run(self) -> None:
        link()
        self.distribution.package_dir = {"": "."}
        self.package_dir = {"": "."}
        super().run()


if __name__ == "__main__":
    commands = {"bdist_wheel": make_wheel_command(), "build_py": Build, "editable_wheel": Editable}
    setup(distclass=Package, cmdclass=commands)
