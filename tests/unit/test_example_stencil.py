"""The stencil of section 6.2: every version is verified, and equals NumPy's float32 in its order, bit for bit."""

from __future__ import annotations

import runpy
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import wsemu

PROGRAM = Path(__file__).parents[2] / "examples" / "stencil.py"
stencil = SimpleNamespace(**runpy.run_path(str(PROGRAM)))
LOADING = ("reference", "halo_only_single", "halo_only_double", "halo_only_manual", "block_halo_single")
IN_BULK = ("halo_only_bulk", "pipeline")
"""whose halos are brought by copies, which are no accesses of warps"""
VERSIONS = (*LOADING, *IN_BULK)
SIZES = ((32, 16, 1), (32, 32, 2), (64, 16, 3), (32, 16, 12))
"""x, y, z: one slice; CTAs side by side along y, along x; every buffer used again"""


def volume_of(x, y, z):
    shape = (z + 2 * stencil.RADIUS, y + 2 * stencil.RADIUS, x + 2 * stencil.MARGIN)
    return np.random.default_rng(x + y + z).standard_normal(shape, np.float32)


def launch(name, volume, **options):
    """(report, result) of a version."""
    z, y, x = (n - 2 * m for n, m in zip(volume.shape, (stencil.RADIUS, stencil.RADIUS, stencil.MARGIN), strict=True))
    kernel, threads = stencil.versions(volume.strides[1])[VERSIONS.index(name)]
    assert kernel.py_func.__name__ == name
    result = np.full((z, y, x), np.nan, np.float32)
    grid = (x // stencil.TILE_X, y // stencil.TILE_Y)
    return wsemu.check(kernel, grid, threads, (volume, result), **options), result


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", VERSIONS)
def test_a_version_is_verified_and_right(name, size):
    volume = volume_of(*size)
    report, result = launch(name, volume)
    assert report.verdict == "verified", report
    assert np.array_equal(result, stencil.expected(volume))


@pytest.mark.parametrize("name", ["halo_only_double", "pipeline"])
def test_a_version_on_the_reference_engine(name):
    """Two slices, where there are two buffers or a ring; all versions run there with one, in tests/test_programs.py."""
    volume = volume_of(32, 16, 2)
    report, result = launch(name, volume, engine="reference")
    assert report.verdict == "verified", report
    assert np.array_equal(result, stencil.expected(volume))


@pytest.mark.parametrize("name", LOADING)
def test_warps_meet_no_bank_twice_and_waste_no_sector_but_beside_the_tile(name):
    """Half a sector, 4 points, lies on each side of a row of the tile."""
    report, _ = launch(name, volume_of(64, 32, 2))
    counters = report.counters
    assert counters.bank_conflicts == 0
    flanks = {"uncoalesced"} if name != "reference" else set()
    assert {finding.code for finding in report.findings} == flanks
    # 8 sectors of 8 points a row; per row of a tile two flanks, which count as 16 of the bytes of a sector
    wasted = counters.global_load_sectors - counters.ideal_global_load_sectors
    slices, tiles = 2, 4
    assert wasted == (slices * tiles * stencil.TILE_Y if flanks else 0)


def test_a_slice_comes_once_and_its_halo_with_every_tile():
    """Bytes loaded: each point of a slice once, and 4 points around each tile; 8 slices before the first step."""
    x, y, z = 64, 32, 3
    tiles = x // stencil.TILE_X * (y // stencil.TILE_Y)
    halo = 2 * stencil.RADIUS * (stencil.TILE_X + stencil.TILE_Y)
    points = x * y * (z + 2 * stencil.RADIUS) + tiles * z * halo
    for name in LOADING:
        report, _ = launch(name, volume_of(x, y, z))
        assert report.counters.ideal_global_load_sectors >= 4 * points // 32
        if name != "reference":  # whose warps load 4 points with the lanes of a warp, a sector each
            assert report.counters.ideal_global_load_sectors == 4 * points // 32


@pytest.mark.parametrize(("name", "behind"), [("halo_only_bulk", 8), ("pipeline", 4)])
def test_threads_load_their_own_points_alone_where_copies_bring_the_rest(name, behind):
    """`halo_only_bulk` loads the slices around the first one, and one more for each; `pipeline` 4 that lie behind."""
    x, y, z = 64, 32, 3
    report, _ = launch(name, volume_of(x, y, z))
    assert (report.findings, report.counters.bank_conflicts) == ([], 0)
    slices = behind + (z if name == "halo_only_bulk" else 0)
    assert report.counters.global_load_sectors == 4 * x * y * slices // 32


def test_what_numpy_computes_is_the_stencil():
    """Against the sum of all 25 products, exact; the bound is that of 26 roundings."""
    volume = volume_of(32, 16, 1)
    result = stencil.expected(volume)
    coefficients = [Fraction(float(c)) for c in (stencil.C0, stencil.C1, stencil.C2, stencil.C3, stencil.C4)]
    for y, x in ((0, 0), (7, 13), (15, 31)):
        centre = (stencil.RADIUS, stencil.RADIUS + y, stencil.MARGIN + x)
        products = [coefficients[0] * Fraction(float(volume[centre]))]
        for axis in range(3):
            for distance in range(-4, 5):
                place = tuple(c + distance * (axis == a) for a, c in enumerate(centre))
                if distance:
                    products.append(coefficients[abs(distance)] * Fraction(float(volume[place])))
        assert len(products) == 25
        difference = abs(Fraction(float(result[0, y, x])) - sum(products))
        assert difference <= 26 * Fraction(1, 2**24) * sum(map(abs, products))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["64", "32"], "64 32: give the sizes x y z of the volume, such as 64 32 4"),
        (["a", "32", "4"], "a 32 4: give the sizes x y z of the volume, such as 64 32 4"),
        (["33", "16", "1"], "x is 33: give a positive multiple of 32, such as 64"),
        (["32", "0", "1"], "y is 0: give a positive multiple of 16, such as 16"),
        (["32", "16", "0"], "z is 0: give 1 or more"),
    ],
)
def test_arguments_are_checked(arguments, said, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(PROGRAM), *arguments])
    with pytest.raises(SystemExit) as stopped:
        stencil.main()
    assert stopped.value.code == said


def test_the_program_prints_a_line_for_each_version(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(PROGRAM), "32", "16", "2"])
    stencil.main()
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"{name}: 32 x 16 x 2, equal to NumPy's float32 in the kernel's order, bit for bit" for name in VERSIONS
    ]
