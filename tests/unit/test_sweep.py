"""Sizes at which programs break: how they are chosen, what is reported, the smallest that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.campaign import sweep, sweep_command
from wsemu.campaign.sizes import Reading, edges, read, smaller
from wsemu.campaign.sweep import Sweep, attempt, of
from wsemu.campaign.sweep_report import document, plain, ranges
from wsemu.campaign.user_file import import_file
from wsemu.launch.running import bind_launch
from wsemu.model.launch_shape import configure
from wsemu.model.settings import Settings


@cuda.jit
def doubled(n, x):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        x[i] = 2 * x[i]


@cuda.jit
def staged(n, x):
    ring = cuda.shared.array((3, 32), np.int32)
    i = cuda.threadIdx.x
    for k in range(n):
        ring[k % 3, i] = k
        cuda.syncthreads()
        x[i] += ring[k % 3, 31 - i]


@cuda.jit
def odd_one(n, x):
    i = cuda.grid(1)
    if n == 77:
        x[0] = i
    if i < n:
        x[i] = 1


def run_doubled(n):
    x = np.ones(n, np.int32)
    doubled[2, 32](n, x)
    assert (x == 2).all()


def run_odd_one(n):
    odd_one[3, 32](n, np.zeros(100, np.int32))


def reading(kernel, *arguments):
    bound, _ = bind_launch(kernel, configure(1, 32), arguments, Settings())
    return read(bound.program, bound.configuration)


def test_depths_tiles_and_what_is_compared_are_read_from_the_bytecode():
    found = reading(staged, 5, np.zeros(32, np.int32))
    assert found.depths == {3}
    assert 32 in found.tiles
    assert 77 in reading(odd_one, 5, np.zeros(32, np.int32)).compared


def test_sizes_are_tried_on_both_sides_of_what_was_read():
    found = edges(Reading({77}, {32}, {3}), 200)
    assert {0, 1, 2, 3, 4, 31, 32, 33, 76, 77, 78, 95, 96, 97} <= {*found}
    assert max(found) <= 200


def test_a_program_that_holds_holds_for_all_sizes():
    swept = of(run_doubled).run()
    assert swept.exit_code == 0
    assert not swept.of("fails")
    assert (0,) in swept.tried
    assert any("n up to" in limit for limit in swept.limits)


def test_the_size_that_a_branch_compares_with_is_found():
    swept = of(run_odd_one).run()
    assert [tried.sizes for tried in swept.of("fails")] == [(77,)]
    assert swept.smallest is not None
    assert swept.smallest.sizes == (77,)
    assert "smallest that fails: n=77: odd_one: " in plain(swept)


def test_the_smallest_is_shrunk():
    def late(n):
        assert n < 19, "too many"

    swept = of(late).run(tries=3)
    assert swept.smallest is not None
    assert swept.smallest.sizes == (19,)
    more = len(swept.tried) - 3
    assert f"late  {more + 3} sizes, {more} of them to find the smallest that fails: " in plain(swept)


def test_two_sizes_are_tried_together():
    def product(n, tile):
        assert not (n % 5 == 3 and tile > 1)

    swept = of(product).run(tries=60)
    assert swept.smallest is not None
    assert swept.smallest.sizes == (3, 2)


def test_sizes_that_there_are_not_are_refused():
    def launch(n):
        if n > 40:
            raise ValueError("at most 40")
        doubled[1, n](n, np.zeros(n, np.int32))

    swept = of(launch).run()
    assert swept.tried[0,].came == "refused"
    assert swept.exit_code == 0
    assert swept.limits == ["n up to 40: n=41 is refused: ValueError: at most 40"]


def test_only_given_sizes_are_tried():
    swept = Sweep(run_doubled, {"n": (5, 3, 64)}).run()
    assert sorted(swept.tried) == [(3,), (5,), (64,)]
    assert plain(swept).endswith("run_doubled  3 sizes: 3 hold")


def test_one_size_is_told_in_the_singular():
    assert plain(Sweep(run_doubled, {"n": (5,)}).run()).endswith("run_doubled  1 size: 1 holds")
    assert "1 fails" in plain(Sweep(run_odd_one, {"n": (77,)}).run())


def test_a_decorated_function_is_a_test():
    @wsemu.sweep(n=(1, 76, 77, 90))
    def launches(n):
        run_odd_one(n)

    with pytest.raises(wsemu.SweepFailed) as failure:
        launches()
    assert "smallest that fails: n=77" in str(failure.value)
    wsemu.sweep(n=(1, 2))(run_odd_one)()


def test_what_stays_incomplete_does_not_hold():
    @cuda.jit
    def locked(n, x):
        while cuda.atomic.cas(x, 0, 0, 1) != 0:
            pass
        cuda.atomic.exch(x, 0, 0)

    def launch(n):
        locked[65, 1](n, np.zeros(1, np.int32))  # more CTAs than an exploration accepts

    swept = Sweep(launch, {"n": (1,)}).run()
    assert swept.exit_code == 3
    with pytest.raises(wsemu.UsageError, match="incomplete"):
        Sweep(launch, {"n": (1,)})()


def test_the_time_limit_leaves_what_is_known():
    swept = of(run_doubled).run(time_limit=0.0)
    assert swept.stopped
    assert len(swept.tried) == 1
    assert swept.exit_code == 130


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wsemu.sweep(), "names no parameter"),
        (lambda: wsemu.sweep(m=...)(run_doubled), "no parameter `m`"),
        (lambda: wsemu.sweep(n=cast("Any", 5))(run_doubled), "give sizes"),
        (lambda: wsemu.sweep(n=(-1,))(run_doubled), "whole numbers"),
        (lambda: of(doubled), "no function that makes launches"),
    ],
)
def test_wrong_sweeps_are_refused(make, message):
    with pytest.raises(wsemu.UsageError, match=message):
        make()


def test_smaller_sizes_begin_at_nothing():
    assert list(smaller(100))[:3] == [0, 1, 2]
    assert list(smaller(100))[-1] == 99
    assert list(smaller(0)) == []


def test_numbers_in_a_row_are_ranges():
    assert ranges([0, 1, 2, 5, 31, 32]) == "0-2, 5, 31-32"


PROGRAM = """
import numpy as np
from wsemu import cuda

@cuda.jit
def fill(n, x):
    i = cuda.grid(1)
    if i < n:
        x[i + (n == 33)] = 1

def run(n):
    fill[2, 32](n, np.zeros(n, np.int32))
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fill_program.py").write_text(PROGRAM)
    return Path("fill_program.py")


def test_the_command_reports_and_exits(program, capsys):
    assert sweep_command.command("fill_program.py::run", ["n=0:40"], {}) == 1
    said = capsys.readouterr().out
    assert "smallest that fails: n=33: fill: out-of-bounds" in said
    assert "n holds at 0-32, 34-39" in said


def test_a_value_holds_where_it_does_with_all_others_that_were_tried():
    def deep(n, depth):
        assert depth >= min(n, 2)

    said = plain(Sweep(deep, {"n": (0, 1, 2), "depth": (0, 1, 2)}).run())
    assert "  n holds at 0\n" in said
    assert "  n holds at 1-2 with some depth only\n" in said
    assert "  depth holds at 2\n" in said
    assert "  depth holds at 0-1 with some n only\n" in said


def test_the_command_writes_json(program, capsys):
    assert sweep_command.command("fill_program.py::run", ["n=1,33"], {}, json_format=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["smallest"] == {"n": 33}
    assert found == document(Sweep(import_file(program).run, {"n": (1, 33)}).run())


@pytest.mark.parametrize(
    ("test", "sizes", "message"),
    [
        ("fill_program.py", [], "give FILE::function"),
        ("nothing.py::run", [], "does not exist"),
        ("fill_program.py::walk", [], "no function `walk`"),
        ("fill_program.py::fill", [], "no function that makes launches"),
        ("fill_program.py::run", ["n=x"], "give NAME=SIZES"),
        ("fill_program.py::run", ["m=1"], "no parameter `m`"),
    ],
)
def test_the_command_says_what_is_wrong(program, capsys, test, sizes, message):
    assert sweep_command.command(test, sizes, {}) == 2
    assert message in " ".join(capsys.readouterr().out.split())


def test_sizes_to_draw_from():
    from hypothesis import find

    from wsemu.strategies import sizes

    assert find(sizes(tile=32, depth=3), lambda n: n > 60) == 61
    with pytest.raises(wsemu.UsageError):
        sizes(tile=0)


def test_an_error_of_wsemu_itself_is_no_size_that_is_refused() -> None:
    of_wsemu: dict[str, Any] = {"__name__": "wsemu.machine.run"}
    exec("def inside(n): return [][n]", of_wsemu)
    with pytest.raises(IndexError):
        attempt(lambda n: of_wsemu["inside"](n), {"n": 1})
    assert attempt(lambda n: [][n], {"n": 1}).came == "refused"


def test_times_are_predicted_on_request() -> None:
    swept = Sweep(run_doubled, {"n": (64, 1 << 20)}).run(device="H200")
    small, large = (swept.tried[(n,)].microseconds for n in (64, 1 << 20))
    assert 0 < small < large
    assert f"n=1,048,576: {large:,.1f} us" in plain(swept)
    assert document(swept)["sizes"][1]["microseconds"] == large
    assert [one["mark"] for one in document(swept)["sizes"]] == ["best", ""]
    assert "us" not in plain(Sweep(run_doubled, {"n": (64,)}).run()).split()


def test_sizes_within_the_resolution_are_not_distinguished() -> None:
    swept = Sweep(run_doubled, {"n": (64, 65)}).run(device="H200")
    assert {one["mark"] for one in document(swept)["sizes"]} == {"best", "not distinguished"}
    assert plain(swept).count("<- shortest") == plain(swept).count("within 50%: not distinguished") == 1


def test_a_size_of_which_one_launch_cannot_be_predicted_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions = iter([(1.5, 0.1), (2.5, 0.1), None, (2.5, 0.1)])
    monkeypatch.setattr(sweep, "_predict", lambda *_: next(predictions))

    def run_twice(n: int) -> None:
        run_doubled(n)
        run_doubled(n)

    assert [attempt(run_twice, {"n": 64}, device="H200").microseconds for _ in range(2)] == [4.0, 0.0]


def test_times_need_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep_command.command("fill.py::f", (), {}, jobs=2, times=True) == 2
    assert "leave out `--jobs` and `--on`" in "".join(capsys.readouterr())
