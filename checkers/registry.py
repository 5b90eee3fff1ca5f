"""Contents of a checker's module, which is found by the name that `model.codes` gives it, and imported when it is first
needed.

    `CODES`                           The codes that it reports.
    `DETAIL`                          For each code its `Detail`: the fields of the engines' raw findings.
    `explain(raw, places[, trace])`   Return the `Finding` of a raw finding of the engines (source "engines").
    `CURES`                           For each code its `Cures`: its rank among causes, and the edits that may fix it.
    `TRACED`                          True: `explain` also takes a trace of the executions at the finding's two
                                      sites, or None.
    `traced(raw, places)`             Return more instructions; the trace should contain their executions too.
    `rank(raw, places, trace)`        Return the rank of a finding among those of its code, lowest first; below 0, it
                                      precedes those of all codes.
    `fold(findings, places, trace)`   Return raw findings, of all codes, without those that others already report.
    `severity(raw, places)`           Return the severity, if it differs from that of the code.
    `examine(places, settings)`       Return the findings of a launch (source "outcome", "deadlock" or "trap").
                                      With TRACED it takes a third argument, which runs the launch again for its
                                      events.
    `examine_others(places, others)`  Return the findings of `others`: instructions that the launch executes only in
                                      other orders of atomics.  `others` is None if they are unknown.
    `costliest(places, settings)`     Return the costliest access that does not justify a finding.

A module must have CODES, and `explain` or `examine`.  `model.codes.SOURCES` gives the source of a checker's findings,
and so which of the two functions: "engines" requires `explain`, any other source `examine`.  The rest is optional.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.model.codes import CHECKER_OF, CHECKERS, SOURCES
from wsemu.model.remedy import LAST, Cures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding, Severity
    from wsemu.model.outcome import Outcome, RawFinding, Trace, Tracer
    from wsemu.model.settings import Settings


_NO_CURES = Cures(LAST)


def module_name(checker: str) -> str:
    """Return the name of a checker's module."""
    return f"{__package__}.{checker.replace('-', '_')}"


@functools.cache
def module_of(checker: str) -> Any:
    """Return the module of a checker, and import it if necessary."""
    return import_module(module_name(checker))


def page_text(code: str) -> str:
    """Return the page of a code, read from the folder of the checker's module; the module is not imported."""
    spec = find_spec(module_name(CHECKER_OF[code]))
    assert spec is not None
    assert spec.origin is not None
    loader: Any = spec.loader
    text: bytes = loader.get_data(str(Path(spec.origin).parent / "pages" / f"{code}.md"))
    return text.decode("utf-8").replace("\r\n", "\n")


def cures_of(code: str) -> Cures:
    """Return the edits that may fix a code, and its rank among causes, as its checker declares them."""
    checker = CHECKER_OF.get(code)
    declared: dict[str, Cures] = getattr(module_of(checker), "CURES", {}) if checker else {}
    return declared.get(code, _NO_CURES)


# -- raw findings of the engines --------------------------------------------------------------------------------------


def explain(raw: RawFinding, places: Places, trace: Trace | None) -> Finding:
    """Return the finding of a raw finding; without a trace it has the same sites and fewer notes."""
    module = module_of(CHECKER_OF[raw.code])
    finding: Finding = module.explain(raw, places, trace) if _is_traced(raw) else module.explain(raw, places)
    return finding


def severity(raw: RawFinding, places: Places) -> Severity | None:
    """Return the severity of the finding that a raw finding becomes; None means the default severity of its code."""
    decide = getattr(module_of(CHECKER_OF[raw.code]), "severity", None)
    decided: Severity | None = decide(raw, places) if decide else None
    return decided


def _is_traced(raw: RawFinding) -> bool:
    return getattr(module_of(CHECKER_OF[raw.code]), "TRACED", False)


def instructions_to_trace(findings: list[RawFinding], places: Places) -> frozenset[int] | None:
    """Return the instructions whose executions a trace should contain; None if no finding needs a trace."""
    asking = [raw for raw in findings if _is_traced(raw)]
    asked = {pc for raw in asking for pc in (raw.pc, raw.other_pc) if pc >= 0}
    for raw in asking:
        more = getattr(module_of(CHECKER_OF[raw.code]), "traced", None)
        asked |= set(more(raw, places)) if more else set()
    return frozenset(asked) if asking else None


def drop_duplicates(findings: list[RawFinding], places: Places, trace: Trace | None) -> list[RawFinding]:
    """Drop raw findings that another finding already reports: one finding per cause."""
    for checker in dict.fromkeys(CHECKER_OF[raw.code] for raw in findings):
        fold = getattr(module_of(checker), "fold", None)
        findings = fold(findings, places, trace) if fold else findings
    return findings


def sort_by_rank(findings: list[RawFinding], places: Places, trace: Trace | None) -> list[RawFinding]:
    """Sort findings for display.  The positions that a code occupies in the list stay the same; its findings fill them
    in the order of their ranks.  Findings with a negative rank come first."""
    ranks = {id(raw): _rank(raw, places, trace) for raw in findings}
    findings = sorted(findings, key=lambda raw: min(ranks[id(raw)], 0))
    queues: dict[str, Iterator[RawFinding]] = {}
    for code in {raw.code for raw in findings}:
        own = (raw for raw in findings if raw.code == code)
        queues[code] = iter(sorted(own, key=lambda raw: ranks[id(raw)]))
    return [next(queues[raw.code]) for raw in findings]


def _rank(raw: RawFinding, places: Places, trace: Trace | None) -> int:
    rank = getattr(module_of(CHECKER_OF[raw.code]), "rank", None)
    return rank(raw, places, trace) if rank else 0


# -- findings about a whole launch ------------------------------------------------------------------------------------


def examine(places: Places, settings: Settings, trace_of: Tracer) -> tuple[list[Finding], list[Finding]]:
    """Return the findings of the chosen checkers that look at a whole launch, and the costliest accesses that are not
    findings."""
    findings: list[Finding] = []
    costliest: list[Finding] = []
    for checker in _looking(places.outcome, settings):
        module = module_of(checker)
        traced = (trace_of,) if getattr(module, "TRACED", False) else ()
        findings += module.examine(places, settings, *traced)
        costliest += module.costliest(places, settings) if hasattr(module, "costliest") else []
    return findings, costliest


def examine_others(places: Places, settings: Settings, others: frozenset[int] | None) -> list[Finding]:
    """Return the findings of the chosen checkers in instructions that only other orders of atomics execute."""
    modules = [module_of(checker) for checker in _looking(places.outcome, settings)]
    return [found for m in modules if hasattr(m, "examine_others") for found in m.examine_others(places, others)]


def _looking(outcome: Outcome, settings: Settings) -> list[str]:
    return [name for name in CHECKERS if name in settings.checkers and SOURCES[name] in ("outcome", outcome.status)]
