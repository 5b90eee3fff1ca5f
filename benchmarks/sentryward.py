"""Compare SentryWard with wsemu on the kernels of `tests/ptx`: their answers for the same PTX and launch, and their
times.

    pip install sentryward
    python benchmarks/sentryward.py [--seconds 60] [--each]

Both get the PTX as nvcc wrote it.  SentryWard gets the launch, every number among the arguments, and which arguments
are arrays.  What it has no format for (structures by value) is left out, and counts as refused if it requires it.  Its
time is that of a whole process; wsemu's time is that of a call in a process that has checked the kernel before.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import wsemu

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.ptx import build  # noqa: E402 - the path is set above
from tests.ptx.expected.launches import BROKEN, CASES, Case, Out  # noqa: E402

SCHEMA = "spverify.kernel-input/v1"
ANSWERS = {
    "race_free": "clean", "verified": "clean",
    "potential_race": "found", "not_wellsynced": "found", "invalid_lifecycle": "found",
}  # fmt: skip
"""SentryWard's results -> wsemu's; all others count as rejections"""


def triple(extent: int | tuple[int, ...]) -> list[int]:
    """Return an extent of a launch in three dimensions."""
    given = (extent,) if isinstance(extent, int) else extent
    return [*given, 1, 1][:3]


def request(case: Case, kernel: Any) -> dict[str, Any]:
    """Return the launch of a case in SentryWard's format."""
    numbers, arrays = [], []
    for parameter, value in zip(kernel.entry.parameters, case.arguments(), strict=True):
        if isinstance(value, np.ndarray | Out):
            arrays.append({"parameter": parameter.name, "type": "pointer", "object": parameter.name})
        elif isinstance(value, int | float | np.number):
            numbers.append({"parameter": parameter.name, "type": parameter.type, "value": np.asarray(value).item()})
    grid, block, cluster = triple(case.grid), triple(case.block), [*kernel.entry.cluster, 1, 1, 1][:3]
    launch = {"grid_dim": grid, "block_dim": block, "cluster_dim": cluster, "dynamic_shared_bytes": case.shared}
    return {
        "schema": SCHEMA, "entry": kernel.entry.name, "launch": launch,
        "declarations": arrays, "arguments": numbers,
    }  # fmt: skip


def theirs(program: str, path: Path, launch: dict[str, Any], seconds: float) -> tuple[str, str, float]:
    """Return SentryWard's answer (clean, found or refused), its reason, and the seconds of its process."""
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "input.json"
        given.write_text(json.dumps(launch), encoding="utf-8")
        command = [program, str(path), "--input", str(given), "--timeout", str(seconds)]
        start = time.perf_counter()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        took = time.perf_counter() - start
    try:
        answer = json.loads(ended.stdout)
    except json.JSONDecodeError:
        return "refused", ended.stderr.strip()[:80], took
    why = "; ".join(sorted({str(d.get("message") or d.get("code")) for d in answer.get("diagnostics", [])}))
    return ANSWERS.get(answer["result"], "refused"), f"{answer['result']}: {why}", took


def ours(case: Case, kernel: Any) -> tuple[str, str, float]:
    """Return wsemu's answer, in the same form."""

    def check() -> tuple[wsemu.Report, float]:
        passed = [a.start.copy() if isinstance(a, Out) else a for a in case.arguments()]
        start = time.perf_counter()
        report = wsemu.check(kernel, case.grid, case.block, passed, dynamic_shared=case.shared)
        return report, time.perf_counter() - start

    check()
    report, took = check()
    answers = {"verified": "clean", "failed": "found"}
    return answers.get(report.verdict, "refused"), "; ".join(sorted({f.code for f in report.findings})), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for a launch by SentryWard")
    parser.add_argument("--each", action="store_true", help="print every launch")
    options = parser.parse_args()
    program = shutil.which("sentryward", path=f"{Path(sys.executable).parent}") or shutil.which("sentryward")
    if program is None:
        raise SystemExit("benchmarks/sentryward.py: there is no sentryward here: `pip install sentryward`")
    console = Console(soft_wrap=True)
    counts: dict[tuple[str, str], Counter[str]] = {}
    times: dict[str, list[float]] = {"wsemu": [], "SentryWard": []}
    for case in track([*CASES, *BROKEN], console=Console(stderr=True), description="launches"):
        path = ROOT / "tests" / "ptx" / f"{case.source}.{build.variants(case.source)[0].suffix}.ptx"
        kernel = wsemu.load_ptx(path)[case.kernel]
        if case.says or case.verdict not in ("verified", "failed"):
            continue
        new = any(word in path.read_text(encoding="utf-8") for word in ("mbarrier.", "cp.async", "wgmma"))
        kind = (
            f"{'correct' if case.verdict == 'verified' else 'broken'}, {'asynchronous' if new else 'barriers, memory'}"
        )
        answers = {
            "wsemu": ours(case, kernel),
            "SentryWard": theirs(program, path, request(case, kernel), options.seconds),
        }
        for tool, (answer, why, took) in answers.items():
            counts.setdefault((kind, tool), Counter())[answer] += 1
            times[tool].append(took)
            if options.each:
                console.print(f"{case.name}: {kind}: {tool}: {answer}, {took:.2f} s: {why}")
    table = Table("kernels", "tool", "clean", "found", "refused")
    for (kind, tool), counted in sorted(counts.items()):
        table.add_row(kind, tool, *(str(counted[answer]) for answer in ("clean", "found", "refused")))
    console.print(table)
    for tool, took in times.items():
        console.print(f"{tool}: median {statistics.median(took):.3f} s, most {max(took):.2f} s")


if __name__ == "__main__":
    main()
