"""Findings that are known and accepted: `# wsemu: ignore[race] reason` in the source (`//` in C++ and PTX), or
`[[tool.wsemu.suppress]]`.

A comment counts for findings with a site on its line.  A suppression that matches nothing, although its code was
checked and its function ran, is reported, because it would hide the next bug there.
"""

from __future__ import annotations

import ast
import fnmatch
import functools
import linecache
import os
import re
from typing import TYPE_CHECKING

from wsemu.evidence.identity import finding_fingerprint
from wsemu.model.baseline import Acceptance
from wsemu.model.codes import CHECKER_OF, finding_codes
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.model.finding import BETWEEN, Suppressed, Unused
from wsemu.model.suppression import Suppression

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.evidence.places import Places
    from wsemu.model.baseline import Baseline
    from wsemu.model.finding import Finding, Site
    from wsemu.model.program import Span
    from wsemu.model.settings import Settings

_COMMENT = re.compile(r"(?:#|//)\s*wsemu:\s*ignore\b\s*(?:\[([^\]]*)\])?:?\s*(.*)$")


def apply_suppressions(
    findings: list[Finding], places: Places, settings: Settings
) -> tuple[list[Finding], list[Suppressed], list[Unused]]:
    """Return the findings that remain, the findings that a suppression accepts, and the useless suppressions of
    executed code."""
    kernel = places.program.name
    findings, known_today = apply_baseline(findings, kernel, settings.baseline)
    commented, void = _comment_suppressions(places.program.spans)
    known = [*commented, *settings.suppressions]
    if not known:
        return findings, known_today, void
    kept: list[Finding] = []
    left_out: list[Suppressed] = [*known_today]
    for finding in findings:
        by = next((s for s in known if accepts(s, finding, kernel)), None)
        if by is None:
            kept.append(finding)
        else:
            file, line = by.written
            left_out.append(Suppressed(finding=finding, reason=by.reason, file=file, line=line, kind=by.kind))
    if places.outcome.status != "done":  # the findings of the rest of the launch are unknown
        return kept, left_out, void
    used = {(entry.file, entry.line) for entry in left_out}
    idle = [s for s in known if s.written not in used and _was_checked(s, places, settings)]
    return kept, left_out, [*void, *(_unused_suppression(s) for s in idle)]


def apply_baseline(
    findings: list[Finding], kernel: str, baseline: Baseline | None
) -> tuple[list[Finding], list[Suppressed]]:
    """Return the new findings, and the findings that a baseline accepts."""
    if baseline is None:
        return findings, []
    acceptance, codes = Acceptance.of(baseline), baseline.codes
    kept: list[Finding] = []
    accepted: list[Suppressed] = []
    for finding in findings:
        fingerprint = finding_fingerprint(kernel, finding) if finding.code in codes else ""
        if fingerprint and acceptance.accepts(fingerprint):
            reason = f"in the baseline {os.path.basename(baseline.file)}"
            line = baseline.lines[fingerprint]
            accepted.append(Suppressed(finding=finding, reason=reason, file=baseline.file, line=line, kind="baseline"))
        else:
            kept.append(finding)
    return kept, accepted


def accept_at_lines(finding: Finding, settings: Settings) -> Suppressed | None:
    """Return a finding of the host's lines as accepted if a suppression accepts it, None otherwise."""
    _, accepted = apply_baseline([finding], BETWEEN, settings.baseline)
    if accepted:
        return accepted[0]
    known = [*settings.suppressions]
    for site in finding.sites:
        comments = (one for one in _comments(_text(site.file)) if not one.problem and one.line == site.line)
        known += [Suppression(c.codes, c.reason, (site.file, c.line), "source", site.file, c.line) for c in comments]
    by = next((one for one in known if accepts(one, finding, "")), None)
    if by is None:
        return None
    file, line = by.written
    return Suppressed(finding=finding, reason=by.reason, file=file, line=line, kind=by.kind)


def accepts(suppression: Suppression, finding: Finding, kernel: str) -> bool:
    """Return whether a finding of a launch of `kernel` is one that the user accepts."""
    return finding.code in suppression.codes and any(
        _matches_site(suppression, site, kernel) for site in finding.places
    )


def _matches_site(suppression: Suppression, site: Site, kernel: str) -> bool:
    if not (site.primary or site.warp is not None):  # a declaration or a call: the finding is not located there
        return False
    line, array, function = suppression.line, suppression.array, suppression.function
    return (
        _matches(site.file, suppression.file)
        and (line is None or site.line <= line <= site.end_line)
        and (array is None or site.array == array)
        and (function is None or function in (kernel, _enclosing_function(site.file, site.line).name))
    )


def _unused_suppression(suppression: Suppression) -> Unused:
    codes = ", ".join(sorted(suppression.codes))
    file, line = suppression.written
    return Unused(file=file, line=line, message=f"the suppression of {codes} matches nothing: remove it")


def _was_checked(suppression: Suppression, places: Places, settings: Settings) -> bool:
    """Return whether a launch could have had a finding that this suppression accepts."""
    if not {CHECKER_OF[code] for code in suppression.codes} <= settings.checkers:
        return False
    if suppression.kind == "source":
        return True  # `_comment_suppressions` returns only those of functions that ran
    spans = [span for span in places.program.spans if _matches(span.file, suppression.file)]
    if suppression.function not in (None, places.program.name):
        spans = [span for span in spans if _enclosing_function(span.file, span.line).name == suppression.function]
    if suppression.line is not None:
        return any(span.line <= suppression.line <= span.end_line for span in spans)
    return bool(spans)


# -- comments in the source -------------------------------------------------------------------------------------------


class _Comment(NamedTuple):
    line: int
    codes: frozenset[str]
    reason: str
    problem: str
    """reason why the suppression has no effect, or empty"""


class _Function(NamedTuple):
    name: str
    first: int
    last: int


def _comment_suppressions(spans: Iterable[Span]) -> tuple[list[Suppression], list[Unused]]:
    """Return the suppressions in comments of the functions that contain these spans, and the suppressions that have no
    effect."""
    found: list[Suppression] = []
    void: list[Unused] = []
    lines: dict[str, set[int]] = {}
    for span in spans:
        lines.setdefault(span.file, set()).add(span.line)
    for file in sorted(lines):
        for comment in _comments(_text(file)):
            _, first, last = _enclosing_function(file, comment.line)
            if not any(first <= line <= last for line in lines[file]):
                continue
            place = file, comment.line
            if comment.problem:
                void.append(Unused(file=file, line=comment.line, message=comment.problem))
            else:
                found.append(Suppression(comment.codes, comment.reason, place, "source", file, comment.line))
    return found, void


@functools.lru_cache(maxsize=64)
def _comments(text: str) -> tuple[_Comment, ...]:
    """Return the comments of a file that address wsemu."""
    if "wsemu:" not in text:
        return ()
    matches = ((n, _COMMENT.search(line)) for n, line in enumerate(text.split("\n"), 1))
    return tuple(_comment(n, match[1], match[2].strip()) for n, match in matches if match)


def _comment(line: int, codes: str | None, reason: str) -> _Comment:
    if not codes or not codes.strip():
        return _Comment(line, frozenset(), "", "names no finding code: write `# wsemu: ignore[CODE] reason`")
    try:
        known = finding_codes(code.strip() for code in codes.split(","))
    except UsageError as error:
        return _Comment(line, frozenset(), "", f"`ignore[...]` does not count: {error}")
    problem = (
        "" if reason else f"`ignore[{codes.strip()}]` does not count without a reason: write it behind the bracket"
    )
    return _Comment(line, known, reason, problem)


def _text(file: str) -> str:
    return "".join(linecache.getlines(file))


@functools.lru_cache(maxsize=64)
def _functions(text: str) -> tuple[_Function, ...]:
    """Return the functions of a file; outer ones precede those inside them."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return tuple(_Function(node.name, node.lineno, node.end_lineno or node.lineno) for node in nodes)


def _enclosing_function(file: str, line: int) -> _Function:
    """Return the innermost function around a line; if there is none, the result has no name and no line."""
    around = [f for f in _functions(_text(file)) if f.first <= line <= f.last]
    return max(around, key=lambda f: f.first, default=_Function("", line, line))


def _matches(file: str, pattern: str) -> bool:
    """Return whether a file is meant by a pattern, both with their links resolved."""
    return file == pattern or fnmatch.fnmatchcase(os.path.realpath(file), pattern)
