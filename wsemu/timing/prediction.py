"""Predictions as data: times, bounds, occupancy, waits."""

from __future__ import annotations

from wsemu.model.finding import Extent
from wsemu.model.record import Record


class Waits(Record):
    """Waits of some warps, or of all warps at a line of the source."""

    reasons: dict[str, float]
    """part of the time by reason (`model.wait_reasons`), the largest first"""
    share: float
    """part of the time of all warps"""
    warps: list[int] = []
    file: str = ""
    line: int = 0
    text: str = ""


class Occupancy(Record):
    """CTAs and warps that a multiprocessor has at once."""

    ctas: int
    warps: int
    most_warps: int
    limited_by: str
    waves: float
    """waves of CTAs that the grid takes"""
    shared_bytes: int
    """bytes of shared memory of a CTA"""
    registers: int
    """registers of a thread; 0: unknown"""


class Prediction(Record):
    """A predicted time of a launch: from a model, not a measurement."""

    kernel: str
    grid: Extent
    block: Extent
    device: str
    measured_constants: bool
    """true if the constants were measured on such a GPU"""
    source: str
    """publication or measurement that the constants come from"""
    microseconds: float
    low: float
    high: float
    """the range in which 9 of 10 launches of its kind lie"""
    cycles: float
    bound_by: str
    """`DRAM`, `L2`, `shared memory`, `issue`, `tensor cores`, a pipe, or `latency: ...`"""
    use: dict[str, float]
    """resource -> the part of it that is in use"""
    occupancy: Occupancy
    reasons: dict[str, float]
    """why warps do not issue, of all of them"""
    roles: list[Waits]
    lines: list[Waits]
    dram_bytes: float
    """bytes between L2 and DRAM, both directions together"""
    hidden: float | None = None
    """the part of its time in which warps that compute do not wait for copies; None: no warps copy for others"""
    accuracy: str
    not_modeled: list[str]
    notes: list[str] = []

    def _repr_html_(self) -> str:
        """Return the prediction as HTML for a notebook."""
        from wsemu.report.html import prediction_fragment

        return prediction_fragment(self)

    def __str__(self) -> str:
        from wsemu.report.timing import format_prediction

        return "\n".join(format_prediction(self))
