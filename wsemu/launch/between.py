"""Reports on the order of launches: each finding is a report of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.between.findings import conflict_finding, fence_note, undefined_finding, violation_finding
from wsemu.evidence.suppressions import accept_at_lines
from wsemu.launch.hooks import observers
from wsemu.launch.result import CheckFailed, Report
from wsemu.model import settings
from wsemu.model.codes import CHECKER_OF, CODES
from wsemu.model.finding import BETWEEN

if TYPE_CHECKING:
    from wsemu.between.graphs import Violation
    from wsemu.between.session import Conflict, Undefined
    from wsemu.model.finding import Finding, Verdict


def report_conflict(conflict: Conflict) -> None:
    """Report two operations that nothing orders; the report is `incomplete` if the bytes that one of them touches are
    unknown."""
    chosen = settings.current()
    pageable = conflict.earlier.pageable or conflict.later.pageable
    if pageable and conflict.code == "host-race" and chosen.pageable == "usual":
        return
    finding = conflict_finding(conflict)
    if conflict.only_fence:
        _report_fence(conflict)
    elif conflict.certain:
        report_finding(finding)
    elif CHECKER_OF[finding.code] in chosen.checkers:
        note = f"{finding.message}: the trace is too long, or ends early, to determine which bytes are accessed"
        deliver(_report("incomplete", [], [note], ["unknown accesses"]))


def _report_fence(conflict: Conflict) -> None:
    """Report a read that is ordered only by a fence before a trigger: a note, or `incomplete` with `strict`."""
    chosen = settings.current()
    if CHECKER_OF[conflict.code] in chosen.checkers:
        reasons = ["fence before a trigger"] if chosen.strict else []
        deliver(_report("incomplete" if reasons else "verified", [], [fence_note(conflict)], reasons))


def report_undefined(undefined: Undefined) -> None:
    """Report a use of bytes that nothing has written."""
    report_finding(undefined_finding(undefined))


def report_violation(violation: Violation) -> None:
    """Report a call that a capture forbids."""
    report_finding(violation_finding(violation))


def report_finding(finding: Finding) -> None:
    """Report a finding between launches unless it is suppressed or its checker is disabled."""
    chosen = settings.current()
    if CHECKER_OF[finding.code] not in chosen.checkers:
        return
    strict = chosen.strict and CODES[finding.code].strict
    if finding.code in chosen.fail_on or strict or (chosen.strict and finding.severity == "warning"):
        finding = finding.model_copy(update={"severity": "error"})
    accepted = accept_at_lines(finding, chosen)
    verdict: Verdict = "failed" if finding.severity == "error" and accepted is None else "verified"
    report = _report(verdict, [] if accepted else [finding], [], [])
    deliver(report if accepted is None else report.model_copy(update={"suppressed": [accepted]}))


def _report(verdict: Verdict, findings: list[Finding], notes: list[str], reasons: list[str]) -> Report:
    return Report(
        kernel=BETWEEN, grid=(1, 1, 1), block=(1, 1, 1), verdict=verdict, findings=findings, notes=notes,
        reasons=reasons, arch=settings.current().arch,
    )  # fmt: skip


def deliver(report: Report) -> None:
    """Pass a report to the observers; if there are none, raise CheckFailed for a failed one."""
    for observer in observers:
        observer(report)
    if not observers and report.verdict == "failed":
        raise CheckFailed(report)
