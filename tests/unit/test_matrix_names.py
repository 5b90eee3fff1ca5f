"""The matrix instructions of `wsemu.ptx` in Python: the bits of PTX, on both engines, and what is refused."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit.matrix_kernels import kernel as of_ptx
from wsemu import cuda, ptx
from wsemu.language import matrix_names as names
from wsemu.model.errors import KernelError

ENGINES = ("vm", "reference")


def compiled(text: str, file: str) -> Any:
    """The kernel `k` of a source."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "np": np}
    exec(compile(text, file, "exec"), space)
    return cuda.jit(space["k"])


def of_python(name: str) -> Any:
    """A kernel (a, b, c, d) on fragments, as `matrix_kernels.kernel` makes one: arrays [registers, lane]."""
    shape = names.MULTIPLICATIONS[name][0]
    of_d, *counts = shape.counts
    given = [
        "(" + "".join(f"{array}[{n}, lane], " for n in range(count)) + ")"
        for array, count in zip("abc", counts, strict=True)
    ]
    lines = ["def k(a, b, c, d):", "    lane = cuda.laneid", f"    made = ptx.{name}({', '.join(given)})"]
    lines += [f"    d[{n}, lane] = made[{n}]" for n in range(of_d)]
    return compiled("\n".join(lines), name)


def fragments(name: str) -> list[Any]:
    """Random ones, and room for the result."""
    shape = names.MULTIPLICATIONS[name][0]
    generator = np.random.default_rng(len(name))
    of_d, *counts = shape.counts
    types = (names.operand_type(shape), names.operand_type(shape), names.REGISTER[shape.c])
    found = []
    for count, type_ in zip(counts, types, strict=True):
        bits = generator.integers(0, 1 << 64, (count, 32), np.uint64) & np.uint64(0xBFFFBFFFBFFFBFFF)
        found.append(bits.view(np.float64) if type_ == "float64" else bits.astype(np.uint32).view(type_))
    return [*found, np.zeros((of_d, 32), types[2])]


def bits(array: Any) -> Any:
    return array.view(np.uint8)


@pytest.mark.parametrize("name", names.MULTIPLICATIONS)
def test_a_multiplication_has_the_bits_of_ptx(name: str) -> None:
    shape, clamped, _ = names.MULTIPLICATIONS[name]
    given = fragments(name)
    wanted = given[-1].copy()
    wsemu.check(wsemu.load_ptx(of_ptx(shape, clamped=clamped))["k"], 1, 32, (*given[:3], wanted))
    report = wsemu.check(of_python(name), 1, 32, given)
    assert report.verdict == "verified", report
    assert np.array_equal(bits(given[-1]), bits(wanted))


@cuda.jit
def moved(x, y, z):
    tile, other = cuda.shared.array((32, 8), np.uint16, 16), cuda.shared.array((32, 8), np.uint16, 16)
    lane = cuda.laneid
    for k in range(8):
        tile[lane, k] = x[lane, k]
        other[lane, k] = 0
    cuda.syncwarp()
    four = ptx.ldmatrix_x4(tile, (lane, 0))
    two = ptx.ldmatrix_x2_trans(tile, (lane % 16, 0))
    (one,) = ptx.ldmatrix_x1(tile, (lane % 8, 0))
    ptx.stmatrix_x4_trans(other, (lane, 0), four)
    cuda.syncwarp()
    for k in range(8):
        y[lane, k] = other[lane, k]
    z[0, lane], z[1, lane], z[2, lane] = two[0], two[1], one
    z[3, lane] = ptx.movmatrix_trans(one)
    ptx.stmatrix_x1(other, (lane % 8, 0), (one,))
    ptx.stmatrix_x2(other, (16 + lane % 16, 0), two)


@pytest.mark.parametrize("engine", ENGINES)
def test_matrices_move_between_memory_and_lanes(engine: Any) -> None:
    x = np.arange(256, dtype=np.uint16).reshape(32, 8)
    y, z = np.zeros_like(x), np.zeros((4, 32), np.uint32)
    report = wsemu.check(moved, 1, 32, (x, y, z), engine=engine)
    assert report.verdict == "verified", report
    assert np.array_equal(y.reshape(4, 8, 8), x.reshape(4, 8, 8).transpose(0, 2, 1))
    low, high = z & 0xFFFF, z >> 16
    first = x[:8]
    g, t = np.arange(32) // 4, np.arange(32) % 4
    assert np.array_equal(low[2], first[g, 2 * t])
    assert np.array_equal(high[2], first[g, 2 * t + 1])
    assert np.array_equal(low[3], first.T[g, 2 * t])
    assert np.array_equal(high[1], x[8:16].T[g, 2 * t + 1])


@cuda.jit
def part_of_a_warp(y):
    sums = (np.float32(0), np.float32(0), np.float32(0), np.float32(0))
    if cuda.laneid < 16:
        sums = ptx.mma_m16n8k8_f32_f16_f16_f32((1, 2), (3,), sums)
    y[cuda.laneid] = sums[0]


def test_a_part_of_a_warp() -> None:
    reports = [wsemu.check(part_of_a_warp, 1, 32, (np.zeros(32, np.float32),), engine=e) for e in ENGINES]  # type: ignore[arg-type]
    assert [f.code for f in reports[0].findings] == ["barrier-divergence"]
    assert reports[0].model_dump(exclude={"seconds"}) == reports[1].model_dump(exclude={"seconds"})


REFUSED = {
    "ptx.mma_m16n8k8_f32_f16_f16_f32((1, 2, 3), (1,), f)": "`a` of .* is a tuple of 3",
    "ptx.mma_m16n8k8_f32_f16_f16_f32((1, 2), 1.0, f)": "`b` of .* has float64",
    "ptx.mma_m16n8k8_f32_f16_f16_f32((1, 2), (1,), (1, 2, 3, 4))": "`c` of .* has int",
    "ptx.ldmatrix_x4(y, 0)": "in global memory",
    "ptx.ldmatrix_x4(words, 0)": "of uint32 in shared memory",
    "ptx.ldmatrix_x4(tile, 0)": "has 2 dimensions, the index 1",
    "ptx.stmatrix_x2(tile, (0, 0), (1,))": "`values` of .* is a tuple of 1",
    "ptx.mma_m8n8k8_f32_f16_f16_f32((1, 2), (1,), f)": "no attribute",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused(call: str) -> None:
    text = (
        "def k(y):\n    tile = cuda.shared.array((8, 8), np.uint16, 16)\n    words = cuda.shared.array(64, np.uint32)\n"
        f"    f = (y[0], y[1], y[2], y[3])\n    words[0] = 1\n    tile[0, 0] = 1\n    {call}\n"
    )
    with pytest.raises((KernelError, AttributeError), match=REFUSED[call]):
        wsemu.check(compiled(text, f"<{call}>"), 1, 32, (np.zeros(32, np.float32),))
