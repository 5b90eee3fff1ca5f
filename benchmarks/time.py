"""Compare predicted times with those that an H200 took: `python benchmarks/time.py [PART ...] [--each]`.

`time/rings.jsonl` and `time/fresh.jsonl` have rings of `time/rings.cu`, `time/kernels.jsonl` kernels of `examples/`,
which need Numba-CUDA.  The table has the median error of each family, that of 90%, the worst, and the rank correlation.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from time_launches import example
from time_rings import HERE, predict_row, ptx, summarize


def main(words: list[str]) -> None:
    """Print the table."""
    each = "--each" in words
    chosen = [word for word in words if not word.startswith("-")]
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, predict in (("rings", ring()), ("fresh", ring()), ("kernels", example_launch)):
        for row in map(json.loads, (HERE / f"{name}.jsonl").read_text().splitlines()):
            family = row["kernel"].replace(".", "_").split("_")[0]
            if "us" not in row or (chosen and family not in chosen):
                continue
            time = predict(row)
            if time is None:
                print(f"{row['kernel']}: not predicted, for Numba-CUDA is not installed")
                break
            found[family].append((row["us"], time))
            if each:
                print(f"{row['kernel']:26} {row['us']:9.1f} {time:9.1f} {time / row['us'] - 1:+7.1%}", flush=True)
    for family, pairs in found.items():
        print(summarize(family, pairs))
    print(summarize("all", [pair for pairs in found.values() for pair in pairs]))


def ring() -> Any:
    """Return the prediction for a row of `rings.jsonl`."""
    import wsemu

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rings.ptx"
        path.write_text(ptx(), encoding="utf-8")
        module = wsemu.load_ptx(path)
    return lambda row: predict_row(module[row["kernel"]], row)


def example_launch(row: dict[str, Any]) -> float | None:
    """Return the predicted microseconds of a launch of an example; None without Numba-CUDA."""
    from wsemu.launch.arguments import prepare_arguments
    from wsemu.launch.running import bind_launch
    from wsemu.launch.second_way import open_to
    from wsemu.model import settings
    from wsemu.model.errors import UnsupportedError
    from wsemu.model.launch_shape import configure
    from wsemu.timing.constants import H200
    from wsemu.timing.predict import predict

    kernel, grid, block, arguments = case(row)
    way = open_to(kernel, prepare_arguments(kernel, arguments), UnsupportedError(""))
    if way is None:
        return None
    given = prepare_arguments(way.kernel, way.arguments)
    bound, _ = bind_launch(way.kernel, configure(grid, block), given, settings.current())
    cta = grid[0] + 1 if isinstance(grid, tuple) else None
    return predict(bound, H200, registers=max(0, row["regs"]), cta=cta, in_place=True).seconds * 1e6


def case(row: dict[str, Any]) -> tuple[Any, Any, int, tuple[Any, ...]]:
    """Return kernel, grid, block and arguments of a row of `kernels.jsonl`."""
    import numpy as np

    family, name = row["kernel"].split(".", 1)
    if family == "saxpy":
        module = example("saxpy", **({"DMA_THREADS": row["dma"]} if "dma" in row else {}))
        kernel, block = next((k, b) for k, b in module.KERNELS if k.__name__ == name)
        n = row["n"]
        arrays = np.zeros(n, np.float32), np.zeros(n, np.float32)
        return kernel, 264, block, (n, np.float32(0.5), *arrays, row["it"])
    if family == "sgemv":
        narrow = {"COMPUTE_THREADS": 32, "STAGES": 8, "RING_TILE": 32} if row["rows"] == "32" else {}
        module = example("sgemv", **narrow)
        kernel, block = module.VERSIONS[name]
        n = row["n"]
        matrix = np.zeros((n, n), np.float32, order="F")
        arguments = (n, np.float32(0.75), matrix, np.zeros(n, np.float32), np.zeros(n, np.float32))
        return kernel, n // module.COMPUTE_THREADS, block, arguments
    if family == "stencil":
        module = example("stencil")
        x, y, z = row["x"], row["y"], row["z"]
        values = np.zeros((z + 2 * module.RADIUS, y + 2 * module.RADIUS, x + 2 * module.MARGIN), np.float32)
        versions = module.versions(values.strides[1])
        kernel, block = next((k, b) for k, b in versions if k.py_func.__name__ == name)
        return kernel, (x // module.TILE_X, y // module.TILE_Y), block, (values, np.zeros((z, y, x), np.float32))
    module = example("dgemm")
    kernel, block = next((k, b) for k, b in module.KERNELS if k.py_func.__name__ == name)
    n = row["n"]
    return kernel, (n // module.BLOCK, n // module.BLOCK), block, tuple(np.zeros((n, n)) for _ in range(3))


if __name__ == "__main__":
    main(sys.argv[1:])
