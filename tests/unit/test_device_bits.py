"""Matrix instructions, small floats and tensor copies have the bits that an H200 gave, on random and crafted numbers.

`benchmarks/device_bits.py` recorded them: checksums of blocks of tiles.  The reference engine is compared with the VM.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from benchmarks import device_bits, device_cases, device_maps
from benchmarks.device_cases import Case

RECORDS = Path(__file__).parents[1] / "data" / "device_bits.npz"
KINDS = (device_cases.multiplications, device_cases.groups, device_cases.singles)
CASES = {case.name: case for kind in KINDS for case in kind(2 * device_bits.BLOCK)}
FLOATS = ("bf16", "tf32", "e4m3.e4m3", "e4m3.e5m2", "e5m2.e5m2", "f16.f16.f16", "f32.f16.f16")
QUICK = [
    name for name in CASES
    if not name.startswith(("mma", "wgmma")) or (name.startswith("mma") and any(part in name for part in FLOATS))
    or ("n8k" in name and "shared" in name and any(part in name for part in FLOATS))
]  # fmt: skip
FEW = 4
"""tiles on the reference engine"""


@functools.cache
def recorded() -> dict[str, Any]:
    with np.load(RECORDS) as file:
        return {"/maps": file["maps"], **dict(zip(file["names"].tolist(), file["blocks"], strict=True))}


def test_every_kernel_is_recorded() -> None:
    assert set(recorded()) - {"/maps"} == set(CASES)


@pytest.mark.parametrize("name", QUICK)
def test_bits_of_an_h200(name: str) -> None:
    assert device_bits.emulated(CASES[name], 1) == recorded()[name][:1].tolist()


def test_a_launch_may_begin_at_any_tile() -> None:
    case = CASES["mma.m8n8k16.s32.s8.s8.s32"]
    assert device_bits.made(case, 0, 400)[1:] == device_bits.made(case, 200, 200)


def results(case: Case, engine: str) -> Any:
    kernel = wsemu.load_ptx(case.text)["k"]
    # the last tiles of a launch: what they take of the pools differs from that of the first ones
    words = np.zeros(case.words * FEW, np.uint32)
    pools = [device_cases.pool(format_) for format_ in case.pools]
    report = wsemu.check(kernel, FEW // case.per_cta, case.threads, (*pools, words, 0), engine=engine)  # type: ignore[arg-type]
    assert report.verdict == "verified", report
    return words


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("mma", "wgmma"))][::3])
def test_both_engines_have_the_same_small_floats(name: str) -> None:
    assert np.array_equal(results(CASES[name], "vm"), results(CASES[name], "reference"))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("mma") and ".f32.f" not in name][::12])
def test_both_engines_have_the_same_sums(name: str) -> None:
    assert np.array_equal(results(CASES[name], "vm"), results(CASES[name], "reference"))


def test_a_sum_below_the_least_number_is_plus_zero_on_both_engines() -> None:
    from tests.unit.matrix_kernels import run
    from wsemu.model.matrix import MMA

    shape = MMA["mma.m16n8k8.f32.bf16.bf16.f32"]
    a, b, c = np.full((1, 16, 8), 0x8080), np.full((1, 8, 8), 0x0080), np.zeros((1, 16, 8), np.uint32)
    for engine in ("vm", "reference"):
        assert not run(shape, a.astype(np.uint32), b.astype(np.uint32), c, engine=engine).any()


def test_subnormals_of_e5m2_are_those_of_f16_on_both_engines() -> None:
    from tests.unit.matrix_kernels import random_tiles, run
    from wsemu.model.matrix import MMA

    shape = MMA["mma.m16n8k16.f32.e5m2.e5m2.f32"]
    a, b, c = random_tiles(shape, 2, 5)
    a, b = a & 0x87, b & 0xBF  # mostly subnormal
    one, other = (run(shape, a, b, c & np.uint32(0xB0FFFFFF), engine=engine) for engine in ("vm", "reference"))
    assert np.array_equal(one, other)


def test_tensor_copies_of_an_h200() -> None:
    assert device_maps.compare(recorded()["/maps"][:20]) == 0
