"""Accesses to all replicas of a multicast address: multimem.ld_reduce, multimem.st and multimem.red (PTX ISA 9.7.9.14).

Each instruction accesses the same offset of each replica (`model/multicast.py`): a load, a store or an atomic with the
order and the scope of the instruction.  Elements of a vector are separate accesses.  `ld_reduce` combines the values in
the order of the replicas.

An argument's replicas are parameters that the kernel does not declare.  If an address is computed from one argument and
numbers, its replicas are those of this argument, and reports name them; otherwise they are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from wsemu.frontend.ptx.atomics import atomic_operation, atomic_type
from wsemu.frontend.ptx.forms import UnhandledForm, pick_flags
from wsemu.frontend.ptx.memory import (
    LENGTHS,
    SCOPES,
    Strong,
    element_name,
    emit_misaligned_test,
    fence_of_instruction,
    full_address,
    load_parts,
    refuse_where,
    spelling,
    store_parts,
    strong_bits,
    undefined_where,
)
from wsemu.frontend.ptx.provenance import propagate_provenance
from wsemu.frontend.ptx.sizes import TYPE_BYTES
from wsemu.frontend.ptx.syntax import Sink
from wsemu.model.data import NamedTuple, replace
from wsemu.model.isa import (
    ACQUIRES,
    AS_LOAD,
    AS_STORE,
    NO_STORE,
    OPERATIONS,
    RELEASES,
    SEGMENT_SHIFT,
)
from wsemu.model.program import Parameter

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Instruction as Code
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction
    from wsemu.model.multicast import Replicated

_INTEGERS = frozenset("b32 u32 s32 b64 u64 s64".split())
_FLOATS = frozenset("f16 f16x2 bf16 bf16x2 f32 f64".split())
_TYPES = _INTEGERS | _FLOATS
_ORDERS = {
    "ld_reduce": frozenset({"weak", "relaxed", "acquire"}),
    "st": frozenset({"weak", "relaxed", "release"}),
    "red": frozenset({"relaxed", "release"}),
}
_REDUCTIONS = frozenset({"min", "max", "add", "and", "or", "xor"})
_VECTORS = frozenset(LENGTHS)
_VECTOR_BYTES = (4, 8, 16)
_PAIR = 2
"""maximum number of replicas whose sum does not depend on the precision"""


Multicasts: TypeAlias = "Sequence[Sequence[Replicated]]"
"""the multicast addresses in each argument of a kernel"""


class MulticastArgument(NamedTuple):
    """A multicast address that a launch gets."""

    argument: int
    offset: int
    segment: int
    starts: tuple[Register, ...]
    """rows with the addresses of its replicas"""


class MulticastAccess(NamedTuple):
    """An access of a kernel with several multicast addresses, whose replicas are looked up."""

    address: Register
    segment: Register
    test: Code
    """the test whether an address is outside of the chosen argument; it never holds for a lookup"""
    places: list[tuple[Code, tuple[Register, ...]]]
    """the instructions that look up the address in each replica, with the addresses for all arguments"""


def enter_multicasts(e: Emitter, multicasts: Multicasts) -> None:
    """Enter the multicast addresses of a launch, with a parameter for each replica."""
    for argument, some in enumerate(multicasts):
        for number, one in enumerate(some):
            starts = tuple([e.graph.new("b64") for _ in range(one.size)])
            for n, start in enumerate(starts, one.first):
                e.graph.parameters[start] = Parameter(0, "b64", argument, ("replicas", n), "address", 0)
            segment = one.address(argument, number) >> SEGMENT_SHIFT
            e.multicasts.append(MulticastArgument(argument, one.offset, segment, starts))


def choose_replicas(e: Emitter) -> None:
    """Replace lookups of replicas for addresses that are computed from one argument."""
    if not e.multicast_accesses:
        return
    bits = {(one.argument, one.offset): 1 << n for n, one in enumerate(e.multicasts)}
    known = {
        register: bits[parameter.argument, parameter.axis]
        for register, parameter in e.graph.parameters.items()
        if parameter.part == "bytes" and (parameter.argument, parameter.axis) in bits and parameter.type == "b64"
    }
    held = propagate_provenance(e.graph, known)
    for access in e.multicast_accesses:
        found = held.get(access.address, 0)
        if not found or found & (found - 1):
            continue
        number = found.bit_length() - 1
        access.test.operands = access.segment, e.constant("b64", e.multicasts[number].segment)
        for code, candidates in access.places:
            code.operation, code.operands = "mov.b64", (candidates[number],)


class _Access:
    """One instruction, with the parts that all have."""

    def __init__(self, e: Emitter, instruction: Instruction) -> None:
        self.e, self.instruction = e, instruction
        self.what, *rest = instruction.modifiers or ("",)
        if self.what not in _ORDERS:
            raise UnhandledForm
        self.type = atomic_type(instruction)
        flags = tuple([m for m in rest if m != self.type])
        reductions = _REDUCTIONS if self.what != "st" else frozenset[str]()
        precisions = frozenset({"acc::f32"}) if self.what == "ld_reduce" else frozenset[str]()
        order, scope, _, self.reduction, self.precision, vector = pick_flags(
            flags, _ORDERS[self.what], SCOPES, frozenset({"global"}), reductions, precisions, _VECTORS
        )
        self.order = order or ("relaxed" if self.what == "red" else "weak")
        self.length, self.bytes = LENGTHS.get(vector, 1), TYPE_BYTES.get(self.type, 0)
        fits = self.length == 1 or (self.type in _FLOATS - {"f64"} and self.bytes * self.length in _VECTOR_BYTES)
        if self.type not in _TYPES or not fits or bool(self.reduction) != bool(reductions):
            raise UnhandledForm
        if self.order == "weak" and scope:
            raise UnhandledForm

    @property
    def bits(self) -> int:
        """Return the bits of an element."""
        return 8 * self.bytes

    def places(self, address: Register) -> list[Register]:
        """Return the address in each replica; end the run in lanes with another address."""
        e = self.e
        what = f"`{spelling(self.instruction)}`"
        with e.looking_up():
            segment = e.emit("shr.u64", address, e.constant("b64", SEGMENT_SHIFT))
            others = [e.emit("setp.ne.b64", segment, e.constant("b64", one.segment)) for one in e.multicasts]
            wrong = others[0]
            for other in others[1:]:
                wrong = e.emit("and.pred", wrong, other)
        undefined_where(
            e, wrong, f"{what} at an address without replicas",
            "PTX: the address of `multimem` is a multimem address; otherwise the behavior is undefined",
            "pass the multicast address, in wsemu a `Multicast` of the replicas",
        )  # fmt: skip
        undefined_where(
            e, emit_misaligned_test(e, address, self.bytes * self.length),
            f"{what} at an address that is not a multiple of {self.bytes * self.length}",
            "PTX: the address of an access is a multiple of its size; otherwise the behavior is undefined",
            "align the address",
        )  # fmt: skip
        if len(e.multicasts) == 1:
            return self._compute_places(e.multicasts[0], address)
        found = [self._compute_places(one, address) for one in e.multicasts]
        places, chosen = [], []
        for candidates in zip(*found, strict=True):
            place = candidates[-1]
            for other, candidate in zip(others[-2::-1], candidates[-2::-1], strict=True):
                place = e.emit("selp.b64", place, candidate, other)
            chosen.append((e.code[-1], candidates))
            places.append(place)
        mistaken = e.emit("setp.ne.b64", segment, segment)
        test = e.code[-1]
        refuse_where(e, mistaken, f"{what} at an address of another argument")
        e.multicast_accesses.append(MulticastAccess(address, segment, test, chosen))
        return places

    def _compute_places(self, argument: MulticastArgument, address: Register) -> list[Register]:
        """Return the address in each replica of an argument."""
        e = self.e
        offset = e.emit("sub.b64", address, e.constant("b64", argument.segment << SEGMENT_SHIFT))
        return [e.emit("add.b64", start, offset) for start in argument.starts]

    def release(self) -> None:
        """Emit the fence of the following access, if it releases: each one to a replica does."""
        if self.order == "release":
            fence_of_instruction(self.e, self.instruction, RELEASES)

    def strong_access(self, place: Register, n: int, access: int = 0) -> Strong:
        """Return the properties of a strong access to element `n` of the vector in a replica."""
        how = access | strong_bits(self.e, self.instruction)
        return Strong(place, n * self.bytes, None, element_name(self.type), how)


def _load(access: _Access, places: list[Register], n: int, operation: str) -> Register:
    """Emit the loads of element `n` from all replicas, and return the reduced value."""
    e = access.e
    name = f"b{access.bits}"
    if access.order == "weak":
        element = element_name(access.type)
        loaded = [e.effect(f"ld.{name}", (p,), (name,), n * access.bytes, 0, None, element)[0] for p in places]
    else:
        loaded = []
        for place in places:
            loaded += load_parts(e, access.strong_access(place, n, AS_LOAD | NO_STORE), 1, access.bits)
            if access.order == "acquire":
                fence_of_instruction(e, access.instruction, ACQUIRES)
    result = loaded[0]
    for value in loaded[1:]:
        result = e.emit(operation, result, value)
    return result


def _operation(reduction: str, type_: str) -> str:
    """Return the operation of the bytecode that combines two values."""
    if type_ in _FLOATS:
        if reduction != "add":
            raise UnhandledForm
        return f"add.{type_}"
    if reduction in ("min", "max"):
        if type_[0] == "b":
            raise UnhandledForm
        return f"{reduction}.{type_}"
    return f"{reduction}.b{type_[1:]}"


def _reduce_all(access: _Access) -> None:
    """Lower multimem.ld_reduce."""
    e, (to, address) = access.e, access.instruction.operands
    operation = _operation(access.reduction, access.type)
    if access.precision and (access.type in ("f32", "f64", *_INTEGERS) or len(e.multicasts[0].starts) > _PAIR):
        raise UnhandledForm
    targets = e.elements(to, access.length)
    places = access.places(full_address(e, address, ""))
    values = [_load(access, places, n, operation) for n in range(access.length)]
    for target, value in zip(targets, values, strict=True):
        e.write_register(target, value, "s" if access.type[0] == "s" else "u")


def _store_all(access: _Access) -> None:
    """Lower multimem.st."""
    e, (address, value) = access.e, access.instruction.operands
    name = f"b{access.bits}"
    values = [e.read(item, name) for item in e.elements(value, access.length)]
    places = access.places(full_address(e, address, ""))
    for place in places:
        for n, item in enumerate(values):
            if access.order == "weak":
                e.effect(f"st.{name}", (place, item), (), n * access.bytes, 0, None, element_name(access.type))
            else:
                access.release()
                store_parts(e, access.strong_access(place, n, AS_STORE), (item,))


def _combine_all(access: _Access) -> None:
    """Lower multimem.red."""
    e, (address, value) = access.e, access.instruction.operands
    half = access.type in ("f16", "f16x2", "bf16", "bf16x2")
    single = replace(access.instruction, opcode="red", modifiers=("global", access.reduction, access.type))
    operation = atomic_operation(replace(single, modifiers=(*single.modifiers, "noftz")) if half else single)
    if not operation:
        raise UnhandledForm
    type_ = OPERATIONS[operation].result
    values = [e.read(item, type_) for item in e.elements(value, access.length)]
    places = access.places(full_address(e, address, ""))
    for place in places:
        for n, item in enumerate(values):
            one = access.strong_access(place, n)
            access.release()
            result = e.target(Sink(access.instruction.at), type_)
            e.effect_into(operation, (place, item), (result,), one.offset, one.how, element=one.element)


_LOWER = {"ld_reduce": _reduce_all, "st": _store_all, "red": _combine_all}


def multimem(e: Emitter, instruction: Instruction) -> None:
    """Lower an access to all replicas; a launch without a multicast address has none."""
    if not e.multicasts:
        e.emit_unsupported()
        return
    access = _Access(e, instruction)
    if len(instruction.operands) != 2:
        raise UnhandledForm
    _LOWER[access.what](access)


HANDLERS: dict[str, Handler] = {"multimem": multimem}
