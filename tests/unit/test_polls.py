"""Lanes of a warp that poll one place together are decided as one, where it makes no difference who sees what when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.launch.explore import search
from wsemu.launch.explore.polls import Polls
from wsemu.launch.explore.session import Ask, Moved

KERNEL = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
.shared .align 8 .b8 m[64];
ld.param.u64 %rd1, [memory]; mov.u64 %rd2, m; mov.u32 %r2, %tid.x; mov.u32 %r3, 0;
setp.eq.u32 %p1, %r2, 0; @%p1 st.shared.v2.u32 [%rd2], {%r3, %r3};
bar.sync 0;
mul.wide.u32 %rd4, %r2, 4; add.s64 %rd4, %rd1, %rd4; setp.ne.u32 %p3, %r2, 32;
setp.ge.u32 %p1, %r2, 32; @%p1 bra CONSUMER;
setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
PRODUCER
bra END;
CONSUMER:
LOOK
END: ret;
}
"""
GIVE = "st.shared.u32 [%rd2+4], 7; st.release.cta.shared.u32 [%rd2], 1;"
POLL = "WAIT: ld.acquire.cta.shared.u32 %r4, [%rd2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra WAIT;"
OTHER_WAY = "WAIT: ld.acquire.cta.shared.u32 %r4, [%rd2]; setp.ne.u32 %p1, %r4, 0; @%p1 bra GO; bra WAIT;\nGO:"
PAUSES = "WAIT: nanosleep.u32 20; ld.relaxed.cta.shared.u32 %r4, [%rd2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra WAIT;"
USE = "ld.shared.u32 %r5, [%rd2+4]; st.global.u32 [%rd4], %r5;"
COUNTS = (
    "WAIT: ld.acquire.cta.shared.u32 %r4, [%rd2]; add.u32 %r3, %r3, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra WAIT;"
    "st.global.u32 [%rd4], %r3;"
)
TAKE_BACK = "@!%p3 st.relaxed.cta.shared.u32 [%rd2], 0;"
TWICE = "st.release.cta.shared.u32 [%rd2], 2;"
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


def checked(producer: str, look: str, engine: Any = "vm") -> wsemu.Report:
    source = KERNEL.replace("PRODUCER", producer).replace("LOOK", look)
    return wsemu.check(wsemu.load_ptx(source)["k"], 1, 64, (np.zeros(64, np.uint32),), engine=engine)


@ENGINES
@pytest.mark.parametrize(("producer", "look", "verdict"), [
    (GIVE, POLL + USE, "verified"),
    (GIVE, OTHER_WAY + USE, "verified"),
    (GIVE, PAUSES + "fence.acq_rel.cta;" + USE, "verified"),
    (GIVE, POLL + "bar.warp.sync -1;" + TAKE_BACK, "verified"),
    (GIVE + TWICE, POLL, "verified"),
    (GIVE, PAUSES + USE, "failed"),
    (GIVE.replace("release", "relaxed"), POLL + USE, "failed"),
    ("st.shared.u32 [%rd2], 0;" + GIVE, POLL, "failed"),
])  # fmt: skip
def test_a_whole_warp_waits_for_a_flag(producer: str, look: str, verdict: str, engine: Any) -> None:
    found = checked(producer, look, engine)
    assert found.verdict == verdict, found.notes


def test_a_whole_warp_that_waits_for_ever_is_a_deadlock() -> None:
    found = checked("", POLL)
    assert [finding.code for finding in found.findings] == ["deadlock"]


@pytest.mark.parametrize(("producer", "look"), [
    (GIVE, POLL + TAKE_BACK),
    (GIVE, COUNTS),
    (GIVE + TWICE, POLL + "st.global.u32 [%rd4], %r4;"),
    (GIVE + "st.relaxed.cta.shared.u32 [%rd2], 0;", POLL),
])  # fmt: skip
def test_what_depends_on_who_sees_what_is_not_verified(
    producer: str, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes that lag behind miss the flag, or see another value, or try more often."""
    monkeypatch.setattr(search, "MOST_STEPS", 100)
    assert checked(producer, look).verdict != "verified"


class Warp:
    """A session of a warp that polls one place; one of its lanes cannot go on."""

    def __init__(self, stops: int, status: str) -> None:
        self.stops, self.status, self.gone = stops, status, list[int]()

    def asks(self, cta: int) -> list[Ask]:
        return [Ask(cta, 0, lane, 5, (0, 0)) for lane in range(4)]

    def go(self, ask: Ask) -> Moved:
        self.gone.append(ask.lane)
        return Moved([], [], self.status if ask.lane == self.stops else "stands")


@pytest.mark.parametrize("status", ["events", "fault", "budget"])
@pytest.mark.parametrize("stops", [0, 2])
def test_a_lane_that_cannot_go_on_ends_the_move_of_all(stops: int, status: str) -> None:
    warp: Any = Warp(stops, status)
    assert Polls(warp, {5: 7}).go(warp.asks(0)[0]).status == status
    assert warp.gone == list(range(stops + 1))
