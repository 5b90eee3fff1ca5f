"""The patterns on a GPU, side by side with what they are compared with.

    python benchmarks/gpu.py [speed] [counters] [sanitizer] [sweeps]

Needs a GPU and Numba-CUDA (`pip install 'wsemu[gpu]'`), and no network.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from wsemu.backends import gpu_process, numba_cuda

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
REPEATS = 20
CTAS = 264
"""two for each multiprocessor of an H200"""
TILES = 2048
"""that a CTA works through"""


def example(name: str, **constants: Any) -> ModuleType:
    """A fresh copy of an example's module, with other constants in its source."""
    path = ROOT / "examples" / f"{name}.py"
    text = path.read_text()
    for constant, value in constants.items():
        lines = text.splitlines()
        at = [n for n, line in enumerate(lines) if line.startswith(f"{constant} = ")]
        assert len(at) == 1, f"{constant} is not assigned once in {path}"
        lines[at[0]] = f"{constant} = {value!r}"
        text = "\n".join(lines) + "\n"
    spec = importlib.util.spec_from_file_location(f"{name}_example", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def milliseconds(kernel: Any, grid: int, block: int, arguments: tuple[Any, ...], repeats: int = REPEATS) -> float:
    """The median time of a launch, by events on the device."""
    cuda = numba_cuda.numba_cuda()
    launch = numba_cuda.configured(kernel, grid, block)
    with numba_cuda.quiet():
        for _ in range(3):
            launch(*arguments)
    cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = cuda.event(), cuda.event()
        start.record()
        launch(*arguments)
        end.record()
        end.synchronize()
        times.append(cuda.event_elapsed_time(start, end))
    return float(np.median(times))


def copy_rate() -> float:
    """GB/s of a device-to-device copy, bytes read plus written."""
    cuda = numba_cuda.numba_cuda()
    a, b = (cuda.device_array(1 << 28, np.float64) for _ in range(2))
    times = []
    for _ in range(REPEATS):
        start, end = cuda.event(), cuda.event()
        start.record()
        b.copy_to_device(a)
        end.record()
        end.synchronize()
        times.append(cuda.event_elapsed_time(start, end))
    return 2 * 8 * (1 << 28) / float(np.median(times)) / 1e6


def saxpy_rates(intensity: int = 0, **constants: Any) -> dict[str, float]:
    """GB/s of the kernels of examples/saxpy.py: 12 bytes an element."""
    cuda, module = numba_cuda.numba_cuda(), example("saxpy", **constants)
    n = CTAS * TILES * module.TILE
    x, y = (cuda.to_device(np.ones(n, np.float32)) for _ in range(2))
    return {
        kernel.__name__: 12 * n / milliseconds(kernel, CTAS, block, (n, np.float32(2), x, y, intensity)) / 1e6
        for kernel, block in module.KERNELS
    }


def sgemv_rates(n: int) -> dict[str, float]:
    """GB/s of the versions of examples/sgemv.py: 4 bytes an element of the matrix."""
    cuda, module = numba_cuda.numba_cuda(), example("sgemv")
    matrix = cuda.device_array((n, n), np.float32, order="F")
    x, y = cuda.to_device(np.ones(n, np.float32)), cuda.to_device(np.zeros(n, np.float32))
    grid, arguments = n // module.COMPUTE_THREADS, (n, np.float32(1), matrix, x, y)
    return {
        name: 4 * n * n / milliseconds(kernel, grid, block, arguments) / 1e6
        for name, (kernel, block) in module.VERSIONS.items()
    }


def speed() -> dict[str, Any]:
    found: dict[str, Any] = {"copy": copy_rate(), "saxpy": saxpy_rates()}
    found["sgemv"] = {str(n): sgemv_rates(n) for n in (1024, 4096, 16384)}
    return found


def about() -> dict[str, str]:
    """Date, card and versions."""
    import numba

    import wsemu

    cuda = numba_cuda.numba_cuda()
    name = cuda.get_current_device().name
    return {
        "date": time.strftime("%Y-%m-%d"),
        "card": name.decode() if isinstance(name, bytes) else str(name),
        "numba-cuda": cuda.__version__ if hasattr(cuda, "__version__") else "",
        "numba": numba.__version__,
        "wsemu": wsemu.__version__,
    }


PARTS = {"speed": speed}


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    results = {"about": gpu_process.call(about, 120)}
    for part in chosen:
        results[part] = gpu_process.call(PARTS[part], 600)
        print(json.dumps({part: results[part]}, indent=1, default=str))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "gpu.json").write_text(json.dumps(results, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
