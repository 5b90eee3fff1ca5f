"""mbarriers, copies and memory of other CTAs against enumeration: `verified` exactly when no interleaving has a fault.

cluster_programs.py spreads the programs of phase_programs.py over a cluster; `benchmarks/soundness.py --kind clusters`
does the same for any number of programs.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.properties.cluster_programs import Spread, clustered, judged_clusters
from tests.properties.phase_explorer import parse
from wsemu.machine import tables, workers

EXAMPLES = {
    "1 | t0: V(0,3) | t1: x(0,16) w(0,0) R(1) @ 1 / 0 1 1": "async-outlives-cta",
    "1 | t0: V(0,3) S(7,2) | t1: x(0,16) w(0,0) R(1) S(7,2) @ 1 / 0 1 1": "",
    "1 | t0: V(0,3) Z(7,2) | t1: x(0,16) w(0,0) R(1) Z(7,2) @ 1 / 0 1 1": "",
    "1 1 | t0: V(0,3) w(1,0) | t1: x(0,16) w(0,0) R(1) a(1) @ 1 0 / 0 1 1": "",
    "1 | t0: V(0,3) S(7,2) | t1: S(7,2) x(0,16) @ 1 / 0 1 1": "async-outlives-cta dsmem-after-exit",
    "1 1 1 1 | t0: e(0,16) T(0,0) a(0) e(1,16) T(1,1) a(1) | t1: w(0,0) R(0) a(2) R(1) a(3) @ 1 0 1 1 / 1 0 1": (
        "async-outlives-cta dsmem-after-exit race"
    ),
    "1 | t0: R(1) S(7,2) | t1: S(7,2) @ 1 / 0 1 1": "",
    "1 | t0: R(1) Z(7,2) | t1: Z(7,2) @ 1 / 0 1 1": "dsmem-relaxed-exit",
    "1 | t0: Z(7,2) R(1) | t1: Z(7,2) @ 1 / 0 1 1": "dsmem-after-exit",
    "1 | t0: a(0) | t1: w(0,0) @ 1 / 0 1 1": "",
    "1 | t0: a(0) Z(7,2) | t1: Z(7,2) @ 1 / 0 1 1": "dsmem-relaxed-exit",
    "1 | t0: T(0,1) | t1: x(0,16) w(0,0) @ 1 / 0 1 1": "",
    "1 | t0: W(1) a(0) | t1: w(0,0) R(1) @ 1 / 0 1 1": "",
    "1 | t0: W(1) Z(7,2) | t1: Z(7,2) R(1) @ 1 / 0 1 1": "race dsmem-relaxed-exit",
    "1 1 1 1 | t0: d(0) w(2,1) e(0,0) V(0,2) S(7,2) a(0) | t1: w(0,0) R(0) S(7,2) a(2) @ 1 0 0 0 / 1 0 0": (
        "deadlock over-arrival"
    ),
    "1 | t0: e(0,16) T(0,1) Z(7,2) | t1: Z(7,2) a(0) w(0,0) @ 1 / 0 1 1": "",
}
"""a program, and where its mbarriers and variables are -> what its interleavings show"""


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_on_both_engines(line: str) -> None:
    program, _, where = line.partition(" @ ")
    homes, places = ([int(rank) for rank in ranks.split()] for ranks in where.split(" / "))
    found = judged_clusters(Spread(parse(program), tuple(homes), tuple(places)), ("vm", "reference"))
    assert not found.complaints, str(found)
    shown = {*found.outlook.faults, *(["dsmem-relaxed-exit"] if found.outlook.requested else [])}
    assert shown == set(EXAMPLES[line].split())


def test_random_programs_of_a_cluster_are_judged_as_enumeration_does() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        found = judged_clusters(clustered(random.Random(seed)), ("vm", "reference") if seed % 4 == 0 else ("vm",))
        assert not found.complaints, str(found)
        seen.update(found.outlook.faults or {"right"})
    assert seen["right"] > 10, seen
    assert len(seen) >= 5, seen


def test_a_wide_machine_judges_them_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})
    monkeypatch.setattr(tables, "width_of", lambda groups, warps: 1)
    for seed in range(1000, 1040):
        found = judged_clusters(clustered(random.Random(seed)), ("vm",))
        assert not found.complaints, str(found)
