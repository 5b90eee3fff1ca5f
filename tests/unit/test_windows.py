"""Warps that look back at what CTAs publish: all that their loads may return is tried, many combinations at a time."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.window_programs import PADDING, ROOM, WHOLE, WindowProgram, draw_windows, judge_windows
from wsemu.launch.explore import windows
from wsemu.launch.explore.partial import ARITHMETIC, Value, compute, merge
from wsemu.model.isa import LANES, OPERATIONS, SIZE
from wsemu.reference.arithmetic import semantics

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
HOW = "whatever published values each CTA reads"
RIGHT = WindowProgram(4, 2, (1, 2, 1, 3), "le", "any", counts=False, mask=0, bound=-1)


def check(program: WindowProgram, ctas: int = 0, lanes: int = 0, ptx: str = "", **options: Any) -> Any:
    words = np.zeros(PADDING + (ctas or program.ctas) + 64, np.uint32)
    words[:PADDING] = WHOLE
    kernel = wsemu.load_ptx(ptx or program.ptx())["k"]
    return wsemu.check(
        kernel, ctas or program.ctas, lanes or program.lanes, (words, np.zeros(ROOM, np.uint32)), **options
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_look_back_by_windows_is_decided(engine: Engine) -> None:
    report = check(RIGHT, engine=engine)
    assert report.verdict == "verified", str(report)
    assert HOW in report.proof
    assert not any("depends on the order" in note for note in report.notes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("state", [0, 1])
def test_a_look_back_by_vectors_of_128_bits_is_decided(state: int, engine: Engine) -> None:
    report = judge_windows(RIGHT._replace(form="vector", state=state), (engine,))
    assert report.verdicts == ("verified",), str(report)


@pytest.mark.parametrize("state", [0, 1])
def test_a_state_and_a_sum_apart_are_no_vector(state: int) -> None:
    program = RIGHT._replace(form="apart", state=state, mask=16)
    assert program.can_fail()
    assert "verified" not in judge_windows(program, ENGINES).verdicts


@pytest.mark.parametrize(
    "change",
    [
        {"kept": "all", "mask": 16},
        {"kept": "lt", "mask": 16},
        {"waits": "never", "mask": 16},
        {"counts": True, "mask": 20},
    ],
)
def test_a_sum_that_depends_on_what_is_seen_is_not_verified(change: dict[str, Any]) -> None:
    assert check(RIGHT._replace(**change)).verdict != "verified"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("written", "used", "decided"),
    [("whole", "masked", True), ("some", "store", True), ("whole", "store", False), ("whole", "publishes", False)],
)
def test_a_register_that_only_some_paths_write_is_followed_on_all_paths(
    written: str, used: str, decided: bool, engine: Engine
) -> None:
    program = RIGHT._replace(written=written, used=used)
    assert program.can_fail() is not decided
    judged = judge_windows(program, (engine,))
    assert (judged.verdicts == ("verified",)) is decided, str(judged)


def test_the_last_cta_may_publish_a_register_that_only_some_paths_write() -> None:
    program = RIGHT._replace(ctas=3, sums=(1, 2, 1), written="whole", used="publishes")
    assert not program.can_fail()
    assert judge_windows(program, ("vm",)).verdicts == ("verified",)


@pytest.mark.parametrize(("offset", "decided"), [(4, False), (256, True)])
def test_a_location_that_two_threads_write_is_not_one_of_a_look_back(
    offset: int, decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CTA also stores to the word of the next CTA, or to one that no other CTA writes."""
    proven, decide = list[bool](), windows.Windows.is_proven

    def watched(self: windows.Windows) -> bool:
        proven.append(decide(self))
        return proven[-1]

    monkeypatch.setattr(windows.Windows, "is_proven", watched)
    store = "or.b32 %s, %s, 1; @%f st.relaxed.gpu.global.u32 [%m], %s;"
    twice = RIGHT.ptx().replace(store, f"{store} @%f st.relaxed.gpu.global.u32 [%m+{offset}], %s;")
    assert check(RIGHT, ptx=twice).verdict == ("verified" if decided else "incomplete")
    assert proven == [decided]


def test_a_window_takes_few_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that says 1 or 2 does not say 0, though no bit of it is known; and a lane alone makes its warp wait."""
    monkeypatch.setattr(windows, "MOST_AT_ONCE", 60)
    program = WindowProgram(9, 8, (1,) * 9, "le", "any", counts=False, mask=0, bound=-1)
    given = program.words(), np.zeros(ROOM, np.uint32)
    assert wsemu.check(wsemu.load_ptx(program.ptx())["k"], 9, 8, given).verdict == "verified"


def test_what_looks_at_cta_that_comes_later_is_not_decided_so() -> None:
    back = RIGHT.ptx().replace("sub.u32 %i, %t, 1; sub.u32 %i, %i, %l;", "add.u32 %i, %t, 1; add.u32 %i, %i, %l;")
    assert HOW not in check(RIGHT, ptx=back).proof


def test_verdicts_of_random_windows_are_those_of_all_combinations() -> None:
    source = random.Random(45)
    found = [judge_windows(draw_windows(source), ("vm",)) for _ in range(30)]
    assert not [str(one) for one in found if one.complaints]
    assert {"verified", "failed"} <= {one.verdicts[0] for one in found}


HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 w_, .param .u64 y_)
{
  .reg .b32 %l, %t, %v, %u, %s; .reg .b64 %w, %y, %a; .reg .pred %q, %f;
  .shared .align 4 .b8 sm[8];
  ld.param.u64 %w, [w_]; ld.param.u64 %y, [y_];
  mov.u32 %l, %tid.x; mov.u32 %t, %ctaid.x; setp.eq.u32 %f, %l, 0; mov.u32 %s, sm;
  mad.wide.u32 %a, %t, 4, %y;
  setp.ne.u32 %q, %t, 0; @%q bra READER;
"""
"""The first CTA publishes, the second one looks."""
LAST_VALUE_ONCE_MORE = """
  @%f st.relaxed.gpu.global.u32 [%w+32], 1;
  @%f st.relaxed.gpu.global.u32 [%w+32], 2;
  @%f st.relaxed.gpu.global.u32 [%w+32], {last};
  exit;
READER:
  @!%f exit;
  ld.relaxed.gpu.global.u32 %v, [%w+32];
  setp.ne.u32 %q, %v, 2; @%q exit;
POLL:
  ld.relaxed.gpu.global.u32 %v, [%w+32];
  setp.eq.u32 %q, %v, 1; @%q bra POLL;
  exit;
}}
"""
LOADS_ITS_STORE = """
  @%f st.relaxed.gpu.global.u32 [%w+32], 1;
  @%f st.relaxed.gpu.global.u32 [%w+36], 1;
  exit;
READER:
  @!%f exit;
  ld.relaxed.gpu.global.u32 %v, [%w+32];
  st.global.u32 [%a], 5;
  ld.global.u32 %u, [%a];
  setp.ne.u32 %q, %u, 5; @%q exit;
  ld.relaxed.gpu.global.u32 %v, [%w+36];
  setp.eq.u32 %q, %v, 1; @%q exit;
  st.global.u32 [%a+100000], %v;
  exit;
}
"""
SYNCS_ON_ONE_PATH = """
  @%f st.relaxed.gpu.global.u32 [%w+32], 1;
  exit;
READER:
  bar.warp.sync 3;
  bar.warp.sync 3;
  bar.warp.sync 3;
  mov.u32 %v, 0;
  @!%f bra LOOKED;
  ld.relaxed.gpu.global.u32 %v, [%w+32];
LOOKED:
  shfl.sync.idx.b32 %v, %v, 0, 31, 3;
  @%f st.shared.u32 [%s], 7;
  setp.eq.u32 %q, %v, 0; @%q bra SYNCED;
  bar.warp.sync 3;
SYNCED:
  mov.u32 %u, 0;
  @!%f ld.shared.u32 %u, [%s];
  @!%f st.global.u32 [%a], %u;
  exit;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (LAST_VALUE_ONCE_MORE.format(last=1), "deadlock"),
        (LOADS_ITS_STORE, "out-of-bounds"),
        (SYNCS_ON_ONE_PATH, "intra-warp-race"),
    ],
)
def test_a_fault_on_a_path_of_few_values_is_found(body: str, code: str, engine: Engine) -> None:
    report = check(RIGHT, 2, 2, ptx=HEAD + body, engine=engine)
    assert code in {finding.code for finding in report.findings}, str(report)


def test_a_wait_for_a_value_that_stays_is_verified() -> None:
    report = check(RIGHT, 2, 2, ptx=HEAD + LAST_VALUE_ONCE_MORE.format(last=3))
    assert report.verdict == "verified", str(report)


# -- values with unknown bits ------------------------------------------------------------------------------------------
def choices(source: random.Random, size: int) -> list[int]:
    """Some values that differ in few bits."""
    first = source.choice((0, 1, 5, source.getrandbits(8 * size), (1 << 8 * size) - 1, source.getrandbits(6)))
    flips = [1 << source.randrange(8 * size) for _ in range(source.choice((0, 1, 2)))]
    every = itertools.product((False, True), repeat=len(flips))
    return [first ^ sum({flip for flip, on in zip(flips, bits, strict=True) if on}) for bits in every]


@pytest.mark.parametrize("name", sorted(ARITHMETIC))
def test_known_bits_of_a_result_are_those_of_all_values(name: str) -> None:
    source, operation = random.Random(name), OPERATIONS[name]
    for _ in range(6):
        drawn = [
            [[source.choice(([False], [True], [False, True]))] if type_ == "p" else [choices(source, SIZE[type_])]
             for _ in range(LANES)]
            for type_ in operation.operands
        ]  # fmt: skip
        values = [value_of(lanes, type_) for lanes, type_ in zip(drawn, operation.operands, strict=True)]
        result = compute(name, values, (1 << LANES) - 1)
        for lane in range(LANES):
            unknown, bits = int(result.unknown[lane]), int(result.bits[lane])
            for given in itertools.product(*(lanes[lane][0] for lanes in drawn)):
                assert (int(semantics[name](*given)) ^ bits) & ~unknown == 0, (name, given, bits, unknown)


def value_of(lanes: list[list[list[Any]]], type_: str) -> Value:
    if type_ == "p":
        unknown = np.array([len(one[0]) > 1 for one in lanes])
        return Value(np.array([one[0][0] for one in lanes]) & ~unknown, unknown)
    parts = [merge(one[0], SIZE[type_]) for one in lanes]
    kind = np.dtype(f"u{SIZE[type_]}")
    return Value(*(np.array([part[n] for part in parts], kind) for n in (0, 1)))


SEES_NOTHING_YET = """
  @%f st.relaxed.gpu.global.u32 [%w+32], 3;
  exit;
READER:
  add.u32 %u, %l, 7;
  ld.relaxed.gpu.global.u32 %v, [%w+32];
  setp.eq.u32 %q, %v, 0; @%q add.u32 %u, %u, 5;
  bar.warp.sync -1;
  bar.sync 0;
  sub.u32 %u, %u, %l; setp.eq.u32 %q, %u, 12; @%q st.global.u32 [%y], %l;
  exit;
}
"""
"""A guarded addition is executed by lanes that find the first contents: then all of them store to one location."""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_register_that_only_some_values_change_has_both_values(engine: Engine) -> None:
    given = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    report = wsemu.check(wsemu.load_ptx(HEAD + SEES_NOTHING_YET)["k"], 2, 32, given, engine=engine)
    assert report.verdict != "verified"


VOTES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 w_, .param .u64 y_)
{
  .shared .align 16 .b8 sm[16];
  .reg .b32 %l, %t, %s, %u, %v, %m, %n, %b; .reg .b64 %w, %y, %A, %z, %d; .reg .pred %first, %second, %goes, %q;
  ld.param.u64 %w, [w_]; ld.param.u64 %y, [y_];
  mov.u32 %l, %tid.x; mov.u32 %t, %ctaid.x; mov.u32 %s, sm;
  mad.wide.u32 %A, %l, 4, %w; mad.wide.u32 %z, %t, 128, %A;
  setp.eq.u32 %first, %l, 0; setp.eq.u32 %second, %l, 1;
  @%first st.shared.v2.u32 [%s], {%l, %l};
  bar.sync 0;
  setp.ge.u32 %q, %l, 32; @%q bra OTHER_WARP;
  BEFORE
  st.relaxed.gpu.global.u32 [%z+128], 1;
  mov.u32 %m, -1; mov.u32 %n, 0; mov.u64 %d, %z;
LOOK:
  ld.relaxed.gpu.global.u32 %v, [%d];
  setp.eq.u32 %q, %v, 0; @%q bra LOOK;
  sub.u64 %d, %d, 128;
  setp.eq.u32 %goes, %v, 1;
  INSIDE
  vote.sync.ballot.b32 %m, %goes, %m;
  @%goes bra LOOK;
  BEHIND
  st.relaxed.gpu.global.u32 [%z+128], 2;
  END
  exit;
OTHER_WARP:
  bar.sync 1, 64;
  OTHER
  exit;
}
"""
"""Lanes look back at the words of earlier CTAs, and vote on who goes on: where they find 1, no sum up to that CTA."""
READS_AT_THE_END = """
  @%goes bra NOT;
  @!%first bra NOT;
  ld.shared.u32 %u, [%s];
NOT:
"""
READS_ONCE = """
  mov.u32 %b, 0;
  @!%second bra VOTE;
  setp.ne.u32 %q, %n, 0; @%q bra VOTE;
  mov.u32 %b, 1;
  @%goes bra READ;
  mov.u32 %b, 2;
VOTE:
"""
READ = """
  setp.ne.u32 %q, %b, 2; @%q bra OUT;
READ:
  ld.shared.u32 %u, [%s+8];
  mov.u32 %n, 1;
  setp.eq.u32 %q, %b, 1; @%q bra VOTE;
OUT:
"""
RACES_OF_VOTES = {
    "an arrive acquires nothing": {
        "INSIDE": READS_AT_THE_END, "END": "bar.arrive 1, 64; @%second st.shared.u32 [%s], 5;",
    },
    "the other lane ends": {
        "INSIDE": READS_AT_THE_END, "END": "@%first bra ENDS; bar.sync 1, 64; ENDS:",
        "OTHER": "st.shared.u32 [%s], 5;",
    },
    "before the first vote, if there are two": {
        "BEFORE": "@%first st.shared.u32 [%s+8], 9;", "INSIDE": READS_ONCE, "BEHIND": READ, "END": "bar.sync 1, 64;",
    },
}  # fmt: skip
"""In the order of the CTAs, the first vote orders the read of a lane and a store; in other orders it need not."""


def check_votes(parts: dict[str, str], engine: Engine) -> Any:
    text = VOTES
    for name in ("BEFORE", "INSIDE", "BEHIND", "END", "OTHER"):
        text = text.replace(f"  {name}\n", f"  {parts.get(name, '')}\n")
    words = np.zeros(256, np.uint32)
    words[:32] = 2
    return wsemu.check(wsemu.load_ptx(text)["k"], 3, 64, (words, np.zeros(64, np.uint32)), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_that_vote_and_meet_at_a_barrier_are_decided(engine: Engine) -> None:
    report = check_votes({"END": "bar.sync 1, 64; @%second st.shared.u32 [%s], 5;"}, engine)
    assert report.verdict == "verified", report.notes
    assert HOW in report.proof


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", RACES_OF_VOTES)
def test_an_order_by_votes_that_depends_on_what_lanes_find_proves_nothing(what: str, engine: Engine) -> None:
    assert HOW not in check_votes(RACES_OF_VOTES[what], engine).proof
