"""Predictions as data: times, bounds, occupancy, waits."""

from __future__ import annotations

import contextlib
import os
from os import PathLike
from pathlib import Path

from wsemu.model.errors import UsageError
from wsemu.model.finding import Extent
from wsemu.model.record import Record


class Waits(Record):
    """Waits of some warps, or of all warps at a line of the source."""

    reasons: dict[str, float]
    """share of time by reason (`model.wait_reasons`), the largest first"""
    share: float
    """share of the time of all warps"""
    warps: list[int] = []
    file: str = ""
    line: int = 0
    text: str = ""


class Occupancy(Record):
    """Co-resident CTAs and warps of a multiprocessor."""

    ctas: int
    warps: int
    most_warps: int
    limited_by: str
    waves: float
    """number of waves of CTAs in the grid"""
    shared_bytes: int
    """shared memory of a CTA in bytes"""
    registers: int
    """registers of a thread; 0: unknown"""


class Prediction(Record):
    """A predicted time of a launch: from a model, not a measurement."""

    kernel: str
    grid: Extent
    block: Extent
    device: str
    measured_constants: bool
    """true if the constants were measured on a GPU of this type"""
    source: str
    """publication or measurement of the constants"""
    microseconds: float
    low: float
    high: float
    """upper end of the range that contains 9 out of 10 launches of this kind"""
    resolution: float = 0.0
    """versions whose predicted times differ by at most this share are not distinguished"""
    cycles: float
    bound_by: str
    """`DRAM`, `L2`, `shared memory`, `issue`, `tensor cores`, a pipe, or `latency: ...`"""
    use: dict[str, float]
    """resource -> its utilization, 0 to 1"""
    occupancy: Occupancy
    reasons: dict[str, float]
    """reasons why warps do not issue, over all warps"""
    roles: list[Waits]
    lines: list[Waits]
    dram_bytes: float
    """bytes transferred between L2 and DRAM, both directions together"""
    hidden: float | None = None
    """share of time in which computing warps do not wait for copies; None: no warps copy for others"""
    accuracy: str
    not_modeled: list[str]
    notes: list[str] = []
    version: str = ""
    """version of the model and of the constants"""

    def ratio_to(self, path: str | PathLike[str]) -> float:
        """Return this time divided by that of the prediction stored in a JSON file.

        If the file does not exist, it is written with this prediction, and the result is 1. Raise UsageError if the
        stored prediction is of another kernel, GPU or version of the model: such times are not comparable. Raise it
        also if the file cannot be read or written.
        """
        file = Path(path)
        if not file.exists():
            self._store(file)
            return 1.0
        try:
            stored = Prediction.model_validate_json(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"`{file}` is not a stored prediction: {str(error).splitlines()[0]}") from None
        for name in ("kernel", "device", "version", "accuracy"):
            old, new = getattr(stored, name), getattr(self, name)
            if old != new:
                raise UsageError(f"`{file}` has {name} `{old}`, not `{new}`: delete it to store the new prediction")
        if not stored.microseconds > 0:
            raise UsageError(f"`{file}` is not a stored prediction: it has {stored.microseconds} microseconds")
        return self.microseconds / stored.microseconds

    def _store(self, file: Path) -> None:
        """Write this prediction to a file, which is complete at each moment: tests may run in several processes."""
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            temporary.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
            temporary.replace(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise UsageError(f"`{file}` cannot be written: {error.strerror}") from None

    def _repr_html_(self) -> str:
        """Return the prediction as HTML for a notebook."""
        from wsemu.report.html import prediction_fragment

        return prediction_fragment(self)

    def __str__(self) -> str:
        from wsemu.report.timing import format_prediction

        return "\n".join(format_prediction(self))
