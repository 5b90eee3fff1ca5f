"""Addresses that go through memory, copies and lanes are followed, whatever carries them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import wsemu
from wsemu.launch.result import Report
from wsemu.proof.multiples import Multiples
from wsemu.proof.taint import Block

FOLDER = Path(__file__).parents[1] / "ptx"
KERNELS = dict(re.findall(r"^KERNEL (\w+)\((.*)\) {", (FOLDER / "pointers.cu").read_text(), re.MULTILINE))
MODULES = {name: wsemu.load_ptx(FOLDER / f"pointers.{name}.ptx") for name in ("sm_90", "sm_90.debug")}


@pytest.mark.parametrize("made", MODULES)
@pytest.mark.parametrize("name", KERNELS)
def test_pointers_in_arrays_structures_and_bytes_are_followed(name: str, made: str) -> None:
    elements = {"Item": "i8", "Three": "i8", "int": "i4"}
    given = [p.split() for p in KERNELS[name].split(", ")]
    arguments = [np.zeros(256, elements[type_]) if to[0] == "*" else np.int32(2) for type_, to in given]
    report = wsemu.check(MODULES[made][name], 1, 64, tuple(arguments))
    is_left = any("is left in memory" in note for note in report.notes)
    if name.startswith("differs"):
        assert (report.verdict, report.reasons) == ("incomplete", ["addresses"]), report
    else:
        assert (report.verdict, is_left) == ("verified", name.startswith("leaves")), report


COPIES = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o, .param .u64 a, .param .u64 b)
{
.reg .b32 %r<19>; .reg .b64 %rd<19>; .reg .pred %p<3>; .reg .b16 %h<3>;
.shared .align 16 .b8 s[64]; .shared .align 16 .b8 t[64]; .shared .align 8 .b64 bar; .local .align 16 .b8 l[64];
ld.param.u64 %rd1, [o]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];
cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2; cvta.to.global.u64 %rd3, %rd3;
mov.u64 %rd9, 0; mov.u32 %r1, 0; mov.u32 %r9, s; mov.u32 %r8, bar;
mov.u32 %r12, %cluster_ctarank;
OTHER
mapa.shared::cluster.u32 %r10, %r9, %r12; mapa.shared::cluster.u32 %r11, %r8, %r12;
st.shared.v2.u64 [s], {%rd9, %rd9};
mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
MEET MAKE;
BODY
MEET ret;
}
"""
PUT = "st.shared.u64 [s], %rd4; fence.proxy.async;"
PUT_OUT = "st.global.v2.u64 [%rd3], {%rd4, %rd9}; fence.proxy.async;"
GET = "st.global.u64 [%rd1], %rd5;"
DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
BULK = "mbarrier::complete_tx::bytes"


def _awaited(size: int, copy: str) -> str:
    return f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size}; {copy}
        W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;"""


def _loaded(size: int, copy: str) -> str:
    return f"{_awaited(size, copy)} ld.shared.u64 %rd5, [t]; {GET}"


MOVES = {
    "bulk store": f"{PUT} cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 16; {DONE}",
    "bulk load": PUT_OUT + _loaded(16, f"cp.async.bulk.shared::cluster.global.{BULK} [t], [%rd3], 16, [bar];"),
    "bulk send": PUT
    + _loaded(
        16,
        f"mov.u32 %r2, t; mapa.shared::cluster.u32 %r2, %r2, %r12; "
        f"cp.async.bulk.shared::cluster.shared::cta.{BULK} [%r2], [s], 16, [%r11];",
    ),
    "multicast": PUT_OUT
    + _loaded(
        16,
        f"mov.u16 %h1, 1; cp.async.bulk.shared::cluster.global.{BULK}.multicast::cluster [t], [%rd3], 16, [bar], %h1;",
    ),
    "16 bytes": f"{PUT_OUT} cp.async.cg.shared.global [t], [%rd3], 16; cp.async.wait_all;"
    f"ld.shared.u64 %rd5, [t]; {GET}",
    "8 bytes": f"{PUT_OUT} cp.async.ca.shared.global [t+8], [%rd3], 8; cp.async.wait_all;"
    f"ld.shared.u64 %rd5, [t+8]; {GET}",
    "by an agent": _awaited(8, f"st.async.shared::cluster.{BULK}.b64 [%r10+8], %rd4, [%r11];")
    + f"ld.shared.u64 %rd5, [s+8]; {GET}",
    "a vector by an agent": _awaited(16, f"st.async.shared::cluster.{BULK}.v2.b64 [%r10], {{%rd9, %rd4}}, [%r11];")
    + f"ld.shared.u64 %rd5, [s+8]; {GET}",
    "remote store": f"st.shared::cluster.u64 [%r10], %rd4; ld.shared.u64 %rd5, [s]; {GET}",
    "remote load": f"{PUT} ld.shared::cluster.u64 %rd5, [%r10]; {GET}",
    "exchange": f"atom.shared.exch.b64 %rd6, [s], %rd4; ld.shared.u64 %rd5, [s]; {GET}",
    "what was exchanged": f"{PUT} atom.shared.exch.b64 %rd5, [s], 0; {GET}",
    "compare and swap": f"atom.shared.cas.b64 %rd6, [s], 0, %rd4; ld.shared.u64 %rd5, [s]; {GET}",
    "vectors": "st.shared.v2.u64 [t], {%rd4, %rd4}; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [t];"
    f"st.shared.v4.u32 [s], {{%r4, %r5, %r6, %r7}}; ld.shared.u64 %rd5, [s+8]; {GET}",
    "halves": f"mov.b64 {{%r5, %r6}}, %rd4; st.shared.u32 [s], %r5; st.shared.u32 [s+4], %r6;"
    f"ld.shared.u64 %rd5, [s]; {GET}",
    "lanes": "mov.b64 {%r5, %r6}, %rd4; shfl.sync.idx.b32 %r5, %r5, 0, 31, 1; shfl.sync.idx.b32 %r6, %r6, 0, 31, 1;"
    f"mov.b64 %rd5, {{%r5, %r6}}; {GET}",
    "local memory": "st.local.u64 [l+8], %rd4; cvt.u64.u32 %rd7, %r1; mov.u64 %rd8, l; mad.lo.u64 %rd8, %rd7, 8, %rd8;"
    f"ld.local.u64 %rd5, [%rd8+8]; {GET}",
    "a generic address": f"mov.u64 %rd8, s; cvta.shared.u64 %rd8, %rd8; st.u64 [%rd8+8], %rd4;"
    f"ld.shared.u64 %rd5, [s+8]; {GET}",
}
CHANGES = {
    "bulk reduction": f"{PUT} cp.reduce.async.bulk.global.shared::cta.bulk_group.or.b64 [%rd1], [s], 16; {DONE}",
    "reduction by an agent": _awaited(8, f"red.async.relaxed.cluster.shared::cluster.{BULK}.add.u64 [%r10],"
    " %rd4, [%r11];")
    + f"ld.shared.u64 %rd5, [s]; {GET}",
    "4 bytes": f"{PUT_OUT} cp.async.ca.shared.global [t], [%rd3], 4; cp.async.wait_all; ld.shared.u32 %r5, [t];"
    "st.global.u32 [%rd1], %r5;",
    "sum": f"atom.shared.add.u64 %rd6, [s], %rd4; ld.shared.u64 %rd5, [s]; {GET}",
    "one byte": "st.shared.u64 [t], %rd4; ld.shared.u8 %h1, [t+3]; st.shared.u8 [s+3], %h1;"
    f"ld.shared.u64 %rd5, [s]; {GET}",
    "two bytes": "st.shared.u64 [t], %rd4; ld.shared.u16 %h1, [t+2]; st.global.u16 [%rd1], %h1;",
}  # fmt: skip


OTHER = "xor.b32 %r12, %r12, 1; mov.u32 %r13, %ctaid.x; mad.wide.u32 %rd1, %r13, 8, %rd1;"
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def _checked(body: str, make: str) -> Report:
    """Run a move, by a CTA for itself or by each of two for the other one."""
    to_other = "%r11" in body
    text = COPIES.replace("OTHER", OTHER if to_other else "").replace("MEET", MEET if to_other else "")
    kernel = wsemu.load_ptx(text.replace("MAKE", make).replace("BODY", body)).only()
    arrays = tuple(np.zeros(64, "u8") for _ in range(3))
    return wsemu.check(kernel, 1 + to_other, 1, arrays, cluster=2 if to_other else None)


@pytest.mark.parametrize("move", MOVES)
def test_an_address_is_one_wherever_it_is_moved(move: str) -> None:
    whole = _checked(MOVES[move], "mov.u64 %rd4, %rd2")
    assert whole.verdict == "verified", whole
    assert "is left in memory" in repr(whole.notes), whole
    number = _checked(MOVES[move], "shr.u64 %rd4, %rd2, 9")
    assert (number.verdict, number.reasons) == ("incomplete", ["addresses"]), number


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_made_of_an_address_on_the_way_is_a_number(change: str) -> None:
    report = _checked(CHANGES[change], "mov.u64 %rd4, %rd2")
    assert (report.verdict, report.reasons) == ("incomplete", ["addresses"]), report


def test_strides_of_nested_loops_take_time_in_proportion_to_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    follow = Multiples._run

    def counted(self: Multiples, start: int, block: Block) -> Iterable[tuple[int, int]]:
        runs.append(start)
        return follow(self, start, block)

    monkeypatch.setattr(Multiples, "_run", counted)
    counts = []
    for depth in (20, 40):
        head = "".join(f"mov.u32 %r{d}, 0;\nL{d}: add.u32 %r99, %r99, 1;\n" for d in range(depth))
        tail = "".join(
            f"add.u32 %r{d}, %r{d}, 1; setp.lt.u32 %p1, %r{d}, 1; @%p1 bra L{d};\n" for d in reversed(range(depth))
        )
        text = f"""{COPIES.partition("{")[0]}{{
            .reg .b32 %r<100>; .reg .b64 %rd<3>; .reg .pred %p<3>;
            ld.param.u64 %rd1, [o]; mov.u32 %r99, 0; {head} {tail} st.global.u32 [%rd1], %r99; ret; }}"""
        runs.clear()
        arrays = tuple(np.zeros(64, "u8") for _ in range(3))
        assert wsemu.check(wsemu.load_ptx(text).only(), 1, 1, arrays).verdict == "verified"
        counts.append(len(runs))
    assert counts[1] < 2.5 * counts[0]


DYNAMIC = """
.version 8.6
.target sm_90a
.address_size 64
STATIC
.extern .shared .align 16 .b8 room[];
.visible .entry k(.param .u64 o, .param .u64 a, .param .u32 n, .param .align 64 .b8 m[128])
{
.reg .b32 %r<19>; .reg .b64 %rd<19>; .reg .pred %p<3>;
ld.param.u64 %rd1, [o]; ld.param.u64 %rd2, [a]; ld.param.u32 %r4, [n];
mov.u32 %r0, %tid.x; mov.u32 %r9, room; shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r9;
st.shared.u32 [%r1], %r0;
setp.ne.u32 %p1, %r0, 0;
@!%p1 st.shared.u64 [room+1008], %rd2;
fence.proxy.async.shared::cta;
bar.sync 0;
BODY
ret;
}
"""
"""Threads store numbers in dynamic shared memory, and the first one an address."""
READ = "ld.shared.u64 %rd3, [room+1008]; st.global.u32 [%rd3], 1;"
ROUNDED = "add.u32 %r1, %r9, 1023; and.b32 %r1, %r1, -1024; ld.shared.u32 %r2, [%r1]; st.global.u32 [%rd1], %r2;"
TILES = """@%p1 ret; and.b32 %r1, %r4, 1; shl.b32 %r1, %r1, 9; add.u32 %r1, %r1, %r9; mov.u32 %r5, 0; mov.u64 %rd4, m;
add.u32 %r6, %r9, 3072; mbarrier.init.shared::cta.b64 [%r6], 1; fence.proxy.async.shared::cta;
cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd4, {%r5}], [%r1]; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 64; add.u32 %r7, %r9, 2048;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%rd4, {%r5}], [%r6];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0; @!%p2 bra W;
ld.shared.u32 %r2, [%r7]; setp.eq.u32 %p2, %r2, 99; @%p2 trap;"""


def _in_dynamic(body: str, *, static: int = 0) -> Report:
    declared = f".shared .align 16 .b8 before[{static}];" if static else ""
    used = "st.shared.u32 [before], 1;" if static else ""
    text = DYNAMIC.replace("STATIC", declared).replace("BODY", used + body)
    tile = wsemu.TensorMap(np.zeros(64, np.uint32), [16])
    arrays = (np.zeros(64, "u8"), np.zeros(64, "u8"), np.int32(0), tile)
    return wsemu.check(wsemu.load_ptx(text).only(), 1, 64, arrays, dynamic_shared=4096)


@pytest.mark.parametrize("static", [0, 16])
def test_words_of_dynamic_shared_memory_are_no_address_that_is_stored_beside_them(static: int) -> None:
    number = "ld.shared.u32 %r2, [%r1]; setp.gt.u32 %p2, %r2, 99; @%p2 trap;"
    report = _in_dynamic(f"{number} @%p1 ret; {READ}", static=static)
    assert report.verdict == "verified", report
    half = "add.u32 %r1, %r1, 1008; @%p1 ret; ld.shared.u32 %r2, [%r1]; setp.eq.u32 %p2, %r2, 99; @%p2 trap;"
    report = _in_dynamic(f"{half} {READ}", static=static)
    assert (report.verdict, report.reasons) == ("incomplete", ["addresses"]), report


@pytest.mark.parametrize(("static", "holds"), [(0, True), (16, False)])
def test_rounding_an_address_in_dynamic_shared_memory_counts_from_the_first_variable(static: int, holds: bool) -> None:
    report = _in_dynamic(f"@%p1 ret; {ROUNDED} {READ}", static=static)
    expected = ("verified", []) if holds else ("incomplete", ["addresses"])
    assert (report.verdict, report.reasons) == expected, report


def test_a_copy_whose_place_in_dynamic_shared_memory_is_computed_may_read_an_address() -> None:
    report = _in_dynamic(f"{TILES} {READ}")
    assert (report.verdict, report.reasons) == ("incomplete", ["addresses"]), report


AT_NUMBERS = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o)
{
.reg .b32 %r<3>; .reg .b64 %rd<2>;
.shared .align 16 .b8 s[64];
ld.param.u64 %rd1, [o]; mov.u32 %r1, 0; mov.u32 %r2, s; sub.u32 %r2, %r2, %r2;
st.shared.u64 [s+16], %rd1;
ld.shared.u32 %r2, [ADDRESS]; st.global.u32 [%rd1], %r2;
ret;
}
"""


def test_half_of_a_stored_address_may_be_read_at_a_part_of_another_one() -> None:
    text = AT_NUMBERS.replace("ADDRESS", "%r2+16").replace("shared", "local")
    kernel = wsemu.load_ptx(text.replace("sub.u32 %r2, %r2, %r2", "shr.u32 %r2, %r2, 31")).only()
    report = wsemu.check(kernel, 1, 1, (np.zeros(8, np.uint32),))
    assert (report.verdict, report.reasons) == ("incomplete", ["addresses"]), report


@pytest.mark.parametrize("space", ["shared", "local"])
@pytest.mark.parametrize("address", ["%r1+16", "%r2+16", "16"])
def test_a_number_is_no_address_of_a_variable(address: str, space: str) -> None:
    kernel = wsemu.load_ptx(AT_NUMBERS.replace("ADDRESS", address).replace("shared", space)).only()
    report = wsemu.check(kernel, 1, 1, (np.zeros(8, np.uint32),))
    assert (report.verdict, [finding.code for finding in report.errors]) == ("failed", ["out-of-bounds"])


SLOT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o)
{
.reg .b16 %h; .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p<3>;
.shared .align 16 .b32 pad[16]; .shared .align 16 .b32 data[64]; .shared .align 16 .b32 slot[4];
ld.param.u64 %rd1, [o]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r1, data;
setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 33; @%p1 st.shared.u32 [data], 7; @%p1 st.shared.u32 [pad], 1;
BODY
bar.sync 0;
ld.shared.u32 %r3, [slot]; ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd1], %r4;
ret;
}
"""
"""A word of shared memory is used as an address there; `data` is at 64."""
_STORED = "@%p1 st.shared.u32 [slot], 64; {} @%p2 st.shared.u32 [slot], %r1;"
ADDRESSES_LATER = {
    "after a barrier": _STORED.format("bar.sync 0;"),
    "another number after the number": "@%p2 st.shared.u32 [slot], -1; bar.sync 0;" + _STORED.format("bar.sync 0;"),
}
NUMBERS_LATER = {
    "at the same time": _STORED.format(""),
    "the number last": "@%p2 st.shared.u32 [slot], %r1; bar.sync 0; @%p1 st.shared.u32 [slot], 64;",
    "only the lower half of an address": (
        "@%p1 st.shared.u32 [slot], 64; bar.sync 0; cvt.u16.u32 %h, %r1; @%p2 st.shared.u16 [slot], %h;"
    ),
    "atomics": _STORED.format("").replace("st.shared.u32 [slot]", "atom.shared.exch.b32 %r2, [slot]"),
    "strong stores": _STORED.format("").replace("st.shared", "st.relaxed.cta.shared"),
}


@pytest.mark.parametrize("body", ADDRESSES_LATER.values(), ids=ADDRESSES_LATER)
def test_an_address_may_be_stored_where_a_number_was(body: str) -> None:
    report = wsemu.check(wsemu.load_ptx(SLOT.replace("BODY", body)).only(), 1, 64, (np.zeros(64, np.uint32),))
    assert report.verdict == "verified", report


@pytest.mark.parametrize("body", NUMBERS_LATER.values(), ids=NUMBERS_LATER)
def test_a_load_that_may_return_a_number_gives_no_address(body: str) -> None:
    report = wsemu.check(wsemu.load_ptx(SLOT.replace("BODY", body)).only(), 1, 64, (np.zeros(64, np.uint32),))
    assert (report.verdict, report.reasons) == ("incomplete", ["addresses"]), report
