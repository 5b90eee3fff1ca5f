"""The state of the VM: records that compiled code and the host both read.

One `MACHINE` runs CTAs one after another.  Everything it needs lies in memory that the host allocated, so that a run can stop
anywhere (budget, deadlock, a full table) and be looked at or continued.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

BARRIERS = 16
STACK = 64
"""entries of a warp's divergence stack"""


def record(**fields: Any) -> np.dtype[Any]:
    """A record of int64 fields, some of them arrays."""
    return np.dtype([(name, np.int64, *(() if shape == 1 else (shape,))) for name, shape in fields.items()], align=True)


INSTRUCTION = record(op=1, guard=1, d=1, a=1, b=1, c=1, imm=1, aux=1)
SEGMENT = record(host=1, bytes=1, writable=1, initialised=1, unwritten=1)
"""host address, size, 1 if stores are allowed, address of a byte map of what was written (0: everything is),
bytes not yet written"""
ENTRY = record(join=1, resume=1, mask=1)
"""where lanes meet (a `join`, or -1), where these lanes go on, which lanes"""
WARP = record(
    registers=1,  # host address of the register block
    pc=1,
    mask=1,  # lanes that run now
    alive=1,  # lanes that have not exited
    depth=1,  # entries on the stack
    waits=1,  # barrier it waits at, or -1
    wait_pc=1,
    wait_mask=1,
    parked=1,  # lanes at an unaligned barrier while others of the warp still run
    parked_count=1,
    local_initialised=1,  # of its local memory, see SEGMENT
    local_host=1,
    stack=1,  # host address of ENTRY[STACK]
    parked_entries=1,  # host address of ENTRY[STACK]
    last_pc=1,  # the last instruction that ended (an exit, a barrier)
)
BARRIER = record(
    expected=1,  # threads; 0: no count given, the whole CTA
    arrived=1,  # threads, in the open generation
    generation=1,
    syncs=1,  # warps that wait in the open generation
    first_pc=1,  # operation that opened the generation
    first_warp=1,
    popc=1,  # of the predicates given to bar.red
    every=1,
    some=1,
    last_warps=1,  # bit set of the warps that took part in the generation before
    warps=1,  # bit set (first 64 warps) of those in the open one
)
FLOW = record(count=1, lanes=1, length=1)
"""per pc: how often control came here, with how many lanes, and the instructions up to the next change of control"""
ACCESS = record(executions=1, lanes=1, shared=1, sectors=1)
"""per pc of a memory access: executions, lane accesses, shared wavefronts, global sectors"""
RAW = record(code=1, pc=1, other_pc=1, cta=1, warp=1, lanes=1, other_warp=1, count=1, detail=8)
MACHINE = record(
    access_entry=1,  # addresses of compiled functions, see vm.py
    collective_entry=1,
    warp_entry=1,
    report_entry=1,
    address=1,  # of this record
    code=1,
    instructions=1,
    segments=1,
    segment_count=1,
    warps=1,  # host address of WARP[warp_count]
    warp_count=1,
    block_threads=1,
    register_bytes=1,
    cta=1,
    cta_end=1,
    grid=3,
    cta_rows=3,  # rows of ctaid.x, .y, .z, or -1
    next_warp=1,
    live_warps=1,
    running=1,  # 1 inside a CTA, 0 between CTAs
    progress=1,
    budget=1,
    flow=1,
    accesses=1,
    shared_host=1,
    shared_bytes=1,
    shared_initialised=1,
    local_bytes=1,  # of a warp
    scratch=1,  # host address of int64[SCRATCH]
    stamp=1,  # see memory.py's distinct-value table
    raw=1,
    raw_count=1,
    raw_capacity=1,
    fault_pc=1,
    fault_warp=1,
    barriers=1,  # host address of BARRIER[16]
)
SCRATCH = 256


def _viewer(dtype: np.dtype[Any]) -> Any:
    """An intrinsic `at(address, i)`: the i-th record of `dtype` at a host address, fields readable and writable."""
    numba_record = from_dtype(dtype)

    def at(typing, address, i):  # type: ignore[no-untyped-def]
        def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
            i64 = ir.IntType(64)
            place = b.add(args[0], b.mul(b.sext(args[1], i64) if args[1].type != i64 else args[1], i64(dtype.itemsize)))
            return b.inttoptr(place, context.get_value_type(numba_record))

        return numba_record(types.int64, types.int64), generate

    return intrinsic(at)


machine_at, warp_at, barrier_at = _viewer(MACHINE), _viewer(WARP), _viewer(BARRIER)
segment_at, entry_at, instruction_at = _viewer(SEGMENT), _viewer(ENTRY), _viewer(INSTRUCTION)
flow_at, access_at, raw_at = _viewer(FLOW), _viewer(ACCESS), _viewer(RAW)


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
        }[n]
    )


call2, call4, call5 = _caller(2), _caller(4), _caller(5)


@intrinsic
def record_finding(typing, entry, address, what, detail):  # type: ignore[no-untyped-def]
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


def address_of(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


def aligned(size: int) -> npt.NDArray[np.uint8]:
    """Zeroed bytes on a 64-byte boundary: rows of registers are moved by aligned vector instructions."""
    block = np.zeros(size + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size]
