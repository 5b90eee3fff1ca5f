"""Conversions of `printf`: their text is that of C."""

import ctypes
import itertools
import struct

import pytest

from wsemu.frontend.ptx.printing import parse_format
from wsemu.launch.c_format import format_values

FLAGS = ("", "-", "0", "+", " ", "#", "-#", "+0", "#0")
WIDTHS = ("", "1", "9")
PRECISIONS = ("", ".", ".0", ".3")


def print_with_c(conversion, value):
    buffer = ctypes.create_string_buffer(200)
    ctypes.CDLL(None).snprintf(buffer, 200, conversion.encode(), value)
    return buffer.value.decode()


def print_here(text, *values):
    return format_values(parse_format(text).parts, values, lambda address: "text")


@pytest.mark.parametrize("kind", "diouxX")
def test_integers_are_those_of_c(kind):
    for flags, width, precision, value in itertools.product(FLAGS, WIDTHS, PRECISIONS, (0, 1, -1, 77, -12345)):
        text = f"%{flags}{width}{precision}{kind}"
        assert print_here(text, value & (1 << 64) - 1) == print_with_c(text, ctypes.c_int(value)), (text, value)


@pytest.mark.parametrize("kind", "eEfFgG")
def test_floats_are_those_of_c(kind):
    numbers = (0.0, -1.5, 3.14159, 1e20, 1e-9, float("inf"), float("nan"), -0.0)
    for flags, width, precision, value in itertools.product(FLAGS, WIDTHS, PRECISIONS, numbers):
        text, (bits,) = f"%{flags}{width}{precision}{kind}", struct.unpack("<Q", struct.pack("<d", value))
        assert print_here(text, bits) == print_with_c(text, ctypes.c_double(value)), (text, value)


@pytest.mark.parametrize(
    ("text", "values", "printed"),
    [
        ("%s|%5.2s|%-6s|", (8, 8, 8), "text|   te|text  |"),
        ("%c%%%c", (65, 66), "A%B"),
        ("%p %p", (0, 255), "(nil) 0xff"),
        ("%*d|%-*d|%.*f", (4, 7, 3, 7, 1, 0x3FF8000000000000), "   7|7  |1.5"),
        ("%lld %hhd %hu", (1 << 40, 0x1FF, 0x1FFFF), "1099511627776 -1 65535"),
        ("%a", (0x3FF8000000000000,), "0x1.8p+0"),
        ("100%! and %y", (), "100%! and %y"),
        ("%99999d", (), "%99999d"),
    ],
)
def test_text_and_lengths(text, values, printed):
    assert print_here(text, *values) == printed


def test_more_values_than_a_gpu_takes_print_the_format():
    assert parse_format("%d" * 33) == (("%d" * 33,), ())
