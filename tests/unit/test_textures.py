"""Fetches from textures and accesses to surfaces do what the CUDA C++ Programming Guide says, on both engines."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu.model.errors import UsageError

f32 = np.float32
ENGINES = ("vm", "reference")
PARAMETERS = ".param .u64 handle, .param .u64 x, .param .u64 y, .param .u64 z, .param .u64 out"


def fetching(instruction, coordinates):
    """A kernel whose thread i fetches at (x[i], y[i], z[i]) and stores four words."""
    loads = "".join(
        f"ld.param.u64 %rd2, [{name}]; add.u64 %rd2, %rd2, %rd9; ld.global.b32 %r{n}, [%rd2];\n"
        for n, name in enumerate("xyz", 1)
    )
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k({PARAMETERS})
{{ .reg .b32 %r<20>; .reg .b64 %rd<20>;
mov.u32 %r9, %ctaid.x; mov.u32 %r10, %ntid.x; mov.u32 %r11, %tid.x; mad.lo.s32 %r9, %r9, %r10, %r11;
mul.wide.u32 %rd9, %r9, 4; ld.param.u64 %rd1, [handle];
{loads}
{instruction} {{%r4,%r5,%r6,%r7}}, [%rd1, {{{coordinates}}}];
ld.param.u64 %rd3, [out]; mul.wide.u32 %rd4, %r9, 16; add.u64 %rd3, %rd3, %rd4;
st.global.v4.b32 [%rd3], {{%r4,%r5,%r6,%r7}}; ret; }}
"""
    return wsemu.load_ptx(text)["k"]


def fetched(instruction, coordinates, texture, places, dtype=f32, engine="vm"):
    """Four channels for each place; x, y and z are those of the rows of `places`."""
    rows = [*places, *[np.zeros_like(places[0])] * 3][:3]
    out = np.zeros((rows[0].size, 4), dtype)
    kernel = fetching(instruction, coordinates)
    report = wsemu.check(kernel, rows[0].size // 32, 32, (texture, *rows, out), engine=engine)
    assert report.verdict == "verified", report.notes
    return out


XYZ = {1: "%r1", 2: "%r1,%r2", 3: "%r1,%r2,%r3,%r3"}


def folded(index, extent, mode):
    """The number of a texel, and whether it is one."""
    if mode == "wrap":
        return index % extent, np.ones(index.shape, bool)
    if mode == "mirror":
        return np.minimum(index % (2 * extent), 2 * extent - 1 - index % (2 * extent)), np.ones(index.shape, bool)
    return np.clip(index, 0, extent - 1), (mode != "border") | ((index >= 0) & (index < extent))


def weights(fractions):
    """Of the corners of a cell, in 256ths, as an H200 has them."""
    x, *rest = fractions
    if not rest:
        return {(0,): 256 - x, (1,): x}
    made: dict[tuple[int, ...], np.ndarray] = {}
    for z, part in enumerate((256 - rest[1], rest[1]) if len(rest) > 1 else (256,)):
        first = part * (256 - x) + 127 >> 8
        for along, own in enumerate((first, part - first)):
            near = own * (256 - rest[0]) + 128 - along >> 8
            made |= {(along, 0, z)[: len(fractions)]: near, (along, 1, z)[: len(fractions)]: own - near}
    return made


def sampled(array, places, mode="clamp", linear=False, normalized=False, border=0.0):
    """What a fetch gives where sums of numbers and their weights are exact."""
    cells = []
    for extent, x in zip(array.shape[::-1], places, strict=True):
        x = x.astype(np.float64)
        x = np.floor(x * 2**21) / 2**21 * extent if normalized else x
        fixed = np.floor(x * 256 + 0.5).astype(int) - 128
        fixed = np.clip(fixed, 0, 256 * (extent - 1)) if mode == "clamp" else fixed
        cells.append((fixed >> 8, fixed & 255) if linear else (np.floor(x).astype(int), np.zeros(x.shape, int)))
    total = 0
    for corner, weight in weights([fraction for _, fraction in cells]).items():
        ends = zip(cells, corner, array.shape[::-1], strict=True)
        found = [folded(first + beyond, extent, mode) for (first, _), beyond, extent in ends]
        inside = np.logical_and.reduce([ok for _, ok in found])
        texel = np.where(inside, array[tuple(index for index, _ in found[::-1])].astype(np.float64), border)
        total = total + texel * weight / 256
    return total


def places_for(shape, seed, normalized=False, count=64):
    """Coordinates inside and outside, in 512ths of a texel."""
    random = np.random.default_rng(seed)
    made = [random.integers(-512, 512 * (n + 1), count) / 512 for n in shape[::-1]]
    return [(x / n if normalized else x).astype(f32) for x, n in zip(made, shape[::-1], strict=True)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("linear", [False, True], ids=["point", "linear"])
def test_texels_and_their_weights(dimensions, linear, engine):
    shape = (4, 5, 8)[-dimensions:]
    array = np.random.default_rng(1).integers(-64, 64, shape).astype(f32)
    places = places_for(shape, dimensions)
    texture = wsemu.Texture(array, filter="linear" if linear else "point")
    found = fetched(f"tex.{dimensions}d.v4.f32.f32", XYZ[dimensions], texture, places, engine=engine)
    assert (found[:, 0] == sampled(array, places, linear=linear)).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["clamp", "border", "wrap", "mirror"])
@pytest.mark.parametrize("linear", [False, True], ids=["point", "linear"])
def test_what_coordinates_outside_become(mode, linear, engine):
    array = np.random.default_rng(2).integers(-64, 64, (4, 8)).astype(f32)
    places = places_for(array.shape, 3, normalized=True)
    texture = wsemu.Texture(
        array, filter="linear" if linear else "point", address=mode, normalized=True, border=(2.5, 0, 0, 0)
    )
    found = fetched("tex.2d.v4.f32.f32", XYZ[2], texture, places, engine=engine)[:, 0]
    assert (found == sampled(array, places, mode, linear, normalized=True, border=2.5)).all()


def test_a_mode_for_each_dimension():
    array = np.arange(32, dtype=f32).reshape(4, 8)
    x, y = np.full(32, -1.0, f32), np.full(32, 9.0, f32)
    both = wsemu.Texture(array, address=("border", "clamp"))
    assert (fetched("tex.2d.v4.f32.f32", XYZ[2], both, [x, y])[:, 0] == 0).all()
    other = wsemu.Texture(array, address=("clamp", "border"))
    assert (fetched("tex.2d.v4.f32.f32", XYZ[2], other, [x, y * 0])[:, 0] == 0 + array[0, 0]).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_integers_as_they_are_and_as_floats(dtype, channels, engine):
    info = np.iinfo(dtype)
    array = np.random.default_rng(4).integers(info.min, info.max, (32, channels), dtype, endpoint=True)
    array[0], array[1] = info.min, info.max
    given = array if channels > 1 else array[:, 0].copy()
    i = np.arange(32, dtype=np.int32)
    found = fetched("tex.1d.v4.s32.s32", "%r1", wsemu.Texture(given, channels=channels), [i], np.int32, engine)
    assert (found[:, :channels] == array.astype(np.int64).astype(np.int32)).all()
    if info.bits < 32:
        texture = wsemu.Texture(given, channels=channels, read="normalized")
        found = fetched("tex.1d.v4.f32.s32", "%r1", texture, [i], engine=engine)
        assert (found[:, :channels] == np.maximum(array.astype(f32) / f32(info.max), f32(-1))).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_half_floats(engine):
    array = np.array([0, -0.0, 1.5, 65504, 6e-8, np.inf, -np.inf, 0.1] * 4, np.float16)
    i = np.arange(32, dtype=np.int32)
    found = fetched("tex.1d.v4.f32.s32", "%r1", wsemu.Texture(array), [i], engine=engine)[:, 0]
    assert (found.view(np.uint32) == array.astype(f32).view(np.uint32)).all()


@pytest.mark.parametrize("mode", ["clamp", "border", "wrap"])
def test_an_integer_coordinate_outside_gives_zeros(mode):
    array = np.arange(1, 33, dtype=f32).reshape(4, 8)
    x, y = np.arange(-2, 30, dtype=np.int32) % 12 - 2, np.full(32, 3, np.int32)
    texture = wsemu.Texture(array, address=mode, normalized=mode == "wrap", border=(7, 7, 7, 7))
    found = fetched("tex.2d.v4.f32.s32", XYZ[2], texture, [x, y])[:, 0]
    assert (found == np.where((x >= 0) & (x < 8), 25 + x, 0)).all()


def test_outside_of_linear_memory_is_zero():
    i = np.arange(-16, 16, dtype=np.int32)
    found = fetched("tex.1d.v4.f32.s32", "%r1", wsemu.Texture(np.arange(1, 9, dtype=f32)), [i])[:, 0]
    assert (found == np.where((i >= 0) & (i < 8), i + 1, 0)).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_are_no_dimension(engine):
    array = np.arange(3 * 4 * 8, dtype=f32).reshape(3, 4, 8)
    layer = np.arange(32, dtype=np.int32) % 6
    x, y = np.full(32, 2.75, f32), np.full(32, 1.25, f32)
    texture = wsemu.Texture(array, layered=True, filter="linear")
    found = fetched("tex.a2d.v4.f32.f32", "%r1,%r2,%r3,%r3", texture, [layer.view(f32), x, y], engine=engine)[:, 0]
    assert (found == 32 * np.minimum(layer, 2) + 2.25 + 8 * 0.75).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("channel", "rgba")
def test_the_four_texels_of_a_cell(channel, engine):
    array = np.arange(4 * 8 * 4, dtype=f32).reshape(4, 8, 4)
    x, y = places_for((4, 8), 5, count=32)
    texture = wsemu.Texture(array, channels=4)
    found = fetched(f"tld4.{channel}.2d.v4.f32.f32", XYZ[2], texture, [x, y], engine=engine)
    fixed = [np.rint(a.astype(np.float64) * 256).astype(int) - 128 >> 8 for a in (x, y)]
    for n, (dx, dy) in enumerate(((0, 1), (1, 1), (1, 0), (0, 0))):
        texels = array[np.clip(fixed[1] + dy, 0, 3), np.clip(fixed[0] + dx, 0, 7), "rgba".index(channel)]
        assert (found[:, n] == texels).all()


def test_rows_may_lie_apart():
    whole = np.random.default_rng(6).random((6, 16), f32)
    x, y = np.arange(32, dtype=f32) % 8 + 0.5, np.arange(32, dtype=f32) // 8 + 0.5
    found = fetched("tex.2d.v4.f32.f32", XYZ[2], wsemu.Texture(whole[1:5, 4:12]), [x, y])[:, 0]
    assert (found == whole[1:5, 4:12].reshape(-1)).all()


# -- as an H200 has it -------------------------------------------------------------------------------------------------
def filtered_pair(first, second, x, engine="vm", **options):
    """What the linear filter makes of two texels at x from 0.5 to 1.5."""
    texture = wsemu.Texture(np.array([first, second]), filter="linear", **options)
    return fetched("tex.1d.v4.f32.f32", "%r1", texture, [np.full(32, x, f32)], engine=engine)[0, 0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("first", "second", "weight", "bits"),
    [
        (0.2398558408021927, -0.5997054576873779, 80, 0xBCB860BD),  # a half goes away from zero
        (-0.00017018469225149602, -0.7800702452659607, 63, 0xBE44B586),  # cut 27 bits behind the exponent
        (13932.0341796875, 8.884552955627441, 242, 0x444093A2),
        (np.inf, 1.0, 0, 0x7F800000), (1.0, np.inf, 0, 0x3F800000), (np.inf, -np.inf, 128, 0x7FFFFFFF),
        (1e-39, 1e-39, 128, 0), (-1e-39, -0.0, 128, 0x80000000), (1.5e-38, -0.0, 56, 0),
    ],
)  # fmt: skip
def test_how_a_sum_of_floats_is_rounded(first, second, weight, bits, engine):
    found = filtered_pair(f32(first), f32(second), 0.5 + weight / 256, engine)
    assert hex(found.view(np.uint32)) == hex(bits)


@pytest.mark.parametrize("engine", ENGINES)
def test_half_floats_are_filtered_as_half_floats(engine):
    first, second = np.float16(2.29296875), np.float16(0.034698486328125)
    found = filtered_pair(first, second, 0.5 + 250 / 256, engine)
    assert found == 1435 * 2.0**-14


@pytest.mark.parametrize("engine", ENGINES)
def test_integers_are_filtered_as_numbers_of_sixteen_bits(engine):
    options = {"read": "normalized", "engine": engine}
    found = filtered_pair(np.uint8(10), np.uint8(21), 0.5 + 37 / 256, **options)
    assert found == f32(10 * 257 * 219 + 21 * 257 * 37 + 128 >> 8) / f32(65535)
    found = filtered_pair(np.int16(-32768), np.int16(32767), 0.5 + 55 / 256, **options)
    assert found == f32(-18688) / f32(32767)
    assert filtered_pair(np.int16(-32768), np.int16(-32768), 1.0, **options) == -1


# -- surfaces ----------------------------------------------------------------------------------------------------------
HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 surface, .param .u64 other, .param .u64 out)
{ .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<3>;
ld.param.u64 %rd1, [surface]; ld.param.u64 %rd2, [other]; ld.param.u64 %rd3, [out];
mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 7; shr.u32 %r3, %r1, 3; shl.b32 %r4, %r2, 2;
mul.wide.u32 %rd4, %r1, 4; add.u64 %rd3, %rd3, %rd4;
"""


def over(body: str, surface, other=None, out=None, engine="vm"):
    """The report of 32 threads: %r4 is x in bytes, %r3 is y."""
    kernel = wsemu.load_ptx(HEAD + body + "\nret; }")["k"]
    return wsemu.check(kernel, 1, 32, (surface, other, np.zeros(32, f32) if out is None else out), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_surface_is_the_memory_of_its_array(engine):
    a, b = np.arange(32, dtype=f32).reshape(4, 8), np.zeros((4, 8), f32)
    body = "suld.b.2d.b32.trap {%r5}, [%rd1, {%r4,%r3}]; sust.b.2d.b32.trap [%rd2, {%r4,%r3}], {%r5};"
    assert over(body, wsemu.Surface(a), wsemu.Surface(b), engine=engine).verdict == "verified"
    assert (a == b).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_done_outside_of_a_surface(engine):
    a, out = np.arange(1, 25, dtype=f32).reshape(4, 6), np.full(32, -1, f32)
    load = "suld.b.2d.b32.{} {{%r5}}, [%rd1, {{%r4,%r3}}]; st.global.b32 [%rd3], %r5;"
    inside = np.tile(np.arange(8) < 6, 4)
    assert over(load.format("zero"), wsemu.Surface(a), out=out, engine=engine).verdict == "verified"
    assert (out[inside] == a.reshape(-1)).all()
    assert (out[~inside] == 0).all()
    assert over(load.format("clamp"), wsemu.Surface(a), out=out, engine=engine).verdict == "verified"
    assert (out.reshape(4, 8)[:, 6] == a[:, 5]).all()
    report = over(load.format("trap"), wsemu.Surface(a), out=out, engine=engine)
    assert [finding.code for finding in report.findings] == ["out-of-bounds"]
    report = over("sust.b.2d.b32.zero [%rd1, {%r4,%r3}], 0;", wsemu.Surface(a), engine=engine)
    assert report.verdict == "verified"
    assert (a == 0).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_that_is_shorter_than_what_is_loaded_is_outside(engine):
    out = np.full(32, -1, f32)
    load = "suld.b.2d.b32.zero {%r5}, [%rd1, {0,%r3}]; st.global.b32 [%rd3], %r5;"
    assert over(load, wsemu.Surface(np.full((4, 1), 9, np.uint8)), out=out, engine=engine).verdict == "verified"
    assert (out == 0).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fetch_of_what_the_launch_stores_is_no_fetch_of_it(engine):
    a = np.zeros((4, 8), f32)
    body = """sust.b.2d.b32.trap [%rd1, {%r4,%r3}], {%r1}; bar.sync 0;
    tex.2d.v4.f32.s32 {%r5,%r6,%r7,%r8}, [%rd2, {%r2,%r3}]; st.global.b32 [%rd3], %r5;"""
    report = over(body, wsemu.Surface(a), wsemu.Texture(a), engine=engine)
    assert [finding.code for finding in report.findings] == ["read-only-written"]


def test_two_threads_that_store_into_one_texel():
    body = "and.b32 %r4, %r4, 4; sust.b.2d.b32.trap [%rd1, {%r4,%r3}], {%r1};"
    report = over(body, wsemu.Surface(np.zeros((4, 8), f32)))
    assert [finding.code for finding in report.findings] == ["intra-warp-race"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_guarded_fetch_leaves_its_registers(engine):
    a, out = np.arange(32, dtype=f32).reshape(4, 8), np.zeros(32, f32)
    body = """mov.f32 %r5, 0fBF800000; setp.lt.u32 %p1, %r2, 4;
    @%p1 tex.2d.v4.f32.s32 {%r5,%r6,%r7,%r8}, [%rd1, {%r2,%r3}]; st.global.b32 [%rd3], %r5;"""
    assert over(body, wsemu.Texture(a), out=out, engine=engine).verdict == "verified"
    assert (out.reshape(4, 8) == np.where(np.arange(8) < 4, a, -1)).all()


def test_sizes_that_a_kernel_asks_for():
    out = np.zeros(32, np.uint32)
    body = """txq.width.b32 %r5, [%rd1]; suq.height.b32 %r6, [%rd2]; mad.lo.u32 %r5, %r5, 100, %r6;
    st.global.b32 [%rd3], %r5;"""
    a = np.zeros((4, 8), f32)
    assert over(body, wsemu.Texture(a), wsemu.Surface(a), out).verdict == "verified"
    assert (out == 804).all()


@pytest.mark.parametrize(
    "handle",
    [wsemu.Texture(np.zeros(8, f32)), wsemu.Texture(np.zeros((4, 8), np.int32)), wsemu.Surface(np.zeros((4, 8), f32))],
    ids=["rank", "type", "surface"],
)
def test_another_handle_is_told(handle):
    report = over("tex.2d.v4.f32.s32 {%r5,%r6,%r7,%r8}, [%rd1, {%r2,%r3}];", handle)
    assert report.verdict == "incomplete"
    assert "`tex.2d.v4.f32.s32` of an object that is no such texture" in report.notes[0]


@pytest.mark.parametrize(("array", "told"), [
    (np.zeros(8), "elements can be uint8"), (np.zeros((2, 2, 2, 2), f32), "give an array of 1 to 3 axes"),
    (np.zeros((4, 8), f32)[:, ::2], "do not lie side by side"), (np.zeros(0, f32), "each axis has 1 to"),
    ([1, 2], "give a NumPy array"), (np.zeros(8, ">i4"), "bytes in the other order"),
])  # fmt: skip
def test_an_array_that_no_texture_is_made_of(array, told):
    with pytest.raises(UsageError, match=told):
        wsemu.Surface(array)


@pytest.mark.parametrize(("options", "told"), [
    ({"filter": "cubic"}, "one of point, linear"), ({"address": "repeat"}, "one of clamp, border, wrap, mirror"),
    ({"border": (0,)}, "give four channels"), ({"border": 5}, "give four channels"),
    ({"border": "abcd"}, "give four channels"), ({"address": None}, "a word for each dimension"),
    ({"address": ["wrap"] * 4}, "has 4 words"), ({"normalized": "x"}, "give True or False"),
    ({"channels": np.array([1, 2])}, "a texel has 1, 2 or 4"),
    ({"channels": 3}, "a texel has 1, 2 or 4"), ({"channels": 4}, "its last axis has no 4 channels"),
])  # fmt: skip
def test_an_option_of_a_texture_that_there_is_not(options, told):
    with pytest.raises(UsageError, match=told):
        wsemu.Texture(np.zeros((4, 8), f32), **options)


def test_the_border_of_integers_is_finite():
    with pytest.raises(UsageError, match="finite numbers"):
        wsemu.Texture(np.zeros((4, 8), np.int32), address="border", border=(np.nan, 0, 0, 0))
    assert np.isnan(wsemu.Texture(np.zeros((4, 8), f32), border=(np.nan, 0, 0, 0)).border[0])


def test_wide_integers_are_no_parts_of_the_largest():
    with pytest.raises(UsageError, match="only integers of 8 and 16 bits"):
        wsemu.Texture(np.zeros(8, np.int32), read="normalized")


def test_bytes_with_sign_are_not_filtered():
    with pytest.raises(UsageError, match="not known; give int16"):
        wsemu.Texture(np.zeros(8, np.int8), read="normalized", filter="linear")


def test_integers_are_not_filtered():
    with pytest.raises(UsageError, match="integers are not filtered"):
        wsemu.Texture(np.zeros(8, np.uint8), filter="linear")
