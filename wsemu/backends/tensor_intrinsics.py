"""Loads and stores of tensor memory, and descriptors of matrices, for Numba-CUDA; `async_intrinsics` has the others."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import errors

from wsemu.backends.intrinsics import I8, I32, I64, VOID, data_pointer, emit, intrinsic, is_none, literal
from wsemu.backends.matrix_intrinsics import check_fragment, emit_tuple, fragment_values, list_operands
from wsemu.language import tensor_names as names
from wsemu.language.async_names import operand_range_text, operand_text
from wsemu.model.errors import UsageError

_SHARED = 3


def make(name: str) -> Any:
    """Return the intrinsic with a name."""
    if name == "matrix_descriptor":
        return _descriptor()
    repeat = name.rpartition("_")[2]
    return _load(name, repeat) if "_ld_" in name else _store(name, repeat)


def _check_integer(name: str, parameter: str, kind: Any) -> None:
    if not isinstance(kind, types.Integer):
        raise errors.TypingError(f"{operand_text(name, parameter)} is {kind}: give an integer")


def _load(name: str, repeat: str) -> Any:
    count = names.MOVES[repeat]
    results = types.UniTuple(types.uint32, count)
    text = f"tcgen05.ld.sync.aligned.32x32b.{repeat}.b32 {list_operands(0, count)}, [${count}];"

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = context.cast(builder, args[0], signature.args[0], types.uint32)
        return emit_tuple(context, builder, text, [*["=r"] * count, "r"], results, [address])

    def load(typingctx, address):  # type: ignore[no-untyped-def]
        _check_integer(name, "address", address)
        return results(types.unliteral(address)), codegen

    return intrinsic(load)


def _store(name: str, repeat: str) -> Any:
    count = names.MOVES[repeat]
    text = f"tcgen05.st.sync.aligned.32x32b.{repeat}.b32 [$0], {list_operands(1, count)};"

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = context.cast(builder, args[0], signature.args[0], types.uint32)
        values = fragment_values(context, builder, args[1], signature.args[1], "uint32")
        emit(builder, text, ["r"] * (count + 1), VOID, [address, *values])
        return context.get_dummy_value()

    def store(typingctx, address, values):  # type: ignore[no-untyped-def]
        _check_integer(name, "address", address)
        check_fragment(name, values, count, "uint32")
        return types.void(types.unliteral(address), types.unliteral(values)), codegen

    return intrinsic(store)


def _descriptor() -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = data_pointer(context, builder, signature.args[0], args[0])
        inside = builder.ptrtoint(builder.addrspacecast(pointer, ir.PointerType(I8, _SHARED)), I32)
        offset, leading, stride = (
            context.cast(builder, args[n], types.unliteral(signature.args[n]), types.uint64) for n in (1, 2, 3)
        )
        width = 0 if is_none(signature.args[4]) else literal(signature.args[4])
        found = I64(names.VERSION | names.SWIZZLES[width] << 61)
        address = builder.add(builder.zext(inside, I64), offset)
        parts = (address, names.ADDRESS_SHIFT), (leading, names.LEADING_SHIFT), (stride, names.STRIDE_SHIFT)
        for part, shift in parts:
            bits = builder.and_(part, I64(names.DISTANCES[-1]))
            moved = builder.shl if shift > 0 else builder.lshr
            found = builder.or_(found, moved(bits, I64(abs(shift))))
        return found

    def matrix_descriptor(typingctx, array, offset, leading, stride, swizzle=None):  # type: ignore[no-untyped-def]
        swizzle = types.none if swizzle is None else swizzle
        if not isinstance(array, types.Array):
            raise errors.TypingError(f"ptx.matrix_descriptor: {array}: give a shared array")
        for parameter, kind in (("offset", offset), ("leading", leading), ("stride", stride)):
            _check_integer("matrix_descriptor", parameter, kind)
            value = literal(kind)
            if value is not None and value not in names.DISTANCES:
                what = operand_text("matrix_descriptor", parameter)
                raise UsageError(f"{what} is {value}: {operand_range_text(names.DISTANCES)}")
        if not is_none(swizzle) and literal(swizzle) not in names.SWIZZLES:
            raise errors.TypingError(f"ptx.matrix_descriptor: a swizzle of {swizzle}: give 0, 32, 64 or 128")
        return types.uint64(array, offset, leading, stride, swizzle), codegen

    return intrinsic(matrix_descriptor)
