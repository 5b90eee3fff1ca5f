"""Special registers (chapter 10): name -> how to come by the value."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.graph import Register
    from wsemu.frontend.ptx.emit import Emitter

SPECIALS: dict[str, Callable[[Emitter], Register]] = {}


def _named(name: str) -> Callable[[Emitter], Register]:
    return lambda e: e.special(name)


for _name in ("tid", "ntid", "ctaid", "nctaid"):
    for _axis in "xyz":
        SPECIALS[f"%{_name}.{_axis}"] = _named(f"{_name}.{_axis}")
SPECIALS["%laneid"] = _named("laneid")
SPECIALS["WARP_SZ"] = lambda e: e.constant("b32", 32)
