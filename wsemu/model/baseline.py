"""Baseline files: findings that a project has accepted at one point in time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple, dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


class BaselineEntry(NamedTuple):
    """A finding of a baseline."""

    fingerprint: str
    code: str
    kernel: str
    file: str
    """source file of the finding, as it was displayed"""
    text: str
    """severity, location and title of the finding, for readers of the file"""
    times: int = 1
    """number of findings of a launch with this fingerprint; any more are new findings"""
    program: str = ""
    """program whose launch had the finding"""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline file."""

    file: str
    entries: Mapping[str, BaselineEntry]
    """accepted findings, by their fingerprints"""
    lines: Mapping[str, int]
    """line of the file, from 1, by fingerprint"""

    @property
    def codes(self) -> frozenset[str]:
        """Return the finding codes in the baseline."""
        return frozenset(entry.code for entry in self.entries.values())


@dataclass(slots=True)
class Acceptance:
    """The findings of one launch that a baseline accepts: each entry accepts up to `times` findings."""

    baseline: Baseline
    used: Counter[str]

    @classmethod
    def of(cls, baseline: Baseline) -> Acceptance:
        """Return the acceptance of a launch that begins."""
        return cls(baseline, Counter())

    def accepts(self, fingerprint: str) -> bool:
        """Return whether the baseline accepts one more finding with this fingerprint."""
        entry = self.baseline.entries.get(fingerprint)
        if entry is None or self.used[fingerprint] >= entry.times:
            return False
        self.used[fingerprint] += 1
        return True
