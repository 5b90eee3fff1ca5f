"""Fuzz launch files and `--arg`, guided by coverage, and watch every file that is opened.  Each input must end with a
value or a message, and none may reach a file outside of its folder.  (`coverage_fuzz.py` looks for crashes.)

    pip install atheris
    python benchmarks/hostile_fuzz.py launch|argument [CORPUS] [-runs=N] [-max_total_time=SECONDS] [...]

The seeds are those of tests/data/hostile; inputs that libFuzzer finds go to CORPUS.  Three events end the run, with the
input that caused them: an exception other than UsageError or KernelError, a file opened outside of the folder, and a
written file.  `tests/unit/test_hostile_data.py` runs the two targets without atheris, on the seeds and a few variants.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from requirements import require

sys.path.insert(0, str(Path(__file__).parents[1]))

MODULES = (
    "wsemu.app.launch_file", "wsemu.app.ptx_launch", "wsemu.app.handles", "wsemu.app.array_file",
    "wsemu.model.own_files", "wsemu.launch.ptx.launch_form", "wsemu.model.wrong_value",
)  # fmt: skip


def main(words: list[str]) -> None:
    """Fuzz a target until libFuzzer ends; libFuzzer gets the words after the target's name."""
    require("atheris")
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(MODULES)):
        from tests import hostile_targets

    name, *options = words or [""]
    if name not in hostile_targets.TARGETS:
        sys.exit(f"usage: hostile_fuzz.py {'|'.join(hostile_targets.TARGETS)} [CORPUS] [-runs=N] ...")
    with tempfile.TemporaryDirectory() as place, hostile_targets.at(Path(place)) as folder:
        seeds = folder.parent / "seeds"
        seeds.mkdir()
        for number, seed in enumerate(hostile_targets.seeds(name)):
            (seeds / str(number)).write_bytes(seed)
        corpus = [word for word in options if not word.startswith("-")]
        flags = [word for word in options if word.startswith("-")]

        def change(data: bytes, size: int, seed: int) -> bytes:
            if seed % 2:
                return hostile_targets.changed(name, random.Random(seed), data)[:size]
            made: bytes = atheris.Mutate(data, size)
            return made

        atheris.Setup([sys.argv[0], *flags, *corpus, str(seeds)], hostile_targets.TARGETS[name], custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
