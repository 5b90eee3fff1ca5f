"""`mma.sync` of sm_120: floats of 4, 6 and 8 bits (`kind::f8f6f4`), and block scaling, against NumPy and between the
engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import wsemu
from tests.unit.matrix_kernels import G, T, pack_c, unpack_c
from wsemu.model.matrix import MMA, NARROW_FLOATS, Mma

Bits = npt.NDArray[Any]
ENGINES = ("vm", "reference")
NARROW = {name: shape for name, shape in MMA.items() if shape.kind}
FIELDS = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15), "e2m3": (2, 3, 1), "e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}
"""exponent bits, fraction bits, bias"""


def values(type_: str) -> Bits:
    """The value of all bits of a type; infinities and nans as numbers beyond."""
    exponent, fraction, bias = FIELDS[type_]
    bits = np.arange(1 << exponent + fraction + 1)
    field, low = bits >> fraction & (1 << exponent) - 1, bits & (1 << fraction) - 1
    sign = np.where(bits >> exponent + fraction, -1.0, 1.0)
    return np.asarray(sign * (low / 2.0**fraction + (field > 0)) * 2.0 ** (np.maximum(field, 1) - bias))


def finite(type_: str) -> Bits:
    """Bits of the finite numbers of a type."""
    sizes = {"e4m3": 127, "e5m2": 124, "e2m3": 32, "e3m2": 32, "e2m1": 8}[type_]
    sign = sum(FIELDS[type_][:2])
    return np.concatenate([np.arange(sizes), np.arange(sizes) | 1 << sign]).astype(np.uint32)


def kernel(shape: Mma, text: str, places: str = "") -> str:
    """A kernel `k(a, sa, b, sb, c, d)`; `places`: byte and lane of the factors of a, and of those of b, in registers if
    they begin with `r`."""
    counts = {"a": 4, "s": 1, "b": 2, "t": 1, "c": shape.counts[3], "d": shape.counts[0]}
    lines = []
    for name in "asbtc":
        lines.append(f"mul.wide.u32 %at, %i, {counts[name] * 128}; add.u64 %p, %at, %l; ld.param.u64 %at, [{name}];")
        lines.append("add.u64 %p, %p, %at;")
        lines += [f"ld.global.b32 %{name}{r}, [%p+{128 * r}];" for r in range(counts[name])]
    lists = {name: "{" + ",".join(f"%{name}{r}" for r in range(n)) + "}" for name, n in counts.items()}
    names = places.removeprefix("r").split() if places else ["0"] * 4
    if places.startswith("r"):
        lines += [f"mov.b16 %h{n}, {value};" for n, value in enumerate(names)]
        names = [f"%h{n}" for n in range(4)]
    byte_a, lane_a, byte_b, lane_b = names
    factors = f", {{%s0}}, {{{byte_a}, {lane_a}}}, %t0, {{{byte_b}, {lane_b}}}" if shape.has_factors else ""
    lines.append(f"mma.sync.aligned.{text} {lists['d']}, {lists['a']}, {lists['b']}, {lists['c']}{factors};")
    lines.append(f"mul.wide.u32 %at, %i, {counts['d'] * 128}; add.u64 %p, %at, %l; ld.param.u64 %at, [d];")
    lines.append("add.u64 %p, %p, %at;")
    lines += [f"st.global.b32 [%p+{128 * r}], %d{r};" for r in range(counts["d"])]
    body = "\n".join(lines)
    return f"""
.version 8.8
.target sm_120a
.address_size 64
.visible .entry k({", ".join(f".param .u64 {name}" for name in counts)})
{{
.reg .b32 %i, %t; .reg .b64 %at, %l, %p; .reg .b16 %h<4>;
{" ".join(f".reg .b32 %{name}<{n}>;" for name, n in counts.items())}
mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mul.wide.u32 %l, %t, 4;
{body}
ret;
}}
"""


def in_container(shape: Mma, bits: Bits, type_: str, padding: int = 0) -> Bits:
    """Elements as PTX has them in a byte, with other bits set to those of `padding`."""
    if shape.kind == "mxf4" or type_ in ("e4m3", "e5m2"):
        return bits
    up, mask = (2, 0x3C) if type_ == "e2m1" else (0, 0x3F)
    return np.asarray(bits << up | padding & ~mask & 0xFF)


def pack(shape: Mma, bits: Bits, of_b: bool) -> Bits:
    """Registers of a [tiles, 16, k] or b [tiles, k, 8]."""
    per = 32 // shape.width
    registers = []
    for r in range(2 if of_b else 4):
        total = np.zeros((len(bits), 32), np.uint64)
        for x in range(per):
            k = per * 4 * (r if of_b else r // 2) + per * T + x
            part = bits[:, k, G] if of_b else bits[:, G + 8 * (r % 2), k]
            total |= part.astype(np.uint64) << np.uint64(shape.width * x)
        registers.append(total.astype(np.uint32))
    return np.stack(registers, 1)


def pack_factors(of_a: Bits, of_b: Bits, places: str) -> tuple[Bits, Bits]:
    """Words of the factors [tiles, 16, count] and [tiles, 8, count]; other lanes and bytes have all bits set."""
    byte_a, lane_a, byte_b, lane_b = (int(x) for x in places.removeprefix("r").split())

    def word(factors: Bits, first: int) -> Bits:
        total = np.full(factors.shape[:-1], 0xFFFFFFFF, np.uint32)
        for n in range(factors.shape[-1]):
            shift = np.uint32(8 * (first + n))
            total = total & ~(np.uint32(0xFF) << shift) | factors[..., n].astype(np.uint32) << shift
        return total

    s, t = (np.full((len(of_a), 1, 32), 0xFFFFFFFF, np.uint32) for _ in range(2))
    for g in range(8):
        for half in range(2):
            s[:, 0, 4 * g + 2 * lane_a + half] = word(of_a, byte_a)[:, g + 8 * half]
        t[:, 0, 4 * g + lane_b] = word(of_b, byte_b)[:, g]
    return s, t


def run(
    shape: Mma, text: str, a: Bits, b: Bits, c: Bits, of_a: Bits, of_b: Bits, places: str, engine: str,
    mma: str = "hardware",
) -> Bits:  # fmt: skip
    s, t = pack_factors(of_a, of_b, places)
    d = np.zeros((len(a), shape.counts[0], 32), np.uint32)
    given = (pack(shape, a, False), s, pack(shape, b, True), t, np.ascontiguousarray(pack_c(shape, c)), d)
    module = wsemu.load_ptx(kernel(shape, text, places))
    report = wsemu.check(module["k"], len(a), 32, given, engine=engine, mma=mma)  # type: ignore[arg-type]
    assert report.verdict == "verified", report
    return unpack_c(shape, d)


def plain_text(shape: Mma) -> str:
    scaled = ".block_scale" if shape.has_factors else ""
    more = ".ue8m0" if shape.has_factors else ""
    return (
        f"kind::{shape.kind}{scaled}.m16n8k{shape.k}.row.col.{shape.d}.{shape.a}.{shape.b}.{shape.c}{more}"
    )  # fmt: skip


NO_FACTORS = (np.zeros((1, 16, 1), np.uint32), np.zeros((1, 8, 1), np.uint32))


def to_bits(type_: str, numbers: Bits) -> Bits:
    if type_ == "f16":
        return numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
    return numbers.astype(np.float32).view(np.uint32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("b_type", NARROW_FLOATS)
@pytest.mark.parametrize("a_type", NARROW_FLOATS)
@pytest.mark.parametrize("kind", ["f8f6f4.m16n8k32.f32", "f8f6f4.m16n8k32.f16", "mxf8f6f4.m16n8k32.f32"])
def test_narrow_floats_are_multiplied(kind: str, a_type: str, b_type: str, engine: str) -> None:
    d_type = kind.rpartition(".")[2]
    shape = NARROW[f"mma.{kind}.{a_type}.{b_type}.{d_type}"]
    generator = np.random.default_rng(len(a_type) + len(b_type))
    near = [[x for x in finite(type_) if abs(values(type_)[x]) in (0, 0.5, 1, 1.5, 2)] for type_ in (a_type, b_type)]
    a, b = generator.choice(near[0], (1, 16, 32)), generator.choice(near[1], (1, 32, 8))
    c = generator.integers(-9, 10, (1, 16, 8))
    of_a, of_b = generator.integers(125, 130, (1, 16, 1)), generator.integers(125, 130, (1, 8, 1))
    d = run(
        shape, plain_text(shape), in_container(shape, a, a_type, 0xFF), in_container(shape, b, b_type, 0xFF),
        to_bits(shape.c, c), of_a, of_b, "2 1 3 2", engine,
    )  # fmt: skip
    left, right = values(a_type)[a], values(b_type)[b]
    if shape.has_factors:
        left, right = left * 2.0 ** (of_a - 127.0), right * 2.0 ** (of_b.swapaxes(1, 2) - 127.0)
    assert np.array_equal(d, to_bits(shape.d, left @ right + c))


MXF4 = NARROW["mma.mxf4.m16n8k64.f32.e2m1.e2m1.f32"]
FORMS = {
    "kind::mxf4.block_scale.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0": (2, False),
    "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0": (2, False),
    "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3": (4, True),
    "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0": (4, False),
}
"""text -> (factors of a row, whether they are ue4m3)"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("held", ["", "r"], ids=["constants", "registers"])
@pytest.mark.parametrize("text", FORMS)
def test_floats_of_4_bits_are_scaled_by_blocks(text: str, held: str, engine: str) -> None:
    count, fine = FORMS[text]
    generator = np.random.default_rng(3)
    a, b = generator.integers(0, 16, (2, 16, 64)), generator.integers(0, 16, (2, 64, 8))
    c = generator.integers(-9, 10, (2, 16, 8))
    size = (0x30, 0x41) if fine else (125, 130)
    of_a, of_b = (generator.integers(*size, (2, rows, count)) for rows in (16, 8))
    places = "2 1 0 3" if count == 2 else "0 1 0 3"
    d = run(MXF4, text, a, b, to_bits("f32", c), of_a, of_b, held + places, engine)
    scale = values("e4m3") if fine else 2.0 ** (np.arange(256) - 127.0)
    left = values("e2m1")[a] * scale[of_a].repeat(64 // count, 2)
    right = values("e2m1")[b] * scale[of_b].repeat(64 // count, 2).swapaxes(1, 2)
    assert np.array_equal(d, to_bits("f32", left @ right + c))


@pytest.mark.parametrize("name", NARROW)
def test_both_engines_give_the_same_bits(name: str) -> None:
    shape = NARROW[name]
    generator = np.random.default_rng(len(name))
    width = 4 if shape.kind == "mxf4" else 8
    a, b = (generator.integers(0, 1 << width, size) for size in ((2, 16, shape.k), (2, shape.k, 8)))
    c = generator.integers(0, 1 << (16 if shape.c == "f16" else 32), (2, 16, 8))
    for text, count in (
        [(text, count) for text, (count, _) in FORMS.items()] if width == 4 else [(plain_text(shape), 1)]
    ):
        factors = (generator.integers(0, 256, (2, rows, count)) for rows in (16, 8))
        first, second = factors
        fast, slow = (run(shape, text, a, b, c, first, second, "0 0 0 1", engine) for engine in ENGINES)
        assert np.array_equal(fast, slow)


def find_errors(text: str, engine: str) -> list[str]:
    """Return the errors of a product of zeros."""
    a, b = np.zeros((1, 16, 64), np.uint32), np.zeros((1, 64, 8), np.uint32)
    s, t = pack_factors(*NO_FACTORS, "0 0 0 0")
    d = np.zeros((1, 4, 32), np.uint32)
    given = (pack(MXF4, a, False), s, pack(MXF4, b, True), t, d.copy(), d)
    return [one.code for one in wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, given, engine=engine).errors]  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("places", ["r1 0 0 0", "r0 2 0 0", "r0 0 1 0", "r0 0 0 4"])
def test_selectors_of_factors_outside_the_table_are_undefined(places: str, engine: str) -> None:
    assert find_errors(kernel(MXF4, next(iter(FORMS)), places), engine) == ["undefined-behavior"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("of_lane", "errors"), [("%t, 1", ["undefined-behavior"]), ("%i, 1", [])])
def test_all_lanes_select_the_same_factors(of_lane: str, errors: list[str], engine: str) -> None:
    """The selector is a bit of the lane, or of the CTA."""
    text = kernel(MXF4, next(iter(FORMS)), "r0 0 0 0")
    chosen = f"and.b32 %t, {of_lane}; cvt.u16.u32 %h1, %t;"
    assert find_errors(text.replace("mov.b16 %h1, 0;", chosen), engine) == errors


@pytest.mark.parametrize("engine", ENGINES)
def test_the_exponent_of_products_that_cancel_counts(engine: str) -> None:
    text = "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0"
    a, b = np.zeros((1, 16, 64), np.uint32), np.zeros((1, 64, 8), np.uint32)
    a[:, :, :2], b[:, 0], b[:, 1] = 2, 2, 10  # 1 - 1
    of_a, of_b = np.full((1, 16, 4), 127), np.full((1, 8, 4), 127)
    of_a[:, 1, 0] = 127 + 34
    of_a[:, 2, 0] = 127 + 36
    start = to_bits("f32", np.ones((1, 16, 8)))
    d = run(MXF4, text, a, b, start, of_a, of_b, "0 0 0 0", engine).view(np.float32)
    assert [float(d[0, i, 0]) for i in range(3)] == [1, 1, 0]
    b[:, :2] = 0  # no product is there
    d = run(MXF4, text, a, b, start, of_a, of_b, "0 0 0 0", engine).view(np.float32)
    assert (d == 1).all()


@pytest.mark.parametrize(
    "text",
    [
        "kind::mxf4nvf4.block_scale.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
        "kind::mxf4nvf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3",
        "kind::mxf8f6f4.block_scale.scale_vec::2X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0",
    ],
)
def test_other_factors_are_not_modeled(text: str) -> None:
    a, b = np.zeros((1, 16, 64), np.uint32), np.zeros((1, 64, 8), np.uint32)
    s, t = pack_factors(*NO_FACTORS, "0 0 0 0")
    d = np.zeros((1, 4, 32), np.uint32)
    given = (pack(MXF4, a, False), s, pack(MXF4, b, True), t, d.copy(), d)
    report = wsemu.check(wsemu.load_ptx(kernel(MXF4, text))["k"], 1, 32, given)
    assert report.verdict == "incomplete"
