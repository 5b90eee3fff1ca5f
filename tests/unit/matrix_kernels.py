"""One `mma.sync` a warp and CTA in PTX, its fragments in memory, and their layout from the text of the PTX ISA."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import wsemu
from wsemu.model.matrix import MMA, Mma

Bits = npt.NDArray[Any]
ALL = [name for name, shape in MMA.items() if not (shape.sparse or shape.kind)]
LANE = np.arange(32)
G, T = LANE >> 2, LANE & 3


def text_of(shape: Mma, *, clamped: bool = False) -> str:
    """The instruction without operands."""
    how = "" if shape.combine == "mul" else f".{shape.combine}.popc"
    types = f"{shape.d}.{shape.a}.{shape.b}.{shape.c}"
    return f"mma.sync.aligned.m{shape.m}n8k{shape.k}.row.col{'.satfinite' * clamped}.{types}{how}"


def kernel(shape: Mma, *, clamped: bool = False, target: str = "sm_90a") -> str:
    """A kernel `k(a, b, c, d)`: register r of lane l of CTA i is word (i, r, l) of its array."""
    bits = 64 if shape.a == "f64" else 32
    kind = "d" if bits == 64 else "r"
    counts = dict(zip("dabc", shape.counts, strict=True))
    lines = []
    for name in "abc":
        lines.append(f"mul.wide.u32 %at, %i, {counts[name] * 4 * bits}; add.u64 %p, %at, %l; ")
        lines.append(f"ld.param.u64 %at, [{name}]; add.u64 %p, %p, %at;")
        lines += [f"ld.global.b{bits} %{name}{kind}{r}, [%p+{4 * bits * r}];" for r in range(counts[name])]
    lists = ["{" + ",".join(f"%{name}{kind}{r}" for r in range(counts[name])) + "}" for name in "dabc"]
    lines.append(f"{text_of(shape, clamped=clamped)} {', '.join(lists)};")
    lines.append(f"mul.wide.u32 %at, %i, {counts['d'] * 4 * bits}; add.u64 %p, %at, %l; ")
    lines.append("ld.param.u64 %at, [d]; add.u64 %p, %p, %at;")
    lines += [f"st.global.b{bits} [%p+{4 * bits * r}], %d{kind}{r};" for r in range(counts["d"])]
    body = "\n".join(lines)
    return f"""
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
.reg .b32 %i, %t; .reg .b64 %at, %l, %p;
{" ".join(f".reg .b{bits} %{name}{kind}<{counts[name]}>;" for name in "dabc")}
mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mul.wide.u32 %l, %t, {bits // 8};
{body}
ret;
}}
"""


def run(shape: Mma, a: Bits, b: Bits, c: Bits, *, arch: str = "sm_90", clamped: bool = False, **options: Any) -> Bits:
    """Bits of d for tiles of elements' bits: a [tiles, m, k], b [tiles, k, 8], c [tiles, m, 8]; `b1` by 32 k."""
    packed = [np.ascontiguousarray(x) for x in (pack_a(shape, a), pack_b(shape, b), pack_c(shape, c))]
    d = np.zeros((len(a), shape.counts[0], 32), packed[0].dtype)
    module = wsemu.load_ptx(kernel(shape, clamped=clamped, target="sm_90a" if arch == "sm_90" else arch))
    report = wsemu.check(module["k"], len(a), 32, (*packed, d), arch=arch, **options)
    assert report.verdict == "verified", report
    return unpack_c(shape, d)


def _whole(parts: list[Bits], width: int) -> Bits:
    total = np.zeros(parts[0].shape, np.uint64)
    for n, part in enumerate(parts):
        total |= part.astype(np.uint64) << np.uint64(width * n)
    return total.astype(np.uint64 if width == 64 else np.uint32)


def pack_a(shape: Mma, a: Bits) -> Bits:
    registers = []
    for r in range(shape.counts[1]):
        row = G + (8 * (r % 2) if shape.m == 16 else 0)
        block = r // 2 if shape.m == 16 else r
        n = shape.parts
        registers.append(_whole([a[:, row, n * 4 * block + n * T + x] for x in range(n)], shape.width))
    return np.stack(registers, 1)


def pack_b(shape: Mma, b: Bits) -> Bits:
    n = shape.parts
    return np.stack(
        [_whole([b[:, n * 4 * r + n * T + x, G] for x in range(n)], shape.width) for r in range(shape.counts[2])], 1
    )


def pack_c(shape: Mma, c: Bits) -> Bits:
    one = [c[:, G + 8 * h, 2 * T + x] for h in range(shape.m // 8) for x in range(2)]
    if shape.c == "f16":
        return np.stack([_whole(one[2 * h : 2 * h + 2], 16) for h in range(shape.m // 8)], 1)
    return np.stack(one, 1).astype(np.uint64 if shape.c == "f64" else np.uint32)


def unpack_c(shape: Mma, d: Bits) -> Bits:
    found = np.zeros((len(d), shape.m, 8), d.dtype)
    for h in range(shape.m // 8):
        for x in range(2):
            if shape.d == "f16":
                found[:, G + 8 * h, 2 * T + x] = d[:, h] >> np.uint32(16 * x) & np.uint32(0xFFFF)
            else:
                found[:, G + 8 * h, 2 * T + x] = d[:, 2 * h + x]
    return found


def random_tiles(shape: Mma, tiles: int, seed: int, *, wild: bool = True) -> tuple[Bits, Bits, Bits]:
    """Random bits: all of them, or (not `wild`) of numbers near 1."""
    generator = np.random.default_rng(seed)
    k = shape.k // 32 if shape.a == "b1" else shape.k

    def elements(size: tuple[int, ...], type_: str) -> Bits:
        width = {"f64": 64, "f32": 32, "s32": 32, "b1": 32, "tf32": 32, "f16": 16, "bf16": 16}.get(type_, 0)
        width = width or (8 if type_[-1] in "832" and type_ not in ("s4", "u4") else 4)
        bits = generator.integers(0, 1 << 64, size, np.uint64) & np.uint64((1 << width) - 1)
        if not wild and type_ in _NEAR:
            mantissa, low, high = _NEAR[type_]
            exponent = generator.integers(low, high, size).astype(np.uint64) << np.uint64(mantissa)
            sign = generator.integers(0, 2, size).astype(np.uint64) << np.uint64(width - 1)
            bits = bits & np.uint64((1 << mantissa) - 1) | exponent | sign
        return bits

    return (
        elements((tiles, shape.m, k), shape.a),
        elements((tiles, k, 8), shape.b),
        elements((tiles, shape.m, 8), shape.c),
    )


_NEAR = {
    "f16": (10, 8, 20), "bf16": (7, 115, 135), "tf32": (23, 115, 135), "f32": (23, 110, 140), "e4m3": (3, 2, 12),
    "e5m2": (2, 8, 22), "f64": (52, 1000, 1040),
}  # fmt: skip
"""type -> bits of the mantissa, exponent fields from, to"""
