"""Group findings by cause: findings that the same edit removes, or that lack the same synchronization edge.

Groups are sorted by causality: a group that causes others comes first.  For example, a launch may race and hang because
it reads uninitialized memory.
"""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING, Any

from wsemu.checkers.registry import cures_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from wsemu.model.finding import Finding

MOST = 64
"""maximum number of findings that are grouped; further findings stay separate"""
FEW = 20
"""maximum number of races among which copies of one statement are searched: this reads their messages, and each message
needs a trace"""
_BYTES = re.compile(r"bytes (too many|missing)")
"""part of a deadlock's message that shows that the deadlock itself is the cause: the phase expects too many or too few
bytes"""
_OBJECT = re.compile(r"`([A-Za-z_][\w.:<>-]*\[[^`]*\][\w.]*)`|(barrier \d+)")
_RACES = ("race", "intra-warp-race")
_MASK = re.compile(r"mask 0x[0-9a-f]{8} ")
_OF_WARPS = ("barrier-divergence", "undefined-shuffle")
"""codes that one wrong member mask of a warp-wide operation may cause"""
_OF_PHASES = frozenset(
    "phase-alias phase-unobserved deadlock dangling-phase tx-mismatch uncovered-expectation over-arrival all-arrive "
    "barrier-recycling dangling-arrive count-mismatch oversubscribed".split()
)
"""codes about a synchronization object that the message names"""


def key(finding: Finding) -> Any:
    """Return a key of a finding: its code and the text at its locations, which does not change when lines move."""
    places = {
        (site.array or "", linecache.getline(site.file, site.line).strip())
        for site in finding.places
        if site.warp is not None or site.primary
    }
    return finding.code, tuple(sorted(places))


def group_by_edge(findings: Sequence[Finding]) -> list[list[int]]:
    """Return groups of findings, by number, that share both ends of a missing edge, or a barrier; causes come first."""
    known: dict[Any, int] = {}
    owner = [*range(len(findings))]

    def root(n: int) -> int:
        while owner[n] != n:
            n = owner[n]
        return n

    def unite(n: int, other: int) -> None:
        one, other = sorted((root(n), root(other)))
        owner[other] = one

    for n, finding in enumerate(findings[:MOST]):
        for mark in _marks(finding):
            unite(known.setdefault(mark, n), n)
    for first, n in _crossed_edges(findings[:MOST]):
        unite(first, n)
    found: dict[int, list[int]] = {}
    for n in range(len(findings)):
        found.setdefault(root(n), []).append(n)
    return sort_by_cause(findings, found.values())


def _crossed_edges(findings: Sequence[Finding]) -> Iterator[tuple[int, int]]:
    """Yield pairs of races that one barrier between two lines would fix.  In a loop unrolled by hand, each copy of a
    statement races with its own reader."""
    gaps: dict[Any, tuple[int, int, int]] = {}
    if sum(finding.code in _RACES for finding in findings) > FEW:
        return
    for n, finding in enumerate(findings):
        ends = [site for site in finding.places if site.warp is not None]
        if finding.code not in _RACES or len({site.file for site in ends}) != 1 or len(ends) != 2:
            continue
        low, high = sorted(site.line for site in ends)
        array = finding.message.rpartition("`")[0].rpartition("`")[2].partition("[")[0]
        hazard = finding.message.partition(" hazard")[0]
        key = finding.code, finding.severity, hazard, array, ends[0].file, ends[0].line < ends[1].line
        first, begin, end = gaps.get(key, (n, low, high))
        begin, end = max(begin, low), min(end, high)
        if begin < end:
            yield first, n
            gaps[key] = first, begin, end


def _marks(finding: Finding) -> list[Any]:
    """Return the features that findings of one cause share."""
    if finding.code in ("bank-conflict", "uncoalesced"):
        return []
    ends = frozenset((site.file, site.line) for site in finding.places if site.warp is not None)
    severity = finding.severity
    # a barrier orders the accesses of a `proxy` finding and nothing orders those of a race, so the two have different
    # causes
    proxies = finding.code.startswith("proxy")
    marks: list[Any] = [(severity, proxies, ends)] if ends else []
    if finding.code in _OF_WARPS:
        named = next((found for site in finding.sites if (found := _MASK.search(site.text))), None)
        marks = [(severity, "mask", named[0])] if named else []
        marks += [(severity, "lanes together", site.file, site.line) for site in finding.places if site.primary]
    if finding.code in _OF_PHASES:
        named = _OBJECT.search(finding.message)
        marks += [named[0]] if named else []
    return marks


def group_by_edit(
    findings: Sequence[Finding], steps: Iterable[Iterable[int]], replaced: Collection[tuple[str, int]] = ()
) -> list[list[int]]:
    """Return groups of findings by the edit that makes them vanish.  `steps` has, for each edit, the numbers of the
    findings that vanish with this edit and the edits before it.  The other findings are grouped by edge.  Findings at
    the lines that the edit `replaced`, as (file, line), are the nearest to the cause."""
    grouped: set[int] = set()
    found: list[list[int]] = []
    for step in steps:
        fresh = [n for n in step if n not in grouped]
        grouped.update(fresh)
        found += [fresh] if fresh else []
    rest = [n for n in range(len(findings)) if n not in grouped]
    found += [[rest[n] for n in group] for group in group_by_edge([findings[n] for n in rest])]
    return sort_by_cause(findings, found, replaced)


def _put_overwrite_first(findings: Sequence[Finding], group: list[int]) -> list[int]:
    """Return the group with the finding of an early overwrite first.  This applies if the group begins with a read that
    does not wait for a copy (read-after-write), and has a write-after-read race between the same lines."""
    first = findings[group[0]]
    if (
        len(group) == 1
        or first.code != "race"
        or not first.message.startswith("read-after-write")
        or "nothing waits" not in first.message
    ):
        return group
    lines = {(site.file, site.line) for site in first.places}
    for n in group[1:]:
        other = findings[n]
        if other.message.startswith("write-after-read") and {(s.file, s.line) for s in other.places} == lines:
            return [n, *(k for k in group if k != n)]
    return group


def sort_by_cause(
    findings: Sequence[Finding], groups: Iterable[Iterable[int]], replaced: Collection[tuple[str, int]] = ()
) -> list[list[int]]:
    """Return the groups, each with its cause first; groups with errors come first, sorted by their causes."""

    def rank(n: int) -> tuple[bool, int, int]:
        here = any((site.file, site.line) in replaced for site in findings[n].places) if replaced else False
        code = findings[n].code
        # other messages are not read here: a message is created only when it is read
        if code == "deadlock" and _BYTES.search(findings[n].message):
            code = "tx-mismatch"
        return not here or findings[n].severity != "error", cures_of(code).rank, n

    sorted_ = [_put_overwrite_first(findings, sorted(group, key=rank)) for group in groups]
    return sorted(sorted_, key=lambda group: (all(findings[n].severity != "error" for n in group), rank(group[0])[1:]))
