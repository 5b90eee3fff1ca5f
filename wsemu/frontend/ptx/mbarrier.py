"""Mbarriers, and operations that arrive at them or wait for them (PTX ISA 9.7.13.15): `mbarrier`,
`cp.async.mbarrier.arrive`.

With `.shared::cluster`, an address may name an mbarrier of another CTA.  The scope `.cta` applies only if it is
written: a missing scope counts as wide enough, because compilers and libraries rely on that.  The assembler determines
which loops of waits block, from the code as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, lower_by_form, pick_flags
from wsemu.frontend.ptx.memory import lower_address
from wsemu.frontend.ptx.syntax import Address, Name, Sink
from wsemu.model.data import NamedTuple
from wsemu.model.isa import DROP, EXPECT, NARROW, NO_COMPLETE, NOINC, RELAXED, REMOTE, TRY, UNSCOPED, WAIT_RELAXED

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand

OWN = frozenset({"shared", "shared::cta"})
"""spaces of the CTA's own memory"""
ANY = OWN | {"shared::cluster"}
_FAR = ("", "shared::cluster")
"""state spaces in which an mbarrier may belong to another CTA; "": the address is generic"""
SCOPES = frozenset({"cta", "cluster"})
_ELEMENT = "uint64"
"""declared type of an mbarrier"""
Flags = tuple[str, ...]


class _Place(NamedTuple):
    """The address of an mbarrier, as an operand of the bytecode."""

    base: Register
    offset: int
    array: str | None


def _place(e: Emitter, operand: Operand, space: str) -> _Place:
    return _Place(*lower_address(e, operand, "shared" if space else ""))


def _effect(
    e: Emitter, operation: str, place: _Place, *values: Register, results: tuple[Register, ...] = (), aux: int = 0
) -> None:
    e.effect_into(operation, (place.base, *values), results, place.offset, aux, place.array, _ELEMENT)


def _parse_memory_order(flags: Flags, what: frozenset[str], orders: frozenset[str], spaces: frozenset[str]) -> Flags:
    """Return (operation, order, scope, space) of an operation; order and scope are either both present or both
    missing."""
    extra, order, scope, space = pick_flags(flags, what, orders, SCOPES, spaces)
    if bool(order) != bool(scope):
        raise UnhandledForm
    return extra, order, scope, space


# -- life ------------------------------------------------------------------------------------------------------------
def _init(flags: Flags) -> Lower:
    """Lower mbarrier.init{.shared}.b64 [bar], count."""
    (space,) = pick_flags(flags, OWN)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        address, count = operands
        _effect(e, "mbarrier.init", _place(e, address, space), e.read(count, "b32"))

    return lower


def _inval(flags: Flags) -> Lower:
    """Lower mbarrier.inval{.shared}.b64 [bar]."""
    (space,) = pick_flags(flags, OWN)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        (address,) = operands
        _effect(e, "mbarrier.inval", _place(e, address, space))

    return lower


# -- arrivals and bytes ----------------------------------------------------------------------------------------------
_RELEASES = frozenset({"release", "relaxed"})
_ARRIVALS = {"": 0, "expect_tx": EXPECT, "noComplete": NO_COMPLETE}


def _arrive(drop: int) -> Callable[[Flags], Lower]:
    """Lower mbarrier.arrive{_drop}{.expect_tx,.noComplete}{.sem.scope}{.space}.b64 state, [bar]{, count}."""

    def choose(flags: Flags) -> Lower:
        extra, order, scope, space = _parse_memory_order(flags, frozenset(_ARRIVALS), _RELEASES, ANY)
        if extra == "noComplete" and (order == "relaxed" or scope == "cluster" or space == "shared::cluster"):
            raise UnhandledForm
        aux = _ARRIVALS[extra] | drop | RELAXED * (order == "relaxed") | NARROW * (scope == "cta")

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            state, address, *number = operands
            if len(number) > 1 or (extra and not number):
                raise UnhandledForm
            if space == "shared::cluster" and type(state) is not Sink:
                raise UnhandledForm
            place = _place(e, address, space)
            given = e.read(number[0], "b32") if number else e.constant("b32", 1)
            count, size = (e.constant("b32", 1), given) if extra == "expect_tx" else (given, e.constant("b32", 0))
            token = e.target(state, "b64")
            far = (REMOTE | UNSCOPED * (not scope)) * (type(state) is Sink and space in _FAR)
            _effect(e, "mbarrier.arrive", place, count, size, results=(token,), aux=aux | far)
            e.write_register(state, token)

        return lower

    return choose


def _bytes(operation: str) -> Callable[[Flags], Lower]:
    """Lower mbarrier.expect_tx and mbarrier.complete_tx{.relaxed.scope}{.space}.b64 [bar], bytes."""

    def choose(flags: Flags) -> Lower:
        *_, space = _parse_memory_order(flags, frozenset(), frozenset({"relaxed"}), ANY)

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            address, size = operands
            _effect(e, operation, _place(e, address, space), e.read(size, "b32"), aux=REMOTE * (space in _FAR))

        return lower

    return choose


def copies_arrive(flags: Flags) -> Lower:
    """Lower cp.async.mbarrier.arrive{.noinc}{.shared}.b64 [bar]; a 32-bit register is an address in shared memory even
    without a state space, as ptxas accepts it and the headers of CUDA use it."""
    noinc, space = pick_flags(flags, frozenset({"noinc"}), OWN)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        (address,) = operands
        where = space or ("shared" if _is_short(e, address) else "")
        _effect(e, "cp.async.arrive", _place(e, address, where), aux=NOINC * bool(noinc))

    return lower


def _is_short(e: Emitter, operand: Operand) -> bool:
    """Return whether an address is in a 32-bit register."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Name):
        return False
    found = e.lookup(operand.base)
    return isinstance(found, int) and e.bits(found) == 32


# -- waits -----------------------------------------------------------------------------------------------------------
def _wait(tries: int) -> Callable[[Flags], Lower]:
    """Lower mbarrier.{test,try}_wait{.parity}{.sem.scope}{.shared}.b64 done, [bar], phase{, time}; programs must not
    depend on the duration of a try."""

    def choose(flags: Flags) -> Lower:
        parity, order, scope, space = _parse_memory_order(
            flags, frozenset({"parity"}), frozenset({"acquire", "relaxed"}), OWN
        )
        operation, type_ = ("mbarrier.wait.parity", "b32") if parity else ("mbarrier.wait", "b64")
        aux = tries | WAIT_RELAXED * (order == "relaxed") | NARROW * (scope == "cta")

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            done, address, phase, *time = operands
            if len(time) > bool(tries) or type(done) is Sink:
                raise UnhandledForm
            for operand in time:
                e.read(operand, "b32")
            place, value = _place(e, address, space), e.read(phase, type_)
            result = e.target(done, "p")
            _effect(e, operation, place, value, results=(result,), aux=aux)
            e.write_register(done, result)

        return lower

    return choose


def _pending(flags: Flags) -> Lower:
    """Lower mbarrier.pending_count.b64 count, state."""
    pick_flags(flags)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        count, state = operands
        result = e.target(count, "b32")
        e.effect_into("mbarrier.pending_count", (e.read(state, "b64"),), (result,))
        e.write_register(count, result)

    return lower


_CHOICES: dict[str, Callable[[Flags], Lower]] = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive(0),
    "arrive_drop": _arrive(DROP),
    "expect_tx": _bytes("mbarrier.expect_tx"),
    "complete_tx": _bytes("mbarrier.complete_tx"),
    "test_wait": _wait(0),
    "try_wait": _wait(TRY),
    "pending_count": _pending,
}


def mbarrier_form(form: Form) -> Lower:
    if form.type != "b64" or form.rounding:
        raise UnhandledForm
    what, *flags = form.flags
    return _CHOICES[what](tuple(flags))


HANDLERS: dict[str, Handler] = {"mbarrier": lower_by_form(mbarrier_form)}
