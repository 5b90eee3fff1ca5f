"""`wsemu baseline FILE`: accept the present findings of a program, and read and write the file that lists them.

Each finding has a line of its own, so that two branches merge.  A fingerprint has no line number: it survives edits
elsewhere in the file, and changes with the source text of the finding.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.evidence.identity import finding_fingerprint
from wsemu.model.baseline import Baseline, BaselineEntry
from wsemu.model.codes import CHECKER_OF
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UsageError
from wsemu.model.own_files import read_regular
from wsemu.model.version import __version__
from wsemu.report.diagnostic import display_path, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wsemu.launch.result import Report
    from wsemu.report.sink import Sink

FILE = "wsemu-baseline.json"
"""file of `wsemu baseline` without `--baseline`"""
FORMAT = 1
LARGEST = 64 << 20
"""maximum bytes of a baseline file"""
_TEXTS = ("fingerprint", "code", "kernel", "file", "text")


def read_baseline(file: str) -> Baseline:
    """Return the baseline in a file; raise UsageError, which names the fault, if the file is invalid."""
    try:
        text = read_regular(file, LARGEST).decode()
    except UsageError as error:
        remedy = f"write it by `wsemu baseline --baseline {file} PROGRAM`"
        raise UsageError(f"{error}: {remedy}") from None
    except ValueError:
        raise UsageError(f"`{file}` does not hold a baseline: it is not UTF-8") from None
    entries = _parse_baseline(text, file)
    lines = text.split("\n")
    numbers = {entry.fingerprint: _line_number(lines, entry.fingerprint) for entry in entries}
    return Baseline(file, {entry.fingerprint: entry for entry in entries}, numbers)


def _parse_baseline(text: str, file: str) -> list[BaselineEntry]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"`{file}` does not hold a baseline: it is not JSON ({error})") from None
    if not isinstance(data, dict) or data.get("baseline") != FORMAT or not isinstance(data.get("findings"), list):
        remedy = "write it again by `wsemu baseline`"
        raise UsageError(f'`{file}` does not hold a baseline: it needs `"baseline": {FORMAT}` and `findings`: {remedy}')
    return [_parse_entry(entry, number, file) for number, entry in enumerate(data["findings"], 1)]


def _parse_entry(entry: Any, number: int, file: str) -> BaselineEntry:
    known = isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in _TEXTS)
    times = entry.get("times", 1) if known else 0
    if not known or not isinstance(times, int) or isinstance(times, bool) or times < 1:
        expected = f"an object with {', '.join(_TEXTS)}, and `times` from 1"
        raise UsageError(f"`{file}` does not hold a baseline: finding {number} is not {expected}")
    texts = {name: entry[name] for name in _TEXTS}
    return BaselineEntry(**texts, times=times, program=str(entry.get("program", "")))


def _line_number(lines: list[str], fingerprint: str) -> int:
    quoted = json.dumps(fingerprint)
    return next((number for number, line in enumerate(lines, 1) if quoted in line), 1)


def format_baseline(entries: Iterable[BaselineEntry]) -> str:
    """Return the text of a baseline file: a line for each finding, in the order of files and codes."""
    ordered = sorted(entries, key=lambda entry: (entry.program, entry.file, entry.code, entry.fingerprint))
    lines = ",\n".join(json.dumps(entry._asdict()) for entry in ordered)
    head = f'{{"wsemu": {json.dumps(__version__)}, "baseline": {FORMAT}, "findings": ['
    return f"{head}\n{lines}\n]}}\n" if lines else f"{head}]}}\n"


@dataclass(slots=True)
class Gathering:
    """The findings of the launches of a program, for its baseline."""

    program: str
    entries: dict[str, BaselineEntry] = field(default_factory=dict)
    incomplete: int = 0

    def observe(self, report: Report) -> None:
        """Add the findings of a launch."""
        self.incomplete += report.verdict == "incomplete"
        counts: Counter[str] = Counter()
        for finding in report.findings:
            fingerprint = finding_fingerprint(report.kernel, finding)
            counts[fingerprint] += 1
            site = next((site for site in finding.sites if site.primary), None)
            file = display_path(site.file).replace(os.sep, "/") if site else ""
            known = self.entries.get(fingerprint)
            times = max(counts[fingerprint], known.times if known else 0)
            texts = (fingerprint, finding.code, report.kernel, file, _entry_text(str(finding)))
            self.entries[fingerprint] = BaselineEntry(*texts, times, self.program)


def _entry_text(text: str) -> str:
    """Return the text of a finding without its line number, which changes with edits."""
    head, colon, message = text.partition(": ")
    name, _, number = head.rpartition(":")
    return f"{name if number.isdecimal() else head}{colon}{message}"


def write_baseline(file: str, found: Gathering, printer: Sink) -> None:
    """Write the findings of a program into a baseline file, which keeps those of other programs."""
    before: Mapping[str, BaselineEntry] = read_baseline(file).entries if os.path.exists(file) else {}
    kept = {key: entry for key, entry in before.items() if entry.program != found.program and key not in found.entries}
    try:
        Path(file).write_text(format_baseline([*kept.values(), *found.entries.values()]), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write `{file}`: {error.strerror or error}") from None
    new = len(found.entries.keys() - before.keys())
    gone = sum(entry.program == found.program for key, entry in before.items() if key not in found.entries)
    changes = f" ({new} new, {gone} gone)" if before else ""
    accepted = f"accepts {plural(len(found.entries), 'finding')} of {found.program}{changes}"
    printer.text(f"{file} {accepted}: check with `--baseline {file}`", "strong")
    if found.incomplete:
        undecided = plural(found.incomplete, "launch is", "launches are")
        printer.text(f"{undecided} incomplete: a baseline accepts findings alone", "warning")


@dataclass(slots=True)
class BaselineUse:
    """The entries of a baseline that accepted findings of a program's launches."""

    baseline: Baseline
    used: set[int] = field(default_factory=set)
    """lines of the file whose entries accepted a finding"""
    kernels: set[str] = field(default_factory=set)

    def observe(self, report: Report) -> None:
        """Record the findings of a launch that the baseline accepts."""
        self.used.update(entry.line for entry in report.suppressed if entry.kind == "baseline")
        if report.verdict != "incomplete":
            self.kernels.add(report.kernel)

    def stale_text(self, program: str, checkers: frozenset[str]) -> str:
        """Return a note on accepted findings of a program that no longer occur; empty if there are none."""
        gone = [
            entry
            for key, entry in self.baseline.entries.items()
            if entry.program == program
            and entry.kernel in self.kernels
            and self.baseline.lines[key] not in self.used
            and CHECKER_OF.get(entry.code) in checkers
        ]
        if not gone:
            return ""
        what = f"{plural(len(gone), 'finding')} of {self.baseline.file}"
        return f"{what} no longer occur{'s' * (len(gone) == 1)}: run `wsemu baseline` again"
