"""`pytest --wsemu-mutate`: try mutants of the kernels that the tests of a session launch, in the process of the
session, after the tests have passed."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any

from wsemu.campaign.mutate import Bench
from wsemu.campaign.mutate_command import FOLDER, Campaign
from wsemu.campaign.mutate_report import Mutated
from wsemu.campaign.mutate_results import Results
from wsemu.campaign.mutate_trials import Item
from wsemu.campaign.user_file import sources
from wsemu.campaign.watch import State
from wsemu.model.errors import UsageError
from wsemu.report.diagnostic import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wsemu.campaign.mutate import Told


def run(items: Sequence[Any], folder: Path, kinds: Sequence[str], kernels: Sequence[str]) -> Mutated | None:
    """Return the outcomes of the mutants; None if the tests launch nothing.

    Earlier outcomes are reused if the sources and the selection of tests and mutants are unchanged.
    """
    try:
        bench = Bench([Item(item) for item in items], kinds, kernels, strict=False)
    except UsageError:
        return None
    names = "\n".join([*bench.trials, *kinds, "", *kernels])
    name = f"pytest {hashlib.sha256(names.encode()).hexdigest()[:16]}"
    mutated = Mutated(plural(len(bench.known), "test"), bench.mutants())

    def answers(left: Sequence[int]) -> Iterator[tuple[int, Told]]:
        for number in left:
            yield number, bench.judge(number)

    with Results(folder / FOLDER / "pytest.sqlite") as results:
        results.begin(name, sources())
        Campaign(mutated, range(len(mutated.mutants)), results, _show).run(answers)
    return mutated


def _show(state: State) -> None:
    """Show the progress on a terminal."""
    if sys.stderr.isatty():
        end = "\n" if state.done == state.total else ""
        print(f"\rmutants: {state.done:,} of {state.total:,}", end=end, file=sys.stderr, flush=True)
