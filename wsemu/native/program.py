"""Reject a program whose CUDA calls would not reach the driver: a stripped program with a statically linked runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.errors import UsageError
from wsemu.native import fat_binary

if TYPE_CHECKING:
    from pathlib import Path

_REGISTERS = b"__cudaRegisterFatBinary"
"""a function of the runtime that every program with kernels calls"""
_LARGEST = 1 << 30
"""maximum size in bytes of a program that is examined"""
RELINK = 'relink with NVCC_APPEND_FLAGS="-cudart shared -gencode arch=compute_90a,code=compute_90a -lineinfo"'


def check_program(path: Path) -> None:
    """Raise UsageError for a program with a statically linked CUDA runtime and without symbol names."""
    try:
        if path.stat().st_size > _LARGEST:
            return
        data = path.read_bytes()
    except OSError:
        return
    found = [*fat_binary.sections(data)]
    if not any(section.name in fat_binary.SECTIONS for section in found):
        return
    # it contains names: a program without kernels registers nothing
    if any(section.name == b".strtab" for section in found):
        return
    if not any(_REGISTERS in section.data for section in found if section.name == b".dynstr"):
        raise UsageError(
            f"`{path}` is stripped: the CUDA runtime in it has no names by which wsemu replaces it; {RELINK} in the "
            "environment, or do not strip the program"
        )
