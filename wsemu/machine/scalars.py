"""Operations on single numbers in compiled code: memory at a host address, and bits."""

from __future__ import annotations

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    I1,
    I8,
    I32,
    I64,
    Builder,
    Value,
    declare_function,
    halves,
    llvm,
    mangle_type,
    numbers,
    pointer,
    same,
    splat,
)
from wsemu.machine.lowering import emitted
from wsemu.model.isa import LANES


def _store(b: Builder, place: Value, value: Value) -> None:
    b.store(value, place)


def _unset_bytes(b: Builder, place: Value) -> Value:
    v = b.load(pointer(b, place, ir.VectorType(I8, LANES)), align=1)
    zeros = b.bitcast(b.icmp_unsigned("==", v, same(v, 0)), I32)
    return b.zext(llvm(b, "llvm.ctpop", I32, zeros), I64)


def _set_bytes(b: Builder, place: Value) -> None:
    ones = numbers(I8, [1] * LANES)
    b.store(ones, pointer(b, place, ones.type), align=1)


def _words(b: Builder, place: Value) -> Value:
    return b.load(pointer(b, place, ir.VectorType(I32, LANES)), align=4)


def _total(b: Builder, place: Value, mask: Value) -> Value:
    wide = b.zext(_words(b, place), ir.VectorType(I64, LANES))
    chosen = b.bitcast(b.trunc(mask, I32), ir.VectorType(I1, LANES))
    v, n = b.select(chosen, wide, same(wide, 0)), LANES
    while n > 1:
        n //= 2
        low, high = halves(n)
        v = b.add(b.shuffle_vector(v, v, low), b.shuffle_vector(v, v, high))
    return b.extract_element(v, I32(0))


def _above(b: Builder, place: Value, limit: Value) -> Value:
    v = _words(b, place)
    return b.zext(b.bitcast(b.icmp_unsigned(">", v, splat(b, b.trunc(limit, I32))), I32), I64)


def _equal(b: Builder, place: Value, value: Value) -> Value:
    v = _words(b, place)
    return b.zext(b.bitcast(b.icmp_unsigned("==", v, splat(b, b.trunc(value, I32))), I32), I64)


def _odd(b: Builder, place: Value) -> Value:
    return b.zext(b.bitcast(b.trunc(_words(b, place), ir.VectorType(I1, LANES)), I32), I64)


def _prefetch(b: Builder, place: Value) -> None:
    line = pointer(b, place, I8)
    signature = ir.FunctionType(ir.VoidType(), [line.type, I32, I32, I32])
    of_data_to_read_and_keep = I32(0), I32(3), I32(1)
    b.call(
        declare_function(b.module, signature, f"llvm.prefetch.{mangle_type(line.type)}"),
        [line, *of_data_to_read_and_keep],
    )


load_u32 = emitted(lambda b, place: b.zext(b.load(pointer(b, place, I32)), I64))
load_i64 = emitted(lambda b, place: b.load(pointer(b, place, I64)))
load_u8 = emitted(lambda b, place: b.zext(b.load(pointer(b, place, I8)), I64))
store_u32 = emitted(lambda b, place, value: _store(b, pointer(b, place, I32), b.trunc(value, I32)))
store_i64 = emitted(lambda b, place, value: _store(b, pointer(b, place, I64), value))
store_u8 = emitted(lambda b, place, value: _store(b, pointer(b, place, I8), b.trunc(value, I8)))
popcount = emitted(lambda b, x: llvm(b, "llvm.ctpop", I64, x))
lowest_bit = emitted(lambda b, x: llvm(b, "llvm.cttz", I64, x, I1(0)))
total_u32 = emitted(_total)
"""total_u32(place, mask): sum of the words, of 32, that are in the mask"""
above_u32 = emitted(_above)
"""above_u32(place, limit): mask of the words, of 32, that exceed a limit"""
equal_u32 = emitted(_equal)
"""equal_u32(place, value): mask of the words, of 32, that equal a value"""
odd_u32 = emitted(_odd)
"""odd_u32(place): mask of the words, of 32, that are odd"""
prefetch = emitted(_prefetch)
"""prefetch(address): load the memory there into the CPU's cache, if it exists"""
unset_bytes = emitted(_unset_bytes)
"""unset_bytes(address): number of zero bytes among the 32 at an address"""
set_bytes = emitted(_set_bytes)
"""set_bytes(address): write 32 bytes of 1 at an unaligned address"""
