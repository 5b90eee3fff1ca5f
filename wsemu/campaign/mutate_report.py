"""Output of `wsemu mutate` and `pytest --wsemu-mutate`: the survivors with their diffs, and the total."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from wsemu.model.data import dataclass, field
from wsemu.model.file_names import short
from wsemu.report.diagnostic import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.campaign.mutate import Mutant, Same, Told, Way
    from wsemu.report.diagnostic import Style

FORMAT = 1
_KILLED: dict[Way, tuple[str, str]] = {
    "check": ("by checks", "by checks"),
    "test": ("by tests", "by tests"),
    "error": ("does not compile or is refused", "do not compile or are refused"),
    "time": ("does not end", "do not end"),
}
"""words for one mutant and for several"""
_EQUIVALENT: dict[Same, str] = {
    "code": "with the same code",
    "accesses": "with the same accesses",
    "proof": "without what no proof needs",
}


@dataclass(slots=True)
class Mutated:
    """The outcomes of the mutants of a test."""

    name: str
    mutants: Sequence[Mutant]
    told: dict[int, Told] = field(default_factory=dict)
    resumed: int = 0
    """number of mutants with known outcomes"""
    stopped: str = ""
    """reason why not all mutants were tried: interrupted, or the time limit"""

    def survivors(self) -> list[tuple[Mutant, Told]]:
        """Return the mutants that no test detects and that are not equivalent, in the order of the sources."""
        return self._survivors(explained=False)

    def equivalent(self) -> list[tuple[Mutant, Told]]:
        """Return the mutants that change nothing in the launches of the tests."""
        return self._survivors(explained=True)

    def _survivors(self, *, explained: bool) -> list[tuple[Mutant, Told]]:
        return [
            (self.mutants[n], told)
            for n, told in sorted(self.told.items())
            if told.way == "survives" and bool(told.same) == explained
        ]

    @property
    def exit_code(self) -> int:
        """Return 1 if a mutant survives, 130 if stopped before all were tried, else 0."""
        return 1 if self.survivors() else 130 if self.stopped else 0


def lines(mutated: Mutated, *, whole: bool = False) -> list[tuple[str, Style]]:
    """Return the report as pieces of text with their styles; with `whole`, also the diffs of equivalent mutants."""
    found: list[tuple[str, Style]] = []
    for mutant, told in mutated.survivors():
        found += [(f"survives: {_place(mutant)} ({mutant.kind})", "strong"), *_diff(mutant), (f"  {told.why}", ""),
                  ("", "")]  # fmt: skip
    for mutant, told in mutated.equivalent():
        found.append((f"equivalent: {_place(mutant)} ({mutant.kind}): {told.why}", ""))
        found += _diff(mutant) if whole else [(f"  {mutant.before}  ->  {mutant.after}", "")]
    if mutated.equivalent():
        found.append(("", ""))
    return [*found, *_sum(mutated)]


def _place(mutant: Mutant) -> str:
    return f"{short(mutant.file)}:{mutant.line}, in `{mutant.function}`"


def _diff(mutant: Mutant) -> list[tuple[str, Style]]:
    shown = [line.rstrip() for line in mutant.diff if not line.startswith("@@")]
    while shown and not shown[-1]:
        shown.pop()
    return [(f"  {line}", "") for line in shown]


def _sum(mutated: Mutated) -> list[tuple[str, Style]]:
    ways = Counter(told.way for told in mutated.told.values())
    same = Counter(told.same for _, told in mutated.equivalent())
    alive, count = len(mutated.survivors()), len(mutated.told)
    found: list[tuple[str, Style]] = []
    if mutated.resumed:
        found.append((f"{plural(mutated.resumed, 'mutant')} known from before", ""))
    if mutated.stopped:
        extent = f"{count:,} of {plural(len(mutated.mutants), 'mutant')}"
        found.append((f"{mutated.stopped} after {extent}: the same command goes on from there", "warning"))
    ended = ", ".join(f"{ways[way]:,} {what[ways[way] > 1]}" for way, what in _KILLED.items() if ways[way])
    killed = f"{count - ways['survives']:,} killed{f' ({ended})' if ended else ''}"
    said = f"{mutated.name}  {plural(count, 'mutant')}: {killed}"
    if same:
        kinds = ", ".join(f"{same[kind]:,} {what}" for kind, what in _EQUIVALENT.items() if same[kind])
        said += f", {sum(same.values()):,} equivalent here ({kinds})"
    said += f", {alive:,} survive{'s' * (alive == 1)}"
    return [*found, (said, "error" if alive else "warning" if mutated.stopped else "good")]


def document(mutated: Mutated) -> dict[str, Any]:
    """Return the report as JSON-compatible data."""
    return {
        "format": FORMAT,
        "name": mutated.name,
        "exit_code": mutated.exit_code,
        "stopped": mutated.stopped,
        "mutants": [
            {**asdict(mutant), **(asdict(mutated.told[n]) if n in mutated.told else {"way": ""})}
            for n, mutant in enumerate(mutated.mutants)
        ],
    }
