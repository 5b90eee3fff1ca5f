"""An edit that cures a launch is tried on those of the program that were verified, and on what its constants give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from tests.test_programs import run
from wsemu import cuda, ptx

F32 = np.float32
PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, F32)


def of_two_roles():
    """A new kernel, so that no test knows launches of another one."""

    @cuda.jit
    def handed_over(x, y, n, m):
        tile = cuda.shared.array(32, F32)
        lane = cuda.threadIdx.x % 32
        if cuda.threadIdx.x < 32:
            for i in range(n):
                tile[lane] = x[i, lane]
                ptx.bar_arrive(1, 64)
                ptx.bar_sync(2, 64)
        else:
            for i in range(m):
                ptx.bar_sync(1, 64)
                y[i, lane] = tile[lane]
                ptx.bar_arrive(2, 64)

    return handed_over


def handed_over(kernel, n: int, m: int) -> wsemu.Report:
    return wsemu.check(kernel, 1, 64, (zeros(5, 32), zeros(5, 32), n, m))


def test_trials_of_a_launch_that_was_verified_leave_its_arrays_as_they_are():
    kernel = of_two_roles()
    x, y = np.ones((5, 32), F32), zeros(5, 32)
    assert wsemu.check(kernel, 1, 64, (x, y, 3, 3)).verdict == "verified"
    x[:], y[:] = 2, 7
    cures = handed_over(kernel, 4, 3).cures(budget=PLENTY)
    assert {cure.says.split(" in line ")[0] for cure in cures} == {
        "write `m` in place of `n`", "write `n` in place of `m`",
    }  # fmt: skip
    assert (x == 2).all()
    assert (y == 7).all()


def test_why_there_is_no_cure_is_said_where_each_would_break_another_launch():
    @cuda.jit
    def of_two_warps(x, y, n):
        tile = cuda.shared.array(96, F32)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        ptx.bar_sync(1, 64)
        y[t] = tile[n - 1 - t]

    assert wsemu.check(of_two_warps, 1, 64, (zeros(64), zeros(64), 64)).verdict == "verified"
    trials = wsemu.check(of_two_warps, 1, 96, (zeros(96), zeros(96), 96)).helped(PLENTY).trials
    assert trials is not None
    assert not any("`96` in place of `64`" in cure.says for cure in trials.cures)
    assert trials.cures or "would be, but break" in trials.stopped


def test_a_line_that_launched_what_was_verified_is_not_edited(tmp_path):
    """What is right for the last launch of the loop is wrong for those before it."""
    file = tmp_path / "program.py"
    file.write_text(
        "import numpy as np\nfrom wsemu import cuda\n\n@cuda.jit\ndef doubled(x, n):\n    i = cuda.grid(1)\n"
        "    if i < n:\n        x[i] = 2 * x[i]\n\nx = np.zeros(60, np.float32)\nfor n in (20, 40, 61):\n"
        "    doubled[2, 32](x, n)\n"
    )
    said = " ".join(command("check", "--fix-budget", 60, "program.py", cwd=tmp_path).stdout.split())
    assert "where the kernel is launched" not in said
    assert "help: proven: write `i < n and i < x.shape[0]` in place of `i < n`" in said  # not `n - 1`: the others...


def test_the_patch_of_a_program_holds_for_launches_that_came_later(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(
        "import numpy as np\nfrom wsemu import cuda, ptx\n\n@cuda.jit\ndef counted(x, y, n):\n"
        "    s = cuda.shared.array(128, np.float32)\n    t = cuda.threadIdx.x\n    s[t] = x[t]\n"
        "    ptx.bar_sync(1, 128)\n    y[t] = s[n - 1 - t]\n\n"
        "x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)\ncounted[1, 96](x, y, 96)\n{}"
    )
    text = file.read_text()
    for more, patched in (("", True), ("counted[1, 128](x, y, 128)\n", False)):
        file.write_text(text.format(more))
        printed = command("check", "--fix-budget", 60, "--fix", "program.py", cwd=tmp_path).stdout
        assert ("+    ptx.bar_sync(1, 96)" in printed or "+counted[1, 128](x, y, 96)" in printed) == patched


def test_an_edit_of_ptx_is_tried_on_launches_that_were_verified():
    """A barrier of 64 threads is right where a warp leaves early, and wrong where none does."""

    def of_64(*launches: int) -> list[bool]:
        kernel = wsemu.load_ptx(Path(__file__).resolve().parents[1] / "ptx" / "broken_barriers.sm_90.ptx")[
            "early_return"
        ]
        reports = [wsemu.check(kernel, 1, 96, (np.zeros(96, np.int32), np.zeros(96, np.int32), n)) for n in launches]
        return [", 64`" in cure.says for cure in reports[-1].cures(budget=PLENTY)]

    assert any(of_64(64))
    assert not any(of_64(96, 64))


# -- what stands at the top of the file --------------------------------------------------------------------------------
HEAD = "import numpy as np\nfrom wsemu import cuda, ptx\nfrom wsemu.patterns import Pipeline\n\n"
RING = """\
TILE, USERS = 32, 64
RING = Pipeline(2, 1, USERS)

@cuda.jit
def doubled(x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    thread = cuda.threadIdx.x
    RING.start(bars)
    if thread == TILE:
        for i in range(4):
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared(tile, (RING.stage(i), 0), x, i * TILE, 4 * TILE, bars, RING.full(i))
            RING.producer_commit(bars, i, 4 * TILE)
    elif thread < TILE:
        for i in range(4):
            RING.consumer_wait(bars, i)
            y[i * TILE + thread] = 2 * tile[RING.stage(i), thread]
            RING.consumer_release(bars, i)

doubled[1, 64](np.zeros(4 * TILE, np.float32), np.zeros(4 * TILE, np.float32))
"""
GROUPS = """\
THREADS, ON_THE_WAY = 32, 2

@cuda.jit
def copied(x, y):
    buffer = cuda.shared.array((2, 32), np.float32)
    t = cuda.threadIdx.x
    ptx.cp_async_ca(buffer, (0, t), x, t, 4)
    ptx.cp_async_commit_group()
    for i in range(4):
        if i + 1 < 4:
            ptx.cp_async_ca(buffer, ((i + 1) % 2, t), x, (i + 1) * 32 + t, 4)
        ptx.cp_async_commit_group()
        ptx.cp_async_wait_group(ON_THE_WAY)
        y[i, t] = buffer[i % 2, t]

copied[1, THREADS](np.zeros(128, np.float32), np.zeros((4, 32), np.float32))
"""
SIZE = """\
N = 48

@cuda.jit
def reversed_(x, y):
    tile = cuda.shared.array(N, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[63 - t]

reversed_[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))
"""


def reported(tmp_path: Path, text: str, name: str = "program") -> wsemu.Report:
    file = tmp_path / f"{name}.py"
    file.write_text(HEAD + text)
    return next(report for report in run(file) if report.findings)


@pytest.mark.parametrize(("text", "says"), [
    (RING, "write `32` in place of `64` in line 5"),
    (RING.replace("USERS)", "2 * TILE)"), "write `TILE` in place of `2 * TILE` in line 6"),
    (GROUPS, "write `1` in place of `2` in line 5"),
    (SIZE, "write `64` in place of `48` in line 5"),
])  # fmt: skip
def test_a_number_at_the_top_of_the_file_is_edited_there(tmp_path, text, says):
    """What follows from it follows; afterwards the names have their values again."""
    found = reported(tmp_path, text).cures(budget=PLENTY)
    assert says in [cure.says for cure in found]
    cure = next(cure for cure in found if cure.says == says)
    file = tmp_path / "program.py"
    file.write_text(cure.applied(file.read_text()))
    assert {report.verdict for report in run(file)} == {"verified"}


@pytest.mark.parametrize("use", ["np.zeros(N + 16, np.float32)", "np.zeros(max(64, N), np.float32)"])
def test_a_number_that_the_host_uses_too_stays(tmp_path, use):
    """An edit there would change an array that was not made with it."""
    report = reported(tmp_path, SIZE.replace("np.zeros(64, np.float32))", f"{use})"))
    cures = report.cures(budget=PLENTY)
    assert cures
    assert not any("in line 5" in cure.says for cure in cures)
    assert any("`N + 16` in place of `N`" in cure.says for cure in cures)


def test_a_pattern_may_change_where_the_host_sees_the_same_of_it(tmp_path):
    shown = RING.replace("doubled[1, 64](", "doubled[1, 32 * RING.stages](")
    assert any("in line 5" in cure.says for cure in reported(tmp_path, shown).cures(budget=PLENTY))
    seen = RING.replace("doubled[1, 64](", "doubled[1, RING.consumers](")
    assert not any("in line 5" in cure.says for cure in reported(tmp_path, seen, "other").cures(budget=PLENTY))


def test_an_edit_that_stores_where_the_launch_did_not_leaves_arrays_alone():
    """`x` and `y` exchanged is tried, too."""

    @cuda.jit
    def pick(x, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = x[3 * i + 1]

    x, y = np.arange(40, dtype=F32), zeros(32)
    report = wsemu.check(pick, 1, 32, (x, y))
    stored = y.copy()
    report.cures()
    assert np.array_equal(x, np.arange(40, dtype=F32))
    assert np.array_equal(y, stored)
