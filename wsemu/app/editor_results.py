"""The result of a check in the form that editors display: diagnostics, edits, costs of lines, kernels of a file.

Positions are those of the Language Server Protocol: lines and columns from 0, columns in units of UTF-16.  Everything
here is data for JSON.
"""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.evidence.cost_view import LineCost
from wsemu.launch.result import Report
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.version import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.cure import Cure
    from wsemu.model.finding import Finding, Site

Json = dict[str, Any]
ERROR, WARNING, INFORMATION = 1, 2, 3
"""severities of diagnostics in the protocol"""
_PTX_KERNEL = re.compile(r"^[^\n/]*\.entry\s+([\w$]+)", re.MULTILINE)
_CUDA_KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)|[\w:<>*&]|\s)*?\b((?!__launch_bounds__)\w+)\s*\("
)
_RAISED = re.compile(r'File "([^"\n]+)", line (\d+)')
"""location in a traceback of Python"""


class Kernel(NamedTuple):
    """A kernel of a source file."""

    name: str
    line: int
    """line of its name or decorator, from 0"""


@dataclass(slots=True)
class CheckResult:
    """A check of a file."""

    file: str
    """real path of the checked file"""
    texts: dict[str, str]
    """file -> its text when the check began"""
    document: Json
    """document that `wsemu check --format json` prints, as data"""
    costs: list[LineCost] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reports = [Report.model_validate(report) for report in self.document["reports"]]

    def path(self, name: str) -> str:
        """Return the real path of a file of the document, whose names are relative to the folder of the check."""
        return os.path.realpath(os.path.join(os.path.dirname(self.file), name))

    def text(self, path: str) -> str:
        """Return the text of a file as it was checked, or as it is now."""
        if path not in self.texts:
            try:
                self.texts[path] = Path(path).read_text(encoding="utf-8")
            except (OSError, ValueError):
                self.texts[path] = ""
        return self.texts[path]

    def position(self, path: str, line: int, column: int) -> Json:
        """Return a position of the protocol, of a line from 1 and a column in bytes from 1."""
        lines = self.text(path).split("\n")
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        before = source.encode()[: column - 1].decode(errors="ignore")
        return {"line": max(line - 1, 0), "character": len(before.encode("utf-16-le")) // 2}

    def site_range(self, site: Site) -> Json:
        """Return the range of a site."""
        path = self.path(site.file)
        return {
            "start": self.position(path, site.line, site.column),
            "end": self.position(path, site.end_line, site.end_column),
        }

    def diagnostics(self) -> dict[str, list[Json]]:
        """Return the diagnostics by file; the checked file always has an entry."""
        found: dict[str, list[Json]] = {self.file: []}
        for number, report in enumerate(self.reports):
            for place, finding in enumerate(report.findings):
                path, entry = self._finding_diagnostic(report, finding)
                entry["data"] = {"report": number, "finding": place}
                if not any(_is_same_diagnostic(entry, known) for known in found.setdefault(path, [])):
                    found[path].append(entry)
            if report.verdict == "incomplete":
                found[self.file].append(self._undecided_diagnostic(report))
        for path, entry in self._message_diagnostics():
            found.setdefault(path, []).append(entry)
        return found

    def _finding_diagnostic(self, report: Report, finding: Finding) -> tuple[str, Json]:
        site = next((site for site in finding.sites if site.primary), None)
        path = self.path(site.file) if site else self.file
        lines = [finding.message, *(f"note: {note}" for note in finding.notes)]
        lines += [f"help: {finding.help}"] if finding.help else []
        related = [
            {"location": {"uri": to_uri(self.path(s.file)), "range": self.site_range(s)}, "message": s.text or "here"}
            for s in finding.sites if s is not site
        ]  # fmt: skip
        return path, {
            "range": self.site_range(site) if site else _line_range(0),
            "severity": ERROR if finding.severity == "error" else WARNING,
            "code": finding.code,
            "codeDescription": {"href": f"{DOCS}codes/{finding.code}.html"},
            "source": "wsemu",
            "message": "\n".join(lines) + f"\n(kernel `{report.kernel}`)",
            "relatedInformation": related,
        }

    def _undecided_diagnostic(self, report: Report) -> Json:
        kernels = (
            kernel.line for kernel in defined_kernels(self.file, self.text(self.file)) if kernel.name == report.kernel
        )
        why = "; ".join(report.notes) or ", ".join(report.reasons)
        return {
            "range": _line_range(next(kernels, 0)), "severity": INFORMATION, "source": "wsemu", "code": "incomplete",
            "message": f"`{report.kernel}` is not decided: {why}", "relatedInformation": [],
        }  # fmt: skip

    def _message_diagnostics(self) -> Iterator[tuple[str, Json]]:
        """Yield the messages that are errors or have a location, by file; the traceback of an exception gives its
        location."""
        messages = self.document["messages"]
        for message, following in zip(messages, [*messages[1:], {"text": ""}], strict=False):
            is_error = message["level"] == "error"
            if not (is_error or message["file"]):
                continue
            text, file, line = message["text"], message["file"], message["line"] or 1
            raised = _RAISED.findall(following["text"]) if is_error and not file else []
            if raised:
                file, line = raised[-1][0], int(raised[-1][1])
                text = f"{text} {following['text'].strip().splitlines()[-1]}"
            entry: Json = {
                "range": _line_range(line - 1), "severity": ERROR if is_error else WARNING, "source": "wsemu",
                "message": text, "relatedInformation": [],
            }  # fmt: skip
            yield self.path(file) if file else self.file, entry

    def actions(self, path: str, first: int, last: int, current: str) -> list[Json]:
        """Return the proven fixes of findings on these lines of a file, from 0, if its current text is the checked
        one."""
        if current != self.text(path):
            return []
        found: list[Json] = []
        for report in self.reports:
            for cure in report.trials.cures if report.trials else ():
                findings = [report.findings[n] for n in cure.findings if n < len(report.findings)]
                if not (cure.is_proven and cure.changes and self._touches(findings, path, first, last)):
                    continue
                edits = self._edits(cure)
                title = f"{cure.says} ({cure.outcome})"
                if edits and title not in {action["title"] for action in found}:
                    preferred = not found
                    found.append(
                        {"title": title, "kind": "quickfix", "isPreferred": preferred, "edit": {"changes": edits}}
                    )
        return found

    def _touches(self, findings: list[Finding], path: str, first: int, last: int) -> bool:
        sites = (site for finding in findings for site in finding.sites)
        return any(self.path(s.file) == path and s.line - 1 <= last and s.end_line - 1 >= first for s in sites)

    def _edits(self, cure: Cure) -> dict[str, list[Json]]:
        edits: dict[str, list[Json]] = {}
        for change in cure.changes:
            path = self.path(change.file)
            span = {
                "start": self.position(path, change.line, change.column),
                "end": self.position(path, change.end_line, change.end_column),
            }
            edits.setdefault(to_uri(path), []).append({"range": span, "newText": change.text})
        return edits

    def hover_text(self, path: str, line: int) -> str:
        """Return the costs of a line, from 0, as Markdown; empty if it has none."""
        cost = next((cost for cost in self.costs if (cost.file, cost.line) == (path, line + 1)), None)
        if cost is None:
            return ""
        rows = [("executions by warps", cost.executions, 0)]
        if cost.wavefronts:
            rows.append(("shared memory wavefronts", cost.wavefronts, cost.ideal_wavefronts))
        if cost.sectors:
            rows.append(("global memory sectors", cost.sectors, cost.ideal_sectors))
        table = [f"| {name} | {count:,} | {f'{ideal:,}' if ideal else ''} |" for name, count, ideal in rows]
        return "\n".join(["| wsemu | count | minimum |", "|---|---:|---:|", *table])

    def verdicts(self) -> dict[str, str]:
        """Return the verdict of each kernel: the worst one of its launches."""
        rank = ("verified", "incomplete", "failed")
        found: dict[str, str] = {}
        for report in self.reports:
            found[report.kernel] = max(found.get(report.kernel, "verified"), report.verdict, key=rank.index)
        return found


def _is_same_diagnostic(one: Json, other: Json) -> bool:
    return all(one[name] == other.get(name) for name in ("range", "code", "message"))


def _line_range(line: int) -> Json:
    return {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 1000}}


def to_uri(path: str) -> str:
    """Return the URI of a file."""
    return Path(path).as_uri()


def read_result(file: str, texts: dict[str, str], output: str, costs: str) -> CheckResult:
    """Return the result of a check from its output and its costs; raise ValueError if it printed no document."""
    lines = [LineCost(*entry) for entry in json.loads(costs or "[]")]
    document = json.loads(output)
    if not isinstance(document, dict) or "reports" not in document:
        raise ValueError("the check printed no document")
    return CheckResult(file, texts, document, lines)


def defined_kernels(file: str, text: str) -> list[Kernel]:
    """Return the kernels that a source file defines."""
    if file.endswith(".py"):
        return [*_python_kernels(text)]
    pattern = _PTX_KERNEL if file.endswith(".ptx") else _CUDA_KERNEL if file.endswith((".cu", ".cuh")) else None
    if pattern is None:
        return []
    return [Kernel(match[1], text.count("\n", 0, match.start(1))) for match in pattern.finditer(text)]


def _python_kernels(text: str) -> Iterator[Kernel]:
    """Yield the functions that `jit` decorates, except device functions."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_is_kernel(decorator) for decorator in node.decorator_list):
            yield Kernel(node.name, node.decorator_list[0].lineno - 1)


def _is_kernel(decorator: ast.expr) -> bool:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    is_device = any(k.arg == "device" and getattr(k.value, "value", True) for k in keywords)
    return name == "jit" and not is_device
