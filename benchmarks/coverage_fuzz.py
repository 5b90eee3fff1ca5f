"""Fuzz the code that reads untrusted text, guided by coverage, with atheris (`pip install atheris`).

    python benchmarks/coverage_fuzz.py ptx|argument|launch_file [--seconds 60] [--seed 1] [--keep FOLDER]

The run begins with the files of tests/fuzz_corpora/TARGET and, for PTX, with parts of tests/ptx.  An input must end
with a return or an error of wsemu, within 20 s and 2 GB.  Any other input stops the run and is kept in the folder; put
it into the corpus as `found-NAME` together with the repair.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from requirements import require

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
LARGEST = 4096
"""bytes of an input"""


def seeds(target: str, folder: Path) -> None:
    """Put kernels of `tests/ptx` into a folder, without the header that the fuzz target adds."""
    if target != "ptx":
        return
    for file in sorted((ROOT / "tests" / "ptx").glob("*.ptx")):
        text = file.read_text(encoding="utf-8")
        for number, part in enumerate(text.split(".visible .entry")[1:]):
            if len(part) < LARGEST:
                (folder / f"{file.stem}-{number}").write_text(".visible .entry" + part, encoding="utf-8")


def main() -> None:
    """Run a campaign; atheris ends the process."""
    parser = argparse.ArgumentParser(description="Fuzzes what reads text of a stranger, guided by coverage.")
    parser.add_argument("target", choices=("ptx", "argument", "launch_file"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "coverage_fuzz")
    options = parser.parse_args()
    require("atheris")
    import atheris

    with atheris.instrument_imports(include=["wsemu.frontend.ptx", "wsemu.app", "wsemu.launch.ptx"]):
        from tests.fuzz_targets import CORPORA, TARGETS
    options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own:
        seeds(options.target, Path(own))
        limits = ["-timeout=20", "-rss_limit_mb=2048", f"-max_len={LARGEST}", f"-max_total_time={options.seconds}"]
        where = [f"-artifact_prefix={options.keep}/{options.target}-", own, str(CORPORA / options.target)]
        atheris.Setup([sys.argv[0], f"-seed={options.seed}", *limits, *where], TARGETS[options.target])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
