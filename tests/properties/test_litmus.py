"""Litmus tests of the PTX memory model as launches: each races just where the model allows what it asks for.

Threads that could both see what is forbidden then write one place, by plain stores: a race says that it may happen.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.properties.memory_model import explore, parse
from tests.properties.strong_programs import verdict

MESSAGE = "P0@0: W x 1; {fence}W f 1 relaxed {scope} | P1@{cta}: R f relaxed {scope} -> a; {fence}?a=1 R x -> b"
RELEASED = "P0@0: W x 1; W f 1 release {scope} | P1@{cta}: R f acquire {scope} -> a; ?a=1 R x -> b"
PASSED_ON = (
    "P0@0: W x 1; {fence}W f 1 relaxed {scope} | P1@{cta}: R f relaxed {scope} -> a; {fence}?a=1 W g 1 relaxed {scope} "
    "| P2@{after}: R g relaxed {scope} -> b; {fence}?b=1 R x -> c"
)
STORES = (
    "P0@0: W f 1 relaxed {scope}; {fence}R g relaxed {scope} -> a; ?a=0 W x 1 | "
    "P1@{cta}: W g 1 relaxed {scope}; {fence}R f relaxed {scope} -> b; ?b=0 W x 2"
)
LOADS = (
    "P0@0: R f relaxed {scope} -> a; {fence}W g 1 relaxed {scope}; ?a=1 W x 1 | "
    "P1@{cta}: R g relaxed {scope} -> b; {fence}W f 1 relaxed {scope}; ?b=1 W x 2"
)
COHERENCE = "P0@0: A add f 1 relaxed {scope} -> a; ?a=0 W x 1 | P1@{cta}: A add f 1 relaxed {scope} -> b; ?b=0 W x 2"
INDEPENDENT = (
    "P0@0: W f 1 relaxed {scope} | P1@{cta}: W g 1 relaxed {scope} | "
    "P2@{after}: R f relaxed {scope} -> a; {fence}R g relaxed {scope} -> b; ?b=0 W s0 1; ?a=1 R s0 -> e; ?e=1 W x 1 | "
    "P3@{cta}: R g relaxed {scope} -> c; {fence}R f relaxed {scope} -> d; ?d=0 W s1 1; ?c=1 R s1 -> h; ?h=1 W x 2"
)
"""what a thread has seen of one place and not of another it keeps in a place of its own: both are asked for"""
CAUSALITY = (
    "P0@0: W f 1 relaxed {scope} | P1@{cta}: R f relaxed {scope} -> a; {fence}R g relaxed {scope} -> b; ?b=0 W s0 1; "
    "?a=1 R s0 -> e; ?e=1 W x 1 | P2@{after}: W g 1 relaxed {scope}; {fence}R f relaxed {scope} -> c; ?c=0 W x 2"
)
BY_PLACE = {
    "CoRR": "P0@0: W f 2 relaxed gpu | P1@{cta}: W f 1 relaxed gpu; R f relaxed gpu -> a; ?a=2 R f relaxed gpu -> b; "
    "?b=1 W x 1 | P2@0: W x 2",
    "CoWR": "P0@0: W f 1 relaxed gpu; R f relaxed gpu -> a; ?a=0 W x 1 | P1@{cta}: W x 2",
    "CoRW": "P0@0: R f relaxed gpu -> a; ?a=1 W x 1; W f 1 relaxed gpu | P1@{cta}: W x 2",
    "CoWW": "P0@0: W x 2; W f 1 relaxed gpu; W f 2 relaxed gpu | "
    "P1@{cta}: R f relaxed gpu -> a; ?a=2 R f relaxed gpu -> b; ?b=1 W x 1",
}
"""what no execution shows, whatever the fences"""
FENCES = ("", "F acq_rel {scope}; ", "F sc {scope}; ")
SHAPES = {
    "message passing": MESSAGE, "write to read": PASSED_ON, "store buffering": STORES, "load buffering": LOADS,
    "coherence": COHERENCE, "IRIW": INDEPENDENT, "read to write": CAUSALITY,
}  # fmt: skip
CASES = [
    pytest.param(
        shape.replace("{fence}", fence).format(scope=scope, cta=cta, after=cta + 1),
        id=f"{name}-{fence[2:5]}-{scope}-{cta}",
    )
    for (name, shape), fence, (scope, cta) in product(SHAPES.items(), FENCES, (("gpu", 1), ("cta", 0), ("cta", 1)))
    if fence or name != "coherence"
] + [
    pytest.param(RELEASED.format(scope=scope, cta=cta), id=f"released-{scope}-{cta}")
    for scope, cta in product(("cta", "cluster", "gpu", "sys"), (0, 1))
]


@pytest.mark.parametrize("line", CASES)
def test_a_launch_races_where_the_model_allows_it(line: str) -> None:
    """What only weaker memory than interleavings shows is `incomplete`."""
    program = parse(line)
    races = explore(program).racing
    said, codes = verdict(program)
    assert said in (("failed", "incomplete") if races else ("verified", "incomplete")), codes


@pytest.mark.parametrize(("shape", "fence", "said"), [
    (MESSAGE, 0, "failed"), (MESSAGE, 1, "verified"), (MESSAGE, 2, "verified"), (PASSED_ON, 1, "verified"),
    (STORES, 0, "incomplete"), (STORES, 1, "incomplete"), (STORES, 2, "verified"), (LOADS, 0, "incomplete"),
    (LOADS, 1, "verified"), (COHERENCE, 1, "verified"), (INDEPENDENT, 0, "incomplete"), (INDEPENDENT, 1, "incomplete"),
    (INDEPENDENT, 2, "verified"), (CAUSALITY, 0, "incomplete"), (CAUSALITY, 2, "verified"),
])  # fmt: skip
def test_what_is_decided_of_two_ctas(shape: str, fence: int, said: str) -> None:
    line = shape.replace("{fence}", FENCES[fence]).format(scope="gpu", cta=1, after=2)
    assert verdict(parse(line))[0] == said


@pytest.mark.parametrize("cta", [0, 1])
@pytest.mark.parametrize("shape", BY_PLACE)
def test_accesses_to_one_place_are_coherent_without_fences(shape: str, cta: int) -> None:
    program = parse(BY_PLACE[shape].format(cta=cta))
    assert not explore(program).racing
    assert verdict(program)[0] == "verified"
