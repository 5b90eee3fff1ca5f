"""Single numbers in compiled code: memory at a host address, and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from wsemu.machine.arithmetic.codegen import I1, I8, I32, I64, Builder, Value, llvm, pointer, resize, same
from wsemu.model.isa import LANES


def _helper(result: Any, body: Callable[[Builder, list[Value]], Value | None], n: int) -> Any:
    """An intrinsic of n int64 arguments made from `body`."""

    def typed(*args: Any) -> Any:
        def generate(context: Any, b: Builder, signature: Any, values: Any) -> Value:
            wide = [resize(b, v, I64, True) if isinstance(v.type, ir.IntType) else v for v in values]
            out = body(b, wide)
            return context.get_dummy_value() if out is None else out

        return result(*args), generate

    one = {1: lambda t, x: typed(x), 2: lambda t, x, y: typed(x, y), 3: lambda t, x, y, z: typed(x, y, z)}
    return intrinsic(one[n])


def _store(b: Builder, place: Value, value: Value) -> None:
    b.store(value, place)


def _unset_bytes(b: Builder, a: list[Value]) -> Value:
    v = b.load(pointer(b, a[0], ir.VectorType(I8, LANES)), align=1)
    zeros = b.bitcast(b.icmp_unsigned("==", v, same(v, 0)), I32)
    return b.zext(llvm(b, "llvm.ctpop", I32, zeros), I64)


def _set_bytes(b: Builder, a: list[Value]) -> None:
    ones = ir.Constant(ir.VectorType(I8, LANES), [1] * LANES)
    b.store(ones, pointer(b, a[0], ones.type), align=1)


load_u32 = _helper(types.int64, lambda b, a: b.zext(b.load(pointer(b, a[0], I32)), I64), 1)
load_i64 = _helper(types.int64, lambda b, a: b.load(pointer(b, a[0], I64)), 1)
load_u8 = _helper(types.int64, lambda b, a: b.zext(b.load(pointer(b, a[0], I8)), I64), 1)
store_u32 = _helper(types.void, lambda b, a: _store(b, pointer(b, a[0], I32), b.trunc(a[1], I32)), 2)
store_i64 = _helper(types.void, lambda b, a: _store(b, pointer(b, a[0], I64), a[1]), 2)
store_u8 = _helper(types.void, lambda b, a: _store(b, pointer(b, a[0], I8), b.trunc(a[1], I8)), 2)
popcount = _helper(types.int64, lambda b, a: llvm(b, "llvm.ctpop", I64, a[0]), 1)
lowest_bit = _helper(types.int64, lambda b, a: llvm(b, "llvm.cttz", I64, a[0], I1(0)), 1)
unset_bytes = _helper(types.int64, _unset_bytes, 1)
"""how many of the 32 bytes at an address are 0"""
set_bytes = _helper(types.void, _set_bytes, 1)
"""write 32 ones at an unaligned address"""
