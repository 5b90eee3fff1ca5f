"""Litmus tests of the PTX memory model as launches: each goes wrong just where the model allows what it asks for."""

from __future__ import annotations

from itertools import product

import pytest

from tests.properties.litmus import FENCES, PLACEMENTS, SHAPES, Setting, asking, core, may_fail, settings
from tests.properties.memory_model import SCOPES, explore, notation, parse
from tests.properties.strong_programs import verdict

SETTINGS = tuple(settings())
OFTEN = {"MP data": [setting for setting in SETTINGS if setting.fence in ("acq_rel", "accesses")]}
"""the smallest shape, wherever each scope makes a difference"""
BESIDE = [
    (name, Setting("none", "gpu", accesses, "beside a CTA")) for name in ("MP", "S") for accesses in ("gpu", "volatile")
]
"""threads of one CTA that is followed by itself"""


def _some(n: int) -> list[Setting]:
    """For the n-th shape one setting of each fence: of all shapes together each scope and placement."""
    found = []
    for k, fence in enumerate(FENCES):
        own = [setting for setting in SETTINGS if setting.fence == fence]
        found.append(own[(7 * n + k) % len(own)])
    return found


CASES = [(name, s) for n, name in enumerate(SHAPES) for s in OFTEN.get(name) or _some(n)] + BESIDE


def test_the_cases_have_each_fence_in_each_scope_and_placement() -> None:
    others = {setting for name, setting in CASES if name not in OFTEN}
    assert {(s.fence, s.scope) for s in others} == {*product(FENCES, SCOPES)}
    assert {(s.fence, s.placement) for s in others} == {*product(FENCES, PLACEMENTS)}


@pytest.mark.parametrize(("name", "setting"), [pytest.param(*case, id=f"{case[0]}, {case[1]}") for case in CASES])
def test_a_launch_goes_wrong_where_the_model_allows_it(name: str, setting: Setting) -> None:
    """What only weaker memory than interleavings shows is `incomplete`; what cannot be is proven, race by race."""
    shape = SHAPES[name]
    program = asking(shape, setting)
    assert parse(notation(program)) == program
    said, codes = verdict(program)
    if not may_fail(shape, setting):
        assert said == "verified", codes
    elif explore(core(shape, setting)).racing:
        assert (said, codes) == ("failed", ("race",))
    else:
        assert said in ("failed", "incomplete")


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if len(shape.threads.split("|")) == 2])
def test_what_is_asked_races_just_where_the_outcome_is_allowed(name: str) -> None:
    for setting in SETTINGS[::7]:
        shape = SHAPES[name]
        assert explore(asking(shape, setting), up_to_wrong=True).racing == may_fail(shape, setting), setting


PUBLISHED = {
    "MP": "acq_rel sc accesses", "SB": "sc", "LB": "acq_rel sc accesses", "R": "sc", "S": "acq_rel sc accesses",
    "2+2W": "sc", "WRC": "acq_rel sc accesses", "ISA2": "acq_rel sc accesses", "RWC": "sc", "IRIW": "sc",
    **dict.fromkeys(("CoRR", "CoWR", "CoRW", "CoRW2", "CoWW", "atomics"), "none acq_rel sc accesses"),
}  # fmt: skip
"""what forbids the outcome (Lustig et al., ASPLOS 2019)"""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_model_forbids_what_is_published(name: str) -> None:
    for setting in SETTINGS[::5]:
        reaches = {"cluster": SCOPES[1:], "grid": SCOPES[2:]}.get(setting.placement, SCOPES)
        coherent = PUBLISHED[name].startswith("none")
        wide = ("volatile", "weak") if name == "atomics" else ("volatile",)
        enough = setting.accesses in (*reaches, *wide) and (coherent or setting.scope in reaches)
        assert may_fail(SHAPES[name], setting) != (enough and setting.fence in PUBLISHED[name].split()), setting


ROUNDABOUT = (
    "P0@0: W x 1; F sc gpu; {first} | P1@{cta}: {between} W g 1 relaxed gpu | "
    "P2@{after}: R g relaxed gpu -> b; F sc gpu; ?b=1 R x -> c"
)


NARROW = [
    "W x 1; F sc {a}; R f {r} -> a; ?a=0 W g 1 {r} | P1@0: W f 1 {r} | P2@{c}: R f {r} -> b; F sc {b}; {o} R x -> d",
    "W x 1; F sc {a}; W f 1 {r} | P1@1: R f {t} -> a; ?a=1 W g 1 {r} | P2@{c}: R g {r} -> b; F sc {b}; ?b=1 R x -> c",
    "W f 1 {r}; F sc {a}; R g {r} -> a; ?a=0 W x 1 | P1@{c}: W g 1 {r}; F sc {b}; R f {r} -> b; ?b=0 W x 2",
]


@pytest.mark.parametrize(("a", "b"), [("cta", "cta"), ("cta", "gpu"), ("gpu", "cluster"), ("gpu", "gpu")])
@pytest.mark.parametrize("cta", [0, 1])
@pytest.mark.parametrize("program", NARROW)
def test_fences_are_ordered_where_each_reaches_the_other(program: str, cta: int, a: str, b: str) -> None:
    """In a launch with a CTA beside theirs, which a narrow fence does not reach."""
    text = program.format(a=a, b=b, c=cta, r="relaxed gpu", t="acquire gpu", o="?b=1 R g relaxed gpu -> c; ?c=1")
    made = parse(f"P0@0: {text} | P3@1: A add g 0 relaxed gpu; F sc gpu; W y 1")
    assert (verdict(made)[0] == "verified") != explore(made, up_to_wrong=True).racing


@pytest.mark.parametrize("cta", [0, 1])
@pytest.mark.parametrize(("first", "between"), [
    ("W f 1 relaxed gpu", "R f acquire gpu -> a; ?a=1"),
    ("W f 1 relaxed gpu", "R f relaxed gpu -> a; F acq_rel gpu; ?a=1"),
    ("A add f 1 relaxed gpu", "A add f 0 acquire gpu -> a; ?a=1"),
    ("W f 1 relaxed gpu", "R f relaxed gpu -> a; ?a=1"),
    ("W f 1 relaxed cta", "R f acquire cta -> a; ?a=1"),
])  # fmt: skip
def test_fences_are_ordered_through_a_thread_that_acquires(first: str, between: str, cta: int) -> None:
    """Were the second `fence.sc` before the first, a read would come before the write that it reads from."""
    program = parse(ROUNDABOUT.format(first=first, between=between, cta=cta, after=2 * cta))
    assert verdict(program)[0] == ("failed" if explore(program).racing else "verified")


def test_fences_are_ordered_by_a_read_before_a_write_that_is_observed() -> None:
    program = parse(
        "P0@0: W x 1; F sc gpu; R f relaxed gpu -> a; ?a=0 W g 1 relaxed gpu | P1@1: W f 1 relaxed gpu | "
        "P2@2: R f relaxed gpu -> b; F sc gpu; ?b=1 R g relaxed gpu -> c; ?c=1 R x -> d"
    )
    assert not explore(program).racing
    assert verdict(program) == ("verified", ())
