"""Barriers and accesses of `wsemu.ptx` for Numba-CUDA: each an intrinsic that emits its PTX instruction.

An operand that Numba knows as a literal becomes an immediate.  All statements are volatile and clobber memory, like
nvcc's `asm volatile("..." ::: "memory")`: otherwise, the compiler may move loads across a barrier, or delete it.  Plain
vector accesses are LLVM loads and stores, so that the compiler knows their effect on memory.

Only `numba_cuda` and `async_intrinsics` import this module, and only if Numba-CUDA is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import errors
from numba.cuda import cgutils
from numba.cuda.extending import _intrinsic

from wsemu.language import ptx_names as ptx
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
VOID = ir.VoidType()
BARRIERS, WARP = 16, 32
MOST_BYTES = 16
"""maximum bytes of a vector access"""


def intrinsic(function: Callable[..., Any]) -> Any:
    """Return an intrinsic that sees which of its arguments are literals."""
    return _intrinsic(target="cuda", prefer_literal=True)(function)


def emit(builder: Any, text: str, constraints: Sequence[str], returns: Any, operands: Sequence[Any]) -> Any:
    """Emit one inline assembly statement."""
    kind = ir.FunctionType(returns, [operand.type for operand in operands])
    asm = ir.InlineAsm(kind, text, ",".join([*constraints, "~{memory}"]), side_effect=True)
    return builder.call(asm, operands, attrs=("convergent", "nounwind"))


def literal(type_: Any) -> Any:
    """Return the value of a literal type, else None."""
    return type_.literal_value if isinstance(type_, types.Literal) else None


# -- barriers --------------------------------------------------------------------------------------------------------
class Operands:
    """Operands of a barrier: immediates for literals, otherwise registers."""

    def __init__(self, context: Any, builder: Any, first: int) -> None:
        self.context, self.builder = context, builder
        self.first = first
        """the number of the first input, after the results"""
        self.texts: list[str] = []
        self.registers: list[Any] = []

    def add(self, value: Any, type_: Any) -> None:
        known = literal(type_)
        if known is None:
            self.texts.append(f"${self.first + len(self.registers)}")
            self.registers.append(self.context.cast(self.builder, value, type_, types.int32))
        else:
            self.texts.append(str(int(known)))

    def run(self, text: str, results: Sequence[str], returns: Any) -> Any:
        constraints = [*results, *("r" for _ in self.registers)]
        return emit(self.builder, text, constraints, returns, self.registers)


def check_barrier(name: str, barrier: Any, count: Any) -> None:
    """Check literal operands: the hardware ignores a wrong id, and reports an illegal instruction for a wrong count.

    The error is a UsageError, because Numba suppresses its own kind of error and tries again without the literals.
    """
    for what, type_ in (("barrier", barrier), ("count", count)):
        if not isinstance(type_, (types.Integer, types.NoneType, types.Omitted)):
            raise errors.TypingError(f"ptx.{name}: the {what} is {type_}: give an integer")
    number, threads = literal(barrier), literal(count)
    if number is not None and not 0 <= number < BARRIERS:
        raise UsageError(f"ptx.{name}: barrier {number}: give 0 to {BARRIERS - 1}")
    if threads is not None and (threads <= 0 or threads % WARP):
        raise UsageError(f"ptx.{name}: a count of {threads}: give a positive multiple of {WARP}")


def is_none(type_: Any) -> bool:
    """Return whether an argument was omitted."""
    return isinstance(type_, (types.NoneType, types.Omitted))


def wait_or_arrive(name: str) -> Any:
    """Return the intrinsic for `bar_sync`, `barrier_arrive`, ..."""
    prefix, _, kind = name.partition("_")
    instruction = f"{prefix}.{kind}"

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        operands = Operands(context, builder, 0)
        for value, type_ in zip(args, signature.args, strict=True):
            if not is_none(type_):
                operands.add(value, type_)
        operands.run(f"{instruction} {', '.join(operands.texts)};", [], VOID)
        return context.get_dummy_value()

    if kind == "arrive":

        def arrive(typingctx, barrier, count):  # type: ignore[no-untyped-def]
            check_barrier(name, barrier, count)
            return types.void(barrier, count), codegen

        return intrinsic(arrive)

    def sync(typingctx, barrier, count=None):  # type: ignore[no-untyped-def]
        count = types.none if count is None else count
        check_barrier(name, barrier, count)
        return types.void(barrier, count), codegen

    return intrinsic(sync)


def reduction(name: str) -> Any:
    """Return the intrinsic for `bar_red_popc`, `barrier_red_and`, ..."""
    prefix, _, kind = name.split("_")
    aligned = ".aligned" if prefix == "bar" else ""
    result = types.int32 if kind == "popc" else types.boolean

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        operands = Operands(context, builder, 1)
        for value, type_ in zip(args[:2], signature.args[:2], strict=True):
            if not is_none(type_):
                operands.add(value, type_)
        holds = context.cast(builder, args[2], signature.args[2], types.boolean)
        operands.registers.append(builder.zext(context.get_value_as_data(builder, types.boolean, holds), I32))
        predicate = f"${len(operands.registers)}"
        head = f"{{ .reg .pred p, q; setp.ne.s32 p, {predicate}, 0; barrier.cta.red.{kind}{aligned}"
        where = ", ".join(operands.texts)
        if kind == "popc":
            return operands.run(f"{head}.u32 $0, {where}, p; }}", ["=r"], I32)
        found = operands.run(f"{head}.pred q, {where}, p; selp.u32 $0, 1, 0, q; }}", ["=r"], I32)
        return builder.icmp_unsigned("!=", found, I32(0))

    def red(typingctx, barrier, count, predicate):  # type: ignore[no-untyped-def]
        check_barrier(name, barrier, count)
        return result(barrier, count, predicate), codegen

    return intrinsic(red)


# -- accesses --------------------------------------------------------------------------------------------------------
def data_pointer(context: Any, builder: Any, type_: Any, array: Any) -> Any:
    """Return the generic address of the first element, as bytes."""
    return builder.bitcast(context.make_array(type_)(context, builder, array).data, I8.as_pointer())


def element_pointer(context: Any, builder: Any, type_: Any, array: Any, index_type: Any, index: Any) -> Any:
    """Return the generic address of an element, as bytes; an index has one integer for each dimension."""
    made = context.make_array(type_)(context, builder, array)
    if isinstance(index_type, types.BaseTuple):
        parts = list(zip(cgutils.unpack_tuple(builder, index), index_type, strict=True))
    else:
        parts = [(index, index_type)]
    strides = cgutils.unpack_tuple(builder, made.strides)
    distance: Any = ir.Constant(I64, 0)
    for (value, part), stride in zip(parts, strides, strict=True):
        distance = builder.add(distance, builder.mul(context.cast(builder, value, part, types.intp), stride))
    return builder.gep(builder.bitcast(made.data, I8.as_pointer()), [distance])


REGISTERS = {8: "h", 16: "h", 32: "r", 64: "l"}
"""bits -> constraint of an integer register"""


class Access:
    """Loads and stores of `length` adjacent elements of `bits` bits, with or without a cache operator."""

    def __init__(self, bits: int, length: int, qualifier: str) -> None:
        self.bits, self.length, self.qualifier = bits, length, qualifier
        self.element = ir.IntType(bits)
        vector = "" if length == 1 else f".v{length}"
        self.suffix = f"{vector}.b{bits}"
        self.width = bits // 8 * length

    def place(self, builder: Any, pointer: Any) -> tuple[str, Any]:
        """Return the state space of the instruction, and the address in it: `.nc` requires global memory."""
        if self.qualifier != "nc":
            return "", builder.ptrtoint(pointer, I64)
        return ".global", builder.ptrtoint(builder.addrspacecast(pointer, ir.PointerType(I8, 1)), I64)

    def load(self, builder: Any, pointer: Any) -> list[Any]:
        """Load the elements, as integers."""
        if not self.qualifier:
            kind = self.element if self.length == 1 else ir.VectorType(self.element, self.length)
            value = builder.load(builder.bitcast(pointer, kind.as_pointer()), align=self.width)
            if self.length == 1:
                return [value]
            return [builder.extract_element(value, I32(k)) for k in range(self.length)]
        space, address = self.place(builder, pointer)
        names = ", ".join(f"${k}" for k in range(self.length))
        target = f"{{{names}}}" if self.length > 1 else names
        # a register has at least 16 bits
        held = ir.IntType(max(self.bits, 16))
        returns = held if self.length == 1 else ir.LiteralStructType([held] * self.length)
        text = f"ld{space}.{self.qualifier}{self.suffix} {target}, [${self.length}];"
        found = emit(builder, text, [f"={REGISTERS[self.bits]}"] * self.length + ["l"], returns, [address])
        parts = [found] if self.length == 1 else [builder.extract_value(found, k) for k in range(self.length)]
        return [builder.trunc(part, self.element) if self.bits < 16 else part for part in parts]

    def store(self, builder: Any, pointer: Any, values: Sequence[Any]) -> None:
        """Store integers."""
        if not self.qualifier:
            kind = self.element if self.length == 1 else ir.VectorType(self.element, self.length)
            value = values[0]
            if self.length > 1:
                value = ir.Constant(kind, ir.Undefined)
                for k, part in enumerate(values):
                    value = builder.insert_element(value, part, I32(k))
            builder.store(value, builder.bitcast(pointer, kind.as_pointer()), align=self.width)
            return
        space, address = self.place(builder, pointer)
        names = ", ".join(f"${k + 1}" for k in range(self.length))
        source = f"{{{names}}}" if self.length > 1 else names
        held = [builder.zext(value, ir.IntType(16)) if self.bits < 16 else value for value in values]
        text = f"st{space}.{self.qualifier}{self.suffix} [$0], {source};"
        emit(builder, text, ["l", *[REGISTERS[self.bits]] * self.length], VOID, [address, *held])


def check_array(name: str, array: Any, index: Any, length: int) -> int:
    """Return the bits of an element; check that a vector access supports the array and its index."""
    if not isinstance(array, types.Array) or not isinstance(array.dtype, (types.Integer, types.Float)):
        raise errors.TypingError(f"ptx.{name}: {array}: give an array of integers or floats")
    count = len(index) if isinstance(index, types.BaseTuple) else 1
    if count != array.ndim:
        raise errors.TypingError(f"ptx.{name}: {array.ndim} dimensions and {count} indices: give one for each")
    bits = int(array.dtype.bitwidth)
    if bits * length > 8 * MOST_BYTES:
        raise errors.TypingError(f"ptx.{name}: {length} elements of {array.dtype}: an access has at most 16 bytes")
    return bits


def typed_load(name: str, length: int, qualifier: str) -> Any:
    """Return the intrinsic for `ld_v4`, `ld_cs`, `ld_v2_cg`, ...: elements of the array's own type."""

    def load(typingctx, array, index):  # type: ignore[no-untyped-def]
        access = Access(check_array(name, array, index, length), length, qualifier)
        result = array.dtype if length == 1 else types.UniTuple(array.dtype, length)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(array.dtype)
            pointer = element_pointer(context, builder, signature.args[0], args[0], signature.args[1], args[1])
            parts = [builder.bitcast(part, kind) for part in access.load(builder, pointer)]
            return parts[0] if length == 1 else context.make_tuple(builder, signature.return_type, parts)

        return result(array, types.unliteral(index)), codegen

    return intrinsic(load)


def typed_store(name: str, length: int, qualifier: str) -> Any:
    """Return the intrinsic for `st_v4`, `st_cs`, `st_v2_cg`, ..."""

    def store(typingctx, array, index, values):  # type: ignore[no-untyped-def]
        access = Access(check_array(name, array, index, length), length, qualifier)
        items = tuple(values) if isinstance(values, types.BaseTuple) else (values,)
        if len(items) != length:
            raise errors.TypingError(f"ptx.{name}: stores {values}: give a tuple of {length} numbers")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = element_pointer(context, builder, signature.args[0], args[0], signature.args[1], args[1])
            given = [args[2]] if length == 1 else cgutils.unpack_tuple(builder, args[2])
            parts = signature.args[2] if length > 1 else (signature.args[2],)
            numbers = [context.cast(builder, v, t, array.dtype) for v, t in zip(given, parts, strict=True)]
            access.store(builder, pointer, [builder.bitcast(number, access.element) for number in numbers])
            return context.get_dummy_value()

        return types.void(array, types.unliteral(index), types.unliteral(values)), codegen

    return intrinsic(store)


def _qualifier(name: str, type_: Any, known: dict[str, str]) -> str:
    if is_none(type_) or type_ is None:
        return ""
    value = literal(type_)
    if value not in known:
        raise errors.TypingError(f"ptx.{name}: qualifier {type_}: give one of {', '.join(map(repr, known))}")
    return str(value)


def _bytes_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    offset = context.cast(builder, args[1], signature.args[1], types.intp)
    return builder.gep(data_pointer(context, builder, signature.args[0], args[0]), [offset])


def untyped_load() -> Any:
    def ld_bytes(typingctx, array, offset, width, qualifier=None):  # type: ignore[no-untyped-def]
        if literal(width) not in ptx.ACCESS_WIDTHS:
            raise errors.TypingError(f"ptx.ld_bytes: width {width}: give 4, 8 or 16, as a constant")
        length = literal(width) // 4
        access = Access(32, length, _qualifier("ld_bytes", qualifier, ptx.LOAD_QUALIFIERS))

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            parts = access.load(builder, _bytes_pointer(context, builder, signature, args))
            return context.make_tuple(builder, signature.return_type, parts)

        rest = (types.none,) if qualifier is None else (qualifier,)
        return types.UniTuple(types.uint32, length)(array, types.unliteral(offset), width, *rest), codegen

    return intrinsic(ld_bytes)


def untyped_store() -> Any:
    def st_bytes(typingctx, array, offset, words, qualifier=None):  # type: ignore[no-untyped-def]
        if not isinstance(words, types.BaseTuple) or len(words) * 4 not in ptx.ACCESS_WIDTHS:
            raise errors.TypingError(f"ptx.st_bytes: stores {words}: give a tuple of 1, 2 or 4 words")
        access = Access(32, len(words), _qualifier("st_bytes", qualifier, ptx.STORE_QUALIFIERS))

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            parts = zip(cgutils.unpack_tuple(builder, args[2]), signature.args[2], strict=True)
            values = [context.cast(builder, value, kind, types.uint32) for value, kind in parts]
            access.store(builder, _bytes_pointer(context, builder, signature, args), values)
            return context.get_dummy_value()

        rest = (types.none,) if qualifier is None else (qualifier,)
        return types.void(array, types.unliteral(offset), words, *rest), codegen

    return intrinsic(st_bytes)


def make(name: str) -> Any:
    """Return the intrinsic of a barrier or an access."""
    if name.startswith("bar"):
        return reduction(name) if "_red_" in name else wait_or_arrive(name)
    if name == "ld_bytes":
        return untyped_load()
    if name == "st_bytes":
        return untyped_store()
    kind, *rest = name.split("_")
    vector = rest[0] if rest and rest[0] in ("v2", "v4") else ""
    qualifier = next((part for part in rest if part != vector), "")
    access = typed_load if kind == "ld" else typed_store
    return access(name, ptx.VECTOR_LENGTHS[vector], qualifier)
