"""Compare SentryWard with wsemu on the kernels of `tests/ptx`, or with `--blackwell` on those with tensor memory: their
answers for the same PTX and launch, and their times.

    pip install sentryward
    python benchmarks/sentryward.py [--seconds 60] [--each] [--blackwell]

Both get the PTX as nvcc wrote it.  SentryWard gets the launch, every number among the arguments, and which arguments
are arrays.  What it has no format for (structures by value) is left out, and counts as refused if it requires it.  Its
time is that of a whole process; wsemu's time is that of a call in a process that has checked the kernel before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import wsemu

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
BLACKWELL = ROOT / "examples" / "blackwell"
sys.path.insert(0, str(ROOT))
from tests.ptx import build  # noqa: E402 - the path is set above
from tests.ptx.expected.launches import BROKEN, CASES, Out  # noqa: E402
from tests.unit.test_examples_blackwell import MISTAKEN, SIZES  # noqa: E402
from wsemu.model.tensor_map import INTERLEAVES, SWIZZLES, TensorMap  # noqa: E402

SCHEMA = "spverify.kernel-input/v1"
ANSWERS = {
    "race_free": "clean", "verified": "clean",
    "potential_race": "found", "not_wellsynced": "found", "invalid_lifecycle": "found",
}  # fmt: skip
"""SentryWard's results -> wsemu's; all others count as rejections"""


class Launch(NamedTuple):
    """A launch that both tools get."""

    name: str
    kind: str
    path: Path
    kernel: Any
    grid: Any
    block: Any
    shared: int
    arguments: list[Any]
    """arrays are `Out` where each launch gets a copy"""


def triple(extent: int | tuple[int, ...]) -> list[int]:
    """Return an extent of a launch in three dimensions."""
    given = (extent,) if isinstance(extent, int) else extent
    return [*given, 1, 1][:3]


def describe_map(parameter: str, map_: TensorMap) -> dict[str, Any]:
    """Return a tensor map in SentryWard's format."""
    fields = map_.fields
    swizzle, interleave = SWIZZLES[fields.swizzle], INTERLEAVES[fields.interleave]
    return {
        "parameter": parameter, "object": parameter,
        "element_type": {"u4": "16u4_align8b"}.get(fields.type, fields.type), "rank": fields.rank,
        "base_byte_offset": 0, "global_shape": fields.extents, "box_shape": fields.box,
        "global_strides_bytes": fields.strides, "element_strides": fields.steps, "swizzle": swizzle or "none",
        "interleave": interleave or "none", "oob_fill": "nan" if fields.nan else "zero",
    }  # fmt: skip


def request(launched: Launch) -> dict[str, Any]:
    """Return a launch in SentryWard's format."""
    numbers, arrays, maps = [], [], []
    kernel = launched.kernel
    for parameter, value in zip(kernel.entry.parameters, launched.arguments, strict=True):
        if isinstance(value, TensorMap):
            maps.append(describe_map(parameter.name, value))
        elif isinstance(value, np.ndarray | Out):
            arrays.append({"parameter": parameter.name, "type": "pointer", "object": parameter.name})
        elif isinstance(value, int | float | np.number):
            numbers.append({"parameter": parameter.name, "type": parameter.type, "value": np.asarray(value).item()})
    grid, block, cluster = triple(launched.grid), triple(launched.block), [*kernel.entry.cluster, 1, 1, 1][:3]
    launch = {"grid_dim": grid, "block_dim": block, "cluster_dim": cluster, "dynamic_shared_bytes": launched.shared}
    return {
        "schema": SCHEMA, "entry": kernel.entry.name, "launch": launch,
        "declarations": arrays, "arguments": numbers, "tma_descriptors": maps,
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


def ours(launched: Launch) -> tuple[str, str, float]:
    """Return wsemu's answer, in the same form."""

    def check() -> tuple[wsemu.Report, float]:
        passed = [a.start.copy() if isinstance(a, Out) else a for a in launched.arguments]
        start = time.perf_counter()
        report = wsemu.check(launched.kernel, launched.grid, launched.block, passed, dynamic_shared=launched.shared)
        return report, time.perf_counter() - start

    check()
    report, took = check()
    answers = {"verified": "clean", "failed": "found"}
    return answers.get(report.verdict, "refused"), "; ".join(sorted({f.code for f in report.findings})), took


def test_launches() -> Iterator[Launch]:
    """Yield the launches of `tests/ptx`."""
    for case in [*CASES, *BROKEN]:
        path = ROOT / "tests" / "ptx" / f"{case.source}.{build.variants(case.source)[0].suffix}.ptx"
        if case.says or case.verdict not in ("verified", "failed"):
            continue
        new = any(word in path.read_text(encoding="utf-8") for word in ("mbarrier.", "cp.async", "wgmma"))
        kind = (
            f"{'correct' if case.verdict == 'verified' else 'broken'}, {'asynchronous' if new else 'barriers, memory'}"
        )
        kernel = wsemu.load_ptx(path)[case.kernel]
        yield Launch(case.name, kind, path, kernel, case.grid, case.block, case.shared, list(case.arguments()))


class _Recorder:
    """Stands for a PTX module; keeps the first launch of a kernel instead of executing it."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.kernel: Any = None
        self.configuration: tuple[Any, ...] = ()
        self.arguments: list[Any] = []

    def __getitem__(self, asked: Any) -> Any:
        if isinstance(asked, str):
            self.kernel = self._module[asked]
        else:
            self.configuration = asked
        return self

    def __call__(self, *arguments: Any) -> None:
        self.arguments = list(arguments)

    def launch(self, name: str, kind: str, path: Path) -> Launch:
        grid, block, _, shared = (*self.configuration, 0, 0)[:4]
        return Launch(name, kind, path, self.kernel, grid, block, shared, self.arguments)


def _record(path: Path, *arguments: Any) -> _Recorder:
    """Return the launch of a program: of its function `main`, if there are arguments."""
    load, made = wsemu.load_ptx, []

    def record(file: Path) -> _Recorder:
        made.append(_Recorder(load(file)))
        return made[-1]

    wsemu.load_ptx = record
    try:
        with contextlib.suppress(AssertionError):  # the recorded launch has not computed a result
            found = runpy.run_path(str(path))
            if arguments:
                found["main"](*arguments)
    finally:
        wsemu.load_ptx = load
    return made[0]


def example_launches() -> Iterator[Launch]:
    """Yield the launches of `examples/blackwell`: each correct kernel, and each with a mistake."""
    for program in SIZES:
        broken = BLACKWELL / f"{program}.broken.sm_100a.ptx"
        if not broken.exists():
            continue
        names = re.findall(rf"\.entry ({program}_\w+)\(", broken.read_text(encoding="utf-8"))
        for name in [program, *names]:
            size = SIZES[name] if name == program else MISTAKEN[program]
            found = _record(BLACKWELL / f"{program}.py", *size, name)
            path = BLACKWELL / f"{program}.sm_100a.ptx" if name == program else broken
            yield found.launch(name, f"{'correct' if name == program else 'broken'}, whole Blackwell kernels", path)


def tensor_memory_launches() -> Iterator[Launch]:
    """Yield the programs of `tests/fail` with an error in tensor memory, and their correct twins."""
    for path in sorted((ROOT / "tests" / "fail").glob("*/*.ptx")):
        expected = path.with_suffix(".expected").read_text(encoding="utf-8")
        if "tcgen05" not in path.read_text(encoding="utf-8") or "error[" not in expected:
            continue
        for kind, file in (("broken", path), ("correct", ROOT / "tests" / "pass" / path.name)):
            yield _record(file.with_suffix(".py")).launch(path.stem, f"{kind}, tensor memory", file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for a launch by SentryWard")
    parser.add_argument("--each", action="store_true", help="print every launch")
    parser.add_argument("--blackwell", action="store_true", help="check kernels with tensor memory")
    options = parser.parse_args()
    program = shutil.which("sentryward", path=f"{Path(sys.executable).parent}") or shutil.which("sentryward")
    if program is None:
        raise SystemExit("benchmarks/sentryward.py: there is no sentryward here: `pip install sentryward`")
    console = Console(soft_wrap=True)
    counts: dict[tuple[str, str], Counter[str]] = {}
    times: dict[str, list[float]] = {"wsemu": [], "SentryWard": []}
    launches = [*tensor_memory_launches(), *example_launches()] if options.blackwell else [*test_launches()]
    for launched in track(launches, console=Console(stderr=True), description="launches"):
        answers = {
            "wsemu": ours(launched),
            "SentryWard": theirs(program, launched.path, request(launched), options.seconds),
        }
        for tool, (answer, why, took) in answers.items():
            counts.setdefault((launched.kind, tool), Counter())[answer] += 1
            times[tool].append(took)
            if options.each:
                console.print(f"{launched.name}: {launched.kind}: {tool}: {answer}, {took:.2f} s: {why}")
    table = Table("kernels", "tool", "clean", "found", "refused")
    for (kind, tool), counted in sorted(counts.items()):
        table.add_row(kind, tool, *(str(counted[answer]) for answer in ("clean", "found", "refused")))
    console.print(table)
    for tool, took in times.items():
        console.print(f"{tool}: median {statistics.median(took):.3f} s, most {max(took):.2f} s")


if __name__ == "__main__":
    main()
