"""PTX in fat binaries: containers of PTX and machine code, as the compiler puts them into programs."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = 0xBA55ED50
ELF = b"\x7fELF"
_PTX, _CUBIN = 1, 2
_ZSTD, _LZ4 = 0x8000, 0x2000
"""flags of entries that are compressed by Zstandard or LZ4"""
MAX_BYTES = 1 << 30
"""maximum number of bytes of an unpacked entry"""
SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
"""names of the sections that have containers"""


class MissingPackageError(UsageError):
    """A package of `wsemu[run]` that the PTX of a program needs is not installed."""


class Entry(NamedTuple):
    """PTX or machine code for one target."""

    is_ptx: bool
    target: int
    """90 of sm_90"""
    flags: int
    stored: bytes
    size: int
    """number of bytes of the unpacked entry"""

    def unpack(self) -> bytes:
        """Return the contents; raise UsageError if a package is missing or an entry is damaged."""
        if self.size > MAX_BYTES:
            raise UsageError(f"a fat binary has an entry of {self.size:,} bytes: at most {MAX_BYTES:,}")
        try:
            if self.flags & _ZSTD:
                return _unpack_zstd(self.stored, self.size)
            if self.flags & _LZ4:
                return _unpack_lz4(self.stored, self.size)
        except ImportError as error:
            raise MissingPackageError(
                f"the PTX of this program is compressed, and `{error.name}` is not installed: pip install 'wsemu[run]' "
                "(or build the program with `-Xfatbin -compress-mode=none`)"
            ) from None
        except Exception as error:  # the packages have no common class
            raise UsageError(f"a fat binary has an entry that cannot be unpacked: {error}") from None
        return self.stored


def _unpack_zstd(data: bytes, size: int) -> bytes:
    import zstandard

    return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=max(size, 1)))


def _unpack_lz4(data: bytes, size: int) -> bytes:
    import lz4.block

    return bytes(lz4.block.decompress(data, uncompressed_size=size))


def entries(data: bytes) -> Iterator[Entry]:
    """Yield the entries of containers that follow one another, padded."""
    at = 0
    while at + 16 <= len(data):
        magic, version, head, size = struct.unpack_from("<IHHQ", data, at)
        if magic != MAGIC or version != 1 or head < 16:
            at += 8
            continue
        end = min(at + head + size, len(data))
        yield from _container_entries(data, at + head, end)
        at = end + -end % 8


def _container_entries(data: bytes, at: int, end: int) -> Iterator[Entry]:
    while at + 64 <= end:
        kind, _, head, size = struct.unpack_from("<HHIQ", data, at)
        packed, _, _, target = struct.unpack_from("<IIII", data, at + 16)
        flags, _, unpacked = struct.unpack_from("<QQQ", data, at + 40)
        if head < 64 or at + head + size > end:
            return
        if kind in (_PTX, _CUBIN):
            stored = data[at + head : at + head + size]
            is_packed = bool(flags & (_ZSTD | _LZ4))
            yield Entry(kind == _PTX, target, flags, stored[:packed] if is_packed and packed else stored, unpacked)
        at += head + size


class Section(NamedTuple):
    """A section of an ELF file."""

    name: bytes
    data: bytes


def sections(data: bytes) -> Iterator[Section]:
    """Yield the sections of a 64-bit ELF file; yield nothing for other data."""
    if data[:4] != ELF or len(data) < 64:
        return
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    if size < 64 or table + size * count > len(data) or names >= count:
        return
    rows = [struct.unpack_from("<IIQQQQ", data, table + n * size) for n in range(count)]
    start = rows[names][4]
    for name, kind, _, _, offset, length in rows:
        end = data.find(b"\0", start + name)
        yield Section(data[start + name : end], b"" if kind == 8 else data[offset : offset + length])


def fat_binaries(data: bytes) -> bytes:
    """Return the containers in a program or library, including the containers of `-rdc`."""
    return b"".join(section.data for section in sections(data) if section.name in SECTIONS)


def kernels_of_cubin(data: bytes) -> list[str]:
    """Return the names of the kernels in machine code: their parameters have a section each."""
    start = b".nv.constant0."
    names = [section.name.removeprefix(start) for section in sections(data) if section.name.startswith(start)]
    return [name.decode(errors="replace") for name in names]
