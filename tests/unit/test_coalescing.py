"""The checker of uncoalesced global accesses, on both engines."""

from __future__ import annotations

import numpy as np
import pytest

from wsemu import cuda
from wsemu.model import settings
from wsemu.model.settings import Settings, Thresholds


def uncoalesced(report):
    assert all(finding.severity == "warning" for finding in report.findings)
    return [finding for finding in report.findings if finding.code == "uncoalesced"]


@cuda.jit
def rows(x, y):
    lane = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(x.shape[1]):
        total += x[lane, k]
    y[lane] = total


def test_lanes_along_the_outer_axis(run, line):
    (finding,) = uncoalesced(run(rows, 32, np.ones((32, 64), np.float32), np.zeros(32, np.float32)))
    assert finding.message == "global load of `x` moves 8 times the sectors it needs"
    (site,) = finding.sites
    assert (site.line, site.text) == (line(rows, "total += x"), "lanes 0-31 touch 32 sectors, 256 bytes apart")
    assert finding.notes == ["64 executions, 2,048 sectors, ideal 256, worst 32: 100% of this kernel's excess"]
    assert finding.help == (
        "index axis 1 of `x` with `threadIdx.x`, because its elements are 4 bytes apart, instead of axis 0; "
        "or stage a tile in shared memory"
    )


def test_the_axis_is_told_by_strides_not_by_order(run):
    x = np.asfortranarray(np.ones((32, 64), np.float32))
    assert not uncoalesced(run(rows, 32, x, np.zeros(32, np.float32)))
    transposed = np.ones((64, 32), np.float32).T
    assert not uncoalesced(run(rows, 32, transposed, np.zeros(32, np.float32)))


def every(step, start=0):
    @cuda.jit
    def strided(x, y):
        lane = cuda.threadIdx.x
        y[lane] = x[step * lane + start]

    return strided


@pytest.mark.parametrize(
    ("step", "times", "help_"),
    [
        (2, "2", "not every 2nd one; or, if a lane needs all of them, load 2 at once: `ptx.ld_v2`"),
        (3, "3", "not every 3rd one"),
        (4, "4", "not every 4th one; or, if a lane needs all of them, load 4 at once: `ptx.ld_v4`"),
        (11, "8", "not every 11th one"),
    ],
)
def test_every_so_manieth_element(run, step, times, help_):
    x = np.ones(32 * step, np.float32)
    (finding,) = uncoalesced(run(every(step), 32, x, np.zeros(32, np.float32)))
    assert finding.message == f"global load of `x` moves {times} times the sectors it needs"
    assert finding.help == f"access neighboring elements in neighboring lanes, {help_}"


def test_a_gather_has_no_stride(run):
    @cuda.jit
    def gather(x, place, y):
        lane = cuda.threadIdx.x
        y[lane] = x[place[lane]]

    place = np.random.default_rng(1).permutation(4096)[:32]
    (finding,) = uncoalesced(run(gather, 32, np.ones(4096, np.float32), place, np.zeros(32, np.float32)))
    assert finding.sites[0].text.endswith("sectors")
    assert finding.help.startswith("neighboring lanes have no common stride")


def test_a_short_row_that_starts_inside_a_sector(run):
    @cuda.jit
    def shifted(x, y):
        lane = cuda.threadIdx.x
        if lane < 8:
            y[lane] = x[lane + 5]

    (finding,) = uncoalesced(run(shifted, 32, np.ones(64, np.float32), np.zeros(32, np.float32)))
    assert finding.sites[0].text == "lanes 0-7 touch 2 sectors, from byte 20 of a sector on"
    assert finding.help == "start at a multiple of 32 bytes, which is 8 elements of 4 bytes"


def test_gaps_of_inactive_lanes(run):
    @cuda.jit
    def even(x, y):
        lane = cuda.threadIdx.x
        if lane % 2 == 0:
            y[lane] = x[lane]

    found = uncoalesced(run(even, 32, np.ones(32, np.float32), np.zeros(32, np.float32)))
    assert [finding.message[:12] for finding in found] == ["global load ", "global store"]
    assert all(finding.help.startswith("inactive lanes leave gaps") for finding in found)


def test_gaps_before_an_odd_start(run):
    @cuda.jit
    def odd(y):
        lane = cuda.threadIdx.x
        if lane % 2:
            y[lane] = 1

    @cuda.jit
    def every_other_odd(y):
        lane = cuda.threadIdx.x
        if lane % 2:
            y[2 * lane] = 1

    (found,) = uncoalesced(run(odd, 32, np.ones(32, np.float32)))
    assert found.sites[0].text == "lanes 1, 3, 5, 7, ... touch 4 sectors"
    assert found.help == "inactive lanes leave gaps between the elements: store the needed elements contiguously"
    (found,) = uncoalesced(run(every_other_odd, 32, np.ones(64, np.float32)))
    assert found.help == "access neighboring elements in neighboring lanes, not every 2nd one"


@pytest.mark.parametrize("start", [0, 1, 7])
def test_whole_rows_broadcasts_and_reversed_rows_say_nothing(run, start):
    @cuda.jit
    def fine(x, y):
        lane = cuda.threadIdx.x
        y[31 - lane] = x[lane + start] + x[start]

    assert not run(fine, 32, np.ones(64, np.float32), np.zeros(32, np.float32)).findings


@pytest.mark.parametrize(("threshold", "found"), [(1.0, 1), (1.25, 1), (1.26, 0)])
def test_the_threshold_compares_all_executions_with_their_ideal(run, threshold, found):
    x = np.ones(64, np.float32)
    with settings.using(Settings(thresholds=Thresholds(uncoalesced=threshold))):
        report = run(every(1, start=1), 32, x, np.zeros(32, np.float32))
    assert len(uncoalesced(report)) == found


def test_sm_20_moves_lines_and_sm_13_segments(run):
    x = np.ones(256, np.float32)
    for arch, sectors, ideal in (("sm_90", 16, 4), ("sm_20", 16, 4), ("sm_13", 16, 4)):
        report = run(every(4), 32, x, np.zeros(32, np.float32), arch=arch)
        assert (report.counters.global_load_sectors, report.counters.ideal_global_load_sectors) == (sectors, ideal)
        assert len(uncoalesced(report)) == 1
    report = run(every(0), 32, x, np.zeros(32, np.float32), arch="sm_20")
    assert not report.findings


def test_atomics_are_not_judged(run):
    @cuda.jit
    def scatter(x):
        cuda.atomic.add(x, 32 * cuda.threadIdx.x, 1)

    assert not run(scatter, 32, np.zeros(1024, np.int32)).findings


def test_copies_of_an_access_in_an_unrolled_loop_are_one(run, line):
    @cuda.jit
    def unrolled(x, y):
        lane = cuda.threadIdx.x
        total = np.float32(0)
        for k in (0, 1, 2, 3):
            total += x[lane, k]
        y[lane] = total

    (finding,) = uncoalesced(run(unrolled, 32, np.ones((32, 64), np.float32), np.zeros(32, np.float32)))
    assert finding.sites[0].line == line(unrolled, "total += x")
    assert finding.notes == ["4 executions, 128 sectors, ideal 16, worst 32: 100% of this kernel's excess"]
