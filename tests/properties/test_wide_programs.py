"""Programs in groups of many warps: the verdict is what their interleavings show, wherever their warps lie."""

from __future__ import annotations

import random

import pytest

from tests.properties.agreement import judged, judged_lanes
from tests.properties.cluster_programs import clustered, judged_clusters
from tests.properties.lane_programs import LANE_FAMILIES
from tests.properties.phase_programs import judged_phases, ring
from tests.properties.programs import skeleton
from tests.properties.wide_programs import Wide


@pytest.mark.parametrize("warps", [64, 256])
def test_programs_are_judged_alike_wherever_their_warps_lie(warps: int) -> None:
    source = random.Random(f"wide {warps}")
    for k in range(2):
        wide = Wide(warps, str(k))
        barriers = judged(skeleton(source), ["vm"], wide.barriers())
        lanes = judged_lanes(LANE_FAMILIES["diverged"](source), ["vm, lanes"], wide.lanes())
        phases = judged_phases(ring(source), ("vm",), wide.phases)
        clusters = judged_clusters(clustered(source), ("vm",), wide.clusters)
        complaints = [barriers.complaints, lanes.complaints, phases.complaints, clusters.complaints]
        assert not any(complaints), (barriers, lanes, phases, clusters)
