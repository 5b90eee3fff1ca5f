"""Kernels of Triton for sm_100: `python triton_kernels.py` writes their PTX next to this file, without a GPU.

They keep accumulators, and attention its probabilities, in tensor memory.  With `warp_specialize`, warps of their own
load, multiply and store.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
ROWS, COLUMNS, STEP, WIDTH = 128, 64, 64, 64
"""elements of a tile: rows and columns of a product, its steps; elements of a row of attention"""


@triton.jit
def matmul(a, b, c, m, n, k, rows: tl.constexpr, columns: tl.constexpr, step: tl.constexpr):
    row, column = tl.program_id(0) * rows, tl.program_id(1) * columns
    of_a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [rows, step])
    of_b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [columns, step])
    of_c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [rows, columns])
    sums = tl.zeros((rows, columns), tl.float32)
    for at in range(0, k, step):
        sums = tl.dot(of_a.load([row, at]), of_b.load([column, at]).T, sums)
    of_c.store([row, column], sums.to(tl.float16))


@triton.jit
def persistent(
    a, b, c, m, n, k, rows: tl.constexpr, columns: tl.constexpr, step: tl.constexpr, specialized: tl.constexpr
):
    along = tl.cdiv(n, columns)
    tiles = tl.cdiv(m, rows) * along
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=specialized):
        row, column = tile // along * rows, tile % along * columns
        sums = tl.zeros((rows, columns), tl.float32)
        for at in range(tl.cdiv(k, step)):
            sums = tl.dot(a.load([row, at * step]), b.load([column, at * step]).T, sums)
        c.store([row, column], sums.to(tl.float16))


@triton.jit
def described(a, b, c, m, n, k, rows: tl.constexpr, columns: tl.constexpr, step: tl.constexpr):
    of_a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [rows, step])
    of_b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [columns, step])
    of_c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [rows, columns])
    along = tl.cdiv(n, columns)
    tiles = tl.cdiv(m, rows) * along
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=True):
        row, column = tile // along * rows, tile % along * columns
        sums = tl.zeros((rows, columns), tl.float32)
        for at in range(tl.cdiv(k, step)):
            sums = tl.dot(of_a.load([row, at * step]), of_b.load([column, at * step]).T, sums)
        of_c.store([row, column], sums.to(tl.float16))


@triton.jit
def attention(
    q, k, v, o, n, scale, rows: tl.constexpr, columns: tl.constexpr, width: tl.constexpr, specialized: tl.constexpr
):
    row = tl.program_id(0) * rows
    own = q.load([row, 0])
    most = tl.zeros([rows], tl.float32) - float("inf")
    weight = tl.zeros([rows], tl.float32) + 1.0
    sums = tl.zeros([rows, width], tl.float32)
    for at in tl.range(0, n, columns, warp_specialize=specialized):
        scores = tl.dot(own, k.load([at, 0]).T) * scale
        larger = tl.maximum(most, tl.max(scores, 1))
        p = tl.math.exp2(scores - larger[:, None])
        shrink = tl.math.exp2(most - larger)
        weight = weight * shrink + tl.sum(p, 1)
        sums = tl.dot(p.to(tl.float16), v.load([at, 0]), sums * shrink[:, None])
        most = larger
    o.store([row, 0], (sums / weight[:, None]).to(tl.float16))


WIDE, NARROW = f"tensordesc<fp16[{ROWS},{STEP}]>", f"tensordesc<fp16[{COLUMNS},{STEP}]>"
SIZES = {"m": "i32", "n": "i32", "k": "i32"}
TILE = {"rows": ROWS, "columns": COLUMNS, "step": STEP}
KERNELS: dict[str, tuple[Any, dict[str, str], dict[str, Any]]] = {
    "matmul": (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp16", **SIZES}, TILE),
    "described": (described, {"a": "*fp16", "b": "*fp16", "c": "*fp16", **SIZES}, TILE),
    **{
        f"persistent{'_specialized' * on}": (
            persistent, {"a": WIDE, "b": NARROW, "c": WIDE, **SIZES}, {**TILE, "specialized": on}
        )
        for on in (False, True)
    },
    **{
        f"attention{'_specialized' * on}": (
            attention,
            {"q": WIDE, "k": NARROW, "v": NARROW, "o": WIDE, "n": "i32", "scale": "fp32"},
            {"rows": ROWS, "columns": COLUMNS, "width": WIDTH, "specialized": on},
        )
        for on in (False, True)
    },
}  # fmt: skip
"""name -> kernel, types, constants"""


def compiled(name: str) -> str:
    """Return the PTX of a kernel, without comments and lines of sources; its first line has the launch."""
    kernel, types, constants = KERNELS[name]
    source = ASTSource(fn=kernel, signature={**types, **dict.fromkeys(constants, "constexpr")}, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4, "num_stages": 2})
    text = re.sub(r"\n\t\.section.*", "\n", made.asm["ptx"], flags=re.DOTALL)
    lines = [re.sub(r"\s*//.*", "", line) for line in text.splitlines()]
    kept = [line for line in lines if line.strip() and not re.match(r"\s*\.(loc|file)\b|\$L__(tmp|func_)", line)]
    launch = f"// {made.metadata.name} {32 * made.metadata.num_warps} {made.metadata.shared}"
    return "\n".join([launch, *kept]) + "\n"


if __name__ == "__main__":
    for each in KERNELS:
        (HERE / f"triton_{each}.sm_100.ptx").write_text(compiled(each), encoding="utf-8")
