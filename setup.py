"""What pyproject.toml cannot say: how an editable installation finds `patterns` and `checkers`.

They lie beside `wsemu` and are imported as `wsemu.patterns` and `wsemu.checkers`.  Wheels put them there.  For an
editable installation this hook links them into `wsemu/`, where mypy, pyright and editors look too.  Git does not see
the links, so that a checkout has none: on Windows they are junctions, for which nobody needs a privilege.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import setup
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


class Editable(editable_wheel):
    """An editable installation: one line in a `.pth` file, which tools that do not run Python read as well."""

    def run(self) -> None:
        link()
        self.distribution.package_dir = {"": "."}
        self.package_dir = {"": "."}
        super().run()


if __name__ == "__main__":
    setup(cmdclass={"editable_wheel": Editable})
