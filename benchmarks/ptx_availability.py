"""Ask ptxas which targets and PTX versions support an instruction: `python benchmarks/ptx_availability.py`.

The forms are those of `tests/unit/ptx_instructions.py`.  Writes `tests/data/ptx_availability.json`, which
`tests/unit/test_availability.py` compares with `wsemu/frontend/ptx/availability.py`.  Needs ptxas 13 or later.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.ptx_instructions import FIRST_LINE, module, statements

TARGETS = (
    "sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_100a sm_100f sm_103 sm_103a sm_110 sm_120 sm_120a sm_120f"
).split()
VERSIONS = "7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0".split()
_MESSAGE = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_VERSION = re.compile(r"requires PTX ISA \.version (\d+)\.(\d+)")


def complaints(names: list[str], target: str, version: str) -> dict[str, list[str]]:
    """Return the messages of ptxas for each form that it rejects."""
    known = statements()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "k.ptx"
        file.write_text(module([known[name] for name in names], target, version), encoding="utf-8")
        command = ["ptxas", f"-arch={target}", "-o", "/dev/null", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, list[str]] = defaultdict(list)
    for line, text in _MESSAGE.findall(done.stderr):
        number = int(line) - FIRST_LINE
        if "syntax error" in text:
            raise SystemExit(f"{names[number]}: {text}")
        if number >= 0:  # the declarations have a version of their own
            found[names[number]].append(text)
    return found


def main() -> None:
    names = list(statements())
    rejected = {target: complaints(names, target, VERSIONS[-1]) for target in TARGETS}
    first: dict[str, tuple[int, int]] = {}
    for version in VERSIONS:
        for name, texts in complaints(names, "sm_75", version).items():
            for found in _VERSION.findall(" ".join(texts)):
                first[name] = max(first.get(name, (0, 0)), (int(found[0]), int(found[1])))
    rows: dict[str, list[str]] = defaultdict(list)
    for name in names:
        targets = [target for target in TARGETS if name not in rejected[target]]
        major, minor = first.get(name, (0, 0))
        if len(targets) < len(TARGETS) or major:
            rows[f"{major}.{minor}: {' '.join(targets) or 'none'}"].append(name)
    file = Path(__file__).resolve().parents[1] / "tests" / "data" / "ptx_availability.json"
    file.write_text(json.dumps({"targets": TARGETS, "forms": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"{len(names):,} forms, of which {sum(map(len, rows.values())):,} need a target or a version; {file}")


if __name__ == "__main__":
    main()
