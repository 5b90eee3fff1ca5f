"""Addresses in the shared memory of a cluster's CTAs (PTX ISA 9.7.9.23, 9.7.9.24).

A launch is one without clusters, for which PTX says that each CTA is a cluster of its own: of rank 0, whose addresses
in the cluster are those in the CTA.  Any other rank ends the run, and so does each of these instructions where the
kernel may have been put into larger clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx.forms import UnhandledForm, chosen, picked

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand

_SPACE = frozenset({"shared::cluster"})
_ADDRESSES = {"u32": "b32", "u64": "b64"}


def _alone(e: Emitter) -> bool:
    """Whether the CTA is a cluster of its own; else the run ends here."""
    if e.clusters in ("none", "of one"):
        return True
    e.unsupported()
    return False


def _refuse_others(e: Emitter, rank: Register) -> None:
    """End the run where a rank is not 0."""
    zero = e.constant("b32", 0)
    if rank == zero:
        return
    other = e.emit("setp.ne.b32", rank, zero)
    if e.guard != TRUE:
        other = e.emit("andn.pred" if e.negated else "and.pred", other, e.guard)
    kept = e.guard, e.negated
    e.guard, e.negated = other, False
    e.unsupported()
    e.guard, e.negated = kept


def map_form(form: Form) -> Lower:
    """mapa{.shared::cluster}.{u32,u64} d, address, rank: of the same place in the CTA of that rank."""
    (space,) = picked(form.flags, _SPACE)
    if form.type not in _ADDRESSES or (form.type == "u32" and not space):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, address, rank = operands
        if _alone(e):
            value = e.read(address, _ADDRESSES[form.type])
            _refuse_others(e, e.read(rank, "b32"))
            e.write_register(destination, value)

    return lower


def rank_form(form: Form) -> Lower:
    """getctarank{.shared::cluster}.{u32,u64} d, address: the rank of the CTA that an address is in."""
    (space,) = picked(form.flags, _SPACE)
    if form.type not in _ADDRESSES or (form.type == "u32" and not space):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, address = operands
        if _alone(e):
            e.read(address, _ADDRESSES[form.type])
            e.write_register(destination, e.constant("b32", 0))

    return lower


HANDLERS: dict[str, Handler] = {"mapa": chosen(map_form), "getctarank": chosen(rank_form)}
