"""Tensor maps that a program asks the driver for."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from wsemu.native import session as native
from wsemu.native.messages import TENSOR_MAP, Operation

INVALID, NOT_SUPPORTED = 1, 801
SWIZZLE_32B = 1


class Refusals(native.Watch):
    """Keeps what a program is refused."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def note_refusal(self, what: str, error: Any) -> None:
        self.found.append(f"{what}: {error}")


def encode(folder: Any, type_: int, swizzle: int = 0, **changed: int) -> tuple[int, list[str]]:
    """Return the driver's code for a map of 256 x 8 elements, and what it is refused for."""
    shape = {"box": 128, "stride": 256, "extent": 256, "interleave": 0} | changed
    fields = [0] * 35
    fields[:7] = type_, 2, 1 << 40, shape["interleave"], swizzle, 0, 0
    fields[7:9], fields[12], fields[16:18], fields[21:23] = (
        (shape["extent"], 8),
        shape["stride"],
        (shape["box"], 8),
        (1, 1),
    )
    watch = Refusals()
    reply = native.Session(folder, watch).handle(Operation.MAP, TENSOR_MAP.pack(*fields))
    return struct.unpack_from("<I", reply)[0], watch.found


def test_known_types_are_encoded(tmp_path):
    assert encode(tmp_path, 0) == (0, [])
    assert encode(tmp_path, 13) == (0, [])


@pytest.mark.parametrize("type_", [14, 15])
def test_types_with_padding_are_encoded_as_the_driver_requires(type_, tmp_path):
    stride = {14: 128, 15: 192}[type_]
    assert encode(tmp_path, type_, box=128, stride=stride) == (0, [])
    assert encode(tmp_path, type_, 4, box=128, stride=stride) == (0, [])
    assert encode(tmp_path, type_, box=64, stride=stride) == (INVALID, [])
    assert encode(tmp_path, type_, box=128, stride=stride + 16) == (INVALID, [])
    assert encode(tmp_path, type_, 2, box=128, stride=stride) == (INVALID, [])
    assert encode(tmp_path, type_, box=128, stride=stride, extent=192) == (INVALID, [])
    name = "im2col mode or interleave of 16U4_ALIGN16B and 16U6_ALIGN16B"
    refused = NOT_SUPPORTED, [f"tensor map: `{name}` is not modelled"]
    assert encode(tmp_path, type_, box=128, stride=stride, interleave=1) == refused


@pytest.mark.parametrize(("type_", "swizzle", "name"), [
    (0, 5, "128B_ATOM_32B_FLIP_8B"), (0, 6, "128B_ATOM_64B"),
])  # fmt: skip
def test_a_map_that_is_not_modelled_is_refused_by_name(type_, swizzle, name, tmp_path):
    assert encode(tmp_path, type_, swizzle) == (NOT_SUPPORTED, [f"tensor map: `{name}` is not modelled"])


@pytest.mark.parametrize(
    ("line", "swizzle", "code"), [(1, 2, 0), (2, 3, 0), (0, 1, 0), (1, 1, INVALID), (3, 2, INVALID)]
)
def test_a_map_of_pixels_along_one_dimension_needs_a_wide_swizzle(line, swizzle, code, tmp_path):
    fields = [0] * 35
    fields[:7] = 2, 4, 1 << 40, 0, swizzle, 0, 0
    fields[7:11], fields[12:15], fields[21:25] = (16, 9, 3, 4), (64, 576, 1728), (1, 1, 1, 1)
    fields[26:28], fields[29:31], fields[32:] = (-1, -1), (0, 0), (8, 24, line)
    reply = native.Session(tmp_path, Refusals()).handle(Operation.MAP, TENSOR_MAP.pack(*fields))
    assert struct.unpack_from("<I", reply)[0] == code


@pytest.mark.parametrize(("type_", "swizzle"), [(16, 0), (0, 7), (0, SWIZZLE_32B)])
def test_what_no_driver_takes_is_an_invalid_argument(type_, swizzle, tmp_path):
    assert encode(tmp_path, type_, swizzle) == (INVALID, [])
