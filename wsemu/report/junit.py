"""`--format junit`: launches as test cases, for CI services that read JUnit's XML.

A failed launch is a failure.  An incomplete launch is an error, and so is a program that fails.  The suite has the name
of the program, and the class of a test case is the name of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from wsemu.report import diagnostic
from wsemu.report.collected import report_cures, strip_controls
from wsemu.report.terminal import WIDTH, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding
    from wsemu.report.collected import Collector, Launch


def document(collected: Collector, exit_code: int) -> str:
    """Return the XML of all launches of a program."""
    cases = [_case(number, launch) for number, launch in enumerate(collected.launches, 1)]
    cases += [_program_error(message.text) for message in collected.messages if message.level == "error"]
    if exit_code in (1, 2, 4) and not any("<failure" in case or "<error" in case for case in cases):
        cases.append(_program_error(f"exit code {exit_code}"))
    name = quoteattr(_text(collected.program or "wsemu"))
    failures, errors = (sum(f"<{kind}" in case for case in cases) for kind in ("failure", "error"))
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
    said = "\n".join(f"{message.level}: {message.text}" for message in collected.messages if message.level != "error")
    output = [f"    <system-out>{escape(_text(said))}</system-out>"] if said else []
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="wsemu" {counts}>',
        f"  <testsuite name={name} {counts}>",
        *cases,
        *output,
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(number: int, launch: Launch) -> str:
    report = launch.report
    shape = f"grid {diagnostic.extent(report.grid)}, block {diagnostic.extent(report.block)}"
    attributes = f"classname={quoteattr(_text(report.kernel))} name={quoteattr(f'launch {number}: {shape}')}"
    inside = [*_results(report, launch)]
    if not inside:
        return f"    <testcase {attributes}/>"
    return "\n".join([f"    <testcase {attributes}>", *inside, "    </testcase>"])


def _results(report: Report, launch: Launch) -> Iterator[str]:
    """Yield the elements of a test case: none if the launch is verified without a warning."""
    errors = [finding for finding in launch.shown if finding.severity == "error"]
    warnings = [finding for finding in launch.shown if finding.severity != "error"]
    if report.verdict == "failed":
        first = errors[0] if errors else None
        codes = ", ".join(dict.fromkeys(finding.code for finding in report.errors))
        title = f"{first.code}: {first.message}" if first else f"{codes}: in an earlier test case, or beyond `--limit`"
        text = "\n\n".join(_diagnostic_text(report, finding) for finding in errors)
        yield _element("failure", first.code if first else "failed", title, text)
    elif report.verdict == "incomplete":
        why = "; ".join(report.notes) or ", ".join(report.reasons) or "not decided"
        yield _element("error", "incomplete", why, plain(diagnostic.summary_lines(report, WIDTH)))
    if warnings:
        text = "\n\n".join(_diagnostic_text(report, finding) for finding in warnings)
        yield f"      <system-out>{escape(_text(text))}</system-out>"


def _diagnostic_text(report: Report, finding: Finding) -> str:
    """Return a whole finding as text, with the edits that remove it."""
    return plain(diagnostic.finding_lines(finding, WIDTH, report_cures(report, finding)))


def _program_error(text: str) -> str:
    inside = _element("error", "program", text.partition("\n")[0], text)
    return f'    <testcase classname="program" name="program">\n{inside}\n    </testcase>'


def _element(kind: str, type_: str, message: str, text: str) -> str:
    attributes = f"type={quoteattr(type_)} message={quoteattr(_text(message))}"
    return f"      <{kind} {attributes}>{escape(_text(text))}</{kind}>"


def _text(text: str) -> str:
    """Return text without characters that XML or a terminal does not allow."""
    return strip_controls(text)
