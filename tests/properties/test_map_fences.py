"""Fences of the tensormap proxy: wsemu agrees with the rules of PTX on which copies may read a stale map.

`benchmarks/soundness.py --kind maps` does the same for any number of programs.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.properties.map_programs import judged_maps, map_program


def test_random_programs_of_maps_are_judged_as_ptx_does() -> None:
    seen: Counter[str] = Counter()
    for seed in range(25):
        found = judged_maps(map_program(random.Random(seed)), "reference" if seed % 4 == 0 else "vm")
        assert not found.complaint, f"{found.complaint}\n{found.program}"
        seen.update([found.verdict, *found.lacks])
    assert min(seen[what] for what in ("verified", "failed", "released", "acquired")) > 4, seen
