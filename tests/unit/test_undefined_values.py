"""What undefined values reach: each way in which one arises, and each thing that it may reach, in PTX and in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from tests.unit.test_ptx_lowering import INDEX, text
from wsemu import cuda
from wsemu.launch import undefined
from wsemu.launch.hooks import starting
from wsemu.launch.replay import run as replay
from wsemu.launch.replay.machine import ReplayError

if TYPE_CHECKING:
    from wsemu.model.bound import Bound
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
REGISTER, READ, SHUFFLE = {"undefined-register"}, {"uninitialized-read"}, {"undefined-shuffle"}
SHARED = ".shared .align 16 .b32 s[32]; mov.u32 %r4, s; mad.lo.u32 %r4, %r1, 4, %r4;"
"""%r4 is the address of the thread's word, which nothing writes"""
TO = "st.global.u32 [%rd3], {};"
SOURCES = {
    "a register": ("", "%r9", REGISTER),
    "a register under a guard": ("setp.lt.u32 %p1, %r1, 16; @%p1 mov.u32 %r9, 5;", "%r9", REGISTER),
    "a half of a pair": ("mov.u16 %rs1, 3; mov.b32 %r8, {%rs1, %rs2};", "%r8", REGISTER),
    "an upper word": ("mov.b64 %rd8, {%r1, %r9}; shr.u64 %rd8, %rd8, 8; cvt.u32.u64 %r8, %rd8;", "%r8", REGISTER),
    "a path": ("setp.lt.u32 %p1, %r1, 9; @%p1 bra L; mov.u32 %r9, 5; L: add.u32 %r8, %r9, 1;", "%r8", REGISTER),
    "a guard between values": ("mov.u32 %r8, 5; @%p4 mov.u32 %r8, %r1;", "%r8", REGISTER),
    "a guard of what is undefined": (
        "mov.u32 %r8, 5; setp.lt.u32 %p1, %r9, 3; @%p1 neg.s32 %r8, %r1;", "%r8", REGISTER),
    "a negated number": ("neg.s32 %r8, %r9;", "%r8", REGISTER),
    "a float": ("add.f32 %f1, %f2, 0f00000000; mov.b32 %r8, %f1;", "%r8", REGISTER),
    "a predicate": ("selp.u32 %r8, 1, 2, %p4;", "%r8", REGISTER),
    "shared memory": (SHARED + "ld.shared.u32 %r8, [%r4];", "%r8", READ),
    "volatile shared memory": (SHARED + "ld.volatile.shared.u32 %r8, [%r4];", "%r8", READ),
    "shared memory after a strong load of it": (
        SHARED + "ld.relaxed.gpu.shared.u32 %r7, [%r4]; ld.shared.u32 %r8, [%r4];", "%r8", READ),
    "shared memory after an addition of nothing": (
        SHARED + "red.shared.add.u32 [%r4], 0; ld.shared.u32 %r8, [%r4];", "%r8", READ),
    "local memory": (".local .b32 q[4]; ld.local.u32 %r8, [q+4];", "%r8", READ),
    "what an exchange returns": (SHARED + "atom.shared.exch.b32 %r8, [%r4], 5;", "%r8", READ),
    "a byte of shared memory": (SHARED + "st.shared.u16 [%r4], 0; ld.shared.u32 %r8, [%r4];", "%r8", READ),
    "a copy in shared memory": (SHARED + "st.shared.u32 [%r4], %r9; ld.shared.u32 %r8, [%r4];", "%r8", REGISTER),
    "a copy in local memory": (".local .b32 q[4]; st.local.u32 [q], %r9; ld.local.u32 %r8, [q];", "%r8", REGISTER),
    "an element of a matrix": (
        SHARED + "st.shared.u32 [%r4], %r9; bar.warp.sync -1; and.b32 %r5, %r1, 7; mov.u32 %r4, s;"
        "mad.lo.u32 %r5, %r5, 16, %r4; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r5];", "%r8", REGISTER),
    "a copy that an atomic returns": (
        SHARED + "st.shared.u32 [%r4], %r9; atom.shared.exch.b32 %r8, [%r4], 1;", "%r8", REGISTER),
    "a part of a copy": (
        SHARED + "st.shared.u32 [%r4], 0; st.shared.u8 [%r4+2], %r9; ld.shared.u32 %r8, [%r4];"
        "bfe.u32 %r8, %r8, 20, 9;", "%r8", REGISTER),
    "a lane that is not named": ("shfl.sync.bfly.b32 %r8, %r1, 16, 31, 0xFFFFFFFF;", "%r8", SHUFFLE),
    "another lane": ("setp.ne.u32 %p1, %r1, 3; @%p1 mov.u32 %r9, 5; shfl.sync.idx.b32 %r8, %r9, 3, 31, -1;", "%r8",
                     REGISTER),
    "a vote": ("setp.eq.u32 %p2, %r9, 1; vote.sync.ballot.b32 %r8, %p2, -1;", "%r8", REGISTER),
    "a match": ("match.any.sync.b32 %r8, %r9, -1;", "%r8", REGISTER),
    "a reduction": ("redux.sync.add.u32 %r8, %r9, -1;", "%r8", REGISTER),
}  # fmt: skip
DISCARDED = {
    "a mask": "and.b32 %r8, %r9, 0;" + TO.format("%r8"),
    "a mask of ones": "or.b32 %r8, %r9, -1;" + TO.format("%r8"),
    "itself": "xor.b32 %r8, %r9, %r9;" + TO.format("%r8"),
    "a select": "setp.lt.u32 %p1, %r1, 64; selp.u32 %r8, %r1, %r9, %p1;" + TO.format("%r8"),
    "the other half": "mov.u16 %rs1, 3; mov.b32 %r8, {%rs1, %rs2}; mov.b32 {%rs3, %rs4}, %r8; cvt.u32.u16 %r7, %rs3;"
    + TO.format("%r7"),
    "the lower word": "mov.b64 %rd8, {%r1, %r9}; cvt.u32.u64 %r8, %rd8;" + TO.format("%r8"),
    "a matrix that is written": SHARED + "st.shared.u32 [%r4], %r1; bar.warp.sync -1; and.b32 %r5, %r1, 7;"
    "mov.u32 %r4, s; mad.lo.u32 %r5, %r5, 16, %r4; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r5];"
    + TO.format("%r8"),
    "the other bytes of a copy": SHARED + "st.shared.u32 [%r4], 0; st.shared.u8 [%r4+2], %r9; ld.shared.u32 %r8, [%r4];"
    "and.b32 %r8, %r8, 0xFF00FFFF;" + TO.format("%r8"),
    "a replaced copy": SHARED
    + "st.shared.u32 [%r4], %r9; st.shared.u32 [%r4], %r1; ld.shared.u32 %r8, [%r4];"
    + TO.format("%r8"),
    "a replaced copy that an atomic counts": SHARED
    + "st.shared.u32 [%r4], %r9; st.shared.u32 [%r4], 7; red.shared.add.u32 [%r4], 1; ld.shared.u32 %r8, [%r4];"
    + TO.format("%r8"),
    "a copy that an asynchronous one replaces": SHARED + "st.shared.u32 [%r4], %r9;"
    "cp.async.ca.shared.global [%r4], [%rd3], 4; cp.async.wait_all; ld.shared.u32 %r8, [%r4];" + TO.format("%r8"),
    "the upper half of a product with 0": "mul.hi.u32 %r8, %r9, 0;" + TO.format("%r8"),
    "a wide product with 0": "mul.wide.u32 %rd8, %r9, 0; cvt.u32.u64 %r8, %rd8;" + TO.format("%r8"),
    "a wide product with 0 and a sum": "cvt.u64.u32 %rd8, %r1; mad.wide.u32 %rd8, %r9, 0, %rd8; cvt.u32.u64 %r8, %rd8;"
    + TO.format("%r8"),
    "a guard between equal values": "mov.u32 %r8, 5; @%p4 mov.u32 %r8, 5;" + TO.format("%r8"),
    "a guard between equal bits": "mov.u32 %r8, 5; @%p4 mov.u32 %r8, 7; and.b32 %r8, %r8, 5;" + TO.format("%r8"),
    "the same guard": "setp.lt.u32 %p1, %r1, 16; @%p1 mov.u32 %r9, 5; @%p1 " + TO.format("%r9"),
    "a product": "mul.lo.u32 %r8, %r9, 0;" + TO.format("%r8"),
    "a shift": "shl.b32 %r8, %r9, 32;" + TO.format("%r8"),
    "a range": "and.b32 %r8, %r9, 15; setp.lt.u32 %p1, %r8, 16; @!%p1 bra L;" + TO.format("%r1") + "L: ret;",
    "a vote decided by others": "setp.eq.u32 %p2, %r9, 1; setp.eq.u32 %p1, %r1, 3; or.pred %p2, %p2, %p1; "
    "vote.sync.any.pred %p3, %p2, -1; selp.u32 %r8, 1, 0, %p3;" + TO.format("%r8"),
    "another store": ".local .b32 q[4]; st.local.u32 [q], %r9; st.local.u32 [q], %r1; ld.local.u32 %r8, [q];"
    + TO.format("%r8"),
    "an exchange that sets memory up": SHARED
    + "atom.shared.exch.b32 %r7, [%r4], 5; ld.shared.u32 %r8, [%r4];"
    + TO.format("%r8"),
    "nobody": SHARED + "ld.shared.u32 %r8, [%r4]; add.u32 %r8, %r8, 1;",
    "a vector's other element": SHARED
    + "shl.b32 %r5, %r1, 2; add.u32 %r4, %r5, 0; mov.u32 %r6, s; and.b32 %r5, %r5, 8;"
    "add.u32 %r6, %r6, %r5; st.shared.u32 [%r6], 7; bar.warp.sync -1; ld.shared.v2.u32 {%r7, %r8}, [%r6];"
    + TO.format("%r7"),
}
SLOW = ("a copy in local memory", "a copy that an atomic returns")
"""sources that only the reference engine follows"""
SINKS = {
    "store": TO.format("%r9"),
    "branch": "setp.eq.u32 %p1, %r9, 0; @%p1 bra L; st.global.u32 [%rd3], 1; L: st.global.u32 [%rd3], 2;",
    "uniform branch": "setp.eq.u32 %p1, %r9, 0; @%p1 bra.uni L; L: st.global.u32 [%rd3], 2;",
    "exit": "setp.eq.u32 %p1, %r9, 0; @%p1 exit; st.global.u32 [%rd3], 1;",
    "guard": "setp.eq.u32 %p1, %r9, 0; @%p1 st.global.u32 [%rd3], 1;",
    "address": "cvt.u64.u32 %rd7, %r9; and.b64 %rd7, %rd7, 4; add.u64 %rd3, %rd3, %rd7; ld.global.u32 %r8, [%rd3+-4];",
    "barrier operand": "and.b32 %r8, %r9, 1; bar.sync %r8;",
    "operand": ".shared .b64 m; mov.u32 %r4, m; and.b32 %r8, %r9, 1; add.u32 %r8, %r8, 1; setp.eq.u32 %p1, %r1, 0;"
    "@%p1 mbarrier.init.shared.b64 [%r4], %r8;",
    "atomic": "red.global.add.u32 [%rd3], %r9;",
}


def checked(body: str, engine: Engine, block: int = 32, effort: int = 1) -> wsemu.Report:
    """The report of a kernel of one warp."""
    kernel = wsemu.load_ptx(text(INDEX + body))["k"]
    return wsemu.check(kernel, 1, block, (np.zeros(32, np.int32),), engine=engine, effort=effort)


def codes(report: wsemu.Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_value_that_is_stored_is_an_error(source, engine):
    body, register, expected = SOURCES[source]
    block = 24 if expected is SHUFFLE else 32
    report = checked(body + TO.format(register), engine, block)
    assert (report.verdict, codes(report)) == ("failed", expected), report.notes


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_value_that_nothing_uses_is_no_error(source, engine):
    body, register, expected = SOURCES[source]
    block = 24 if expected is SHUFFLE else 32
    report = checked(f"{body} add.u32 %r8, {register}, 1;" + TO.format("%r1"), engine, block)
    assert report.verdict == "verified", (report.findings, report.notes)
    assert {finding.code for finding in report.findings} <= SHUFFLE


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("use", DISCARDED)
def test_a_value_that_is_discarded_is_no_finding(use, engine):
    report = checked(DISCARDED[use], engine)
    assert (report.verdict, report.findings) == ("verified", []), report.notes


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sink", SINKS)
def test_each_thing_that_a_value_reaches_is_named(sink, engine):
    report = checked(SINKS[sink], engine)
    assert report.verdict == "failed"
    found = [finding for finding in report.findings if finding.code == "undefined-register"]
    assert len(found) == 1, report.findings
    assert "`%r9` is used before anything writes it" in found[0].message
    assert "warp 0, lane 0" in found[0].sites[0].text


@cuda.jit
def prefix_sums(x, y, n):
    """CUB's scan of a warp: what comes from below the first lane is added nowhere."""
    t = cuda.threadIdx.x
    if t >= n:
        return
    total = x[t]
    k = 1
    while k < 32:
        other = cuda.shfl_up_sync(0xFFFFFFFF, total, k)
        if t >= k:
            total += other
        k *= 2
    y[t] = total


@cuda.jit
def sum_of_a_warp(x, y, n, root):
    t = cuda.threadIdx.x
    if t >= n:
        return
    total = x[t]
    k = 16
    while k > 0:
        other = cuda.shfl_down_sync(0xFFFFFFFF, total, k)
        if t + k < n:
            total += other
        k //= 2
    if t <= root:
        y[t] = total


@cuda.jit
def sum_without_a_bound(x, y, n, root):
    t = cuda.threadIdx.x
    if t >= n:
        return
    total = x[t]
    k = 4
    while k > 0:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, k)
        k //= 2
    if t <= root:
        y[t] = total


@pytest.mark.parametrize("engine", ENGINES)
def test_partial_warps(engine):
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    assert wsemu.check(prefix_sums, 1, 32, (x, y, 20), engine=engine).verdict == "verified"
    assert wsemu.check(sum_of_a_warp, 1, 32, (x, y, 20, 31), engine=engine).verdict == "verified"
    for root, verdict in ((0, "verified"), (1, "failed")):
        report = wsemu.check(sum_without_a_bound, 1, 32, (x, y, 8, root), engine=engine)
        assert report.verdict == verdict
        assert [finding.severity for finding in report.findings] == ["warning" if root == 0 else "error"]
        if root == 0:
            assert not report.notes


@cuda.jit
def sum_of_one_lane(x, y):
    t = cuda.threadIdx.x
    other = cuda.shfl_down_sync(0xFFFFFFFF, x[t], 1)
    if t == 0:
        y[0] = other


def test_of_a_long_launch_the_beginning_is_followed(monkeypatch):
    """What reaches nothing there is undecided, where the program does not follow it itself."""
    body = SHARED + "ld.shared.u32 %r8, [%r4]; add.u32 %r8, %r8, 1;"
    discarded, stored = body + TO.format("%r1"), body + TO.format("%r8")
    arguments = np.zeros(32, np.int32), np.zeros(1, np.int32)
    for beginning, decided in ((1000, True), (6, False)):
        monkeypatch.setattr(undefined, "MAX_FOLLOWED", beginning)
        report = checked(discarded, "reference")
        assert report.verdict == ("verified" if decided else "incomplete"), report.notes
        assert [(f.code, f.severity) for f in report.findings] == [("uninitialized-read", "warning")] * (not decided)
        assert checked(stored, "reference").verdict == ("failed" if decided else "incomplete")
        report = wsemu.check(sum_of_one_lane, 1, 20, arguments, engine="reference")
        assert report.verdict == ("verified" if decided else "incomplete")
        assert report.reasons == ["undefined value"] * (not decided)
    for engine in ENGINES:
        assert codes(checked(TO.format("%r9"), engine)) == REGISTER
        assert checked(DISCARDED["the lower word"], engine).verdict == "verified"
    assert checked(discarded, "vm").verdict == "verified"
    assert checked(stored, "vm").verdict == "failed"
    assert wsemu.check(sum_of_one_lane, 1, 20, arguments).verdict == "verified"


FUNCTION = """.func (.param .b32 r) f(.param .align 8 .b8 x[8]) {{ .reg .b32 %q; ld.param.b32 %q, [x+{}];
    st.param.b32 [r], %q; ret; }}
    .func (.param .b32 r) g(.param .b32 x) {{ ret; }}"""
CALL = (
    "{{ .param .align 8 .b8 a[8]; .param .b32 b; st.param.b32 [a+4], %r1; call (b), f, (a); ld.param.b32 %r8, [b]; }}"
)
UNSET = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), g, (a); ld.param.b32 %r8, [b]; }"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("call", "at", "expected"), [(CALL, 4, set()), (CALL, 0, REGISTER), (UNSET, 0, REGISTER)])
def test_parameters_and_results_that_nobody_stores(call, at, expected, engine):
    kernel = wsemu.load_ptx(text(INDEX + call + TO.format("%r8"), outside=FUNCTION.format(at)))["k"]
    assert codes(wsemu.check(kernel, 1, 32, (np.zeros(32, np.int32),), engine=engine)) == expected


STEERS = "setp.eq.u32 %p1, %r9, 7; @!%p1 bra L;" + TO.format("%r1") + "L: ret;"


def test_a_register_that_may_steer_a_long_launch_is_followed(monkeypatch):
    """Other contents than 0 and those that are tried may decide a comparison otherwise; more effort follows more."""
    monkeypatch.setattr(undefined, "MAX_FOLLOWED", 1)
    copied = ".local .b32 q[4]; st.local.u32 [q], %r9; ld.local.u32 %r9, [q];" + STEERS
    cases: tuple[tuple[str, Engine], ...] = ((STEERS, "reference"), (copied, "reference"), (copied, "vm"))
    for body, engine in cases:
        report = checked(body, engine)
        assert (report.verdict, report.reasons) == ("incomplete", ["undefined value"])
        assert any(
            "reaches nothing in the first 1 warp instructions; `--effort` follows more" in n for n in report.notes
        )
        assert codes(checked(body, engine, effort=100)) == REGISTER
        assert checked(DISCARDED["the same guard"], engine).verdict == "verified"


@pytest.fixture
def no_interpreter(monkeypatch):
    """Fail a test in which the reference engine follows undefined values."""
    monkeypatch.setattr(undefined, "_follow_slowly", lambda *_: pytest.fail("the reference engine followed it"))


@pytest.mark.parametrize("source", [source for source in SOURCES if source not in SLOW])
def test_values_are_followed_by_the_program_itself(source, no_interpreter):
    body, register, expected = SOURCES[source]
    block = 24 if expected is SHUFFLE else 32
    assert codes(checked(body + TO.format(register), "vm", block)) == expected
    report = checked(f"{body} add.u32 %r8, {register}, 1;" + TO.format("%r1"), "vm", block)
    assert (report.verdict, report.notes) == ("verified", [])


@pytest.mark.parametrize("use", [use for use in DISCARDED if use != "another store"])
def test_values_that_are_discarded_need_no_interpreter(use, no_interpreter):
    report = checked(DISCARDED[use], "vm")
    assert (report.verdict, report.findings) == ("verified", []), report.notes


SHUFFLES = {
    "bfly": "shfl.sync.bfly.b32 %r8|%p1, %r1, {}, 31, 0xFFFFFFFF;",
    "up": "shfl.sync.up.b32 %r8|%p1, %r1, {}, 0, 0xFFFFFFFF;",
    "down": "shfl.sync.down.b32 %r8|%p1, %r1, {}, 31, 0xFFFFFFFF;",
    "idx": "shfl.sync.idx.b32 %r8|%p1, %r1, {}, 31, 0xFFFFFFFF;",
    "idx in halves": "shfl.sync.idx.b32 %r8|%p1, %r1, {}, 0x100F, 0xFFFFFFFF;",
    "bfly in halves": "shfl.sync.bfly.b32 %r8|%p1, %r1, {}, 0x100F, 0xFFFFFFFF;",
    "down in quarters": "shfl.sync.down.b32 %r8|%p1, %r1, {}, 0x1807, 0xFFFFFFFF;",
}


@pytest.mark.parametrize("by", [1, 5, 12, 21, 30])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_lanes_that_shuffle_from_one_that_takes_no_part(shuffle, by, request):
    """Each lane says whether its value is undefined: those that it is are the same on both engines."""
    body = SHUFFLES[shuffle].format(by) + "setp.eq.u32 %p2, %r1, {}; selp.u32 %r8, %r8, 7, %p2;" + TO.format("%r8")
    expected = [codes(checked(body.format(lane), "reference", 22)) for lane in range(0, 22, 3)]
    request.getfixturevalue("no_interpreter")
    assert [codes(checked(body.format(lane), "vm", 22)) for lane in range(0, 22, 3)] == expected


BYTES = """.shared .align 16 .b8 s[1024]; .local .align 16 .b8 q[16]; and.b32 %r2, %r1, 3; shl.b32 %r3, %r1, 4;
    cvt.u64.u32 %rd6, %r3; cvt.u64.u32 %rd7, %r2; mov.u16 %rs1, 5; mov.u64 %rd5, {array}; {slot}
    add.u64 %rd7, %rd7, %rd5; st.{space}.u8 [%rd7], %rs1; ld.{space}.u{width} %{register}, [%rd5]; {shown}
    shr.u32 %r8, %r8, {shift}; and.b32 %r8, %r8, 255; setp.eq.u32 %p1, %r1, {lane}; selp.u32 %r8, %r8, 0, %p1;"""
"""each thread writes one byte of its 16, and loads some; one of them stores one of these"""
NARROW, WIDE = ("rs2", "cvt.u32.u16 %r8, %rs2;"), ("rd8", "cvt.u32.u64 %r8, %rd8;")
LOADED = {8: NARROW, 16: NARROW, 32: ("r8", ""), 64: WIDE}


@pytest.mark.parametrize("place", [("shared", "s", "add.u64 %rd5, %rd5, %rd6;"), ("local", "q", "")])
@pytest.mark.parametrize("width", LOADED)
def test_bytes_that_are_written_are_defined(place, width, no_interpreter):
    (space, array, slot), (register, shown) = place, LOADED[width]
    for lane, shift in ((0, 0), (0, 8), (17, 0), (17, 8), (31, 24)):
        body = BYTES.format(space=space, array=array, slot=slot, width=width, register=register, shown=shown,
                            shift=shift, lane=lane)  # fmt: skip
        undefined_ = shift < width and shift != 8 * (lane % 4)
        assert codes(checked(body + TO.format("%r8"), "vm")) == (READ if undefined_ else set()), (lane, shift)


@pytest.mark.parametrize("sink", SINKS)
def test_each_thing_that_a_register_reaches_needs_no_interpreter(sink, request):
    slow = checked(SINKS[sink], "reference")
    request.getfixturevalue("no_interpreter")
    report = checked(SINKS[sink], "vm")
    assert [f.sites[-1].text for f in report.findings] == [f.sites[-1].text for f in slow.findings]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sink", SINKS)
def test_a_register_has_a_witness_that_replays(sink, engine):
    launches: list[Bound] = []

    def keep(bound: Bound) -> None:
        launches.append(bound._replace(segments=[(data.copy(), writable) for data, writable in bound.segments]))

    starting.append(keep)
    try:
        report = checked(SINKS[sink], engine)
    finally:
        starting.remove(keep)
    finding = next(finding for finding in report.errors if finding.code == "undefined-register")
    witness = report.witness(finding)
    assert replay.follow(launches[0], witness.code, witness.steps).codes == ["undefined-register"]
    if sink == "store":
        elsewhere = witness.steps[0].model_copy(update={"instruction": 0, "does": "alu"})
        with pytest.raises(ReplayError, match="without `undefined-register`"):
            replay.follow(launches[0], witness.code, [elsewhere])


def test_a_register_that_two_contents_show_has_no_witness(monkeypatch):
    """They show that it reaches something, not where."""
    monkeypatch.setattr(undefined, "MAX_FOLLOWED", 1)
    report = checked(SOURCES["a copy in local memory"][0] + TO.format("%r8"), "vm")
    assert [(finding.code, finding.steps) for finding in report.errors] == [("undefined-register", [])]


def test_of_several_registers_each_is_named(no_interpreter):
    body = f"and.b32 %r6, %r5, 0;{TO.format('%r9')}\n{TO.format('%r6')}\nadd.u32 %r7, %r7, %r6;{TO.format('%r7')}"
    report = checked(body, "vm")
    assert sorted(finding.message.split("`")[1] for finding in report.findings) == ["%r7", "%r9"]


@pytest.mark.parametrize("lane", [0, 21])
def test_the_lane_that_has_the_register_is_named(lane, no_interpreter):
    body = f"setp.ne.u32 %p1, %r1, {lane}; @%p1 mov.u32 %r9, 5;" + TO.format("%r9")
    assert f"warp 0, lane {lane}" in checked(body, "vm").findings[0].sites[0].text


def test_a_register_that_a_loop_leaves_unwritten_in_one_round(no_interpreter):
    """Its mask goes round with it: only the second round reads what the first one wrote."""
    body = """mov.u32 %r2, 0; L: setp.eq.u32 %p1, %r2, {}; @%p1 bra M; st.global.u32 [%rd3], %r9; M: mov.u32 %r9, %r2;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4; @%p2 bra L;"""
    for first, expected in ((0, set()), (1, REGISTER)):
        assert codes(checked(body.format(first), "vm")) == expected


def test_a_warp_that_parts_follows_each_side(no_interpreter):
    """Lanes below 16 write the register, lanes above 16 do not use it: neither side reads what it has not written."""
    body = """setp.lt.u32 %p1, %r1, 16; @!%p1 bra E; mov.u32 %r9, 7; bra J; E: mov.u32 %r8, 3; J: bar.warp.sync -1;
        setp.{}.u32 %p2, %r1, 16; @!%p2 bra X; st.global.u32 [%rd3], %r9; X: ret;"""
    assert codes(checked(body.format("lt"), "vm")) == set()
    assert codes(checked(body.format("le"), "vm")) == REGISTER


def test_maxima_with_registers_of_long_launches_show(monkeypatch):
    monkeypatch.setattr(undefined, "MAX_FOLLOWED", 1)
    for what, of in (("max", "0f3F800000"), ("min", "0f3F800000"), ("max", "0fBF800000"), ("min", "0fBF800000")):
        body = f"{what}.f32 %f1, %f2, {of}; mov.b32 %r8, %f1;" + TO.format("%r8")
        for engine in ENGINES:
            assert codes(checked(body, engine)) == REGISTER, (what, of)


def test_ctas_that_speak_for_others_leave_none_out(monkeypatch):
    """The last CTA stores the register; it lies beyond what is followed of the grid."""
    monkeypatch.setattr(undefined, "MAX_FOLLOWED", 400)
    body = """mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; sub.u32 %r3, %r3, 1; mul.wide.u32 %rd4, %r2, 128;
        add.u64 %rd3, %rd3, %rd4; setp.eq.u32 %p1, %r2, %r3; @%p1 bra L; mov.u32 %r9, 5; L: """
    for register, expected in (("%r9", REGISTER), ("%r1", set())):
        kernel = wsemu.load_ptx(text(INDEX + body + TO.format(register)))["k"]
        report = wsemu.check(kernel, 200, 32, (np.zeros(32 * 200, np.int32),), corners=True)
        assert codes(report) == expected, report.notes
        assert report.verdict == ("failed" if expected else "verified")


LEADER = "and.b32 %r2, %r1, 31; setp.ne.u32 %p3, %r2, 0; @%p3 exit; atom.global.add.u32 %r3, [%rd2+4], 1;"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("steered", [True, False])
def test_a_register_that_another_order_of_atomics_may_read(steered, engine):
    """In the initial run the second warp comes second."""
    second = "setp.eq.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r3, 0; and.pred %p1, %p1, %p2; @%p1 bra L;"
    instead = "mov.u32 %r9, 6;" if not steered else ""
    body = f"{LEADER}{instead}{second} mov.u32 %r9, 5; L: {TO.format('%r9')}"
    kernel = wsemu.load_ptx(text(INDEX + body))["k"]
    report = wsemu.check(kernel, 1, 64, (np.zeros(64, np.int32),), engine=engine)
    expected = ("incomplete", ["undefined value"]) if steered else ("verified", [])
    assert (report.verdict, report.reasons) == expected, report.notes


def test_a_copy_is_a_warning_and_with_strict_an_error():
    body = SHARED + ".shared .b32 o[32]; ld.shared.u32 %r8, [%r4]; mov.u32 %r5, o; st.shared.u32 [%r5], %r8;"
    kernel = wsemu.load_ptx(text(INDEX + body))["k"]
    for strict in (False, True):
        report = wsemu.check(kernel, 1, 1, (np.zeros(32, np.int32),), strict=strict)
        assert [(f.code, f.severity) for f in report.findings] == [("undefined-copy", "error" if strict else "warning")]
        assert report.verdict == ("failed" if strict else "verified")
    assert "but 1 undefined-copy" in wsemu.check(kernel, 1, 1, (np.zeros(32, np.int32),)).proof


@pytest.mark.parametrize("engine", ENGINES)
def test_another_launch_may_reach_more(engine):
    """What values reach depends on data: the second launch does what the first one did, and more with the value."""
    body = "ld.global.u32 %r2, [%rd3]; and.b32 %r8, %r9, %r2; st.global.u32 [%rd3], %r8;"
    kernel = wsemu.load_ptx(text(INDEX + body))["k"]
    for mask, verdict in ((0, "verified"), (1, "failed"), (0, "verified")):
        assert wsemu.check(kernel, 1, 32, (np.full(32, mask, np.int32),), engine=engine).verdict == verdict


@pytest.mark.parametrize("engine", ENGINES)
def test_a_launch_that_stops_may_have_used_the_value_later(engine):
    body = SHARED + "ld.shared.u32 %r8, [%r4]; barrier.sync 1, 64;" + TO.format("%r8")
    assert codes(checked(body, engine)) == READ | {"deadlock", "oversubscribed"}


MMA = """.reg .b32 %a<2>, %b; .reg .f32 %c<4>, %d<4>; {}
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%d0, %d1, %d2, %d3}}, {{%a0, %a1}}, {{%b}}, {{%c0, %c1, %c2, %c3}};
{}st.global.f32 [%rd3], %d{};"""
OPERANDS = {register: f"mov.b32 %{register}, 0;" for register in "a0 a1 b c0 c1 c2 c3".split()}
OF_LANE_3 = "setp.ne.u32 %p1, %r1, 3; @%p1 mov.b32 %a0, 0;"
LATE, EARLY = (f"setp.{how}.u32 %p2, %r1, 4; @%p2 " for how in ("ge", "lt"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("left_out", "instead", "where", "element", "expected"),
    [
        ("", "", "", 0, set()),
        ("a1", "", "", 0, set()),  # the lower rows of a
        ("a1", "", "", 2, REGISTER),
        ("b", "", "", 0, REGISTER),
        ("c3", "", "", 2, set()),
        ("c3", "", "", 3, REGISTER),
        ("a0", OF_LANE_3, LATE, 0, set()),  # lanes 0 to 3 have row 0
        ("a0", OF_LANE_3, EARLY, 0, REGISTER),
    ],
)
def test_elements_of_products(left_out, instead, where, element, expected, engine):
    written = "".join(line for register, line in OPERANDS.items() if register != left_out) + instead
    assert codes(checked(MMA.format(written, where, element), engine)) == expected


TRANSPOSED = (
    "setp.ne.u32 %p1, %r1, 5; @%p1 mov.u32 %r9, 1; movmatrix.sync.aligned.m8n8.trans.b16 %r8, %r9; {}"
    + TO.format("%r8")
)
ROWS = (
    ".shared .align 16 .b8 s[512]; mov.u32 %r4, s; mad.lo.u32 %r5, %r1, 16, %r4; setp.lt.u32 %p1, %r1, 8;"
    "@%p1 st.shared.v4.u32 [%r5], {{%r1, %r1, %r1, %r1}}; bar.warp.sync -1;"
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r6, %r7}}, [%r5];" + TO
)


@pytest.mark.parametrize("engine", ENGINES)
def test_elements_that_move_between_lanes(engine):
    assert codes(checked(TRANSPOSED.format("setp.eq.u32 %p2, %r1, 0; @%p2 "), engine)) == set()
    assert codes(checked(TRANSPOSED.format(""), engine)) == REGISTER
    assert codes(checked(ROWS.format("%r6"), engine)) == set()
    assert codes(checked(ROWS.format("%r7"), engine)) == READ


@cuda.jit
def copied(x, y, n):
    t = cuda.threadIdx.x
    value = x[t]
    y[t] = value if t < n else 0


@pytest.mark.parametrize("engine", ENGINES)
def test_global_memory_that_nothing_has_written(engine):
    x, y = np.zeros(32, np.int32), np.zeros(32, np.int32)
    for n, verdict in ((0, "verified"), (1, "failed")):
        report = wsemu.check(copied, 1, 32, (x, y, n), uninitialized=("x",), engine=engine)
        assert (report.verdict, codes(report)) == (verdict, READ if n else set())


@cuda.jit
def printed(y):
    s = cuda.shared.array(32, np.int32)
    print(s[cuda.threadIdx.x])


@cuda.jit
def combined(y):
    s = cuda.shared.array(32, np.int32)
    cuda.atomic.add(y, 0, s[cuda.threadIdx.x])


@cuda.jit
def indexed(y):
    s = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    y[t] = y[(s[t] + t) % 32]


@pytest.mark.parametrize("kernel", [printed, combined, indexed], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_value_of_a_python_kernel_reaches(kernel, engine, capsys):
    report = wsemu.check(kernel, 1, 32, (np.zeros(32, np.int32),), engine=engine)
    assert codes(report) == READ
    assert "the undefined value" in report.findings[0].sites[1].text


WGMMA = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 d)
{{
    .shared .align 128 .b8 tile[2560];
    .reg .b32 %t, %s, %a, %z, %f<8>; .reg .b64 %d, %at, %da, %db; .reg .pred %p, %uses;
    mov.u32 %t, %tid.x;
    mov.u32 %z, 0;
    ld.param.u64 %d, [d];
    mov.u32 %s, tile;
    shl.b32 %a, %t, 4;
    add.u32 %a, %a, %s;
    st.shared.v4.b32 [%a], {{%z, %z, %z, %z}};
    setp.lt.u32 %p, %t, 32;
    @%p st.shared.v4.b32 [%a+2048], {{%z, %z, %z, %z}};
    fence.proxy.async;
    bar.sync 0;
    cvt.u64.u32 %da, %s;
    shr.u64 %da, %da, 4;
    or.b64 %da, %da, 0x1000080000;
    add.u64 %db, %da, 128;
    setp.eq.u32 %uses, %z, {};
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %da, %db, %uses, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mul.wide.u32 %at, %t, 16;
    add.u64 %d, %d, %at;
    st.global.v4.b32 [%d], {{%f0, %f1, %f2, %f3}};
    ret;
}}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("equals", "expected"), [(1, set()), (0, REGISTER)])
def test_accumulators_of_a_wgmma(equals, expected, engine):
    """The first of a sum does not use what its accumulator holds, and code of CUTLASS does not clear it."""
    kernel = wsemu.load_ptx(WGMMA.format(equals)).only()
    arguments = (np.zeros(512, np.float32),)
    undefined = kernel.program(kernel.fit(arguments), fma=True).undefined
    assert bool(undefined) == bool(expected), "a sum that begins needs no second run"
    report = wsemu.check(kernel, 1, 128, arguments, engine=engine)
    assert (report.verdict, codes(report)) == ("failed" if expected else "verified", expected)


SAME_LINE = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %t, %u, %v; .reg .b64 %o, %at; .shared .b32 s[64];
    mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4; ld.param.u64 %o, [out]; add.u64 %o, %o, %at; mov.u32 %v, s;
    ld.shared.u32 %u, [%v]; ld.shared.u32 %v, [%v+4]; add.u32 %u, %u, 1; st.global.u32 [%o], %v; ret;
}
"""
"""two loads of one line; only the value of the second one reaches anything"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shuffles", [False, True])
def test_of_findings_of_one_line_the_one_that_matters_stays(shuffles, engine):
    text_ = SAME_LINE
    if shuffles:
        for load, source in (("%u, [%v]", 20), ("%v, [%v+4]", 21)):
            text_ = text_.replace(f"ld.shared.u32 {load}", f"shfl.sync.idx.b32 {load[:2]}, %t, {source}, 31, -1")
    kernel = wsemu.load_ptx(text_).only()
    report = wsemu.check(kernel, 1, 20, (np.zeros(32, np.int32),), engine=engine)
    assert (report.verdict, codes(report)) == ("failed", SHUFFLE if shuffles else READ)


PEERS = (
    ".shared .b32 s; mov.u32 %r4, s; shr.u32 %r5, %r1, 5; and.b32 %r6, %r1, 31; setp.ne.u32 %p2, %r6, 0; @%p2 exit;"
    "setp.eq.u32 %p1, %r5, 0; @%p1 bra A; {} st.global.u32 [%rd2], %r8; ret; A: {} ret;"
)
"""one lane of each of two warps: the second one loads what the first one stores"""
STRONG = {
    "a load": ("ld.relaxed.cta.shared.u32 %r8, [%r4];", "st.relaxed.cta.shared.u32 [%r4], 7;"),
    "an exchange": ("atom.shared.exch.b32 %r8, [%r4], 9;", "atom.shared.exch.b32 %r8, [%r4], 7;"),
    "a load after an exchange": ("ld.relaxed.cta.shared.u32 %r8, [%r4];", "atom.shared.exch.b32 %r7, [%r4], 7;"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("accesses", STRONG.values(), ids=STRONG)
def test_a_strong_load_that_another_order_puts_before_the_first_store(accesses, engine):
    report = checked(PEERS.format(*accesses), engine, 64)
    assert (report.verdict, report.reasons) == ("incomplete", ["undefined value"])
    assert any("before" in note and "first store" in note for note in report.notes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("accesses", STRONG.values(), ids=STRONG)
def test_a_strong_load_of_what_is_initialized_before(accesses, engine):
    load, store = accesses
    setup = "setp.eq.u32 %p3, %r1, 0; @%p3 st.relaxed.cta.shared.u32 [%r4], 0; bar.sync 0; shr.u32 %r5, %r1, 5;"
    body = PEERS.replace("shr.u32 %r5, %r1, 5;", setup).format(load, store)
    assert checked(body, engine, 64).verdict == "verified"


def test_a_strong_load_after_a_barrier():
    store = "setp.eq.u32 %p1, %r1, 0; @%p1 st.relaxed.cta.shared.u32 [%r4], 7; bar.sync 0;"
    body = ".shared .b32 s; mov.u32 %r4, s;" + store + "ld.relaxed.cta.shared.u32 %r8, [%r4];" + TO.format("%r8")
    assert checked(body, "vm").verdict == "verified"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_exchange_discards_what_was_there(engine):
    report = checked(SHARED + "atom.shared.exch.b32 %r8, [%r4], %r9;" + TO.format("%r1"), engine)
    assert codes(report) == REGISTER


LATE = """
.shared .align 4 .b32 tile[8]; mov.u32 %r2, tile; setp.ge.u32 %p1, %r1, 32; @%p1 bra WRITER;
setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r3, 0; mov.u32 %r4, 0;
FILL: shl.b32 %r7, %r4, 2; add.u32 %r5, %r7, %r2; st.shared.u32 [%r5], %r4;
add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 5; @%p2 bra FILL; mov.u32 %r4, 0;
SUM: shl.b32 %r7, %r4, 2; add.u32 %r5, %r7, %r2; ld.shared.u32 %r6, [%r5];
add.u32 %r3, %r3, %r6; add.u32 %r4, %r4, 1; setp.le.u32 %p2, %r4, 5; @%p2 bra SUM;
st.global.u32 [%rd3], %r3; bra END;
WRITER: setp.ne.u32 %p3, %r1, 32; @%p3 bra END; st.shared.u32 [tile+20], %r1;
END: ret;
"""
"""a warp loads its last word near the end of its turn, before another one stores it"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_read_that_comes_before_a_racing_store(engine):
    (finding,) = checked(LATE, engine, 64).findings
    assert finding.code == "race"
    assert any("memory that nothing had stored to" in note for note in finding.notes)
