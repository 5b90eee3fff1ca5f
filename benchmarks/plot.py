"""Plot figures 8 and 9 of the CudaDMA paper from new measurements: docs/*.svg from benchmarks/results/gpu_sweeps.json.

python benchmarks/plot.py          needs matplotlib
"""

from __future__ import annotations

import json
from pathlib import Path

from requirements import require

ROOT = Path(__file__).parents[1]
FLOPS = 2
"""floating-point operations of a x + y, and of each additional multiply-add"""


def figure(name: str, title: str, across: str, series: dict[str, dict[float, float]]) -> None:
    """Draw lines of GB/s over a logarithmic axis."""
    from matplotlib import pyplot

    chart, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for label, points in series.items():
        axes.plot(list(points), list(points.values()), marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set(title=title, xlabel=across, ylabel="GB/s", ylim=(0, None))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend()
    chart.savefig(ROOT / "docs" / f"{name}.svg", metadata={"Date": None})


def main() -> None:
    require("matplotlib")
    from matplotlib import pyplot

    pyplot.switch_backend("svg")
    pyplot.rcParams["svg.hashsalt"] = "wsemu"  # so that equal figures give equal files
    found = json.loads((ROOT / "benchmarks" / "results" / "gpu_sweeps.json").read_text())
    card = found["about"]["card"]
    by_kernel: dict[str, dict[float, float]] = {}
    for intensity, rates in found["intensity"].items():
        for kernel, rate in rates.items():
            by_kernel.setdefault(kernel, {})[FLOPS * (1 + int(intensity))] = rate
    figure("saxpy_intensity", f"SAXPY over compute intensity, {card}", "operations per element (12 bytes)", by_kernel)
    warps = {kernel: {float(n): rate for n, rate in rates.items()} for kernel, rates in found["warps"].items()}
    figure("saxpy_warps", f"SAXPY over DMA warps of a CTA, {card}", "DMA warps of a CTA", warps)


if __name__ == "__main__":
    main()
