"""The verdict against enumeration: `verified` exactly when no interleaving of a random program shows a fault.

explorer.py enumerates, programs.py makes the programs and their kernels, algorithm.py is the checkers' algorithm alone,
agreement.py compares; `benchmarks/soundness.py` does the same for as many programs as one has patience for.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.agreement import WAYS, judged
from tests.properties.explorer import Program, parse
from tests.properties.programs import FAMILIES, programs

SOME_PATH = "w0: A(0,64) A(1,64) | w1: S(0,64) S(0,64) | w2: S(1,64) A(0,64)"
"""can deadlock, though some chain of operations leads from each generation of barrier 0 to the next: all pairs count"""
RING = "w0: A(1,64) S(0,64) R(0) A(1,64) S(0,64) R(0) | w1: S(1,64) W(0) A(0,64) S(1,64) W(0) A(0,64)"
"""one buffer, two tiles, with the empty buffer given first"""
EXAMPLES = {
    "nothing": ("w0: | w1:", "verified"),
    "every pair of two generations counts": (SOME_PATH, "failed"),
    "a ring with a full and an empty barrier": (RING, "verified"),
    "the producer laps the consumer": ("w0: W(0) A(0,64) W(0) A(0,64) | w1: S(0,64) R(0) S(0,64) R(0)", "failed"),
    "an arrive acquires nothing": ("w0: S(0,64) R(0) | w1: A(0,64) W(0)", "failed"),
    "an arrive releases": ("w0: S(0,64) R(0) | w1: W(0) A(0,64)", "verified"),
    "arrivals left over are harmless": ("w0: S(0,64) A(0,64) | w1: S(0,64)", "verified"),
    "left-over arrivals of either warp": ("w0: A(0,64) S(0,64) | w1: S(0,64) | w2: A(0,64)", "failed"),
    "a barrier of one warp": ("w0: S(0,32) W(0) S(0,32) | w1: R(1)", "verified"),
    "one warp takes part twice": ("w0: A(0,96) S(0,96) W(0) | w1: W(0) A(0,96) | w2:", "verified"),
    "race after the last barrier": ("w0: S(0,64) W(2) | w1: S(0,64) R(2)", "failed"),
    "two generations with other counts": ("w0: S(0,64) S(0,32) | w1: S(0,64)", "verified"),
    "the first operation fixes the count": ("w0: S(0,64) | w1: S(0,32) S(0,64)", "failed"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_verdict_of_examples(name: str) -> None:
    line, verdict = EXAMPLES[name]
    found = judged(parse(line), WAYS)
    assert not found.complaints, str(found)
    assert bool(found.outlook.faults) == (verdict == "failed")


@settings(
    max_examples=500,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
@given(program=programs())
@example(program=parse(SOME_PATH))
@example(program=parse(RING))
def test_the_verdict_is_what_enumeration_shows(program: Program) -> None:
    found = judged(program, ("vm", "vm, own kernel"))
    assert not found.complaints, str(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_interpreter_agrees_with_enumeration(family: str) -> None:
    source = random.Random(3)
    found = [judged(FAMILIES[family](source), ("reference",)) for _ in range(100)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_algorithm_agrees_with_enumeration(family: str) -> None:
    """And the programs are a fair mix: many correct ones, and many of each fault."""
    source = random.Random(1)
    found = [judged(FAMILIES[family](source), ()) for _ in range(3000)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)
    correct = sum(not one.outlook.faults for one in found)
    assert correct > 400
    for fault in ("deadlock", "count-mismatch", "all-arrive", "generations", "race"):
        assert sum(fault in one.outlook.faults for one in found) > 100, fault
