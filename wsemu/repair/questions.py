"""Questions about an edit with which a launch is verified: does the kernel still do its work?

A launch without races may omit stores, copy elements onto themselves, or be correct only for the given data.  Each
question compares launches of the original kernel with launches of the edited kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.codes import CODES
from wsemu.model.data import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.repair.search import Attempted, Launched, Results

ORDERS = frozenset(("insert", "move", "stage", "delete", "pair", "split", "unguard", "call", "argument", "return"))
"""kinds of edits that change when accesses happen, and not which accesses"""
_OF_PLACES = frozenset(("out-of-bounds", "uninitialized-read", "misaligned"))
"""codes of errors that another size alone may cause"""
_FEW = 4
"""number of elements below which an edit may leave them unchanged by coincidence"""
_ALIKE = 2
"""an edit must still change at least one in this many of the elements that the original kernel changes"""


@dataclass()
class Questions:
    """The questions of a search, and the answers for the original kernel."""

    launched: Launched
    codes: frozenset[str] = frozenset()
    """codes of the errors of the original kernel"""
    answered: dict[str, int] = field(default_factory=dict)
    """number of edits that were rejected for each reason"""
    _other: list[tuple[Results, Attempted | None]] = field(default_factory=list)
    _sizes: list[Any] = field(default_factory=list)
    """sizes at which the original kernel has no errors with other codes; None comes first, once they are known"""

    def reject(self, kinds: Iterable[str], attempt: Callable[[], Attempted | None]) -> bool:
        """Return whether an edit of these kinds fails as a fix; `attempt` launches the edited kernel."""
        reason = self._find_reason({*kinds}, attempt)
        if reason:
            self.count_rejected(reason)
        return bool(reason)

    def count_rejected(self, reason: str) -> None:
        """Record that an edit was rejected, and the reason."""
        self.answered[reason] = self.answered.get(reason, 0) + 1

    def _find_reason(self, kinds: set[str], attempt: Callable[[], Attempted | None]) -> str:
        if kinds & ORDERS and self.launched.overlaps:
            return "only order stores of different data to the same bytes"
        if kinds <= ORDERS or "launch" in kinds or self.launched.only:
            return ""
        with self.launched.other_contents():
            before, base = self._base()
            if base is None:
                return ""
            done = attempt()
        if done is None or done.report.verdict != "verified":
            return "fail for other contents of the arrays"
        changed = count_changed(before, base.results)
        if kinds - ORDERS and self.count_failing_sizes(attempt):
            return "fail for other sizes"
        if changed >= _FEW and _ALIKE * (count_changed(before, done.results) + done.elsewhere) < changed:
            return "leave the arrays as they were for other contents"
        return ""

    def count_failing_sizes(
        self, attempt: Callable[[], Attempted | None], is_over: Callable[[], bool] = lambda: False
    ) -> int:
        """Return the number of neighboring sizes at which an edited kernel fails although the original kernel has at
        most the same errors.  `attempt` launches the edited kernel.  No size is tried once `is_over` returns true."""
        if is_over():
            return 0
        if not self._sizes:
            self._sizes = [None, *(size for size in self.launched.other_sizes() if self._is_clean_size(size))]
        fails = 0
        for size in self._sizes[1:]:
            if is_over():
                break
            with self.launched.resize_launches(size):
                done = attempt()
            codes = error_codes(done.report) if done is not None else self.codes
            fails += bool(codes) and not codes & _OF_PLACES
        return fails

    def _is_clean_size(self, size: Any) -> bool:
        with self.launched.resize_launches(size):
            done = self.launched.rerun_unchanged()
        codes = None if done is None else error_codes(done.report)
        return codes is not None and codes <= self.codes and not codes & _OF_PLACES  # no array grows with a size

    def _base(self) -> tuple[Results, Attempted | None]:
        """Launch the original kernel with other contents.  Return None if they cause other errors."""
        if not self._other:
            before = self.launched.arrays_before()
            done = self.launched.rerun_unchanged()
            alike = done is not None and error_codes(done.report) <= self.codes
            self._other.append((before, done if alike else None))
        return self._other[0]

    def text(self) -> str:
        """Return, in words, the reason that rejected the most edits; empty if no edit was rejected."""
        if not self.answered:
            return ""
        reason, count = max(self.answered.items(), key=lambda item: item[1])
        return f"edits that remove the errors {reason} ({count} tried)"


def error_codes(report: Any) -> frozenset[str]:
    """Return the codes of the errors of a report."""
    return frozenset(f.code for f in report.findings if CODES[f.code].severity == "error")


def count_changed(before: Results, after: Results) -> int:
    """Return the number of elements that differ; all elements of an array with another size count."""
    pairs = zip((a for _, a in before), (b for _, b in after), strict=False)
    return sum(int(np.count_nonzero(a != b)) if a.shape == b.shape else b.size for a, b in pairs)
