"""Accesses by an address of a variable of local memory stay inside of it, and in the memory of their thread (PTX ISA,
"Local State Space")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.machine import workers

HEAD = """
.version 8.8
.target sm_90
.address_size 64
.visible .func (.param .u32 r) last(.param .u64 p, .param .u32 i)
{
.reg .b32 %r<5>; .reg .b64 %rd<5>;
.local .align 4 .b8 own[16];
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [i]; mov.u64 %rd2, own; mul.wide.s32 %rd3, %r1, 4; add.s64 %rd1, %rd1, %rd3;
st.local.u32 [own], 5; st.local.u32 [own+12], 6; ld.u32 %r2, [%rd1]; st.param.u32 [r], %r2; ret;
}
.visible .func (.param .u32 r) deep(.param .u64 p, .param .u32 i, .param .u32 d)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
.local .align 8 .b8 own[16];
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [i]; ld.param.u32 %r2, [d]; mov.u64 %rd2, own; cvta.local.u64 %rd2, %rd2;
st.local.v4.u32 [own], {%r2, %r2, %r2, %r2}; mul.wide.s32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3;
setp.eq.u32 %p1, %r2, 0; @%p1 bra $end;
sub.u32 %r3, %r2, 1;
{ .param .u64 a; .param .u32 b; .param .u32 c; .param .u32 q;
st.param.u64 [a], %rd2; st.param.u32 [b], %r1; st.param.u32 [c], %r3;
call (q), deep, (a, b, c); ld.param.u32 %r4, [q]; }
st.param.u32 [r], %r4; ret;
$end: ld.u32 %r4, [%rd4]; st.param.u32 [r], %r4; ret;
}
.visible .func (.param .u64 r) gone(.param .u32 d)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
.local .align 8 .b8 own[16];
ld.param.u32 %r1, [d]; mov.u64 %rd1, own; st.local.u32 [own], %r1;
setp.eq.u32 %p1, %r1, 0; @%p1 bra $end; sub.u32 %r1, %r1, 1;
{ .param .u32 a; .param .u64 q; st.param.u32 [a], %r1; call (q), gone, (a); ld.param.u64 %rd1, [q]; }
$end: st.param.u64 [r], %rd1; ret;
}
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n, .param .align 4 .b8 s[16])
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
.local .align 16 .b8 before[16]; .local .align 16 .b8 it[32]; .local .align 16 .b8 after[16];
.shared .align 8 .b8 shared[512];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r9, 0;
mul.wide.u32 %rd3, %r2, 4; add.s64 %rd2, %rd2, %rd3; mul.wide.s32 %rd3, %r1, 4; mov.u64 %rd4, it; mov.u64 %rd5, before;
cvta.local.u64 %rd6, %rd4; add.s64 %rd7, %rd4, %rd3; add.s64 %rd8, %rd6, %rd3; setp.ne.u32 %p1, %r1, 99;
st.local.v4.u32 [before], {%r9, %r9, %r9, %r9}; st.local.v4.u32 [after], {%r9, %r9, %r9, %r9};
st.local.v4.u32 [it], {%r9, %r9, %r9, %r9}; st.local.v4.u32 [it+16], {%r9, %r9, %r9, %r9};
"""
TAIL = "\nst.global.u32 [%rd2], %r9; ret;\n}\n"
CALL = """{{ .param .u64 a; .param .u32 b; .param .u32 c; .param .u32 q;
st.param.u64 [a], %rd6; st.param.u32 [b], %r1; {} }}"""
LAST = CALL.format("call (q), last, (a, b); ld.param.u32 %r9, [q];")
DEEP = CALL.format("st.param.u32 [c], 3; call (q), deep, (a, b, c); ld.param.u32 %r9, [q];")
BY_INDEX = {
    "load": "ld.local.u32 %r9, [%rd7];",
    "store": "st.local.u32 [%rd7], 1;",
    "generic": "ld.u32 %r9, [%rd8];",
    "generic store": "@%p1 st.u32 [%rd8], 1;",
    "some lanes": "setp.gt.u32 %p2, %r2, 9; @%p2 bra $e; ld.local.u32 %r9, [%rd7];\n$e:",
    "one lane": "setp.ne.u32 %p2, %r2, 9; @%p2 bra $e; st.local.u32 [%rd7], 1;\n$e:",
    "chosen": "selp.b64 %rd9, %rd7, %rd5, %p1; ld.local.u32 %r9, [%rd9];",
    "kept in memory": "st.local.u64 [before], %rd7; ld.local.u64 %rd9, [before]; ld.local.u32 %r9, [%rd9];",
    "kept in shared memory": "mad.lo.u32 %r3, %r2, 8, 0; mov.u32 %r4, shared; add.u32 %r3, %r3, %r4; "
    "st.shared.u64 [%r3], %rd8; ld.shared.u64 %rd9, [%r3]; ld.u32 %r9, [%rd9];",
    "of a function": LAST,
    "of a loop": "mov.u32 %r5, 0;\n$l: ld.local.u32 %r9, [%rd7]; add.u32 %r5, %r5, 1; "
    "setp.lt.u32 %p2, %r5, 200; @%p2 bra $l;",
    "by another name": "mov.u64 %rd9, %rd4; @%p1 mov.u64 %rd9, %rd7; ld.local.u32 %r9, [%rd9];",
}  # fmt: skip
"""accesses at index n of `it`, which has 8 numbers"""
OUTSIDE = [
    "ld.local.u32 %r9, [it+32];",
    "ld.local.u32 %r9, [it+-4];",
    "st.local.u64 [%rd4+28], %rd1;",
    "st.local.v2.u32 [it+28], {%r9, %r9};",
    "ld.local.v4.u32 {%r9, %r10, %r11, %r12}, [%rd4+32];",
    "st.local.u8 [%rd4+32], %r9;",
    "st.local.u8 [%rd4+-1], %r9;",
    "ld.local.v2.u8 {%r9, %r10}, [%rd4+32];",
    # of the next thread, and of the last one
    "ld.local.u32 %r9, [%rd4+64];",
    "ld.local.u32 %r9, [%rd4+-64];",
    "ld.local.u32 %r9, [%rd4+1984];",
    "mul.wide.u32 %rd9, %r2, 64; sub.s64 %rd9, %rd4, %rd9; ld.local.u32 %r9, [%rd9];",
]
INSIDE = [
    "ld.local.u32 %r9, [it+28];",
    "ld.local.v4.u32 {%r9, %r10, %r11, %r12}, [%rd4+16];",
    "st.local.u8 [%rd4+31], %r9;",
    "and.b32 %r3, %r2, 7; mul.wide.u32 %rd9, %r3, 4; add.s64 %rd9, %rd4, %rd9; ld.local.u32 %r9, [%rd9];",
    "add.s64 %rd9, %rd4, 64; add.s64 %rd9, %rd9, -64; ld.local.u32 %r9, [%rd9];",
    "add.s64 %rd9, %rd4, 32; sub.s64 %rd9, %rd9, %rd4; cvt.u32.u64 %r9, %rd9;",
]
ALLOCA = "alloca.u64 %rd9, 20; st.local.u32 [%rd9], %r9; add.s64 %rd10, %rd9, %rd3; @%p1 st.local.u32 [%rd10], 1; "
SHARED_POINTER = """mov.u32 %r3, shared; setp.eq.u32 %p2, %r2, 5; @%p2 st.shared.u64 [%r3], %rd6; bar.sync 0;
ld.shared.u64 %rd9, [%r3]; ld.u32 %r9, [%rd9];"""
GONE = """{ .param .u32 a; .param .u64 q; st.param.u32 [a], 2; call (q), gone, (a); ld.param.u64 %rd9, [q]; }
ld.local.u32 %r9, [%rd9];"""
PARAMETER = "mov.b64 %rd9, s; add.s64 %rd9, %rd9, %rd3; ld.param.u32 %r9, [%rd9];"
IN_BLOCKS = ["load", "generic store", "one lane", "of a loop"]
"""those that blocks have ways of their own for"""


def _report(body: str, way: str, n: int = 0) -> wsemu.Report:
    engine: Any = "reference" if way == "reference" else "vm"
    given = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32), np.int32(n), bytes(16)
    return wsemu.check(wsemu.load_ptx(HEAD + body + TAIL)["k"], 1, 32, given, engine=engine)


def _codes(body: str, way: str, n: int = 0) -> list[str]:
    return [finding.code for finding in _report(body, way, n).findings if finding.severity == "error"]


@pytest.fixture(params=["reference", "off"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("body", [*BY_INDEX.values(), DEEP], ids=[*BY_INDEX, "recursion"])
def test_an_index_stays_in_its_variable(body: str, way: str) -> None:
    end = 4 if body == DEEP else 8
    assert all(_codes(body, way, n) == [] for n in (0, end - 1))
    for n in (-1, -8, end, 2 * end, 16, -16, 1 << 22, 1 << 24, (1 << 31) - 1, -(1 << 31)):
        assert _codes(body, way, n) == ["out-of-bounds"], n


def test_blocks_know_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})
    monkeypatch.setenv("WSEMU_TIER", "always")
    for name in IN_BLOCKS:
        assert [_codes(BY_INDEX[name], "off", n) for n in (7, 8, -1)] == [[], ["out-of-bounds"], ["out-of-bounds"]], (
            name
        )


@pytest.mark.parametrize("body", OUTSIDE)
def test_a_constant_distance_stays_in_its_variable(body: str, way: str) -> None:
    assert _codes(body, way) == ["out-of-bounds"]


@pytest.mark.parametrize("body", INSIDE)
def test_nothing_is_reported_of_accesses_inside(body: str, way: str) -> None:
    assert _codes(body, way) == []


def test_memory_of_alloca_has_its_bounds(way: str) -> None:
    assert [_codes(ALLOCA, way, n) for n in (0, 4)] == [[], []]
    assert [_codes(ALLOCA, way, n) for n in (5, -1, 40, 400)] == [["out-of-bounds"]] * 4


def test_another_threads_variable_is_out_of_bounds(way: str) -> None:
    report = _report(SHARED_POINTER, way)
    (finding,) = [finding for finding in report.findings if finding.severity == "error"]
    assert finding.code == "out-of-bounds"
    assert "in the memory of lane 5" in finding.notes[0]


def test_an_index_beside_the_end_is_named_before_an_address_of_another_lane(way: str) -> None:
    (finding,) = [finding for finding in _report(BY_INDEX["load"], way, 8).findings if finding.severity == "error"]
    assert (finding.help or "").startswith("check the index against the array's end")
    (finding,) = [finding for finding in _report(SHARED_POINTER, way).findings if finding.severity == "error"]
    assert (finding.help or "").startswith("share the value in shared memory")


@pytest.mark.parametrize(("threads", "verdict"), [(32, "failed"), (1, "verified"), (64, "incomplete")])
def test_an_address_for_another_warp_is_not_verified(threads: int, verdict: str) -> None:
    body = """mov.u32 %r3, shared; setp.eq.u32 %p2, %r2, 0; @%p2 st.shared.u64 [%r3], %rd6; bar.sync 0;
    setp.eq.u32 %p3, %r2, MINE; @!%p3 bra $end; ld.shared.u64 %rd9, [%r3]; ld.u32 %r9, [%rd9];\n$end:"""
    text = HEAD + body.replace("MINE", "32" if threads == 64 else str(threads // 2)) + TAIL
    given = np.arange(32, dtype=np.uint32), np.zeros(64, np.uint32), np.int32(0), bytes(16)
    assert wsemu.check(wsemu.load_ptx(text)["k"], 1, threads, given).verdict == verdict


OF_A_STRUCTURE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .align 8 .b8 given[16])
{
  .reg .b32 %n, %v, %t; .reg .b64 %p, %q;
  ld.param.u64 %p, [given]; ld.param.u32 %n, [given+8];
  ld.global.u32 %v, [%p]; mov.u32 %t, %tid.x; add.u32 %v, %v, %t;
  mad.wide.u32 %q, %v, 4, %p; st.global.u32 [%q+4], %n;
  exit;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_number_of_a_structure_is_not_an_address_of_local_memory(engine: Any) -> None:
    given = np.zeros(65, np.uint32), np.uint32(3)
    report = wsemu.check(wsemu.load_ptx(OF_A_STRUCTURE)["k"], 1, 64, (given,), engine=engine)
    assert (report.verdict, given[0].sum()) == ("verified", 3 * 64)


def test_a_variable_ends_with_its_function(way: str) -> None:
    (finding,) = [finding for finding in _report(GONE, way).findings if finding.severity == "error"]
    assert finding.message == "load of 4 bytes in a variable whose function has returned"


def test_a_parameter_has_bounds_and_is_read_only(way: str) -> None:
    assert [_codes(PARAMETER, way, n) for n in (0, 3, 4, -1)] == [[], [], ["out-of-bounds"], ["out-of-bounds"]]
    store = "mov.b64 %rd9, s; cvta.param.u64 %rd9, %rd9; st.u32 [%rd9], 1;"
    (finding,) = [finding for finding in _report(store, way).findings if finding.severity == "error"]
    assert finding.message == "store to the parameter `s`, which is read-only"


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_both_engines_store_the_same(engine: Any) -> None:
    body = "add.u32 %r3, %r2, 1; st.local.u32 [%rd7], %r3; ld.u32 %r9, [%rd8];"
    y = np.zeros(32, np.uint32)
    kernel = wsemu.load_ptx(HEAD + body + TAIL)["k"]
    wsemu.check(kernel, 1, 32, (np.zeros(32, np.uint32), y, np.int32(5), bytes(16)), engine=engine).assert_clean()
    assert y.tolist() == list(range(1, 33))


BLOCKS = """
.version 8.8
.target sm_90
.address_size 64
.visible .func (.param .u32 r) f(.param .u32 a, .param .align 4 .b8 b[8])
{
.reg .b32 %r<5>; ld.param.u32 %r1, [FROM]; st.param.u32 [RESULT], %r1; ret;
}
.visible .entry k(.param .u64 y, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [y]; mov.u32 %r1, 5;
{ .param .u32 x; .param .align 4 .b8 s[8]; .param .u32 q;
st.param.u32 [TO], 4; st.param.u32 [s], 4; st.param.u32 [s+4], %r1; st.param.u32 [x], %r1;
call (q), f, (x, s); ld.param.u32 %r2, [BACK]; }
ld.param.u32 %r3, [OWN]; add.u32 %r2, %r2, %r3; st.global.u32 [%rd1], %r2; ret;
}
"""
PLACES = {"FROM": "b+4", "RESULT": "r", "TO": "s", "BACK": "q", "OWN": "n"}
BEYOND = {"FROM": ("a+4", "b+8", "b+6", "b+-4"), "RESULT": ("r+4", "r+2"), "TO": ("x+4", "s+6", "s+-4"),
          "BACK": ("q+4",), "OWN": ("n+4", "n+-4")}  # fmt: skip


def _blocks(places: dict[str, str], engine: Any) -> list[str]:
    text = BLOCKS
    for name, place in places.items():
        text = text.replace(name, place)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, (np.zeros(1, np.uint32), np.uint32(3)), engine=engine)
    return [finding.code for finding in report.findings if finding.severity == "error"]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_each_block_of_parameters_has_its_bounds(engine: Any) -> None:
    assert _blocks(PLACES, engine) == []
    for name, places in BEYOND.items():
        for place in places:
            unset = ["undefined-register"] * (name == "RESULT")  # the caller loads a result that nobody stored
            assert _blocks(PLACES | {name: place}, engine) == ["out-of-bounds", *unset], place


def test_a_thread_has_as_much_local_memory_as_on_a_gpu() -> None:
    @cuda.jit
    def large(x: Any) -> None:
        own = cuda.local.array(70_000, np.float64)
        own[0] = x[0]
        x[0] = own[0]

    with pytest.raises(wsemu.KernelError, match="`own` makes the thread's local memory 560,000 bytes: at most 524,288"):
        wsemu.check(large, 1, 1, (np.zeros(1),))


FULL_STACK = """
.version 8.0
.target sm_90
.address_size 64
.func (.reg .b64 %r) f (.reg .b64 %keep, .reg .b64 %n)
{
.reg .b64 %p, %m, %s<SAVED>;
.reg .pred %c;
.local .align 8 .b64 x[WORDS];
mov.u64 %p, x;
st.local.u64 [%p], %n;
st.local.u64 [%keep], %p;
mov.u64 %r, 0;
setp.eq.u64 %c, %n, 0;
@%c bra END;
MAKE
sub.u64 %m, %n, 1;
call (%r), f, (%keep, %m);
USE
END:
ret;
}
.visible .entry k(.param .u64 out)
{
.reg .b64 %a, %o, %v, %n;
.local .align 8 .b64 own[2];
ld.param.u64 %a, [out];
mov.u64 %o, own;
mov.u64 %n, 2000;
call (%v), f, (%o, %n);
st.global.u64 [%a], %v;
ret;
}
"""
"""a recursive function whose variable may be in use after its return; calls save registers"""


@pytest.mark.parametrize(("words", "saved"), [(4, 1), (8, 4), (16, 16), (32, 12)])
def test_a_stack_without_room_leaves_the_launch_incomplete(words: int, saved: int) -> None:
    """A call saves registers before the room for its variables is checked."""
    source = FULL_STACK.replace("WORDS", str(words)).replace("SAVED", str(saved))
    source = source.replace("MAKE", "".join(f"add.u64 %s{n}, %n, {n};" for n in range(saved)))
    source = source.replace("USE", "".join(f"add.u64 %r, %r, %s{n};" for n in range(saved)))
    report = wsemu.check(wsemu.load_ptx(source)["k"], 1, 1, (np.zeros(4, np.int64),))
    assert report.verdict == "incomplete"
    assert "bytes of a thread's stack" in " ".join(report.notes)
