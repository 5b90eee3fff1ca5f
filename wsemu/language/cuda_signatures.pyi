"""Names for kernels, for type checkers alone; made by tests/stubs.py."""

from typing import Any, Final

from wsemu.host import extending as extending
from wsemu.host import xoroshiro
from wsemu.host.driver import CudaAPIError as CudaAPIError
from wsemu.host.driver import CudaDriverError as CudaDriverError
from wsemu.host.driver import CudaSupportError as CudaSupportError
from wsemu.host.driver import In as In
from wsemu.host.driver import InOut as InOut
from wsemu.host.driver import KernelRuntimeError as KernelRuntimeError
from wsemu.host.driver import Out as Out
from wsemu.host.driver import as_cuda_array as as_cuda_array
from wsemu.host.driver import close as close
from wsemu.host.driver import config as config
from wsemu.host.driver import current_context as current_context
from wsemu.host.driver import default_stream as default_stream
from wsemu.host.driver import defer_cleanup as defer_cleanup
from wsemu.host.driver import detect as detect
from wsemu.host.driver import device_array as device_array
from wsemu.host.driver import device_array_like as device_array_like
from wsemu.host.driver import devicearray as devicearray
from wsemu.host.driver import driver_is_available as driver_is_available
from wsemu.host.driver import event as event
from wsemu.host.driver import event_elapsed_time as event_elapsed_time
from wsemu.host.driver import external_stream as external_stream
from wsemu.host.driver import from_cuda_array_interface as from_cuda_array_interface
from wsemu.host.driver import get_current_device as get_current_device
from wsemu.host.driver import gpus as gpus
from wsemu.host.driver import is_available as is_available
from wsemu.host.driver import is_bfloat16_supported as is_bfloat16_supported
from wsemu.host.driver import is_cuda_array as is_cuda_array
from wsemu.host.driver import is_float16_supported as is_float16_supported
from wsemu.host.driver import is_fp8_supported as is_fp8_supported
from wsemu.host.driver import is_supported_version as is_supported_version
from wsemu.host.driver import legacy_default_stream as legacy_default_stream
from wsemu.host.driver import list_devices as list_devices
from wsemu.host.driver import managed_array as managed_array
from wsemu.host.driver import mapped as mapped
from wsemu.host.driver import mapped_array as mapped_array
from wsemu.host.driver import mapped_array_like as mapped_array_like
from wsemu.host.driver import per_thread_default_stream as per_thread_default_stream
from wsemu.host.driver import pinned as pinned
from wsemu.host.driver import pinned_array as pinned_array
from wsemu.host.driver import pinned_array_like as pinned_array_like
from wsemu.host.driver import profile_start as profile_start
from wsemu.host.driver import profile_stop as profile_stop
from wsemu.host.driver import profiling as profiling
from wsemu.host.driver import runtime as runtime
from wsemu.host.driver import select_device as select_device
from wsemu.host.driver import stream as stream
from wsemu.host.driver import synchronize as synchronize
from wsemu.host.driver import to_device as to_device
from wsemu.host.reduction import Reduce as Reduce
from wsemu.language.markers import ScalarType

reduce = Reduce
random = xoroshiro
HAS_NUMBA: Final[bool]
literal_unroll: Final[Any]
Archive: Final[Any]
CUSource: Final[Any]
Cubin: Final[Any]
Fatbin: Final[Any]
LTOIR: Final[Any]
LinkableCode: Final[Any]
Object: Final[Any]
PTXSource: Final[Any]
b1: Final[Any]
bool_: Final[Any]
byte: Final[Any]
c16: Final[Any]
c8: Final[Any]
char: Final[Any]
deferred_type: Final[Any]
double: Final[Any]
f2: Final[Any]
f4: Final[Any]
f8: Final[Any]
ffi: Final[Any]
ffi_forced_object: Final[Any]
fp8: Final[Any]
i1: Final[Any]
i2: Final[Any]
i4: Final[Any]
i8: Final[Any]
int_: Final[Any]
intc: Final[Any]
intp: Final[Any]
long_: Final[Any]
longlong: Final[Any]
none: Final[Any]
optional: Final[Any]
pyobject: Final[Any]
short: Final[Any]
size_t: Final[Any]
ssize_t: Final[Any]
string: Final[Any]
u1: Final[Any]
u2: Final[Any]
u4: Final[Any]
u8: Final[Any]
uchar: Final[Any]
uint: Final[Any]
uintc: Final[Any]
uintp: Final[Any]
ulong: Final[Any]
ulonglong: Final[Any]
ushort: Final[Any]
void: Final[Any]
voidptr: Final[Any]

def grid(ndim: Any) -> Any:
    """
    Index of the thread in the whole grid: an int64, or a tuple of `ndim`.
    """
def gridsize(ndim: Any) -> Any:
    """
    Threads of the whole grid: an int64, or a tuple of `ndim`.
    """
def syncthreads() -> Any:
    """
    Wait for all threads of the CTA (barrier 0); orders shared and global memory among them.
    """
def syncthreads_count(predicate: Any) -> Any:
    """
    syncthreads; returns how many threads had a predicate other than 0.
    """
def syncthreads_and(predicate: Any) -> Any:
    """
    syncthreads; returns 1 if every predicate was other than 0, else 0.
    """
def syncthreads_or(predicate: Any) -> Any:
    """
    syncthreads; returns 1 if any predicate was other than 0, else 0.
    """
def syncwarp(mask: Any = ...) -> Any:
    """
    Wait for the lanes of `mask`; orders memory among them.
    """
def threadfence() -> Any:
    """
    Memory fence for the device.
    """
def threadfence_block() -> Any:
    """
    Memory fence for the CTA.
    """
def threadfence_system() -> Any:
    """
    Memory fence for the system.
    """
def nanosleep(ns: Any) -> Any:
    """
    Pause for about `ns` nanoseconds; no effect in the emulator.
    """
def shfl_sync(mask: Any, value: Any, src_lane: Any) -> Any:
    """
    `value` of lane `src_lane` modulo 32; int32, int64, float32 or float64.
    """
def shfl_up_sync(mask: Any, value: Any, delta: Any) -> Any:
    """
    `value` of the lane `delta` below; the own one where there is none.
    """
def shfl_down_sync(mask: Any, value: Any, delta: Any) -> Any:
    """
    `value` of the lane `delta` above; the own one where there is none.
    """
def shfl_xor_sync(mask: Any, value: Any, lane_mask: Any) -> Any:
    """
    `value` of lane `laneid ^ lane_mask`.
    """
def all_sync(mask: Any, predicate: Any) -> Any:
    """
    Whether the predicate holds in all lanes of `mask`.
    """
def any_sync(mask: Any, predicate: Any) -> Any:
    """
    Whether the predicate holds in any lane of `mask`.
    """
def eq_sync(mask: Any, predicate: Any) -> Any:
    """
    Whether the predicate is the same in all lanes of `mask`.
    """
def ballot_sync(mask: Any, predicate: Any) -> Any:
    """
    Mask of the lanes of `mask` whose predicate holds; int32.
    """
def match_any_sync(mask: Any, value: Any) -> Any:
    """
    Mask of the lanes of `mask` with the same `value`; int32.
    """
def match_all_sync(mask: Any, value: Any) -> Any:
    """
    (mask, True) if all lanes of `mask` have the same `value`, else (0, False).
    """
def activemask() -> Any:
    """
    Mask of the lanes that execute this together; uint32.
    """
def lanemask_lt() -> Any:
    """
    Mask of the lanes below this one; uint32.
    """
def popc(x: Any) -> Any:
    """
    Bits set in x.
    """
def brev(x: Any) -> Any:
    """
    x with its bits in reverse order.
    """
def clz(x: Any) -> Any:
    """
    Leading zero bits of x.
    """
def ffs(x: Any) -> Any:
    """
    Position of the lowest set bit, from 1; 0 if none.
    """
def selp(test: Any, a: Any, b: Any) -> Any:
    """
    a if test, else b; both of one type.
    """
def fma(a: Any, b: Any, c: Any) -> Any:
    """
    a * b + c with one rounding.
    """
def cbrt(a: Any) -> Any:
    """
    Cube root.
    """
def ldca(array: Any, i: Any) -> Any:
    """
    array[i], cached at all levels (ld.global.ca).
    """
def ldcg(array: Any, i: Any) -> Any:
    """
    array[i], cached in L2 (ld.global.cg).
    """
def ldcs(array: Any, i: Any) -> Any:
    """
    array[i], likely read once (ld.global.cs).
    """
def ldlu(array: Any, i: Any) -> Any:
    """
    array[i], last use (ld.global.lu).
    """
def ldcv(array: Any, i: Any) -> Any:
    """
    array[i], not cached (ld.global.cv).
    """
def stcg(array: Any, i: Any, value: Any) -> Any:
    """
    array[i] = value, cached in L2 (st.global.cg).
    """
def stcs(array: Any, i: Any, value: Any) -> Any:
    """
    array[i] = value, likely accessed once (st.global.cs).
    """
def stwb(array: Any, i: Any, value: Any) -> Any:
    """
    array[i] = value, written back (st.global.wb).
    """
def stwt(array: Any, i: Any, value: Any) -> Any:
    """
    array[i] = value, written through (st.global.wt).
    """
def int8x1(x: Any) -> Any:
    """
    A vector of 1 int8.
    """
def char1(x: Any) -> Any:
    """
    A vector of 1 int8.
    """
def int8x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int8.
    """
def char2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int8.
    """
def int8x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int8.
    """
def char3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int8.
    """
def int8x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int8.
    """
def char4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int8.
    """
def int16x1(x: Any) -> Any:
    """
    A vector of 1 int16.
    """
def short1(x: Any) -> Any:
    """
    A vector of 1 int16.
    """
def int16x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int16.
    """
def short2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int16.
    """
def int16x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int16.
    """
def short3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int16.
    """
def int16x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int16.
    """
def short4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int16.
    """
def int32x1(x: Any) -> Any:
    """
    A vector of 1 int32.
    """
def int1(x: Any) -> Any:
    """
    A vector of 1 int32.
    """
def int32x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int32.
    """
def int2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int32.
    """
def int32x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int32.
    """
def int3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int32.
    """
def int32x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int32.
    """
def int4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int32.
    """
def int64x1(x: Any) -> Any:
    """
    A vector of 1 int64.
    """
def long1(x: Any) -> Any:
    """
    A vector of 1 int64.
    """
def longlong1(x: Any) -> Any:
    """
    A vector of 1 int64.
    """
def int64x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int64.
    """
def long2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int64.
    """
def longlong2(x: Any, y: Any) -> Any:
    """
    A vector of 2 int64.
    """
def int64x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int64.
    """
def long3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int64.
    """
def longlong3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 int64.
    """
def int64x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int64.
    """
def long4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int64.
    """
def longlong4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 int64.
    """
def uint8x1(x: Any) -> Any:
    """
    A vector of 1 uint8.
    """
def uchar1(x: Any) -> Any:
    """
    A vector of 1 uint8.
    """
def uint8x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint8.
    """
def uchar2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint8.
    """
def uint8x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint8.
    """
def uchar3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint8.
    """
def uint8x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint8.
    """
def uchar4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint8.
    """
def uint16x1(x: Any) -> Any:
    """
    A vector of 1 uint16.
    """
def ushort1(x: Any) -> Any:
    """
    A vector of 1 uint16.
    """
def uint16x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint16.
    """
def ushort2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint16.
    """
def uint16x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint16.
    """
def ushort3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint16.
    """
def uint16x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint16.
    """
def ushort4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint16.
    """
def uint32x1(x: Any) -> Any:
    """
    A vector of 1 uint32.
    """
def uint1(x: Any) -> Any:
    """
    A vector of 1 uint32.
    """
def uint32x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint32.
    """
def uint2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint32.
    """
def uint32x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint32.
    """
def uint3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint32.
    """
def uint32x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint32.
    """
def uint4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint32.
    """
def uint64x1(x: Any) -> Any:
    """
    A vector of 1 uint64.
    """
def ulong1(x: Any) -> Any:
    """
    A vector of 1 uint64.
    """
def ulonglong1(x: Any) -> Any:
    """
    A vector of 1 uint64.
    """
def uint64x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint64.
    """
def ulong2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint64.
    """
def ulonglong2(x: Any, y: Any) -> Any:
    """
    A vector of 2 uint64.
    """
def uint64x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint64.
    """
def ulong3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint64.
    """
def ulonglong3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 uint64.
    """
def uint64x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint64.
    """
def ulong4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint64.
    """
def ulonglong4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 uint64.
    """
def float32x1(x: Any) -> Any:
    """
    A vector of 1 float32.
    """
def float1(x: Any) -> Any:
    """
    A vector of 1 float32.
    """
def float32x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 float32.
    """
def float2(x: Any, y: Any) -> Any:
    """
    A vector of 2 float32.
    """
def float32x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 float32.
    """
def float3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 float32.
    """
def float32x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 float32.
    """
def float4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 float32.
    """
def float64x1(x: Any) -> Any:
    """
    A vector of 1 float64.
    """
def double1(x: Any) -> Any:
    """
    A vector of 1 float64.
    """
def float64x2(x: Any, y: Any) -> Any:
    """
    A vector of 2 float64.
    """
def double2(x: Any, y: Any) -> Any:
    """
    A vector of 2 float64.
    """
def float64x3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 float64.
    """
def double3(x: Any, y: Any, z: Any) -> Any:
    """
    A vector of 3 float64.
    """
def float64x4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 float64.
    """
def double4(x: Any, y: Any, z: Any, w: Any) -> Any:
    """
    A vector of 4 float64.
    """
boolean: Final[ScalarType]
int8: Final[ScalarType]
int16: Final[ScalarType]
int32: Final[ScalarType]
int64: Final[ScalarType]
uint8: Final[ScalarType]
uint16: Final[ScalarType]
uint32: Final[ScalarType]
uint64: Final[ScalarType]
float16: Final[ScalarType]
float32: Final[ScalarType]
float64: Final[ScalarType]
complex64: Final[ScalarType]
complex128: Final[ScalarType]
bfloat16: Final[ScalarType]
class threadIdx:
    """
    Index of the thread in its CTA. Parts .x, .y, .z, each int32.
    """
    x: Final[int]
    """
    Index of the thread in its CTA. int32.
    """
    y: Final[int]
    """
    Index of the thread in its CTA. int32.
    """
    z: Final[int]
    """
    Index of the thread in its CTA. int32.
    """
class blockIdx:
    """
    Index of the CTA in the grid. Parts .x, .y, .z, each int32.
    """
    x: Final[int]
    """
    Index of the CTA in the grid. int32.
    """
    y: Final[int]
    """
    Index of the CTA in the grid. int32.
    """
    z: Final[int]
    """
    Index of the CTA in the grid. int32.
    """
class blockDim:
    """
    Threads of a CTA. Parts .x, .y, .z, each int32.
    """
    x: Final[int]
    """
    Threads of a CTA. int32.
    """
    y: Final[int]
    """
    Threads of a CTA. int32.
    """
    z: Final[int]
    """
    Threads of a CTA. int32.
    """
class gridDim:
    """
    CTAs of the grid. Parts .x, .y, .z, each int32.
    """
    x: Final[int]
    """
    CTAs of the grid. int32.
    """
    y: Final[int]
    """
    CTAs of the grid. int32.
    """
    z: Final[int]
    """
    CTAs of the grid. int32.
    """
laneid: Final[int]
"""
Lane of the thread in its warp, 0 to 31; int32.
"""
warpsize: Final[int]
"""
Threads of a warp, 32; int32.
"""
class shared:
    """
    Memory that the threads of a CTA share.
    """
    @staticmethod
    def array(shape: Any, dtype: Any, alignment: Any = ...) -> Any:
        """
        A shared array, one per CTA; shape 0: dynamic shared memory.
        """
class local:
    """
    Memory of a thread.
    """
    @staticmethod
    def array(shape: Any, dtype: Any, alignment: Any = ...) -> Any:
        """
        An array of the thread's own.
        """
class const:
    """
    Constant memory.
    """
    @staticmethod
    def array_like(ndarray: Any) -> Any:
        """
        A read-only copy of a host array.
        """
class atomic:
    """
    Atomic operations; each returns the old element.
    """
    @staticmethod
    def add(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] += val
        """
    @staticmethod
    def and_(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] &= val
        """
    @staticmethod
    def cas(ary: Any, idx: Any, old: Any, val: Any) -> Any:
        """
        ary[idx] = val if ary[idx] == old
        """
    @staticmethod
    def compare_and_swap(ary: Any, old: Any, val: Any) -> Any:
        """
        ary[0] = val if ary[0] == old
        """
    @staticmethod
    def dec(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] = val if ary[idx] == 0 or ary[idx] > val else ary[idx] - 1
        """
    @staticmethod
    def exch(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] = val
        """
    @staticmethod
    def inc(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] = 0 if ary[idx] >= val else ary[idx] + 1
        """
    @staticmethod
    def max(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] = max(ary[idx], val); unchanged if either is nan
        """
    @staticmethod
    def min(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] = min(ary[idx], val); unchanged if either is nan
        """
    @staticmethod
    def nanmax(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] = max(ary[idx], val); the number, if one is nan
        """
    @staticmethod
    def nanmin(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] = min(ary[idx], val); the number, if one is nan
        """
    @staticmethod
    def or_(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] |= val
        """
    @staticmethod
    def sub(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] -= val
        """
    @staticmethod
    def xor(ary: Any, idx: Any, val: Any) -> Any:
        """
        ary[idx] ^= val
        """
class bf16:
    """
    Operations on bfloat16.
    """
    bfloat16: Final[ScalarType]
    @staticmethod
    def bfloat16_as_int16(a: Any) -> Any:
        """
        The bits of a bfloat16 as int16.
        """
    @staticmethod
    def bfloat16_as_uint16(a: Any) -> Any:
        """
        The bits of a bfloat16 as uint16.
        """
    @staticmethod
    def bfloat16_to_float32(a: Any) -> Any:
        """
        float32 of a bfloat16.
        """
    @staticmethod
    def bfloat16_to_int16_rd(a: Any) -> Any:
        """
        int16 of a bfloat16, rounded down.
        """
    @staticmethod
    def bfloat16_to_int16_rn(a: Any) -> Any:
        """
        int16 of a bfloat16, rounded to nearest even.
        """
    @staticmethod
    def bfloat16_to_int16_ru(a: Any) -> Any:
        """
        int16 of a bfloat16, rounded up.
        """
    @staticmethod
    def bfloat16_to_int16_rz(a: Any) -> Any:
        """
        int16 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def bfloat16_to_int32_rd(a: Any) -> Any:
        """
        int32 of a bfloat16, rounded down.
        """
    @staticmethod
    def bfloat16_to_int32_rn(a: Any) -> Any:
        """
        int32 of a bfloat16, rounded to nearest even.
        """
    @staticmethod
    def bfloat16_to_int32_ru(a: Any) -> Any:
        """
        int32 of a bfloat16, rounded up.
        """
    @staticmethod
    def bfloat16_to_int32_rz(a: Any) -> Any:
        """
        int32 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def bfloat16_to_int64_rd(a: Any) -> Any:
        """
        int64 of a bfloat16, rounded down.
        """
    @staticmethod
    def bfloat16_to_int64_rn(a: Any) -> Any:
        """
        int64 of a bfloat16, rounded to nearest even.
        """
    @staticmethod
    def bfloat16_to_int64_ru(a: Any) -> Any:
        """
        int64 of a bfloat16, rounded up.
        """
    @staticmethod
    def bfloat16_to_int64_rz(a: Any) -> Any:
        """
        int64 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def bfloat16_to_int8_rz(a: Any) -> Any:
        """
        int8 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def bfloat16_to_uint16_rd(a: Any) -> Any:
        """
        uint16 of a bfloat16, rounded down.
        """
    @staticmethod
    def bfloat16_to_uint16_rn(a: Any) -> Any:
        """
        uint16 of a bfloat16, rounded to nearest even.
        """
    @staticmethod
    def bfloat16_to_uint16_ru(a: Any) -> Any:
        """
        uint16 of a bfloat16, rounded up.
        """
    @staticmethod
    def bfloat16_to_uint16_rz(a: Any) -> Any:
        """
        uint16 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def bfloat16_to_uint32_rd(a: Any) -> Any:
        """
        uint32 of a bfloat16, rounded down.
        """
    @staticmethod
    def bfloat16_to_uint32_rn(a: Any) -> Any:
        """
        uint32 of a bfloat16, rounded to nearest even.
        """
    @staticmethod
    def bfloat16_to_uint32_ru(a: Any) -> Any:
        """
        uint32 of a bfloat16, rounded up.
        """
    @staticmethod
    def bfloat16_to_uint32_rz(a: Any) -> Any:
        """
        uint32 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def bfloat16_to_uint64_rd(a: Any) -> Any:
        """
        uint64 of a bfloat16, rounded down.
        """
    @staticmethod
    def bfloat16_to_uint64_rn(a: Any) -> Any:
        """
        uint64 of a bfloat16, rounded to nearest even.
        """
    @staticmethod
    def bfloat16_to_uint64_ru(a: Any) -> Any:
        """
        uint64 of a bfloat16, rounded up.
        """
    @staticmethod
    def bfloat16_to_uint64_rz(a: Any) -> Any:
        """
        uint64 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def bfloat16_to_uint8_rz(a: Any) -> Any:
        """
        uint8 of a bfloat16, rounded toward zero.
        """
    @staticmethod
    def float32_to_bfloat16(a: Any) -> Any:
        """
        bfloat16 of a float32, rounded to nearest even.
        """
    @staticmethod
    def float32_to_bfloat16_rd(a: Any) -> Any:
        """
        bfloat16 of a float32, rounded down.
        """
    @staticmethod
    def float32_to_bfloat16_rn(a: Any) -> Any:
        """
        bfloat16 of a float32, rounded to nearest even.
        """
    @staticmethod
    def float32_to_bfloat16_ru(a: Any) -> Any:
        """
        bfloat16 of a float32, rounded up.
        """
    @staticmethod
    def float32_to_bfloat16_rz(a: Any) -> Any:
        """
        bfloat16 of a float32, rounded toward zero.
        """
    @staticmethod
    def float64_to_bfloat16(a: Any) -> Any:
        """
        bfloat16 of a float64, rounded to nearest even.
        """
    @staticmethod
    def habs(a: Any) -> Any:
        """
        bfloat16: abs(a)
        """
    @staticmethod
    def hadd(a: Any, b: Any) -> Any:
        """
        bfloat16: add(a, b)
        """
    @staticmethod
    def hadd_rn(a: Any, b: Any) -> Any:
        """
        bfloat16: add_rn(a, b)
        """
    @staticmethod
    def hadd_sat(a: Any, b: Any) -> Any:
        """
        bfloat16: add_sat(a, b)
        """
    @staticmethod
    def hceil(a: Any) -> Any:
        """
        bfloat16: ceil(a)
        """
    @staticmethod
    def hcos(a: Any) -> Any:
        """
        bfloat16: cos(a)
        """
    @staticmethod
    def hdiv(a: Any, b: Any) -> Any:
        """
        bfloat16: div(a, b)
        """
    @staticmethod
    def heq(a: Any, b: Any) -> Any:
        """
        bfloat16: eq(a, b)
        """
    @staticmethod
    def hequ(a: Any, b: Any) -> Any:
        """
        bfloat16: equ(a, b)
        """
    @staticmethod
    def hexp(a: Any) -> Any:
        """
        bfloat16: exp(a)
        """
    @staticmethod
    def hexp10(a: Any) -> Any:
        """
        bfloat16: exp10(a)
        """
    @staticmethod
    def hexp2(a: Any) -> Any:
        """
        bfloat16: exp2(a)
        """
    @staticmethod
    def hfloor(a: Any) -> Any:
        """
        bfloat16: floor(a)
        """
    @staticmethod
    def hfma(a: Any, b: Any, c: Any) -> Any:
        """
        bfloat16: fma(a, b, c)
        """
    @staticmethod
    def hfma_relu(a: Any, b: Any, c: Any) -> Any:
        """
        bfloat16: fma_relu(a, b, c)
        """
    @staticmethod
    def hfma_sat(a: Any, b: Any, c: Any) -> Any:
        """
        bfloat16: fma_sat(a, b, c)
        """
    @staticmethod
    def hge(a: Any, b: Any) -> Any:
        """
        bfloat16: ge(a, b)
        """
    @staticmethod
    def hgeu(a: Any, b: Any) -> Any:
        """
        bfloat16: geu(a, b)
        """
    @staticmethod
    def hgt(a: Any, b: Any) -> Any:
        """
        bfloat16: gt(a, b)
        """
    @staticmethod
    def hgtu(a: Any, b: Any) -> Any:
        """
        bfloat16: gtu(a, b)
        """
    @staticmethod
    def hisinf(a: Any) -> Any:
        """
        bfloat16: isinf(a)
        """
    @staticmethod
    def hisnan(a: Any) -> Any:
        """
        bfloat16: isnan(a)
        """
    @staticmethod
    def hle(a: Any, b: Any) -> Any:
        """
        bfloat16: le(a, b)
        """
    @staticmethod
    def hleu(a: Any, b: Any) -> Any:
        """
        bfloat16: leu(a, b)
        """
    @staticmethod
    def hlog(a: Any) -> Any:
        """
        bfloat16: log(a)
        """
    @staticmethod
    def hlog10(a: Any) -> Any:
        """
        bfloat16: log10(a)
        """
    @staticmethod
    def hlog2(a: Any) -> Any:
        """
        bfloat16: log2(a)
        """
    @staticmethod
    def hlt(a: Any, b: Any) -> Any:
        """
        bfloat16: lt(a, b)
        """
    @staticmethod
    def hltu(a: Any, b: Any) -> Any:
        """
        bfloat16: ltu(a, b)
        """
    @staticmethod
    def hmax(a: Any, b: Any) -> Any:
        """
        bfloat16: max(a, b)
        """
    @staticmethod
    def hmax_nan(a: Any, b: Any) -> Any:
        """
        bfloat16: max_nan(a, b)
        """
    @staticmethod
    def hmin(a: Any, b: Any) -> Any:
        """
        bfloat16: min(a, b)
        """
    @staticmethod
    def hmin_nan(a: Any, b: Any) -> Any:
        """
        bfloat16: min_nan(a, b)
        """
    @staticmethod
    def hmul(a: Any, b: Any) -> Any:
        """
        bfloat16: mul(a, b)
        """
    @staticmethod
    def hmul_rn(a: Any, b: Any) -> Any:
        """
        bfloat16: mul_rn(a, b)
        """
    @staticmethod
    def hmul_sat(a: Any, b: Any) -> Any:
        """
        bfloat16: mul_sat(a, b)
        """
    @staticmethod
    def hne(a: Any, b: Any) -> Any:
        """
        bfloat16: ne(a, b)
        """
    @staticmethod
    def hneg(a: Any) -> Any:
        """
        bfloat16: neg(a)
        """
    @staticmethod
    def hneu(a: Any, b: Any) -> Any:
        """
        bfloat16: neu(a, b)
        """
    @staticmethod
    def hrcp(a: Any) -> Any:
        """
        bfloat16: rcp(a)
        """
    @staticmethod
    def hrint(a: Any) -> Any:
        """
        bfloat16: rint(a)
        """
    @staticmethod
    def hrsqrt(a: Any) -> Any:
        """
        bfloat16: rsqrt(a)
        """
    @staticmethod
    def hsin(a: Any) -> Any:
        """
        bfloat16: sin(a)
        """
    @staticmethod
    def hsqrt(a: Any) -> Any:
        """
        bfloat16: sqrt(a)
        """
    @staticmethod
    def hsub(a: Any, b: Any) -> Any:
        """
        bfloat16: sub(a, b)
        """
    @staticmethod
    def hsub_rn(a: Any, b: Any) -> Any:
        """
        bfloat16: sub_rn(a, b)
        """
    @staticmethod
    def hsub_sat(a: Any, b: Any) -> Any:
        """
        bfloat16: sub_sat(a, b)
        """
    @staticmethod
    def htanh(a: Any) -> Any:
        """
        bfloat16: tanh(a)
        """
    @staticmethod
    def htanh_approx(a: Any) -> Any:
        """
        bfloat16: tanh_approx(a)
        """
    @staticmethod
    def htrunc(a: Any) -> Any:
        """
        bfloat16: trunc(a)
        """
    @staticmethod
    def int16_as_bfloat16(a: Any) -> Any:
        """
        The bits of int16 as a bfloat16.
        """
    @staticmethod
    def int16_to_bfloat16_rd(a: Any) -> Any:
        """
        bfloat16 of a int16, rounded down.
        """
    @staticmethod
    def int16_to_bfloat16_rn(a: Any) -> Any:
        """
        bfloat16 of a int16, rounded to nearest even.
        """
    @staticmethod
    def int16_to_bfloat16_ru(a: Any) -> Any:
        """
        bfloat16 of a int16, rounded up.
        """
    @staticmethod
    def int16_to_bfloat16_rz(a: Any) -> Any:
        """
        bfloat16 of a int16, rounded toward zero.
        """
    @staticmethod
    def int32_to_bfloat16_rd(a: Any) -> Any:
        """
        bfloat16 of a int32, rounded down.
        """
    @staticmethod
    def int32_to_bfloat16_rn(a: Any) -> Any:
        """
        bfloat16 of a int32, rounded to nearest even.
        """
    @staticmethod
    def int32_to_bfloat16_ru(a: Any) -> Any:
        """
        bfloat16 of a int32, rounded up.
        """
    @staticmethod
    def int32_to_bfloat16_rz(a: Any) -> Any:
        """
        bfloat16 of a int32, rounded toward zero.
        """
    @staticmethod
    def int64_to_bfloat16_rd(a: Any) -> Any:
        """
        bfloat16 of a int64, rounded down.
        """
    @staticmethod
    def int64_to_bfloat16_rn(a: Any) -> Any:
        """
        bfloat16 of a int64, rounded to nearest even.
        """
    @staticmethod
    def int64_to_bfloat16_ru(a: Any) -> Any:
        """
        bfloat16 of a int64, rounded up.
        """
    @staticmethod
    def int64_to_bfloat16_rz(a: Any) -> Any:
        """
        bfloat16 of a int64, rounded toward zero.
        """
    @staticmethod
    def uint16_as_bfloat16(a: Any) -> Any:
        """
        The bits of uint16 as a bfloat16.
        """
    @staticmethod
    def uint16_to_bfloat16_rd(a: Any) -> Any:
        """
        bfloat16 of a uint16, rounded down.
        """
    @staticmethod
    def uint16_to_bfloat16_rn(a: Any) -> Any:
        """
        bfloat16 of a uint16, rounded to nearest even.
        """
    @staticmethod
    def uint16_to_bfloat16_ru(a: Any) -> Any:
        """
        bfloat16 of a uint16, rounded up.
        """
    @staticmethod
    def uint16_to_bfloat16_rz(a: Any) -> Any:
        """
        bfloat16 of a uint16, rounded toward zero.
        """
    @staticmethod
    def uint32_to_bfloat16_rd(a: Any) -> Any:
        """
        bfloat16 of a uint32, rounded down.
        """
    @staticmethod
    def uint32_to_bfloat16_rn(a: Any) -> Any:
        """
        bfloat16 of a uint32, rounded to nearest even.
        """
    @staticmethod
    def uint32_to_bfloat16_ru(a: Any) -> Any:
        """
        bfloat16 of a uint32, rounded up.
        """
    @staticmethod
    def uint32_to_bfloat16_rz(a: Any) -> Any:
        """
        bfloat16 of a uint32, rounded toward zero.
        """
    @staticmethod
    def uint64_to_bfloat16_rd(a: Any) -> Any:
        """
        bfloat16 of a uint64, rounded down.
        """
    @staticmethod
    def uint64_to_bfloat16_rn(a: Any) -> Any:
        """
        bfloat16 of a uint64, rounded to nearest even.
        """
    @staticmethod
    def uint64_to_bfloat16_ru(a: Any) -> Any:
        """
        bfloat16 of a uint64, rounded up.
        """
    @staticmethod
    def uint64_to_bfloat16_rz(a: Any) -> Any:
        """
        bfloat16 of a uint64, rounded toward zero.
        """
class fp16:
    """
    Operations on float16.
    """
    @staticmethod
    def habs(a: Any) -> Any:
        """
        float16: abs(a)
        """
    @staticmethod
    def hadd(a: Any, b: Any) -> Any:
        """
        float16: add(a, b)
        """
    @staticmethod
    def hceil(a: Any) -> Any:
        """
        float16: ceil(a)
        """
    @staticmethod
    def hcos(a: Any) -> Any:
        """
        float16: cos(a)
        """
    @staticmethod
    def hdiv(a: Any, b: Any) -> Any:
        """
        float16: div(a, b)
        """
    @staticmethod
    def heq(a: Any, b: Any) -> Any:
        """
        float16: eq(a, b)
        """
    @staticmethod
    def hexp(a: Any) -> Any:
        """
        float16: exp(a)
        """
    @staticmethod
    def hexp10(a: Any) -> Any:
        """
        float16: exp10(a)
        """
    @staticmethod
    def hexp2(a: Any) -> Any:
        """
        float16: exp2(a)
        """
    @staticmethod
    def hfloor(a: Any) -> Any:
        """
        float16: floor(a)
        """
    @staticmethod
    def hfma(a: Any, b: Any, c: Any) -> Any:
        """
        float16: fma(a, b, c)
        """
    @staticmethod
    def hge(a: Any, b: Any) -> Any:
        """
        float16: ge(a, b)
        """
    @staticmethod
    def hgt(a: Any, b: Any) -> Any:
        """
        float16: gt(a, b)
        """
    @staticmethod
    def hle(a: Any, b: Any) -> Any:
        """
        float16: le(a, b)
        """
    @staticmethod
    def hlog(a: Any) -> Any:
        """
        float16: log(a)
        """
    @staticmethod
    def hlog10(a: Any) -> Any:
        """
        float16: log10(a)
        """
    @staticmethod
    def hlog2(a: Any) -> Any:
        """
        float16: log2(a)
        """
    @staticmethod
    def hlt(a: Any, b: Any) -> Any:
        """
        float16: lt(a, b)
        """
    @staticmethod
    def hmax(a: Any, b: Any) -> Any:
        """
        float16: max(a, b)
        """
    @staticmethod
    def hmin(a: Any, b: Any) -> Any:
        """
        float16: min(a, b)
        """
    @staticmethod
    def hmul(a: Any, b: Any) -> Any:
        """
        float16: mul(a, b)
        """
    @staticmethod
    def hne(a: Any, b: Any) -> Any:
        """
        float16: ne(a, b)
        """
    @staticmethod
    def hneg(a: Any) -> Any:
        """
        float16: neg(a)
        """
    @staticmethod
    def hrcp(a: Any) -> Any:
        """
        float16: rcp(a)
        """
    @staticmethod
    def hrint(a: Any) -> Any:
        """
        float16: rint(a)
        """
    @staticmethod
    def hrsqrt(a: Any) -> Any:
        """
        float16: rsqrt(a)
        """
    @staticmethod
    def hsin(a: Any) -> Any:
        """
        float16: sin(a)
        """
    @staticmethod
    def hsqrt(a: Any) -> Any:
        """
        float16: sqrt(a)
        """
    @staticmethod
    def hsub(a: Any, b: Any) -> Any:
        """
        float16: sub(a, b)
        """
    @staticmethod
    def htrunc(a: Any) -> Any:
        """
        float16: trunc(a)
        """
class cg:
    """
    Cooperative groups.
    """
    @staticmethod
    def this_grid() -> Any:
        """
        The group of all threads of the grid: `this_grid().sync()` makes the launch a cooperative
        one.
        """
class libdevice:
    """
    NVIDIA's device library.
    """
    @staticmethod
    def abs(x: Any) -> Any:
        """
        abs.s32 of int32, as int32.
        """
    @staticmethod
    def acos(x: Any) -> Any:
        """
        acos.f64 of float64, as float64.
        """
    @staticmethod
    def acosf(x: Any) -> Any:
        """
        acos.f32 of float32, as float32.
        """
    @staticmethod
    def acosh(x: Any) -> Any:
        """
        acosh.f64 of float64, as float64.
        """
    @staticmethod
    def acoshf(x: Any) -> Any:
        """
        acosh.f32 of float32, as float32.
        """
    @staticmethod
    def asin(x: Any) -> Any:
        """
        asin.f64 of float64, as float64.
        """
    @staticmethod
    def asinf(x: Any) -> Any:
        """
        asin.f32 of float32, as float32.
        """
    @staticmethod
    def asinh(x: Any) -> Any:
        """
        asinh.f64 of float64, as float64.
        """
    @staticmethod
    def asinhf(x: Any) -> Any:
        """
        asinh.f32 of float32, as float32.
        """
    @staticmethod
    def atan(x: Any) -> Any:
        """
        atan.f64 of float64, as float64.
        """
    @staticmethod
    def atan2(x: Any, y: Any) -> Any:
        """
        atan2.f64 of float64, float64, as float64.
        """
    @staticmethod
    def atan2f(x: Any, y: Any) -> Any:
        """
        atan2.f32 of float32, float32, as float32.
        """
    @staticmethod
    def atanf(x: Any) -> Any:
        """
        atan.f32 of float32, as float32.
        """
    @staticmethod
    def atanh(x: Any) -> Any:
        """
        atanh.f64 of float64, as float64.
        """
    @staticmethod
    def atanhf(x: Any) -> Any:
        """
        atanh.f32 of float32, as float32.
        """
    @staticmethod
    def brev(x: Any) -> Any:
        """
        brev.b32 of int32, as int32.
        """
    @staticmethod
    def brevll(x: Any) -> Any:
        """
        brev.b64 of int64, as int64.
        """
    @staticmethod
    def byte_perm(x: Any, y: Any, z: Any) -> Any:
        """
        byte_perm of int32, int32, int32, as int32.
        """
    @staticmethod
    def cbrt(x: Any) -> Any:
        """
        cbrt.f64 of float64, as float64.
        """
    @staticmethod
    def cbrtf(x: Any) -> Any:
        """
        cbrt.f32 of float32, as float32.
        """
    @staticmethod
    def ceil(x: Any) -> Any:
        """
        cvt.rpi.f64.f64 of float64, as float64.
        """
    @staticmethod
    def ceilf(x: Any) -> Any:
        """
        cvt.rpi.f32.f32 of float32, as float32.
        """
    @staticmethod
    def clz(x: Any) -> Any:
        """
        clz.b32 of int32, as int32.
        """
    @staticmethod
    def clzll(x: Any) -> Any:
        """
        clz.b64 of int64, as int32.
        """
    @staticmethod
    def copysign(x: Any, y: Any) -> Any:
        """
        copysign.f64 of float64, float64, as float64.
        """
    @staticmethod
    def copysignf(x: Any, y: Any) -> Any:
        """
        copysign.f32 of float32, float32, as float32.
        """
    @staticmethod
    def cos(x: Any) -> Any:
        """
        cos.f64 of float64, as float64.
        """
    @staticmethod
    def cosf(x: Any) -> Any:
        """
        cos.f32 of float32, as float32.
        """
    @staticmethod
    def cosh(x: Any) -> Any:
        """
        cosh.f64 of float64, as float64.
        """
    @staticmethod
    def coshf(x: Any) -> Any:
        """
        cosh.f32 of float32, as float32.
        """
    @staticmethod
    def cospi(x: Any) -> Any:
        """
        cospi of float64, as float64.
        """
    @staticmethod
    def cospif(x: Any) -> Any:
        """
        cospi of float32, as float32.
        """
    @staticmethod
    def dadd_rd(x: Any, y: Any) -> Any:
        """
        add.rm of float64, float64, as float64.
        """
    @staticmethod
    def dadd_rn(x: Any, y: Any) -> Any:
        """
        add.f64 of float64, float64, as float64.
        """
    @staticmethod
    def dadd_ru(x: Any, y: Any) -> Any:
        """
        add.rp of float64, float64, as float64.
        """
    @staticmethod
    def dadd_rz(x: Any, y: Any) -> Any:
        """
        add.rz of float64, float64, as float64.
        """
    @staticmethod
    def ddiv_rd(x: Any, y: Any) -> Any:
        """
        div.rm of float64, float64, as float64.
        """
    @staticmethod
    def ddiv_rn(x: Any, y: Any) -> Any:
        """
        div.f64 of float64, float64, as float64.
        """
    @staticmethod
    def ddiv_ru(x: Any, y: Any) -> Any:
        """
        div.rp of float64, float64, as float64.
        """
    @staticmethod
    def ddiv_rz(x: Any, y: Any) -> Any:
        """
        div.rz of float64, float64, as float64.
        """
    @staticmethod
    def dmul_rd(x: Any, y: Any) -> Any:
        """
        mul.rm of float64, float64, as float64.
        """
    @staticmethod
    def dmul_rn(x: Any, y: Any) -> Any:
        """
        mul.f64 of float64, float64, as float64.
        """
    @staticmethod
    def dmul_ru(x: Any, y: Any) -> Any:
        """
        mul.rp of float64, float64, as float64.
        """
    @staticmethod
    def dmul_rz(x: Any, y: Any) -> Any:
        """
        mul.rz of float64, float64, as float64.
        """
    @staticmethod
    def double2float_rd(x: Any) -> Any:
        """
        double2float_rd of float64, as float32.
        """
    @staticmethod
    def double2float_rn(x: Any) -> Any:
        """
        cvt.f32.f64 of float64, as float32.
        """
    @staticmethod
    def double2float_ru(x: Any) -> Any:
        """
        double2float_ru of float64, as float32.
        """
    @staticmethod
    def double2float_rz(x: Any) -> Any:
        """
        double2float_rz of float64, as float32.
        """
    @staticmethod
    def double2hiint(x: Any) -> Any:
        """
        double2hiint of float64, as int32.
        """
    @staticmethod
    def double2int_rd(x: Any) -> Any:
        """
        cvt.rmi.s32.f64 of float64, as int32.
        """
    @staticmethod
    def double2int_rn(x: Any) -> Any:
        """
        cvt.rni.s32.f64 of float64, as int32.
        """
    @staticmethod
    def double2int_ru(x: Any) -> Any:
        """
        cvt.rpi.s32.f64 of float64, as int32.
        """
    @staticmethod
    def double2int_rz(x: Any) -> Any:
        """
        cvt.rzi.s32.f64 of float64, as int32.
        """
    @staticmethod
    def double2ll_rd(x: Any) -> Any:
        """
        cvt.rmi.s64.f64 of float64, as int64.
        """
    @staticmethod
    def double2ll_rn(x: Any) -> Any:
        """
        cvt.rni.s64.f64 of float64, as int64.
        """
    @staticmethod
    def double2ll_ru(x: Any) -> Any:
        """
        cvt.rpi.s64.f64 of float64, as int64.
        """
    @staticmethod
    def double2ll_rz(x: Any) -> Any:
        """
        cvt.rzi.s64.f64 of float64, as int64.
        """
    @staticmethod
    def double2loint(x: Any) -> Any:
        """
        double2loint of float64, as int32.
        """
    @staticmethod
    def double2uint_rd(x: Any) -> Any:
        """
        cvt.rmi.u32.f64 of float64, as int32.
        """
    @staticmethod
    def double2uint_rn(x: Any) -> Any:
        """
        cvt.rni.u32.f64 of float64, as int32.
        """
    @staticmethod
    def double2uint_ru(x: Any) -> Any:
        """
        cvt.rpi.u32.f64 of float64, as int32.
        """
    @staticmethod
    def double2uint_rz(x: Any) -> Any:
        """
        cvt.rzi.u32.f64 of float64, as int32.
        """
    @staticmethod
    def double2ull_rd(x: Any) -> Any:
        """
        cvt.rmi.u64.f64 of float64, as int64.
        """
    @staticmethod
    def double2ull_rn(x: Any) -> Any:
        """
        cvt.rni.u64.f64 of float64, as int64.
        """
    @staticmethod
    def double2ull_ru(x: Any) -> Any:
        """
        cvt.rpi.u64.f64 of float64, as int64.
        """
    @staticmethod
    def double2ull_rz(x: Any) -> Any:
        """
        cvt.rzi.u64.f64 of float64, as int64.
        """
    @staticmethod
    def double_as_longlong(x: Any) -> Any:
        """
        bits of float64, as int64.
        """
    @staticmethod
    def drcp_rd(x: Any) -> Any:
        """
        rcp.rm of float64, as float64.
        """
    @staticmethod
    def drcp_rn(x: Any) -> Any:
        """
        rcp.f64 of float64, as float64.
        """
    @staticmethod
    def drcp_ru(x: Any) -> Any:
        """
        rcp.rp of float64, as float64.
        """
    @staticmethod
    def drcp_rz(x: Any) -> Any:
        """
        rcp.rz of float64, as float64.
        """
    @staticmethod
    def dsqrt_rd(x: Any) -> Any:
        """
        sqrt.rm of float64, as float64.
        """
    @staticmethod
    def dsqrt_rn(x: Any) -> Any:
        """
        sqrt.f64 of float64, as float64.
        """
    @staticmethod
    def dsqrt_ru(x: Any) -> Any:
        """
        sqrt.rp of float64, as float64.
        """
    @staticmethod
    def dsqrt_rz(x: Any) -> Any:
        """
        sqrt.rz of float64, as float64.
        """
    @staticmethod
    def erf(x: Any) -> Any:
        """
        erf.f64 of float64, as float64.
        """
    @staticmethod
    def erfc(x: Any) -> Any:
        """
        erfc.f64 of float64, as float64.
        """
    @staticmethod
    def erfcf(x: Any) -> Any:
        """
        erfc.f32 of float32, as float32.
        """
    @staticmethod
    def erfcinv(x: Any) -> Any:
        """
        erfcinv of float64, as float64.
        """
    @staticmethod
    def erfcinvf(x: Any) -> Any:
        """
        erfcinv of float32, as float32.
        """
    @staticmethod
    def erfcx(x: Any) -> Any:
        """
        erfcx of float64, as float64.
        """
    @staticmethod
    def erfcxf(x: Any) -> Any:
        """
        erfcx of float32, as float32.
        """
    @staticmethod
    def erff(x: Any) -> Any:
        """
        erf.f32 of float32, as float32.
        """
    @staticmethod
    def erfinv(x: Any) -> Any:
        """
        erfinv of float64, as float64.
        """
    @staticmethod
    def erfinvf(x: Any) -> Any:
        """
        erfinv of float32, as float32.
        """
    @staticmethod
    def exp(x: Any) -> Any:
        """
        exp.f64 of float64, as float64.
        """
    @staticmethod
    def exp10(x: Any) -> Any:
        """
        exp10 of float64, as float64.
        """
    @staticmethod
    def exp10f(x: Any) -> Any:
        """
        exp10 of float32, as float32.
        """
    @staticmethod
    def exp2(x: Any) -> Any:
        """
        exp2.f64 of float64, as float64.
        """
    @staticmethod
    def exp2f(x: Any) -> Any:
        """
        exp2.f32 of float32, as float32.
        """
    @staticmethod
    def expf(x: Any) -> Any:
        """
        exp.f32 of float32, as float32.
        """
    @staticmethod
    def expm1(x: Any) -> Any:
        """
        expm1.f64 of float64, as float64.
        """
    @staticmethod
    def expm1f(x: Any) -> Any:
        """
        expm1.f32 of float32, as float32.
        """
    @staticmethod
    def fabs(x: Any) -> Any:
        """
        abs.f64 of float64, as float64.
        """
    @staticmethod
    def fabsf(x: Any) -> Any:
        """
        abs.f32 of float32, as float32.
        """
    @staticmethod
    def fadd_rd(x: Any, y: Any) -> Any:
        """
        add.rm of float32, float32, as float32.
        """
    @staticmethod
    def fadd_rn(x: Any, y: Any) -> Any:
        """
        add.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fadd_ru(x: Any, y: Any) -> Any:
        """
        add.rp of float32, float32, as float32.
        """
    @staticmethod
    def fadd_rz(x: Any, y: Any) -> Any:
        """
        add.rz of float32, float32, as float32.
        """
    @staticmethod
    def fast_cosf(x: Any) -> Any:
        """
        cos.f32 of float32, as float32.
        """
    @staticmethod
    def fast_exp10f(x: Any) -> Any:
        """
        exp10 of float32, as float32.
        """
    @staticmethod
    def fast_expf(x: Any) -> Any:
        """
        exp.f32 of float32, as float32.
        """
    @staticmethod
    def fast_fdividef(x: Any, y: Any) -> Any:
        """
        div.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fast_log10f(x: Any) -> Any:
        """
        log10.f32 of float32, as float32.
        """
    @staticmethod
    def fast_log2f(x: Any) -> Any:
        """
        log2.f32 of float32, as float32.
        """
    @staticmethod
    def fast_logf(x: Any) -> Any:
        """
        log.f32 of float32, as float32.
        """
    @staticmethod
    def fast_powf(x: Any, y: Any) -> Any:
        """
        pow.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fast_sincosf(x: Any) -> Any:
        """
        sincos of float32, as float32 and float32.
        """
    @staticmethod
    def fast_sinf(x: Any) -> Any:
        """
        sin.f32 of float32, as float32.
        """
    @staticmethod
    def fast_tanf(x: Any) -> Any:
        """
        tan.f32 of float32, as float32.
        """
    @staticmethod
    def fdim(x: Any, y: Any) -> Any:
        """
        fdim of float64, float64, as float64.
        """
    @staticmethod
    def fdimf(x: Any, y: Any) -> Any:
        """
        fdim of float32, float32, as float32.
        """
    @staticmethod
    def fdiv_rd(x: Any, y: Any) -> Any:
        """
        div.rm of float32, float32, as float32.
        """
    @staticmethod
    def fdiv_rn(x: Any, y: Any) -> Any:
        """
        div.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fdiv_ru(x: Any, y: Any) -> Any:
        """
        div.rp of float32, float32, as float32.
        """
    @staticmethod
    def fdiv_rz(x: Any, y: Any) -> Any:
        """
        div.rz of float32, float32, as float32.
        """
    @staticmethod
    def ffs(x: Any) -> Any:
        """
        ffs.b32 of int32, as int32.
        """
    @staticmethod
    def ffsll(x: Any) -> Any:
        """
        ffs.b64 of int64, as int32.
        """
    @staticmethod
    def finitef(x: Any) -> Any:
        """
        isfinite of float32, as int32.
        """
    @staticmethod
    def float2half_rn(x: Any) -> Any:
        """
        float2half of float32, as int16.
        """
    @staticmethod
    def float2int_rd(x: Any) -> Any:
        """
        cvt.rmi.s32.f32 of float32, as int32.
        """
    @staticmethod
    def float2int_rn(x: Any) -> Any:
        """
        cvt.rni.s32.f32 of float32, as int32.
        """
    @staticmethod
    def float2int_ru(x: Any) -> Any:
        """
        cvt.rpi.s32.f32 of float32, as int32.
        """
    @staticmethod
    def float2int_rz(x: Any) -> Any:
        """
        cvt.rzi.s32.f32 of float32, as int32.
        """
    @staticmethod
    def float2ll_rd(x: Any) -> Any:
        """
        cvt.rmi.s64.f32 of float32, as int64.
        """
    @staticmethod
    def float2ll_rn(x: Any) -> Any:
        """
        cvt.rni.s64.f32 of float32, as int64.
        """
    @staticmethod
    def float2ll_ru(x: Any) -> Any:
        """
        cvt.rpi.s64.f32 of float32, as int64.
        """
    @staticmethod
    def float2ll_rz(x: Any) -> Any:
        """
        cvt.rzi.s64.f32 of float32, as int64.
        """
    @staticmethod
    def float2uint_rd(x: Any) -> Any:
        """
        cvt.rmi.u32.f32 of float32, as int32.
        """
    @staticmethod
    def float2uint_rn(x: Any) -> Any:
        """
        cvt.rni.u32.f32 of float32, as int32.
        """
    @staticmethod
    def float2uint_ru(x: Any) -> Any:
        """
        cvt.rpi.u32.f32 of float32, as int32.
        """
    @staticmethod
    def float2uint_rz(x: Any) -> Any:
        """
        cvt.rzi.u32.f32 of float32, as int32.
        """
    @staticmethod
    def float2ull_rd(x: Any) -> Any:
        """
        cvt.rmi.u64.f32 of float32, as int64.
        """
    @staticmethod
    def float2ull_rn(x: Any) -> Any:
        """
        cvt.rni.u64.f32 of float32, as int64.
        """
    @staticmethod
    def float2ull_ru(x: Any) -> Any:
        """
        cvt.rpi.u64.f32 of float32, as int64.
        """
    @staticmethod
    def float2ull_rz(x: Any) -> Any:
        """
        cvt.rzi.u64.f32 of float32, as int64.
        """
    @staticmethod
    def float_as_int(x: Any) -> Any:
        """
        bits of float32, as int32.
        """
    @staticmethod
    def floor(x: Any) -> Any:
        """
        cvt.rmi.f64.f64 of float64, as float64.
        """
    @staticmethod
    def floorf(x: Any) -> Any:
        """
        cvt.rmi.f32.f32 of float32, as float32.
        """
    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> Any:
        """
        fma.f64 of float64, float64, float64, as float64.
        """
    @staticmethod
    def fma_rd(x: Any, y: Any, z: Any) -> Any:
        """
        fma.rm of float64, float64, float64, as float64.
        """
    @staticmethod
    def fma_rn(x: Any, y: Any, z: Any) -> Any:
        """
        fma.f64 of float64, float64, float64, as float64.
        """
    @staticmethod
    def fma_ru(x: Any, y: Any, z: Any) -> Any:
        """
        fma.rp of float64, float64, float64, as float64.
        """
    @staticmethod
    def fma_rz(x: Any, y: Any, z: Any) -> Any:
        """
        fma.rz of float64, float64, float64, as float64.
        """
    @staticmethod
    def fmaf(x: Any, y: Any, z: Any) -> Any:
        """
        fma.f32 of float32, float32, float32, as float32.
        """
    @staticmethod
    def fmaf_rd(x: Any, y: Any, z: Any) -> Any:
        """
        fma.rm of float32, float32, float32, as float32.
        """
    @staticmethod
    def fmaf_rn(x: Any, y: Any, z: Any) -> Any:
        """
        fma.f32 of float32, float32, float32, as float32.
        """
    @staticmethod
    def fmaf_ru(x: Any, y: Any, z: Any) -> Any:
        """
        fma.rp of float32, float32, float32, as float32.
        """
    @staticmethod
    def fmaf_rz(x: Any, y: Any, z: Any) -> Any:
        """
        fma.rz of float32, float32, float32, as float32.
        """
    @staticmethod
    def fmax(x: Any, y: Any) -> Any:
        """
        max.f64 of float64, float64, as float64.
        """
    @staticmethod
    def fmaxf(x: Any, y: Any) -> Any:
        """
        max.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fmin(x: Any, y: Any) -> Any:
        """
        min.f64 of float64, float64, as float64.
        """
    @staticmethod
    def fminf(x: Any, y: Any) -> Any:
        """
        min.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fmod(x: Any, y: Any) -> Any:
        """
        fmod.f64 of float64, float64, as float64.
        """
    @staticmethod
    def fmodf(x: Any, y: Any) -> Any:
        """
        fmod.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fmul_rd(x: Any, y: Any) -> Any:
        """
        mul.rm of float32, float32, as float32.
        """
    @staticmethod
    def fmul_rn(x: Any, y: Any) -> Any:
        """
        mul.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fmul_ru(x: Any, y: Any) -> Any:
        """
        mul.rp of float32, float32, as float32.
        """
    @staticmethod
    def fmul_rz(x: Any, y: Any) -> Any:
        """
        mul.rz of float32, float32, as float32.
        """
    @staticmethod
    def frcp_rd(x: Any) -> Any:
        """
        rcp.rm of float32, as float32.
        """
    @staticmethod
    def frcp_rn(x: Any) -> Any:
        """
        rcp.f32 of float32, as float32.
        """
    @staticmethod
    def frcp_ru(x: Any) -> Any:
        """
        rcp.rp of float32, as float32.
        """
    @staticmethod
    def frcp_rz(x: Any) -> Any:
        """
        rcp.rz of float32, as float32.
        """
    @staticmethod
    def frexp(x: Any) -> Any:
        """
        frexp of float64, as float64 and int32.
        """
    @staticmethod
    def frexpf(x: Any) -> Any:
        """
        frexp of float32, as float32 and int32.
        """
    @staticmethod
    def frsqrt_rn(x: Any) -> Any:
        """
        rsqrt.f32 of float32, as float32.
        """
    @staticmethod
    def fsqrt_rd(x: Any) -> Any:
        """
        sqrt.rm of float32, as float32.
        """
    @staticmethod
    def fsqrt_rn(x: Any) -> Any:
        """
        sqrt.f32 of float32, as float32.
        """
    @staticmethod
    def fsqrt_ru(x: Any) -> Any:
        """
        sqrt.rp of float32, as float32.
        """
    @staticmethod
    def fsqrt_rz(x: Any) -> Any:
        """
        sqrt.rz of float32, as float32.
        """
    @staticmethod
    def fsub_rd(x: Any, y: Any) -> Any:
        """
        sub.rm of float32, float32, as float32.
        """
    @staticmethod
    def fsub_rn(x: Any, y: Any) -> Any:
        """
        sub.f32 of float32, float32, as float32.
        """
    @staticmethod
    def fsub_ru(x: Any, y: Any) -> Any:
        """
        sub.rp of float32, float32, as float32.
        """
    @staticmethod
    def fsub_rz(x: Any, y: Any) -> Any:
        """
        sub.rz of float32, float32, as float32.
        """
    @staticmethod
    def hadd(x: Any, y: Any) -> Any:
        """
        hadd of int32, int32, as int32.
        """
    @staticmethod
    def half2float(x: Any) -> Any:
        """
        half2float of int16, as float32.
        """
    @staticmethod
    def hiloint2double(x: Any, y: Any) -> Any:
        """
        hiloint2double of int32, int32, as float64.
        """
    @staticmethod
    def hypot(x: Any, y: Any) -> Any:
        """
        hypot.f64 of float64, float64, as float64.
        """
    @staticmethod
    def hypotf(x: Any, y: Any) -> Any:
        """
        hypot.f32 of float32, float32, as float32.
        """
    @staticmethod
    def ilogb(x: Any) -> Any:
        """
        ilogb of float64, as int32.
        """
    @staticmethod
    def ilogbf(x: Any) -> Any:
        """
        ilogb of float32, as int32.
        """
    @staticmethod
    def int2double_rn(x: Any) -> Any:
        """
        cvt.rn.f64.s32 of int32, as float64.
        """
    @staticmethod
    def int2float_rd(x: Any) -> Any:
        """
        to_float_rd of int32, as float32.
        """
    @staticmethod
    def int2float_rn(x: Any) -> Any:
        """
        cvt.rn.f32.s32 of int32, as float32.
        """
    @staticmethod
    def int2float_ru(x: Any) -> Any:
        """
        to_float_ru of int32, as float32.
        """
    @staticmethod
    def int2float_rz(x: Any) -> Any:
        """
        to_float_rz of int32, as float32.
        """
    @staticmethod
    def int_as_float(x: Any) -> Any:
        """
        bits of int32, as float32.
        """
    @staticmethod
    def isfinited(x: Any) -> Any:
        """
        isfinite of float64, as int32.
        """
    @staticmethod
    def isinfd(x: Any) -> Any:
        """
        isinf of float64, as int32.
        """
    @staticmethod
    def isinff(x: Any) -> Any:
        """
        isinf of float32, as int32.
        """
    @staticmethod
    def isnand(x: Any) -> Any:
        """
        isnan of float64, as int32.
        """
    @staticmethod
    def isnanf(x: Any) -> Any:
        """
        isnan of float32, as int32.
        """
    @staticmethod
    def j0(x: Any) -> Any:
        """
        j0 of float64, as float64.
        """
    @staticmethod
    def j0f(x: Any) -> Any:
        """
        j0 of float32, as float32.
        """
    @staticmethod
    def j1(x: Any) -> Any:
        """
        j1 of float64, as float64.
        """
    @staticmethod
    def j1f(x: Any) -> Any:
        """
        j1 of float32, as float32.
        """
    @staticmethod
    def jn(x: Any, y: Any) -> Any:
        """
        jn of int32, float64, as float64.
        """
    @staticmethod
    def jnf(x: Any, y: Any) -> Any:
        """
        jn of int32, float32, as float32.
        """
    @staticmethod
    def ldexp(x: Any, y: Any) -> Any:
        """
        ldexp of float64, int32, as float64.
        """
    @staticmethod
    def ldexpf(x: Any, y: Any) -> Any:
        """
        ldexp of float32, int32, as float32.
        """
    @staticmethod
    def lgamma(x: Any) -> Any:
        """
        lgamma.f64 of float64, as float64.
        """
    @staticmethod
    def lgammaf(x: Any) -> Any:
        """
        lgamma.f32 of float32, as float32.
        """
    @staticmethod
    def ll2double_rd(x: Any) -> Any:
        """
        to_double_rd of int64, as float64.
        """
    @staticmethod
    def ll2double_rn(x: Any) -> Any:
        """
        cvt.rn.f64.s64 of int64, as float64.
        """
    @staticmethod
    def ll2double_ru(x: Any) -> Any:
        """
        to_double_ru of int64, as float64.
        """
    @staticmethod
    def ll2double_rz(x: Any) -> Any:
        """
        to_double_rz of int64, as float64.
        """
    @staticmethod
    def ll2float_rd(x: Any) -> Any:
        """
        to_float_rd of int64, as float32.
        """
    @staticmethod
    def ll2float_rn(x: Any) -> Any:
        """
        cvt.rn.f32.s64 of int64, as float32.
        """
    @staticmethod
    def ll2float_ru(x: Any) -> Any:
        """
        to_float_ru of int64, as float32.
        """
    @staticmethod
    def ll2float_rz(x: Any) -> Any:
        """
        to_float_rz of int64, as float32.
        """
    @staticmethod
    def llabs(x: Any) -> Any:
        """
        abs.s64 of int64, as int64.
        """
    @staticmethod
    def llmax(x: Any, y: Any) -> Any:
        """
        max.s64 of int64, int64, as int64.
        """
    @staticmethod
    def llmin(x: Any, y: Any) -> Any:
        """
        min.s64 of int64, int64, as int64.
        """
    @staticmethod
    def llrint(x: Any) -> Any:
        """
        llrint of float64, as int64.
        """
    @staticmethod
    def llrintf(x: Any) -> Any:
        """
        llrint of float32, as int64.
        """
    @staticmethod
    def llround(x: Any) -> Any:
        """
        llround of float64, as int64.
        """
    @staticmethod
    def llroundf(x: Any) -> Any:
        """
        llround of float32, as int64.
        """
    @staticmethod
    def log(x: Any) -> Any:
        """
        log.f64 of float64, as float64.
        """
    @staticmethod
    def log10(x: Any) -> Any:
        """
        log10.f64 of float64, as float64.
        """
    @staticmethod
    def log10f(x: Any) -> Any:
        """
        log10.f32 of float32, as float32.
        """
    @staticmethod
    def log1p(x: Any) -> Any:
        """
        log1p.f64 of float64, as float64.
        """
    @staticmethod
    def log1pf(x: Any) -> Any:
        """
        log1p.f32 of float32, as float32.
        """
    @staticmethod
    def log2(x: Any) -> Any:
        """
        log2.f64 of float64, as float64.
        """
    @staticmethod
    def log2f(x: Any) -> Any:
        """
        log2.f32 of float32, as float32.
        """
    @staticmethod
    def logb(x: Any) -> Any:
        """
        logb of float64, as float64.
        """
    @staticmethod
    def logbf(x: Any) -> Any:
        """
        logb of float32, as float32.
        """
    @staticmethod
    def logf(x: Any) -> Any:
        """
        log.f32 of float32, as float32.
        """
    @staticmethod
    def longlong_as_double(x: Any) -> Any:
        """
        bits of int64, as float64.
        """
    @staticmethod
    def max(x: Any, y: Any) -> Any:
        """
        max.s32 of int32, int32, as int32.
        """
    @staticmethod
    def min(x: Any, y: Any) -> Any:
        """
        min.s32 of int32, int32, as int32.
        """
    @staticmethod
    def modf(x: Any) -> Any:
        """
        modf of float64, as float64 and float64.
        """
    @staticmethod
    def modff(x: Any) -> Any:
        """
        modf of float32, as float32 and float32.
        """
    @staticmethod
    def mul24(x: Any, y: Any) -> Any:
        """
        mul24 of int32, int32, as int32.
        """
    @staticmethod
    def mul64hi(x: Any, y: Any) -> Any:
        """
        mulhi.s64 of int64, int64, as int64.
        """
    @staticmethod
    def mulhi(x: Any, y: Any) -> Any:
        """
        mulhi.s32 of int32, int32, as int32.
        """
    @staticmethod
    def nearbyint(x: Any) -> Any:
        """
        cvt.rni.f64.f64 of float64, as float64.
        """
    @staticmethod
    def nearbyintf(x: Any) -> Any:
        """
        cvt.rni.f32.f32 of float32, as float32.
        """
    @staticmethod
    def nextafter(x: Any, y: Any) -> Any:
        """
        nextafter of float64, float64, as float64.
        """
    @staticmethod
    def nextafterf(x: Any, y: Any) -> Any:
        """
        nextafter of float32, float32, as float32.
        """
    @staticmethod
    def normcdf(x: Any) -> Any:
        """
        normcdf of float64, as float64.
        """
    @staticmethod
    def normcdff(x: Any) -> Any:
        """
        normcdf of float32, as float32.
        """
    @staticmethod
    def normcdfinv(x: Any) -> Any:
        """
        normcdfinv of float64, as float64.
        """
    @staticmethod
    def normcdfinvf(x: Any) -> Any:
        """
        normcdfinv of float32, as float32.
        """
    @staticmethod
    def popc(x: Any) -> Any:
        """
        popc.b32 of int32, as int32.
        """
    @staticmethod
    def popcll(x: Any) -> Any:
        """
        popc.b64 of int64, as int32.
        """
    @staticmethod
    def pow(x: Any, y: Any) -> Any:
        """
        pow.f64 of float64, float64, as float64.
        """
    @staticmethod
    def powf(x: Any, y: Any) -> Any:
        """
        pow.f32 of float32, float32, as float32.
        """
    @staticmethod
    def powi(x: Any, y: Any) -> Any:
        """
        powi of float64, int32, as float64.
        """
    @staticmethod
    def powif(x: Any, y: Any) -> Any:
        """
        powi of float32, int32, as float32.
        """
    @staticmethod
    def rcbrt(x: Any) -> Any:
        """
        rcbrt of float64, as float64.
        """
    @staticmethod
    def rcbrtf(x: Any) -> Any:
        """
        rcbrt of float32, as float32.
        """
    @staticmethod
    def remainder(x: Any, y: Any) -> Any:
        """
        remainder of float64, float64, as float64.
        """
    @staticmethod
    def remainderf(x: Any, y: Any) -> Any:
        """
        remainder of float32, float32, as float32.
        """
    @staticmethod
    def remquo(x: Any, y: Any) -> Any:
        """
        remquo of float64, float64, as float64 and int32.
        """
    @staticmethod
    def remquof(x: Any, y: Any) -> Any:
        """
        remquo of float32, float32, as float32 and int32.
        """
    @staticmethod
    def rhadd(x: Any, y: Any) -> Any:
        """
        rhadd of int32, int32, as int32.
        """
    @staticmethod
    def rint(x: Any) -> Any:
        """
        cvt.rni.f64.f64 of float64, as float64.
        """
    @staticmethod
    def rintf(x: Any) -> Any:
        """
        cvt.rni.f32.f32 of float32, as float32.
        """
    @staticmethod
    def round(x: Any) -> Any:
        """
        round of float64, as float64.
        """
    @staticmethod
    def roundf(x: Any) -> Any:
        """
        round of float32, as float32.
        """
    @staticmethod
    def rsqrt(x: Any) -> Any:
        """
        rsqrt.f64 of float64, as float64.
        """
    @staticmethod
    def rsqrtf(x: Any) -> Any:
        """
        rsqrt.f32 of float32, as float32.
        """
    @staticmethod
    def sad(x: Any, y: Any, z: Any) -> Any:
        """
        sad of int32, int32, int32, as int32.
        """
    @staticmethod
    def saturatef(x: Any) -> Any:
        """
        saturate of float32, as float32.
        """
    @staticmethod
    def scalbn(x: Any, y: Any) -> Any:
        """
        ldexp of float64, int32, as float64.
        """
    @staticmethod
    def scalbnf(x: Any, y: Any) -> Any:
        """
        ldexp of float32, int32, as float32.
        """
    @staticmethod
    def signbitd(x: Any) -> Any:
        """
        signbit of float64, as int32.
        """
    @staticmethod
    def signbitf(x: Any) -> Any:
        """
        signbit of float32, as int32.
        """
    @staticmethod
    def sin(x: Any) -> Any:
        """
        sin.f64 of float64, as float64.
        """
    @staticmethod
    def sincos(x: Any) -> Any:
        """
        sincos of float64, as float64 and float64.
        """
    @staticmethod
    def sincosf(x: Any) -> Any:
        """
        sincos of float32, as float32 and float32.
        """
    @staticmethod
    def sincospi(x: Any) -> Any:
        """
        sincospi of float64, as float64 and float64.
        """
    @staticmethod
    def sincospif(x: Any) -> Any:
        """
        sincospi of float32, as float32 and float32.
        """
    @staticmethod
    def sinf(x: Any) -> Any:
        """
        sin.f32 of float32, as float32.
        """
    @staticmethod
    def sinh(x: Any) -> Any:
        """
        sinh.f64 of float64, as float64.
        """
    @staticmethod
    def sinhf(x: Any) -> Any:
        """
        sinh.f32 of float32, as float32.
        """
    @staticmethod
    def sinpi(x: Any) -> Any:
        """
        sinpi of float64, as float64.
        """
    @staticmethod
    def sinpif(x: Any) -> Any:
        """
        sinpi of float32, as float32.
        """
    @staticmethod
    def sqrt(x: Any) -> Any:
        """
        sqrt.f64 of float64, as float64.
        """
    @staticmethod
    def sqrtf(x: Any) -> Any:
        """
        sqrt.f32 of float32, as float32.
        """
    @staticmethod
    def tan(x: Any) -> Any:
        """
        tan.f64 of float64, as float64.
        """
    @staticmethod
    def tanf(x: Any) -> Any:
        """
        tan.f32 of float32, as float32.
        """
    @staticmethod
    def tanh(x: Any) -> Any:
        """
        tanh.f64 of float64, as float64.
        """
    @staticmethod
    def tanhf(x: Any) -> Any:
        """
        tanh.f32 of float32, as float32.
        """
    @staticmethod
    def tgamma(x: Any) -> Any:
        """
        tgamma.f64 of float64, as float64.
        """
    @staticmethod
    def tgammaf(x: Any) -> Any:
        """
        tgamma.f32 of float32, as float32.
        """
    @staticmethod
    def trunc(x: Any) -> Any:
        """
        cvt.rzi.f64.f64 of float64, as float64.
        """
    @staticmethod
    def truncf(x: Any) -> Any:
        """
        cvt.rzi.f32.f32 of float32, as float32.
        """
    @staticmethod
    def uhadd(x: Any, y: Any) -> Any:
        """
        hadd of int32, int32, as int32.
        """
    @staticmethod
    def uint2double_rn(x: Any) -> Any:
        """
        cvt.rn.f64.u32 of int32, as float64.
        """
    @staticmethod
    def uint2float_rd(x: Any) -> Any:
        """
        to_float_rd of int32, as float32.
        """
    @staticmethod
    def uint2float_rn(x: Any) -> Any:
        """
        cvt.rn.f32.u32 of int32, as float32.
        """
    @staticmethod
    def uint2float_ru(x: Any) -> Any:
        """
        to_float_ru of int32, as float32.
        """
    @staticmethod
    def uint2float_rz(x: Any) -> Any:
        """
        to_float_rz of int32, as float32.
        """
    @staticmethod
    def ull2double_rd(x: Any) -> Any:
        """
        to_double_rd of int64, as float64.
        """
    @staticmethod
    def ull2double_rn(x: Any) -> Any:
        """
        cvt.rn.f64.u64 of int64, as float64.
        """
    @staticmethod
    def ull2double_ru(x: Any) -> Any:
        """
        to_double_ru of int64, as float64.
        """
    @staticmethod
    def ull2double_rz(x: Any) -> Any:
        """
        to_double_rz of int64, as float64.
        """
    @staticmethod
    def ull2float_rd(x: Any) -> Any:
        """
        to_float_rd of int64, as float32.
        """
    @staticmethod
    def ull2float_rn(x: Any) -> Any:
        """
        cvt.rn.f32.u64 of int64, as float32.
        """
    @staticmethod
    def ull2float_ru(x: Any) -> Any:
        """
        to_float_ru of int64, as float32.
        """
    @staticmethod
    def ull2float_rz(x: Any) -> Any:
        """
        to_float_rz of int64, as float32.
        """
    @staticmethod
    def ullmax(x: Any, y: Any) -> Any:
        """
        max.u64 of int64, int64, as int64.
        """
    @staticmethod
    def ullmin(x: Any, y: Any) -> Any:
        """
        min.u64 of int64, int64, as int64.
        """
    @staticmethod
    def umax(x: Any, y: Any) -> Any:
        """
        max.u32 of int32, int32, as int32.
        """
    @staticmethod
    def umin(x: Any, y: Any) -> Any:
        """
        min.u32 of int32, int32, as int32.
        """
    @staticmethod
    def umul24(x: Any, y: Any) -> Any:
        """
        umul24 of int32, int32, as int32.
        """
    @staticmethod
    def umul64hi(x: Any, y: Any) -> Any:
        """
        mulhi.u64 of int64, int64, as int64.
        """
    @staticmethod
    def umulhi(x: Any, y: Any) -> Any:
        """
        mulhi.u32 of int32, int32, as int32.
        """
    @staticmethod
    def urhadd(x: Any, y: Any) -> Any:
        """
        rhadd of int32, int32, as int32.
        """
    @staticmethod
    def usad(x: Any, y: Any, z: Any) -> Any:
        """
        sad of int32, int32, int32, as int32.
        """
    @staticmethod
    def y0(x: Any) -> Any:
        """
        y0 of float64, as float64.
        """
    @staticmethod
    def y0f(x: Any) -> Any:
        """
        y0 of float32, as float32.
        """
    @staticmethod
    def y1(x: Any) -> Any:
        """
        y1 of float64, as float64.
        """
    @staticmethod
    def y1f(x: Any) -> Any:
        """
        y1 of float32, as float32.
        """
    @staticmethod
    def yn(x: Any, y: Any) -> Any:
        """
        yn of int32, float64, as float64.
        """
    @staticmethod
    def ynf(x: Any, y: Any) -> Any:
        """
        yn of int32, float32, as float32.
        """
class types:
    """
    Number types by Numba's names; any other of Numba's types.
    """
    bfloat16: Final[ScalarType]
    boolean: Final[ScalarType]
    complex128: Final[ScalarType]
    complex64: Final[ScalarType]
    float16: Final[ScalarType]
    float32: Final[ScalarType]
    float64: Final[ScalarType]
    int16: Final[ScalarType]
    int32: Final[ScalarType]
    int64: Final[ScalarType]
    int8: Final[ScalarType]
    uint16: Final[ScalarType]
    uint32: Final[ScalarType]
    uint64: Final[ScalarType]
    uint8: Final[ScalarType]
