"""Search for verified fixes (`Cure`): try edits near the findings, the likeliest first, each compiled and checked.

An edit is a fix only if the launch with it is verified.  If no single edit is a fix, a second search adds edits to
those that removed some of the errors and caused no others.  The results of the fixes are compared with each other, and
with the expected arrays if these are known.
"""

from __future__ import annotations

import difflib
import os
import re
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wsemu.checkers import causes
from wsemu.checkers.registry import cures_of
from wsemu.model.codes import CODES
from wsemu.model.cure import Change, Cure, Edit, Trials, lines_of
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.repair import conditions, constants, host, shapes, synchronisation, values
from wsemu.repair.questions import ORDERS, Questions, count_changed, error_codes
from wsemu.repair.scene import Candidate, Scene
from wsemu.repair.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from wsemu.model.cure import Kind
    from wsemu.model.finding import Finding

    Results = tuple[tuple[str, npt.NDArray[Any]], ...]
    Accesses = dict[tuple[str, str], int]
    """(array, `loads`, `stores` or `atomics`) -> number of accesses of threads"""

MOST_TRIED = 250
"""maximum number of edits tried"""
ENOUGH = 4
"""number of fixes after which only edits at least as likely as the last fix are tried"""
_FARTHER = 4
"""further steps of a search after a fix that omits some of the work"""
_DEPTH = 3
"""maximum number of edits in one fix"""
_OF_PASSED = 8
"""divisor: 1/_OF_PASSED of the search time is for repeating earlier verified launches"""
_LONG, _MANY = 2, 2_000_000
"""multiple of the search time, and warp instructions: a launch that exceeds both is not repeated"""
_OFTEN = 3
"""launches of all CTAs that must fit into the search time; otherwise only some CTAs are run"""
_LEAST = 2
"""minimum number of launches that must fit into the search time"""
LONG = "a launch takes too long to be repeated"
"""reason why no edit is tried"""
_OF_ALL = 5
"""multiple of the search time for trying, on all CTAs, edits that fix some CTAs"""
_SECONDS = 1e-7
"""minimum seconds of a warp instruction, in a launch without errors"""
_NEARBY = 5
"""maximum number of fixes that are tried on launches of other sizes"""
_GROUPS = 3
"""number of groups of copies that may be left in flight"""
_ALL_GROUPS = re.compile(r"(cp_async_(?:bulk_)?wait_group(?:_read)?)\(0\)")
_BRANCHES = 3
"""maximum number of edits that a second search extends; each removes some errors"""
_STEP = 1.0
"""distance between the ranks of consecutive kinds"""
_RANK: dict[Kind, int] = {
    "constant": 1,
    "return": 1,
    "pair": 1,
    "compare": 1,
    "index": 2,
    "load": 3,
    "guard": 4,
    "fill": 5,
}
"""kinds of edits that rank after other fixes"""
_WEAK = 3
"""additional rank of edits that probably differ from the intent"""
_DODGES = 2
"""additional rank of an edit that exchanges indices if the findings are about the order of accesses, and of an edit of
a constant if they are about indices"""
_OF_ORDER = frozenset("race intra-warp-race uninitialized-read bank-conflict uncoalesced".split())
"""codes that a wrong order of accesses alone may cause"""
_OF_PLACES = frozenset("out-of-bounds uninitialized-read misaligned".split())
"""codes that a wrong index may cause; a number at the top of the file is rarely the mistake, because it has many
uses"""
_OF_CONVENTIONS = frozenset("race intra-warp-race phase-alias".split())
"""codes of errors that may have hidden a warning of `_HIDDEN`"""
_HIDDEN = frozenset("same-value-store lane-lag".split())
_ALONE = frozenset(("fill", "load", "guard", "swap", "index"))
"""kinds of edits that are not combined with other kinds, since together they may only hide the errors"""
_MAY_DROP_STORES = frozenset(("launch", "swap", "compare", "bound", "constant", "return", "delete", "move"))
"""kinds of edits that may drop some stores of a launch"""
_NARROWS = frozenset(("compare", "index", "bound", "swap"))
"""kinds of edits that may reduce the amount of computation"""
_MOST_OF = 2
"""an edit of a kind in `_NARROWS` must keep at least 1/_MOST_OF of the correct loads"""
_OF_LOOPS = frozenset(("bound", "constant"))
"""kinds of edits that change the trip counts of loops, equally for all threads"""
_PARTS = {"launch": 1 << 20, "swap": 16}
"""kind of edit -> n: the edit may lose one of every n changed elements (default 4), since these may have been wrong"""
_ELSEWHERE = frozenset(("atomic", "index", "stage", "bound", "compare"))
"""kinds of edits that rank lower if they are `odd`: such an edit removes the finding, but is probably not the intent"""
_DANGLING = frozenset(("dangling-arrive", "dangling-phase"))
"""codes that allow a fix to change results, because the launch may have omitted some of its work"""
_CUT_SHORT = frozenset("deadlock barrier-divergence count-mismatch invalid-barrier misaligned".split())
"""codes of launches whose stores are incomplete or wrong"""
_REPLACES = frozenset(("argument", "constant", "index", "swap", "atomic", "stage"))
"""kinds of edits that replace a wrong expression"""
_EXPLAINED = 12
"""maximum number of findings from which edits are derived"""
_CONTEXT = 2
"""context lines of a diff"""


class Attempted(Protocol):
    """The results of a launch of the edited kernel."""

    @property
    def report(self) -> Any:
        """Return the report of the attempt."""

    @property
    def results(self) -> Results:
        """Return the contents of the arrays after the launch."""

    @property
    def stores(self) -> int:
        """Return the number of stores of all threads."""

    @property
    def accesses(self) -> Accesses:
        """Return the number of accesses inside of arrays, without those of polling loops."""

    @property
    def elsewhere(self) -> int:
        """Return the number of changed elements in arrays that only the edited kernel uses."""

    @property
    def skips_data(self) -> bool:
        """True if a CTA never reads the first data that it copies to shared memory."""

    @property
    def result_of_use(self) -> Any:
        """Return the result of `look`, which `attempt` called with the report."""


class Launched(Protocol):
    """A launch that can be repeated, with edits or without."""

    expected: dict[str, Any]
    only: tuple[int, ...]
    """the CTAs to run; empty: all"""
    site: tuple[str, int] | None
    instructions: int
    """number of instructions that warps executed"""

    def sources(self) -> dict[str, tuple[str, frozenset[int]]]:
        """Return the user's files with code of the kernel: the text, and the lines of that code."""

    def arguments_given(self) -> Sequence[Any]:
        """Return the arguments of the launch."""

    def launch(self) -> tuple[str, int, str] | None:
        """Return (text of the file, launching line, name of the file), or None if they are unknown."""

    def attempt_launch(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: tuple[Any, ...],
        texts: dict[str, tuple[Any, str]] | None = None,
    ) -> Attempted | None:  # fmt: skip
        """Launch the kernel with another grid, block or arguments, and with edited files if given."""

    def code(self) -> tuple[str, str, int, int, dict[int, str]] | None:
        """Return the text and path of a PTX kernel's file, its first and last line, and the source files by number.
        Return None for other kernels, and if several files are linked."""

    transferred: tuple[int, ...]
    """number of bytes that copies transfer in the original launch, for each expect-tx operation"""

    def attempt_code(self, text: str) -> Attempted | None:
        """Launch with edited PTX."""

    def other_sizes(self) -> Iterable[Any]:
        """Return the neighboring sizes of the launch."""

    def resize_launches(self, size: Any) -> AbstractContextManager[None]:
        """Let launches inside the block have another size; used inside `again`."""

    overlaps: bool
    """true if stores of different data to the same bytes race"""

    def other_contents(self) -> AbstractContextManager[None]:
        """Let launches inside the block have other contents of the arrays; used inside `again`."""

    def again(self) -> AbstractContextManager[None]:
        """Prepare repetitions of the launch: inside the block, launches run on copies of the original arrays."""

    def rerun_unchanged(self) -> Attempted | None:
        """Repeat the original launch, inside `again`; return None if that is impossible."""

    def arrays_before(self) -> Results:
        """Return the contents of the arrays before the launch."""

    def part(self, ctas: Iterable[Any]) -> Launched | None:
        """Return the launch restricted to these CTAs, the first CTA and the last one; None if that is not
        representative."""

    def earlier_verified(self) -> Sequence[Launched]:
        """Return earlier verified launches of kernels from the same files."""

    def repeat_alone(self, texts: dict[str, tuple[Any, str]], code: str = "") -> Attempted | None:
        """Repeat the launch outside of `again`, with edited files or PTX if given."""

    def attempt(self, texts: dict[str, tuple[Any, str]], look: Callable[[Any], Any]) -> Attempted | None:
        """Launch with edited files: file -> (its original tree, the new text).  `look` is called with the report while
        the edited text is in place."""


class Tried(NamedTuple):
    """Edits, and the launch with them."""

    edits: tuple[Candidate, ...]
    source: str
    attempted: Attempted
    number: int
    """number of the trial, from 1"""
    file: str = ""
    """the file, for an edit of the launching line"""
    fails: int = 0
    """number of launches of neighboring sizes that are not verified with the edits"""
    changes: int = 0
    """number of earlier verified launches whose results differ with the edits"""
    drops: bool = False
    """true if an earlier verified launch stores less with the edits"""
    lost: int = 0
    """number of elements that the original launch changes, and the edited one does not"""
    less: str = ""
    """text: the accesses that the edited launch performs less often"""


@dataclass()
class Search:
    """The state of a search."""

    launched: Launched
    report: Any
    """report of the launch without edits"""
    seconds: float
    """CPU seconds for the search"""
    until: float
    """`clock` at the end of the budget"""
    texts: dict[str, Text] = field(default_factory=dict)
    lines: dict[str, frozenset[int]] = field(default_factory=dict)
    cures: list[Tried] = field(default_factory=list)
    partly: list[Tried] = field(default_factory=list)
    tried: int = 0
    stopped: str = ""
    results: bytes = b""
    """results of the original launch"""
    stores: int = 0
    """stores of the original launch; 0 if it was cut short, or stores outside of an array"""
    accesses: Accesses = field(default_factory=dict)
    """accesses of the original launch"""
    before: Results = ()
    """contents of the arrays before the launch"""
    changed: int = 0
    """number of elements that the original launch changes; 0 if it was cut short"""
    stored: Results = ()
    """contents of the arrays after the launch"""
    known: set[str] = field(default_factory=set)
    """texts that were already tried"""
    passed: list[tuple[Launched, Attempted]] = field(default_factory=list)
    """earlier verified launches, each with its repetition"""
    breaking: int = 0
    """number of edits that fix the launch but break an earlier verified one"""
    wrong: int = 0
    """number of erroneous accesses of the original launch"""
    questions: Questions | None = None
    """the questions about each edit with which the launch is verified"""

    def over(self) -> bool:
        """Return whether the time or the number of edits is exhausted."""
        if self.tried >= MOST_TRIED:
            self.stopped = f"{MOST_TRIED} edits were tried"
        elif clock() > self.until:
            self.stopped = f"{self.seconds:g} s were not enough (`--fix-budget` sets the time)"
        return bool(self.stopped)

    def run(self) -> None:
        """Try single edits, then combine further edits with those that removed errors."""
        first = bool(host.FIRST & {*_codes(self.report)})
        if first:
            self.try_launches()
        self.try_level((), None, self.report, 1)
        if not first and not self.cures:
            self.try_launches()
        depth = 1
        while not self.cures and self.partly and depth < _DEPTH and not self.over():
            depth += 1
            started, self.partly = sorted(self.partly, key=self._remaining_findings)[:_BRANCHES], []
            for base in started:
                self.try_level(base.edits, base.source, base.attempted.report, depth)
                if self.cures:
                    break

    def try_launches(self) -> None:
        """Try other launches of the unedited kernel."""
        known = None if self.launched.only else self.launched.launch()
        if known is None or any(launched.site == self.launched.site for launched, _ in self.passed):
            return  # another launch from the same line was verified
        source, line, file = known
        file = next((name for name in self.texts if os.path.abspath(name) == os.path.abspath(file)), file)
        try:
            text = self.texts.get(file) or Text(file, source)
        except SyntaxError:
            return
        launch = host.find_launch(text, line, self.report.kernel)
        if launch is None:
            return
        numbers = scene(text, frozenset(), self.report, text).numbers
        for other in host.others(text, launch, self.report, self.launched, numbers):
            if self.over():
                return
            self.tried += 1
            attempted = self.launched.attempt_launch(other.grid, other.block, other.arguments)
            if attempted is not None and is_cure(attempted.report, self.report) and self.keeps(attempted):
                self.texts.setdefault(file, text)
                made = Tried(
                    (other.candidate,), text.replace_pieces(other.candidate.pieces), attempted, self.tried, file
                )
                if not self.count_lost(made):
                    self.cures.append(made)

    def relax_waits(self) -> None:
        """Try to leave groups of copies in flight if a wait for all groups is a fix."""
        for tried in sorted(self.cures, key=lambda tried: sum(c.near for c in tried.edits)):
            only, file = tried.edits[0], tried.edits[0].edit.changes[0].file if not tried.file else ""
            if len(tried.edits) > 1 or not _ALL_GROUPS.search(only.edit.says) or only.edit.kind != "insert":
                continue
            for n in range(_GROUPS, 0, -1):
                found = len(self.cures)
                self.attempt(file, self.texts[file], (_wait_for_groups(only, n),), self.report)
                if len(self.cures) > found:
                    return
            return

    def try_nearby_sizes(self) -> None:
        """Try the best fixes on launches of neighboring sizes, since a fix may suit only this size."""
        if self.questions is None or self.launched.only:
            return
        for n, tried in enumerate(self.cures[:_NEARBY]):
            file = tried.file or tried.edits[0].edit.changes[0].file
            if tried.file:
                continue  # the fix is another launch
            attempt = partial(self.launched.attempt, {file: (self.texts[file].tree, tried.source)}, lambda _: None)
            fails = self.questions.count_failing_sizes(attempt)
            self.cures[n] = tried._replace(fails=fails)

    def _remaining_findings(self, tried: Tried) -> tuple[int, int, float]:
        errors = tried.attempted.report.errors
        return len(errors), len(tried.attempted.report.findings), sum(c.near for c in tried.edits)

    def try_level(self, before: tuple[Candidate, ...], source: str | None, report: Any, depth: int) -> None:
        """Try one more edit on top of the edits `before`, which resulted in `source`."""
        file = before[0].edit.changes[0].file if before else None
        candidates: list[tuple[float, str, Text, Candidate]] = []
        for name, text in self.texts.items():
            if name in self.lines and file in (None, name):
                base = text if source is None else Text(name, source)
                candidates += [
                    (score, name, base, c) for score, c in collect_edits(scene(base, self.lines[name], report, text))
                ]
        candidates.sort(key=lambda entry: entry[0])
        enough, places = float("inf"), bool(_OF_PLACES & {*_codes(self.report)})
        most = MOST_TRIED if depth > 1 else MOST_TRIED // 2
        codes = {*_codes(self.report), *_codes(report)}
        alone = _ALONE | {"stage"} if "uninitialized-read" in codes else _ALONE
        for score, name, base, candidate in candidates:
            if score > enough or self.over() or (self.partly and self.tried >= most):
                return
            found = len(self.cures)
            kinds = {c.edit.kind for c in (*before, candidate)}
            if len(kinds) > 1 and kinds & alone:
                continue
            self.attempt(name, base, (*before, candidate), report)
            last = self.cures[-1] if len(self.cures) > found else None
            if last is not None and not last.drops and not last.lost and self.right(last) is not False:
                farther = 6 if kind_rank(last) > 1 or any(c.odd > 0 for c in last.edits) else 4
                farther += _FARTHER * (places and last.less != "")
                enough = min(enough, score + farther * _STEP) if len(self.cures) < ENOUGH else score

    def trial_launches(self, seconds: float) -> Iterator[Launched]:
        """Yield the launches on which a search of `seconds` can try edits, the preferred one first.  If a launch of
        all CTAs takes long, the first one runs only some CTAs, among them those of the findings."""
        whole, took = self.launched, self.report.seconds
        if _OFTEN * took > seconds:
            part = whole.part({site.cta for f in self.report.findings for site in f.sites if site.cta is not None})
            if part is not None:
                yield part
        if took <= _LONG * seconds or whole.instructions <= _MANY:
            yield whole

    def confirm_cures(
        self, whole: Launched, best: list[Tried], seconds: float, attempt: Callable[[Tried], Attempted | None]
    ) -> list[Tried]:
        """Return the fixes among `best` that fix all CTAs; `attempt` launches all CTAs with an edit."""
        if self.launched is whole or not best:
            return best
        if min(self.report.seconds, _SECONDS * whole.instructions) > _OF_ALL * seconds:
            self.stopped = (
                "an edit fixes the CTAs that were tried, but a launch of all CTAs takes too long (`--fix-budget`)"
            )
            return []
        found, until = [], clock() + _OF_ALL * seconds
        with whole.again():
            for tried in best:
                done = attempt(tried)
                if done is not None and is_cure(done.report, self.report):
                    drops = tried.drops or tried.attempted.stores < self.stores
                    found.append(tried._replace(attempted=done, drops=drops))
                    if agrees(done.results, whole.expected) is not False:
                        break
                if clock() > until:
                    break
        if not found:
            self.stopped = "an edit that fixes some CTAs does not fix all of them"
        return sorted(found, key=lambda tried: agrees(tried.attempted.results, whole.expected) is False)

    def remember(self, seconds: float) -> None:
        """Repeat earlier verified launches, within a fraction of the search time `seconds`."""
        started = clock()
        each = self.report.seconds / max(self.launched.instructions, 1)
        for launched in self.launched.earlier_verified():
            if each * launched.instructions > _LONG * seconds and launched.instructions > _MANY:
                continue  # repeating this launch would take all the time
            done = launched.repeat_alone({})
            if done is not None and done.report.verdict == "verified":
                self.passed.append((launched, done))
            if _OF_PASSED * (clock() - started) > seconds:
                return

    def why(self, cures: Sequence[Cure]) -> str:
        """Return the reason why the search found no fix, or no better one; empty if there is none."""
        if not cures and not self.breaking and self.questions is not None and self.questions.answered:
            return self.questions.text()
        if cures or not self.breaking:
            return self.stopped
        edits = f"{self.breaking} would be" if self.breaking > 1 else "one would be"
        return f"{edits}, but break{'s' * (self.breaking == 1)} a launch that is verified now"

    def check_earlier_launches(self, tried: Tried, texts: dict[str, tuple[Any, str]], code: str = "") -> Tried | None:
        """Return a fix with its effects on earlier verified launches; None if it breaks one of them or fails one of the
        questions."""
        kinds = [c.edit.kind for c in tried.edits]
        again = self.launched
        if self.questions is not None and self.questions.reject(
            kinds, lambda: again.attempt_code(code) if code else again.attempt(texts, lambda _: None)
        ):
            return None
        done = [launched.repeat_alone(texts, code) for launched, _ in self.passed]
        if any(now is None or now.report.verdict != "verified" for now in done):
            self.breaking += 1
            return None
        pairs = [(now, was) for now, (_, was) in zip(done, self.passed, strict=True) if now is not None]
        changes = sum(digest(now.results) != digest(was.results) for now, was in pairs)
        drops = any(now.stores < was.stores for now, was in pairs)
        if not {*kinds} <= ORDERS and self.questions is not None and self.right(tried) is False:
            self.questions.count_rejected("leave other results than expected")
            return None
        less, most = self.less(tried)
        if most and self.questions is not None:
            self.questions.count_rejected("compute less than half as much")
            return None
        return tried._replace(changes=changes, drops=drops, lost=self.count_lost(tried), less=less)

    def count_lost(self, tried: Tried) -> int:
        """Return the number of elements that the original launch changes and the edited one does not.  The result is 0
        unless the edit is of a kind that may drop stores and the number is large."""
        kinds = {c.edit.kind for c in tried.edits}
        lost = _count_lost(self.before, self.stored, tried.attempted.results) if kinds & _MAY_DROP_STORES else 0
        least = max((_PARTS.get(kind, 4) for kind in kinds), default=4)
        # a few lost elements are allowed, since they may have been wrong
        return lost if lost * least > count_changed(self.before, self.stored) else 0

    def less(self, tried: Tried) -> tuple[str, bool]:
        """Return, as a text, the kind of access that an edit drops most often, and whether these are loads of which it
        drops more than half.  The text is empty if it drops no correct access.

        Erroneous accesses are not counted, so that an edit may remove the superfluous iteration of a loop.  Accesses
        that an added condition prevents are not counted either, if the edit prevents no more stores than there were
        erroneous accesses.
        """
        kinds, now = {c.edit.kind for c in tried.edits}, tried.attempted.accesses
        fewer = {key: was - now.get(key, 0) for key, was in self.accesses.items() if now.get(key, 0) < was}
        if _total_stores(now) >= _total_stores(self.accesses):  # the edited launch stores as often, but to other arrays
            fewer = {key: count for key, count in fewer.items() if key[1] != "stores"}
        stores = [n for (_, what), n in fewer.items() if what != "loads"]
        of_threads = stores and not kinds & _OF_LOOPS and max(stores) <= self.wrong
        if not fewer or of_threads or "atomic" in kinds:
            return "", False
        array, what = key = max(fewer, key=fewer.__getitem__)
        of = f" of `{array}`" if array else ""
        count = now.get(key, 0)
        words = f"{count:,} {what.removesuffix('s') if count == 1 else what}{of} in place of {self.accesses[key]:,}"
        return words, what == "loads" and bool(kinds & _NARROWS) and _MOST_OF * count < self.accesses[key]

    def right(self, tried: Tried) -> bool | None:
        """Return whether a fix produces the expected results; None if no results are expected."""
        return agrees(tried.attempted.results, self.launched.expected)

    def attempt(self, file: str, base: Text, edits: tuple[Candidate, ...], report: Any) -> None:
        """Launch with one more edit, and record the result if it is a fix or removes errors."""
        try:
            source = base.replace_pieces(edits[-1].pieces)
        except ValueError:
            return
        if source in self.known:
            return
        self.known.add(source)
        self.tried += 1
        texts = {file: (self.texts[file].tree, source)}
        attempted = self.launched.attempt(texts, self._look(report))
        if attempted is None:
            return
        made = Tried(edits, source, attempted, self.tried)
        if is_cure(attempted.report, self.report) and self.keeps(attempted):
            cure = self.check_earlier_launches(made, texts)
            self.cures += [cure] if cure is not None else []
        elif attempted.result_of_use is not None and attempted.result_of_use < finding_keys(report.errors):
            self.partly.append(made)

    def keeps(self, attempted: Attempted) -> bool:
        """Return whether an edited launch keeps the correct results of the original.  An edit for a verified launch
        must not change any result.  No edit may prevent more than half of the changes, or all stores."""
        if self.stores and not attempted.stores:
            return False
        if attempted.skips_data:
            if self.questions is not None:
                self.questions.count_rejected("leave the first copied data unread")
            return False
        if count_changed(self.before, attempted.results) + attempted.elsewhere < self.changed // 2:
            return False
        if self.report.verdict != "verified" or digest(attempted.results) == self.results:
            return True
        return {*_codes(self.report)} <= _DANGLING and attempted.stores > self.stores  # the omitted work is now done

    def _look(self, before: Any) -> Callable[[Any], Any]:
        """Return a function that computes the keys of a report's errors, if these are fewer than those of `before`."""

        def look(report: Any) -> Any:
            if report.verdict != "failed" or len(report.errors) >= len(before.errors):
                return None
            for finding in report.findings[:_EXPLAINED]:
                finding._complete()
            return finding_keys(report.errors)

        return look


def _wait_for_groups(candidate: Candidate, n: int) -> Candidate:
    """Change an edit that waits for all groups of copies so that it leaves n groups in flight."""

    def put(text: str) -> str:
        return _ALL_GROUPS.sub(rf"\g<1>({n})", text)

    edit = candidate.edit
    changes = [change.model_copy(update={"text": put(change.text)}) for change in edit.changes]
    return candidate._replace(
        edit=edit.model_copy(update={"says": put(edit.says), "changes": changes}),
        pieces=tuple(piece._replace(text=put(piece.text)) for piece in candidate.pieces),
        near=candidate.near - 0.1 * n,
    )


def clock() -> float:
    """Return the CPU time of this process, so that a busy machine does not try fewer edits."""
    return time.process_time()


def search(report: Any, launched: Launched, seconds: float) -> Trials:
    """Try edits of the kernel of a report for at most about `seconds` of CPU time."""
    run = Search(launched, report, seconds, clock() + seconds)
    for file, (source, lines) in launched.sources().items():
        try:
            run.texts[file], run.lines[file] = Text(file, source), lines
        except SyntaxError:
            continue
    findings = report.findings

    def try_edits() -> None:
        run.run()
        run.relax_waits()
        run.try_nearby_sizes()

    def attempt(tried: Tried) -> Attempted | None:
        file = tried.edits[0].edit.changes[0].file
        return launched.attempt({file: (run.texts[file].tree, tried.source)}, lambda _: None)

    stopped = try_with_budget(run, seconds, try_edits)
    if stopped:
        return Trials(groups=causes.group_by_edge(findings), stopped=stopped)
    best = run.confirm_cures(launched, rank_cures(run, run.launched.expected), seconds, attempt)
    cures = describe_cures(run, best, launched.expected)
    groups = (
        causes.group_by_edit(findings, [cures[0].findings], _replaced_lines(cures[0]))
        if cures
        else causes.group_by_edge(findings)
    )
    return Trials(cures=cures, groups=groups, tried=run.tried, stopped=run.why(cures))


def try_with_budget(run: Search, seconds: float, try_edits: Callable[[], None]) -> str:
    """Try edits on the launch, or on some of its CTAs; return the reason if none can be tried, otherwise nothing."""
    stopped = LONG
    for n, way in enumerate(run.trial_launches(seconds)):
        if not n:
            run.remember(seconds)
        run.launched = way
        with way.again():
            stopped = repeats(run, seconds)
            if not stopped:
                try_edits()
                break
    return stopped


def repeats(run: Search, seconds: float) -> str:
    """Repeat the original launch inside `again`, and record its results; return the reason if no edit can be tried,
    otherwise an empty text."""
    started = clock()
    same = run.launched.rerun_unchanged()
    if same is None or _codes(same.report) != _codes(run.report):
        return "a repetition of the launch behaves differently"
    run.results, run.stored, run.before = digest(same.results), same.results, run.launched.arrays_before()
    run.accesses, run.wrong = same.accesses, sum(finding.count for finding in same.report.errors)
    codes = {*_codes(run.report)}
    run.questions = Questions(run.launched, error_codes(run.report))
    if not _CUT_SHORT & codes:
        run.stores = 0 if "out-of-bounds" in codes else same.stores  # stores outside of arrays should disappear
        run.changed = count_changed(run.before, same.results)
    return LONG if _LEAST * (clock() - started) > seconds else ""


def _count_lost(before: Results, one: Results, other: Results) -> int:
    """Return the number of elements that the launch with results `one` changes, and that with `other` does not."""
    arrays = [(a, b, c) for (_, a), (_, b), (_, c) in zip(before, one, other, strict=False)]
    return sum(int(np.count_nonzero((a != b) & (a == c))) for a, b, c in arrays if a.shape == b.shape == c.shape)


def _replaced_lines(cure: Cure) -> set[tuple[str, int]]:
    """Return the lines with a wrong expression, according to an edit that replaces it."""
    edits = [edit for edit in cure.edits if edit.kind in _REPLACES]
    return {(c.file, line) for edit in edits for c in edit.changes for line in range(c.line, c.end_line + 1)}


def _codes(report: Any) -> list[str]:
    return sorted(finding.code for finding in report.findings)


# -- conditions for a fix ----------------------------------------------------------------------------------------------
def is_cure(now: Any, before: Any) -> bool:
    """Return whether a launch is verified and, if the launch before the edit was verified too, has fewer warnings."""
    if now.verdict != "verified" or _needs_new_convention(now, before):
        return False
    if before.verdict != "verified":
        return True
    return len(now.findings) < len(before.findings) and not new_warnings(now, before)


def _total_stores(accesses: Accesses) -> int:
    """Return the stores to all arrays."""
    return sum(count for (_, what), count in accesses.items() if what == "stores")


def _needs_new_convention(now: Any, before: Any) -> bool:
    """Return whether a launch is verified only under a convention that the launch before the edit did not need.  An
    edit that makes CTAs store to one location, or that deletes a wait for a store, is a mistake.  If the error was
    about the order of accesses, its fix may leave a finding that needs such a convention."""
    codes = {*_codes(before)}
    new = {f.code for f in now.findings if CODES[f.code].rests_on} - codes
    return bool(new - _HIDDEN if codes & _OF_CONVENTIONS else new)


def new_warnings(now: Any, before: Any) -> int:
    """Return the number of findings with codes that the launch before the edit did not have."""
    codes = {finding.code for finding in before.findings}
    return sum(finding.code not in codes for finding in now.findings)


def finding_keys(findings: Iterable[Finding]) -> set[Any]:
    """Return keys of findings: the code, the text of the locations, and a number that distinguishes equal ones.  Lines
    are no part of a key, since an edit moves them."""
    seen: Counter[Any] = Counter()
    found = set()
    for finding in findings:
        key = causes.key(finding)
        found.add((key, seen[key]))
        seen[key] += 1
    return found


# -- the order of edits ------------------------------------------------------------------------------------------------
def scene(text: Text, lines: frozenset[int], report: Any, original: Text) -> Scene:
    """Return the scene from which edits of a file are derived."""
    findings = report.findings[:_EXPLAINED]
    functions = [*dict.fromkeys(f for line in sorted(lines) if (f := original.outermost(line)))]
    if text is not original:
        names = [*original.functions()]
        others = [*text.functions()]
        functions = [others[names.index(f)] for f in functions]
    places = [s.line for f in findings for s in sorted(f.sites, key=lambda s: not s.primary) if s.file == text.file]
    said = "\n".join(part for f in findings for part in (f.message, *(s.text for s in f.sites), *f.notes, f.help or ""))
    x, y, z = report.block
    codes = [*dict.fromkeys(f.code for f in findings)]
    return Scene(text, functions, [*dict.fromkeys(places)][:12], codes, said, x * y * z)


def collect_edits(scene: Scene) -> list[tuple[float, Candidate]]:
    """Return the edits of a file with their distances, unsorted."""
    if not scene.hot and not scene.functions:
        return []
    found = [c for module in (synchronisation, values, conditions, constants, shapes) for c in module.edits(scene)]
    kinds = [(n, cures_of(code).edits.split()) for n, code in enumerate(scene.codes)]
    base: dict[str, float] = {}
    for n, names in kinds:
        for place, kind in enumerate(names):
            base[kind] = min(base.get(kind, 99.0), _STEP * place + 0.5 * min(n, 4))
    return [(base[c.edit.kind] + c.near, c) for c in found if c.edit.kind in base]


# -- the order of fixes ------------------------------------------------------------------------------------------------
def rank_cures(run: Search, expected: dict[str, Any]) -> list[Tried]:
    """Return the fixes, the best one first."""
    if not run.cures:
        return []
    most = max(t.attempted.stores for t in run.cures if not _leaves_out(t)) if any(
        not _leaves_out(t) for t in run.cures
    ) else max(t.attempted.stores for t in run.cures)  # fmt: skip
    any_most = max(t.attempted.stores for t in run.cures)
    kinds = [digest(t.attempted.results) for t in run.cures if not _leaves_out(t)]
    ordering, places = {*_codes(run.report)} <= _OF_ORDER, bool(_OF_PLACES & {*_codes(run.report)})

    def rank(tried: Tried) -> tuple[Any, ...]:
        right = agrees(tried.attempted.results, expected)
        rarity = -kinds.count(digest(tried.attempted.results))
        return (
            right is False,
            2 * (is_launch_edit(tried) and tried.attempted.stores < any_most)  # correct threads are lost as well
            or _leaves_out(tried)
            or tried.lost > 0
            or tried.drops
            or tried.attempted.stores < max(most, run.stores) // 2,
            places and (tried.less != "" or _hides(tried)),  # after a race, the dropped work may have been done twice
            tried.drops,
            tried.changes if _leaves_out(tried) else 0,
            tried.fails,
            len(tried.edits),
            new_warnings(tried.attempted.report, run.report),
            kind_rank(tried)
            + (_DODGES if ordering and any(c.edit.kind == "swap" for c in tried.edits) else 0)
            + (_DODGES if places and any(c.edit.kind == "constant" for c in tried.edits) else 0),
            sum(c.odd for c in tried.edits),
            rarity if len(set(kinds)) > 1 else 0,
            max(sum(c.waits for c in tried.edits), 0),
            sum(c.near for c in tried.edits),
        )

    return sorted(run.cures, key=rank)


def kind_rank(tried: Tried) -> int:
    """Return the rank of a fix by its kinds of edits; the best fix has the smallest rank."""
    return max(
        _RANK.get(c.edit.kind, 0)
        + (_WEAK * c.odd if c.odd > 0 and c.edit.kind in _ELSEWHERE else 0)
        - (_WEAK if c.odd < 0 and c.edit.kind == "load" else 0)
        for c in tried.edits
    )


def is_launch_edit(tried: Tried) -> bool:
    """Return whether the fix is another launch of the unedited kernel."""
    return any(c.edit.kind == "launch" for c in tried.edits)


def _leaves_out(tried: Tried) -> bool:
    """Return whether an edit may drop stores."""
    return any(c.edit.kind == "guard" for c in tried.edits)


def _hides(tried: Tried) -> bool:
    """Return whether an edit replaces a wrong read by 0, and the kernel has no such replacement elsewhere."""
    return any(c.edit.kind in ("load", "fill") and c.odd >= 0 for c in tried.edits)


def digest(results: Results) -> bytes:
    """Return the bytes of results, for comparisons."""
    return b"".join(name.encode() + data.tobytes() for name, data in results)


def agrees(results: Results, expected: dict[str, Any]) -> bool | None:
    """Return whether results are as expected; None if no results are expected."""
    if not expected:
        return None
    known = dict(results)
    return all(name in known and _is_expected(known[name], value) for name, value in expected.items())


def _is_expected(found: npt.NDArray[Any], value: Any) -> bool:
    """Return whether an array is as expected: equal to an array, or accepted by a function."""
    return bool(value(found)) if callable(value) else _equal(found, np.asarray(value))


def _equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind in "fc" or other.dtype.kind in "fc":
        return bool(np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True))
    return bool(np.array_equal(one, other))


def describe_cures(run: Search, best: list[Tried], expected: dict[str, Any]) -> list[Cure]:
    """Return the fixes as data, the best one first; fixes that only do less are left out."""
    numbers: dict[bytes, int] = {}
    found = []
    first = best[0] if best else None
    for tried in best:
        assert first is not None
        number = numbers.setdefault(digest(tried.attempted.results), len(numbers))
        if number and _does_less(tried, first, run):
            continue  # such a fix only does less work
        file = tried.file or tried.edits[0].edit.changes[0].file
        left = {f.code for f in tried.attempted.report.findings}
        gone = [n for n, f in enumerate(run.report.findings) if f.code not in left or f.severity == "error"]
        found.append(
            Cure(
                file=file,
                edits=[c.edit for c in tried.edits] if len(tried.edits) == 1 else rebase_edits(run.texts[file], tried),
                diff=difference(run.texts[file], tried.source),
                proof=tried.attempted.report.proof,
                findings=gone,
                drops=(_leaves_out(tried) and not run.stores)
                or tried.drops
                or tried.lost > 0
                or tried.attempted.stores < max(first.attempted.stores, run.stores),
                less=tried.less,
                results=number,
                differs=differs(first.attempted.results, tried.attempted.results) if number else "",
                expected=agrees(tried.attempted.results, expected),
                fails=tried.fails,
            )
        )
    return found


def _does_less(tried: Tried, first: Tried, run: Search) -> bool:
    """Return whether a fix, whose results differ from those of the first one, only does less.  It drops stores by a
    condition, or it changes which elements are accessed although only the order of accesses is wrong."""
    if _leaves_out(tried) and tried.attempted.stores < first.attempted.stores:
        return True
    kinds = [{c.edit.kind for c in one.edits} for one in (first, tried)]
    return {*_codes(run.report)} <= _OF_ORDER and kinds[0] <= ORDERS and not kinds[1] <= ORDERS


def rebase_edits(text: Text, tried: Tried) -> list[Edit]:
    """Return successive edits as changes of the original file, line by line."""
    old, new = lines_of(text.source), lines_of(tried.source)
    changes = [
        Change(file=text.file, line=a + 1, column=1, end_line=b + 1, end_column=1, text="".join(new[c:d]))
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    last = len(tried.edits) - 1
    return [c.edit.model_copy(update={"changes": changes if n == last else []}) for n, c in enumerate(tried.edits)]


def difference(text: Text, source: str) -> list[str]:
    """Return the hunks of a unified diff."""
    old, new = ([line.rstrip("\n") for line in lines_of(some)] for some in (text.source, source))
    return [*difflib.unified_diff(old, new, n=_CONTEXT, lineterm="")][2:]


def differs(one: Results, other: Results) -> str:
    """Return the difference of two results, in a sentence."""
    for (name, a), (_, b) in zip(one, other, strict=False):
        if a.shape != b.shape or a.tobytes() == b.tobytes():
            continue
        wrong = np.argwhere(np.atleast_1d(a != b))
        if not len(wrong):
            continue
        at = tuple(int(i) for i in wrong[0])
        index = ", ".join(map(str, at))
        first, second = np.atleast_1d(a)[at], np.atleast_1d(b)[at]
        element = f"`{name}[{index}]` is {second}, not {first}"
        return f"`{name}` differs in {len(wrong):,} of {a.size:,} elements: {element}"
    return "the arrays differ"
