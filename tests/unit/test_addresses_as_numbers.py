"""Addresses used as numbers: what depends on where memory lies is not proven; what every launch has in common is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import wsemu
from tests.unit.test_ptx_lowering import INDEX, text
from wsemu.launch.result import Report
from wsemu.model.settings import Engine

FOLDER = Path(__file__).parents[1] / "ptx"
SOURCE = (FOLDER / "addresses.cu").read_text()
KERNELS = dict(re.findall(r"^KERNEL (\w+)\((.*)\) {", SOURCE, re.MULTILINE))
HOLDS = sorted(name for name in KERNELS if name.startswith("holds_"))
LEAVES = sorted(name for name in KERNELS if name.startswith("leaves_"))
DIFFERS = sorted(name for name in KERNELS if name.startswith("differs_"))
ELEMENTS = {
    "int *": "i4",
    "float *": "f4",
    "unsigned long long *": "u8",
    "Node *": "V16",
    "Item *": "V16",
    "int **": "u8",
}
MODULES = {name: wsemu.load_ptx(FOLDER / f"addresses.{name}.ptx") for name in ("sm_90", "sm_90.debug")}


def _argument(declared: str) -> object:
    if declared.startswith("Range"):
        both = np.zeros(256, np.int32)
        return both, both[128:] if "holds" in declared else np.zeros(64, np.int32)
    if declared.startswith("int k") or declared == "int n":
        return np.int32(1 if declared == "int k" else 64)
    array = np.zeros(256, ELEMENTS[re.sub(r"\w+$", "", declared)])
    return array.view("i8") if array.dtype.kind == "V" else array


def _check(name: str, made: str, engine: str) -> Report:
    parameters = [text.strip() for text in KERNELS[name].split(",")]
    arguments = [_argument(f"{text} holds" if "Range" in text and name in HOLDS else text) for text in parameters]
    dynamic = 4096 if "room[]" in SOURCE.partition(f" {name}(")[2].partition("\nKERNEL")[0] else 0
    return wsemu.check(MODULES[made][name], 1, 64, tuple(arguments), dynamic_shared=dynamic, engine=engine)  # type: ignore[arg-type]


@pytest.mark.parametrize("made", MODULES)
@pytest.mark.parametrize("name", HOLDS)
def test_what_every_launch_has_in_common_is_proven(name: str, made: str) -> None:
    report = _check(name, made, "vm")
    assert report.verdict == "verified", report


@pytest.mark.parametrize("made", MODULES)
@pytest.mark.parametrize("name", LEAVES)
def test_an_address_that_is_left_whole_is_a_note(name: str, made: str) -> None:
    report = _check(name, made, "vm")
    assert report.verdict == "verified", report
    assert any("is left in memory" in note for note in report.notes), report


@pytest.mark.parametrize("made", MODULES)
@pytest.mark.parametrize("name", DIFFERS)
def test_what_depends_on_where_memory_lies_is_not_proven(name: str, made: str) -> None:
    report = _check(name, made, "vm")
    assert (report.verdict, report.reasons) == ("incomplete", ["addresses"]), report
    assert "where in memory" in repr(report.notes)


@pytest.mark.parametrize(
    "name", ["holds_calls", "holds_swizzle", "differs_order", "differs_shared", "differs_functions"]
)
def test_both_engines_say_the_same(name: str) -> None:
    reports = [_check(name, "sm_90", engine) for engine in ("vm", "reference")]
    assert reports[0].verdict == reports[1].verdict
    assert reports[0].notes == reports[1].notes


PLACES = """
.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 o, .param .u64 n)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
.shared .align 16 .b8 room[64];
ld.param.u64 %rd1, [o];
ld.param.u64 %rd2, [n];
mov.u32 %r1, room;
mov.u64 %rd3, room;
cvta.shared.u64 %rd4, %rd3;
st.shared.u32 [room], 7;
BODY
ret;
}
"""


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ("cvta.to.shared.u64 %rd5, %rd4; cvt.u32.u64 %r2, %rd5; ld.shared.u32 %r3, [%r2]; LEAVE;", True),
        ("isspacep.shared %p1, %rd4; @%p1 st.global.u32 [%rd1], 1;", True),
        ("isspacep.shared %p1, %rd1; @!%p1 st.global.u32 [%rd1], 1;", True),
        ("getctarank.shared::cluster.u32 %r2, %r1; st.global.u32 [%rd1], %r2;", True),
        ("and.b32 %r2, %r1, 15; st.global.u32 [%rd1], %r2;", True),
        ("and.b32 %r2, %r1, 31; st.global.u32 [%rd1], %r2;", False),
        ("shr.u32 %r2, %r1, 4; setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%rd1], 1;", False),
        ("setp.eq.u32 %p1, %r1, 1024; @%p1 st.global.u32 [%rd1], 1;", False),
        ("setp.eq.u64 %p1, %rd1, %rd2; @%p1 st.global.u32 [%rd1], 1;", False),
        ("setp.ne.u64 %p1, %rd1, 0; @%p1 st.global.u32 [%rd1], 1;", True),
        ("shr.u64 %rd5, %rd1, 40; st.global.u64 [%rd1], %rd5;", False),
        ("sub.u64 %rd5, %rd4, %rd1; add.u64 %rd5, %rd1, %rd5; ld.u32 %r2, [%rd5]; st.global.u32 [%rd1], %r2;", True),
        ("st.shared.u32 [room+16], %r1; ld.shared.u32 %r2, [room+16]; ld.shared.u32 %r3, [%r2]; LEAVE;", True),
        ("st.shared.u32 [room+16], %r1; ld.shared.u32 %r2, [room+16]; st.global.u32 [%rd1], %r2;", False),
        ("bar.sync %r1;", False),
    ],
)  # fmt: skip
def test_addresses_of_each_form(body: str, holds: bool) -> None:
    kernel = wsemu.load_ptx(PLACES.replace("BODY", body.replace("LEAVE", "st.global.u32 [%rd1], %r3"))).only()
    report = wsemu.check(kernel, 1, 32 if "bar" in body else 1, (np.zeros(64, np.int32), np.int64(5)))
    assert ("addresses" in report.reasons or "where in memory" in repr(report.notes)) == (not holds), report
    assert (report.verdict == "verified") == holds, report


SECOND_FIRST = """shr.u32 %r9, %r1, 5; and.b32 %r8, %r1, 31; setp.ne.u32 %p1, %r8, 0; @%p1 exit;
    atom.global.add.u32 %r7, [counter], 1; setp.eq.u32 %p2, %r9, 1; setp.eq.u32 %p3, %r7, 0; and.pred %p2, %p2, %p3;
    mov.u32 %r6, 5; @!%p2 bra L; {} L: st.global.u32 [%rd3], %r6;"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_another_order_of_atomics_may_use_an_address_as_a_number(engine: Engine) -> None:
    for body, expected in (("cvt.u32.u64 %r6, %rd2;", ["addresses"]), ("mov.u32 %r6, 4;", [])):
        outside = ".global .b32 counter;"
        kernel = wsemu.load_ptx(text(INDEX + SECOND_FIRST.format(body), outside=outside))["k"]
        report = wsemu.check(kernel, 1, 64, (np.zeros(64, np.int32),), engine=engine)
        assert (report.verdict, report.reasons) == ("incomplete" if expected else "verified", expected), report
