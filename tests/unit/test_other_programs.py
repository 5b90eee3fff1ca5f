"""Launches that other programs decide: numbered CTAs, plain accesses."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.walk_programs import WalkProgram, check_walks, draw_walks, judge_walks
from wsemu.launch import other_programs
from wsemu.launch.explore import decide, windows
from wsemu.launch.other_programs import SHARE
from wsemu.model.bound import Account, Bound
from wsemu.proof.numbered import find_numbered

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
RIGHT = WalkProgram(
    3, (0, 3, 32), (1, 2, 1), draws=True, by_block=False, waits=True, stops="whole", mask=0, publishes="st",
    reads_later=False,
)  # fmt: skip
HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x_, .param .u64 y_)
{
  .reg .b32 %l, %c, %v, %u; .reg .b64 %x, %y, %a; .reg .pred %p, %q;
  .shared .b32 s[64];
  ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_]; mov.u32 %l, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %u, s;
  setp.eq.u32 %p, %l, 0;
"""
LOOKUP = """
  mad.wide.u32 %a, %l, 4, %x;
NEXT: ld.relaxed.gpu.global.u32 %v, [%a]; setp.eq.u32 %q, %v, 0; add.u64 %a, %a, 4; @%q bra NEXT;
  mad.lo.u32 %l, %c, 32, %l; mad.wide.u32 %a, %l, 4, %y; st.global.u32 [%a], %v; exit; }
"""
COUNTED = """
  st.shared.u32 [s], 0;
  @!%p exit;
  atom.shared.add.u32 %v, [s], 3; atom.shared.add.u32 %l, [s], 4;
  add.u32 %v, %v, %l; mad.lo.u32 %v, %c, 8, %v; mad.wide.u32 %a, %v, 4, %y; st.global.u32 [%a], %c; exit; }
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("publishes", ["st", "exch", "add", "late"])
@pytest.mark.parametrize("draws", [True, False])
def test_threads_look_back_by_themselves(draws: bool, publishes: str, engine: Engine) -> None:
    report = check_walks(RIGHT._replace(draws=draws, by_block=not draws, publishes=publishes), engine)
    assert report.verdict == "verified", report.notes
    assert ("whichever number each CTA draws" in report.proof) == draws


@pytest.mark.parametrize(
    "change",
    [
        {"by_block": True, "sums": (1, 9, 9)}, {"waits": False, "mask": 8}, {"stops": "any", "sums": (1, 1, 1)},
        {"stops": "never", "sums": (9, 9, 9)}, {"reads_later": True}, {"votes": "always"},
        {"votes": "counts", "sums": (8, 8, 8)}, {"publishes": "add", "adds_to_others": True, "sums": (1, 1, 15)},
    ],
)  # fmt: skip
def test_what_depends_on_the_order_is_not_verified(change: dict[str, Any]) -> None:
    program = RIGHT._replace(**change)
    assert program.can_fail()
    assert check_walks(program, "vm").verdict != "verified"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("draws", [True, False])
def test_lanes_vote_on_who_goes_on(draws: bool, engine: Engine) -> None:
    report = check_walks(RIGHT._replace(draws=draws, by_block=not draws, votes="goes"), engine)
    assert report.verdict == "verified", report.notes


def test_lanes_that_vote_at_two_instructions_are_not_verified() -> None:
    """The first round of one lane is a copy of the loop, in which it votes with the lanes of the other one."""
    text = RIGHT._replace(votes="goes", draws=False, by_block=True).ptx()
    vote = "vote.sync.ballot.b32 %b, %g, %b;"
    both = f"setp.eq.u32 %q, %l, 0; @%q bra OTHER; {vote} bra VOTED; OTHER: {vote} VOTED:"
    given = np.zeros(1, np.uint32), np.zeros(33 * 4, np.uint32), np.zeros(16 * 33, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text.replace(vote, both))["k"], 3, 64, given)
    assert report.verdict != "verified"


def test_other_programs_share_an_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them uses is no longer left for the next one."""
    used: list[float] = []

    def spend(self: Account, effort: float) -> None:
        used.append(effort if self in shares else 0.0)
        run(self, effort)

    def part(self: Account, effort: float) -> Account:
        made = Account(effort, self)
        if effort == SHARE:
            shares.append(made)
        return made

    shares: list[Account] = []
    run = Account.spend
    monkeypatch.setattr(Account, "spend", spend)
    monkeypatch.setattr(Account, "part", part)
    assert check_walks(RIGHT, "vm").verdict == "verified"
    assert 0 < sum(used) <= SHARE
    monkeypatch.undo()
    monkeypatch.setattr(other_programs, "SHARE", sum(used) / 2)
    assert check_walks(RIGHT, "vm").verdict == "incomplete"


def test_no_order_of_a_numbered_program_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """That orders end well numbers no CTAs."""
    tried: list[Bound] = []
    run = decide._Attempt.decide

    def note(self: Any, left: Any) -> Any:
        tried.append(self.bound)
        return run(self, left)

    monkeypatch.setattr(decide._Attempt, "decide", note)
    assert check_walks(RIGHT._replace(reads_later=True, sums=(1, 2, 3)), "vm").verdict != "verified"
    assert tried
    assert not [bound for bound in tried if find_numbered(bound.program)]


def test_a_draw_that_repeats_numbers_no_cta() -> None:
    """A CTA that draws until it gets a number of its liking draws more than one in some order."""
    text = RIGHT.ptx().replace(
        "st.shared.u32 [tile], %t;", "setp.eq.u32 %q, %t, 7; @%q bra AGAIN; st.shared.u32 [tile], %t;"
    )
    text = text.replace("atom.global.add.u32 %t", "AGAIN: atom.global.add.u32 %t")
    given = np.zeros(1, np.uint32), np.zeros(33 * 4, np.uint32), np.zeros(16 * 33, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 3, 64, given)
    assert "whichever number each CTA draws" not in report.proof


def test_a_counter_that_is_read_numbers_no_cta() -> None:
    text = RIGHT.ptx().replace("END:", "END: ld.relaxed.gpu.global.u32 %v, [%n]; add.u32 %o, %o, %v;")
    given = np.zeros(1, np.uint32), np.zeros(33 * 4, np.uint32), np.zeros(16 * 33, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 3, 64, given)
    assert "whichever number each CTA draws" not in report.proof


@pytest.mark.parametrize("engine", ENGINES)
def test_strong_loads_of_a_table_that_nothing_writes(engine: Engine) -> None:
    x = np.array([k % 3 for k in range(40)], np.uint32)
    report = wsemu.check(wsemu.load_ptx(HEAD + LOOKUP)["k"], 2, 32, (x, np.zeros(64, np.uint32)), engine=engine)
    assert report.verdict == "verified", report.notes


def test_strong_loads_of_a_table_that_an_atomic_changes() -> None:
    x = np.array([k % 3 for k in range(40)], np.uint32)
    text = HEAD + "  @%p red.global.add.u32 [%x+8], 1;" + LOOKUP
    assert wsemu.check(wsemu.load_ptx(text)["k"], 2, 32, (x, np.zeros(64, np.uint32))).verdict != "verified"


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics_of_one_lane_in_shared_memory(engine: Engine) -> None:
    text = HEAD + COUNTED.replace("st.shared.u32 [s], 0;", "@%p st.shared.u32 [s], 0;")
    given = np.zeros(8, np.uint32), np.zeros(64, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 32, given, engine=engine)
    assert report.verdict == "verified", report.notes


def test_atomics_of_two_lanes_in_shared_memory_are_not_plain() -> None:
    text = HEAD + COUNTED.replace(
        "st.shared.u32 [s], 0;", "@%p st.shared.u32 [s], 0; bar.sync 0; setp.lt.u32 %p, %l, 2;"
    )
    given = np.zeros(8, np.uint32), np.zeros(64, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 32, given)
    assert "one order of accesses" not in report.proof


IN_TURN = "".join(
    f"atom.shared.or.b32 %v, [s+{4 * n}], 1; {'xor.b32 %v, %v, 1;' if n == 1 else ''} or.b32 %c, %c, %v; "
    for n in range(6)
)
"""%c is 0 for a lane that is the first one at five of six words"""


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics_of_lanes_in_lockstep_are_not_plain(engine: Engine) -> None:
    """Each atomic of such lanes is one access, and not a load by all lanes, and then a store by all."""
    text = HEAD + (
        "  mad.lo.u32 %c, %l, 4, %u; st.shared.u32 [%c], 0; bar.sync 0; mov.u32 %c, 0; "
        + IN_TURN
        + "setp.eq.u32 %p, %l, 31; setp.eq.and.u32 %p, %c, 0, %p; @%p st.global.u32 [%y+65536], %l; exit; }"
    )
    given = np.zeros(8, np.uint32), np.zeros(64, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, given, engine=engine, lockstep=True)
    assert report.verdict != "verified"


def test_verdicts_of_random_walks_are_those_of_all_loads() -> None:
    source = random.Random(1)
    judged = [judge_walks(draw_walks(source), ("vm",)) for _ in range(20)]
    assert not [str(one) for one in judged if one.complaints]
    assert sum(one.verdicts == ("verified",) for one in judged) > 5


def test_paths_of_lanes_that_do_nothing_together_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, decide = list[int](), windows.Windows.is_proven

    def watched(self: windows.Windows) -> bool:
        proven = decide(self)
        runs.append(self.runs)
        return proven

    monkeypatch.setattr(windows.Windows, "is_proven", watched)
    assert check_walks(RIGHT, "vm").verdict == "verified"
    assert max(runs) < 40
