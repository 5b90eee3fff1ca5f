"""Matrix instructions: what mma.sync adds up to, by records of hardware and between the engines; moves of matrices."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit.matrix_kernels import ALL, G, T, kernel, random_tiles, run
from wsemu.frontend.ptx import compile_entry, parse
from wsemu.model.arch import ARCHS
from wsemu.model.matrix import MMA

RECORDS = Path(__file__).parents[1] / "data" / "tensor_core.npz"
"""of an H100: for each instruction a few hundred tiles a, b, c, and what it gave"""
OF_PTX = [name for name in ALL if not (MMA[name].m == 8 and MMA[name].a in ("f16", "bf16"))]
ENGINES = ("vm", "reference")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- sums ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", OF_PTX)
def test_both_engines_give_the_same_bits(name: str) -> None:
    shape = MMA[name]
    for wild in (True, False):
        a, b, c = random_tiles(shape, 2, seed=len(name), wild=wild)
        fast, slow = (run(shape, a, b, c, engine=engine) for engine in ENGINES)
        assert np.array_equal(fast, slow)


_SINCE = {
    "mma.m16n8k16.f32.f16.f16.f32": "sm_80",
    "mma.m16n8k8.f32.tf32.tf32.f32": "sm_80",
    "mma.m16n8k32.f32.e4m3.e5m2.f32": "sm_89",
}


@pytest.mark.parametrize(
    ("name", "arch"),
    [(name, arch) for name, since in _SINCE.items() for arch in ARCHS if since <= arch < "sm_90"],
)
def test_both_engines_add_as_each_architecture_does(name: str, arch: str) -> None:
    a, b, c = random_tiles(MMA[name], 2, seed=7, wild=False)
    fast, slow = (run(MMA[name], a, b, c, engine=engine, arch=arch) for engine in ENGINES)
    assert np.array_equal(fast, slow)


@functools.cache
def records() -> dict[str, Any]:
    with np.load(RECORDS) as file:
        return dict(file)


@pytest.mark.parametrize("name", sorted({key.rpartition("/")[0] for key in records()}))
def test_sums_are_those_of_an_h100(name: str, engine: str) -> None:
    a, b, c, d = (records()[f"{name}/{x}"] for x in "abcd")
    some = len(a) if engine == "vm" else 6
    assert np.array_equal(run(MMA[name], a[:some], b[:some], c[:some], engine=engine), d[:some])


def tile(shape: str, a: list[int], b: list[int], c: int) -> tuple[Any, Any, Any]:
    """One tile of which element (0, 0) is the sum of these products and c."""
    k, of_c = MMA[shape].k, np.zeros((1, 16, 8), np.uint64)
    of_a, of_b = np.zeros((1, 16, k), np.uint64), np.zeros((1, k, 8), np.uint64)
    of_a[0, 0, : len(a)], of_b[0, : len(b), 0], of_c[0, 0, 0] = a, b, c
    return of_a, of_b, of_c


ONE, SMALLEST, LARGEST, INF, NAN = 0x3C00, 0x0001, 0x7BFF, 0x7C00, 0x7E00


@pytest.mark.parametrize(
    ("a", "b", "c", "sum_"),
    [
        ([SMALLEST], [SMALLEST], 0, 0x27800000),  # 2^-48: no operand is flushed
        ([ONE, ONE], [LARGEST, 0x8000 | LARGEST], 0, 0),  # cancels
        ([ONE, 0x8000 | ONE], [ONE, ONE], 0x80000000, 0),  # the zero is positive
        ([0x8000], [ONE], 0x80000000, 0),
        ([ONE], [ONE], 0x32800000, 0x3F800000),  # 2^-26 is cut off
        ([ONE], [ONE], 0x33FFFFFF, 0x3F800000),  # less than 2^-23: the result is cut toward zero
        ([ONE], [ONE], 0xB3000000, 0x3F7FFFFF),  # 1 - 2^-25
        ([INF], [ONE], 0, 0x7F800000),
        ([INF], [0x8000], 0, 0x7FFFFFFF),
        ([INF, INF], [ONE, 0x8000 | ONE], 0, 0x7FFFFFFF),
        ([INF], [ONE], 0xFF800000, 0x7FFFFFFF),
        ([NAN], [0], 0, 0x7FFFFFFF),
        ([0], [0], 0xFFC00001, 0x7FFFFFFF),
        ([LARGEST], [LARGEST], 0x7F7FFFFF, 0x7F7FFFFF),
        ([0], [0], 0x00000001, 0x00000001),
    ],
)
def test_w1_terms_are_cut_then_added_exactly(engine: str, a: list[int], b: list[int], c: int, sum_: int) -> None:
    name = "mma.m16n8k16.f32.f16.f16.f32"
    assert run(MMA[name], *tile(name, a, b, c), engine=engine)[0, 0, 0] == sum_


def test_w1_f32_overflows_to_infinity(engine: str) -> None:
    name = "mma.m16n8k16.f32.bf16.bf16.f32"
    assert run(MMA[name], *tile(name, [0x7F7F], [0xFF7F], 0), engine=engine)[0, 0, 0] == 0xFF800000


def test_w4_f16_is_rounded_to_nearest_even(engine: str) -> None:
    name = "mma.m16n8k16.f16.f16.f16.f16"
    for c, sum_ in ((0x1000, 0x3C00), (0x1001, 0x3C01), (0x1400, 0x3C01)):  # half a unit, more, a unit
        assert run(MMA[name], *tile(name, [ONE], [ONE], c), engine=engine)[0, 0, 0] == sum_
    assert run(MMA[name], *tile(name, [LARGEST], [ONE], LARGEST), engine=engine)[0, 0, 0] == INF


@pytest.mark.parametrize(
    ("a", "b", "sum_"),
    [
        (  # exactly -1.4999998 units: cut behind 2^-46 it is -1.5
            "038e 0ce4 0631 1298 02f7 0124 06e2 003b 90a9 80a1 08e1 1045 8cbf 0172 8268 11b2",
            "0084 80a5 01a2 0236 047d 12c1 0a8d 926e 0b68 0a2e 8341 8ccc 8d58 120d 8095 0290",
            0x8002,
        ),
        (  # -0.50000006: it is -0.5, which becomes 0
            "0000 00ed 8173 80b4 8164 8078 8334 0271 8188 82c5 8000 0000 03d1 8000 0074 0162",
            "81df 825e 0f5b 0113 01a7 8cb6 00f8 8154 82dc 10ec 0bb2 0351 066f 8ec6 8235 8113",
            0x0000,
        ),
    ],
)
def test_terms_far_below_an_f16_accumulator_are_cut(engine: str, a: str, b: str, sum_: int) -> None:
    """Two of 102,400,000 sums of an H200 that tell -21 from other least exponents."""
    name = "mma.m16n8k16.f16.f16.f16.f16"
    of_a, of_b = ([int(half, 16) for half in row.split()] for row in (a, b))
    assert run(MMA[name], *tile(name, of_a, of_b, 0), engine=engine)[0, 0, 0] == sum_


def test_w9_integers_wrap_or_are_clamped(engine: str) -> None:
    name = "mma.m16n8k32.s32.s8.s8.s32"
    made = tile(name, [0x80], [0x80], 0x7FFFFFFF)
    assert run(MMA[name], *made, engine=engine)[0, 0, 0] == (0x7FFFFFFF + 0x4000) & 0xFFFFFFFF
    assert run(MMA[name], *made, engine=engine, clamped=True)[0, 0, 0] == 0x7FFFFFFF


# -- how it is written -----------------------------------------------------------------------------------------------
def small(body: str, threads: int = 32, engine: str = "vm", shared: int = 2048) -> tuple[Any, Any]:
    """A kernel with words %r0.. (lane * 0x00010001 * 3 + number) that stores %d0..%d7; (report, results by lane)."""
    text = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 x)
{{
.shared .align 128 .b8 tile[{shared}];
.reg .b32 %r<16>, %d<8>, %t, %s, %u; .reg .f32 %f<8>; .reg .f64 %e<4>; .reg .b64 %p, %at, %x; .reg .pred %q;
mov.u32 %t, %tid.x; mul.lo.u32 %u, %t, 196611;
{" ".join(f"add.u32 %r{n}, %u, {n}; " for n in range(16))}
{" ".join(f"mov.u32 %d{n}, 0;" for n in range(8))}
ld.param.u64 %x, [x];
mov.u32 %s, tile; shl.b32 %u, %t, 4; add.u32 %s, %s, %u;
{body}
ld.param.u64 %p, [out]; mul.wide.u32 %at, %t, 32; add.u64 %p, %p, %at;
st.global.v4.b32 [%p], {{%d0, %d1, %d2, %d3}}; st.global.v4.b32 [%p+16], {{%d4, %d5, %d6, %d7}};
ret;
}}
"""
    out = np.zeros((threads, 8), np.uint32)
    x = np.arange(4096, dtype=np.uint16)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, threads, (out, x), engine=engine)  # type: ignore[arg-type]
    return report, out


WORD = (np.arange(32)[:, None] * 196611 + np.arange(16)).astype(np.uint32)
"""%r0.. by lane"""
FILL = "st.shared.v4.b32 [%s], {%r0, %r1, %r2, %r3}; bar.sync 0;\n"
HALVES = WORD[:, :4].copy().view(np.uint16).reshape(4, 8, 8)
"""what it puts there: matrices, rows, columns"""


def test_satfinite_may_stand_behind_the_types() -> None:
    """As ptxas takes it, and CUTLASS writes it."""
    kinds = ("row.col.satfinite.s32.s8.s8.s32", "row.col.s32.s8.s8.s32.satfinite")
    operands = "{%d0, %d1, %d2, %d3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%u, %u, %u, %u};"
    made = [small(f"mov.u32 %u, 2147483647; mma.sync.aligned.m16n8k32.{kind} {operands}") for kind in kinds]
    assert all(report.verdict == "verified" for report, _ in made)
    assert np.array_equal(made[0][1], made[1][1])


def pairs(low: Any, high: Any) -> Any:
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
def test_ldmatrix(engine: str, count: int, trans: bool, space: str) -> None:
    into = "{" + ", ".join(f"%d{n}" for n in range(count)) + "}"
    address = "%s" if space else "%p"
    body = FILL
    if not space:
        body += "cvt.u64.u32 %p, %s; cvta.shared.u64 %p, %p;\n"
    report, out = small(
        f"{body}ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * trans}{space}.b16 {into}, [{address}];", engine=engine
    )
    assert report.verdict == "verified", report
    for m in range(count):
        matrix = HALVES[m].T if trans else HALVES[m]
        assert np.array_equal(out[:, m], pairs(matrix[G, 2 * T], matrix[G, 2 * T + 1]))


def test_the_shape_of_an_ldmatrix_may_stand_behind_the_number(engine: str) -> None:
    found = []
    for spelled in ("m8n8.x2.trans.shared.b16", "x2.m8n8.trans.shared.b16", "x2.trans.m8n8.shared.b16"):
        report, out = small(f"{FILL}ldmatrix.sync.aligned.{spelled} {{%d0, %d1}}, [%s];", engine=engine)
        assert report.verdict == "verified", report
        found.append(out.tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_is_the_reverse(engine: str, count: int, trans: bool) -> None:
    values = "{" + ", ".join(f"%r{n + 4}" for n in range(count)) + "}"
    more = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' * trans}.shared.b16 [%s], {values}; bar.sync 0;\n"
    report, out = small(f"{FILL}{more} ld.shared.v4.b32 {{%d0, %d1, %d2, %d3}}, [%s];", engine=engine)
    assert report.verdict == "verified", report
    found = np.ascontiguousarray(out[:, :4]).view(np.uint16).reshape(4, 8, 8)
    for m in range(4):
        matrix = found[m].T if trans and m < count else found[m]
        if m < count:
            assert np.array_equal(pairs(matrix[G, 2 * T], matrix[G, 2 * T + 1]), WORD[:, m + 4])
        else:
            assert np.array_equal(matrix, HALVES[m])


def test_movmatrix_transposes(engine: str) -> None:
    report, out = small("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %r0;", engine=engine)
    assert report.verdict == "verified", report
    matrix = np.zeros((8, 8), np.uint16)
    matrix[G, 2 * T], matrix[G, 2 * T + 1] = WORD[:, 0] & 0xFFFF, WORD[:, 0] >> 16
    assert np.array_equal(out[:, 0], pairs(matrix.T[G, 2 * T], matrix.T[G, 2 * T + 1]))


def test_ldmatrix_races_with_a_store_of_another_lane(engine: str) -> None:
    body = "st.shared.v4.b32 [%s], {%r0, %r1, %r2, %r3}; xor.b32 %s, %s, 16;\n"
    report, _ = small(f"{body} ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%d0, %d1, %d2, %d3}}, [%s];", engine=engine)
    assert {d.code for d in report.findings if d.severity == "error"} == {"intra-warp-race"}


def test_ldmatrix_needs_rows_of_16_bytes(engine: str) -> None:
    body = f"{FILL} add.u32 %s, %s, 8;"
    report, _ = small(f"{body} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%d0}}, [%s];", engine=engine)
    assert {d.code for d in report.findings if d.severity == "error"} == {"misaligned"}


def test_matrix_instructions_need_the_whole_warp(engine: str) -> None:
    body = "setp.lt.u32 %q, %t, 16; @!%q bra L; movmatrix.sync.aligned.m8n8.trans.b16 %d0, %r0; L:"
    report, _ = small(body, engine=engine)
    assert "barrier-divergence" in {d.code for d in report.findings}
    report, _ = small("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %r0;", threads=16, engine=engine)
    assert "barrier-divergence" in {d.code for d in report.findings}


FOUR = "{%f0,%f1,%f2,%f3}"
ORDINARY = f"{FOUR}, {{%r0,%r1,%r2,%r3}}, {{%r4,%r5}}, {FOUR};"


@pytest.mark.parametrize(
    "text",
    [
        "mma.sp.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 " + ORDINARY,
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 " + ORDINARY,
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.f32.e3m2.e3m2.f32 " + ORDINARY,
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 " + ORDINARY,
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%s];",
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%s], {%r0};",
    ],
)
def test_other_forms_are_refused_by_name(text: str) -> None:
    report, _ = small(text)
    assert report.verdict == "incomplete"
    assert any(text.partition(" ")[0] in reason for reason in report.notes)


def test_accumulators_stay_where_they_are_in_a_loop() -> None:
    text = kernel(MMA["mma.m16n8k16.f32.f16.f16.f32"])
    start = text.index("mma.sync")
    stop = text.index(";", start) + 1
    step = text[start:stop].replace("%dr", "%cr")
    loop = f".reg .pred %pp; L: {step} setp.ne.u32 %pp, %t, 256; @%pp bra L; {text[start:stop]}"
    module = parse(text[:start] + loop + text[stop:], "k.ptx")
    listing = compile_entry(module, module.entries["k"], ("address",) * 4).listing()
    assert "mov.b32" not in listing


# -- wmma ------------------------------------------------------------------------------------------------------------
WMMA = {
    "half_16": ((16, 16, 16), "e", np.float32, ("row", 16), ("col", 24), ("row", 16)),
    "half_32_8": ((32, 8, 16), "e", np.float16, ("col", 40), ("row", 8), ("col", 32)),
    "half_8_32": ((8, 32, 16), "e", np.float32, ("row", 16), ("row", 32), ("col", 8)),
    "bfloat_16": ((16, 16, 16), "b", np.float32, ("col", 16), ("col", 16), ("row", 20)),
    "bytes_8_32": ((8, 32, 16), "i1", np.int32, ("row", 16), ("col", 16), ("row", 32)),
    "bytes_16": ((16, 16, 16), "u1", np.int32, ("col", 16), ("row", 16), ("row", 16)),
    "doubles": ((8, 8, 4), "d", np.float64, ("row", 4), ("col", 4), ("row", 8)),
}
"""kernel of wmma.cu -> m, n, k; type of a and b; of c and d; layout and stride of a, b, c"""


def laid_out(matrix: Any, layout: str, stride: int) -> Any:
    """A matrix in memory."""
    lines = matrix if layout == "row" else matrix.T
    memory = np.zeros((lines.shape[0], stride), matrix.dtype)
    memory[:, : lines.shape[1]] = lines
    return memory.ravel()


@pytest.mark.parametrize("name", WMMA)
def test_wmma_of_cuda(engine: str, name: str) -> None:
    (m, n, k), type_, accumulator, *places = WMMA[name]
    generator = np.random.default_rng(1)
    numbers = [
        generator.integers(0 if type_ == "u1" else -8, 9, size).astype(np.float32) for size in ((m, k), (k, n), (m, n))
    ]  # fmt: skip
    a, b, c = numbers
    stored = [
        (x.view(np.uint32) >> 16).astype(np.uint16) if type_ == "b" else x.astype(type_) for x in (a, b)
    ]  # fmt: skip
    memory = [laid_out(x, *place) for x, place in zip((*stored, c.astype(accumulator)), places, strict=True)]
    d = np.zeros_like(memory[2])
    module = wsemu.load_ptx(Path(__file__).parents[1] / "ptx" / "wmma.sm_90a.ptx")
    report = wsemu.check(module[name], 1, 32, (*memory, d), engine=engine)  # type: ignore[arg-type]
    assert report.verdict == "verified", report
    assert np.array_equal(d, laid_out((a @ b + c).astype(accumulator), *places[2]))
