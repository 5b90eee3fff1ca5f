"""Conversions of floats of 4 and 6 bits, and of exponents, of sm_100: each against a list of the values of its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import wsemu

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

TEXT = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 out)
{
  .reg .b8 %b<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<4>; .reg .b16 %h<4>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 4; add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd4;
  mul.wide.u32 %rd4, %r1, 8; add.u64 %rd3, %rd3, %rd4;
  ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2];
  BODY
  st.global.v2.b32 [%rd3], {%r3, %r4};
  ret;
}
"""
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


class Narrow(NamedTuple):
    """A type: bits of the fraction and the exponent, and the bias."""

    name: str
    fraction: int
    exponent: int
    bias: int

    @property
    def sign(self) -> int:
        return self.fraction + self.exponent

    def list_values(self) -> Any:
        """Return the values of all bits without a sign."""
        found = []
        for bits in range(1 << self.sign):
            exponent, fraction = bits >> self.fraction, (bits % (1 << self.fraction)) / (1 << self.fraction)
            found.append((fraction + bool(exponent)) * 2.0 ** (max(exponent, 1) - self.bias))
        return np.array(found)

    def encode(self, x: np.float32) -> int:
        """Return the nearest value, the even one of two; the largest one of what lies beyond, and of a nan."""
        values = self.list_values()
        if np.isnan(x):
            return len(values) - 1
        distances = np.abs(values - min(abs(float(x)), values[-1]))
        nearest = [bits for bits in range(len(values)) if distances[bits] == distances.min()]
        return min(nearest, key=lambda bits: bits % 2) | int(np.signbit(x)) << self.sign


TYPES = [Narrow("e2m1x2", 1, 2, 1), Narrow("e2m3x2", 3, 2, 1), Narrow("e3m2x2", 2, 3, 3)]


def list_numbers(type_: Narrow) -> Any:
    """Return all values, the middles between them, numbers next to these, and numbers beyond."""
    values = type_.list_values()
    middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middles, np.float32(to)) for to in (0, 100)]
    some = np.concatenate([values, middles, *near, [1e30, np.inf, 1e-40, values[-1] * 1.01]]).astype(np.float32)
    return np.resize(np.concatenate([some, -some, [np.nan]]).astype(np.float32), 384)


@ENGINES
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.name)
def test_floats_of_few_bits_are_the_nearest_ones(type_: Narrow, relu: bool, engine: Engine):
    register = "%b0" if type_.sign == 3 else "%h0"
    parts = ", ".join([register] * (4 if type_.sign == 3 else 2))
    to, flag = f"cvt.rn.satfinite{'.relu' * relu}.{type_.name}.f32 {register}, %f1, %f2;", ".relu" * relu
    text = TEXT.replace("BODY", f"{to} mov.b32 %r3, {{{parts}}}; cvt.rn{flag}.f16x2.{type_.name} %r4, {register};")
    x = list_numbers(type_)
    y, out = x[::-1].copy(), np.zeros((len(x), 2), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, len(x), (x.copy(), y.copy(), out), engine=engine)
    assert report.verdict == "verified", report.notes
    low, high = (
        np.array([type_.encode(z if not relu or z > 0 or np.isnan(z) else np.float32(0)) for z in a]) for a in (y, x)
    )
    if relu:
        low, high = low % (1 << type_.sign), high % (1 << type_.sign)
    width = 4 if type_.sign == 3 else 8
    assert (out[:, 0] % (1 << 2 * width) == (high << width | low)).all()
    signs = [np.where(bits >> type_.sign, -1.0, 1.0) for bits in (low, high)]
    sizes = [type_.list_values()[bits % (1 << type_.sign)] for bits in (low, high)]
    halves = np.stack([sign * size for sign, size in zip(signs, sizes, strict=True)], 1).astype(np.float16)
    assert (out[:, 1:].copy().view(np.uint16) == halves.view(np.uint16)).all()


@ENGINES
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("type_", [*TYPES, Narrow("e5m2x2", 2, 5, 15)], ids=lambda type_: type_.name)
def test_pairs_of_halves_become_floats_of_few_bits(type_: Narrow, source: str, relu: bool, engine: Engine):
    register = "%b0" if type_.sign == 3 else "%h0"
    parts = ", ".join([register] * (4 if type_.sign == 3 else 2))
    pair = f"cvt.rz.{source}x2.f32 %r3, %f1, %f2;"
    to = f"cvt.rn.satfinite{'.relu' * relu}.{type_.name}.{source}x2 {register}, %r3;"
    text = TEXT.replace("BODY", f"{pair} {to} mov.b32 %r4, {{{parts}}};")
    x = np.clip(list_numbers(TYPES[2]), -40, 40)
    y, out = x[::-1].copy(), np.zeros((len(x), 2), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, len(x), (x.copy(), y.copy(), out), engine=engine)
    assert report.verdict == "verified", report.notes
    words = out[:, 0].copy().view(np.uint16).reshape(-1, 2)
    wide = words.view(np.float16).astype(np.float32)
    if source == "bf16":
        wide = (words.astype(np.uint32) << 16).view(np.float32)
    nan = 0x7F if type_.sign == 7 else (1 << type_.sign) - 1
    found = [
        [nan if np.isnan(z) else type_.encode(z if not relu or z > 0 else np.float32(0)) for z in row] for row in wide
    ]
    low, high = np.array(found).T
    if relu:
        low, high = low & ~(1 << type_.sign), high & ~(1 << type_.sign)
    width = 4 if type_.sign == 3 else 8
    assert (out[:, 1] % (1 << 2 * width) == (high << width | low)).all()


def round_randomly(x: np.float32, random: int, to: str, *, relu: bool, finite: bool) -> int:
    """Return the bits of a half: the bits that are dropped and the random ones are added, and the sum is cut."""
    fraction, least, bias, infinity, count = (10, -14, 15, 0x7C00, 13) if to == "f16" else (7, -126, 127, 0x7F80, 16)
    if np.isnan(x):
        return 0x7FFF
    sign = 0 if relu and np.signbit(x) else int(np.signbit(x)) << 15
    size = 0.0 if relu and np.signbit(x) else abs(float(x))
    largest = infinity - finite
    if size == np.inf:
        return largest | sign
    exponent = max(int(np.floor(np.log2(size))) if size else least, least)
    scaled = int(size * 2.0 ** (fraction + count - exponent)) + random % (1 << count) >> count
    return min((exponent + bias - 1 << fraction) + scaled, largest) | sign


@ENGINES
@pytest.mark.parametrize("flags", ["", ".relu", ".satfinite", ".relu.satfinite"])
@pytest.mark.parametrize("to", ["f16", "bf16"])
def test_random_bits_decide_how_a_half_is_rounded(to: str, flags: str, engine: Engine):
    text = TEXT.replace("BODY", f"mul.lo.u32 %r3, %r1, 0x9E3779B1; cvt.rs{flags}.{to}x2.f32 %r4, %f1, %f2, %r3;")
    generator = np.random.default_rng(5)
    some = (generator.standard_normal(400) * np.exp2(generator.integers(-30, 20, 400))).astype(np.float32)
    special = np.array(
        [0, -0.0, 1, 65504, 65519, 65535.9, 65536, 3.4e38, 1e38, np.inf, -np.inf, np.nan, 2**-14, 2**-24, 2**-25]
    )
    x = np.concatenate([some, special, 2 - np.exp2(-np.arange(1.0, 25))]).astype(np.float32)
    y, out = x[::-1].copy(), np.zeros((len(x), 2), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, len(x), (x.copy(), y.copy(), out), engine=engine)
    assert report.verdict == "verified", report.notes
    options = {"relu": "relu" in flags, "finite": "satfinite" in flags}
    high = [round_randomly(z, int(bits) >> 16, to, **options) for z, bits in zip(x, out[:, 0], strict=True)]
    low = [round_randomly(z, int(bits), to, **options) for z, bits in zip(y, out[:, 0], strict=True)]
    assert (out[:, 1] == (np.array(high) << 16 | np.array(low))).all()


@ENGINES
@pytest.mark.parametrize("rounding", ["rn", "rz"])
def test_a_half_beyond_the_largest_one_becomes_that(rounding: str, engine: Engine):
    text = TEXT.replace(
        "BODY", f"cvt.{rounding}.satfinite.f16x2.f32 %r3, %f1, %f2; cvt.{rounding}.satfinite.bf16x2.f32 %r4, %f1, %f2;"
    )
    x = np.array([1, -65504, 65519, 65520, -1e6, 3.4e38, -np.inf, np.inf, np.nan, -0.0, 3.39e38], np.float32)
    out = np.zeros((len(x), 2), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, len(x), (x.copy(), x.copy(), out), engine=engine)
    assert report.verdict == "verified", report.notes
    halves = np.clip(x, -65504, 65504).astype(np.float16).view(np.uint16).astype(np.uint32)
    halves[np.isnan(x)] = 0x7FFF
    assert (out[:, 0] == (halves << 16 | halves)).all()
    wide = (out[:, 1] & 0xFFFF0000).view(np.float32)
    assert np.isnan(wide[8])
    assert np.isfinite(np.delete(wide, 8)).all()
    assert wide[5] == -wide[6] == wide[7] == np.uint32(0x7F7F0000).view(np.float32)


@ENGINES
def test_exponents_are_powers_of_2(engine: Engine):
    text = TEXT.replace("BODY", "mov.b32 {%h0, %h1}, %f1; mov.u32 %r3, 0; cvt.rn.bf16x2.ue8m0x2 %r4, %h0;")
    bits = np.arange(256, dtype=np.uint32)
    x, out = (bits | (255 - bits) << 8).view(np.float32), np.zeros((256, 2), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 256, (x, x.copy(), out), engine=engine)
    assert report.verdict == "verified", report.notes
    powers = np.exp2(bits.astype(np.float64) - 127)
    powers[255] = np.nan
    low, high = ((word.astype(np.uint32) << 16).view(np.float32) for word in (out[:, 1] & 0xFFFF, out[:, 1] >> 16))
    assert np.array_equal(low, powers, equal_nan=True)
    assert np.array_equal(high, powers[::-1], equal_nan=True)


def encode_exponent(x: np.float32, rounding: str, finite: bool) -> int:
    """Return the exponent of the greatest power of 2 that is not above the size of a number, or of the least one that
    is not below it."""
    size = abs(float(x))
    if np.isnan(x):
        return 255
    powers = 2.0 ** (np.arange(255) - 127.0)
    if rounding == "rz":
        found = max(int(np.searchsorted(powers, size, "right")) - 1, 0) if size < np.inf else 255
    else:
        found = int(np.searchsorted(powers, size, "left"))
    return min(found, 254) if finite else found


@ENGINES
@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("rounding", ["rz", "rp"])
def test_scale_factors_are_the_powers_of_2_next_to_a_number(rounding: str, finite: bool, engine: Engine):
    flag = ".satfinite" * finite
    text = TEXT.replace(
        "BODY",
        f"cvt.{rounding}{flag}.ue8m0x2.f32 %h0, %f1, %f2; mov.b32 %r3, {{%h0, %h0}};"
        f"mov.b32 %r5, %f1; cvt.{rounding}{flag}.ue8m0x2.bf16x2 %h1, %r5; mov.b32 %r4, {{%h1, %h1}};",
    )
    powers = 2.0 ** np.arange(-127, 128).astype(np.float64)
    special = [0, 1e-45, 2.0**-128, 2.0**-127 * 1.25, np.inf, np.nan]
    some = np.concatenate([powers, powers * 1.5, powers * 1.999, special])
    signed = np.concatenate([some, -some])[::2].astype(np.float32)
    x = np.resize(np.concatenate([signed, np.nextafter(signed[::3], np.float32(0))]), 1024)
    y, out = x[::-1].copy(), np.zeros((1024, 2), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 1024, (x.copy(), y.copy(), out), engine=engine)
    assert report.verdict == "verified", report.notes
    upper, low = (np.array([encode_exponent(z, rounding, finite) for z in a]) for a in (x, y))
    assert (out[:, 0] & 0xFFFF == (upper << 8 | low)).all()
    pairs = x.view(np.uint32)
    halves = [(word.astype(np.uint32) << 16).view(np.float32) for word in (pairs & 0xFFFF, pairs >> 16)]
    low, upper = (np.array([encode_exponent(z, rounding, finite) for z in a]) for a in halves)
    assert (out[:, 1] & 0xFFFF == (upper << 8 | low)).all()


@pytest.mark.parametrize("form", [
    "cvt.rs.satfinite.e2m1x4.f32 %h0, {%f1, %f2, %f1, %f2}, %r1;", "cvt.rn.satfinite.ue8m0x2.f32 %h0, %f1, %f2;",
])  # fmt: skip
def test_other_conversions_are_never_verified(form: str):
    x = np.zeros(32, np.float32)
    text = TEXT.replace("BODY", f"{form} mov.b32 %r3, {{%h0, %h0}}; mov.u32 %r4, 0;")
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, (x, x.copy(), np.zeros((32, 2), np.uint32)))
    assert report.verdict == "incomplete"
