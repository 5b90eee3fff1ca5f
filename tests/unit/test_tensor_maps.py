"""The 128 bytes of tensor maps, and which maps the driver takes; answers of a driver of version 580."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

import wsemu
from wsemu.app.ptx_launch import argument
from wsemu.model.errors import UsageError
from wsemu.model.tensor_map import INTERLEAVES, TYPE_NAMES, Im2col, MapFields, decode, encode, refusal, refuse_pixels

DATA = Path(__file__).parents[1] / "data"


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(gzip.open(DATA / name, "rt")))


def numbers(row: dict[str, str], name: str, count: int) -> tuple[int, ...]:
    return tuple(int(row[f"{name}{n}"]) for n in range(max(count, 0)))


def data_of(row: dict[str, str]) -> bytes:
    return b"".join(int(row["words"][8 * n : 8 * n + 8], 16).to_bytes(4, "little") for n in range(32))


def fields_of(row: dict[str, str]) -> MapFields | None:
    """None where a field has no number that a map can hold."""
    rank, type_, interleave, swizzle, promotion, nan = (
        int(row[name]) for name in ("rank", "dtype", "interleave", "swizzle", "l2", "oob")
    )
    if type_ >= len(TYPE_NAMES) or interleave >= len(INTERLEAVES) or max(swizzle, promotion) > 3 or nan > 1 or rank > 5:
        return None
    return MapFields(
        TYPE_NAMES[type_], int(row["addr"], 16), numbers(row, "d", rank), numbers(row, "s", rank - 1),
        numbers(row, "b", rank), numbers(row, "e", rank), interleave, swizzle, bool(nan), promotion,
    )  # fmt: skip


def test_the_driver_takes_the_same_maps_and_writes_the_same_bytes() -> None:
    taken = 0
    for row in rows("tensor-maps.csv.gz"):
        fields, accepted = fields_of(row), row["rc"] == "0"
        assert (fields is not None and not refusal(fields)) == accepted, row
        if fields is not None and accepted:
            taken += 1
            assert encode(fields) == data_of(row)
            assert decode(data_of(row)) == fields
    assert taken > 50


def pixels_of(row: dict[str, str]) -> MapFields:
    rank, channels, pixels = (int(row[name]) for name in ("rank", "cpp", "ppc"))
    return MapFields(
        TYPE_NAMES[int(row["dtype"])], int(row["addr"], 16), numbers(row, "d", rank), numbers(row, "s", rank - 1), (),
        numbers(row, "e", rank), int(row["interleave"]), int(row["swizzle"]), row["oob"] == "1", int(row["l2"]),
        Im2col(numbers(row, "lo", rank - 2), numbers(row, "up", rank - 2), channels, pixels),
    )  # fmt: skip


def test_the_driver_takes_the_same_maps_of_im2col_mode() -> None:
    for row in rows("tensor-maps-im2col.csv.gz"):
        assert (not refuse_pixels(pixels_of(row))) == (row["rc"] == "0"), row
        assert row["rc"] != "0" or encode(pixels_of(row)) == data_of(row)


def test_maps_of_im2col_mode_are_read() -> None:
    seen = 0
    for row in rows("tensor-maps-im2col.csv.gz"):
        if row["rc"] != "0":
            continue
        seen += 1
        fields, rank = decode(data_of(row)), int(row["rank"])
        assert fields is not None
        assert fields.im2col is not None
        corners = numbers(row, "lo", rank - 2), numbers(row, "up", rank - 2)
        assert fields.im2col == Im2col(*corners, int(row["cpp"]), int(row["ppc"]))
        assert encode(fields) == data_of(row)
    assert seen > 2


@pytest.mark.parametrize("data", [bytes(128), b"\xff" * 128, bytes(range(128))])
def test_other_bytes_are_no_map(data: bytes) -> None:
    assert decode(data) is None


REFUSED = {
    "tmap(f16[64,65], box=[8,8])": "the stride of axis 0 is 130 bytes: a tensor map's strides are multiples of 16",
    "tmap(f16[64,64], box=[8,64], swizzle=64B)": "the box has 128 bytes in axis 1: at most 64 with a swizzle of 64B",
    "tmap(f16[64,64], box=[8,300])": "the box has 300 elements in axis 1: 1 to 256",
    "tmap(f16[64,64], box=[8,4])": "the box has 8 bytes in axis 1: a multiple of 16",
    "tmap(f16[64,64], box=[8])": "`box` has 1 numbers: give 2, the outermost first",
    "tmap(i32[64,64], box=[8,8], fill=nan)": "its elements are s32: only floats can be filled with nan",
    "tmap(f16[64,64], box=[8,8], element_strides=[9,1])": "the element stride of axis 0 is 9: 1 to 8",
    "tmap(f16[64,64], box=[8,8], interleave=16B)": "it has 2 dimensions: an interleaved tensor map has 3 to 5",
    "tmap(f32[4,256,256], box=[1,256,256])": "the box has 262,144 bytes: at most 233,472",
    "tmap(f16[64,64], box=[8,8], swizzle=96B)": "`swizzle` is '96B': one of None, '32B', '64B', '128B'",
    "tmap(f16[64,64], box=[8,8], type=bf16x2)": "no type 'bf16x2': one of u8, u16",
    "tmap(f16[64,64], box=[8,8], type=tf32)": "elements of tf32 have 4 bytes, those of float16 not",
    "tmap(f16[1,1,1,1,1,64], box=[1,1,1,1,1,64])": "an array of 6 dimensions: a tensor map has 1 to 5",
    "tmap(f16[64,64])": "a tensor map has an array and a box",
    "tmap(f16[64,64], boxes=[8,8])": "no option `boxes=[8,8]`",
    "tmap(f16[64,64], box=8)": "`8` is no list of numbers: write `[64,8]`",
    "tmap(i32:7, box=[8])": "a tensor map has an array and a box",
    "tmap(f16[64,64], box=[8,8]": "lacks `)` at its end",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_driver_refuses_is_said(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        argument(text)
    assert REFUSED[text] in str(caught.value)


def test_a_map_on_the_command_line() -> None:
    made = argument(
        "tmap(u16[4,8,64]:arange, box=[1,4,64], type=bf16, swizzle=128B, fill=nan, element_strides=[1,2,1])"
    )
    assert isinstance(made, wsemu.TensorMap)
    assert made.fields == MapFields("bf16", 0, (64, 8, 4), (128, 1024), (64, 4, 1), (1, 2, 1), 0, 3, True)
    assert made.array[1, 0, 0] == 512
    assert isinstance(argument("{i32:7, tmap(f16[64], box=[64])}")[1], wsemu.TensorMap)


def test_the_bytes_of_a_driver_and_an_array_are_a_map() -> None:
    x = np.zeros((64, 64), np.float16)
    made = wsemu.TensorMap(x, [8, 64], swizzle="128B")
    read = wsemu.TensorMap.from_bytes(made.encoded(0x7F00_0000_0000), x)
    assert (read.fields, read.array is x) == (made.fields, True)
    pixels = data_of(next(row for row in rows("tensor-maps-im2col.csv.gz") if row["rc"] == "0"))
    assert wsemu.TensorMap.from_bytes(pixels, x).fields.im2col
    for data in (bytes(128), b""):
        with pytest.raises(UsageError, match=r"^tensor map: "):
            wsemu.TensorMap.from_bytes(data, x)


@pytest.mark.parametrize(
    ("array", "box", "options"),
    [
        (None, (8, 32), {}), ([1, 2], (2,), {}), (5, (1,), {}),
        (np.zeros((64, 64), np.float32), 8, {}), (np.zeros((64, 64), np.float32), (8, 2.5), {}),
        (np.zeros((64, 64), np.float32), (8, 32), {"type": []}),
        (np.zeros((64, 64), np.float32), (8, 32), {"swizzle": np.zeros(3)}),
        (np.zeros((64, 64), np.float32), (8, 32), {"element_strides": np.zeros(3)}),
        (np.zeros((64, 64), np.float32), (8, 32), {"element_strides": ()}),
        (np.zeros((64, 64), np.float32), (8, 32), {"strides": "256"}),
    ],
)  # fmt: skip
def test_a_map_of_something_else_is_refused(array, box, options) -> None:
    with pytest.raises(UsageError, match=r"^tensor map"):
        wsemu.TensorMap(array, box, **options)


def test_bytes_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^tensor map: `data` is 5"):
        wsemu.TensorMap.from_bytes(5, np.zeros((64, 64), np.float16))  # type: ignore[arg-type]


def test_a_map_of_a_view() -> None:
    x = np.zeros((4, 6, 32), np.float32)
    made = wsemu.TensorMap(x[:, 1:3, :16], [2, 1, 16], strides=[1536, 256])
    assert made.fields == MapFields("f32", 0, (16, 2, 4), (256, 1536), (16, 1, 2), (1, 1, 1))
    with pytest.raises(UsageError, match="do not lie side by side"):
        wsemu.TensorMap(x[:, :, ::2], [1, 1, 8])


def test_a_map_of_4_bit_elements_has_the_type_that_cute_dsl_writes() -> None:
    """The first 64 bytes of a map of its compiler, for an array of 1 x 256 x 512 elements; it leaves the others."""
    words = (0, 0x1000, 0x000465A2, 16, 0x1000, 0, 0, 0, 511, 255, 0, 0, 0, 0xFF000000, 0x7F, 0)
    data = b"".join(word.to_bytes(4, "little") for word in words) + bytes(range(64))
    expected = MapFields(
        "u4", 0x1000 << 32, (512, 256, 1), (256, 65536), (256, 128, 1), (1, 1, 1), swizzle=3, promotion=2
    )
    assert decode(data) == expected
