"""Asynchronous copies (PTX ISA 9.7.9.25): `cp.async`, `cp.async.bulk`, `cp.reduce.async.bulk`, their groups.

Cache hints have no effect.  Tensor copies are in `tensor_copies.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, lower_by_form, pick_flags
from wsemu.frontend.ptx.mbarrier import copies_arrive
from wsemu.frontend.ptx.memory import full_address, lower_address
from wsemu.frontend.ptx.syntax import Name, Not, Number
from wsemu.frontend.ptx.tensor_copies import lower_tensor_load, lower_tensor_prefetch, lower_tensor_reduce
from wsemu.model.isa import ALL, BULK_REDUCTIONS, ONLY_READ

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand

Flags = tuple[str, ...]
_HINT = frozenset({"L2::cache_hint"})
_PREFETCH = frozenset({"L2::64B", "L2::128B", "L2::256B"})
_STATES = frozenset({"global", "shared", "shared::cta", "shared::cluster"})
_COPIES = {("shared", "global"), ("shared::cta", "global")}
_LOADS = {("shared::cta", "global"), ("shared::cluster", "global")}
_STORE = ("global", "shared::cta")
"""state spaces of a bulk store: (destination, source)"""
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}
"""cache operator -> valid sizes of a copy in bytes"""


def _drop_cache_policy(e: Emitter, operands: tuple[Operand, ...], at: int, hint: str) -> tuple[Operand, ...]:
    """Return the operands without the cache policy at an index if there is a hint; a negative index counts from the
    end."""
    if not hint:
        return operands
    if at < 0:
        at += len(operands)
    e.read(operands[at], "b64")
    return operands[:at] + operands[at + 1 :]


def integer_constant(operand: Operand) -> int:
    """Return the value of a 32-bit integer constant, which is the only valid operand here."""
    if not isinstance(operand, Number) or operand.is_float_bits or not -(1 << 31) <= operand.value < 1 << 32:
        raise UnhandledForm
    return operand.value


def _spaces(flags: Flags) -> tuple[Flags, Flags]:
    """Return the state spaces among the modifiers, and the other modifiers."""
    return tuple([f for f in flags if f in _STATES]), tuple([f for f in flags if f not in _STATES])


# -- copies of a thread ----------------------------------------------------------------------------------------------
def _copy(flags: Flags) -> Lower:
    """Lower cp.async.{ca,cg}.shared.global{hints} [to], [from], 4, 8, 16{, source bytes or predicate}{, policy}."""
    spaces, others = _spaces(flags)
    level, hint, _ = pick_flags(others, frozenset(_SIZES), _HINT, _PREFETCH)
    if not level or spaces not in _COPIES:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, origin, size, *some = _drop_cache_policy(e, operands, -1, hint)
        number = integer_constant(size)
        if number not in _SIZES[level] or len(some) > 1:
            raise UnhandledForm
        base, offset, _ = lower_address(e, destination, "shared")
        count = _read_bytes(e, some[0], number) if some else e.constant("b32", number)
        place = full_address(e, origin, "global", count)
        e.effect(f"cp.async.b{8 * number}", (base, place, count), immediate=offset)

    return lower


def _read_bytes(e: Emitter, operand: Operand, size: int) -> Register:
    """Return the number of bytes that are read from the source: the operand's value, or 0 if the operand is a predicate
    that holds."""
    bits = _bits(e, operand)
    if bits == 64:
        raise UnhandledForm
    if bits != 1:
        return e.read(operand, "b32")
    return e.emit("selp.b32", e.constant("b32", 0), e.constant("b32", size), e.read(operand, "p"))


def _bits(e: Emitter, operand: Operand) -> int:
    """Return the bits of the register that an operand names, 1 for a predicate; 0 if the operand is not a register."""
    if not isinstance(operand, Name):
        return int(isinstance(operand, Not))
    found = next((scope[operand.text] for scope in reversed(e.names) if operand.text in scope), None)
    return e.bits(found) if isinstance(found, int) else 0


def _commit(operation: str) -> Callable[[Flags], Lower]:
    def choose(flags: Flags) -> Lower:
        pick_flags(flags)

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            () = operands
            e.effect(operation)

        return lower

    return choose


def _wait_all(flags: Flags) -> Lower:
    pick_flags(flags)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        () = operands
        e.effect("cp.async.wait", auxiliary=ALL)

    return lower


def _wait_group(operation: str, only_read: frozenset[str]) -> Callable[[Flags], Lower]:
    """Lower cp.async.wait_group 2 and cp.async.bulk.wait_group{.read} 2."""

    def choose(flags: Flags) -> Lower:
        (read,) = pick_flags(flags, only_read)

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            (number,) = operands
            e.effect(operation, immediate=integer_constant(number) & 0xFFFFFFFF, auxiliary=ONLY_READ * bool(read))

        return lower

    return choose


# -- bulk copies -----------------------------------------------------------------------------------------------------
_MULTICAST = frozenset({"multicast::cluster"})
_BETWEEN = ("shared::cluster", "shared::cta")
_EVERY_BYTE = 0xFFFF
"""byte mask of a full 16-byte unit"""


def _bulk(flags: Flags) -> Lower:
    """Lower cp.async.bulk between global memory and the shared memory of the CTA."""
    spaces, others = _spaces(flags)
    if spaces in _LOADS:
        return _bulk_load(others, own=spaces[0] == "shared::cta")
    if spaces == _BETWEEN:
        return _bulk_send(others)
    if spaces == _STORE:
        return _bulk_store(others)
    raise UnhandledForm


def _bulk_load(flags: Flags, *, own: bool) -> Lower:
    """Lower .mbarrier::complete_tx::bytes{.multicast::cluster}{hint} [to], [from], bytes, [bar]{, mask}{, policy};
    `own`: to the CTA's own memory."""
    mechanism, many, hint = pick_flags(flags, frozenset({"mbarrier::complete_tx::bytes"}), _MULTICAST, _HINT)
    if not mechanism or (many and own):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, origin, size, bar, *mask = _drop_cache_policy(e, operands, 4 + bool(many), hint)
        count = e.read(size, "b32")
        places = full_address(e, to, "shared"), full_address(e, origin, "global", count)
        ctas = (cta_mask(e, mask[0]),) if mask else ()
        operation = "bulk.multicast" if many else "bulk.load"
        wanted = (*places, count, full_address(e, bar, "shared"), *ctas)
        e.effect(operation, wanted, auxiliary=int(own))

    return lower


def cta_mask(e: Emitter, operand: Operand) -> Register:
    """Return the CTA mask of a multicast, 16 bits, as a b32 register."""
    if isinstance(operand, Number):
        return e.constant("b32", integer_constant(operand) & 0xFFFF)
    return e.resize(e.read(operand, "b16"), 32)


def _bulk_send(flags: Flags) -> Lower:
    """Lower .mbarrier::complete_tx::bytes [to], [from], bytes, [bar] between shared memories of a cluster."""
    (mechanism,) = pick_flags(flags, frozenset({"mbarrier::complete_tx::bytes"}))
    if not mechanism:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, origin, size, bar = operands
        places = full_address(e, to, "shared"), full_address(e, origin, "shared")
        e.effect("bulk.send", (*places, e.read(size, "b32"), full_address(e, bar, "shared")))

    return lower


def _bulk_store(flags: Flags) -> Lower:
    """Lower .bulk_group{.L2::cache_hint}{.cp_mask} [to], [from], bytes{, policy}{, mask}."""
    mechanism, hint, masked = pick_flags(flags, frozenset({"bulk_group"}), _HINT, frozenset({"cp_mask"}))
    if not mechanism:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, origin, size, *mask = _drop_cache_policy(e, operands, 3, hint)
        if len(mask) != bool(masked):
            raise UnhandledForm
        count = e.read(size, "b32")
        places = full_address(e, to, "global", count), full_address(e, origin, "shared")
        which = _mask(e, mask[0]) if mask else e.constant("b32", _EVERY_BYTE)
        e.effect("bulk.store", (*places, count, which))

    return lower


def _mask(e: Emitter, operand: Operand) -> Register:
    """Return a 16-bit mask as a b32 register."""
    if isinstance(operand, Number):
        return e.constant("b32", integer_constant(operand) & _EVERY_BYTE)
    return e.resize(e.read(operand, "b16"), 32)


def _bulk_prefetch(flags: Flags) -> Lower:
    """Lower cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [from], bytes{, policy}."""
    level, space, hint = pick_flags(flags, frozenset({"L2"}), frozenset({"global"}), _HINT)
    if not (level and space):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        origin, size = _drop_cache_policy(e, operands, 2, hint)
        base, offset, _ = lower_address(e, origin, "global")
        e.effect("bulk.prefetch", (base, e.read(size, "b32")), immediate=offset)

    return lower


_WHATS = frozenset(what for what, _ in BULK_REDUCTIONS)
_NOT_FLUSHED = {("add", "f16"), ("add", "bf16")}
"""reductions that require the modifier `.noftz`"""


def _reduction(form: Form) -> Lower:
    """Lower cp.reduce.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}.what{.noftz}.type [to], [from],
    bytes."""
    spaces, others = _spaces(form.flags[2:])
    if spaces == _BETWEEN:
        return _reduction_between(form, others)
    mechanism, hint, what, noftz = pick_flags(others, frozenset({"bulk_group"}), _HINT, _WHATS, frozenset({"noftz"}))
    combined = what, form.type
    if spaces != _STORE or not mechanism or combined == ("add", "s64") or combined not in BULK_REDUCTIONS:
        raise UnhandledForm
    if (combined in _NOT_FLUSHED) != bool(noftz):
        raise UnhandledForm
    number = BULK_REDUCTIONS.index(combined)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, origin, size = _drop_cache_policy(e, operands, 3, hint)
        count = e.read(size, "b32")
        places = full_address(e, to, "global", count), full_address(e, origin, "shared")
        e.effect("bulk.reduce", (*places, count), auxiliary=number)

    return lower


_BETWEEN_CTAS = frozenset(
    {
        *(("add", type_) for type_ in ("u32", "s32", "u64")),
        *((what, type_) for what in ("min", "max") for type_ in ("u32", "s32")),
        *((what, "u32") for what in ("inc", "dec")),
        *((what, "b32") for what in ("and", "or", "xor")),
    }
)
"""reductions that are valid in the shared memory of another CTA"""


def _reduction_between(form: Form, flags: Flags) -> Lower:
    """Lower ... .shared::cluster.shared::cta.mbarrier::complete_tx::bytes.what.type [to], [from], bytes, [bar]."""
    mechanism, what = pick_flags(flags, frozenset({"mbarrier::complete_tx::bytes"}), _WHATS)
    if not mechanism or (what, form.type) not in _BETWEEN_CTAS:
        raise UnhandledForm
    number = BULK_REDUCTIONS.index((what, form.type))

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, origin, size, bar = operands
        places = full_address(e, to, "shared"), full_address(e, origin, "shared")
        whole = (*places, e.read(size, "b32"), full_address(e, bar, "shared"))
        e.effect("bulk.send_reduce", whole, auxiliary=number)

    return lower


# -- dispatch --------------------------------------------------------------------------------------------------------
_CHOICES: dict[Flags, Callable[[Flags], Lower]] = {
    ("async", "bulk", "commit_group"): _commit("bulk.commit"),
    ("async", "bulk", "wait_group"): _wait_group("bulk.wait", frozenset({"read"})),
    ("async", "bulk", "prefetch", "tensor"): lower_tensor_prefetch,
    ("async", "bulk", "prefetch"): _bulk_prefetch,
    ("async", "bulk", "tensor"): lower_tensor_load,
    ("async", "bulk"): _bulk,
    ("async", "commit_group"): _commit("cp.async.commit"),
    ("async", "wait_group"): _wait_group("cp.async.wait", frozenset()),
    ("async", "wait_all"): _wait_all,
    ("async",): _copy,
}
"""first modifiers -> function that selects the lowering by the other modifiers; longer keys come first"""


def copy_form(form: Form) -> Lower:
    flags = form.flags
    if form.rounding:
        raise UnhandledForm
    if flags[:4] == ("reduce", "async", "bulk", "tensor") and not form.types:
        return lower_tensor_reduce(flags[4:])
    if flags[:3] == ("reduce", "async", "bulk"):
        return _reduction(form._replace(flags=flags[1:]))
    if flags[:3] == ("async", "mbarrier", "arrive") and form.types == ("b64",):
        return copies_arrive(flags[3:])
    if form.types:
        raise UnhandledForm
    start = next((start for start in _CHOICES if flags[: len(start)] == start), None)
    if start is None:
        raise UnhandledForm
    return _CHOICES[start](flags[len(start) :])


HANDLERS: dict[str, Handler] = {"cp": lower_by_form(copy_form)}
