"""Every witness of a random kernel replays: what its schedule says is what the launch does, whatever races, loops,
diverges, exits early or goes where a race sends it."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.evidence.readings import format_steps
from wsemu.launch.hooks import starting
from wsemu.launch.replay.run import follow
from wsemu.model.bound import Bound

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties import test_lanes, test_random_warps

if TYPE_CHECKING:
    from collections.abc import Callable


def of_warps(seed: int) -> wsemu.Report:
    source = random.Random(seed)
    text = test_random_warps.Writer(source, mild=source.random() < 0.5).kernel()
    grid, block = source.choice([1, 1, 2, 3]), source.choice([32, 64, 64, 70, 96])
    arguments = (np.zeros(96, np.int32), 40)
    return wsemu.check(test_random_warps.build(text), grid, block, arguments, budget=200_000, workers=1)


def of_lanes(seed: int) -> wsemu.Report:
    return test_lanes.check(test_lanes.drawn(random.Random(seed)))


def replayed(make: Callable[[int], wsemu.Report], seed: int) -> Counter[str]:
    """The codes of the errors of a kernel, each of which was replayed."""
    bound: list[Bound] = []

    def keep(launch: Bound) -> None:
        bound[:] = [launch._replace(segments=[(data.copy(), writable) for data, writable in launch.segments])]

    starting.append(keep)
    try:
        report = make(seed)
    finally:
        starting.remove(keep)
    codes: Counter[str] = Counter()
    for finding in report.errors:
        replay = follow(bound[0], finding.code, finding.steps)
        assert replay.end == "fault" or format_steps(replay.steps) == format_steps(finding.steps), (
            seed,
            finding.message,
        )
        codes[finding.code] += 1
    return codes


STEERED: tuple[Any, ...] = (68, 76, 130, 136, 155, 169, 245, 246)
"""kernels in which a race decides where warps go, or a warp's exit lets others on"""


@pytest.mark.parametrize("seeds", [range(40), STEERED], ids=["drawn", "steered"])
def test_every_witness_of_diverging_warps_replays(seeds: tuple[int, ...]) -> None:
    codes = sum((replayed(of_warps, seed) for seed in seeds), Counter[str]())
    assert codes["race"] >= 10
    assert codes["intra-warp-race"] >= 10


def test_every_witness_of_lanes_replays() -> None:
    codes = sum((replayed(of_lanes, seed) for seed in range(30)), Counter[str]())
    assert codes["race"] >= 10
    assert codes["intra-warp-race"] >= 15
