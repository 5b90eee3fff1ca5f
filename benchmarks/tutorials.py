"""Runs Triton's tutorials under `wsemu run`, unchanged but for their sizes, and prints a table.

    python benchmarks/tutorials.py --python clients/bin/python triton/python/tutorials

The Python needs triton, torch (its CPU wheel), numpy, matplotlib, pandas, tabulate and pytest.  Tutorials 09 and 10
load a `libcublas.so`, so `LD_LIBRARY_PATH` has to name a folder that has one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path

from programs import add_options, print_table

SIZES: dict[str, list[tuple[str, str]]] = {
    "01": [(r"range\(12, 28, 1\)", "range(12, 14)"), ("98432", "9843")],
    "02": [("randn(1823, 781", "randn(23, 781"), (r"range\(2, 100\)", "range(2, 4)"), ("'M': 4096", "'M': 16")],
    "03": [("512, 512", "128, 128"), (r"range\(2, 33\)", "range(1, 2)")],
    "04": [],
    "05": [(r"range\(2, 32\)", "range(2, 4)"), ("'M': 4096", "'M': 32"), ("1151, 8192", "51, 1024")],
    "06": [
        (r'"Z", \[1, 4\]', '"Z", [1]'), (r'"H", \[2, 48\]', '"H", [2]'), (r'"N_CTX", \[.*', '"N_CTX", [128])'),
        (r"2\*\*i for i in range\(10, 15\)", "128"), ("BATCH, N_HEADS = 4, 32", "BATCH, N_HEADS = 1, 1"),
    ],
    "07": [],
    "08": [
        (r"group_m = \[.*", "group_m = [256, 128]"), (r"2\*\*i for i in range\(7, 11\)", "128"),
        ("= 8192", "= 128"), (r"(group_[nk]) = \[.*", r"\1 = [256, 128]"),
    ],
    "09": [("8192", "256"), ("10000", "1"), ("default=512", "default=128")],
    "10": [("8192", "256"), ("10000", "1"), ("default=512", "default=256")],
    "11": [(r"range\(23, 28, 1\)", "range(12, 13)")],
}  # fmt: skip
"""expressions of sizes in a tutorial, and the smaller ones that replace them"""
EXTRA = {"10": ["--arch", "sm_100"]}
"""further options of `wsemu run`"""


def shrink(text: str, number: str) -> str:
    """Return a tutorial with smaller sizes."""
    for old, new in SIZES.get(number, []):
        text, count = re.subn(old if "\\" in old or "[" in old else re.escape(old), new, text)
        if not count:
            print(f"{number}: no `{old}`")
    return text


def main() -> None:
    """Run the tutorials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", required=True, help="a Python with the packages")
    add_options(parser)
    options = parser.parse_args()
    os.environ["MPLBACKEND"] = "agg"
    where = "import pathlib, triton; print(pathlib.Path(triton.__file__).parent)"
    package = subprocess.run([options.python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "python" / "tutorials"  # tutorial 07 finds a library by its path in the repository
        folder.mkdir(parents=True)
        libraries = Path(top) / "third_party" / "nvidia" / "backend" / "lib"
        libraries.parent.mkdir(parents=True)
        libraries.symlink_to(Path(package) / "backends" / "nvidia" / "lib")
        commands: dict[Path, list[str]] = {}
        extra: dict[str, list[str]] = {}
        for source in sorted(options.folder.glob("[01][0-9]-*.py")):
            number = source.name[:2]
            made = folder / source.name
            made.write_text(shrink(source.read_text(), number))
            test = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"] if number == "06" else []
            commands[made] = [options.python, *test, str(made)]
            extra[made.name] = EXTRA.get(number, [])
        print_table(commands, options, extra)


if __name__ == "__main__":
    main()
