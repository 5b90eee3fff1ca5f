"""Single numbers in compiled code: memory at a host address, and bits."""

from __future__ import annotations

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import I1, I8, I32, I64, Builder, Value, llvm, pointer, same
from wsemu.machine.lowering import emitted
from wsemu.model.isa import LANES


def _store(b: Builder, place: Value, value: Value) -> None:
    b.store(value, place)


def _unset_bytes(b: Builder, place: Value) -> Value:
    v = b.load(pointer(b, place, ir.VectorType(I8, LANES)), align=1)
    zeros = b.bitcast(b.icmp_unsigned("==", v, same(v, 0)), I32)
    return b.zext(llvm(b, "llvm.ctpop", I32, zeros), I64)


def _set_bytes(b: Builder, place: Value) -> None:
    ones = ir.Constant(ir.VectorType(I8, LANES), [1] * LANES)
    b.store(ones, pointer(b, place, ones.type), align=1)


load_u32 = emitted(lambda b, place: b.zext(b.load(pointer(b, place, I32)), I64))
load_i64 = emitted(lambda b, place: b.load(pointer(b, place, I64)))
load_u8 = emitted(lambda b, place: b.zext(b.load(pointer(b, place, I8)), I64))
store_u32 = emitted(lambda b, place, value: _store(b, pointer(b, place, I32), b.trunc(value, I32)))
store_i64 = emitted(lambda b, place, value: _store(b, pointer(b, place, I64), value))
store_u8 = emitted(lambda b, place, value: _store(b, pointer(b, place, I8), b.trunc(value, I8)))
popcount = emitted(lambda b, x: llvm(b, "llvm.ctpop", I64, x))
lowest_bit = emitted(lambda b, x: llvm(b, "llvm.cttz", I64, x, I1(0)))
unset_bytes = emitted(_unset_bytes)
"""how many of the 32 bytes at an address are 0"""
set_bytes = emitted(_set_bytes)
"""write 32 ones at an unaligned address"""
