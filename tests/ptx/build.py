"""Makes the PTX of this folder from its CUDA C++ with nvcc: `python tests/ptx/build.py [--check] [NAME ...]`.

NAME.sm_90.ptx has line information; NAME.sm_75.ptx is for the older target; NAME.sm_90.plain.ptx has no lines.
With --check nothing is written, and the exit code is 1 where the files differ from what nvcc makes now.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent


class Variant(NamedTuple):
    """One PTX file of a source: the end of its name, and what nvcc is told."""

    suffix: str
    options: tuple[str, ...]


LINES = Variant("sm_90", ("-arch=sm_90", "-lineinfo"))
OLDER = Variant("sm_75", ("-arch=sm_75", "-lineinfo"))
PLAIN = Variant("sm_90.plain", ("-arch=sm_90",))

EXACT = ("-fmad=false",)
"""every operation rounds, as it is written"""

VARIANTS: dict[str, tuple[Variant, ...]] = {
    "producer_consumer": (LINES, OLDER),
    "reduction": (LINES, OLDER),
    "transpose": (LINES, PLAIN),
    "control": (LINES, OLDER),
    "functions": (LINES, PLAIN),
    "integers": (LINES, OLDER),
}
"""of sources that are compiled more than once; all others are (LINES,)"""

OPTIONS: dict[str, tuple[str, ...]] = {"floating": EXACT, "programs": EXACT}
"""what nvcc is told about a source besides"""

FOLDER = re.compile(r'^(\s*\.file\s+\d+ )"[^"]*/([^"/]+)"', re.MULTILINE)
"""a `.file` directive: the folders before the name are those of the machine"""


def sources() -> list[str]:
    """Names of all sources, without the extension."""
    return sorted(path.stem for path in HERE.glob("*.cu"))


def variants(source: str) -> tuple[Variant, ...]:
    """What is made of a source."""
    return VARIANTS.get(source, (LINES,))


def compiled(source: str, variant: Variant) -> str:
    """The PTX of a source; `.file` names files of this folder by their name alone, and others not at all."""
    command = ["nvcc", "-ptx", *variant.options, *OPTIONS.get(source, ()), f"{source}.cu", "-o", "-"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return FOLDER.sub(r'\1"\2"', done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="makes the PTX of this folder with nvcc")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a source without its extension; default: all")
    arguments = parser.parse_args()
    if not shutil.which("nvcc"):
        parser.error("no nvcc on the PATH: install the CUDA toolkit")
    unknown = [name for name in arguments.names if name not in sources()]
    if unknown:
        parser.error(f"no source named {', '.join(unknown)}: the sources are {', '.join(sources())}")
    differ = 0
    for source in arguments.names or sources():
        for variant in variants(source):
            path = HERE / f"{source}.{variant.suffix}.ptx"
            text = compiled(source, variant)
            same = path.is_file() and path.read_text(encoding="utf-8") == text
            differ += not same
            if not same and not arguments.check:
                path.write_text(text, encoding="utf-8")
            print(f"{path.name}: {'as it was' if same else 'differs' if arguments.check else 'written'}")
    return 1 if arguments.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
