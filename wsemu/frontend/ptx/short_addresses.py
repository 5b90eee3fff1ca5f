"""32-bit addresses in the state spaces of parameters, constants and local memory, as LLVM computes them because these
spaces are small: `mov.b32 %r1, map; cvt.u64.u32 %rd1, %r1; cvta.param.u64 %rd2, %rd1;`.

In local memory, they are the low bits of the 64-bit address.  For a parameter or a constant, which have their own
segments here, they consist of its number and the offset in it, with the highest bit set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.variables import EntryParameter, FramePlace, LocalPlace, ModulePlace
from wsemu.model.isa import LOCAL, SEGMENT_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Place

SPACES = ("param", "const", "local")
_MARK, _SHIFT = 1 << 31, 16
"""the highest bit, and the bits of an offset: no parameter or bank of constants has more than 64 KiB"""


def short_address(e: Emitter, place: Place) -> Register | None:
    """Return the short address of a variable; None if it has none."""
    if isinstance(place, (LocalPlace, FramePlace)):
        return place.short_address(e)
    if not e.reached.short_names:
        return None
    number = next((number for number, known in _short_variables(e) if known is place), None)
    return None if number is None else e.constant("b32", _MARK | number << _SHIFT)


def _short_variables(e: Emitter) -> Iterator[tuple[int, Place]]:
    """Yield the parameters and constants whose short addresses are taken, with their numbers."""
    places = (place for scope in (*e.scopes.values(), *e.names[1:2]) for name, place in scope.items()
              if name in e.reached.short_names and not isinstance(place, int))  # fmt: skip
    kept = [place for place in places if _has_segment(place)]
    return enumerate(kept)


def _has_segment(place: Place) -> bool:
    if isinstance(place, ModulePlace):
        return place.variable.space == "const"
    return isinstance(place, EntryParameter) and place.stays


def extend_address(e: Emitter, address: Register) -> Register:
    """Return a 64-bit address in one of these spaces, given one that may be short."""
    if not e.reached.short_names:
        return address
    with e.looking_up():
        return _looked_up(e, address)


def _looked_up(e: Emitter, address: Register) -> Register:
    short = e.emit("setp.eq.b64", e.emit("shr.u64", address, e.constant("b64", SEGMENT_SHIFT)), e.constant("b64", 0))
    found = e.emit("or.b64", address, e.constant("b64", LOCAL << SEGMENT_SHIFT))
    whose = e.emit("shr.u64", address, e.constant("b64", _SHIFT))
    offset = e.emit("and.b64", address, e.constant("b64", (1 << _SHIFT) - 1))
    for number, place in _short_variables(e):
        own = e.emit("setp.eq.b64", whose, e.constant("b64", (_MARK >> _SHIFT) + number))
        found = e.emit("selp.b64", e.emit("add.b64", place.address(e), offset), found, own)
    return e.emit("selp.b64", found, address, short)
