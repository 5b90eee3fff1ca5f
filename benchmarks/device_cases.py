"""Kernels in PTX whose results `device_bits.py` compares with a GPU, and the numbers that they use.

Each tile of a kernel takes its operands from a pool of numbers, at positions that follow from the tile's number.  The
numbers are random bits, similar numbers that cancel, subnormals, huge ones, zeros of both signs, infinities and nans.
A kernel has the parameters (a, b, c, d, first): pools of the three operands, memory for the results of a launch, and
the number of its first tile.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wsemu.model.matrix import FORMATS, MMA, WGMMA, Mma, Wgmma

Words = npt.NDArray[np.uint32]
POOL = 1 << 19
"""words of a pool"""
STRETCH = 1 << 12
"""words of one kind in it"""
_F64 = (64, 52, 1023)


class Case(NamedTuple):
    """A kernel `k`, and its launch."""

    name: str
    text: str
    pools: tuple[str, str, str]
    """formats of a, b and c"""
    threads: int
    tiles: int
    per_cta: int
    words: int
    """number of words of a tile's results"""
    result: str = ""
    """`f64`: nans of every kind count as one"""


# -- numbers -----------------------------------------------------------------------------------------------------------


@cache
def pool(format_: str) -> Words:
    """Return numbers of a format, packed into words."""
    generator = np.random.default_rng(sum(map(ord, format_)))
    wide = generator.integers(0, 1 << 32, POOL, np.uint32)
    if format_ not in FORMATS and format_ != "f64":
        return wide
    width, mantissa, bias = _layout(format_)
    per = max(32 // width, 1)
    bits = wide.view(np.uint64) if width == 64 else wide
    exponents = (1 << width - 1 - mantissa) - 1
    one, parts = int(bits.dtype.itemsize * 8), []
    for first in range(0, len(bits), STRETCH):
        stretch = bits[first : first + STRETCH]
        kind = first // STRETCH % 8
        packed = np.zeros_like(stretch)
        for part in range(per if width < 64 else 1):
            shift = one // per * part if width < 64 else 0
            raw = (stretch >> stretch.dtype.type(shift)) & stretch.dtype.type((1 << width) - 1)
            packed |= _of_kind(generator, kind, raw, mantissa, bias, exponents, width) << stretch.dtype.type(shift)
        parts.append(packed)
    return np.concatenate(parts).view(np.uint32)


def _layout(format_: str) -> tuple[int, int, int]:
    """Return (bits, bits of the mantissa, bias) of a format."""
    if format_ == "f64":
        return _F64
    found = FORMATS[format_]
    return found.bits, 23 if found.bits == 32 else found.mantissa, found.bias


def _of_kind(
    generator: np.random.Generator, kind: int, raw: Any, mantissa: int, bias: int, exponents: int, width: int
) -> Any:  # fmt: skip
    type_ = raw.dtype.type
    low = raw & type_((1 << mantissa) - 1)
    sign = raw & type_(1 << width - 1)
    spread = min(3, bias)

    def around(centre: int, reach: int) -> Any:
        found = generator.integers(centre - reach, centre + reach + 1, len(raw))
        return np.clip(found, 0, exponents - 1).astype(raw.dtype) << type_(mantissa)

    if kind == 0:  # all bits: infinities and nans among them
        return raw
    if kind == 1:  # near 1: they cancel
        return sign | around(bias, spread) | low
    if kind == 2:  # few of them, whose products are often opposite
        return sign | around(bias, 1)
    if kind == 3:  # subnormals and zeros
        return sign | np.where(generator.random(len(raw)) < 0.3, type_(0), low)
    if kind == 4:  # huge
        return sign | around(exponents - 1, spread) | low
    if kind == 5:  # small
        return sign | around(1, spread) | low
    if kind == 6:  # of all sizes
        return sign | around(exponents // 2, exponents // 2) | low
    rare = generator.random(len(raw))  # infinities or nans at a few positions
    special = sign | type_(exponents << mantissa) | np.where(rare < 0.005, low, type_(0))
    return np.where(rare < 0.02, special, sign | around(bias, spread) | low)


# -- text --------------------------------------------------------------------------------------------------------------
_HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 first)
{{
.reg .b32 %i, %t, %l, %h, %g, %first; .reg .b64 %at, %p; .reg .pred %q;
{registers}
mov.u32 %t, %tid.x; and.b32 %l, %t, 31; mov.u32 %i, %ctaid.x; ld.param.u32 %first, [first];
"""


def _pointer(number: int, words: int) -> str:
    """Emit the address, in %p, of a tile's operand in its pool, a multiple of 16 bytes."""
    return f"""add.u32 %h, %i, %first; mad.lo.u32 %h, %h, 3, {number};
mul.lo.u32 %h, %h, 2654435761; shr.u32 %g, %h, 15; xor.b32 %h, %h, %g;
mul.lo.u32 %h, %h, 2246822519; shr.u32 %g, %h, 13; xor.b32 %h, %h, %g;
mul.hi.u32 %h, %h, {(POOL - words) // 4}; mul.wide.u32 %at, %h, 16; ld.param.u64 %p, [{"abc"[number]}];
add.u64 %p, %p, %at;"""


def _registers(name: str, count: int, bits: int) -> str:
    return f".reg .b{bits} %{name}<{count}>;"


def _listed(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{n}" for n in range(count)) + "}"


def _load(number: int, name: str, count: int, bits: int, threads: int = 32) -> str:
    """Emit loads of a tile's registers: register r of a thread is element (r, thread) of its range."""
    thread = "%l" if threads == 32 else "%t"
    lines = [_pointer(number, count * threads * bits // 32), f"mul.wide.u32 %at, {thread}, {bits // 8};"]
    lines.append("add.u64 %p, %p, %at;")
    lines += [f"ld.global.b{bits} %{name}{r}, [%p+{threads * r * bits // 8}];" for r in range(count)]
    return "\n".join(lines)


def _store(name: str, count: int, bits: int, threads: int = 32) -> str:
    thread = "%l" if threads == 32 else "%t"
    size = count * threads * bits // 8
    lines = [f"mul.wide.u32 %at, %i, {size}; ld.param.u64 %p, [d]; add.u64 %p, %p, %at;"]
    lines.append(f"mul.wide.u32 %at, {thread}, {bits // 8}; add.u64 %p, %p, %at;")
    lines += [f"st.global.b{bits} [%p+{threads * r * bits // 8}], %{name}{r};" for r in range(count)]
    return "\n".join([*lines, "ret;", "}"])


def _format_of(type_: str) -> str:
    return type_ if type_ in FORMATS or type_ == "f64" else "bits"


# -- mma.sync ----------------------------------------------------------------------------------------------------------


def multiplications(tiles: int) -> list[Case]:
    """Return every dense `mma.sync` without a `.kind`; those of integers also with `.satfinite`."""
    dense = [shape for shape in MMA.values() if not (shape.sparse or shape.kind)]
    shapes = [shape for shape in dense if shape.m == 16 or shape.a not in ("f16", "bf16")]
    return [
        _multiplication(shape, tiles, clamped=clamped)
        for shape in shapes
        for clamped in ((False, True) if shape.d == "s32" and shape.a != "b1" else (False,))
    ]


def _multiplication(shape: Mma, tiles: int, *, clamped: bool) -> Case:
    how = "" if shape.combine == "mul" else f".{shape.combine}.popc"
    types = f"{shape.d}.{shape.a}.{shape.b}.{shape.c}"
    name = f"mma.sync.aligned.m{shape.m}n8k{shape.k}.row.col{'.satfinite' * clamped}.{types}{how}"
    bits = 64 if shape.a == "f64" else 32
    of_d, *counts = shape.counts
    lines = [_HEAD.format(registers="".join(map(_registers, "xyzw", (*counts, of_d), [bits] * 4)))]
    lines.append("shr.u32 %h, %t, 5; mad.lo.u32 %i, %i, 4, %h;")
    lines += [_load(n, "xyz"[n], count, bits) for n, count in enumerate(counts)]
    lists = ", ".join([_listed("w", of_d), *(_listed("xyz"[n], count) for n, count in enumerate(counts))])
    lines += [f"{name} {lists};", _store("w", of_d, bits)]
    pools = (_format_of(shape.a), _format_of(shape.b), _format_of(shape.c))
    return Case(
        name.replace("sync.aligned.", "").replace("row.col.", ""), "\n".join(lines), pools, 128, tiles, 4,
        of_d * bits, "f64" if bits == 64 else "",
    )  # fmt: skip


# -- wgmma -------------------------------------------------------------------------------------------------------------
_DESCRIPTOR = 0x8 << 16 | 0x10 << 32
"""rows of 16 bytes in groups of 8: 128 bytes to the next 16 of k, 256 to the next 8 rows"""
_DENSE = [found for found in WGMMA.values() if not found.part.sparse]


def groups(tiles: int) -> list[Case]:
    """Return every dense `wgmma` of 8 columns: plain, negated, transposed, and without accumulators; some also of 128
    columns."""
    cases = [_group(found, 8, tiles) for found in _DENSE]
    more = [found for found in _DENSE if found.part.a == found.part.b]
    for found in more:
        floats = found.part.d != "s32"
        if floats:
            cases.append(_group(found, 16, tiles, signs=(-1, 1)))
            cases.append(_group(found, 16, tiles, signs=(1, -1), uses=False))
        if found.part.a in ("f16", "bf16"):
            cases.append(_group(found, 16, tiles, turned=True))
        if found.part.a in ("s8", "u8"):
            cases.append(_group(found, 16, tiles, clamped=True))
        cases.append(_group(found, 128, tiles))
    return cases


def other_groups(tiles: int) -> list[Case]:
    """Return dense `wgmma` of all other numbers of columns."""
    return [_group(found, n, tiles) for found in _DENSE for n in _other_columns(found)]


def _other_columns(found: Wgmma) -> list[int]:
    whole = (8, 128) if found.part.a == found.part.b else (8,)
    coarse = found.part.d == "s32"
    return [n for n in range(8, 257, 8) if n not in whole and not (coarse and n > 32 and n % 16)]


def _group(
    found: Wgmma, n: int, tiles: int, *, signs: tuple[int, int] = (1, 1), turned: bool = False, uses: bool = True,
    clamped: bool = False,
) -> Case:  # fmt: skip
    part = found.part
    count, of_a = part.accumulators * n // 8, 4
    types = f"{part.d}.{part.a}.{part.b}" + (".and.popc" if part.combine == "and" else "")
    scales = "" if part.d == "s32" else f", {signs[0]}, {signs[1]}"
    turn = int(turned)
    turns = (f", {turn}, {turn}" if found.shared else f", {turn}") if part.a in ("f16", "bf16") else ""
    name = f"wgmma.mma_async.sync.aligned.m64n{n}k{part.k}{'.satfinite' * clamped}.{types}"
    registers = _registers("x", of_a, 32) + _registers("w", count, 32) + _registers("v", 4, 32)
    shared = [_into_shared(0, 2048, 0)] if found.shared else [_load(0, "x", of_a, 32, 128)]
    operand = "%da" if found.shared else _listed("x", of_a)
    text = [
        _HEAD.format(registers=f"{registers} .reg .b64 %da, %db; .shared .align 1024 .b8 tile[{2048 + 32 * n}];"),
        *shared, _into_shared(1, 32 * n, 2048), _load(2, "w", count, 32, 128),
        "fence.proxy.async; bar.sync 0; mov.u32 %h, tile; cvt.u64.u32 %da, %h; shr.u64 %da, %da, 4;",
        f"or.b64 %da, %da, {_DESCRIPTOR}; add.u64 %db, %da, 128; wgmma.fence.sync.aligned;",
        f"{name} {_listed('w', count)}, {operand}, %db, {int(uses)}{scales}{turns};",
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;", _store("w", count, 32, 128),
    ]  # fmt: skip
    marks = [f"{'shared' if found.shared else 'registers'}"]
    marks += [f"{signs[0]},{signs[1]}"] * (signs != (1, 1)) + ["turned"] * turned + ["d = a b"] * (not uses)
    pools = (_format_of(part.a), _format_of(part.b), _format_of(part.c))
    short = name.replace("mma_async.sync.aligned.", "")
    return Case(f"{short} {' '.join(marks)}", "\n".join(text), pools, 128, tiles, 1, count * 128)


def _into_shared(number: int, bytes_: int, to: int) -> str:
    """Emit a copy of part of a pool into shared memory, 16 bytes per thread in each step."""
    lines = [_pointer(number, bytes_ // 4)]
    for first in range(0, bytes_, 2048):
        here = min(128, (bytes_ - first) // 16)
        lines.append(
            f"setp.lt.u32 %q, %t, {here}; mul.wide.u32 %at, %t, 16; add.u64 %at, %p, %at; shl.b32 %g, %t, 4;"
            f"mov.u32 %h, tile; add.u32 %g, %g, %h;"
            f"@%q ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at+{first}];"
            f"@%q st.shared.v4.b32 [%g+{to + first}], {{%v0, %v1, %v2, %v3}};"
        )
    return "\n".join(lines)


# -- one instruction a thread ------------------------------------------------------------------------------------------


def singles(tiles: int) -> list[Case]:
    """Return conversions of small floats, arithmetic on pairs, and atomics of half precision; a tile is a warp."""
    cases = [_single(*form, tiles) for form in _CONVERSIONS + _PAIRS]
    return cases + [_atomic(*form, tiles) for form in _ATOMICS]


_CONVERSIONS: list[tuple[str, str, str, str]] = [
    *((f"cvt.rn.satfinite{relu}.{type_}x2.f32 %s, %x0, %y0; cvt.u32.u16 %w0, %s;", "f32", "f32", "f32")
      for type_ in ("e4m3", "e5m2") for relu in ("", ".relu")),
    *((f"cvt.rn.satfinite{relu}.{type_}x2.f16x2 %s, %x0; cvt.u32.u16 %w0, %s;", "f16", "f16", "f16")
      for type_ in ("e4m3", "e5m2") for relu in ("", ".relu")),
    *((f"cvt.u16.u32 %s, %x0; cvt.rn{relu}.f16x2.{type_}x2 %w0, %s;", type_, "bits", "bits")
      for type_ in ("e4m3", "e5m2") for relu in ("", ".relu")),
    *((f"cvt.{rounding}{relu}.{type_}x2.f32 %w0, %x0, %y0;", "f32", "f32", "f32")
      for type_ in ("f16", "bf16") for rounding in ("rn", "rz") for relu in ("", ".relu")),
    *((f"cvt.{how}.tf32.f32 %w0, %x0;", "f32", "f32", "f32") for how in ("rna", "rn", "rz", "rn.relu", "rz.relu")),
]  # fmt: skip
_PAIRS: list[tuple[str, str, str, str]] = [
    *((f"{operation}.{type_}x2 %w0, %x0, %y0;", type_, type_, type_) for type_ in ("f16", "bf16")
      for operation in ("add.rn", "sub.rn", "mul.rn", "min", "max", "min.NaN", "max.NaN", "min.NaN.xorsign.abs",
                        "max.xorsign.abs")),
    *((f"fma.rn{more}.{type_}x2 %w0, %x0, %y0, %z0;", type_, type_, type_) for type_ in ("f16", "bf16")
      for more in ("", ".relu")),
    ("fma.rn.sat.f16x2 %w0, %x0, %y0, %z0;", "f16", "f16", "f16"),
    *((f"{operation}.{type_}x2 %w0, %x0;", type_, type_, type_) for type_ in ("f16", "bf16")
      for operation in ("neg", "abs")),
]  # fmt: skip


def _single(body: str, a: str, b: str, c: str, tiles: int) -> Case:
    registers = ".reg .b16 %s; .reg .b32 %x<1>, %y<1>, %z<1>, %w<1>;"
    lines = [_HEAD.format(registers=registers), "shr.u32 %h, %t, 5; mad.lo.u32 %i, %i, 4, %h;"]
    lines += [_load(n, "xyz"[n], 1, 32) for n in range(3)]
    lines += [body, _store("w", 1, 32)]
    instruction = next(part for part in body.split("; ") if not part.startswith(("cvt.u16.u32", "cvt.u32.u16")))
    return Case(instruction.split()[0], "\n".join(lines), (a, b, c), 128, tiles, 4, 32)


_ATOMICS: list[tuple[str, str, int, int]] = [
    *((f"add.noftz.{type_}", type_.removesuffix("x2"), 1, 32 if type_.endswith("x2") else 16)
      for type_ in ("f16", "f16x2", "bf16", "bf16x2")),
    *((f"v{n}.f32.add", "f32", n, 32) for n in (2, 4)),
    *((f"v{n}.{type_}.{what}.noftz", type_, n, 16) for n in (2, 4, 8) for type_ in ("f16", "bf16")
      for what in ("add", "min", "max")),
    *((f"v{n}.{type_}x2.{what}.noftz", type_, n, 32) for n in (2, 4) for type_ in ("f16", "bf16")
      for what in ("add", "min", "max")),
]  # fmt: skip
"""(instruction, format, elements of a vector, bits of one)"""


def _atomic(instruction: str, format_: str, count: int, bits: int, tiles: int) -> Case:
    """Emit an atomic; each thread's results are four words: memory after the atomic, then its result."""
    registers = f".reg .b32 %x<4>, %y<4>, %w<8>; .reg .b{bits} %u<{count}>, %o<{count}>; .reg .b64 %to;"
    size = count * bits // 32 or 1
    lines = [_HEAD.format(registers=registers), "shr.u32 %h, %t, 5; mad.lo.u32 %i, %i, 4, %h;"]
    lines += [_load(0, "x", 4, 32), _load(1, "y", 4, 32)]
    lines.append("mul.wide.u32 %at, %i, 1024; ld.param.u64 %to, [d]; add.u64 %to, %to, %at;")
    lines.append("mul.wide.u32 %at, %l, 32; add.u64 %to, %to, %at; st.global.v4.b32 [%to], {%x0, %x1, %x2, %x3};")
    if bits == 16:
        pairs = [f"mov.b32 {{%u{2 * r}, %u{2 * r + 1}}}, %y{r};" for r in range(size)] if count > 1 else []
        lines += pairs or ["cvt.u16.u32 %u0, %y0;"]
    else:
        lines += [f"mov.b32 %u{r}, %y{r};" for r in range(size)]
    old, given = ("%o0", "%u0") if count == 1 else (_listed("o", count), _listed("u", count))
    lines.append(f"atom.global.{instruction} {old}, [%to], {given};")
    lines += [f"mov.b32 %w{r}, 0;" for r in range(4)]
    if bits == 16:
        lines += [f"mov.b32 %w{r}, {{%o{2 * r}, %o{2 * r + 1}}};" for r in range(size)] if count > 1 else []
        lines += ["cvt.u32.u16 %w0, %o0;"] if count == 1 else []
    else:
        lines += [f"mov.b32 %w{r}, %o{r};" for r in range(size)]
    lines += ["st.global.v4.b32 [%to+16], {%w0, %w1, %w2, %w3};", "ret;", "}"]
    return Case(f"atom.{instruction}", "\n".join(lines), (format_, format_, format_), 128, tiles, 4, 256)
