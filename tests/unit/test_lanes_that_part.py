"""Lanes that take different paths and meet: which of them are active together, in all schedules."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.group_programs import MeetingProgram, check_groups, draw_meeting, judge_groups

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
ALONE = MeetingProgram(1, (0, 0, 0), "vote.ballot", -1, waits=True, loops=False)
"""All lanes take one path."""
OWN = MeetingProgram(1, (0, 0, 1, 1), "shfl.up", 0, waits=True, loops=False)
"""Only lanes that read lanes of their own path store what they get."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "program",
    [
        ALONE, ALONE._replace(exchanges="shfl.first", warps=2), ALONE._replace(keys=(0, -1, 0)),
        ALONE._replace(exchanges_before="shfl"), ALONE._replace(exchanges_before="shfl", early=True),
    ],
)  # fmt: skip
def test_lanes_of_one_path_are_together(program: MeetingProgram, engine: Engine) -> None:
    report = check_groups(program, engine)
    assert report.verdict == "verified", report.notes
    assert "the active lanes are all lanes of the warp that reach it from the barrier" in repr(report.notes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "program",
    [
        OWN,
        OWN._replace(warps=2),
        OWN._replace(loops=True),
        OWN._replace(writers=-2, exchanges="shfl.bfly", keys=(0, 1)),
        OWN._replace(exchanges_before="shfl"),
        OWN._replace(exchanges_before="shfl", early=True, loops=True),
    ],
)
def test_what_lanes_of_other_paths_give_reaches_nothing(program: MeetingProgram, engine: Engine) -> None:
    report = check_groups(program, engine)
    assert report.verdict == "verified", report.notes
    assert program.writers == -2 or "the active lanes include all lanes that take the same path" in repr(report.notes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "change",
    [
        {"writers": 1},
        {"writers": 1, "loops": True},
        {"writers": -1},
        {"keys": (0, 1, 0)},
        {"exchanges": "shfl.bfly", "keys": (0, 1)},
    ],
)
def test_a_value_of_a_lane_of_another_path_is_undefined(change: dict[str, Any], engine: Engine) -> None:
    report = check_groups(OWN._replace(**change), engine)
    assert [(error.code, error.holds_in) for error in report.errors] == [("undefined-shuffle", "some schedules")]
    assert "PTX lets lanes that took different paths stay apart" in repr(report.errors[0].notes)


def test_lanes_that_meet_in_lockstep_are_together() -> None:
    x, y = np.full((1, 32), -1, np.int32), np.zeros(32, np.uint32)
    x[0, :3] = 0, 1, 0
    given = np.zeros(4, np.uint32), x, y
    kernel = wsemu.load_ptx(OWN._replace(writers=-1).ptx())["k"]
    assert wsemu.check(kernel, 1, 32, given, lockstep=True).verdict == "verified"


@pytest.mark.parametrize(
    "program",
    [
        ALONE._replace(keys=(0, 1)), ALONE._replace(waits=False), OWN._replace(waits=False, keys=(0, 0)),
        OWN._replace(exchanges="shfl.first", keys=(1, 0)), ALONE._replace(exchanges_before="halves"),
        ALONE._replace(exchanges_before="halves", early=True), OWN._replace(exchanges_before="halves"),
        OWN._replace(exchanges_before="halves", early=True),
    ],
)  # fmt: skip
def test_masks_that_may_differ_stay_open(program: MeetingProgram) -> None:
    report = check_groups(program, "vm")
    assert (report.verdict, report.reasons) == ("incomplete", ["active lanes"])


@pytest.mark.parametrize("program", [ALONE, OWN])
def test_strict_takes_no_mask_for_granted(program: MeetingProgram) -> None:
    x, y = np.full((1, 32), -1, np.int32), np.zeros(32, np.uint32)
    x[0, : len(program.keys)] = program.keys
    report = wsemu.check(wsemu.load_ptx(program.ptx())["k"], 1, 32, (np.zeros(4, np.uint32), x, y), strict=True)
    assert report.verdict == "incomplete"


def test_an_equal_outcome_of_other_lanes_is_judged_anew() -> None:
    kernel = wsemu.load_ptx(ALONE._replace(warps=2).ptx())["k"]

    def check(keys: list[list[int]]) -> str:
        x = np.full((2, 32), -1, np.int32)
        x[:, :2] = keys
        return wsemu.check(kernel, 1, 64, (np.zeros(4, np.uint32), x, np.zeros(64, np.uint32))).verdict

    assert check([[0, 0], [1, 1]]) == "verified"
    assert check([[0, 1], [-1, -1]]) == "incomplete"


AFTER_A_BARRIER = """.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 y, .param .u64 members)
{
.reg .b32 %r<8>; .reg .b64 %d<6>; .reg .pred %p;
ld.param.u64 %d1, [y]; ld.param.u64 %d2, [members];
mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;
add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
ld.global.u32 %r2, [%d5];
bar.sync 0;
BETWEEN
activemask.b32 %r3;
st.global.u32 [%d4], %r3;
ret;
}
"""
SKIPS = "setp.eq.u32 %p, %r2, 7; @%p bra MEET;"
"""No lane does, but a path joins."""
NAMED = "shfl.sync.idx.b32 %r4, %r1, 0, 31, %r5;"
PAIR = "and.b32 %r6, %r1, 30; mad.wide.u32 %d3, %r6, 4, %d2; ld.global.v2.u32 {%r6, %r5}, [%d3];"
HALVES = """
setp.lt.u32 %p, %r1, 16; @%p bra LOW;
activemask.b32 %r5; bra MEET;
LOW: activemask.b32 %r5;
MEET:
"""
NEXT_ROUND = "add.u32 %r6, %r6, 1; setp.lt.u32 %p, %r6, 2; @%p bra LOOP;"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("between", "verdict"), [
    ("", "verified"),
    ("bar.warp.sync -1;", "verified"),
    ("shfl.sync.idx.b32 %r4, %r1, 0, 31, -1;", "verified"),
    ("activemask.b32 %r5; shfl.sync.idx.b32 %r4, %r1, 0, 31, %r5;", "verified"),
    ("bar.warp.sync %r2;", "incomplete"),
    ("shfl.sync.bfly.b32 %r4, %r1, 1, 31, %r2;", "incomplete"),
    ("vote.sync.ballot.b32 %r4, 1, %r2;", "incomplete"),
    ("barrier.sync 1, 32;", "incomplete"),
    (f"{SKIPS} st.global.u32 [%d4], %r1; MEET: activemask.b32 %r5; {NAMED}", "verified"),
    (f"activemask.b32 %r5; {SKIPS} st.global.u32 [%d4], %r1; MEET: {NAMED}", "verified"),
    (f"mov.u32 %r6, 0; LOOP: activemask.b32 %r5; {NAMED} {NEXT_ROUND}", "verified"),
    (f"mov.u32 %r5, %r2; mov.u32 %r6, 0; LOOP: bar.warp.sync %r5; activemask.b32 %r5; {NEXT_ROUND}", "incomplete"),
    (f"activemask.b32 %r5; {SKIPS} mov.u32 %r5, %r2; MEET: bar.warp.sync %r5;", "incomplete"),
    (f"mov.u32 %r5, %r2; {SKIPS} activemask.b32 %r5; MEET: bar.warp.sync %r5;", "incomplete"),
    ("activemask.b32 %r5; and.b32 %r5, %r5, %r2; bar.warp.sync %r5;", "incomplete"),
    ("mov.u32 %r5, %r2; setp.lt.u32 %p, %r1, 99; @%p activemask.b32 %r5; bar.warp.sync %r5;", "incomplete"),
    (f"activemask.b32 %r5; {PAIR} bar.warp.sync %r5;", "incomplete"),
    (f"{HALVES} bar.sync 0; bar.warp.sync %r5;", "incomplete"),
    (f"{HALVES} bar.warp.sync %r5;", "incomplete"),
    ("setp.lt.u32 %p, %r1, 16; @%p bar.warp.sync 0xffff;", "incomplete"),
    (f"activemask.b32 %r5; setp.lt.u32 %p, %r1, 16; @%p {NAMED}", "incomplete"),
])  # fmt: skip
def test_lanes_part_at_operations_whose_members_differ(between: str, verdict: str, engine: Engine) -> None:
    members = np.repeat(np.array([0xFFFF, 0xFFFF0000], np.uint32), 16)
    kernel = wsemu.load_ptx(AFTER_A_BARRIER.replace("BETWEEN", between))["k"]
    assert wsemu.check(kernel, 1, 32, (np.zeros(32, np.uint32), members), engine=engine).verdict == verdict


def test_verdicts_of_random_meetings_are_those_of_all_groups() -> None:
    source = random.Random(11)
    judged = [judge_groups(draw_meeting(source), ENGINES) for _ in range(30)]
    assert [str(one) for one in judged if one.complaints] == []
    assert {one.verdicts[0] for one in judged} == {"verified", "failed", "incomplete"}
