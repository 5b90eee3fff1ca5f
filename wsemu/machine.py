"""Records of `layout` in compiled code, and calls of compiled functions by address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from wsemu.layout import (
    ACCESS,
    BARRIER,
    CLAIM,
    ENTRY,
    EVENT,
    FLOW,
    INSTRUCTION,
    LANE_ACCESS,
    MACHINE,
    MEMO,
    PATTERN,
    RAW,
    SEGMENT,
    SLOT,
    WARP,
)

if TYPE_CHECKING:
    import numpy as np

compiled: Any = cast("Any", njit)(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""decorates a function that compiled code calls; the wrappers for Python that it does without take half the time to
compile"""


def _viewer(dtype: np.dtype[Any]) -> Any:
    """An intrinsic `at(address, i)`: the i-th record of `dtype` at a host address, fields readable and writable."""
    numba_record = from_dtype(dtype)

    def at(typing, address, i):
        def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
            i64 = ir.IntType(64)
            place = b.add(args[0], b.mul(b.sext(args[1], i64) if args[1].type != i64 else args[1], i64(dtype.itemsize)))
            return b.inttoptr(place, context.get_value_type(numba_record))

        return numba_record(types.int64, types.int64), generate

    return intrinsic(at)


machine_at, warp_at, barrier_at = _viewer(MACHINE), _viewer(WARP), _viewer(BARRIER)
segment_at, entry_at, instruction_at = _viewer(SEGMENT), _viewer(ENTRY), _viewer(INSTRUCTION)
flow_at, access_at, raw_at = _viewer(FLOW), _viewer(ACCESS), _viewer(RAW)
event_at, memo_at, pattern_at = _viewer(EVENT), _viewer(MEMO), _viewer(PATTERN)
lane_access_at, slot_at = _viewer(LANE_ACCESS), _viewer(SLOT)
claim_at = _viewer(CLAIM)


def _caller(n: int) -> Any:
    """An intrinsic `call(address, *arguments)`: call the compiled function of n int64 arguments at a host address."""
    i64 = ir.IntType(64)
    signature = ir.FunctionType(i64, [i64] * n)

    def typed(*args: Any) -> Any:
        def generate(context: Any, b: Any, types_: Any, values: Any) -> Any:
            wide = [v if v.type == i64 else b.sext(v, i64) for v in values]
            return b.call(b.inttoptr(wide[0], signature.as_pointer()), wide[1:])

        return types.int64(*args), generate

    return intrinsic(
        {
            2: lambda t, address, a, b: typed(address, a, b),
            4: lambda t, address, a, b, c, d: typed(address, a, b, c, d),
            5: lambda t, address, a, b, c, d, e: typed(address, a, b, c, d, e),
            7: lambda t, address, a, b, c, d, e, f, g: typed(address, a, b, c, d, e, f, g),
            8: lambda t, address, a, b, c, d, e, f, g, h: typed(address, a, b, c, d, e, f, g, h),
            9: lambda t, address, a, b, c, d, e, f, g, h, i: typed(address, a, b, c, d, e, f, g, h, i),
        }[n]
    )


call2, call4, call5, call7, call8, call9 = (_caller(n) for n in (2, 4, 5, 7, 8, 9))


@intrinsic
def record_finding(typing, entry, address, what, detail):
    """Call `memory.enter_finding`: `what` is (code, pc, warp, lanes, other pc, other warp), `detail` five numbers.

    An intrinsic, because a Numba function would be compiled anew for every mixture of literal arguments.
    """

    def generate(context: Any, b: Any, signature: Any, values: Any) -> Any:
        i64 = ir.IntType(64)
        numbers = [values[1], *cgutils.unpack_tuple(b, values[2]), *cgutils.unpack_tuple(b, values[3])]
        wide = [v if v.type == i64 else b.zext(v, i64) for v in numbers]
        function = ir.FunctionType(i64, [i64] * len(wide))
        return b.call(b.inttoptr(values[0], function.as_pointer()), wide)

    return types.int64(entry, address, what, detail), generate
