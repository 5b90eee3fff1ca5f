"""CTAs that add to a counter and wait until it has reached a number, and tickets at such a counter."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.counter_programs import Step, draw_counters, judge_counters, ptx
from tests.properties.turn_programs import check_by_flags
from tests.unit.steering_kernels import variant
from wsemu import cuda

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

CTAS = 3
FENCE, BARRIER, ENOUGH = True, True, 0


def meet(bar: Any, sums: Any, data: Any) -> None:
    """A barrier of the grid that counts on; sums behind it decide what is stored."""
    t, b, target = cuda.threadIdx.x, cuda.blockIdx.x, 0
    for phase in range(2):
        if t == 0:
            cuda.atomic.add(sums, phase, data[b * 32])
        if BARRIER:
            cuda.syncthreads()
        if t == 0:
            if FENCE:
                cuda.threadfence()
            cuda.atomic.add(bar, 0, 1)
            target += cuda.gridDim.x
            while cuda.atomic.add(bar, 0, 0) < target - ENOUGH:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        if sums[phase] & 1:
            data[b * 32 + t] += sums[phase]
        cuda.syncthreads()


def launch(ctas: int, engine: Engine = "vm", **parts: Any) -> Any:
    arguments = np.zeros(1, np.int32), np.zeros(2, np.int32), np.full(32 * ctas, 3, np.int32)
    report = wsemu.check(variant(meet, **parts), ctas, 32, arguments, engine=engine)
    return report, arguments[2]


def test_a_barrier_that_counts_on_is_decided_although_data_decides_branches() -> None:
    report, data = launch(5)
    assert report.verdict == "verified", report.notes
    assert "whenever each wait sees its flag" in report.proof
    assert set(data.tolist()) == {3 + 15 + 90 - 90 * (5 * 18 % 2 == 0)}


@pytest.mark.parametrize("part", [{"FENCE": False}, {"ENOUGH": 1}])
def test_a_barrier_that_counts_on_with_a_mistake_races(part: dict[str, Any]) -> None:
    report, _ = launch(5, **part)
    assert report.verdict == "failed"
    assert {finding.code for finding in report.findings if finding.severity == "error"} == {"race"}


def arrive(cta: int, amount: int = 1) -> list[Step]:
    """Return the steps of a CTA that stores a word, adds to the counter, waits for all, and loads the next word."""
    add, wait = Step("add", 0, amount, "release"), Step("wait", 0, CTAS, "acquire", "ge")
    return [Step("store", cta, 1), add, wait, Step("load", (cta + 1) % CTAS)]


RIGHT = [arrive(cta) for cta in range(CTAS)]
ADD, WAIT = Step("add", 0, 1, "release"), Step("wait", 0, 3, "acquire", "ge")
TICKET = Step("ticket", 0, 2 * CTAS - 1, "acq_rel", "eq", then=(Step("store", 0, 5),))


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_wait_acquires_from_all_additions_that_it_needs(engine: Engine) -> None:
    assert check_by_flags(ptx(RIGHT), CTAS, engine) == ("verified", True)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_last_ticket_does_more_whichever_thread_has_it(engine: Engine) -> None:
    program = [[*steps, TICKET] for steps in RIGHT]
    assert check_by_flags(ptx(program), CTAS, engine) == ("verified", True)


MISTAKES = {
    "another addition suffices": [*RIGHT[:2], [*RIGHT[2][:2], ADD, *RIGHT[2][2:]]],
    "an addition that counts twice": [*RIGHT[:2], arrive(2, amount=2)],
    "an addition that releases nothing": [*RIGHT[:2], [RIGHT[2][0], Step("add", 0, 1), *RIGHT[2][2:]]],
    "a wait that acquires nothing": [*RIGHT[:2], [*RIGHT[2][:2], Step("wait", 0, CTAS, kind="ge"), RIGHT[2][3]]],
    "a wait for less": [*RIGHT[:2], [*RIGHT[2][:2], Step("wait", 0, 2, "acquire", "ge"), RIGHT[2][3]]],
    "a wait for one value": [[*RIGHT[0], ADD], [*RIGHT[1][:2], Step("wait", 0, CTAS, "acquire", "eq")], RIGHT[2]],
    "a wait for ever": [*RIGHT[:2], [*RIGHT[2][:2], Step("wait", 0, CTAS + 1, "acquire", "ge"), RIGHT[2][3]]],
    "a ticket that acquires nothing": [[*steps, TICKET._replace(order="release")] for steps in RIGHT],
    "a ticket that is not the last": [[*steps, TICKET._replace(value=2 * CTAS - 2)] for steps in RIGHT],
    "a wait that ends before the last ticket": [
        [ADD, WAIT, Step("store", 0, 1), TICKET._replace(value=3, then=(Step("store", 1),))],
        [ADD, ADD],
        [WAIT, ADD],
        [WAIT._replace(value=4), Step("load", 0)],
    ],
    "two tickets store": [[*steps, TICKET._replace(value=2 * CTAS - 2, kind="ge")] for steps in RIGHT],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_counters_with_a_mistake_are_not_proven(name: str) -> None:
    verdict, proven = check_by_flags(ptx(MISTAKES[name]), len(MISTAKES[name]))
    assert (verdict != "verified", proven) == (True, False)


def test_random_counters_are_decided_as_by_all_orders() -> None:
    source = random.Random(5)
    judged = [judge_counters(draw_counters(source), ("vm",)) for _ in range(15)]
    assert not [one for one in judged if one.complaints]
    assert 2 < sum(one.fails for one in judged) < 13
