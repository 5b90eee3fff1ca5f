"""Findings and reports as data."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from wsemu.launch.result import CheckFailed, Report
from wsemu.model.codes import CODES
from wsemu.model.finding import Counters, Finding, Site, Step
from wsemu.model.program import Span

SITE = Site(file="k.py", line=3, column=5, end_column=9, cta=(1, 0, 0), warp=2, role="DMA", text="waits")


def report(verdict: Any = "failed", findings: list[Finding] | None = None, **fields: Any) -> Report:
    if findings is None:
        findings = [Finding(code="deadlock", message="stuck", sites=[SITE])] if verdict == "failed" else []
    return Report(kernel="k", grid=8, block=(32, 2), verdict=verdict, findings=findings, **fields)  # type: ignore[arg-type]


def test_severity_follows_the_code():
    assert Finding(code="race", message="m").severity == "error"
    assert Finding(code="dangling-arrive", message="m").severity == "warning"
    assert {entry.severity for entry in CODES.values()} == {"error", "warning"}


def test_an_unknown_code_is_refused():
    with pytest.raises(ValidationError, match="unknown finding code 'rase'"):
        Finding(code="rase", message="m")


def test_a_grid_or_block_of_one_number_is_one_dimensional():
    assert report().grid == (8, 1, 1)
    assert report().block == (32, 2, 1)
    assert Site(file="k.py", line=1, column=1, end_column=2, cta=3).cta == (3, 0, 0)  # type: ignore[arg-type]


def test_a_site_from_a_span_counts_columns_from_one():
    site = Site.at(Span("k.py", 3, 4, 5, 8), "waits", warp=2, role="DMA")
    assert (site.line, site.column, site.end_line, site.end_column) == (3, 5, 5, 9)
    assert site.actor == "warp 2 (DMA)"
    assert Site.at(Span("k.py", 3, 4, 3, 8)).actor == ""
    assert SITE.end_line == SITE.line


@pytest.mark.parametrize(("verdict", "code"), [("verified", 0), ("failed", 1), ("incomplete", 3)])
def test_exit_codes(verdict, code):
    assert report(verdict).exit_code == code


def test_a_verdict_must_agree_with_the_findings():
    with pytest.raises(ValidationError, match="verdict 'verified' with 1 errors"):
        report("verified", [Finding(code="race", message="m")])
    with pytest.raises(ValidationError, match="verdict 'incomplete' with 1 errors"):
        report("incomplete", [Finding(code="race", message="m")])
    with pytest.raises(ValidationError, match="verdict 'failed' with 0 errors"):
        report("failed", [Finding(code="bank-conflict", message="m")])
    assert report("verified", [Finding(code="bank-conflict", message="m")]).warnings


def test_assert_clean():
    report("verified").assert_clean()
    with pytest.raises(CheckFailed, match=r"^error\[deadlock\]: stuck\n --> k.py:3:5") as caught:
        report().assert_clean()
    assert caught.value.report == report()
    with pytest.raises(CheckFailed, match="incomplete: no error seen, nothing proven"):
        report("incomplete", notes=["step budget used up"]).assert_clean()


def test_check_failed_travels_between_processes():
    copy = pickle.loads(pickle.dumps(CheckFailed(report())))
    assert copy.report == report()
    assert str(copy) == str(CheckFailed(report()))


def test_ratios_need_the_ideal():
    assert Counters(shared_load_wavefronts=8).bank_conflicts is None
    assert Counters(shared_load_wavefronts=8, ideal_shared_load_wavefronts=2).bank_conflicts == 6
    assert Counters(global_load_sectors=8).coalesced is None
    assert Counters(global_load_sectors=8, ideal_global_load_sectors=6).coalesced == 0.75


texts = st.text(max_size=8)
positions = st.integers(1, 10**6)
indices = st.tuples(*[st.integers(0, 2**31)] * 3)
sites = st.builds(
    Site,
    file=texts,
    line=positions,
    column=positions,
    end_line=positions,
    end_column=positions,
    cta=st.none() | indices,
    warp=st.none() | st.integers(0, 31),
    role=texts,
    text=texts,
    array=st.none() | texts,
    index=st.none() | texts,
    primary=st.booleans(),
)
findings = st.builds(
    Finding, code=st.sampled_from(sorted(CODES)), message=texts, sites=st.lists(sites, max_size=2),
    notes=st.lists(texts, max_size=2), help=st.none() | texts,
    holds_in=st.sampled_from([None, "every schedule", "some schedules"]), count=positions,
)  # fmt: skip


@settings(max_examples=40)
@given(st.lists(findings, max_size=3), st.dictionaries(texts, positions, max_size=2), st.lists(texts, max_size=2))
def test_a_report_survives_json(found, mix, notes):
    failed = any(finding.severity == "error" for finding in found)
    counters = Counters(warp_instructions=7, instruction_mix=mix)
    before = report("failed" if failed else "verified", found, counters=counters, notes=notes, seconds=0.1)
    assert Report.model_validate_json(before.model_dump_json()) == before


def test_a_report_as_text_counts_in_words():
    assert str(report("failed", [Finding(code="race", message="m")])).endswith(": failed, 1 error, 0 warnings")


EXACT = {
    Site: {"file": "a.py", "line": 1, "column": 2, "end_column": 3, "cta": (0, 1, 2), "warp": None, "primary": False},
    Step: {"cta": (0, 0, 0), "warp": 1, "does": "load", "instruction": 3, "line": 4, "lane": None},
    Finding: {"code": "race", "message": "m", "notes": ["n"], "factor": 1.5, "holds_in": "some schedules"},
}


@pytest.mark.parametrize("kind", EXACT)
def test_exact_values_are_accepted_as_the_model_accepts_them(kind):
    made, fields = kind(**EXACT[kind]), EXACT[kind]
    read = kind.model_validate(fields)
    assert made == read
    assert [*vars(made)] == [*vars(read)]
    assert made.model_fields_set == read.model_fields_set == {*fields}
    assert [value.__class__ for value in vars(made).values()] == [value.__class__ for value in vars(read).values()]
    assert all(vars(made)[name] is not value for name, value in fields.items() if isinstance(value, list))


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (Site, {"line": 1.5}), (Site, {"cta": (0, "x", 0)}), (Site, {"other": 1}), (Step, {"warp": -1}),
        (Finding, {"code": "nothing"}), (Finding, {"sites": [1]}), (Finding, {"holds_in": "no schedule"}),
    ],
)  # fmt: skip
def test_other_values_are_refused_by_the_model(kind, changed):
    with pytest.raises(ValidationError):
        kind(**EXACT[kind] | changed)


def test_findings_need_no_pydantic():
    code = (
        "import sys; from wsemu.model.finding import Finding, Site, Step\n"
        f"site = Site(**{EXACT[Site]}); Finding(**{EXACT[Finding]}, sites=[site], steps=[Step(**{EXACT[Step]})])\n"
        "print('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
