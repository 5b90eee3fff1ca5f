"""Edits of a PTX kernel: insert, delete or move synchronizing instructions, or change their numbers.

An edit changes the PTX text, which is then compiled and checked. A report describes it by the C++ line that the
compiler records for the location (`.loc`).
"""

from __future__ import annotations

import difflib
import linecache
import os
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from wsemu.checkers import causes
from wsemu.checkers.registry import cures_of
from wsemu.evidence.triton_words import is_triton, reword_for_triton
from wsemu.model.cure import Cure, Edit, Trials, lines_of
from wsemu.repair.ptx_branches import branch_edits
from wsemu.repair.ptx_kernel import Kernel
from wsemu.repair.ptx_named import named_edits
from wsemu.repair.ptx_numbers import number_edits
from wsemu.repair.ptx_order import order_edits
from wsemu.repair.ptx_text import Place, Text
from wsemu.repair.ptx_waits import wait_edits
from wsemu.repair.rings import SYNCHRONIZES
from wsemu.repair.scene import Candidate
from wsemu.repair.search import Search, Tried, agrees, clock, differs, digest, is_cure, rank_cures, try_with_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.model.cure import Kind
    from wsemu.repair.ptx_kernel import Scored
    from wsemu.repair.search import Launched

_ACTS = re.compile(r"(?:ld|st|atom|red|m?bar|m?barrier|cp|wgmma)\.\S+")
_BRANCH = re.compile(r"bra(?:\.uni)?\s+(\S+);")
_LOOPS = re.compile(r"\b(?:for|while|do)\b")
_HEAD_OF_FOR = re.compile(r"\bfor\s*\([^;]*;[^;]*;")
_CONTINUES = re.compile(r"(?:\}|else\b)")
"""start of a C++ line that continues a construct, so that nothing can be inserted before it"""
_NUMBERED = re.compile(r"(bar(?:rier)?(?:\.cta)?\.(?:sync|arrive)\S*)\s+(\d+)(?:,\s*(\d+))?;")
_SAID = {
    "bar.sync 0;": "__syncthreads()",
    "bar.warp.sync -1;": "__syncwarp()",
    "fence.acq_rel.gpu;": "__threadfence()",
    "membar.cta;": "__threadfence_block()",
    "membar.gl;": "__threadfence()",
    "membar.sys;": "__threadfence_system()",
}
_COPY = re.compile(r"cp\.(?:reduce\.)?async\.bulk\.tensor\b[^\[]*(?:\[%\w+\],\s*)?\[(%\w+),\s*\{")
"""a tensor copy and its map"""
_WARP, _NEAREST = 32, 6
_NEIGHBORS = 3
"""maximum number of fixes that are tried on launches of other sizes"""
_OF_COPY = 0.5
"""additional distance of an edit for each further copy of a line"""
_FARTHER = 0.4
"""further distance of edits that are tried after a fix at a location of the findings"""


def candidates(
    text: Text, report: Any, transferred: tuple[int, ...] = ()
) -> Iterator[tuple[float, Candidate, dict[int, str]]]:
    """Yield edits with their distances, and the lines that they change."""
    findings = report.findings[:12]
    hot = {(site.file, site.line) for f in findings for site in f.sites}
    runs = {p.run for p in text.places if (p.file, p.line) in hot}
    codes = [*dict.fromkeys(f.code for f in findings)]
    numbers = {int(n.replace(",", "")) for f in findings for n in re.findall(r"\b\d[\d,]*\b", f.message)}

    def far(place: Place) -> float:
        return min((abs(place.run - run) for run in runs), default=9)

    kernel = Kernel(text, report, transferred)
    for edits in (number_edits, wait_edits, order_edits, branch_edits, named_edits):
        yield from edits(kernel)
    syncs = [p for p in text.places if SYNCHRONIZES.match(p.text)]
    for copies in group_copies(syncs):
        near = min(map(far, copies))
        for score, candidate, changed in _instruction_edits(text, copies[0], numbers, near, [*syncs]):
            (new,) = changed.values()
            yield score, candidate, {place.at: new for place in copies}
    yield from _counts(text, syncs, numbers, far)
    # other modules edit the operations of rings
    of_rings = {place.at for op in kernel.uses.operations for place in op.places}
    others = (p.text for p in syncs if p.at not in of_rings)
    missing = dict.fromkeys([*_missing(codes, text), *others])
    gaps = [p for n, p in enumerate(text.places) if (not n or text.places[n - 1].run != p.run) and far(p) <= _NEAREST]
    crowded = {(p.file, p.line) for p in text.places if (p.file, p.line) in hot and _is_crowded(p.file, p.line)}
    inner = [p for p in text.places if (p.file, p.line) in crowded and _ACTS.match(p.text) and p not in gaps]
    for gap in [*gaps, *inner]:
        alike = [gap] if gap in inner else _copy_starts(text, gap)
        before, is_line = _insertion_text(text, gap, alike, report)
        for rank, what in enumerate(missing):
            says = f"insert {instruction_text(what) if is_line else _quote_instruction(what)} before {before}"
            lines = {other.at: f"\t{what}\n{text.lines[other.at]}" for other in alike}
            yield 1 + far(gap) + 1.5 * rank + (gap in inner), _candidate("insert", says, far(gap), 1), lines
        for place in () if len(alike) > 1 else [copies[0] for copies in group_copies(syncs) if len(copies) == 1]:
            if place.run != gap.run and abs(place.run - gap.run) <= _NEAREST:
                what = instruction_text(place.text) if is_line else _quote_instruction(place.text)
                says = f"move {what} from {_location_text(place, report)} to before {before}"
                lines = {place.at: "", gap.at: f"\t{place.text}\n{text.lines[gap.at]}"}
                yield 3 + far(place) + far(gap), _candidate("move", says, far(gap), 0), lines


def _missing(codes: list[str], text: Text) -> Iterator[str]:
    """Yield the instructions to insert for some findings; an acquire names its tensor map."""
    if "tensormap-proxy" in codes:
        maps = dict.fromkeys(m[1] for place in text.places if (m := _COPY.match(place.text)))
        yield from (f"fence.proxy.tensormap::generic.acquire.gpu [{name}], 128;" for name in maps)
    yield from (what for code in codes for what in cures_of(code).ptx)


def group_copies(places: list[Place]) -> list[list[Place]]:
    """Group instructions that are copies of one instruction, from an unrolled loop: those with the same text and the
    same source line."""
    found: dict[tuple[str, int, str], list[Place]] = {}
    for place in places:
        found.setdefault((place.file, place.line, place.text), []).append(place)
    return [*found.values()]


def _counts(
    text: Text, syncs: list[Place], numbers: set[int], far: Callable[[Place], float]
) -> Iterator[tuple[float, Candidate, dict[int, str]]]:
    """Yield edits that change the count of all barriers of a line at once, if an unrolled loop gave them several
    ids."""
    groups: dict[tuple[str, int, str, str], dict[int, str]] = {}
    for place in syncs:
        if (m := _NUMBERED.match(place.text)) and m[3]:
            groups.setdefault((place.file, place.line, m[1], m[3]), {})[place.at] = m[2]
    known = {int(count) for *_, count in groups}
    for (_, line, name, old), ids in groups.items():
        if len({*ids.values()}) < 2:
            continue
        near = 1 + min(far(place) for place in syncs if place.at in ids)
        for n in sorted((known | {n for n in numbers if n % _WARP == 0}) - {0, int(old)}):
            says = f"write the count `{n}` in place of `{old}` of `{name}` in line {line}"
            lines = {at: f"{_head(text.lines[at])}{name} {identity}, {n};\n" for at, identity in ids.items()}
            yield near + 0.2 * (n not in known), _candidate("argument", says, near, 0), lines


def _head(line: str) -> str:
    """Return the leading blanks and the predicate of an instruction."""
    blanks = line[: len(line) - len(line.lstrip())]
    return blanks + (m[0] if (m := re.match(r"@!?%\w+\s+", line.lstrip())) else "")


def _copy_starts(text: Text, gap: Place) -> list[Place]:
    """Return the beginnings of the copies of a line: the locations of its first access or synchronization."""
    copies: dict[int, list[Place]] = {}
    labeled, head = -1, ""
    for n, place in enumerate(text.places):
        if (place.file, place.line) != (gap.file, gap.line):
            continue
        before = text.places[n - 1] if n else None
        starts = before is None or before.run != place.run
        if starts:
            head = place.text.partition(" ")[0]
        if starts or (place.text.partition(" ")[0] == head and _follows_label(text, place)):
            labeled = place.at
        copies.setdefault(labeled, []).append(place)
    acts = {at: [m[0] for p in own if (m := _ACTS.match(p.text))] for at, own in copies.items()}
    first = next((names[0] for names in acts.values() if names), "")
    alike = [copies[at][0] for at, names in acts.items() if first in names]
    return alike if first and len(alike) > 1 and gap in alike else [gap]


def _follows_label(text: Text, place: Place) -> bool:
    """Return whether a label is before an instruction: a copy of a loop's body may begin there."""
    for line in reversed(text.lines[: place.at]):
        words = line.partition("//")[0].strip()
        if words and not words.startswith(".loc"):
            return words.endswith(":")
    return False


def _instruction_edits(
    text: Text, place: Place, numbers: set[int], far: float, others: list[Place]
) -> Iterator[tuple[float, Candidate, dict[int, str]]]:
    """Yield edits of a synchronizing instruction: other numbers, another instruction, or none."""
    where = f"line {place.line}"
    head = _head(text.lines[place.at])

    def put(kind: Kind, new: str, near: float) -> tuple[float, Candidate, dict[int, str]]:
        says = f"write {instruction_text(new)} in place of {instruction_text(place.text)} in {where}"
        return near, _candidate(kind, says, near, 0), {place.at: f"{head}{new}\n"}

    if place.text.startswith("bar.warp.sync"):
        yield put("call", "bar.sync 0;", 1 + far)
    if numbered := _NUMBERED.match(place.text):
        name, identity, count = numbered[1], int(numbered[2]), numbered[3]
        known = {int(m[3]) for p in others if (m := _NUMBERED.match(p.text)) and m[3]}
        near = {int(count) + _WARP, int(count) - _WARP} if count else set()
        counts = known | near | {n for n in numbers if n % _WARP == 0}
        for n in sorted(counts - {0, int(count or 0)}) if count else ():
            yield put("argument", f"{name} {identity}, {n};", 1 + far + 0.2 * (n not in known))
        tail = f", {count}" if count else ""
        for n in (identity + 1, identity - 1):
            if 0 <= n < 16:
                yield put("argument", f"{name} {n}{tail};", 2 + far)
        if count:
            other = name.replace("sync", "arrive") if "sync" in name else name.replace("arrive", "sync")
            yield put("call", f"{other} {identity}{tail};", 2 + far)
    says = f"delete {instruction_text(place.text)} in {where}"
    yield 3 + far, _candidate("delete", says, far, -1), {place.at: "\n"}


def _candidate(kind: Kind, says: str, near: float, waits: int) -> Candidate:
    return Candidate(Edit(kind=kind, says=says, changes=[]), (), near, waits)


def instruction_text(instruction: str) -> str:
    """Return the text of an instruction: its C++ function if there is one, and the PTX."""
    words = " ".join(instruction.split())
    known = _SAID.get(words.replace("bar.warp.sync 0xffffffff;", "bar.warp.sync -1;"))
    return f"`{known}`" if known else f"`{words.rstrip(';')}`"


def _quote_instruction(instruction: str) -> str:
    """Return an instruction in PTX, in backticks."""
    return f"`{' '.join(instruction.split()).rstrip(';')}`"


def _insertion_text(text: Text, gap: Place, alike: list[Place], report: Any) -> tuple[str, bool]:
    """Describe where an insertion goes, and return whether that is a line of C++.

    It is a line of PTX if the C++ line contains several statements, or if the gap is in the middle of its code.
    """
    if not gap.file or gap.file == text.path or _is_start(text, gap, alike):
        return _location_text(gap, report), True
    return f"line {gap.at + 1} of {os.path.basename(text.path)}, which is of {_location_text(gap, report)}", False


def _is_start(text: Text, gap: Place, alike: list[Place]) -> bool:
    """Return whether a gap, or the first of its copies, is at the beginning of a C++ line before which a line can be
    inserted."""
    own = [place for place in text.places if (place.file, place.line) == (gap.file, gap.line)]
    earlier = [place.text for place in own if place.at < alike[0].at]
    first = not any(_ACTS.match(words) or _BRANCH.match(words) for words in earlier)
    into_a_loop = gap.looped and _LOOPS.search(linecache.getline(gap.file, gap.line))
    return first and not into_a_loop and _begins(gap.file, gap.line)


def _is_crowded(file: str, line: int) -> bool:
    """Return whether a C++ line contains several statements."""
    return _HEAD_OF_FOR.sub("", linecache.getline(file, line)).count(";") > 1


def _begins(file: str, line: int) -> bool:
    """Return whether a statement can be inserted before a C++ line; true if its file does not exist."""
    here = linecache.getline(file, line).strip()
    for number in range(line - 1, 0, -1):
        before = linecache.getline(file, number).partition("//")[0].strip()
        if before and not before.startswith("#"):
            return before.endswith((";", "{", "}", ":", "*/")) and not _CONTINUES.match(here)
    return not here


def _location_text(place: Place, report: Any) -> str:
    files = {site.file for f in report.findings for site in f.sites}
    return f"line {place.line}" if place.file in files else f"line {place.line} of {os.path.basename(place.file)}"


def search(report: Any, launched: Launched, seconds: float, text: Text) -> Trials:
    """Try edits of a kernel's PTX; `seconds` is the time for it."""
    run = Search(launched, report, seconds, clock() + seconds)

    def try_edits() -> None:
        enough = float("inf")
        for score, candidate, changed in _rank(candidates(text, report, run.launched.transferred)):
            if score > enough or run.over():
                break
            source = text.replace_lines(changed)
            if source in run.known:
                continue
            run.known.add(source)
            run.tried += 1
            attempted = run.launched.attempt_code(source)
            if attempted is not None and is_cure(attempted.report, report) and run.keeps(attempted):
                made = run.check_earlier_launches(Tried((candidate,), source, attempted, run.tried), {}, source)
                if made is not None:
                    run.cures.append(made)
                    enough = min(enough, score + (_FARTHER if score < 1 else 2))

        _try_sizes(run)

    stopped = try_with_budget(run, seconds, try_edits)
    if stopped:
        return Trials(groups=causes.group_by_edge(report.findings), stopped=stopped)
    best = rank_cures(run, run.launched.expected)
    best = run.confirm_cures(launched, best, seconds, lambda tried: launched.attempt_code(tried.source))
    cures = _describe_cures(run, best, launched.expected, text)
    groups = (
        causes.group_by_edit(report.findings, [cures[0].findings]) if cures else causes.group_by_edge(report.findings)
    )
    return Trials(cures=cures, groups=groups, tried=run.tried, stopped=run.why(cures))


def _rank(edits: Iterable[Scored]) -> list[Scored]:
    """Return edits by distance; among edits with the same words, for copies of one line, each gets a larger distance
    than the one before."""
    known: Counter[str] = Counter()
    ranked = []
    for score, candidate, changed in sorted(edits, key=lambda entry: entry[0]):
        ranked.append((score + _OF_COPY * known[candidate.edit.says], candidate, changed))
        known[candidate.edit.says] += 1
    return sorted(ranked, key=lambda entry: entry[0])


def _try_sizes(run: Search) -> None:
    """Try the best fixes on launches of neighboring sizes, since a fix may suit only this size."""
    if run.questions is None or run.launched.only:
        return
    for tried in sorted(run.cures, key=lambda tried: tried.edits[0].near)[:_NEIGHBORS]:
        attempt = partial(run.launched.attempt_code, tried.source)
        fails = run.questions.count_failing_sizes(attempt, lambda: clock() > run.until)
        run.cures = [other._replace(fails=fails) if other is tried else other for other in run.cures]


def _describe_cures(run: Search, best: list[Tried], expected: dict[str, Any], text: Text) -> list[Cure]:
    """Return the fixes as data, without changes of files, since the PTX is not the user's source."""
    found = []
    kinds: dict[bytes, int] = {}
    for tried in best:
        number = kinds.setdefault(digest(tried.attempted.results), len(kinds))
        first = best[0].attempted
        found.append(
            Cure(
                file=text.path,
                edits=[_spell_as_source(c.edit, text) for c in tried.edits],
                diff=[],
                patch=_patch(text, tried.source),
                proof=tried.attempted.report.proof,
                findings=_cured_findings(run.report, tried.attempted.report),
                drops=tried.drops or tried.attempted.stores < max(first.stores, run.stores),
                less=tried.less,
                results=number,
                differs=differs(first.results, tried.attempted.results) if number else "",
                expected=agrees(tried.attempted.results, expected),
                fails=tried.fails,
            )
        )
    return found


_PIPELINE = (
    (re.compile(r"`cp\.async\.wait_group (\d+)`"), r"`__pipeline_wait_prior(\1)`"),
    (re.compile(r"`cp\.async\.commit_group`"), "`__pipeline_commit()`"),
)
"""functions of CUDA C++ that are equivalent to instructions"""


def _spell_as_source(edit: Edit, text: Text) -> Edit:
    """Return an edit in the words of its line, if that calls the functions of pipelines or belongs to Triton."""
    found = re.search(r"\bline (\d+)", edit.says)
    if any(is_triton(place.file) for place in text.places):
        return edit.model_copy(update={"says": reword_for_triton(edit.says)})
    files = {place.file for place in text.places if found and place.line == int(found[1])}
    if found is None or not any("__pipeline_" in linecache.getline(file, int(found[1])) for file in files):
        return edit
    says = edit.says
    for instruction, words in _PIPELINE:
        says = instruction.sub(words, says)
    return edit.model_copy(update={"says": says})


def _cured_findings(report: Any, after: Any) -> list[int]:
    """Return the numbers of the findings that a fix removes: all errors, and the warnings whose code no longer
    occurs."""
    left = {f.code for f in after.findings}
    return [n for n, f in enumerate(report.findings) if f.code not in left or f.severity == "error"]


def _patch(text: Text, source: str) -> list[str]:
    """Return the diff of a PTX text without context lines."""
    old, new = ([line.rstrip("\n") for line in lines] for lines in (text.lines, lines_of(source)))
    return [*difflib.unified_diff(old, new, n=0, lineterm="")][2:]
