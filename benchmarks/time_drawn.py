"""Draw launches that nobody chose, and predict them before they are measured: `python benchmarks/time_drawn.py second`.

Writes a set of launches, `first` or `second`, like `time_launches.py`, and the predicted microseconds of each launch.
The seed of the set determines the launches: instances of the templates in `time/fresh.cu` that no other benchmark and
no earlier set has, and kernels of `examples/` in drawn sizes.  `time_device.py measure --drawn=second` measures them.
"""

from __future__ import annotations

import functools
import gzip
import inspect
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import time_launches as launches
from requirements import require
from time_device import DRAWN, Predictor, collection, drawn_predictions, identify

SETS = {"first": (47, 20, 4, 2), "second": (20261130, 60, 4, 0)}
"""set -> seed, and number of launches of rings, of clusters, and of each example"""
SHAPES = {
    "named": (range(1, 7), (1, 2, 4, 8), (4, 8, 16)),
    "narrow": (range(1, 7), (1, 2, 4), (4, 8, 16)),
    "large": (range(1, 5), (2, 4, 8), (8, 16)),
    "phased": (range(1, 7), (1, 2, 4), (4, 8, 16)),
    "lanes": (range(1, 7), (1, 2, 4)),
    "bulk": (range(1, 11), (4096, 8192, 16384)),
    "slim": (range(1, 9), (2048, 4096, 8192)),
    "both": (range(2, 8), (4096, 8192)),
    "axpy": (range(1, 7), (4096, 8192)),
    "dot": (range(1, 7), (4096, 8192)),
    "cpasync": (range(11, 17),),
}
"""template -> values of its parameters, the first of which is the number of stages"""
CLUSTERS = {"multicast": (range(1, 7), (4096, 8192, 16384))}
MOST_SHARED = 200 * 1024


def main(drawn: str) -> None:
    """Draw the launches of a set, predict them, and write both files."""
    require(*["numba_cuda"] * bool(SETS[drawn][3]), programs=("nvcc",))
    seed, rings, clusters, examples = SETS[drawn]
    pick = random.Random(seed)
    found = launches.Collection()
    earlier = [name for name in SETS if name < drawn]
    known = {launch["version"] for name in earlier for launch in collection(drawn=name)["launches"]}
    _draw_rings(found, pick, {"rings": rings, "clusters": clusters}, known)
    _draw_examples(found, pick, examples)
    used = {launch["module"] for launch in found.launches}
    modules = {name: text for name, text in found.modules.items() if name in used}
    for launch in found.launches:
        launch["registers"] = _registers(modules[launch["module"]], launch["entry"])
    DRAWN[drawn].write_bytes(
        gzip.compress(json.dumps({"modules": modules, "launches": found.launches}).encode(), 9, mtime=0)
    )
    predictor = Predictor(modules)
    times = [predictor.predict(one, one["registers"]).microseconds for one in found.launches]
    predicted = {identify(one): round(time, 2) for one, time in zip(found.launches, times, strict=True)}
    drawn_predictions(drawn).write_text(json.dumps(predicted, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found.launches)} launches, {DRAWN[drawn].stat().st_size:,} bytes: {DRAWN[drawn]}")


def _draw_rings(found: launches.Collection, pick: random.Random, numbers: dict[str, int], earlier: set[str]) -> None:
    """Add rings and clusters of new instances of the templates."""
    known = (launches.HERE / "fresh.cu").read_text(encoding="utf-8") + (launches.HERE / "rings.cu").read_text(
        encoding="utf-8"
    )
    chosen: dict[str, tuple[int, int, int]] = {}
    for shapes, number in ((SHAPES, numbers["rings"]), (CLUSTERS, numbers["clusters"])):
        while number:
            kind = pick.choice(list(shapes))
            values = [pick.choice(list(some)) for some in shapes[kind]]
            each, per, it = pick.choice((1, 1, 2, 3)), pick.randrange(24, 200, 4), pick.choice((0, 0, 4, 12, 20))
            instance = f"{kind.upper()}({', '.join(map(str, values))})"
            name = "_".join(map(str, [kind, *values]))
            tile = values[1] if kind in launches.LARGE else 8192 if kind == "large" else launches.TILE
            shared = values[0] * tile * (2 if kind in ("axpy", "dot") else 1) * each
            if instance in known or name in earlier or name in chosen or shared > MOST_SHARED:
                continue
            chosen[name] = each, per, it
            number -= 1
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "drawn.cu"
        lines = [f"{name.partition('_')[0].upper()}({', '.join(name.split('_')[1:])})" for name in chosen]
        head = f'#define NO_INSTANCES\n#include "{launches.HERE / "fresh.cu"}"\n'
        source.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
        found.add_module("drawn", launches.compile_cuda(source))
    for name, (each, per, it) in chosen.items():
        launches.add_ring(found, name, each, per, it, "drawn")


def _draw_examples(found: launches.Collection, pick: random.Random, number: int) -> None:
    """Add kernels of `examples/` in new sizes."""

    def tiles(least: int, most: int, of: int = 128) -> int:
        return of * pick.randint(least // of, most // of)

    parts: tuple[tuple[Any, Any], ...] = (
        (launches.add_saxpy, lambda: (264 * 4096 * pick.randint(4, 40), pick.choice((2, 8, 12, 40)))),
        (launches.add_sgemv, lambda: (tiles(1024, 12288),)),
        (launches.add_stencil, lambda: (tiles(256, 1024, 64), tiles(128, 1024, 64), pick.randint(16, 64))),
        (launches.add_dgemm, lambda: (tiles(1024, 2560),)),
        (launches.add_hgemm, lambda: (tiles(512, 4096), tiles(512, 4096), tiles(256, 2048))),
        (launches.add_ampere, lambda: (tiles(512, 4096), tiles(512, 4096), tiles(256, 2048))),
        (launches.add_gemm, lambda: (tiles(1024, 4096), tiles(1024, 4096), tiles(512, 4096))),
        (launches.add_flash, lambda: (pick.randint(4, 64), tiles(512, 4096))),
    )
    for add, draw in parts:
        for _ in range(number):
            has_stages = "depths" in inspect.signature(add).parameters
            more = {"depths": [pick.randint(1, 4 if add is launches.add_flash else 6)]} if has_stages else {}
            some = launches.Collection()
            add(some, (draw(),), **more)
            found.modules |= some.modules
            found.launches.append(pick.choice(some.launches))


@functools.cache
def _ptxas_report(text: str) -> str:
    """Return what ptxas reports about the kernels of a module."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "module.ptx"
        source.write_text(text, encoding="utf-8")
        command = ["nvcc", "-arch=sm_90a", "-cubin", "-Xptxas", "-v", str(source), "-o", f"{source}.cubin"]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    return run.stderr


def _registers(text: str, entry: str) -> int:
    """Return the registers of a thread, as ptxas reports them."""
    report = _ptxas_report(text)
    after = report[report.index(f"'{entry}'") :]
    counted = re.search(r"Used (\d+) registers", after)
    assert counted is not None, entry
    return int(counted[1])


if __name__ == "__main__":
    main(sys.argv[1])
