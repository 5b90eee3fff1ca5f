"""`wsemu` against the checker that Coq extracts, on a few random programs of each family (proofs/compare.py).

The checker is built by `make -C proofs checker`, which needs Coq and OCaml; without it these tests are skipped.
"""

from __future__ import annotations

import random

import pytest

import wsemu
from proofs.agents import AGENT_FAMILIES, check_launch
from proofs.compare import BOTH_REFUSE, BOTH_VERIFY, CERTIFY, COMPARED, CONTRADICTION, Part, certify, compare
from proofs.random_certificates import judge_part

built = pytest.mark.skipif(not CERTIFY.exists(), reason="the extracted checker is not built: make -C proofs checker")

EXAMPLES = {
    "1 1 | t0: w(1,1) x(0,16) T(0,0) w(1,0) x(0,16) T(0,0) | t1: w(0,0) R(0) a(1) w(0,1) R(0) a(1)": "verified",
    "1 | t0: W(0) a(0) | t1: w(0,0) R(0)": "verified",
    "1 | t0: a(0) W(0) | t1: w(0,0) R(0)": "race",
    "2 | t0: a(0,2) a(0,2) | t1: w(0,0)": "ends",
    "| t0: W(0) Y y Y y | t1: Y y R(0) Y y": "verified",
    "| t0: Y y W(0) Y y | t1: Y y R(0) Y y": "race",
    "| t0: W(0) Y | t1: Y y R(0) Y y": "verified",
    "| t0: Y | t1: Y y Y y Y y": "verified",
    "| t0: Y Y | t1: Y y": "out of reach: barrier.cluster.arrive twice",
    "0 | t0: I(0,1) Y y w(0,0) | t1: Y y a(0)": "verified",
    "0 | t0: I(0,1) w(0,0) | t1: w(0,1)": "ends,R4",
    "0 | t0: I(0,2) Y y w(0,0) a(0) | t1: Y y a(0) | t2: a(0) Y y": "R1",
    "0 | t0: I(0,1) a(0) Y y | t1: w(0,0) Y y": "R2,R4",
    "1 1 | t0: x(0,16) x(1,16) M(0,0,1,1) w(0,0) R(0) | t1: w(1,0) R(1)": "verified",
    "1 1 | t0: x(0,16) x(1,16) M(0,0) w(0,0) R(0) | t1: w(1,0) R(1)": "ends",
    "1 | t0: W(0) U(0,0,1) | t1: x(0,16) w(0,0) R(1)": "verified",
    "1 | t0: U(0,0,1) W(0) | t1: x(0,16) w(0,0) R(1)": "race",
    "| t0: c(0) c(1) k C(0) R(0) R(1)": "verified",
    "| t0: c(0) k c(1) C(0) R(1)": "race",
    "| t0: c(0) k c(1) D R(0) R(1)": "verified",
    "1 | t0: c(0) n(0) w(0,0) R(0)": "verified",
    "| t0: W(0) o(0) K Q(0) W(0)": "verified",
    "| t0: W(0) o(0) Q(0) W(0) K": "race",
    "1 1 | t0: w(0,0) m(0) F(0) a(1) | t1: w(0,0) m(0) F(0) | t2: x(0,16) T(0,0) w(1,0) W(0)": "verified",
    "1 1 | t0: w(0,0) m(0) a(1) F(0) | t1: w(0,0) m(0) F(0) | t2: x(0,16) T(0,0) w(1,0) W(0)": "race",
}
"""a program in the notation of proofs/ocaml/main.ml -> the verdict of the checker"""


@built
def test_the_checker_names_the_rule_that_a_program_violates() -> None:
    assert dict(zip(EXAMPLES, certify([*EXAMPLES]), strict=True)) == EXAMPLES


@built
@pytest.mark.parametrize("family", COMPARED)
def test_the_checker_proves_what_wsemu_verifies(family: str) -> None:
    result = compare(Part(family, f"{family} of the tests", 30))
    assert not result.contradictions, "\n".join(result.contradictions)
    assert result.outcomes[BOTH_VERIFY] > 0
    assert result.outcomes[BOTH_REFUSE] > 4


@built
@pytest.mark.parametrize("family", [family for family in COMPARED if family != "wgmma"])
def test_both_judges_accept_the_certificates_of_verified_programs(family: str) -> None:
    judged = judge_part(Part(family, f"certificates of {family}", 20))
    assert not judged.refused, "\n".join(judged.refused)
    assert judged.accepted == judged.verified - judged.beyond.total() > 0


@built
def test_a_program_that_wsemu_verifies_and_the_checker_refuses_is_a_contradiction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verified = wsemu.Report.model_construct(verdict="verified", findings=[])
    monkeypatch.setitem(COMPARED, "phases", COMPARED["phases"]._replace(check=lambda program: verified))
    result = compare(Part("phases", "contradictions", 20))
    assert len(result.contradictions) == result.outcomes[CONTRADICTION] > 4
    assert result.outcomes[BOTH_VERIFY] + result.outcomes[CONTRADICTION] == 20


@pytest.mark.parametrize("family", AGENT_FAMILIES)
def test_both_engines_agree_on_programs_of_agents(family: str) -> None:
    source = random.Random(f"{family} of both engines")
    for _ in range(8):
        launch = AGENT_FAMILIES[family](source)
        assert launch.fits()
        one, other = (check_launch(launch, engine) for engine in ("vm", "reference"))
        assert one.verdict == other.verdict, str(launch)
        assert [(f.code, f.message) for f in one.findings] == [(f.code, f.message) for f in other.findings]
