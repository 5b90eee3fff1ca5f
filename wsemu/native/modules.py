"""A module that a program has loaded: its kernels with the layout of their parameters, and its variables."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

from wsemu.launch.binding import Packed
from wsemu.launch.ptx.module import load_ptx
from wsemu.model.data import NamedTuple
from wsemu.native.images import find_target
from wsemu.native.messages import pack_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.launch.ptx.module import PtxKernel
    from wsemu.model.arch import Limits
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.program import Program


_MANAGED = re.compile(r"\.attribute\s*\(\s*\.managed\s*\)[^;=\[]*?([\w$]+)\s*[;=\[]")
"""the declaration of a managed variable; the group is its name"""


class Place(NamedTuple):
    """The position and size of a parameter in the parameter buffer, in bytes."""

    offset: int
    bytes: int


class LoadedModule:
    """PTX that a program has loaded."""

    def __init__(self, texts: Sequence[str], limits: Limits) -> None:
        self.texts = texts
        self._module = load_ptx(*texts)
        self.kernels: list[PtxKernel] = [self._module[name] for name in self._module]
        self.variables = self._module.placeable()
        self.addresses: dict[str, int] = {}
        """addresses of the variables, by their names in PTX"""
        self._limits = limits
        self._places = [_layout(kernel) for kernel in self.kernels]

    def describe(self) -> bytes:
        """Return the kernels and variables in the format that the loading program reads."""
        target = find_target(self.texts)
        managed = {match[1] for text in self.texts for match in _MANAGED.finditer(text)}
        head = struct.pack("<II", len(self.kernels), len(self.variables))
        kernels = (self._describe_kernel(*one, target) for one in zip(self.kernels, self._places, strict=True))
        variables = (
            pack_text(name) + struct.pack("<QI", size, name in managed) for name, size in self.variables.items()
        )
        return b"".join((head, *kernels, *variables))

    def _describe_kernel(self, kernel: PtxKernel, places: Sequence[Place], target: int) -> bytes:
        entry = kernel.entry
        threads = entry.reqntid or entry.maxntid
        most = min(_product(threads), self._limits.threads) if threads else self._limits.threads
        cluster = (*entry.cluster, 1, 1)[:3] if entry.cluster else (0, 0, 0)
        layout = struct.pack(f"<I{2 * len(places)}I", len(places), *(number for place in places for number in place))
        return pack_text(entry.name) + layout + struct.pack("<5i", most, target, *cluster)

    def place_variables(self, memory: DeviceMemory, addresses: Sequence[int]) -> None:
        """Put the variables, with their initial contents, at the addresses that the program has allocated."""
        self.addresses = dict(zip(self.variables, addresses, strict=True))
        self._module.place_variables(memory, self.addresses)

    def parameters(self, number: int, data: bytes) -> list[bytes]:
        """Return the bytes of each parameter of a kernel."""
        return [data[place.offset : place.offset + place.bytes] for place in self._places[number]]

    def program(self, number: int) -> Program:
        """Return the compiled program of a kernel, for uses in which the values of the arguments do not matter."""
        kernel = self.kernels[number]
        size = max((place.offset + place.bytes for place in self._places[number]), default=0)
        arguments: Any = kernel.fit([*map(Packed, self.parameters(number, bytes(size)))])
        return kernel.program(arguments, True)


def _layout(kernel: PtxKernel) -> list[Place]:
    """Return the positions of the parameters of a kernel: each is at the next multiple of its alignment."""
    found, at = [], 0
    for parameter in kernel.entry.parameters:
        alignment = max(parameter.alignment or 1, 1)
        at += -at % alignment
        found.append(Place(at, parameter.bytes))
        at += parameter.bytes
    return found


def _product(extents: Sequence[int]) -> int:
    product = 1
    for extent in extents:
        product *= extent
    return product
