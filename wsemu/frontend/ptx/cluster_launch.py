"""Cluster launch control: `clusterlaunchcontrol` (PTX ISA 9.7.13.17).

A request returns the number of a cluster.  Its response is a 16-byte copy from a table that the launch creates.  The
words are x of the first CTA, y | z << 16, and 1 if the cluster is canceled; `ptxas` decodes this layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.frontend.ptx.forms import UnhandledForm, pick_flags
from wsemu.frontend.ptx.memory import full_address
from wsemu.model.isa import CHECK_RESPONSE, REQUEST_CLUSTER
from wsemu.model.program import RESPONSES, ConstantArray

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction, Operand

_BYTES, _SHIFT = 16, 4
_TABLE = "clusterlaunchcontrol.responses"


def _responses(e: Emitter) -> Register:
    """Return the address of the table of responses."""
    for register, array in e.graph.constant_arrays.items():
        if array.made == RESPONSES:
            return register
    register = e.graph.new("b64")
    e.graph.constant_arrays[register] = ConstantArray(0, _TABLE, np.zeros(0, np.uint32), made=RESPONSES)
    return register


def _request(e: Emitter, flags: tuple[str, ...], operands: tuple[Operand, ...]) -> None:
    """Lower try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [to], [bar]."""
    how, space, completes, many, type_ = pick_flags(
        flags, frozenset({"async"}), frozenset({"shared::cta"}), frozenset({"mbarrier::complete_tx::bytes"}),
        frozenset({"multicast::cluster::all"}), frozenset({"b128"}),
    )  # fmt: skip
    if not (how and completes and type_):
        raise UnhandledForm
    to, bar = (full_address(e, operand, "shared" if space else "") for operand in operands)
    (number,) = e.effect(REQUEST_CLUSTER, (), ("b32",))
    offset = e.emit("shl.b64", e.emit("cvt.b64.u32", number), e.constant("b64", _SHIFT))
    copied = to, e.emit("add.b64", _responses(e), offset), e.constant("b32", _BYTES), bar
    if not many:
        e.effect("bulk.load", copied, auxiliary=1)
        return
    one = e.constant("b32", 1)
    ctas = e.emit("sub.b32", e.emit("shl.b32", one, e.special("cluster_nctarank")), one)
    e.effect("bulk.multicast", (*copied, ctas))


def _words(e: Emitter, response: Operand) -> tuple[Register, Register]:
    """Return the two halves of a response."""
    low, high = e.elements(response, 2)
    return e.read(low, "b64"), e.read(high, "b64")


def _is_canceled(e: Emitter, operands: tuple[Operand, ...]) -> None:
    """Lower is_canceled.pred.b128 p, response."""
    target, response = operands
    low = e.emit("and.b64", _words(e, response)[1], e.constant("b64", 1))
    e.write_register(target, e.emit("setp.ne.b64", low, e.constant("b64", 0)))


def _first_cta(e: Emitter, axes: str, operands: tuple[Operand, ...]) -> None:
    """Lower get_first_ctaid.v4.b32.b128 {x, y, z, _}, response and get_first_ctaid::x.b32.b128 x, response."""
    target, response = operands
    low, high = _words(e, response)
    e.effect(CHECK_RESPONSE, (e.resize(high, 32),))
    both = e.emit("shr.u64", low, e.constant("b64", 32))
    values = {
        "x": e.resize(low, 32),
        "y": e.resize(e.emit("and.b64", both, e.constant("b64", 0xFFFF)), 32),
        "z": e.resize(e.emit("shr.u64", both, e.constant("b64", 16)), 32),
    }
    targets = (target,) if len(axes) == 1 else e.elements(target, 4)[: len(axes)]
    for axis, item in zip(axes, targets, strict=True):
        e.write_register(item, values[axis])


_AXES: dict[tuple[str, ...], str] = {
    ("get_first_ctaid", "v4", "b32", "b128"): "xyz",
    **{(f"get_first_ctaid::{axis}", "b32", "b128"): axis for axis in "xyz"},
}


def control_launch(e: Emitter, instruction: Instruction) -> None:
    what, *flags = instruction.modifiers
    if what == "try_cancel":
        _request(e, tuple(flags), instruction.operands)
    elif what == "query_cancel" and flags == ["is_canceled", "pred", "b128"]:
        _is_canceled(e, instruction.operands)
    elif what == "query_cancel" and tuple(flags) in _AXES:
        _first_cta(e, _AXES[tuple(flags)], instruction.operands)
    else:
        raise UnhandledForm


HANDLERS: dict[str, Handler] = {"clusterlaunchcontrol": control_launch}
