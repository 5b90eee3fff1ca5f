"""The checker of shared memory bank conflicts, on both engines: what it says, and that its paddings help."""

from __future__ import annotations

import re

import numpy as np
import pytest

from wsemu import cuda, ptx
from wsemu.model import settings
from wsemu.model.settings import Settings, Thresholds


def conflicts(run, kernel, *arguments, **options):
    """The findings of a launch of one warp; whether its warps race is another matter."""
    found = run(kernel, 32, *arguments, checkers=["bank-conflict"], **options).findings
    assert {(finding.code, finding.severity) for finding in found} <= {("bank-conflict", "warning")}
    return found


def suggested(finding) -> tuple[int, ...]:
    """The shape in the help."""
    found = re.search(r"pad the row: `\((.*)\)` makes", finding.help)
    assert found, finding.help
    return tuple(int(extent) for extent in found[1].split(","))


def walk(shape, dtype=np.float32):
    """A kernel that fills rows of a tile and reads its columns."""

    @cuda.jit
    def column_walk(x, y):
        tile = cuda.shared.array(shape, dtype)
        lane = cuda.threadIdx.x
        for row in range(32):
            tile[row, lane] = x[row, lane]
        cuda.syncwarp()
        total = dtype(0)
        for k in range(32):
            total += tile[lane, k]
        y[lane] = total

    return column_walk


def arguments(dtype=np.float32):
    return np.ones((32, 32), dtype), np.zeros(32, dtype)


def test_a_column_of_a_tile_is_one_bank(run, line):
    kernel = walk((32, 32))
    (finding,) = conflicts(run, kernel, *arguments())
    assert finding.message == "32-way bank conflict on shared load of `tile`"
    assert finding.notes == [
        "32 executions, 1,024 wavefronts, ideal 32, worst 32: 100% of this kernel's excess",
    ]
    assert finding.help == "pad the row: `(32, 33)` makes this access conflict-free (checked)"
    access, declared = finding.sites
    assert (access.primary, access.line) == (True, line(kernel, "total += tile"))
    assert access.text == "lanes 0-31 touch 32 words of bank 0"
    assert (declared.primary, declared.line) == (False, line(kernel, "shared.array"))
    assert declared.text == "row stride 32 words = 0 mod 32 banks"


@pytest.mark.parametrize(("dtype", "ways"), [(np.float32, 32), (np.float64, 16), (np.int16, 16)])
def test_a_suggested_padding_removes_the_conflict(run, dtype, ways):
    (finding,) = conflicts(run, walk((32, 32), dtype), *arguments(dtype))
    assert finding.message.startswith(f"{ways}-way")
    assert not conflicts(run, walk(suggested(finding), dtype), *arguments(dtype))
    assert run(walk(suggested(finding), dtype), 32, *arguments(dtype)).counters.bank_conflicts == 0


def test_a_padding_must_serve_all_accesses_of_the_array(run):
    @cuda.jit
    def columns_and_halves(y):
        tile = cuda.shared.array((32, 32), np.float32)
        lane = cuda.threadIdx.x
        tile[lane, 0] = 1
        tile[lane // 16 * 2, lane % 16 * 2] = 1  # even words alone, whatever the length of a row
        y[lane] = 0

    for finding in conflicts(run, columns_and_halves, np.zeros(32, np.float32)):
        assert finding.help == (
            "access neighboring words in neighboring lanes; "
            "no padding of 1 to 8 elements a row removes this conflict (tried)"
        )


def test_an_array_without_rows_gets_no_padding(run):
    @cuda.jit
    def scattered(place, y):
        tile = cuda.shared.array(4096, np.float32)
        lane = cuda.threadIdx.x
        tile[place[lane]] = 1
        y[lane] = 0

    place = np.random.default_rng(0).permutation(128)[:32] * 32
    (finding,) = conflicts(run, scattered, place, np.zeros(32, np.float32))
    assert finding.help == "access neighboring words in neighboring lanes"
    assert finding.sites[1].text == "declared here"


def test_a_stride_is_suggested_for_an_array_of_one_axis(run, line):
    def rows_of(stride):
        size = 32 * stride

        @cuda.jit
        def flat(x, y):
            tile = cuda.shared.array(size, np.float32)
            lane = cuda.threadIdx.x
            for k in range(32):
                tile[k * stride + lane] = x[k, lane]
            cuda.syncwarp()
            total = np.float32(0)
            for k in range(32):
                total += tile[lane * stride + k]
            y[lane] = total

        return flat

    (finding,) = conflicts(run, rows_of(32), *arguments())
    assert finding.help == (
        "use a stride of 33 elements, not 32 (`1056` elements in all): it makes this access conflict-free (checked)"
    )
    assert finding.sites[1].text == "neighbouring lanes are 32 words apart = 0 mod 32 banks"
    assert not conflicts(run, rows_of(33), *arguments())


def test_the_lines_that_a_padding_serves_are_named(run, line):
    @cuda.jit
    def pairs(x, y):
        both = cuda.shared.array(64, np.float32)
        lane = cuda.threadIdx.x
        both[2 * lane] = x[lane]
        both[2 * lane + 1] = 0
        cuda.syncwarp()
        y[lane] = both[2 * lane]

    found = conflicts(run, pairs, np.ones(32, np.float32), np.zeros(32, np.float32))
    assert [finding.sites[0].line for finding in found] == sorted(finding.sites[0].line for finding in found)
    assert len(found) == 3
    lines = f"{line(pairs, 'both[2 * lane + 1]')}, {line(pairs, 'y[lane] =')}"
    assert found[0].help == (
        "use a stride of 3 elements, not 2 (`96` elements in all): "
        f"it makes this access and those on lines {lines} conflict-free (checked)"
    )
    assert found[0].sites[0].text == "lanes 0, 16 touch 2 words of bank 0; 16 banks alike"
    assert "33% of this kernel's excess" in found[0].notes[0]


def test_a_padding_keeps_vectors_aligned_and_in_their_row(run):
    def tile_of(row):
        size = 32 * row

        @cuda.jit
        def vectors(x, y):
            tile = cuda.shared.array(size, np.float32)
            lane = cuda.threadIdx.x
            for k in range(8):
                tile[32 * k + lane] = x[lane]
            cuda.syncwarp()
            a, b, c, d = ptx.ld_v4(tile, row * lane)
            y[lane] = a + b + c + d

        return vectors

    arguments = (np.ones(32, np.float32), np.zeros(32, np.float32))
    (finding,) = conflicts(run, tile_of(32), *arguments)
    assert finding.message.startswith("8-way")
    assert "use a stride of 36 elements, not 32" in finding.help
    assert not conflicts(run, tile_of(36), *arguments)


def test_a_padding_must_leave_room_in_shared_memory(run):
    @cuda.jit
    def full(y):
        tile = cuda.shared.array((384, 32), np.float32)
        lane = cuda.threadIdx.x
        tile[lane, 0] = 1
        cuda.syncwarp()
        y[lane] = tile[0, lane]

    (finding,) = conflicts(run, full, np.zeros(32, np.float32))
    assert "checked" not in finding.help


def test_dynamic_shared_memory_gets_a_stride(run):
    @cuda.jit
    def dynamic(y):
        tile = cuda.shared.array(0, np.float32)
        lane = cuda.threadIdx.x
        tile[lane * 32] = 1
        cuda.syncwarp()
        y[lane] = tile[lane]

    options = {"dynamic_shared": 4096}
    (finding,) = conflicts(run, dynamic, np.zeros(32, np.float32), **options)
    assert finding.help == "use a stride of 33 elements, not 32: it makes this access conflict-free (checked)"
    assert len(finding.sites) == 1


def test_conflict_free_accesses_say_nothing(run):
    @cuda.jit
    def clean(x, y):
        tile = cuda.shared.array(32 * 33, np.float32)
        counts = cuda.shared.array(1024, np.int32)
        lane = cuda.threadIdx.x
        tile[33 * lane] = x[lane]
        counts[lane] = 0
        cuda.syncwarp()
        cuda.atomic.add(counts, lane % 2, 1)
        a, b, c, d = ptx.ld_v4(tile, 0)
        y[lane] = a + b + c + d

    assert not conflicts(run, clean, np.ones(32, np.float32), np.zeros(32, np.float32))


@pytest.mark.parametrize(("threshold", "found"), [(1.0, 1), (1.25, 1), (1.26, 0), (1.5, 0)])
def test_the_threshold_compares_all_executions_with_their_ideal(run, threshold, found):
    @cuda.jit
    def sometimes(y):
        tile = cuda.shared.array(64, np.float32)
        lane = cuda.threadIdx.x
        for k in range(4):
            tile[lane * (1 + (k == 2))] = 1
        cuda.syncwarp()
        y[lane] = tile[lane]

    with settings.using(Settings(thresholds=Thresholds(bank_conflict=threshold))):
        assert len(conflicts(run, sometimes, np.zeros(32, np.float32))) == found
    assert run(sometimes, 32, np.zeros(32, np.float32)).counters.bank_conflicts == 1


def test_the_costliest_comes_first(run, line):
    @cuda.jit
    def several(y):
        tile = cuda.shared.array((32, 32), np.float32)
        lane = cuda.threadIdx.x
        tile[lane // 16, lane % 16 * 2] = 1
        cuda.syncwarp()
        y[lane] = tile[lane, 0]

    first, second = conflicts(run, several, np.zeros(32, np.float32))
    assert (first.message[:6], second.message[:5]) == ("32-way", "2-way")
    assert "97% of this kernel's excess" in first.notes[0]


def test_older_architectures_have_their_own_conflicts(run):
    @cuda.jit
    def wide(y):
        tile = cuda.shared.array(128, np.float32)
        lane = cuda.threadIdx.x
        one = np.float32(1)
        ptx.st_v4(tile, 4 * lane, (one, one, one, one))
        cuda.syncwarp()
        y[lane] = tile[lane]

    y = np.zeros(32, np.float32)
    assert not conflicts(run, wide, y)
    (finding,) = conflicts(run, wide, y, arch="sm_20")
    assert finding.message == "2-way bank conflict on shared store of `tile`"
    assert finding.sites[0].text == "an access of 16 bytes takes 2 wavefronts for each 8 lanes on sm_20"
    assert "4-byte accesses" in finding.help
    (finding,) = conflicts(run, wide, y, arch="sm_13")
    assert finding.message.startswith("4-way")


def test_sm_13_broadcasts_one_word_a_wavefront(run):
    @cuda.jit
    def pairs(x, y):
        tile = cuda.shared.array(32, np.float32)
        lane = cuda.threadIdx.x
        tile[lane] = x[lane]
        cuda.syncwarp()
        y[lane] = tile[lane // 8]

    arguments = (np.ones(32, np.float32), np.zeros(32, np.float32))
    assert not conflicts(run, pairs, *arguments)
    (finding,) = conflicts(run, pairs, *arguments, arch="sm_13")
    text = finding.sites[0].text
    assert text == "2 words are each requested by several lanes: sm_13 broadcasts one such word per wavefront"


def test_copies_of_an_access_in_an_unrolled_loop_are_one(run, line):
    @cuda.jit
    def unrolled(y):
        tile = cuda.shared.array((32, 32), np.float32)
        lane = cuda.threadIdx.x
        for k in (0, 1, 2, 3):
            tile[lane, k] = lane
        y[lane] = tile[0, 0]

    (finding,) = [found for found in run(unrolled, 32, np.zeros(32, np.float32)).findings if found.factor]
    assert finding.sites[0].line == line(unrolled, "tile[lane, k] = lane")
    assert finding.notes == ["4 executions, 128 wavefronts, ideal 4, worst 32: 100% of this kernel's excess"]
