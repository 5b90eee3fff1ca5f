"""Edits that are tried: what is a cure, what is said of it, and that it is right as it is printed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from tests.test_programs import run
from wsemu import cuda, ptx
from wsemu.app.fix import Fixes
from wsemu.launch.attempts import Launched
from wsemu.model import settings
from wsemu.model.cure import Change, Cure, Edit, Trials
from wsemu.repair import search
from wsemu.repair.search import Search
from wsemu.report.terminal import render

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "tests" / "data" / "cures.json").read_text(encoding="utf-8"))
EVERYWHERE = "deadlock-free and race-free in every schedule"
PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""


def patched(source: str, diff: list[str]) -> str:
    """A text with the hunks of a unified diff, as a user would apply what is printed."""
    lines, shift = source.splitlines(), 0
    hunks = "\n".join(diff).split("@@ -")[1:]
    for hunk in hunks:
        head, *body = hunk.rstrip("\n").split("\n")
        at = int(head.partition(",")[0].partition(" ")[0]) - 1 + shift
        old = [line[1:] for line in body if line[:1] != "+"]
        new = [line[1:] for line in body if line[:1] != "-"]
        assert lines[at : at + len(old)] == old
        lines[at : at + len(old)] = new
        shift += len(new) - len(old)
    return "\n".join(lines) + "\n"


def trials(report: wsemu.Report) -> Trials:
    """What was tried for a report that is shown."""
    assert report.trials is not None
    return report.trials


@pytest.mark.parametrize("name", STORED)
def test_a_program_with_its_printed_cure_is_verified(name, tmp_path):
    """benchmarks/cures.py stores what is printed."""
    path = tmp_path / "program.py"
    path.write_text(patched((ROOT / name).read_text(encoding="utf-8"), STORED[name]["diff"]), encoding="utf-8")
    assert "failed" not in {report.verdict for report in run(path)}


@pytest.mark.parametrize("name", [
    "tests/fail/all-arrive/both_sides_arrive.py",
    "tests/fail/race/no_loop_back_barrier.py",
    "tests/fail/proxy/reduced_without_a_fence.py",
    "tests/fail/uninitialized-read/sum_without_a_start.py",
])  # fmt: skip
def test_the_stored_cures_are_those_of_today(name):
    report = next(report for report in run(ROOT / name) if report.findings)
    cure = report.cures(budget=PLENTY)[0]
    assert (cure.says, cure.diff) == (STORED[name]["says"], STORED[name]["diff"])


# -- slips of the pen --------------------------------------------------------------------------------------------------
F32 = np.float32


@cuda.jit
def role_with_one_tile_more(x, y):
    tile = cuda.shared.array(32, F32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        total = F32(0)
        for _ in range(4):
            ptx.bar_sync(1, 64)
            total += tile[lane]
            ptx.bar_arrive(2, 64)
        y[lane] = total
    else:
        for i in range(4 + 1):
            tile[lane] = x[i % 4, lane]
            ptx.bar_arrive(1, 64)
            ptx.bar_sync(2, 64)


@cuda.jit
def stencil_one_too_far(x, y):
    i = cuda.grid(1)
    if i >= 1:
        y[i] = x[i - 1] + x[i + 1]


@cuda.jit
def warp_for_block(x, y):
    tile = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncwarp()
    y[t] = tile[63 - t]


@cuda.jit
def barrier_in_a_branch(x, y, n):
    tile = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
        cuda.syncthreads()
    if t < n:
        y[t] = tile[n - 1 - t]


@cuda.jit
def ring_of_the_wrong_count(x, y):
    tile = cuda.shared.array((2, 32), F32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        for i in range(2):
            tile[i, lane] = x[i, lane]
            ptx.bar_arrive(1 + i, 96)
    else:
        for i in range(2):
            ptx.bar_sync(1 + i, 96)
            y[i, lane] = tile[i, lane]


@cuda.jit
def transposed(x, y):
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    y[i, j] = x[j, i]


@cuda.jit
def shuffle_behind_a_return(x, y, n):
    t = cuda.threadIdx.x
    value = x[t]
    if t >= n:
        return
    other = cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
    y[t] = other


@cuda.jit
def queue_drained_at_once(x, y):
    queue = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    queue[t] = x[t]
    if t == 0:
        total = F32(0)
        for k in range(64):
            total += queue[k]
        y[0] = total


@cuda.jit
def vector_at_an_odd_word(x, y):
    t = cuda.threadIdx.x
    a, b = ptx.ld_v2(x, 2 * t + 1)
    y[t] = a + b


@cuda.jit
def used_before_it_is_there(x, y):
    tile = cuda.shared.array(32, F32)
    t = cuda.threadIdx.x
    for i in range(2):
        ptx.cp_async_ca(tile, t, x, 32 * i + t, 4)
        ptx.cp_async_commit_group()
        y[i, t] = tile[t]
        ptx.cp_async_wait_group(0)


@cuda.jit
def both_ways(x, y):
    tile = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    for _ in range(3):
        tile[t] = x[t]
        cuda.syncthreads()
        y[t] = tile[63 - t]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, F32)


SLIPS = {
    "the loop bound of one role": (
        role_with_one_tile_more, 64, (zeros(4, 32), zeros(32)), ["dangling-arrive", "deadlock", "barrier-recycling"],
        ["range(4)", "`4`"],
    ),
    "an index by one": (stencil_one_too_far, 64, (zeros(64), zeros(64)), ["out-of-bounds"], ["i + 1"]),
    "a warp's barrier": (warp_for_block, 64, (zeros(64), zeros(64)), ["race"], ["cuda.syncthreads()"]),
    "a barrier in a branch": (
        barrier_in_a_branch, 64, (zeros(64), zeros(64), 40), ["barrier-divergence"], ["cuda.syncthreads()"],
    ),
    "the count of a ring": (
        ring_of_the_wrong_count, 64, (zeros(2, 32), zeros(2, 32)), ["deadlock", "oversubscribed", "race"], ["64"],
    ),
    "a shuffle behind a return": (
        shuffle_behind_a_return, 32, (zeros(32), zeros(32), 20), ["undefined-shuffle"], ["if t < n:"],
    ),
    "a queue": (queue_drained_at_once, 64, (zeros(64), zeros(1)), ["race", "intra-warp-race"], ["cuda.syncthreads()"]),
    "a vector": (vector_at_an_odd_word, 32, (zeros(72), zeros(32)), ["misaligned"], ["2 * t"]),
    "a wait after the use": (
        used_before_it_is_there, 32, (zeros(64), zeros(2, 32)), ["race", "async-outlives-cta"],
        ["cp_async_wait_group(0)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_named_and_its_cure_proven(name):
    kernel, threads, arguments, codes, words = SLIPS[name]
    report = wsemu.check(kernel, 1, threads, arguments)
    shown = report.helped(PLENTY)
    assert shown.findings[0].code in codes
    assert any(word in report.cures()[0].says for word in words), [cure.says for cure in report.cures()]
    assert "= help: proven: " in render(shown)
    assert trials(shown).groups[0][0] == 0


def test_what_is_expected_decides_between_two_cures():
    """A swapped index beside a guard: both are verified, and only one computes what is meant."""
    x, y = np.arange(8 * 4, dtype=F32).reshape(8, 4), zeros(8, 4)
    report = wsemu.check(transposed, 1, (8, 4), (x, y))
    assert report.findings[0].code == "out-of-bounds"
    cure = report.cures(expected={"y": x}, budget=PLENTY)[0]
    assert (cure.edits[0].kind, cure.expected, cure.drops) == ("swap", True, False)


def test_a_condition_that_leaves_out_stores_comes_after_edits_that_keep_them():
    cures = wsemu.check(stencil_one_too_far, 1, 64, (zeros(64), zeros(64))).cures(budget=PLENTY)
    drops = [cure.drops for cure in cures]
    assert not drops[0]
    assert drops == sorted(drops)


def test_two_cures_with_other_results_are_shown_with_how_they_differ():
    x = np.arange(64, dtype=F32)
    report = wsemu.check(stencil_one_too_far, 1, 64, (x, zeros(64))).helped(PLENTY)
    other = trials(report).other
    assert other is not None
    assert other.results > 0
    assert "`y` differs in " in other.differs
    assert "= or, with other results: proven: " in render(report)


@cuda.jit
def sums_of_the_next_rows(a, y):
    total = F32(0)
    for k in range(a.shape[0]):
        total += a[k, cuda.threadIdx.x] * a[k + 1, cuda.threadIdx.x]
    y[cuda.threadIdx.x] = total


def test_an_edit_that_computes_less_says_so_and_comes_after_one_that_does_not():
    a = np.arange(9 * 32, dtype=F32).reshape(9, 32)
    report = wsemu.check(sums_of_the_next_rows, 1, 32, (a, zeros(32))).helped(PLENTY)
    cures = trials(report).cures
    assert [cures[0].less, cures[0].caution] == ["", ""]
    shorter = next(cure for cure in cures if cure.edits[0].kind == "bound")
    assert shorter.less == "512 loads of `a` in place of 544"
    assert shorter.caution == " (it computes less: 512 loads of `a` in place of 544)"
    shown = report.model_copy(update={"trials": trials(report).model_copy(update={"cures": [shorter]})})
    assert f"proven: {shorter.says}{shorter.caution}; then verified: " in " ".join(render(shown).split())


@cuda.jit
def one_row_too_many(a, y):
    total = F32(0)
    for k in range(a.shape[0] + 1):
        total += a[k, cuda.threadIdx.x]
    y[cuda.threadIdx.x] = total


def test_what_went_wrong_is_not_counted_as_left_out():
    cure = wsemu.check(one_row_too_many, 1, 32, (zeros(9, 32), zeros(32))).cures(budget=PLENTY)[0]
    assert (cure.edits[0].kind, cure.less) == ("bound", "")


# -- what a search leaves alone ----------------------------------------------------------------------------------------
def test_the_arrays_hold_what_the_launch_left_in_them():
    x, y = np.arange(64, dtype=F32), zeros(64)
    report = wsemu.check(warp_for_block, 1, 64, (x, y))
    x[:], y[:] = 5, 7
    assert report.cures(budget=PLENTY)
    assert set(x) == {5}
    assert set(y) == {7}


def test_a_launch_without_findings_keeps_nothing_and_tries_nothing():
    @cuda.jit
    def copied(x, y):
        y[cuda.threadIdx.x] = x[cuda.threadIdx.x]

    report = wsemu.check(copied, 1, 32, (zeros(32), zeros(32)))
    assert report._launched is None
    assert report.helped(PLENTY) is report
    assert report.cures() == []


def test_findings_stay_as_they_are_until_a_report_is_shown():
    report = wsemu.check(warp_for_block, 1, 64, (zeros(64), zeros(64)))
    findings = list(report.findings)
    report.helped(PLENTY)
    assert report.trials is None
    assert report.findings == findings


def test_a_report_that_travels_goes_without_its_launch():
    report = wsemu.check(warp_for_block, 1, 64, (zeros(64), zeros(64)))
    sent = pickle.loads(pickle.dumps(report))
    assert sent._launched is None
    assert sent == report
    assert wsemu.Report.model_validate_json(report.helped(PLENTY).model_dump_json()) == report.helped()


def test_nothing_is_tried_without_time_for_it():
    with settings.using(settings.Settings(fix_budget=0.0)):
        report = wsemu.check(warp_for_block, 1, 64, (zeros(64), zeros(64)))
    assert trials(report.helped()).tried == 0
    assert "= hint: " in render(report)
    assert "proven" not in render(report)


def test_why_a_search_ended_is_said():
    report = wsemu.check(warp_for_block, 1, 64, (zeros(64), zeros(64))).helped(1e-9)
    assert "no edit was tried: " in " ".join(render(report).split())


def test_expected_names_arrays_of_the_launch():
    report = wsemu.check(warp_for_block, 1, 64, (zeros(64), zeros(64)))
    with pytest.raises(wsemu.UsageError, match="expected names 'z': the kernel's arrays are x, y"):
        report.cures(expected={"z": zeros(64)})
    with pytest.raises(wsemu.UsageError, match=r"expected `y` is of shape \(3,\): the launch had one of shape \(64,\)"):
        report.cures(expected={"y": zeros(3)})


# -- findings of one cause ---------------------------------------------------------------------------------------------
def test_findings_with_one_cause_are_shown_as_one():
    report = wsemu.check(both_ways, 1, 64, (zeros(64), zeros(64))).helped(PLENTY)
    text, whole = render(report), render(report, all_=True)
    assert len(report.findings) > 1
    assert f"= {len(report.findings) - 1} more with the same cause:" in text
    assert text.count("  --> ") == 1
    assert whole.count("  --> ") == len(report.findings)


def test_without_a_cure_findings_about_one_edge_are_one():
    report = wsemu.check(both_ways, 1, 64, (zeros(64), zeros(64))).helped(0.0)
    assert trials(report).groups == [[0, 1]]
    assert not trials(report).cures


def test_a_finding_as_text_is_a_line():
    finding = wsemu.check(warp_for_block, 1, 64, (zeros(64), zeros(64))).findings[0]
    line = finding.places[0].line
    assert str(finding) == f"error[race] at test_repair.py:{line}: read-after-write hazard on shared `tile[63 - t]`"


# -- as data -----------------------------------------------------------------------------------------------------------
SOURCE = "a = 1\nb = 2\nc = 3\n"


def cure(*changes: tuple[int, int, int, int, str], diff: list[str]) -> Cure:
    made = [
        Change(file="f.py", line=line, column=column, end_line=end_line, end_column=end_column, text=text)
        for line, column, end_line, end_column, text in changes
    ]
    return Cure(file="f.py", edits=[Edit(kind="insert", says="", changes=made)], diff=diff, proof="")


def test_changes_and_diff_say_the_same():
    put = cure((2, 1, 2, 1, "x\n"), diff=["@@ -1,3 +1,4 @@", " a = 1", "+x", " b = 2", " c = 3"])
    assert put.applied(SOURCE) == patched(SOURCE, put.diff) == "a = 1\nx\nb = 2\nc = 3\n"
    assert put.blocks() == [(1, 1, ["a = 1", "x"])]
    assert put.lines()[1] == ("+", 2, "x")
    end = cure((4, 1, 4, 1, "d\n"), diff=["@@ -2,2 +2,3 @@", " b = 2", " c = 3", "+d"])
    assert end.applied(SOURCE) == SOURCE + "d\n"
    swapped = cure(
        (3, 5, 3, 6, "4"), (1, 1, 2, 1, ""), diff=["@@ -1,3 +1,2 @@", "-a = 1", " b = 2", "-c = 3", "+c = 4"]
    )
    assert swapped.applied(SOURCE) == patched(SOURCE, swapped.diff) == "b = 2\nc = 4\n"
    assert swapped.blocks() == [(1, 1, []), (3, 3, ["c = 4"])]


def test_a_cure_of_another_text_is_not_applied():
    with pytest.raises(ValueError, match="the file has changed"):
        cure((9, 1, 9, 1, "x\n"), diff=[]).applied(SOURCE)


# -- the command -------------------------------------------------------------------------------------------------------
PROGRAM = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def warp_for_block(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncwarp()
    y[t] = tile[63 - t]

for _ in range(2):
    warp_for_block[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))
"""
PATCH = """\
--- a/program.py
+++ b/program.py
@@ -7,5 +7,5 @@
     t = cuda.threadIdx.x
     tile[t] = x[t]
-    cuda.syncwarp()
+    cuda.syncthreads()
     y[t] = tile[63 - t]
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def test_fix_prints_a_patch(program):
    done = command("check", "--fix-budget", PLENTY, "--fix", "program.py", cwd=program.parent)
    assert done.returncode == 1
    assert PATCH in done.stdout
    assert program.read_text() == PROGRAM


def test_a_file_is_edited_where_the_user_agrees(program, monkeypatch):
    for answer, text in (("n", PROGRAM), ("y", PROGRAM.replace("syncwarp", "syncthreads"))):
        monkeypatch.setattr("builtins.input", lambda answer=answer: answer)
        command("check", "--fix-budget", PLENTY, "--write", "program.py", cwd=program.parent)
        assert program.read_text() == text
    done = command("check", "--fix", "program.py", cwd=program.parent)
    assert done.returncode == 0
    assert "no fix is needed" in done.stdout


def test_formats_for_machines_have_the_edits(program):
    options = ("check", "--fix-budget", PLENTY, "--format")
    sarif = json.loads(command(*options, "sarif", "program.py", cwd=program.parent).stdout)
    (change,) = sarif["runs"][0]["results"][0]["fixes"][0]["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "program.py"
    assert change["replacements"][0]["insertedContent"]["text"] == "cuda.syncthreads()"
    report = json.loads(command(*options, "json", "program.py", cwd=program.parent).stdout)["reports"][0]
    assert report["trials"]["cures"][0]["file"] == "program.py"
    said = command(*options, "github", "program.py", cwd=program.parent).stdout
    assert "line 9 of program.py:%0A```suggestion%0A    cuda.syncthreads()%0A```" in said


@cuda.jit
def with_names(y):
    tile = cuda.shared.array(shape=(32, 2), dtype=np.float32)
    other = cuda.shared.array(shape=64, dtype=np.float32)
    i = cuda.threadIdx.x
    cuda.atomic.add(ary=y, idx=i, val=tile[i, 0] + other[i])
    cuda.syncwarp(mask=0xFFFFFFFF)


def test_arguments_given_by_name_are_edited_too() -> None:
    report = wsemu.check(with_names, 1, 32, (np.zeros(32, np.float32),)).helped(5.0)
    assert report.trials is not None
    assert any("fill `other` with zeros" in str(cure) for cure in report.trials.cures)


# -- what is said ------------------------------------------------------------------------------------------------------
@cuda.jit
def counted_and_read(count, y):
    cuda.atomic.add(count, 0, 1)
    y[cuda.threadIdx.x] = count[0]


def test_of_a_search_that_its_time_ended_no_number_is_said():
    """It differs from run to run."""
    made = Trials(groups=[[0]], tried=35, stopped="the time for it is used up (`--fix-budget`)")
    report = wsemu.check(counted_and_read, 1, 64, (np.zeros(1, np.int32), np.zeros(64, np.int32)))
    text = " ".join(render(report.model_copy(update={"trials": made})).split())
    assert "none of the edits that were tried is a cure: the time for it is used up" in text
    text = " ".join(render(report.model_copy(update={"trials": made.model_copy(update={"stopped": ""})})).split())
    assert "none of the 35 edits that were tried is a cure" in text


def test_cures_are_shown_once_and_other_results_beside_the_first():
    report = wsemu.check(stencil_one_too_far, 1, 64, (np.arange(64, dtype=F32), zeros(64)))
    shown = report.helped(PLENTY)
    known = trials(shown)
    twice = [cure.model_copy(update={"findings": [0, 1]}) for cure in known.cures]
    both = [shown.findings[0], shown.findings[0]]
    changed = known.model_copy(update={"cures": twice, "groups": [[0], [1]]})
    text = render(shown.model_copy(update={"findings": both, "trials": changed}))
    assert text.count("= help: proven: ") == text.count("= or, with other results: proven: ") == 1


def test_a_plain_load_beside_an_atomic_is_told_what_takes_its_place():
    report = wsemu.check(counted_and_read, 1, 64, (np.zeros(1, np.int32), np.zeros(64, np.int32)))
    assert any("use the value that the atomic returns" in (error.help or "") for error in report.errors)


def test_a_mask_that_leaves_out_lanes_is_told_which_to_name():
    @cuda.jit
    def half(x, y):
        y[cuda.threadIdx.x] = cuda.shfl_xor_sync(0xFFFF, x[cuda.threadIdx.x], 1)

    report = wsemu.check(half, 1, 32, (zeros(32), zeros(32)))
    assert (report.errors[0].help or "").endswith("or use the mask of all lanes that execute it, 0xffffffff")
    assert report.cures(budget=PLENTY)[0].says.startswith("write `0xFFFFFFFF` in place of `0xFFFF`")


def test_a_guard_names_each_index_that_wraps_once():
    @cuda.jit
    def diagonal(x, y):
        i = cuda.threadIdx.x
        y[i] = x[i - 1, i - 1]

    report = wsemu.check(diagonal, 1, 8, (zeros(8, 8), zeros(8)))
    assert (report.errors[0].help or "").startswith("guard the index with `if i - 1 >= 0:`")


@cuda.jit
def tile_with_a_halo(a, b):
    s = cuda.shared.array((10, 10), F32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for k in range(ty * 8 + tx, 100, 64):
        y = k // 10 + cuda.blockIdx.y * 8 - 1
        x = k % 10 + cuda.blockIdx.x * 8 - 1
        s[k // 10, k % 10] = a[y, x]
    cuda.syncthreads()
    b[cuda.blockIdx.y * 8 + ty, cuda.blockIdx.x * 8 + tx] = s[ty, tx + 1] + s[ty + 2, tx + 1]


@cuda.jit
def row_with_a_halo(x, y):
    s = cuda.shared.array(34, F32)
    t = cuda.threadIdx.x
    s[t] = x[t + 4]
    cuda.syncthreads()
    y[t] = s[t]


def test_a_guard_around_a_load_into_shared_memory_is_told_with_its_else():
    """The guard alone leaves an `uninitialized-read`."""
    told = "with an `else` that stores to `s`, such as 0 (or it is read uninitialized)"
    report = wsemu.check(tile_with_a_halo, (2, 2), (8, 8), (zeros(16, 16), zeros(16, 16)))
    help_ = report.errors[0].help or ""
    assert help_.startswith(f"guard the index with `if y >= 0 and x >= 0:`, {told}, or write")
    report = wsemu.check(row_with_a_halo, 1, 32, (zeros(32), zeros(32)))
    assert report.errors[0].help == f"guard the access: `if t + 4 < x.shape[0]:`, {told}"


def test_all_indices_of_a_load_may_lie_outside_at_once():
    a = np.arange(256, dtype=F32).reshape(16, 16)
    report = wsemu.check(tile_with_a_halo, (2, 2), (8, 8), (a, zeros(16, 16)))
    cure = report.cures(budget=PLENTY)[0]
    assert "`(a[y, x] if 0 <= y < a.shape[0] and 0 <= x < a.shape[1] else 0)`" in cure.says


def test_a_launch_that_takes_all_of_the_time_is_not_made_again(monkeypatch):
    report = wsemu.check(warp_for_block, 1, 64, (zeros(64), zeros(64))).model_copy(update={"seconds": 5.0})
    assert trials(report.helped(2.0)).tried  # of few instructions: the time was not theirs
    assert report._launched is not None
    report._launched.instructions = 3_000_000
    monkeypatch.setattr(Search, "remember", None)  # nor are those that were verified before
    report = report.model_copy()
    report._trials = None
    known = trials(report.helped(2.0))
    assert (known.tried, known.stopped) == (0, "a launch takes too long to be repeated")


@cuda.jit
def reversed_in_tiles(x, y):
    s = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    for i in range(4):
        s[t] = x[cuda.blockIdx.x, i, t]
        cuda.syncthreads()
        y[cuda.blockIdx.x, i, t] = s[63 - t]


def long_report(ctas: int = 40) -> wsemu.Report:
    """Of a launch of many CTAs, as if it had taken long."""
    report = wsemu.check(reversed_in_tiles, ctas, 64, (zeros(ctas, 4, 64) + 1, zeros(ctas, 4, 64)))
    assert report._launched is not None
    report._launched.instructions = 3_000_000
    return report.model_copy(update={"seconds": 1000.0})


def test_edits_of_a_launch_that_takes_long_are_tried_on_some_of_its_ctas(monkeypatch):
    report, before = long_report(), Launched._run
    ran: list[tuple[int, ...]] = []

    def counted(launched, *rest):
        ran.append(launched.only)
        return before(launched, *rest)

    monkeypatch.setattr(Launched, "_run", counted)
    cure, *others = report.cures(budget=PLENTY)
    line = reversed_in_tiles.py_func.__code__.co_firstlineno + 5
    assert (cure.says, cure.proof, others) == (f"insert `cuda.syncthreads()` before line {line}", EVERYWHERE, [])
    assert {*ran[:-1]} == {(0, 39)}
    assert ran[-1] == ()  # the best one is tried on all
    assert report.is_cured_by(cure)


def test_an_edit_that_does_not_mend_all_ctas_is_no_cure(monkeypatch):
    report, before = long_report(), Launched._run
    monkeypatch.setattr(Launched, "_run", lambda launched, *rest: before(launched, *rest) if launched.only else None)
    known = trials(report.helped(PLENTY))
    assert not known.cures
    assert known.stopped == "an edit that fixes some CTAs does not fix all of them"


def test_where_all_ctas_take_too_long_that_is_said(monkeypatch):
    report = long_report()
    monkeypatch.setattr(search, "_OF_ALL", 0.0)
    known = trials(report.helped(PLENTY))
    assert not known.cures
    assert (
        known.stopped
        == "an edit fixes the CTAs that were tried, but a launch of all CTAs takes too long (`--fix-budget`)"
    )


@cuda.jit
def stored_by_several(y):
    if cuda.blockIdx.x % 5 == 2 and cuda.threadIdx.x == 0:
        y[0] = cuda.blockIdx.x


def test_a_part_of_a_launch_tells_its_ctas_as_all_do():
    report = wsemu.check(stored_by_several, 40, 32, (zeros(1),))
    ctas = [site.cta for site in report.errors[0].sites]
    assert ctas == [(7, 0, 0), (2, 0, 0)]
    launched = report._launched
    assert launched is not None
    for wanted, only in (({(2, 0, 0), (7, 0, 0)}, (0, 2, 7, 39)), ({(37, 0, 0), (22, 0, 0)}, (0, 22, 37, 39))):
        part = launched.part(wanted)
        assert part is not None
        assert part.only == only
        with part.again():
            same = part.rerun_unchanged()
        assert same is not None
        assert {site.cta for site in same.report.errors[0].sites} == wanted


@cuda.jit
def met_and_stored(y):
    cuda.cg.this_grid().sync()
    y[cuda.threadIdx.x] = cuda.blockIdx.x


def test_ctas_that_wait_for_each_other_are_not_run_apart():
    report = wsemu.check(met_and_stored, 4, 32, (zeros(32),))
    assert report.verdict == "failed"
    assert report._launched is not None
    assert report._launched.part([(1, 0, 0)]) is None


UNCURED = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def counted_and_read(count, y):
    cuda.atomic.add(count, 0, 1)
    y[cuda.threadIdx.x] = count[0]

counted_and_read[1, 64](np.zeros(1, np.int32), np.zeros(64, np.int32))
"""


def test_without_a_cure_the_command_that_writes_says_so(tmp_path):
    (tmp_path / "program.py").write_text(UNCURED)
    done = command("check", "--fix-budget", 0, "--fix", "--write", "program.py", cwd=tmp_path)
    assert "no fix: no edit that was tried is a cure" in done.stdout
    assert (tmp_path / "program.py").read_text() == UNCURED


@cuda.jit
def stores_of_all(y):
    y[0] = cuda.threadIdx.x


def test_the_command_says_that_no_edit_was_tried():
    """A launch that was not kept has none."""
    fixes, printer = Fixes(), Mock()
    report = wsemu.check(stores_of_all, 1, 64, (np.zeros(1, np.int32),))
    assert report.errors
    fixes.observe(report.drop_launch())
    fixes.finish(printer, 1, write=False)
    assert printer.text.call_args.args[0].startswith("no fix: no edit was tried: launches of more than 64 MiB")


@cuda.jit
def mail_without_an_answer(x, y):
    message = cuda.shared.array(1, np.float32)
    ready, taken = cuda.shared.array(1, np.uint64), cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(ready, 0, 1)
        ptx.mbarrier_init(taken, 0, 1)
    cuda.syncthreads()
    if t == 0:
        for i in range(x.size):
            message[0] = x[i]
            ptx.mbarrier_arrive(ready, 0)
    elif t == 32:
        for k in range(x.size):
            ptx.mbarrier_wait_parity(ready, 0, k & 1)
            y[k] = message[0]


def test_an_mbarrier_that_nobody_uses_gets_both_of_its_sides():
    report = wsemu.check(mail_without_an_answer, 1, 64, (np.ones(4, F32), zeros(4)))
    fix = report.cures(budget=PLENTY)[0]
    assert "`ptx.mbarrier_wait_parity(taken, 0, i & 1 ^ 1)` before" in fix.says
    assert "`ptx.mbarrier_arrive(taken, 0)` after" in fix.says
