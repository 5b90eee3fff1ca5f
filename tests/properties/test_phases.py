"""mbarriers and copies against enumeration: `verified` exactly when no interleaving of a random program shows a fault.

phase_explorer.py enumerates the interleavings; phase_programs.py generates programs and their kernels, and compares.
`benchmarks/soundness.py --kind phases` does the same for any number of programs.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.phase_explorer import outlook, parse
from tests.properties.phase_programs import PHASE_FAMILIES, check_program, judged_phases
from wsemu.model.settings import Engine

EXAMPLES = {
    "1 1 | t0: w(1,1) x(0,16) T(0,0) w(1,0) x(0,16) T(0,0) | t1: w(0,0) R(0) a(1) w(0,1) R(0) a(1)": "",
    "1 | t0: x(0,16) T(0,0) x(0,16) T(0,1) | t1: w(0,0) R(0) w(0,1) R(1)": "deadlock over-arrival phases",
    "1 | t0: W(0) a(0) | t1: w(0,0) R(0)": "",
    "1 | t0: a(0) W(0) | t1: w(0,0) R(0)": "race",
    "1 | t0: W(0) P O(0) G(0)": "",
    "1 | t0: W(0) O(0) G(0)": "proxy",
    "1 1 | t0: x(1,16) T(1,0) w(1,0) W(0) R(0) x(0,16) T(0,0) w(0,0)": "",
    "1 1 | t0: W(0) a(1) w(0,0) | t1: w(1,0) R(0) x(0,16) T(0,0) w(0,0)": "",
    "1 | t0: W(0) R(1) x(0,16) T(0,0) w(0,0)": "proxy",
    "1 | t0: W(0) R(0) W(0) x(0,16) T(0,0) w(0,0)": "proxy",
    "1 | t0: g(0) C(0) R(0) x(0,16) T(0,0) w(0,0)": "proxy",
    "1 | t0: W(0) R(0) O(0) G(0)": "proxy",
    "1 | t0: O(0) W(0) G(0)": "race",
    "1 | t0: O(0) Q(0) W(0)": "",
    "1 | t0: O(0)": "",
    "1 | t0: W(0) P a(0) | t1: w(0,0) O(0) Q(0)": "",
    "1 | t0: W(0) a(0) | t1: w(0,0) P O(0) Q(0)": "",
    "2 | t0: a(0) | t1: w(0,0)": "deadlock",
    "1 | t0: g(0) n(0) | t1: w(0,0) R(0)": "",
    "1 | t0: g(0) i(0) a(0) | t1: w(0,0) R(0)": "",
    "1 | t0: g(0) a(0) i(0) | t1: w(0,0) R(0)": "async-outlives-cta race",
    "1 | t0: g(0) a(0) | t1: w(0,0) R(0)": "async-outlives-cta race",
    "1 | t0: x(0,32) T(0,0) | t1: w(0,0)": "deadlock",
    "1 | t0: x(0,0) T(0,0) | t1: w(0,0)": "bytes",
    "1 | t0: a(0) a(0)": "",
    "1 | t0: e(0,16) T(0,0) a(0) e(0,0) | t1: w(0,0) R(0)": "",
    "2 1 | t0: a(0) w(1,0) R(0) | t1: w(0,0) W(0) a(1) | t2: a(0)": "",
    "2 | t0: d(0) w(0,0) a(0) | t1: a(0) w(0,0) w(0,1)": "deadlock",
    "1 | t0: d(0) w(0,0) | t1: e(0,0)": "deadlock phases",
    "1 | t0: e(0,0) | t1: d(0) w(0,0)": "deadlock phases",
    "2 | t0: e(0,0) d(0) w(0,0) | t1: d(0) w(0,0)": "",
    "2 | t0: a(0) e(0,0) w(0,0) d(0) w(0,1) | t1: a(0) w(0,0) d(0)": "",
    "2 | t0: a(0) w(0,0) d(0) e(0,0) w(0,1) | t1: a(0) w(0,0) d(0)": "deadlock phases",
    "2 1 | t0: e(0,0) a(1) w(0,0) | t1: d(0) w(1,0) d(0) w(0,0)": "",
    "1 1 | t0: d(0) e(0,0) | t1: w(0,0) a(1)": "deadlock",
    "1 | t0: W(0) S(0,2) | t1: S(0,2) P O(0) G(0)": "",
    "1 | t0: x(0,32) T(0,0) T(0,0) | t1: w(0,0) R(0)": "",
    "1 | t0: g(0) W(0) C(0)": "",
    "1 | t0: g(0) P W(0) C(0)": "race",
    "1 1 | t0: x(1,16) T(1,0) w(1,0) w(0,0) P O(0) G(0) | t1: P W(0) a(0)": "",
    "1 1 | t0: x(1,16) T(1,0) w(1,0) w(0,0) O(0) G(0) | t1: P W(0) a(0)": "proxy",
    "1 1 | t0: x(1,16) T(1,0) | t1: P W(0) a(0) w(1,0) O(0) G(0)": "proxy",
    "1 1 1 | t0: P W(0) a(0) | t1: w(0,0) P x(1,16) T(1,0) w(1,0) | t2: w(0,0) x(2,16) T(2,0) w(2,0)": "proxy",
    "1 1 1 | t0: P W(0) a(0) | t1: w(0,0) P x(1,16) T(1,0) w(1,0) | t2: w(0,0) P x(2,16) T(2,0) w(2,0)": "",
    "1 | t0: t(0,0) k(0,0) u(0,0)": "",
    "1 | t0: t(0,0) v(0,0) D(0) B(0,1) t(0,1) v(0,1)": "",
    "1 | t0: t(0,0) w(0,0) D(0) B(0,1) t(0,1) v(0,0)": "no-token",
    "1 | t0: t(0,0) w(0,0) D(0) B(0,1) v(0,0)": "no-token",
    "1 | t0: t(0,0) c(0,0) v(0,0)": "no-token",
    "1 | t0: t(0,0) c(0,1) v(0,0)": "no-token",
    "1 1 | t0: t(0,0) v(1,0)": "no-token",
    "1 | t0: a(0) B(0,1)": "lifetime",
    "1 | t0: a(0) D(0) | t1: w(0,0)": "lifetime",
    "2 | t0: a(0) w(0,0) S(0,2) D(0) B(0,1) | t1: a(0) w(0,0) S(0,2)": "",
    "1 1 1 | t0: w(2,0) k(0,1) w(0,0) a(1) u(0,1) | t1: a(0) a(2) w(1,0) a(0)": "",
}
"""a program -> what its interleavings show"""
KEPT = (
    "1 1 | t0: k(0,1) w(0,0) a(1) u(0,1) | t1: a(0) w(1,0) a(0)",
    "1 1 | t0: a(0) w(1,0) a(0) | t1: k(0,1) w(0,0) a(1) u(0,1)",
    "2 | t0: a(0) k(0,0) w(0,0) a(0) w(0,1) u(0,1) | t1: a(0) w(0,0) a(0) w(0,1)",
    "1 1 | t0: a(0) a(1) k(0,0) u(1,0)",
    "1 | t0: a(0) k(0,0) u(0,0) D(0) B(0,1) u(0,0)",
    "1 | t0: a(0) k(0,0) D(0) B(0,1) a(0) u(0,0)",
    "1 | t0: a(0) k(0,0) D(0) u(0,0)",
    f"1 | t0: a(0) k(0,0) {'D(0) B(0,1) ' * 256}a(0) u(0,0)",
)
"""programs that store the result of a successful test and, in some interleaving, skip the wait for another phase
because of it"""


@pytest.mark.parametrize("line", EXAMPLES)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_verdict_of_examples(line: str, engine: Engine) -> None:
    found = judged_phases(parse(line), (engine,))
    assert not found.complaints, str(found)
    assert bool(found.outlook.faults) == bool(EXAMPLES[line])


@pytest.mark.parametrize("line", EXAMPLES)
def test_what_enumeration_shows_of_examples(line: str) -> None:
    assert outlook(parse(line)).faults == set(EXAMPLES[line].split())


@pytest.mark.parametrize("line", KEPT)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_kept_success_that_replaces_a_wait_for_another_phase_is_never_verified(line: str, engine: Engine) -> None:
    program = parse(line)
    assert outlook(program).replaces
    assert check_program(program, engine).verdict != "verified"


@pytest.mark.parametrize("family", PHASE_FAMILIES)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_verdict_is_what_enumeration_shows(family: str, engine: Engine) -> None:
    source = random.Random(f"{family} 1")
    found = [judged_phases(PHASE_FAMILIES[family](source), (engine,)) for _ in range(30 if engine == "vm" else 12)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)


def test_the_programs_are_a_fair_mix() -> None:
    source = random.Random(2)
    seen = Counter[str]()
    for _ in range(400):
        faults = outlook(PHASE_FAMILIES["ring"](source)).faults
        seen.update(faults or ["none"])
    assert seen["none"] > 100
    assert min(seen[fault] for fault in ("deadlock", "phases", "race", "proxy", "bytes")) > 3


def test_programs_that_keep_results_are_a_fair_mix() -> None:
    source = random.Random(2)
    for family in ("kept", "renewed"):
        seen = Counter[str]()
        for _ in range(150):
            can = outlook(PHASE_FAMILIES[family](source))
            seen.update(can.faults or ["none"])
            seen["another phase"] += can.replaces
        assert min(seen["none"], seen["another phase"]) > 10, seen
