"""Undefined values that reach no reader: published to nobody, or after the end of a run that was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from wsemu.launch import undefined
from wsemu.launch.explore import orders

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x_, .param .u64 y_)
{
  .reg .b32 %l, %c, %v, %u, %n; .reg .b64 %x, %y, %a; .reg .pred %p, %q;
  ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_]; mov.u32 %l, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %nctaid.x;
  mad.wide.u32 %a, %c, 4, %x; mad.wide.u32 %y, %c, 4, %y;
"""
LAST_HAS_NONE = """
  sub.u32 %n, %n, 1; setp.eq.u32 %p, %c, %n; setp.eq.u32 %q, %c, 0;
  @%p bra PUBLISH;
  mov.u32 %u, 5;
PUBLISH:
"""
LOOK = "  @%q bra END; ld.relaxed.gpu.global.u32 %v, [%a+-4]; st.global.u32 [%y], %v;\nEND: exit; }"
PUBLISHES = """
  mov.u32 %n, {which}; setp.eq.u32 %p, %c, %n; setp.eq.u32 %q, %c, 0;
  @%p bra PUBLISH;
  mov.u32 %u, 5;
PUBLISH:
  st.relaxed.gpu.global.u32 [%a], %u;
  @%q bra WRITE;
"""
WAIT = """
LOOK:
  ld.relaxed.gpu.global.u32 %v, [%a+-4]; setp.eq.u32 %q, %v, {missing}; @%q bra LOOK;
WRITE:
  st.global.u32 [%y], {result};
END: exit; }}
"""
LOOK_AT_TWO = """
  setp.ne.u32 %q, %c, 3; @%q bra WRITE;
  ld.relaxed.gpu.global.u32 %v, [%a+-12]; setp.ne.u32 %q, %v, 0; @%q bra WRITE;
  ld.relaxed.gpu.global.u32 %v, [%a+-4];
WRITE:
  st.global.u32 [%y], 7;
END: exit; }
"""
USES_IF_EARLY = """
  ld.relaxed.gpu.global.u32 %v, [%a+-4]; setp.ne.u32 %q, %v, 0; @%q bra WRITE;
USE:
  setp.eq.u32 %q, %u, 12345; @!%q bra WRITE;
  st.global.u32 [%y+4096], 1;
WRITE:
  st.global.u32 [%y], 7;
END: exit; }
"""
STORES_IF_FIRST = """
  setp.eq.u32 %p, %c, 3; @%p bra DRAW;
  mov.u32 %u, 5;
DRAW:
  ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_];
  atom.relaxed.gpu.global.add.u32 %v, [%x], 1; mad.wide.u32 %y, %v, 4, %y;
  setp.ne.u32 %q, %v, 0; @%q bra WRITE;
  mov.u32 %n, %u;
  st.global.u32 [%y], %n; exit;
WRITE:
  st.global.u32 [%y], 7; exit; }
"""
WAITS_FOR_LATER = """
  setp.ne.u32 %q, %c, 1; @%q bra WRITE;
  st.relaxed.gpu.global.u32 [%x], 1;
WRITE:
  setp.ne.u32 %p, %l, 0; @%p bra NEXT;
  mov.u32 %u, 5;
NEXT:
  ld.relaxed.gpu.global.u32 %v, [%x]; setp.eq.u32 %q, %v, 0; @%q bra NEXT;
  @%p bra END;
  st.global.u32 [%y], %u;
END: exit; }
"""


def check(body: str, ctas: int, engine: Engine) -> wsemu.Report:
    given = np.zeros(ctas, np.uint32), np.zeros(ctas, np.uint32)
    return wsemu.check(wsemu.load_ptx(HEAD + body)["k"], ctas, 1, given, engine=engine, budget=20_000)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_last_cta_publishes_to_nobody_is_open(engine: Engine) -> None:
    """CUB's reduction by key does so if its last tile is partial."""
    report = check(LAST_HAS_NONE + "st.relaxed.gpu.global.u32 [%a], %u;" + LOOK, 3, engine)
    assert report.verdict == "incomplete", report.findings
    assert any("publishes an undefined value, which no thread reads in this run" in note for note in report.notes)


def test_what_no_order_reads_is_no_error() -> None:
    """The last of the CTAs that wait for each other publishes to nobody, in all orders."""
    report = check(PUBLISHES.format(which=3) + WAIT.format(missing=0, result=7), 4, "vm")
    assert (report.verdict, report.findings) == ("verified", []), report.notes
    assert "whatever published values each CTA reads" in report.proof


def test_what_is_published_to_nobody_and_stored_elsewhere_is_not_verified() -> None:
    report = check(PUBLISHES.format(which=3) + WAIT.format(missing=0, result="%u"), 4, "vm")
    assert report.verdict != "verified"


@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_another_order_reads_is_not_verified(which: int) -> None:
    """In this run the last CTA sees what CTA 0 publishes, and does not look at CTA 2."""
    look = WAIT.format(missing=0, result=7) if which < 2 else LOOK_AT_TWO
    report = check(PUBLISHES.format(which=which) + look, 4, "vm")
    assert report.verdict != "verified", report.proof


@pytest.mark.parametrize("stored", ["%u", "5"])
@pytest.mark.parametrize("goes", ["WRITE", "USE"])
def test_what_another_order_does_by_an_undefined_register_is_not_verified(stored: str, goes: str) -> None:
    """CTA 3 has a copy of the register before it looks, and branches on it if it looks early: in this run it does not.
    With `USE`, CTA 0 executes the branch in this run, with a defined value."""
    body = PUBLISHES.format(which=3).replace("[%a], %u", f"[%a], {stored}").replace("bra WRITE", f"bra {goes}")
    report = check(body + USES_IF_EARLY, 4, "vm")
    assert report.verdict == "incomplete", report.proof


@pytest.mark.parametrize("engine", ENGINES)
def test_what_others_read_is_an_error(engine: Engine) -> None:
    body = LAST_HAS_NONE.replace("setp.eq.u32 %p, %c, %n", "setp.eq.u32 %p, %c, 0")
    report = check(body + "st.relaxed.gpu.global.u32 [%a], %u;" + LOOK, 3, engine)
    assert [finding.code for finding in report.errors] == ["undefined-register"]


def test_a_result_is_an_error_however_it_is_stored() -> None:
    """Nobody looks at that array: it is no message."""
    look = LOOK.replace("ld.relaxed.gpu.global.u32 %v, [%a+-4];", "ld.relaxed.gpu.global.u32 %v, [%x];")
    report = check(LAST_HAS_NONE + "st.relaxed.gpu.global.u32 [%y], %u;" + look.replace("[%y], %v", "[%y], 1"), 3, "vm")
    assert [finding.code for finding in report.errors] == ["undefined-register"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_was_cut_off_is_not_compared(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs with other contents end elsewhere, and so differ, whatever the registers reach."""
    monkeypatch.setattr(orders, "PATIENCE", 1_000)
    monkeypatch.setattr(undefined, "MAX_FOLLOWED", 10)
    report = check(WAITS_FOR_LATER, 70, engine)
    assert report.verdict == "incomplete", report.findings
    assert any("a loop waits for memory to change" in note for note in report.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_before_a_run_is_cut_off_is_one(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "PATIENCE", 1_000)
    early = WAITS_FOR_LATER.replace("@%p bra NEXT;", "@!%p bra NEXT;").replace(
        "NEXT:", "NEXT: st.global.u32 [%y], %u;", 1
    )
    report = check(early, 70, engine)
    assert [finding.code for finding in report.errors] == ["undefined-register"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_undefined_register_that_another_number_stores_is_not_verified(engine: Engine) -> None:
    """The last CTA stores it if it draws the first place, which it does not in this run."""
    report = check(STORES_IF_FIRST, 4, engine)
    assert report.verdict == "incomplete", report.proof


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("choice", [
    "setp.ne.u32 %q, %v, 0; selp.b32 %n, 7, %u, %q;",
    "setp.eq.u32 %q, %v, 0; mov.u32 %n, 1; @%q mov.u32 %n, %u;",
    "setp.eq.u32 %q, %v, 0; selp.b32 %n, -1, 0, %q; and.b32 %n, %n, %u;",
])  # fmt: skip
def test_an_undefined_register_that_another_order_chooses_is_not_verified(choice: str, engine: Engine) -> None:
    """The result of an atomic chooses what is stored: the last CTA, if first, stores an undefined register."""
    places = "ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_]; mad.wide.u32 %y, %c, 4, %y;"
    start = "setp.eq.u32 %p, %c, 3; @%p bra DRAW; mov.u32 %u, 5; DRAW:"
    draw = "atom.relaxed.gpu.global.add.u32 %v, [%x], 1;"
    report = check(f"{start} {places} {draw} {choice} st.global.u32 [%y], %n; exit; }}", 4, engine)
    assert report.verdict == "incomplete", report.proof


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("counter", "verdict"), [("%y", "verified"), ("%x", "incomplete")])
def test_a_count_of_one_thread_chooses_no_other_register(counter: str, verdict: str, engine: Engine) -> None:
    """An atomic at a location of one thread returns the same in all orders."""
    places = "ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_]; mad.wide.u32 %y, %c, 4, %y;"
    start = "setp.eq.u32 %p, %c, 3; @%p bra DRAW; mov.u32 %u, 5; DRAW:"
    draw = f"atom.relaxed.gpu.global.add.u32 %v, [{counter}], 1;"
    choice = "setp.ne.u32 %q, %v, 9; selp.b32 %n, 7, %u, %q;"
    report = check(f"{start} {places} {draw} {choice} st.global.u32 [%y], %n; exit; }}", 4, engine)
    assert report.verdict == verdict, report.proof
