"""The matrix instructions of `wsemu.ptx` for Numba-CUDA: each name is one instruction, fragments are its registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors

from wsemu.backends.intrinsics import I8, I32, VOID, element_pointer, emit, intrinsic
from wsemu.language import matrix_names as names

_SHARED = 3
_CONSTRAINT = {"uint32": "r", "int32": "r", "float32": "f", "float64": "d"}


def make(name: str) -> Any:
    """Return the intrinsic with a name."""
    if name in names.MULTIPLICATIONS:
        return _multiplication(name)
    if name in names.MOVES:
        return _load(name)
    return _store(name) if name in names.STORES else _transpose()


def check_fragment(name: str, kind: Any, count: int, wanted: str) -> None:
    items = tuple(kind) if isinstance(kind, types.BaseTuple) else (kind,)
    floats = wanted.startswith("float")
    if len(items) != count or not all(isinstance(k, types.Float if floats else types.Integer) for k in items):
        raise errors.TypingError(f"ptx.{name}: {kind}: give a tuple of {count} {wanted}")


def fragment_values(context: Any, builder: Any, value: Any, kind: Any, wanted: str) -> list[Any]:
    items = cgutils.unpack_tuple(builder, value) if isinstance(kind, types.BaseTuple) else [value]
    kinds = tuple(kind) if isinstance(kind, types.BaseTuple) else (kind,)
    to = getattr(types, wanted)
    return [context.cast(builder, item, types.unliteral(k), to) for item, k in zip(items, kinds, strict=True)]


def list_operands(first: int, count: int) -> str:
    return "{" + ", ".join(f"${first + n}" for n in range(count)) + "}"


def emit_tuple(context: Any, builder: Any, text: str, constraints: list[str], results: Any, operands: list[Any]) -> Any:
    """Emit an instruction with several results, and return them as a tuple of Numba's."""
    kind = context.get_value_type(results.dtype)
    count = results.count
    returns = kind if count == 1 else ir.LiteralStructType([kind] * count)
    made = emit(builder, text, constraints, returns, operands)
    parts = [made] if count == 1 else [builder.extract_value(made, n) for n in range(count)]
    return context.make_tuple(builder, results, parts)


def _multiplication(name: str) -> Any:
    shape, _, text = names.MULTIPLICATIONS[name]
    of_d, of_a, of_b, of_c = shape.counts
    wanted = (names.operand_type(shape), names.operand_type(shape), names.REGISTER[shape.c])
    results = types.UniTuple(getattr(types, wanted[2]), of_d)
    counts = (of_a, of_b, of_c)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        operands, constraints = [], [f"={_CONSTRAINT[wanted[2]]}"] * of_d
        lists, first = [list_operands(0, of_d)], of_d
        for value, kind, count, to in zip(args, signature.args, counts, wanted, strict=True):
            operands += fragment_values(context, builder, value, kind, to)
            constraints += [_CONSTRAINT[to]] * count
            lists.append(list_operands(first, count))
            first += count
        return emit_tuple(context, builder, f"{text} {', '.join(lists)};", constraints, results, operands)

    def mma(typingctx, a, b, c):  # type: ignore[no-untyped-def]
        for kind, count, to in zip((a, b, c), counts, wanted, strict=True):
            check_fragment(name, kind, count, to)
        return results(a, b, c), codegen

    return intrinsic(mma)


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return the 32-bit address of a row in shared memory."""
    pointer = element_pointer(context, builder, signature.args[0], args[0], signature.args[1], args[1])
    return builder.ptrtoint(builder.addrspacecast(pointer, ir.PointerType(I8, _SHARED)), I32)


def _check_array(name: str, kind: Any, index: Any) -> None:
    if not isinstance(kind, types.Array) or not isinstance(kind.dtype, types.Number) or kind.dtype.bitwidth != 16:
        raise errors.TypingError(f"ptx.{name}: {kind}: give a shared array of 16-bit elements")
    count = len(index) if isinstance(index, types.BaseTuple) else 1
    if count != kind.ndim:
        raise errors.TypingError(f"ptx.{name}: {kind.ndim} dimensions and {count} indices: give one for each")


def _load(name: str) -> Any:
    n, trans = names.MOVES[name]
    results = types.UniTuple(types.uint32, n)
    text = f"ldmatrix.sync.aligned.m8n8.x{n}{'.trans' * trans}.shared.b16 {list_operands(0, n)}, [${n}];"

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature, args)
        return emit_tuple(context, builder, text, [*["=r"] * n, "r"], results, [address])

    def ldmatrix(typingctx, array, index):  # type: ignore[no-untyped-def]
        _check_array(name, array, index)
        return results(array, types.unliteral(index)), codegen

    return intrinsic(ldmatrix)


def _store(name: str) -> Any:
    n, trans = names.STORES[name]
    text = f"stmatrix.sync.aligned.m8n8.x{n}{'.trans' * trans}.shared.b16 [$0], {list_operands(1, n)};"

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = fragment_values(context, builder, args[2], signature.args[2], "uint32")
        emit(builder, text, ["r"] * (n + 1), VOID, [_address(context, builder, signature, args), *values])
        return context.get_dummy_value()

    def stmatrix(typingctx, array, index, values):  # type: ignore[no-untyped-def]
        _check_array(name, array, index)
        check_fragment(name, values, n, "uint32")
        return types.void(array, types.unliteral(index), types.unliteral(values)), codegen

    return intrinsic(stmatrix)


def _transpose() -> Any:
    text = "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = fragment_values(context, builder, args[0], signature.args[0], "uint32")
        return emit(builder, text, ["=r", "r"], I32, values)

    def movmatrix_trans(typingctx, a):  # type: ignore[no-untyped-def]
        check_fragment("movmatrix_trans", a, 1, "uint32")
        return types.uint32(types.unliteral(a)), codegen

    return intrinsic(movmatrix_trans)
