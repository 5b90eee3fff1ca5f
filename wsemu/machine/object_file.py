"""Loads object code of the VM into this process, as a linker would, for the features that its files use.

The compiler uses the large code model: functions and constants refer to each other, and to functions of the C library,
only by whole addresses (R_X86_64_64). A file with any other reference is left to LLVM's own loader, whose import takes
a tenth of a second. Reference: System V ABI, AMD64 supplement, chapter 4.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys

from wsemu.machine.checked import CHECKED, allow
from wsemu.model.data import NamedTuple

_HEADER = b"\x7fELF\x02\x01"
"""ELF header: 64 bits, least significant byte first"""
_X86_64 = 62
_ALLOCATED, _WRITABLE = 2, 1
_PROGBITS, _RELOCATIONS, _NO_BITS, _SYMBOLS = 1, 4, 8, 2
_ADDRESS = 1
"""R_X86_64_64"""
_UNDEFINED, _FIRST_RESERVED = 0, 0xFF00
_ALIGNMENT = 64


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


_PARTS: list[mmap.mmap] = []
"""memory of loaded code, which must live as long as the process"""


def is_known_here() -> bool:
    """Return whether `load` supports the object files of this system."""
    return sys.platform.startswith("linux") and platform.machine() == "x86_64" and sys.maxsize > 1 << 32


def load(code: bytes, symbol: str) -> int | None:
    """Return the address of a function of an object file; None if the file needs LLVM's loader."""
    if not is_known_here() or code[: len(_HEADER)] != _HEADER or struct.unpack_from("<H", code, 18)[0] != _X86_64:
        return None
    sections = _sections(code)
    kept = [n for n, s in enumerate(sections) if s.flags & _ALLOCATED and s.size and s.type in (_PROGBITS, _NO_BITS)]
    if any(sections[n].flags & _WRITABLE or sections[n].type == _NO_BITS for n in kept):
        return None
    places, size = _places([sections[n] for n in kept])
    found = _load_sections(code, sections, dict(zip(kept, places, strict=True)), size, symbol)
    if found is None:
        return None
    memory, address = found
    if not _made_executable(memory):
        return None
    _PARTS.append(memory)
    return address


def _sections(code: bytes) -> list[_Section]:
    at: int = struct.unpack_from("<Q", code, 40)[0]
    size, count = struct.unpack_from("<HH", code, 58)
    return [_Section(*struct.unpack_from("<IIQQQQIIQQ", code, at + n * size)) for n in range(count)]


def _places(sections: list[_Section]) -> tuple[list[int], int]:
    """Return the positions of sections that are placed one after another, and the end."""
    places, at = [], 0
    for section in sections:
        step = max(section.alignment, _ALIGNMENT)
        at = -(-at // step) * step
        places.append(at)
        at += section.size
    return places, at


def _load_sections(
    code: bytes, sections: list[_Section], places: dict[int, int], size: int, symbol: str
) -> tuple[mmap.mmap, int] | None:
    """Return memory with these sections at their positions, their references resolved, and the address of a symbol."""
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, place in places.items():
        section = sections[number]
        memory[place : place + section.size] = code[section.offset : section.offset + section.size]
    address = None
    for table in (section for section in sections if section.type == _SYMBOLS):
        for at in range(table.offset, table.offset + table.size, 24):
            known = _address(code, sections, places, base, at)
            if known and _name(code, sections[table.link], at) == symbol:
                address = known
    for relocations in (s for s in sections if s.type == _RELOCATIONS and s.info in places):
        symbols = sections[relocations.link]
        for offset, info, addend in struct.iter_unpack("<QQq", _content(code, relocations)):
            at = symbols.offset + 24 * (info >> 32)
            target = _address(code, sections, places, base, at) or _outside(_name(code, sections[symbols.link], at))
            if info & 0xFFFFFFFF != _ADDRESS or not target:
                return None
            struct.pack_into("<q", memory, places[relocations.info] + offset, target + addend)
    return None if address is None else (memory, address)


def _content(code: bytes, section: _Section) -> bytes:
    return code[section.offset : section.offset + section.size]


def _name(code: bytes, strings: _Section, at: int) -> str:
    """Return the name of a symbol."""
    start = strings.offset + struct.unpack_from("<I", code, at)[0]
    return code[start : code.index(b"\0", start)].decode()


def _address(code: bytes, sections: list[_Section], places: dict[int, int], base: int, at: int) -> int:
    """Return the address of a symbol of the file; 0 for an external one."""
    section, value = struct.unpack_from("<HQ", code, at + 6)
    return base + places[section] + value if section in places else 0


def _outside(name: str) -> int:
    """Return the address of a function of the C library; 0 if there is none of that name."""
    try:
        function = getattr(ctypes.pythonapi, name)
    except AttributeError:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _made_executable(memory: mmap.mmap) -> bool:
    """Make memory executable and read-only, and return whether the system allows this."""
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if CHECKED:
        allow(first, first + len(memory), writable=False)
    done: int = protect(first, len(memory), mmap.PROT_READ | mmap.PROT_EXEC)
    return done == 0
