"""Sparse products, `mma.sp` and `wgmma.mma_async.sp`: a model in NumPy, both engines, and metadata that PTX rejects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import wsemu
from tests.unit.matrix_kernels import G, T, pack_b, pack_c, random_tiles, unpack_c
from wsemu.model.matrix import MMA, WGMMA, Mma

Bits = npt.NDArray[Any]
SPARSE = {name: shape for name, shape in MMA.items() if shape.sparse}
ENGINES = ("vm", "reference")
PAIRS = [(low, high) for high in range(4) for low in range(high)]
"""positions of two elements of four"""


def kernel(shape: Mma, selector: int, *, kind: str = "sp", target: str = "sm_90a") -> str:
    """A kernel `k(a, e, b, c, d)`: register r of lane l of CTA i is word (i, r, l) of its array."""
    counts = {"a": shape.counts[1] - 1, "e": 1, "b": shape.counts[2], "c": shape.counts[3], "d": shape.counts[0]}
    lines = []
    for name in "aebc":
        lines.append(f"mul.wide.u32 %at, %i, {counts[name] * 128}; add.u64 %p, %at, %l; ld.param.u64 %at, [{name}];")
        lines.append("add.u64 %p, %p, %at;")
        lines += [f"ld.global.b32 %{name}{r}, [%p+{128 * r}];" for r in range(counts[name])]
    lists = {name: "{" + ",".join(f"%{name}{r}" for r in range(n)) + "}" for name, n in counts.items()}
    types = f"{shape.d}.{shape.a}.{shape.b}.{shape.c}"
    lines.append(
        f"mma.{kind}.sync.aligned.m16n8k{shape.k}.row.col.{types} {lists['d']}, {lists['a']}, {lists['b']}, "
        f"{lists['c']}, %e0, {selector};"
    )
    lines.append(f"mul.wide.u32 %at, %i, {counts['d'] * 128}; add.u64 %p, %at, %l; ld.param.u64 %at, [d];")
    lines.append("add.u64 %p, %p, %at;")
    lines += [f"st.global.b32 [%p+{128 * r}], %d{r};" for r in range(counts["d"])]
    body = "\n".join(lines)
    return f"""
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 e, .param .u64 b, .param .u64 c, .param .u64 d)
{{
.reg .b32 %i, %t; .reg .b64 %at, %l, %p;
{" ".join(f".reg .b32 %{name}<{n}>;" for name, n in counts.items())}
mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mul.wide.u32 %l, %t, 4;
{body}
ret;
}}
"""


def random_positions(shape: Mma, generator: np.random.Generator, *, ordered: bool = True) -> Bits:
    """The k of each stored element, [16, k / 2], without the multiples of the chunk: [16, chunks, 1 or 2]."""
    chunks = shape.k // shape.chunk
    if shape.chunk == 2:
        return generator.integers(0, 2, (16, chunks, 1))
    found = np.array(PAIRS)[generator.integers(0, 6, (16, chunks))]
    if not ordered:
        found = np.where(generator.integers(0, 2, (16, chunks, 1)) > 0, found[..., ::-1], found)
    return found


def nibbles(positions: Bits) -> Bits:
    """The 4 bits of each chunk: 0b0100 and 0b1110 for one position of two."""
    if positions.shape[-1] == 1:
        return np.asarray(np.array([0b0100, 0b1110])[positions[..., 0]])
    return np.asarray(positions[..., 0] | positions[..., 1] << 2)


def pack_metadata(shape: Mma, positions: Bits, selector: int) -> Bits:
    """The metadata register of each lane; lanes that provide none have all bits set, which is invalid."""
    bits = nibbles(positions).astype(np.uint64)
    found = np.full(32, 0xFFFFFFFF, np.uint32)

    def word(row: int, first: int, count: int) -> int:
        return sum(int(bits[row, first + n]) << 4 * n for n in range(count))

    for g in range(8):
        if shape.width == 8:  # a lane has 8 chunks of one row
            for part in range(shape.k // 32):
                for half in range(2):
                    lane = 2 * (selector if shape.k == 32 else part) + half
                    found[4 * g + lane] = word(g + 8 * half, 8 * part, 8)
        else:  # a lane has 4 chunks of two rows
            lanes = shape.k // shape.chunk // 4
            for part in range(lanes):
                low, high = word(g, 4 * part, 4), word(g + 8, 4 * part, 4)
                found[4 * g + lanes * selector + part] = low | high << 16
    return found


def pack_stored(shape: Mma, a: Bits) -> Bits:
    """Registers of the stored elements [tiles, 16, k / 2]."""
    n = shape.parts
    registers = []
    for r in range(shape.counts[1] - 1):
        total = np.zeros((len(a), 32), np.uint64)
        for x in range(n):
            total |= a[:, G + 8 * (r % 2), n * 4 * (r // 2) + n * T + x].astype(np.uint64) << np.uint64(shape.width * x)
        registers.append(total.astype(np.uint32))
    return np.stack(registers, 1)


def run(shape: Mma, a: Bits, e: Bits, b: Bits, c: Bits, selector: int = 0, **options: Any) -> Any:
    """Bits of d for stored elements a [tiles, 16, k / 2] and metadata e [tiles, 32]."""
    kind, target = options.pop("kind", "sp"), options.pop("target", "sm_90a")
    d = np.zeros((len(a), shape.counts[0], 32), np.uint32)
    packed = (pack_stored(shape, a), np.ascontiguousarray(e[:, None]), pack_b(shape, b), pack_c(shape, c))
    module = wsemu.load_ptx(kernel(shape, selector, kind=kind, target=target))
    report = wsemu.check(module["k"], len(a), 32, (*[np.ascontiguousarray(x) for x in packed], d), **options)
    return report, unpack_c(shape, d)


def small_numbers(shape: Mma, generator: np.random.Generator, size: tuple[int, ...], of_b: bool) -> tuple[Bits, Bits]:
    """Bits and values of small integers, of which all sums are exact."""
    type_ = shape.b if of_b else shape.a
    low = 0 if type_[0] == "u" else -3
    values = generator.integers(low, 4, size)
    bits: Bits = values.astype(np.float32).view(np.uint32)
    if type_ in ("f16", "bf16", "tf32"):
        if type_ == "bf16":
            bits = bits >> 16
        elif type_ == "f16":
            return values.astype(np.float16).view(np.uint16).astype(np.uint64), values
        return bits.astype(np.uint64), values
    if type_ in ("e4m3", "e5m2"):
        table = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44} if type_ == "e4m3" else {0: 0, 1: 0x3C, 2: 0x40, 3: 0x42}
        bits = np.vectorize(lambda v: table[abs(v)] | 0x80 * (v < 0))(values)
        return bits.astype(np.uint64), values
    return (values & 0xFF).astype(np.uint64), values


def widen(shape: Mma, stored: Bits, positions: Bits) -> Bits:
    """The dense matrix [16, k] of stored elements [16, k / 2]."""
    chunks, count = shape.k // shape.chunk, positions.shape[-1]
    dense = np.zeros((16, chunks, shape.chunk), stored.dtype)
    np.put_along_axis(dense, positions, stored.reshape(16, chunks, count), 2)
    return dense.reshape(16, shape.k)


def to_bits(type_: str, values: Bits) -> Bits:
    if type_ == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return values.astype(np.float32).view(np.uint32) if type_ == "f32" else values.astype(np.int32).view(np.uint32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_product_is_that_of_the_dense_matrix(name: str, engine: str) -> None:
    shape = SPARSE[name]
    generator = np.random.default_rng(len(name))
    tiles = 6 if engine == "vm" else 2
    for selector in range(4 // shape.providers):
        a, left = small_numbers(shape, generator, (tiles, 16, shape.k // 2), False)
        b, right = small_numbers(shape, generator, (tiles, shape.k, 8), True)
        start = generator.integers(-9, 10, (tiles, 16, 8))
        positions = [random_positions(shape, generator, ordered=False) for _ in range(tiles)]
        e = np.stack([pack_metadata(shape, x, selector) for x in positions])
        report, d = run(shape, a, e, b, to_bits(shape.c, start), selector, engine=engine)
        assert report.verdict == "verified", report
        dense = np.stack([widen(shape, x, at) for x, at in zip(left, positions, strict=True)])
        assert np.array_equal(d, to_bits(shape.d, dense @ right + start))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", SPARSE)
def test_both_engines_give_the_same_bits(name: str, arch: str) -> None:
    shape = SPARSE[name]
    if "8k64.f32" in name and arch == "sm_80":
        return
    generator = np.random.default_rng(7)
    target = "sm_90a" if arch == "sm_90" else arch
    for wild in (True, False):
        a, b, c = random_tiles(shape, 2, seed=len(name), wild=wild)
        e = np.stack([pack_metadata(shape, random_positions(shape, generator), 0) for _ in range(2)])
        given = (a[:, :, : shape.k // 2], e, b, c)
        found = [
            run(shape, *given, kind="sp::ordered_metadata", engine=engine, arch=arch, target=target)
            for engine in ENGINES
        ]
        assert [report.verdict for report, _ in found] == ["verified"] * 2
        assert np.array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_element_that_is_not_stored_multiplies_nothing(engine: str) -> None:
    shape = SPARSE["mma.sp.m16n8k16.f32.f16.f16.f32"]
    a, b, c = np.full((1, 16, 8), 0x3C00, np.uint64), np.full((1, 16, 8), 0x3C00, np.uint64), np.zeros((1, 16, 8))
    b[0, 2::4] = 0x7C00  # infinite
    positions = np.full((16, 4, 2), [0, 1])
    for bits, sum_ in ((0x3C00, 0x41000000), (0, 0)):
        a[:] = bits
        report, d = run(shape, a, pack_metadata(shape, positions, 0)[None], b, c.astype(np.uint32), engine=engine)
        assert report.verdict == "verified"
        assert (d == sum_).all()
    positions = np.full((16, 4, 2), [1, 2])  # the element for the infinity is 0
    _, d = run(shape, a, pack_metadata(shape, positions, 0)[None], b, c.astype(np.uint32), engine=engine)
    assert (d == 0x7FFFFFFF).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "kind", "bits", "wrong"),
    [
        ("mma.sp.m16n8k16.f32.f16.f16.f32", "sp", 0x44444440, True),
        ("mma.sp.m16n8k16.f32.f16.f16.f32", "sp", 0x4444A444, True),
        ("mma.sp.m16n8k16.f32.f16.f16.f32", "sp", 0x44441444, False),
        ("mma.sp.m16n8k16.f32.f16.f16.f32", "sp::ordered_metadata", 0x44441444, True),
        ("mma.sp.m16n8k16.f32.f16.f16.f32", "sp::ordered_metadata", 0xE9C84DE4, False),
        ("mma.sp.m16n8k8.f32.tf32.tf32.f32", "sp", 0x4E4E4EE4, False),
        ("mma.sp.m16n8k8.f32.tf32.tf32.f32", "sp", 0x4E4E4EC4, True),
        ("mma.sp.m16n8k64.s32.s8.s8.s32", "sp", 0x4444F444, True),
    ],
)
def test_invalid_metadata_are_undefined_behavior(name: str, kind: str, bits: int, wrong: bool, engine: str) -> None:
    shape = SPARSE[name]
    a, b, c = (np.zeros_like(x) for x in random_tiles(shape, 1, seed=0))
    e = np.full((1, 32), 0x44444444, np.uint32)
    e[0, 4] = bits
    report, _ = run(shape, a[:, :, : shape.k // 2], e, b, c, kind=kind, engine=engine)
    assert [finding.code for finding in report.findings] == ["undefined-behavior"] * wrong
    if wrong:
        assert report.findings[0].message == "sparse matrix multiply with invalid metadata"


def test_metadata_of_lanes_that_provide_none_are_not_read() -> None:
    shape = SPARSE["mma.sp.m16n8k16.f32.f16.f16.f32"]
    a, b, c = (np.zeros_like(x) for x in random_tiles(shape, 1, seed=0))
    e = np.zeros((1, 32), np.uint32)
    e[0, 3::4] = 0x44444444
    report, _ = run(shape, a[:, :, :8], e, b, c, 3)
    assert report.verdict == "verified"


# -- wgmma -------------------------------------------------------------------------------------------------------------
GROUPS = {
    name: found
    for name, found in WGMMA.items()
    if found.part.sparse and found.part.a == found.part.b and found.part.a not in ("bf16", "e5m2", "u8")
}
COLUMNS = 16


def group_kernel(name: str, selector: int, *, turned: bool) -> str:
    """A kernel `k(a, e, b, d)` of a warpgroup: a [64, 32 bytes] and b [16, 64 bytes] are copied to shared memory, in
    blocks of 8 rows and 16 bytes."""
    found = GROUPS[name]
    part = found.part
    registers = {"f16": 2, "f32": 4, "s32": 4}[part.d] * COLUMNS // 8
    sums = "{" + ", ".join(f"%d{r}" for r in range(registers)) + "}"
    of_a = "%a" if found.shared else "{%f0, %f1, %f2, %f3}"
    scales = "" if part.a == "s8" else ", 1, 1"
    turns = (", 0" if found.shared else "") + f", {int(turned)}" if part.a == "f16" else ""
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 e, .param .u64 b, .param .u64 d)
{{
.shared .align 128 .b8 tile[4096];
.reg .b32 %t, %s, %e, %i, %x, %f<4>, %d<{registers}>; .reg .b64 %a, %b, %at, %l, %p; .reg .pred %q;
mov.u32 %t, %tid.x; mov.u32 %s, tile; mul.wide.u32 %l, %t, 4;
ld.param.u64 %p, [e]; add.u64 %p, %p, %l; ld.global.b32 %e, [%p];
ld.param.u64 %p, [a];
shl.b32 %i, %t, 4; cvt.u64.u32 %at, %i; add.u64 %at, %at, %p;
ld.global.v4.b32 {{%f0, %f1, %f2, %f3}}, [%at]; add.u32 %x, %s, %i; st.shared.v4.b32 [%x], {{%f0, %f1, %f2, %f3}};
ld.param.u64 %p, [b]; setp.lt.u32 %q, %t, 64;
cvt.u64.u32 %at, %i; add.u64 %at, %at, %p;
@%q ld.global.v4.b32 {{%f0, %f1, %f2, %f3}}, [%at];
@%q st.shared.v4.b32 [%x+2048], {{%f0, %f1, %f2, %f3}};
ld.param.u64 %p, [a]; mul.wide.u32 %at, %t, 16; add.u64 %p, %p, %at;
ld.global.v4.b32 {{%f0, %f1, %f2, %f3}}, [%p+2048];
fence.proxy.async; bar.sync 0;
cvt.u64.u32 %at, %s; shr.u64 %at, %at, 4;
or.b64 %a, %at, {8 << 16 | 16 << 32};
add.u64 %at, %at, 128; or.b64 %b, %at, {(16 << 16 | 8 << 32) if turned else (8 << 16 | 32 << 32)};
{" ".join(f"mov.b32 %d{r}, 0;" for r in range(registers))}
wgmma.fence.sync.aligned;
wgmma.mma_async.sp.sync.aligned.m64n{COLUMNS}k{part.k}.{part.d}.{part.a}.{part.b} {sums}, {of_a}, %b, %e, {selector}, 1{scales}{turns};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
ld.param.u64 %p, [d]; add.u64 %p, %p, %l;
{" ".join(f"st.global.b32 [%p+{512 * r}], %d{r};" for r in range(registers))}
ret;
}}
"""  # noqa: E501


def blocks(rows: Bits) -> Bits:
    """Bytes of rows, as blocks of 8 rows and 16 bytes: 8 rows first, then along the row, then down."""
    count, length = rows.shape
    return np.ascontiguousarray(rows.reshape(count // 8, 8, length // 16, 16).transpose(0, 2, 1, 3)).view(np.uint32)


def as_bytes(shape: Mma, bits: Bits) -> Bits:
    return np.ascontiguousarray(bits.astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[shape.width])).view(np.uint8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", GROUPS)
def test_a_sparse_wgmma_is_that_of_the_dense_matrix(name: str, turned: bool, engine: str) -> None:
    part = GROUPS[name].part
    if turned and part.a != "f16":
        return
    generator = np.random.default_rng(len(name))
    for selector in range(4 // part.providers):
        a, left = small_numbers(part, generator, (64, part.k // 2), False)
        b, right = small_numbers(part, generator, (part.k, COLUMNS), True)
        positions = [random_positions(part, generator) for _ in range(4)]
        e = np.concatenate([pack_metadata(part, x, selector) for x in positions])
        in_registers = pack_stored(part, a.reshape(4, 16, -1)).transpose(0, 2, 1)
        of_a = np.concatenate([blocks(as_bytes(part, a)).ravel(), np.ascontiguousarray(in_registers).ravel()])
        if turned:  # lines of one k and 8 columns
            of_b = np.ascontiguousarray(b.astype(np.uint16).reshape(part.k // 8, 8, 2, 8).transpose(0, 2, 1, 3))
            of_b = of_b.view(np.uint32)
        else:
            of_b = blocks(as_bytes(part, np.ascontiguousarray(b.T)))
        d = np.zeros((2 if part.d == "f16" else 4) * COLUMNS // 8 * 128, np.uint32)
        module = wsemu.load_ptx(group_kernel(name, selector, turned=turned))
        report = wsemu.check(module["k"], 1, 128, (of_a, e, np.ascontiguousarray(of_b).ravel(), d), engine=engine)  # type: ignore[arg-type]
        assert report.verdict == "verified", report
        per = 2 if part.d == "f16" else 4
        found = [unpack_c(part, d.reshape(-1, per, 4, 32)[n].transpose(1, 0, 2)) for n in range(COLUMNS // 8)]
        dense = np.concatenate([widen(part, left[16 * w : 16 * w + 16], at) for w, at in enumerate(positions)])
        assert np.array_equal(np.concatenate(found, 2).reshape(64, COLUMNS), to_bits(part.d, dense @ right))
