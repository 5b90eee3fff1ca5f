"""Agreement of an instruction's modifiers with each other (PTX ISA 9.7), as ptxas 13.0 requires it.

The order of modifiers does not matter to ptxas.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import ROUNDINGS

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Instruction

_SPACES = frozenset("global shared shared::cta shared::cluster local const param param::entry param::func".split())
_SHARED = frozenset(("global", "shared", "shared::cta", "shared::cluster"))
_IN_SPACES = {
    "st": _SPACES - {"const"},
    "ldu": frozenset({"global"}),
    **dict.fromkeys(("atom", "red"), _SHARED),
}
"""opcode -> its state spaces, besides generic addresses"""
_SCOPES = frozenset("cta cluster gpu gl sys".split())
_ORDERS = frozenset("weak relaxed acquire release acq_rel volatile sc".split())
_SCOPED_ORDERS = frozenset("relaxed acquire release".split())
_ACCESSES = frozenset(("ld", "st", "ldu", "atom", "red"))
_ONE_OF = (
    ("a scope", _SCOPES, None),
    ("a memory order", _ORDERS, None),
    ("a cache operator", frozenset("ca cg cs lu cv wb wt".split()), _ACCESSES),
    ("a state space", _SPACES, _ACCESSES | {"cvta"}),
    ("an operation", frozenset("and or xor add min max inc dec exch cas".split()), frozenset(("atom", "red"))),
)
"""kinds of modifiers of which an instruction has one at most; the opcodes, or None for each in `_ONCE`"""
_ONCE = _ACCESSES | frozenset(
    "cp prefetch prefetchu cvta isspacep mapa getctarank createpolicy applypriority bar barrier mbarrier fence membar "
    "redux match elect vote shfl activemask nanosleep setmaxnreg griddepcontrol exit ret brkpt trap".split()
)
"""instructions that have no modifier twice, and no rounding"""
_ALL_MODIFIERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("exit", "brkpt", "trap"), frozenset()),
    "ret": frozenset({"uni"}),
    "nanosleep": frozenset({"u32"}),
}
_SYNCHRONIZED = frozenset(("elect", "redux", "match"))


def check_modifiers(e: Emitter, instruction: Instruction) -> None:
    """Raise a KernelError for modifiers that do not agree with each other: ptxas rejects the instruction."""
    problem = modifier_problem(instruction.opcode, instruction.modifiers)
    if problem:
        name = ".".join((instruction.opcode, *instruction.modifiers))
        raise e.error(instruction.at, f"`{name}` {problem}", "correct its modifiers: ptxas rejects it")


@functools.cache
def modifier_problem(opcode: str, modifiers: tuple[str, ...]) -> str:
    """Return why ptxas rejects the modifiers of an instruction; empty if they agree."""
    given = frozenset(modifiers)
    if opcode in _ONCE:
        twice = next((m for m in modifiers if modifiers.count(m) > 1 and m != "sync"), "")
        if twice:
            return f"has .{twice} twice"
        if rounding := sorted(given & ROUNDINGS):
            return f"has no rounding, and not .{rounding[0]}"
        for kind, group, opcodes in _ONE_OF:
            found = [m for m in modifiers if m in group]
            if len(found) > 1 and (opcodes is None or opcode in opcodes):
                return f"has {kind} twice: .{found[0]} and .{found[1]}"
    unknown = sorted(given - _ALL_MODIFIERS.get(opcode, given))
    if unknown:
        return f"has no modifier .{unknown[0]}"
    if opcode in _SYNCHRONIZED and "sync" not in given:
        return "requires `.sync`"
    return _space_problem(opcode, given)


def _space_problem(opcode: str, given: frozenset[str]) -> str:
    space = next(iter(given & _SPACES), "")
    if space and space not in _IN_SPACES.get(opcode, _SPACES):
        return f"has no state space .{space}"
    if opcode not in ("ld", "st"):
        return ""
    if given & _SCOPES and not given & _SCOPED_ORDERS:
        return "has a scope without `.relaxed`, `.acquire` or `.release`"
    hints = sorted(m for m in given if m.startswith(("L1::", "L2::")) or m in ("nc", "mmio"))
    if hints and space not in ("", "global"):
        return f"has no .{hints[0]} in .{space} memory"
    orders = sorted(given & (_ORDERS - {"weak", "volatile"}))  # compilers emit `ld.volatile.local` for older versions
    return f"has no .{orders[0]} in .{space} memory" if orders and space and space not in _SHARED else ""
