"""The FFT of section 6.3: every kernel is verified, and off by no more than `MOST_ERROR` eps log2(n).

eps is float32's 2 ** -23, the error ||result - FFT(x)|| / ||FFT(x)||; MOST_ERROR is 0.25, and 0.08 is what they reach.
"""

from __future__ import annotations

import functools
import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import wsemu

PROGRAM = Path(__file__).parents[2] / "examples" / "fft.py"
fft = SimpleNamespace(**runpy.run_path(str(PROGRAM)))
EPS = float(np.finfo(np.float32).eps)
C = 0.25


def random_points(*shape):
    random = np.random.default_rng(sum(shape))
    return random.standard_normal((*shape[:-1], 2 * shape[-1]), np.float32).view(np.complex64)


def distance(result, right):
    return np.linalg.norm(result - right) / np.linalg.norm(right)


def launch(version, radix, done, x, **options):
    """(report, result) of one pass over the points x, on two CTAs unless `grid` says otherwise."""
    kernels, threads = fft.versions(x.size)[version]
    twiddles = fft.roots_of_unity(np.outer(np.arange(radix), np.arange(done)), done * radix)
    roots = fft.roots_of_unity(np.arange(radix), radix)
    result = np.full(2 * x.size, np.nan, np.float32)
    arguments = (x.size, done, x.size // fft.TILE, x.view(np.float32), twiddles, roots, result)
    report = wsemu.check(kernels[radix], options.pop("grid", 2), threads, arguments, **options)
    return report, result.view(np.complex64)


def one_pass(radix, done, x):
    """The same in float64, from the definition in the program's docstring."""
    n = x.size
    p, j = np.arange(radix)[:, None], np.arange(n // radix)
    points = x.astype(np.complex128)[j + p * (n // radix)] * np.exp(-2j * np.pi * (j % done) * p / (done * radix))
    result = np.empty(n, np.complex128)
    result[j // done * done * radix + j % done + p * done] = np.fft.fft(points, axis=0)
    return result


PASSES = [(128, 1), (128, 32), (128, 64), (256, 1), (256, 16), (256, 32)]
"""radix, done: the first pass, and later ones; of 8192 points, two tiles"""


@functools.cache
def passed(version, radix, done):
    """(report, result) of one of PASSES."""
    return launch(version, radix, done, random_points(8192))


@pytest.mark.parametrize(("radix", "done"), PASSES)
@pytest.mark.parametrize("version", fft.VERSIONS)
def test_a_pass_is_verified_and_right(version, radix, done):
    report, result = passed(version, radix, done)
    assert report.verdict == "verified", report
    assert distance(result, one_pass(radix, done, random_points(8192))) <= C * EPS * math.log2(radix)


def test_a_pass_on_the_reference_engine():
    """The version with more barriers, the radix with more arithmetic, one tile: a pass takes this engine seconds."""
    x = random_points(4096)
    report, result = launch("specialized", 256, 1, x, grid=1, engine="reference")
    assert report.verdict == "verified", report
    assert distance(result, one_pass(256, 1, x)) <= C * EPS * math.log2(256)


@pytest.mark.parametrize("grid", [3, 5])
@pytest.mark.parametrize("version", fft.VERSIONS)
def test_tiles_are_shared_among_any_number_of_ctas(version, grid):
    """4 tiles: CTAs with unequal numbers of them, and one with none."""
    x = random_points(16384)
    report, result = launch(version, 128, 128, x, grid=grid)
    assert report.verdict == "verified", report
    assert distance(result, one_pass(128, 128, x)) <= C * EPS * math.log2(128)


@pytest.mark.parametrize(("radix", "done"), PASSES)
@pytest.mark.parametrize("version", fft.VERSIONS)
def test_warps_meet_no_bank_twice_and_waste_no_sector(version, radix, done):
    report, _ = passed(version, radix, done)
    assert report.findings == []
    assert report.counters.bank_conflicts == 0
    assert report.counters.coalesced == 1


def test_the_specialized_version_brings_each_point_through_shared_memory_once():
    """1 wavefront for 16 points on the way in, one on the way out; global traffic stays the same."""
    plain, staged = (passed(version, 128, 64)[0].counters for version in fft.VERSIONS)
    assert staged.global_load_sectors == plain.global_load_sectors
    assert staged.global_store_sectors == plain.global_store_sectors == 8 * 8192 // 32
    assert staged.shared_store_wavefronts == plain.shared_store_wavefronts + 8192 // 16
    assert staged.shared_load_wavefronts == plain.shared_load_wavefronts + 8192 // 16


@pytest.mark.parametrize(("n", "batch"), [(16384, 3), (32768, 1), (65536, 1)])
def test_transforms_equal_numpy_and_both_versions_round_alike(n, batch):
    """The error of all points together, and six times that for the worst point, in units of their root mean square."""
    x = random_points(batch, n)
    results, right = [fft.fft(version, x) for version in fft.VERSIONS], np.fft.fft(x.astype(np.complex128))
    assert all(np.array_equal(result, results[0]) for result in results)
    assert distance(results[0], right) <= C * EPS * math.log2(n)
    assert np.abs(results[0] - right).max() <= 6 * C * EPS * math.log2(n) * np.sqrt(np.mean(np.abs(right) ** 2))


def test_a_wave_becomes_one_point():
    n, ks = 16384, np.array([0, 127, 128, 12345])
    waves = np.exp(2j * np.pi * (ks[:, None] * np.arange(n) % n) / n).astype(np.complex64)
    for k, found in zip(ks, np.abs(fft.fft("specialized", waves)), strict=True):
        assert found.argmax() == k
        assert abs(found[k] - n) <= C * EPS * math.log2(n) * n


@pytest.mark.parametrize(
    ("n", "found"),
    [
        (16384, [128, 128]), (32768, [256, 128]), (65536, [256, 256]), (2**21, [128] * 3), (2**22, [256, 128, 128]),
        (2**24, [256] * 3), (128, []), (256, []), (0, []), (1, []), (8192, []), (2**17, []), (2**20, []), (16512, []),
    ],
)  # fmt: skip
def test_radices(n, found):
    assert fft.radices(n) == found


def test_the_bound_is_the_programs():
    assert fft.MOST_ERROR == C


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1000"], "n is 1000: give a product of 128s and 256s, such as 16384, 32768, 65536 or 2097152"),
        (["16384", "0"], "batch is 0: give 1 or more"),
        (["16384", "-1"], "16384 -1: give the points of a transform and how many transforms, such as 32768 2"),
        (["1", "2", "3"], "1 2 3: give the points of a transform and how many transforms, such as 32768 2"),
    ],
)
def test_arguments_are_checked(arguments, said, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(PROGRAM), *arguments])
    with pytest.raises(SystemExit) as stopped:
        fft.main()
    assert stopped.value.code == said


def test_the_program_prints_a_line_for_each_version(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(PROGRAM), "16384"])
    fft.main()
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(", off by ")[0] for line in said] == [f"{version}: 1 x 16384" for version in fft.VERSIONS]
