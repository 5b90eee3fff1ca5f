"""mbarriers, copies and memory of other CTAs against enumeration: `verified` exactly when no interleaving has a fault.

cluster_programs.py spreads the programs of phase_programs.py over a cluster; `benchmarks/soundness.py --kind clusters`
does the same for as many programs as one has patience for.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.cluster_programs import clustered, judged_clusters


def test_random_programs_of_a_cluster_are_judged_as_enumeration_does() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        found = judged_clusters(clustered(random.Random(seed)), ("vm", "reference") if seed % 4 == 0 else ("vm",))
        assert not found.complaints, str(found)
        seen.update(found.outlook.faults or {"right"})
    assert seen["right"] > 10, seen
    assert len(seen) >= 5, seen
