"""Asynchronous instructions of PTX to bytecode: mbarriers, copies and their groups, hints, registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.frontend.ptx import compile_entry, parse
from wsemu.model.isa import (
    BLOCKS,
    BULK_REDUCTIONS,
    CLUSTER_ALIGNED,
    FIELDS,
    GRID_TRIGGER,
    GRID_WAIT,
    NAMES,
    NARROW,
    OPERATIONS,
    PEEK,
    PROXIES,
    RELAXED,
    REMOTE,
    SEGMENT_SHIFT,
    SHARED,
    UNSCOPED,
)
from wsemu.model.program import UNDEFINED, Program

FOLDER = Path(__file__).parents[1] / "ptx"
TEXT = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n, .param .u64 wide)
{directives}
{{
.reg .pred %p<5>; .reg .b16 %h<5>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar[4];
ld.param.u64 %rd1, [out]; ld.param.u32 %r4, [n]; ld.param.u64 %rd6, [wide];
mov.u32 %r3, tile; mov.u32 %r7, bar; mov.u64 %rd7, bar; cvta.shared.u64 %rd5, %rd7;
setp.eq.u32 %p1, %r4, 48; cvt.u16.u32 %h1, %r4;
{body}
ret;
}}
"""
N, WIDE, OUT, TILE = 48, 0x1234_0000_0007, 3 << SEGMENT_SHIFT, SHARED << SEGMENT_SHIFT
BAR = TILE + 1024
IN_TWO_REGISTERS = ("bulk.load", "bulk.store")
"""what has a register in the place of an offset"""
PURE: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "cvt": lambda a: a,
    "mov": lambda a: a,
    "not": lambda a: not a,
    "setp": lambda a, b: a == b,
    "index": lambda at, size, step, base: base + step * at,
    "min": min,
    "sub": lambda a, b: a - b,
    "selp": lambda a, b, c: a if c else b,
}


def compiled(body: str, directives: str = "", target: str = "sm_100a") -> Program:
    module = parse(TEXT.format(body=body, directives=directives, target=target), "k.ptx")
    return compile_entry(module, module.entries["k"], ("address", "value", "value"))


def lowered(body: str) -> list[tuple[Any, ...]]:
    """Operations with an effect that the instructions become: (name, values of their operands..., aux).  The offset is
    added to the address, or stands alone where there are no operands."""
    program = compiled(body)
    assert program.traps == []
    rows: dict[int, Any] = {0: True, **{c.row: c.value for c in program.constants}}
    rows |= {p.row: (OUT, N, WIDE)[p.argument] for p in program.parameters}
    rows |= {row: TILE if name == "shared" else name for name, row in program.specials.items()}
    found = []
    for row in program.code.tolist():
        fields = dict(zip(FIELDS, row, strict=True))
        name = NAMES[fields["op"]]
        operation = OPERATIONS[name]
        sources = [fields[field] for field in ("a", "b", "c", "imm")[: len(operation.operands)]]
        if operation.kind == "alu":
            bits = 1 if operation.result == "p" else int(operation.result[1:])
            values = [rows[source] for source in sources]
            if any(isinstance(value, str) for value in values):
                rows[fields["d"]] = f"{values[0]} == {values[1]}"
            else:
                rows[fields["d"]] = int(PURE[name.split(".")[0]](*values)) & ((1 << bits) - 1)
        elif operation.kind not in ("control", "barrier"):
            if operation.kind == "warp":
                sources = [fields["c"]]
            values = [rows[source] for source in sources]
            if not values:
                values = [fields["imm"]]
            elif name not in IN_TWO_REGISTERS:
                values[0] += fields["imm"]
            found.append((name, *values, fields["aux"]))
            rows[fields["d"]] = name
    return found


FORMS: dict[str, list[tuple[Any, ...]]] = {
    # life
    "mbarrier.init.shared::cta.b64 [%r7], 5;": [("mbarrier.init", BAR, 5, 0)],
    "mbarrier.init.shared.b64 [bar+8], %r4;": [("mbarrier.init", BAR + 8, N, 0)],
    "mbarrier.init.b64 [%rd5+16], 1;": [("mbarrier.init", BAR + 16, 1, 0)],
    "mbarrier.init.shared.b64 [%rd7], 1;": [("mbarrier.init", BAR, 1, 0)],
    "mbarrier.inval.b64 [%rd5];": [("mbarrier.inval", BAR, 0)],
    "mbarrier.inval.shared.b64 [%r7+8];": [("mbarrier.inval", BAR + 8, 0)],
    # arrivals
    "mbarrier.arrive.b64 %rd2, [%rd5];": [("mbarrier.arrive", BAR, 1, 0, 0)],
    "mbarrier.arrive.shared.b64 _, [%r7];": [("mbarrier.arrive", BAR, 1, 0, 0)],
    "mbarrier.arrive.shared::cluster.b64 _, [%r7], %r4;": [("mbarrier.arrive", BAR, N, 0, REMOTE | UNSCOPED)],
    "mbarrier.arrive.release.cluster.shared::cta.b64 %rd2, [%r7], 3;": [("mbarrier.arrive", BAR, 3, 0, 0)],
    "mbarrier.arrive.shared::cta.release.cta.b64 %rd2, [%r7];": [("mbarrier.arrive", BAR, 1, 0, NARROW)],
    "mbarrier.arrive.relaxed.cta.b64 %rd2, [%rd5], 4;": [("mbarrier.arrive", BAR, 4, 0, 1 | NARROW)],
    "mbarrier.arrive.noComplete.shared.b64 %rd2, [%r7], 2;": [("mbarrier.arrive", BAR, 2, 0, 2)],
    "mbarrier.arrive.noComplete.release.cta.b64 _, [%rd5], 2;": [
        ("mbarrier.arrive", BAR, 2, 0, 2 | NARROW | REMOTE)
    ],
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], %r4;": [("mbarrier.arrive", BAR, 1, N, 8)],
    "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r7], 64;": [
        ("mbarrier.arrive", BAR, 1, 64, 8 | REMOTE)
    ],
    "mbarrier.arrive.expect_tx.relaxed.cluster.b64 %rd2, [%rd5], 64;": [("mbarrier.arrive", BAR, 1, 64, 9)],
    "mbarrier.arrive_drop.shared.b64 _, [%r7];": [("mbarrier.arrive", BAR, 1, 0, 4)],
    "mbarrier.arrive_drop.shared::cta.release.cluster.b64 _, [%r7], %r4;": [("mbarrier.arrive", BAR, N, 0, 4)],
    "mbarrier.arrive_drop.noComplete.shared.b64 _, [%r7], 2;": [("mbarrier.arrive", BAR, 2, 0, 6)],
    "mbarrier.arrive_drop.expect_tx.shared::cta.relaxed.cluster.b64 %rd2, [%r7], 16;": [
        ("mbarrier.arrive", BAR, 1, 16, 13)
    ],
    # bytes
    "mbarrier.expect_tx.b64 [%rd5], 32;": [("mbarrier.expect_tx", BAR, 32, REMOTE)],
    "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r7], %r4;": [("mbarrier.expect_tx", BAR, N, 0)],
    "mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%r7], 16;": [("mbarrier.complete_tx", BAR, 16, REMOTE)],
    # waits, whose answer nobody looks at
    "mbarrier.test_wait.shared.b64 %p2, [%r7], %rd6;": [("mbarrier.wait", BAR, WIDE, PEEK)],
    "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r7], 1;": [
        ("mbarrier.wait.parity", BAR, 1, NARROW | PEEK)
    ],
    "mbarrier.test_wait.parity.shared.relaxed.cluster.b64 %p2, [%r7], 1;": [("mbarrier.wait.parity", BAR, 1, 2 | PEEK)],
    "mbarrier.try_wait.acquire.cluster.b64 %p2, [%rd5], %rd6;": [("mbarrier.wait", BAR, WIDE, 1 | PEEK)],
    "mbarrier.try_wait.b64 %p2, [%rd5], %rd6, %r4;": [("mbarrier.wait", BAR, WIDE, 1 | PEEK)],
    "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r4, 0x989680;": [("mbarrier.wait.parity", BAR, N, 1 | PEEK)],
    "mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p2, [bar], 0;": [
        ("mbarrier.wait.parity", BAR, 0, 3 | NARROW | PEEK)
    ],
    "mbarrier.pending_count.b64 %r5, %rd6;": [("mbarrier.pending_count", WIDE, 0)],
    # copies of a thread
    "cp.async.ca.shared.global [%r3], [%rd1], 4;": [("cp.async.b32", TILE, OUT, 4, 0)],
    "cp.async.ca.shared::cta.global [tile+24], [%rd1+8], 8;": [("cp.async.b64", TILE + 24, OUT + 8, 8, 0)],
    "cp.async.cg.shared.global [%r3+16], [%rd1+-16], 0x10;": [("cp.async.b128", TILE + 16, OUT - 16, 16, 0)],
    "cp.async.cg.shared.global.L2::128B [%r3], [%rd1], 16, %r4;": [("cp.async.b128", TILE, OUT, N, 0)],
    "cp.async.ca.shared.global [%r3], [%rd1], 4, 2;": [("cp.async.b32", TILE, OUT, 2, 0)],
    "cp.async.ca.shared.global [%r3], [%rd1], 4, %p1;": [("cp.async.b32", TILE, OUT, 0, 0)],
    "cp.async.ca.shared.global [%r3], [%rd1], 8, !%p1;": [("cp.async.b64", TILE, OUT, 8, 0)],
    "cp.async.cg.shared.global.L2::cache_hint.L2::256B [%r3], [%rd1], 16, %p1, %rd6;": [
        ("cp.async.b128", TILE, OUT, 0, 0)
    ],
    "cp.async.ca.shared.global.L2::64B.L2::cache_hint [%r3], [%rd1], 4, %rd6;": [("cp.async.b32", TILE, OUT, 4, 0)],
    "cp.async.commit_group;": [("cp.async.commit", 0, 0)],
    "cp.async.wait_group 3;": [("cp.async.wait", 3, 0)],
    "cp.async.wait_all;": [("cp.async.wait", 0, 1)],
    "cp.async.mbarrier.arrive.shared.b64 [%r7];": [("cp.async.arrive", BAR, 0)],
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r7+8];": [("cp.async.arrive", BAR + 8, 1)],
    "cp.async.mbarrier.arrive.noinc.b64 [%rd5];": [("cp.async.arrive", BAR, 1)],
    "cp.async.mbarrier.arrive.noinc.b64 [%r7+8];": [("cp.async.arrive", BAR + 8, 1)],
    "cp.async.mbarrier.arrive.b64 [bar+8];": [("cp.async.arrive", BAR + 8, 0)],
    # bulk copies
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3+32], [%rd1+16], %r4, [%r7+8];": [
        ("bulk.load", TILE + 32, OUT + 16, N, BAR + 8, 1)
    ],
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [%rd1], 64, [bar], %rd6;":
    [("bulk.load", TILE, OUT, 64, BAR, 0)],
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 64;": [("bulk.store", OUT, TILE, 64, 0xFFFF, 0)],
    "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask [%rd1], [%r3], 64, %rd6, %h1;": [
        ("bulk.store", OUT, TILE, 64, N, 0)
    ],
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1+16], [tile+16], 64, 5;": [
        ("bulk.store", OUT + 16, TILE + 16, 64, 5, 0)
    ],
    "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1+16], %r4, %rd6;": [("bulk.prefetch", OUT + 16, N, 0)],
    "cp.async.bulk.commit_group;": [("bulk.commit", 0, 0)],
    "cp.async.bulk.wait_group 1;": [("bulk.wait", 1, 0)],
    "cp.async.bulk.wait_group.read 0;": [("bulk.wait", 0, 1)],
    "st.bulk.weak.shared::cta [%r3], 1024, 0;": [("bulk.zero", TILE, 1024, 0)],
    "st.bulk [%rd5], %rd6, 0;": [("bulk.zero", BAR, WIDE & 0xFFFFFFFF, 0)],
    # fences, lanes, registers
    "fence.mbarrier_init.release.cluster;": [("fence.mbarrier_init", 0, 0)],
    "fence.proxy.async.shared::cta;": [("fence.proxy", PROXIES.index("async.shared::cta"), 0)],
    "elect.sync %r5|%p2, %r4;": [("elect.sync", N, 0)],
    "setmaxnreg.inc.sync.aligned.u32 232;": [("setmaxnreg.inc", 232, 0)],
    "setmaxnreg.dec.sync.aligned.u32 40;": [("setmaxnreg.dec", 40, 0)],
    "griddepcontrol.wait;": [("show", 0, GRID_WAIT)],
    "griddepcontrol.launch_dependents;": [("show", 0, GRID_TRIGGER)],
}  # fmt: skip
NOTHING = """
prefetch.global.L1 [%rd1];
prefetch.local.L2 [%rd1];
prefetch.L2::evict_normal [%rd1];
prefetch.const.tensormap [%rd1];
prefetch.tensormap [%rd1];
prefetchu.L1 [%rd1];
createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd2, 0.5;
createpolicy.fractional.L2::evict_first.b64 %rd2;
createpolicy.cvt.L2.b64 %rd2, %rd6;
pmevent 3;
""".strip().splitlines()


@pytest.mark.parametrize("instruction", FORMS)
def test_an_instruction_becomes(instruction: str) -> None:
    assert lowered(instruction) == FORMS[instruction]


@pytest.mark.parametrize("instruction", NOTHING)
def test_a_hint_becomes_nothing(instruction: str) -> None:
    assert lowered(instruction) == []


@pytest.mark.parametrize(("what", "type_"), BULK_REDUCTIONS)
def test_a_bulk_reduction_of_every_type(what: str, type_: str) -> None:
    noftz = ".noftz" if what == "add" and type_ in ("f16", "bf16") else ""
    start = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
    for modifiers, policy in ((f".{what}{noftz}", ""), (f".L2::cache_hint.{what}{noftz}", ", %rd6")):
        text = f"{start}{modifiers}.{type_} [%rd1], [%r3], 64{policy};"
        if (what, type_) == ("add", "s64"):  # PTX has it as u64
            assert refusal(text).startswith(f"`{start}")
        else:
            assert lowered(text) == [("bulk.reduce", OUT, TILE, 64, BULK_REDUCTIONS.index((what, type_)))]


def test_the_results_of_an_arrival_of_a_wait_and_of_an_election() -> None:
    body = """
    mbarrier.arrive.shared.b64 %rd2, [%r7];
    mbarrier.try_wait.shared.b64 %p2, [%r7], %rd2;
    elect.sync _|%p3, -1;
    @%p2 cp.async.bulk.commit_group;
    @%p3 cp.async.bulk.commit_group;
    """
    assert lowered(body)[1] == ("mbarrier.wait", BAR, "mbarrier.arrive", 1)
    program = compiled(body)
    rows = {NAMES[row[0]]: row for row in program.code.tolist()}
    guards = [row[1] // 2 for row in program.code.tolist() if NAMES[row[0]] == "bulk.commit"]
    assert guards == [rows["mbarrier.wait"][2], rows["setp.eq.b32"][2]]
    assert {rows["elect.sync"][2], program.specials["laneid"]} == set(rows["setp.eq.b32"][3:5])


def test_an_instruction_under_a_guard_keeps_it() -> None:
    code = compiled("@!%p1 mbarrier.arrive.shared.b64 _, [%r7];").code.tolist()
    compared, arrived = (
        next(row for row in code if NAMES[row[0]] == name) for name in ("setp.eq.b32", "mbarrier.arrive")
    )
    assert arrived[1] == 2 * compared[2] + 1


WAIT = "mbarrier.try_wait.parity.shared::cta.b64"
LOOPS = {
    "cutlass": f"""{{ .reg .pred P1; LAB_WAIT: {WAIT} P1, [%r7], %r4, 0x989680; @P1 bra DONE; bra LAB_WAIT; DONE: }}""",
    "uni": f"""{{ .reg .pred P1; LAB_WAIT: {WAIT} P1, [%r7], %r4; @P1 bra.uni DONE; bra.uni LAB_WAIT; DONE: }}""",
    "triton": f"""{{ @!%p1 bra.uni skipWait; .reg .pred complete; waitLoop: {WAIT} complete, [%r7], %r4;
        @!complete bra.uni waitLoop; skipWait: }}""",
    "triton for sm_80": """{ .reg .pred complete; waitLoop: mbarrier.test_wait.parity.shared.b64 complete, [%r7], %r4;
        @!complete nanosleep.u32 20; @!complete bra.uni waitLoop; }""",
    "a generic address": """{ .reg .pred p; .reg .b64 bar64; cvt.u64.u32 bar64, %r7; cvta.shared.u64 bar64, bar64;
        waitLoop: mbarrier.try_wait.parity.acquire.cluster.b64 p, [bar64], %r4; @!p bra.uni waitLoop; }""",
    "a sleep before the next try": """{ .reg .pred P1; again: mbarrier.test_wait.shared.b64 P1, [%r7], %rd6;
        @P1 bra.uni DONE; nanosleep.u32 5; bra.uni again; DONE: }""",
    "a number": f"""again: {{ .reg .pred p; {WAIT} p, [%r7], %r4; selp.u32 %r9, 1, 0, p; }}
        setp.eq.s32 %p2, %r9, 0; @%p2 bra again;""",
    "a try under a predicate": """{ .reg .pred P1; .reg .pred P2; mov.u32 %r9, 1; again: setp.eq.u32 P2, %r9, 1;
        @P2 mbarrier.test_wait.parity.shared::cta.b64 P1, [%r7], %r4; @!P1 bra again; }""",
}


@pytest.mark.parametrize("spelling", LOOPS)
def test_a_wait_that_is_tried_until_it_holds_blocks(spelling: str) -> None:
    code = compiled(LOOPS[spelling] + "st.shared.u32 [%r3], 1;").code.tolist()
    (wait,) = (row for row in code if NAMES[row[0]].startswith("mbarrier.wait"))
    assert wait[7] & (BLOCKS | PEEK) == BLOCKS


LOOP = """
{
.reg .pred P1;
LAB_WAIT:
mbarrier.try_wait.parity.shared::cta.b64 P1, [%r7], PHASE, 0x989680;
@P1 bra DONE;
bra     LAB_WAIT;
DONE:
}
"""


def test_labels_and_predicates_belong_to_their_scope() -> None:
    code = compiled(LOOP.replace("PHASE", "0") + LOOP.replace("PHASE", "1") + "st.shared.u32 [%r3], 1;").code.tolist()
    waits = [pc for pc, row in enumerate(code) if NAMES[row[0]] == "mbarrier.wait.parity"]
    branches = [(pc, row) for pc, row in enumerate(code) if NAMES[row[0]] == "bra"]
    assert len(waits) == len(branches) == 2
    for wait, (pc, row) in zip(waits, branches, strict=True):
        assert pc == wait + 1
        assert row[1] == 2 * code[wait][2] + 1
        assert row[6] in (wait - 1, wait - 2)  # the loop's head, past nothing but the address
    assert branches[0][1][6] < waits[0] < branches[1][1][6] <= waits[1]


def test_addresses_in_a_cluster_are_moved_by_windows() -> None:
    body = "mapa.shared::cluster.u32 %r9, %r7, %r4; mapa.u64 %rd8, %rd5, 1; getctarank.u64 %r10, %rd8;"
    program = compiled(body + "mbarrier.arrive.shared::cluster.b64 _, [%r9], %r10; st.u32 [%rd8], %r4;")
    assert "window" in program.specials
    assert all(trap.startswith(UNDEFINED) for trap in program.traps)


def test_values_and_copies_that_go_to_other_ctas() -> None:
    assert [
        row[0]
        for row in lowered("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r3], {%r4, %r4}, [%r7];")
    ] == (["async.store.b32"] * 2)
    assert lowered("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire;") == [
        ("cluster.arrive", 0, RELAXED | CLUSTER_ALIGNED), ("cluster.wait", 0, 0),
    ]  # fmt: skip


REFUSED = """
mbarrier.arrive.release.shared.b64 _, [%r7];
mbarrier.arrive.cta.shared.b64 _, [%r7];
mbarrier.arrive.acquire.cta.shared.b64 _, [%r7];
mbarrier.arrive.release.gpu.shared.b64 _, [%r7];
mbarrier.arrive.shared::cluster.b64 %rd2, [%r7];
mbarrier.arrive.noComplete.shared.b64 %rd2, [%r7];
mbarrier.arrive.noComplete.relaxed.cta.shared.b64 %rd2, [%r7], 1;
mbarrier.arrive.noComplete.shared::cluster.b64 _, [%r7], 1;
mbarrier.arrive.expect_tx.noComplete.shared.b64 _, [%r7], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [%r7];
mbarrier.arrive.shared.shared.b64 _, [%r7];
mbarrier.arrive.shared.b32 _, [%r7];
mbarrier.arrive.report.shared.b64 _, [%r7];
mbarrier.expect_tx.release.cta.shared.b64 [%r7], 1;
mbarrier.init.shared::cluster.b64 [%r7], 1;
mbarrier.init.shared [%r7], 1;
mbarrier.inval.shared::cluster.b64 [%r7];
mbarrier.test_wait.shared::cluster.b64 %p2, [%r7], %rd6;
mbarrier.test_wait.shared.b64 %p2, [%r7], %rd6, 100;
mbarrier.try_wait.parity.release.cta.shared.b64 %p2, [%r7], 0;
mbarrier.try_wait.parity.shared.b64 _, [%r7], 0;
mbarrier.pending_count.shared.b64 %r5, %rd6;
mbarrier.frobnicate.b64 [%rd5];
cp.async.shared.global [%r3], [%rd1], 16;
cp.async.cg.shared.global [%r3], [%rd1], 8;
cp.async.ca.shared.global [%r3], [%rd1], %r4;
cp.async.ca.shared.global [%r3], [%rd1], 4, %rd6;
cp.async.ca.shared.global [%r3], [%rd1], 4, %r4, %p1;
cp.async.ca.global.shared [%r3], [%rd1], 4;
cp.async.ca.shared::cluster.global [%r3], [%rd1], 4;
cp.async.ca.shared.global.L1::no_allocate [%r3], [%rd1], 4;
cp.async.ca.shared.global.L2::cache_hint [%r3], [%rd1];
cp.async.wait_group %r4;
cp.async.mbarrier.arrive.noinc.shared::cluster.b64 [%r7];
cp.async.bulk.shared.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r7];
cp.async.bulk.shared::cta.global.bulk_group [%r3], [%rd1], 16;
cp.async.bulk.shared::cta.global [%r3], [%rd1], 16, [%r7];
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r3], 16;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16, %h1;
cp.async.bulk.tensor.1d.global.shared::cta [%rd1, {%r4}], [%r3];
cp.async.bulk.tensor.6d.global.shared::cta.bulk_group [%rd1, {%r4}], [%r3];
cp.async.bulk.tensor.2d.global.shared::cta.im2col_no_offs.bulk_group [%rd1, {%r4, %r4}], [%r3];
cp.async.bulk.tensor.3d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {%r4, %r4, %r4, %r4, %r4}], [%r3];
cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes.cta_group::3 [%r3], [%rd1, {%r4}], [%r7];
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather8.mbarrier::complete_tx::bytes [8], [8, {0, 1, 2, 3, 4}], [8];
cp.async.bulk.tensor.3d.global.shared::cta.im2col::w.bulk_group [%rd1, {%r4, %r4, %r4}], [%r3];
cp.reduce.async.bulk.tensor.1d.global.shared::cta.mul.tile.bulk_group [%rd1, {%r4}], [%r3];
tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 5, %r3;
tensormap.replace.tile.elemtype.global.b1024.b32 [%rd1], 13;
cp.async.bulk.wait_group.write 0;
cp.async.bulk.wait_all;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd1], [%r3], 16;
cp.reduce.async.bulk.global.shared::cta.bulk_group.min.noftz.bf16 [%rd1], [%r3], 16;
cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd1], [%r3], 16;
cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.s32 [%rd1], [%r3], 16;
cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s64 [%r3], [%r4], 16, [%r7];
multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16;
mapa.shared.u32 %r5, %r7, 0;
getctarank.u32 %r5, %r7;
st.bulk.shared::cluster [%r3], 64, 0;
st.bulk [%rd5], 64, 1;
fence.mbarrier_init.release.cta;
elect.sync %r5, -1;
elect.sync.frobnicated %r5|%p2, -1;
setmaxnreg.inc.sync.u32 64;
setmaxnreg.inc.sync.aligned.u32 %r4;
griddepcontrol.frobnicate;
prefetch.shared.L1 [%r3];
prefetch.L1::evict_normal [%rd1];
prefetch.global.tensormap [%rd1];
prefetchu.L2 [%rd1];
applypriority.global.L2::evict_last [%rd1], 128;
createpolicy.fractional.L1::evict_first.b64 %rd2;
createpolicy.fractional.L2::evict_last.L2::evict_last.b64 %rd2;
createpolicy.frobnicate.L2.b64 %rd2, %rd6;
discard.global.L2 [%rd1], 128;
""".strip().splitlines()


def refusal(instruction: str) -> str:
    """What the run says where it reaches the instruction."""
    (trap,) = compiled(instruction).traps
    return trap


@pytest.mark.parametrize("instruction", REFUSED)
def test_what_is_not_known_is_refused_by_name(instruction: str) -> None:
    name = instruction.split()[0].removesuffix(";")
    line = TEXT[: TEXT.index("{body}")].count("\n") + 1
    assert re.fullmatch(rf"`{re.escape(name)}`.* is not modelled(; .+)? \(k\.ptx:{line}\)", refusal(instruction))
    code = compiled(instruction).code.tolist()
    assert [NAMES[row[0]] for row in code if OPERATIONS[NAMES[row[0]]].kind == "async"] == []


# -- registers at the launch: as ptxas 13.0 gives them to a kernel with `setmaxnreg`, by eight -------------------------
@pytest.mark.parametrize(
    ("directives", "registers"),
    [
        ("", 0), (".maxntid 384", 0), (".reqntid 384", 0), (".minnctapersm 1", 0), (".maxnreg 128", 128),
        (".maxnreg 100", 104), (".maxnreg 255", 256), (".maxntid 384\n.minnctapersm 1", 168),
        (".reqntid 384\n.minnctapersm 1", 168), (".maxntid 96, 4, 1\n.minnctapersm 1", 168),
        (".maxntid 256\n.minnctapersm 1", 256), (".maxntid 128\n.minnctapersm 4", 128),
        (".maxntid 288\n.minnctapersm 1", 168), (".maxntid 416\n.minnctapersm 1", 128),
        (".maxntid 160\n.minnctapersm 2", 168), (".maxntid 33\n.minnctapersm 7", 128),
        (".maxntid 900\n.minnctapersm 1", 64), (".maxntid 384\n.minnctapersm 2", 80),
        (".maxntid 1024\n.minnctapersm 4", 0), (".maxntid 384\n.minnctapersm 1\n.maxnreg 200", 168),
        (".maxntid 256\n.minnctapersm 1\n.maxnreg 40", 40),
    ],
)  # fmt: skip
def test_registers_at_the_launch(directives: str, registers: int) -> None:
    assert compiled("", directives).registers == registers


@pytest.mark.parametrize(
    ("directives", "body", "registers"),
    [
        (".reqntid 384\n.minnctapersm 1", "inc 232", 168), (".reqntid 256\n.minnctapersm 1", "dec 40 inc 232", 232),
        (".reqntid 384\n.minnctapersm 1", "dec 24 inc 64 inc 96", 96), (".maxnreg 80", "inc 96 inc 64", 80),
        (".maxnreg 168", "dec 24 inc 96", 96), (".maxnreg 128", "dec 24", 128), (".reqntid 384", "inc 96", 0),
    ],
)  # fmt: skip
def test_registers_at_the_launch_are_at_most_those_that_a_warp_requests(
    directives: str, body: str, registers: int
) -> None:
    text = re.sub(r"(inc|dec) (\d+)", r"setmaxnreg.\1.sync.aligned.u32 \2;", body)
    assert compiled(text, directives).registers == registers


# -- runs ------------------------------------------------------------------------------------------------------------
def run(kernel: Any, block: int, arguments: Callable[[], tuple[Any, ...]]) -> tuple[wsemu.Report, Any]:
    """The report of a launch and its first argument; the same from both engines."""
    reports, left = [], []
    for engine in ("vm", "reference"):
        given = arguments()
        reports.append(wsemu.check(kernel, 1, block, given, engine=engine))
        left.append(given[0])
    one, other = (report.model_dump(exclude={"seconds"}) for report in reports)
    assert one == other
    assert left[0].tobytes() == left[1].tobytes()
    return reports[0], left[0]


COPIED = """
mov.u32 %r5, %tid.x; setp.ne.u32 %p2, %r5, 0; @%p2 bra $end;
mbarrier.init.shared.b64 [%r7], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r7], 64;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 64, [%r7];
again: mbarrier.try_wait.parity.shared.b64 %p3, [%r7], 0; @!%p3 bra again;
BACK
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
$end:
"""
"""64 bytes of `out` to shared memory by one thread, and 64 others of it made of them"""


def copied_back(instruction: str, elements: np.ndarray[Any, Any]) -> list[Any]:
    """What is left in the second half of two times 64 bytes."""
    kernel = wsemu.load_ptx(TEXT.format(body=COPIED.replace("BACK", instruction), directives="", target="sm_100a"))["k"]
    report, out = run(kernel, 32, lambda: (elements.copy(), 48, 0))
    assert (report.verdict, report.findings, report.notes[1:]) == ("verified", [], [])
    half = len(elements) // 2
    assert np.array_equal(out[:half], elements[:half])
    return list(out[half:].tolist())


def test_a_bulk_store_of_some_bytes_leaves_the_others() -> None:
    back = copied_back(
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1+64], [%r3], 64, 0x8421;", np.arange(128, dtype="u1")
    )
    assert back == [k if k % 16 in (0, 5, 10, 15) else k + 64 for k in range(64)]


def test_a_fence_makes_zeros_visible_to_the_bulk_store() -> None:
    back = copied_back(
        "st.bulk.weak.shared::cta [%r3+16], 32, 0; fence.proxy.async.shared::cta;"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1+64], [%r3], 64;",
        np.arange(1, 33, dtype="i4"),
    )
    assert back == [1, 2, 3, 4, *[0] * 8, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("what", "dtype", "expected"),
    [
        ("add.u32", "u4", lambda a, b: b + a), ("add.u64", "u8", lambda a, b: b + a), ("min.s64", "i8", np.minimum),
        ("add.noftz.f16", "f2", lambda a, b: b + a), ("max.f16", "f2", np.maximum), ("add.f64", "f8", np.add),
        ("dec.u32", "u4", lambda a, b: np.where((b == 0) | (b > a), a, b - 1)), ("xor.b64", "u8", np.bitwise_xor),
    ],
)  # fmt: skip
def test_a_bulk_reduction_combines_elements(what: str, dtype: str, expected: Callable[..., Any]) -> None:
    elements = np.random.default_rng(1).integers(0, 100, 128 // np.dtype(dtype).itemsize).astype(dtype)
    first, second = np.split(elements, 2)
    back = copied_back(f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{what} [%rd1+64], [%r3], 64;", elements)
    assert back == expected(first, second).astype(dtype).tolist()


def test_what_bulk_reductions_add_up_is_the_same_in_every_order() -> None:
    kernel = wsemu.load_ptx(FOLDER / "bulk.sm_90a.ptx")["sums"]
    report, _ = run(kernel, 64, lambda: (np.arange(64, dtype=np.int32), np.zeros(32, np.int32)))
    assert (report.verdict, report.notes) == ("verified", [])


LAST_ENDS_IT = """
.shared .u32 left; mov.u32 %r8, %tid.x;
setp.ne.u32 %p2, %r8, 0; @%p2 bra $made;
mbarrier.init.shared.b64 [%r7], 64; st.shared.u32 [left], 2;
$made: bar.sync 0;
mbarrier.arrive.shared.b64 %rd8, [%r7];
again: mbarrier.try_wait.shared.b64 %p3, [%r7], %rd8; @!%p3 bra again;
bar.warp.sync -1;
and.b32 %r9, %r8, 31; setp.ne.u32 %p2, %r9, 0; @%p2 bra $end;
FENCE
atom.shared.add.u32 %r10, [left], -1;
FENCE
setp.ne.u32 %p2, %r10, 1; @%p2 bra $end;
mbarrier.inval.shared.b64 [%r7];
$end:
"""


@pytest.mark.parametrize(
    ("fence", "verdict", "codes"), [("fence.sc.cta;", "incomplete", []), ("", "failed", ["mbarrier-lifetime"])]
)
def test_the_last_thread_ends_an_mbarrier_as_atomics_have_it(fence: str, verdict: str, codes: list[str]) -> None:
    text = TEXT.format(body=LAST_ENDS_IT.replace("FENCE", fence), directives="", target="sm_90")
    report, _ = run(wsemu.load_ptx(text)["k"], 64, lambda: (np.zeros(4), 48, 0))
    assert (report.verdict, [finding.code for finding in report.findings]) == (verdict, codes)
    assert any("atomic" in note for note in report.notes)


@pytest.mark.parametrize("at", [0, 64])
@pytest.mark.parametrize("back", ["cp.async.bulk", "cp.reduce.async.bulk"])
def test_what_a_bulk_store_writes_is_no_read_only_memory(back: str, at: int) -> None:
    what = ".add.u32" if "reduce" in back else ""
    body = f"ld.global.nc.u32 %r9, [%rd1];{COPIED}".replace(
        "BACK", f"{back}.global.shared::cta.bulk_group{what} [%rd1+{at}], [%r3], 64;"
    )
    text = TEXT.format(body=body, directives="", target="sm_90")
    report, _ = run(wsemu.load_ptx(text)["k"], 32, lambda: (np.zeros(32, "u4"), 48, 0))
    assert ("read-only-written" in [finding.code for finding in report.findings]) == (at == 0)


FAR = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .pred %p<3>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<5>;
    .shared .align 8 .b8 bar[256];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    mov.u64 %rd1, bar;
    @%p1 bra NEXT;
    mbarrier.init.shared.b64 [%rd1], 32;
NEXT:
    bar.sync 0;
    mov.u64 %rd2, 0x7ffffffffffffff0;
    setp.eq.u32 %p2, %r1, 5;
    sub.s64 %rd3, %rd1, 64;
    selp.b64 %rd4, %rd2, %rd3, %p2;
    st.shared.u32 [%rd4+64], %r1;
    ret;
}
"""
"""all lanes but one store to an mbarrier; that one's address comes round"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_access_at_a_number_touches_no_mbarrier(engine: Any) -> None:
    """It is left out, although an mbarrier lies there."""
    source = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>;
    .shared .align 8 .b64 bar;
    mov.u32 %r1, bar;
    mbarrier.init.shared.b64 [%r1], 1;
    mov.u32 %r2, 0;
    st.shared.u32 [%r2], 7;
    ld.shared.u32 %r3, [%r2];
    mbarrier.inval.shared.b64 [%r1];
    ret;
}
"""
    report = wsemu.check(wsemu.load_ptx(source)["k"], 1, 1, (np.zeros(4, np.float32),), engine=engine)
    assert {finding.code for finding in report.errors} == {"out-of-bounds"}


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_lane_far_away_hides_no_access_to_an_mbarrier(engine: Any) -> None:
    report = wsemu.check(wsemu.load_ptx(FAR)["k"], 1, 32, (np.zeros(4, np.float32),), engine=engine)
    assert {"mbarrier-clobber", "out-of-bounds"} <= {finding.code for finding in report.findings}
