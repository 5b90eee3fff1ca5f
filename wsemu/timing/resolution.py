"""The resolution of predicted times: two of them must differ by this share to be distinguished.

The differences come from pairs of versions that were measured on an H200. Of pairs beyond the resolution, 90% are
measured in the predicted order. `python benchmarks/time_device.py resolve ROWS.json` prints the differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.timing.predict import Predicted

RINGS, PRODUCTS, CLUSTERS, OTHERS = "rings and pipelines", "products on tensor cores", "clusters", "other kernels"
RESOLUTION = {RINGS: 0.02, PRODUCTS: 0.07, CLUSTERS: 0.09, OTHERS: 0.5}
"""class of launches -> its resolution; clusters have too few pairs, and therefore the resolution of all pairs"""
UNKNOWN = OTHERS
"""class that stands for predictions without measured pairs: other GPUs, Python kernels without Numba-CUDA's PTX"""
BEST, EQUAL = "best", "not distinguished"
"""marks of the best version, and of versions that the model does not distinguish from it"""


def classify_launch(found: Predicted) -> str:
    """Return the class of a launch."""
    kinds = {one.kind for one in found.code.instructions}
    if found.stream.member is not None:
        return CLUSTERS
    if kinds & {"product", "matrix"}:
        return PRODUCTS
    return RINGS if kinds & {"bar_arrive", "group_wait", "events"} else OTHERS


def mark_versions(times: Sequence[float], resolutions: Sequence[float], best: int) -> list[str]:
    """Return the mark of each version: BEST, EQUAL if the model does not distinguish it from that one, or nothing."""
    marks = [
        EQUAL if time <= times[best] * (1 + max(resolution, resolutions[best])) else ""
        for time, resolution in zip(times, resolutions, strict=True)
    ]
    marks[best] = BEST
    return marks


def format_mark(mark: str, resolution: float) -> str:
    """Return a mark as text at the end of a row of a table."""
    return {BEST: "  <- best", EQUAL: f"  within {resolution:.0%}: {EQUAL}"}.get(mark, "")
