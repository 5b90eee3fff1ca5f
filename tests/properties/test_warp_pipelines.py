"""The engines agree on random programs of asynchronous operations: how they end, findings, events, memory."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.properties.warp_pipelines import differences, runs


@pytest.mark.parametrize("family", ["soup", "pipeline"])
def test_the_engines_agree(family: str) -> None:
    told = []
    for seed in range(15):
        ran = runs(family, seed)
        told += [
            f"{family} {seed} {engine}: {what}"
            for engine, other in ran.items()
            for what in differences(ran["reference"], other)
        ]
    assert not told, "\n".join(told)


def test_pipelines_without_a_mistake_are_clean() -> None:
    for seed in range(20):
        ran = runs("right", seed)["reference"]
        assert ran.is_clean(), (seed, ran.outcome.findings)


def test_pipelines_are_a_fair_mix() -> None:
    seen = Counter[str]()
    for seed in range(40):
        ran = runs("pipeline", seed)["reference"]
        seen.update({ran.status, *ran.codes} if ran.codes else ["clean"])
    assert seen["clean"] > 5
    assert min(seen["race"], seen["phase-alias"], seen["deadlock"]) > 0
