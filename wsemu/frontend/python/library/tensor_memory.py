"""The instructions of `wsemu.ptx` on tensor memory in kernels: addresses are uint32, descriptors uint64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.library.asynchronous import (
    REMEDIES,
    element_place,
    integer_register,
    placed_array,
)
from wsemu.frontend.python.library.calls import NOTHING, integer, known_integer, means, result
from wsemu.frontend.python.library.matrix import fragment_registers
from wsemu.frontend.python.scalars import register, scalar_cast, truth
from wsemu.frontend.python.values import Scalar, TupleValue, Value
from wsemu.language import tensor_names as names
from wsemu.language.numbers import NumberType, uint32, uint64
from wsemu.model.tensor_memory import KINDS, OF_STORES, REPEAT_SHIFT, SHAPES, TENSOR_A

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction

_NAMES = names.FUNCTIONS
_SHAPE = SHAPES.index("32x32b")


def _number(call: Any, function: KernelFunction, what: str, x: Value, type_: NumberType = uint32) -> int:
    """Return the register of an integer operand."""
    return register(call.b, integer(call, x, f"`{what}` of `{function.name}`", type_))


# -- allocation, waits, fences -----------------------------------------------------------------------------------------
@means(_NAMES["tcgen05_alloc"])
def allocate(call: Any, words: Value, index: Value, columns: Value) -> Value:
    function = _NAMES["tcgen05_alloc"]
    remedy = "make it with `cuda.shared.array(1, np.uint32)`"
    place = element_place(call, function, words, index, "shared", remedy)
    if str(place.array.dtype) not in ("uint32", "int32"):
        raise call.error(f"`{function.name}` on array `{place.array.name}` of {place.array.dtype}", remedy)
    wanted = integer_register(call, function, "columns", columns, names.COLUMNS["columns"])
    operands = place.address(call), wanted
    call.b.effect("tcgen05.alloc", operands, array=place.array.name, element=str(place.array.dtype))
    return NOTHING


@means(_NAMES["tcgen05_dealloc"])
def release(call: Any, address: Value, columns: Value) -> Value:
    function = _NAMES["tcgen05_dealloc"]
    at = _number(call, function, "address", address)
    call.b.effect(
        "tcgen05.dealloc",
        (at, integer_register(call, function, "columns", columns, names.COLUMNS["columns"])),
    )
    return NOTHING


def _enter_plain(name: str, operation: str, auxiliary: int = 0) -> None:
    @means(_NAMES[name])
    def plain(call: Any) -> Value:
        call.b.effect(operation, auxiliary=auxiliary)
        return NOTHING


_enter_plain("tcgen05_relinquish_alloc_permit", "tcgen05.relinquish")
_enter_plain("tcgen05_wait_ld", "tcgen05.wait")
_enter_plain("tcgen05_wait_st", "tcgen05.wait", OF_STORES)
_enter_plain("tcgen05_fence_before_thread_sync", "tcgen05.fence")
_enter_plain("tcgen05_fence_after_thread_sync", "tcgen05.fence", OF_STORES)


# -- loads and stores --------------------------------------------------------------------------------------------------
def _enter_moves(repeat: str, count: int) -> None:
    auxiliary = _SHAPE | (count.bit_length() - 1) << REPEAT_SHIFT
    of_load, of_store = _NAMES[f"tcgen05_ld_32x32b_{repeat}"], _NAMES[f"tcgen05_st_32x32b_{repeat}"]

    @means(of_load)
    def load(call: Any, address: Value) -> Value:
        at = _number(call, of_load, "address", address)
        made = call.b.effect("tcgen05.ld", (at,), results=("b32",) * count, auxiliary=auxiliary)
        return TupleValue(tuple(Scalar(uint32, r) for r in made))

    @means(of_store)
    def store(call: Any, address: Value, values: Value) -> Value:
        at = _number(call, of_store, "address", address)
        registers = fragment_registers(call, of_store, values, count, uint32, "values")
        call.b.effect("tcgen05.st", (at, *registers), auxiliary=auxiliary)
        return NOTHING


for _repeat, _count in names.MOVES.items():
    _enter_moves(_repeat, _count)


# -- products ----------------------------------------------------------------------------------------------------------
@means(_NAMES["matrix_descriptor"])
def describe_matrix(
    call: Any, ary: Value, offset: Value, leading: Value, stride: Value, swizzle: Value | None = None
) -> Value:
    function = _NAMES["matrix_descriptor"]
    target = placed_array(call, function, ary, "shared", REMEDIES["shared"])
    width = 0 if swizzle is None else known_integer(call, swizzle, f"the swizzle of `{function.name}`")
    if width not in names.SWIZZLES:
        raise call.error(f"the swizzle of `{function.name}` is {width}", "give 0, 32, 64 or 128")
    distance = integer_register(call, function, "offset", offset, names.DISTANCES)
    address = call.b.emit("add.b64", target.address, call.b.emit("cvt.b64.u32", distance))
    found = call.b.constant("b64", names.VERSION | names.SWIZZLES[width] << 61)
    parts = [(address, names.ADDRESS_SHIFT)]
    for what, x, shift in (("leading", leading, names.LEADING_SHIFT), ("stride", stride, names.STRIDE_SHIFT)):
        number = integer_register(call, function, what, x, names.DISTANCES)
        parts.append((call.b.emit("cvt.b64.u32", number), shift))
    for part, shift in parts:
        bits = call.b.emit("and.b64", part, call.b.constant("b64", names.DISTANCES[-1]))
        moved = "shl.b64" if shift > 0 else "shr.u64"
        found = call.b.emit("or.b64", found, call.b.emit(moved, bits, call.b.constant("b64", abs(shift))))
    return result(uint64, found)


def _enter_product(kind: str, suffix: str, auxiliary: int) -> None:
    function = _NAMES[f"tcgen05_mma_{kind}{suffix}"]

    @means(function)
    def multiply(call: Any, d: Value, a: Value, b: Value, idesc: Value, add: Value) -> Value:
        if auxiliary & TENSOR_A:
            of_a = register(call.b, scalar_cast(call.b, integer(call, a, f"`a` of `{function.name}`", uint32), uint64))
        else:
            of_a = _number(call, function, "a", a, uint64)
        call.b.effect(
            "tcgen05.mma",
            (of_a, _number(call, function, "b", b, uint64), _number(call, function, "idesc", idesc),
             register(call.b, truth(call.b, add)), _number(call, function, "d", d)),
            auxiliary=auxiliary,
        )  # fmt: skip
        return NOTHING


for _kind in names.KINDS:
    _enter_product(_kind, "", KINDS.index(_kind))
    _enter_product(_kind, "_tmem", KINDS.index(_kind) | TENSOR_A)
