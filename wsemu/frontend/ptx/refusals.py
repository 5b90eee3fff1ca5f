"""Alternatives to instructions that are not modeled; the report of a launch that executes one names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BY_OPCODE = {
    **dict.fromkeys(("tex", "tld4", "txq"), "pass a `wsemu.Texture` of that shape and type, or read the array itself"),
    **dict.fromkeys(
        ("suld", "sust", "sured", "suq"), "pass a `wsemu.Surface` of that shape, or access the array itself"
    ),
    "tcgen05": "use another form of it: the page of limits has those that are not modelled",
    "multimem": "pass a `wsemu.Multicast` of the replicas for the multicast address",
    "discard": "leave it out: it makes the contents of memory undefined",
}
"""alternative for all instructions with that opcode"""
_BY_MODIFIER = {
    **dict.fromkeys(("sp", "sp::ordered_metadata"), "use another type, or multiply by the dense matrix"),
}
"""alternative for instructions with that modifier"""
_BY_CALL = {
    **dict.fromkeys(
        ("cudaLaunchDeviceV2", "cudaGetParameterBufferV2", "cudaCDP2LaunchDeviceV2_ptsz"), "launch it from the host"
    ),
}
"""alternative for a call of a function that is defined elsewhere"""


def remedy(opcode: str, modifiers: Sequence[str], what: str) -> str:
    """Return the remedy for an instruction that is not modeled, which messages call `what`; empty if none is known."""
    for name, told in _BY_CALL.items():
        if opcode == "call" and f"`{name}`" in what:
            return told
    return _BY_OPCODE.get(opcode) or next((_BY_MODIFIER[m] for m in modifiers if m in _BY_MODIFIER), "")
