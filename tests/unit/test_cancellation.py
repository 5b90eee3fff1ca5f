"""Cluster launch control: responses, their order with what reads them, and every assignment of clusters."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.clc_programs import ARM, ARRIVE, BOTH, LOADS, PAIRS, STEAL
from wsemu.launch import assignments
from wsemu.machine.run import Launch
from wsemu.model.data import replace
from wsemu.model.errors import KernelError, UsageError

if TYPE_CHECKING:
    from wsemu.launch.result import Report
    from wsemu.model.settings import Assignment, Engine

ENGINES = ["vm", "reference"]
STORE = "  st.global.u32 [%o], %tile;\n"
PASSES = "  ld.shared.b32 %v, [total];\n  bar.sync 1;\n  @%first st.shared.b32 [total], %tile;\n"
ADDRESS = "  add.u64 %o, %o, %out;\n"


def check(text: str, rows: int, *, engine: Engine = "vm", cluster: int = 1, **options: Any) -> tuple[Report, Any]:
    result = np.zeros((rows, 64), np.uint32)
    kernel = wsemu.load_ptx(text)["k"]
    return wsemu.check(kernel, rows * cluster, 64, [result], engine=engine, cluster=cluster, **options), result


def find_errors(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("text", "cluster"), [(STEAL, 1), (PAIRS, 2)])
@pytest.mark.parametrize("clc", ["robin", "one", "reverse"])
def test_every_assignment_is_verified(text: str, cluster: int, clc: str, engine: Engine):
    report, result = check(text, 4, engine=engine, cluster=cluster, clc=clc, sms=1)
    assert (report.verdict, report.notes) == ("verified", [])
    assert (result == np.arange(4)[:, None]).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("row", "old", "new", "codes"),
    [
        (11, LOADS + "  bar.warp.sync -1;\n", "", {"race"}),
        (54, BOTH, BOTH.replace("t, 2", "t, 1"), {"deadlock"}),
        (54, ARM, ARM.replace("16;", "32;"), {"deadlock"}),
        (0, ARRIVE, "", {"deadlock"}),
    ],
)
def test_a_bug_of_a_pair_is_found(row: int, old: str, new: str, codes: set[str], engine: Engine):
    assert old in PAIRS
    text = PAIRS.replace(old, new, 1)
    if row == 11 and not new:  # the slot is released, then read
        text = text.replace(ARRIVE + "NEXT:\n", ARRIVE + "NEXT:\n" + LOADS)
    report, _ = check(text, 4, engine=engine, cluster=2, clc="one")
    assert codes <= find_errors(report), (row, report.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_response_may_overwrite_what_is_read_without_a_fence(engine: Engine):
    report, _ = check(
        PAIRS.replace("  fence.proxy.async.shared::cta;\n  bar", "  bar"), 4, engine=engine, cluster=2, clc="one"
    )
    assert "proxy-war" in {finding.code for finding in report.findings}


AGAIN = """
  @%p bra LOOP;
  ret;
}
""", """
  @%p bra LOOP;
  bar.sync 0;
  @!%first bra END;
  fence.proxy.async.shared::cta;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%to], [%bar];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;
LAST:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], %parity;
  @!%done bra LAST;
END:
  ret;
}
"""  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_request_after_a_failure_is_found(engine: Engine):
    """Row 53."""
    report, _ = check(STEAL.replace(*AGAIN), 3, engine=engine)
    assert find_errors(report) == {"clc-after-failure"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_request_before_the_failure_is_seen_is_not(engine: Engine):
    early = STEAL.replace(
        "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;\n",
        """  add.u32 %v, %to, 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%v], [%bar];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 32;
""",
    ).replace("response[16]", "response[32]")
    report, _ = check(early, 1, engine=engine)
    assert "clc-after-failure" not in find_errors(report)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_cta_of_a_failed_response_is_a_named_warning(engine: Engine):
    text = STEAL.replace("  @%p clusterlaunchcontrol", "  clusterlaunchcontrol")
    report, _ = check(text, 3, engine=engine)
    assert (report.verdict, [f.code for f in report.findings]) == ("verified", ["clc-no-ctaid"])
    assert check(text, 3, engine=engine, strict=True)[0].verdict == "failed"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "use",
    [
        "mad.wide.u32 %o, %tile, 256, %out;\n  @%first st.global.u32 [%o], %tile;",
        "setp.ne.u32 %done, %tile, 0;\n  @%done bra LOOP;",
        "setp.lt.u32 %done, %tile, 1;\n  @!%done st.global.u32 [%out], %tile;",
    ],
)
def test_what_uses_the_cta_of_a_failed_response_is_not_verified(use: str, engine: Engine):
    """The result is undefined; zeros, as the engines return, are not all that it may be."""
    text = STEAL.replace("  @%p clusterlaunchcontrol", "  clusterlaunchcontrol").replace("  ret;", f"  {use}\n  ret;")
    report, _ = check(text, 1, engine=engine)
    assert report.verdict == "incomplete"
    assert any("the launch depends on its result" in note for note in report.notes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "use",
    [
        "ld.shared.b32 %v, [%to];\n  @%first st.global.u32 [%out], %v;",
        "ld.shared.b32 %v, [%to + 8];\n  and.b32 %v, %v, -2;\n  @%first st.global.u32 [%out], %v;",
        "ld.shared.b32 %v, [%to + 12];\n  setp.ne.u32 %done, %v, 0;\n  @%done trap;",
    ],
)
def test_what_uses_undefined_bits_of_a_response_is_not_verified(use: str, engine: Engine):
    report, _ = check(STEAL.replace("  ret;", f"  {use}\n  ret;"), 1, engine=engine)
    assert report.verdict == "incomplete"
    assert any("a response is opaque" in note for note in report.notes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("at", "verdict"), [(8, "verified"), (12, "incomplete")])
def test_a_branch_on_the_bits_of_each_response(at: int, verdict: str, engine: Engine):
    """Bit 0 of the third word decides whether the request failed; no bit of the last one is defined."""
    read = f"  ld.shared.b32 %v, [%to + {at}];\n  and.b32 %v, %v, 1;\n  setp.eq.u32 %done, %v, 7;\n  @%done trap;\n"
    read = read.replace("7", "2" if at == 8 else "1")
    report, _ = check(STEAL.replace("  ld.shared.b128", read + "  ld.shared.b128"), 3, engine=engine)
    assert report.verdict == verdict, report.notes


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("  mad.wide.u32 %o, %tile", "  mov.u32 %v, %ctaid.x;\n  mad.wide.u32 %o, %v", "depends"),
        (STORE, "  mov.u32 %v, %ctaid.x;\n  st.global.u32 [%o], %v;\n", "depends"),
        (STORE, PASSES + STORE, "depends"),
        (STORE, "  setp.eq.u32 %done, %parity, 0;\n  @%done" + STORE, "depends"),
        (STORE, "  setp.eq.u32 %p, %tile, 2;\n  @%p bar.sync 1;\n" + STORE, "synchronization"),
    ],
)  # fmt: skip
def test_what_depends_on_the_assignment_is_undecided(old: str, new: str, why: str):
    assert old in STEAL
    report, _ = check(STEAL.replace(old, new, 1), 4, sms=1)
    assert report.verdict == "incomplete"
    assert any(why in note for note in report.notes), report.notes
    assert "canceled clusters" in report.reasons


def test_a_launch_without_the_checkers_of_accesses_is_run_with_other_assignments():
    """Its arrays were not kept for other runs (false `verified`)."""
    report, result = check(
        STEAL.replace(STORE, f"  setp.eq.u32 %done, %parity, 0;\n  @%done{STORE}"), 4, clc="one", checkers=["deadlock"]
    )
    assert report.verdict == "incomplete"
    assert any("depends on which clusters a request cancels" in note for note in report.notes), report.notes
    assert result[:, 0].tolist() == [0, 0, 2, 0]


ROWS = "  .shared .align 4 .b32 total;\n", """  .shared .align 4 .b32 total;
  .shared .align 128 .b8 rows[256];
  .reg .b64 %from; .reg .b32 %row, %sum;
"""  # fmt: skip
OWN_ROW = "  mov.u32 %row, rows;\n  mad.lo.u32 %row, %t, 4, %row;\n"
TAGS = """  mov.u32 %sum, 0;
  ld.param.u64 %from, [zeros];
  mad.wide.u32 %from, %t, 4, %from;
NEXT:
  ld.b32 %v, [%from];
  add.u32 %sum, %sum, %v;
  cvt.u64.u32 %o, %row;
  cvta.shared.u64 %o, %o;
  setp.ne.u64 %p, %from, %o;
  mov.u64 %from, %o;
  @%p bra NEXT;
  add.u32 %v, %tile, 1;
  st.shared.b32 [%row], %v;
  setp.eq.u32 %p, %sum, 0;
  setp.eq.or.u32 %p, %sum, %tile, %p;
  setp.eq.or.u32 %p, %sum, 6, %p;
  selp.u32 %v, 0, 1, %p;
"""
"""a row keeps the number of the tile, plus 1, for the next one, which stores 1 if it is not the next in order"""


@pytest.mark.parametrize("clc", ["robin", "one"])
def test_reads_of_an_array_do_not_hide_those_of_shared_memory(clc: Assignment):
    """An instruction has one finding for all bytes that nothing has written (false `verified`)."""
    text = STEAL.replace(*ROWS).replace("result)", "result, .param .u64 zeros)")
    text = text.replace("LOOP:\n", OWN_ROW + "  st.shared.b32 [%row], 0;\nLOOP:\n")
    text = text.replace("  mul.wide.u32 %o, %t, 4;", TAGS + "  mul.wide.u32 %o, %t, 4;").replace(
        STORE, STORE.replace("tile", "v")
    )
    result = np.zeros((6, 64), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 6, 64, [result, np.zeros(64, np.uint32)], clc=clc)
    assert report.verdict == "incomplete"
    assert not result.any()


ODD_ROUND = """  mov.u32 %row, %laneid;
  setp.eq.u32 %p, %tile, 2;
  setp.eq.and.u32 %p, %parity, 1, %p;
  selp.u32 %v, %row, 0, %p;
  setp.lt.u32 %p, %t, 32;
  @%p st.shared.b32 [rows], %v;
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("value", "verdict"), [("%row", "failed"), ("1", "verified")])
def test_lanes_that_store_different_values_only_in_one_round_of_one_tile(value: str, verdict: str, engine: Engine):
    """The launch and the judged runs take the tile in another round (false `verified`)."""
    text = STEAL.replace(*ROWS).replace(STORE, ODD_ROUND.replace("%v, %row", f"%v, {value}") + STORE)
    report, _ = check(text, 5, engine=engine, clc="one", sms=2)
    assert report.verdict == verdict, report.notes
    assert find_errors(report) == ({"intra-warp-race"} if verdict == "failed" else set())


MEETS_IN_TURN = """  setp.eq.u32 %p, %tile, 1;
  setp.eq.and.u32 %p, %parity, 1, %p;
  selp.u32 %row, 4, 0, %p;
  cvt.u64.u32 %o, %row;
  mad.wide.u32 %from, %tile, 256, %out;
  add.u64 %o, %o, %from;
  setp.gt.u32 %p, %t, 2;
  @%p bra WAIT;
  @%first st.global.u32 [%from], 0;
  setp.lt.u32 %p, %t, 2;
  @%p bar.warp.sync 3;
  setp.gt.u32 %p, %t, 0;
  @%p bar.warp.sync 6;
  setp.eq.u32 %p, %t, 1;
  @%p st.global.u32 [%from+4096], 1;
  @%p st.global.u32 [%o+4096], 2;
  setp.eq.u32 %p, %t, 2;
  @%p st.global.u32 [%from], %tile;
  @%p st.global.u32 [%from+4100], %tile;
"""
"""lanes store in order, since each synchronizes with the next one, but not to element 4100 in one round of a tile"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("distance", "verdict"), [(0, "verified"), (4, "failed")])
def test_judged_runs_that_meet_further_suspects_begin_anew(
    distance: int, verdict: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    """They begin with the suspects of earlier runs, and are exact there alone."""
    covered = []

    def expects(self: Launch, *suspects: Any, **apart: Any) -> bool:
        covered.append(known(self, *suspects, **apart))
        return covered[-1]

    known = Launch._expects
    monkeypatch.setattr(Launch, "_expects", expects)
    text = STEAL.replace(*ROWS).replace(STORE, STORE + MEETS_IN_TURN.replace("4, 0, %p", f"{distance}, 0, %p"))
    result = np.zeros(2048, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 5, 64, [result], engine=engine, clc="robin", sms=2)
    assert report.verdict == verdict, report.notes
    assert find_errors(report) == ({"intra-warp-race"} if verdict == "failed" else set())
    assert not covered[0]
    assert ("seen in a run of cluster 0 that takes 1, 2, 3, 4" in report.notes) == (verdict == "failed")


LATE = f"""{OWN_ROW}  setp.ne.and.u32 %p, %tile, 43, %first;
  @%p cp.async.bulk.wait_group 0;
  bar.sync 1;
  st.shared.b32 [%row], %tile;
  fence.proxy.async.shared::cta;
  bar.sync 2;
  mad.wide.u32 %o, %tile, 256, %out;
  @%first cp.async.bulk.wait_group 0;
  @!%first bra WAIT;
  cp.async.bulk.global.shared::cta.bulk_group [%o], [rows], 256;
  cp.async.bulk.commit_group;
"""


@pytest.mark.parametrize(("late", "verdict"), [(43, "failed"), (99, "verified")])
def test_a_wait_for_copies_that_only_one_tile_executes_late(late: int, verdict: str):
    """The first judged run takes 40 clusters; waits of the others are compared with theirs."""
    text = STEAL.replace(*ROWS)
    store = text[text.index("  mul.wide.u32 %o, %t, 4;") : text.index("WAIT:\n")]
    text = text.replace(store, LATE.replace("43", str(late)))
    text = text.replace("  ret;", "  @%first cp.async.bulk.wait_group 0;\n  ret;")
    report, _ = check(text, 45)
    assert report.verdict == verdict, report.notes
    assert ("race" in find_errors(report)) == (verdict == "failed")


@pytest.mark.parametrize("guarded", ["  @!%done bra WAIT;\n", "  @!%done"])
def test_an_access_to_arrays_that_only_some_tiles_perform(guarded: str):
    """The events after it were compared with parts of other events: `incomplete`."""
    some = STORE + "  setp.eq.u32 %done, %tile, 3;\n" + guarded + STORE
    report, _ = check(STEAL.replace(STORE, some), 6)
    assert report.verdict == "verified", report.notes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ADDRESS, "  shr.u32 %v, %tile, 1; mul.wide.u32 %o, %v, 256;\n" + ADDRESS),
        (STORE, STORE + "  ld.global.b32 %v, [%out];\n"),
        ("  ret;", "  @%first st.global.u32 [%out], %tile;\n  ret;"),
    ],
)
def test_clusters_that_store_to_one_location_race(old: str, new: str):
    assert old in STEAL
    report, _ = check(STEAL.replace(old, new, 1), 4, sms=1)
    assert report.verdict == "failed"
    assert "race" in find_errors(report)


EQUAL = STEAL.replace("mul.wide.u32 %o, %t, 4", "and.b32 %v, %t, 31;\n  mul.wide.u32 %o, %v, 4")
"""both warps store the row's number to its first 32 words"""
ODD = "  shr.u32 %v, %t, 5;\n  and.b32 %v, %v, %parity;\n"
LAST = "  setp.eq.u32 %done, %tile, 43;\n  selp.u32 %v, %v, 0, %done;\n"
SUM = "  add.u32 %v, %v, %tile;\n" + STORE.replace("%tile", "%v")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("store", "rows", "verdict"), [
    (STORE, 1, "verified"),
    (STORE, 4, "verified"),
    (STORE + "  st.shared.b32 [total], %tile;\n", 4, "incomplete"),
    (ODD + SUM, 4, "incomplete"),
    (ODD + LAST + SUM, 45, "incomplete"),
])  # fmt: skip
def test_equal_stores_are_compared_for_each_cluster_in_each_state(store: str, rows: int, verdict: str, engine: Engine):
    """The last two differ in odd rounds, of all rows or of one alone."""
    report, _ = check(EQUAL.replace(STORE, store), rows, engine=engine)
    assert report.verdict == verdict, report.notes
    assert {finding.code for finding in report.findings} == {"same-value-store"}


COPIES = """
  mov.u32 %v, rows;
  mad.lo.u32 %v, %t, 4, %v;
  st.shared.u32 [%v], %tile;
  fence.proxy.async.shared::cta;
  bar.sync 1;
  mad.wide.u32 %o, %tile, 256, %out;
  mov.u32 %v, rows;
  setp.lt.u32 %p, %t, 32;
  @!%p bra COPIED;
  cp.async.bulk.global.shared::cta.bulk_group [%o], [%v], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
COPIED:
"""
"""all lanes of a warp copy a row from shared memory, with the same operands"""
OWN_WORDS = COPIES.replace(
    "  setp.lt.u32 %p, %t, 32;", "  and.b32 %more, %t, 0; add.u32 %v, %v, %more;\n  setp.lt.u32 %p, %t, 32;"
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("copies", "verdict"), [
    (COPIES, "verified"),
    (COPIES.replace("_group 0;", "_group 1;"), "failed"),  # the next row overwrites what the copies read
    (OWN_WORDS, "incomplete"),  # operands that only this run shows to be equal
])  # fmt: skip
def test_copies_of_all_lanes_are_decided_for_every_assignment(copies: str, verdict: str, engine: Engine):
    head = "  .shared .align 4 .b32 total;\n"
    text = STEAL.replace(head, head + "  .shared .align 16 .b8 rows[256];\n")
    store = text[text.index("  mul.wide.u32 %o, %t, 4;") : text.index("WAIT:\n")]
    report, result = check(text.replace(store, copies), 4, engine=engine, sms=1)
    assert report.verdict == verdict, (report.notes, report.findings)
    if verdict == "verified":
        assert {finding.code for finding in report.findings} == {"same-value-store"}
        assert (result == np.arange(4)[:, None]).all()
    if verdict == "incomplete":
        assert any("which are compared for one assignment only" in note for note in report.notes), report.notes


def test_copies_of_all_lanes_are_compared_in_runs_with_other_assignments():
    """Here each CTA works for one row.  If one takes several, a row overwrites what copies of the last one read."""
    head = "  .shared .align 4 .b32 total;\n"
    text = STEAL.replace(head, head + "  .shared .align 16 .b8 rows[256];\n")
    store = text[text.index("  mul.wide.u32 %o, %t, 4;") : text.index("WAIT:\n")]
    report, _ = check(text.replace(store, COPIES.replace("_group 0;", "_group 1;")), 4)
    assert report.verdict == "failed"
    assert any("in a run of cluster 0 that takes" in note for note in report.notes), report.notes


def test_a_warning_with_another_assignment_decides_nothing(monkeypatch: pytest.MonkeyPatch):
    """The launch was verified if a run with another assignment had no error, but a warning of its own."""
    run_with = assignments._run_with

    def with_warning(bound, outcome, initial, assignment, where):
        found = run_with(bound, outcome, initial, assignment, where)
        more = [replace(raw, pc=raw.pc - 1) for raw in outcome.findings if raw.code == "same-value-store"]
        return found._replace(findings=more, notes=[f"seen with --clc {assignment}"])

    monkeypatch.setattr(assignments, "_run_with", with_warning)
    text = EQUAL.replace(STORE, STORE + "  st.shared.b32 [total], %tile;\n")
    report, _ = check(text, 4)
    assert report.verdict == "incomplete"


COLUMNS = """  mov.u32 %s, slot; setp.lt.u32 %z, %t, 32;
  @!%z bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
  bar.sync 0;
  ld.shared.b32 %base, [%s];
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%base], {%t};
  tcgen05.wait::st.sync.aligned;
"""
LOADED = "  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%w}, [%base];\n  bar.sync 0;\n  add.u32 %tile, %tile, %w;\n"
RELEASED = """  bar.sync 0;
  @!%z bra END;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 32;
END:
  ret;
"""


@pytest.mark.parametrize("clc", ["robin", "one", "reverse"])
def test_a_load_that_is_used_behind_a_barrier_is_no_error_of_another_assignment(clc: str):
    """With another assignment, the launch ran again without waits, so that it failed."""
    names = "  .shared .align 4 .b32 slot;\n  .reg .b32 %s, %base, %w; .reg .pred %z;\n"
    text = STEAL.replace("  ld.param", names + "  ld.param", 1).replace("LOOP:\n", COLUMNS + "LOOP:\n")
    text = text.replace(STORE, LOADED + STORE).replace("  ret;\n", RELEASED)
    report, _ = check(text, 4, clc=clc)
    assert (report.verdict, [finding.code for finding in report.findings]) == ("incomplete", ["tmem-read-unwaited"])


def test_values_that_pass_on_unchanged_are_proven():
    report, _ = check(STEAL.replace(STORE, "  ld.shared.b32 %v, [total];\n" + STORE), 4)
    assert report.verdict == "verified"


def test_a_proven_launch_is_right_for_each_assignment():
    """Every sequence of clusters that one of three may take."""
    from wsemu.launch.cancellation import Plan
    from wsemu.launch.running import bind_launch, ran
    from wsemu.model import settings
    from wsemu.model.launch_shape import configure

    kernel = wsemu.load_ptx(STEAL)["k"]
    for count in range(3):
        for taken in permutations((1, 2), count):
            result = np.zeros((3, 64), np.uint32)
            bound, _ = bind_launch(kernel, configure(3, 64, 0, 0, None, arch=None), [result], settings.current())
            chain = [0, *taken, 3]
            successors = dict(pairwise(chain))
            found, *_ = ran(bound, None, only=(0,), plan=Plan(0, tuple(successors.get(n, 3) for n in range(3))))
            assert (found.status, found.findings) == ("done", [])
            assert all((result[n] == (n if n in taken else 0)).all() for n in range(3))


@pytest.mark.parametrize("engine", ENGINES)
def test_responses_name_the_first_cta_of_a_cluster(engine: Engine):
    from wsemu.launch.cancellation import list_responses
    from wsemu.model.launch_shape import configure

    found = list_responses(configure((4, 2, 6), 32, 0, 0, (2, 1, 3), arch=None))["responses"].reshape(-1, 4)
    assert found.shape == (9, 4)
    assert found[7].tolist() == [2, 1 | 3 << 16, 1, 0]
    assert found[8].tolist() == [0, 0, 0, 0]
    assert check(STEAL, 1, engine=engine)[0].verdict == "verified"


def test_an_unknown_assignment_is_refused():
    with pytest.raises(UsageError, match="no assignment"):
        check(STEAL, 1, clc="two")


@pytest.mark.parametrize(("target", "has"), [("sm_100", False), ("sm_100a", True)])
def test_responses_to_all_ctas_need_a_target_of_one_family(target: str, has: bool):
    text = PAIRS.replace("sm_100a", target)
    assert ".multicast::cluster::all" in text
    if has:
        assert check(text, 4, cluster=2)[0].verdict == "verified"
    else:
        with pytest.raises(KernelError, match="needs sm_100f or sm_110f or sm_120f"):
            check(text, 4, cluster=2)
