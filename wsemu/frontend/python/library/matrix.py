"""The matrix instructions of `wsemu.ptx` in kernels: fragments are tuples of registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import arrays
from wsemu.frontend.python.library.calls import NOTHING, array, integer, means, result, scalar
from wsemu.frontend.python.scalars import describe, register, scalar_cast
from wsemu.frontend.python.values import Scalar, TupleValue, Value
from wsemu.language import matrix_names as names
from wsemu.language import numbers
from wsemu.language.numbers import NumberType, uint32
from wsemu.language.promotion import number_type
from wsemu.model.matrix import SATURATES, Mma, move_counts

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction

_ALL = 0xFFFFFFFF
_ROW_BYTES = 16


def fragment_registers(
    call: Any, function: KernelFunction, value: Value, count: int, type_: NumberType, what: str
) -> list[int]:
    """Return the registers of a fragment, which is a tuple or one number."""
    items = value.items if isinstance(value, TupleValue) else (value,)
    if len(items) != count:
        given = f"a tuple of {len(items)}" if isinstance(value, TupleValue) else describe(value)
        raise call.error(
            f"`{what}` of `{function.name}` is {given}", f"give a tuple of {count} {type_}: the lane's registers"
        )
    numbers_ = [scalar(call, item, f"`{what}` of `{function.name}`") for item in items]
    if any((x.type.kind == "f") != (type_.kind == "f") for x in numbers_):
        kinds = ", ".join(dict.fromkeys(x.type.name for x in numbers_))
        raise call.error(f"`{what}` of `{function.name}` has {kinds}", f"give {type_}")
    return [register(call.b, scalar_cast(call.b, x, type_)) for x in numbers_]


def _members(call: Any) -> int:
    members: int = call.b.constant("b32", _ALL)
    return members


def _enter_multiplication(name: str, shape: Mma, clamped: bool) -> None:
    function = names.FUNCTIONS[name]
    operand = getattr(numbers, names.operand_type(shape))
    sums = getattr(numbers, names.REGISTER[shape.c])
    of_d, of_a, of_b, of_c = shape.counts

    @means(function)
    def multiply(call: Any, a: Value, b: Value, c: Value) -> Value:
        registers = [
            *fragment_registers(call, function, a, of_a, operand, "a"),
            *fragment_registers(call, function, b, of_b, operand, "b"),
            *fragment_registers(call, function, c, of_c, sums, "c"),
        ]
        made = call.b.effect(
            shape.name, (*registers, _members(call)), results=(sums.register,) * of_d, auxiliary=SATURATES * clamped
        )
        return TupleValue(tuple(result(sums, r) for r in made))


def _row(call: Any, function: KernelFunction, ary: Value, index: Value) -> Any:
    """Return (array, address, offset) of 8 elements of 16 bits in shared memory."""
    target = array(call, ary, f"`{function.name}`")
    type_ = number_type(target.dtype)
    if target.space != "shared" or type_ is None or type_.bits != 16:
        raise call.error(
            f"`{function.name}` on `{target.name}` of {target.dtype} in {target.space} memory",
            "give a shared array of 16-bit elements: `cuda.shared.array(shape, np.float16)`",
        )
    indices = list(index.items) if isinstance(index, TupleValue) else [index]
    if len(indices) != target.ndim:
        raise call.error(
            f"`{function.name}`: array `{target.name}` has {target.ndim} dimensions, the index {len(indices)}",
            "give one index for each dimension, as a tuple",
        )
    for item in indices:
        integer(call, item, f"the index of `{function.name}`")
    return target, *arrays.element_address(call.b, target, indices)


def _row_address_guard(call: Any, n: int) -> int:
    """Return the predicate of the lanes that supply the address of a row; 0: all lanes do."""
    if n == 4:
        return 0
    some: int = call.b.emit("setp.lt.u32", call.b.special("laneid"), call.b.constant("b32", 8 * n))
    return some


def _under_guard(call: Any, guard: int) -> None:
    """Restrict the last instruction to the lanes of a predicate."""
    call.b.block.instructions[-1].guard = guard


def _enter_load(name: str, n: int, trans: bool) -> None:
    function = names.FUNCTIONS[name]

    @means(function)
    def load(call: Any, ary: Value, index: Value) -> Value:
        target, address, offset = _row(call, function, ary, index)
        guard = _row_address_guard(call, n)
        rows = call.b.effect(
            "ld.v4.b32", (address,), results=("b32",) * 4, immediate=offset, array=target.name, element="uint16"
        )
        _under_guard(call, guard)
        made = call.b.effect(
            f"spread.x{n}{'.trans' * trans}", (*rows, _members(call)), results=("b32",) * n
        )  # fmt: skip
        return TupleValue(tuple(Scalar(uint32, r) for r in made))


def _enter_store(name: str, n: int, trans: bool) -> None:
    function = names.FUNCTIONS[name]
    operation = f"collect.x{n}{'.trans' * trans}"

    @means(function)
    def store(call: Any, ary: Value, index: Value, values: Value) -> Value:
        target, address, offset = _row(call, function, ary, index)
        registers = fragment_registers(call, function, values, n, uint32, "values")
        rows = call.b.effect(operation, (*registers, _members(call)), results=("b32",) * move_counts(operation)[0])
        guard = _row_address_guard(call, n)
        call.b.effect("st.v4.b32", (address, *rows), immediate=offset, array=target.name, element="uint16")
        _under_guard(call, guard)
        return NOTHING


@means(names.FUNCTIONS["movmatrix_trans"])
def move_matrix(call: Any, a: Value) -> Value:
    function = names.FUNCTIONS["movmatrix_trans"]
    (fragment,) = fragment_registers(call, function, a, 1, uint32, "a")
    (made,) = call.b.effect("turn", (fragment, _members(call)), results=("b32",))
    return result(uint32, made)


for _name, (_shape, _clamped, _) in names.MULTIPLICATIONS.items():
    _enter_multiplication(_name, _shape, _clamped)
for _name, (_n, _trans) in names.MOVES.items():
    _enter_load(_name, _n, _trans)
for _name, (_n, _trans) in names.STORES.items():
    _enter_store(_name, _n, _trans)
