"""The certificates of a program's launches, for `wsemu check --certificate FILE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from wsemu.app.exit_codes import INCOMPLETE, USAGE
from wsemu.launch.certificate import BeyondTheoremError, write_certificate
from wsemu.launch.hooks import traceable

if TYPE_CHECKING:
    from types import TracebackType

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.outcome import Tracer
    from wsemu.report.sink import Sink


class Certificates:
    """Gathers a certificate for each verified launch inside a `with` block, and writes them into a file at its end."""

    def __init__(self, file: str, printer: Sink) -> None:
        self._file, self._printer = file, printer
        self._texts: list[str] = []
        self._beyond = self._launches = 0
        self.exit_code = 0
        """3 if a verified launch has no certificate, 2 if the file cannot be written"""

    def __enter__(self) -> Self:
        traceable.append(self._look)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        traceable.remove(self._look)
        if error is None:
            self._write()

    def _look(self, report: Report, places: Places, trace_of: Tracer) -> None:
        self._launches += 1
        if report.verdict != "verified":
            return
        try:
            self._texts.append(write_certificate(report, places, trace_of))
        except BeyondTheoremError as beyond:
            self._beyond += 1
            self.exit_code = INCOMPLETE
            self._printer.text(f"no certificate of `{report.kernel}`: {beyond}", "warning")

    def _write(self) -> None:
        if not self._texts:
            if self._launches and not self._beyond:
                self._printer.text("no certificate: no launch is verified", "warning")
            return
        try:
            with open(self._file, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(self._texts)
        except OSError as error:
            self.exit_code = USAGE
            self._printer.text(f"error: `{self._file}` cannot be written: {error.strerror}", "error")
            return
        number = len(self._texts)
        noun = "certificate" if number == 1 else "certificates"
        self._printer.text(f"{number} {noun} in `{self._file}`: `wsemu-certify {self._file}` judges them")
