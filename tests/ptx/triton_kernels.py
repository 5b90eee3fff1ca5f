"""Kernels in Triton, for `build.py`, which compiles them for sm_90 without a GPU; `SIGNATURES` has their types."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + at, values / tl.sum(values, 0), at < columns)


@triton.jit
def row_sums(x, out, rows, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = row < rows
    values = tl.load(x + row[:, None] * COLUMNS + column[None, :], inside[:, None], other=0)
    tl.store(out + row, tl.sum(values, 1), inside)


@triton.jit
def running_sums(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def transposed(x, out, side, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    values = tl.load(x + row[:, None] * side + column[None, :])
    tl.store(out + column[:, None] * side + row[None, :], tl.trans(values))


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(x + at, at < n, other=0)
    tl.atomic_add(bins + key, 1, at < n)


WARPS = 4
SIGNATURES: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "add": ({"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 256}),
    "softmax": ({"x": "*fp32", "out": "*fp32", "columns": "i32"}, {"BLOCK": 256}),
    "row_sums": ({"x": "*i32", "out": "*i32", "rows": "i32"}, {"COLUMNS": 64, "ROWS": 16}),
    "running_sums": ({"x": "*i32", "out": "*i32"}, {"BLOCK": 512}),
    "transposed": ({"x": "*fp32", "out": "*fp32", "side": "i32"}, {"TILE": 32}),
    "histogram": ({"x": "*i32", "bins": "*i32", "n": "i32"}, {"BLOCK": 256}),
}
"""by kernel: types of the arguments, and the constants"""


def compiled(name: str) -> str:
    """The PTX of a kernel."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types, constants = SIGNATURES[name]
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(globals()[name], signature=signature, constexprs=constants)
    options = {"num_warps": WARPS, "num_stages": 1, "enable_fp_fusion": False}
    return str(triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"])
