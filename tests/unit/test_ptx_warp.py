"""shfl, vote, match, redux, elect, activemask and special registers of PTX, on both engines."""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.launch.hooks import starting

FULL = 0xFFFFFFFF
VALUES = [(lane * 0x9E3779B1 ^ lane << 7) & FULL for lane in range(32)]
LANES = list(range(32))


def ptx(body: str) -> str:
    """A kernel `k(values, selectors, results)`: a, b and lane are loaded, the b32 registers x, y are stored.

    What is among the lanes that run together needs an architecture on which these run in lockstep."""
    together = re.search(r"\b(shfl|vote)\.(?!sync)|activemask", body)
    return f"""
.version {"6.0" if together else "8.6"}
.target {"sm_60" if together else "sm_90"}
.address_size 64
.visible .entry k(.param .u64 values, .param .u64 selectors, .param .u64 results)
{{
.reg .b32 %a, %b, %x, %y, %t, %m;
.reg .b64 %v, %s, %r, %at, %w;
.reg .pred %p, %q;
mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, 4;
ld.param.u64 %v, [values];
ld.param.u64 %s, [selectors];
ld.param.u64 %r, [results];
add.u64 %v, %v, %at;
add.u64 %s, %s, %at;
ld.global.u32 %a, [%v];
ld.global.u32 %b, [%s];
shl.b64 %at, %at, 1;
add.u64 %r, %r, %at;
mov.u32 %x, 0;
mov.u32 %y, 0;
{body}
st.global.v2.u32 [%r], {{%x, %y}};
ret;
}}
"""


def results(engine: str, body: str, selectors: list[int] | None = None, values: list[int] | None = None) -> list[Any]:
    """(x, y) of each of 32 lanes."""
    out = np.zeros((32, 2), np.uint32)
    arguments = [np.array(values or VALUES, np.uint32), np.array(selectors or [0] * 32, np.uint32), out]
    report = wsemu.check(wsemu.load_ptx(ptx(body))["k"], 1, 32, arguments, engine=engine)  # type: ignore[arg-type]
    assert report.verdict == "verified", report
    return [tuple(pair) for pair in out.tolist()]


@pytest.fixture(params=["vm", "reference"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- shfl ------------------------------------------------------------------------------------------------------------
def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, int]:
    """PTX ISA, "shfl.sync": (value, whether in range)."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last = lane & segment | clamp & ~segment
    if mode == "up":
        j, inside = lane - b, lane - b >= last
    elif mode == "down":
        j, inside = lane + b, lane + b <= last
    elif mode == "bfly":
        j, inside = lane ^ b, lane ^ b <= last
    else:
        j = lane & segment | b & ~segment
        inside = j <= last
    return VALUES[j if inside else lane], int(inside)


CLAMPS = (0x1F, 0, 0x181F, 0x1800, 0x100F, 0x1E01, 0x1E1F)


@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
def test_shuffles_with_each_segment(engine: str, mode: str) -> None:
    selectors = [lane * 5 % 37 for lane in LANES]
    body = f"shfl.sync.{mode}.b32 %x|%p, %a, %b, {{c}}, -1;\nselp.u32 %y, 1, 0, %p;"
    for c in CLAMPS:
        want = [shuffled(mode, lane, selectors[lane], c) for lane in LANES]
        assert results(engine, body.format(c=c), selectors) == want, hex(c)
        register = f"mov.u32 %m, {c};\n" + body.format(c="%m")
        assert results(engine, register, selectors) == want, hex(c)


def test_shuffle_of_the_lanes_that_are_there(engine: str) -> None:
    body = "setp.lt.u32 %p, %t, 16;\n@%p shfl.bfly.b32 %x, %a, 1, 31;\n@!%p shfl.up.b32 _|%q, %a, 4, 0x1000;"
    got = results(engine, body + "\n@!%p selp.u32 %y, 1, 0, %q;")
    assert got == [(VALUES[lane ^ 1], 0) if lane < 16 else (0, int(lane >= 20)) for lane in LANES]


# -- vote, match, redux, elect ---------------------------------------------------------------------------------------
VOTES: dict[str, Callable[[list[bool]], bool]] = {"all": all, "any": any, "uni": lambda v: len(set(v)) == 1}


@pytest.mark.parametrize("least", [0, 7, 31, 32])
@pytest.mark.parametrize("form", [".sync", ""])
def test_votes(engine: str, form: str, least: int) -> None:
    members = ", 0xffffffff" if form else ""
    for mode, holds in VOTES.items():
        body = f"setp.ge.u32 %p, %t, {least};\nvote{form}.{mode}.pred %q, %p{members};\nselp.u32 %x, 1, 0, %q;"
        body += f"\nvote{form}.ballot.b32 %y, !%p{members};"
        want = (int(holds([lane >= least for lane in LANES])), (1 << least) - 1)
        assert results(engine, body) == [want] * 32


def test_matches(engine: str) -> None:
    values = [lane * lane % 5 for lane in LANES]
    same = [sum(1 << k for k in LANES if values[k] == value) for value in values]
    body = "match.any.sync.b32 %x, %a, -1;\nmatch.all.sync.b32 %m|%p, %a, -1;\nselp.u32 %y, 2, 1, %p;"
    assert results(engine, body, values=values) == [(mask, 1) for mask in same]
    body = "mov.b64 %w, {%b, %a};\nmatch.any.sync.b64 %x, %w, -1;\nmatch.all.sync.b64 %y, %w, -1;"
    assert results(engine, body, values=values) == [(mask, 0) for mask in same]
    assert results(engine, body, values=[7] * 32) == [(FULL, FULL)] * 32


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add.u32": sum,
    "add.s32": sum,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda v: min(v, key=lambda x: x ^ 1 << 31),
    "max.s32": lambda v: max(v, key=lambda x: x ^ 1 << 31),
    "and.b32": lambda v: functools.reduce(operator.and_, v),
    "or.b32": lambda v: functools.reduce(operator.or_, v),
    "xor.b32": lambda v: functools.reduce(operator.xor, v),
}


@pytest.mark.parametrize("what", REDUCTIONS)
def test_reductions_of_whole_and_diverged_warps(engine: str, what: str) -> None:
    f = REDUCTIONS[what]
    parts = [[VALUES[lane] for lane in LANES if lane % 3 == 0], [VALUES[lane] for lane in LANES if lane % 3]]
    masks = [sum(1 << lane for lane in LANES if (lane % 3 != 0) == side) for side in (False, True)]
    body = f"redux.sync.{what} %x, %a, -1;\nrem.u32 %m, %t, 3;\nsetp.eq.u32 %p, %m, 0;\n@!%p bra OTHER;\n"
    body += (
        f"redux.sync.{what} %y, %a, {masks[0]};\nbra.uni DONE;\nOTHER:\nredux.sync.{what} %y, %a, {masks[1]};\nDONE:"
    )
    want = [(f(VALUES) & FULL, f(parts[lane % 3 != 0]) & FULL) for lane in LANES]
    assert results(engine, body) == want


@pytest.mark.parametrize("what", REDUCTIONS)
def test_a_reduction_whose_mask_names_none_of_its_lanes(engine: str, what: str) -> None:
    body = f"setp.lt.u32 %p, %t, 4;\n@%p redux.sync.{what} %x, %a, 0xf0;"
    arguments = [np.array(VALUES, np.uint32), np.zeros(32, np.uint32), np.zeros((32, 2), np.uint32)]
    report = wsemu.check(wsemu.load_ptx(ptx(body))["k"], 1, 32, arguments, engine=engine)  # type: ignore[arg-type]
    assert "barrier-divergence" in {finding.code for finding in report.errors}


def test_one_lane_is_elected(engine: str) -> None:
    body = "elect.sync %x|%p, -1;\nselp.u32 %y, 1, 0, %p;"
    assert results(engine, body) == [(0, int(lane == 0)) for lane in LANES]
    body = (
        "setp.ge.u32 %q, %t, 9;\n@%q elect.sync %x|%p, 0xfffffe00;\n@%q selp.u32 %y, 1, 0, %p;\n"
        "@%q vote.sync.ballot.b32 %x, %q, 0xfffffe00;"
    )
    assert results(engine, body) == [(FULL << 9 & FULL if lane >= 9 else 0, int(lane == 9)) for lane in LANES]


# -- special registers -----------------------------------------------------------------------------------------------
MASKS: dict[str, Callable[[int], int]] = {
    "eq": lambda lane: 1 << lane,
    "lt": lambda lane: (1 << lane) - 1,
    "le": lambda lane: (2 << lane) - 1,
    "gt": lambda lane: FULL - ((2 << lane) - 1),
    "ge": lambda lane: FULL - ((1 << lane) - 1),
}


def test_lane_masks(engine: str) -> None:
    for (name, mask), (other, other_mask) in itertools.pairwise([*MASKS.items(), *MASKS.items()]):
        body = f"mov.u32 %x, %lanemask_{name};\nmov.u32 %y, %lanemask_{other};"
        assert results(engine, body) == [(mask(lane), other_mask(lane)) for lane in LANES]


THREADS = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 results)
{
.reg .b32 %i, %r, %n;
.reg .b64 %p, %at;
mov.u32 %i, %tid.z;
mov.u32 %n, %tid.y;
mad.lo.u32 %i, %i, 3, %n;
mov.u32 %n, %tid.x;
mad.lo.u32 %i, %i, 7, %n;
mul.wide.u32 %at, %i, 8;
ld.param.u64 %p, [results];
add.u64 %p, %p, %at;
mov.u32 %r, %warpid;
mov.u32 %n, %dynamic_smem_size;
st.global.v2.u32 [%p], {%r, %n};
ret;
}
"""


def test_threads_are_counted_along_x_then_y_then_z(engine: str) -> None:
    out = np.zeros((84, 2), np.uint32)
    kernel = wsemu.load_ptx(THREADS)["k"]
    report = wsemu.check(kernel, 1, (7, 3, 4), [out], dynamic_shared=80, engine=engine)  # type: ignore[arg-type]
    assert report.verdict == "verified", report
    assert out.tolist() == [[thread // 32, 80] for thread in range(84)]


@pytest.mark.parametrize("name", ["%nsmid", "%pm3"])
def test_what_differs_from_run_to_run_is_not_modelled(engine: str, name: str) -> None:
    out = np.zeros((32, 2), np.uint32)
    arguments = [np.zeros(32, np.uint32), np.zeros(32, np.uint32), out]
    report = wsemu.check(wsemu.load_ptx(ptx(f"mov.u32 %x, {name};"))["k"], 1, 32, arguments, engine=engine)  # type: ignore[arg-type]
    assert report.verdict == "incomplete"
    assert f"`{name}` is not modelled" in repr(report)


def test_a_kernel_with_the_name_of_a_modifier_does_not_call_itself():
    """A kernel that may call itself has a stack, which each step of a search would copy."""
    module = wsemu.load_ptx(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry cas(.param .u64 x) { .reg .b64 %rd<2>; "
        ".reg .b32 %r<2>; ld.param.u64 %rd1, [x]; atom.global.cas.b32 %r1, [%rd1], 0, 1; bar.warp.sync -1; ret; }"
    )
    bound: list[Any] = []
    keep = bound.append
    starting.append(keep)
    try:
        report = wsemu.check(module["cas"], 1, 32, (np.zeros(1, np.int32),))
    finally:
        starting.remove(keep)
    assert report.verdict == "verified"
    assert bound[0].program.local_bytes == 0
