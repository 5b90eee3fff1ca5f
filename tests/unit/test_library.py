"""What kernels call: result types as Numba-CUDA's, the operations that come out, and messages."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from wsemu import cuda, ptx
from wsemu.frontend.assemble.graph import Graph
from wsemu.frontend.python.library import lookup as library
from wsemu.frontend.python.scalars import constant, literal
from wsemu.frontend.python.values import ArrayValue, ComplexValue, RangeValue, Scalar, Static, TupleValue, Value
from wsemu.host import driver as host
from wsemu.language.numbers import NUMBERS, boolean, float32, float64, int32, int64
from wsemu.model.errors import KernelError, UsageError
from wsemu.model.isa import OPERATIONS


class Emitted:
    """A builder that keeps the names of what is emitted."""

    def __init__(self) -> None:
        self.graph = Graph("test")
        self.operations: list[str] = []
        self.details: list[dict[str, Any]] = []

    def emit(self, operation: str, *operands: int, immediate: int = 0) -> int:
        self.operations.append(operation)
        return self.graph.new(OPERATIONS[operation].result)

    def effect(self, operation: str, operands: Any = (), results: Any = (), **details: Any) -> tuple[int, ...]:
        self.operations.append(operation)
        self.details.append({"operands": operands, **details})
        return tuple(self.graph.new(t) for t in results)

    def constant(self, type_: str, value: float) -> int:
        return self.graph.constant(type_, value)

    def special(self, name: str) -> int:
        return self.graph.special(name)


def call(function: object, *arguments: Value, b: Any = None, **named: Value) -> Any:
    handler = library.find(function)
    assert handler is not None
    builder: Any = b or Emitted()
    return handler(library.Call(builder, list(arguments), named))


def unknown(b: Emitted, name: str) -> Any:
    type_ = NUMBERS[name]
    if type_.kind == "c":
        part = float32 if type_.bits == 64 else float64
        return ComplexValue(type_, *(Scalar(part, b.graph.new(part.register)) for _ in range(2)))
    return Scalar(type_, b.graph.new(type_.register))


def type_of(value: Any) -> str:
    return f"({','.join(type_of(i) for i in value.items)})" if isinstance(value, TupleValue) else str(value.type.name)


def array(dtype: str = "f4", ndim: int = 1, stride: int | None = None, writable: bool = True) -> ArrayValue:
    size = np.dtype(dtype).itemsize if stride is None else stride
    strides = tuple(constant(int64, size * 8 ** (ndim - 1 - i)) for i in range(ndim))
    bounds = Scalar(int64, 1), constant(int64, size * 8**ndim)
    return ArrayValue(np.dtype(dtype), 1, (constant(int64, 8),) * ndim, strides, "x", "global", bounds, writable)


TYPES = """
math.sin float32 float32 | math.sin int32 float64 | math.sin uint8 float64 | math.sqrt float16 float16
math.tan float16 float32 | math.floor float32 float32 | math.ceil int64 float64 | math.isnan float32 bool
math.modf float32 (float32,float32) | math.modf int32 (float64,float64) | math.frexp float32 (float32,int32)
math.pow float32 int32 float32 | math.pow float32 int64 float64 | math.pow float32 float32 float32
math.atan2 int32 int32 float64 | math.hypot float32 float32 float32 | math.ldexp float32 int64 float32
math.copysign float32 float64 float64 | math.degrees float32 float32 | math.gamma float64 float64
abs int32 int32 | abs uint8 uint8 | abs bool int8 | abs complex64 float32 | abs float16 float16
min int32 int64 int64 | max float32 int64 float64 | max float32 float32 float32 | min int64 uint64 float64
max int32 uint32 int64 | min int8 int8 int8 | round float32 int64 | int float32 int64
int int8 int8 | int bool int64 | float int32 float64 | float float32 float32 | float bool - | bool float32 bool
complex float32 complex64 | complex int32 complex128 | complex float32 float32 complex64 | complex bool -
divmod int32 int32 (int64,int64) | divmod int64 uint64 (float64,float64) | divmod float32 float32 (float32,float32)
pow float32 int32 float32 | cuda.popc uint32 uint32 | cuda.popc int8 int8 | cuda.clz int64 int64
cuda.ffs int32 uint32 | cuda.ffs int8 - | cuda.brev int32 uint32 | cuda.brev uint64 uint64 | cuda.brev int64 uint32
cuda.cbrt int32 float64 | cuda.fma float32 float32 float32 float32 | cuda.fma float32 float32 int64 float64
cuda.shfl_sync int64 float32 int64 float32 | cuda.shfl_sync int64 uint32 int64 -
cuda.shfl_sync int64 int64 int64 int64 | np.fmin float16 float32 -
cuda.ballot_sync int64 bool int32 | cuda.all_sync int64 int32 bool | cuda.any_sync int64 float32 -
cuda.match_any_sync int64 uint32 int32 | cuda.match_all_sync int64 float64 (int32,bool) | cuda.activemask uint32
cuda.lanemask_lt uint32 | cuda.syncthreads_count int32 int32 | cuda.syncthreads_and int64 int32
cuda.syncthreads_or bool - | cuda.selp bool float32 float32 float32 | cuda.selp bool float32 float64 -
cuda.selp int32 float32 float32 - | np.sin int8 float32 | np.sin int32 float64 | np.sin float16 -
np.maximum int32 float32 float32 | np.maximum int32 int32 int32 | np.bitwise_and int32 int64 int64
np.left_shift int32 int32 int32 | np.less int64 uint64 bool | np.divide int32 int32 float64
np.divide int8 int8 float32
np.float32 int64 float32 | np.int8 float64 int8 | np.bool_ float32 bool | np.uint64 bool uint64
cuda.libdevice.sinf float32 float32 | cuda.libdevice.fmul_rn float32 int32 float32 | cuda.libdevice.abs int32 int32
cuda.libdevice.float_as_int float32 int32 | cuda.fp16.hadd float16 float16 float16 | cuda.fp16.heq float16 float16 bool
cuda.float2 float32 float32 (float32,float32)
"""
NAMES = {"math": math, "np": np, "cuda": cuda}


def named(path: str) -> Any:
    first, *rest = path.split(".")
    found: Any = NAMES[first] if first in NAMES else getattr(__import__("builtins"), first)
    for name in rest:
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("line", [line.strip() for part in TYPES.strip().splitlines() for line in part.split("|")])
def test_result_types_are_numbas(line: str) -> None:
    path, *arguments, expected = line.split()
    b: Any = Emitted()
    operands = [unknown(b, name) for name in arguments]
    if expected == "-":
        with pytest.raises(KernelError):
            call(named(path), *operands, b=b)
    else:
        assert type_of(call(named(path), *operands, b=b)) == expected


def test_every_marker_has_a_meaning() -> None:
    spaces = [cuda, cuda.atomic, cuda.shared, cuda.local, cuda.const, cuda.fp16, cuda.libdevice, ptx]
    markers = [getattr(space, name) for space in spaces for name in dir(space)]
    functions = [m for m in markers if type(m).__name__ == "KernelFunction"]
    assert len(functions) > 250
    assert [m for m in functions if library.find(m) is None] == []


def test_grid_is_an_int64() -> None:
    b: Any = Emitted()
    assert type_of(call(cuda.grid, literal(1), b=b)) == "int64"
    assert b.operations == ["cvt.b64.s32", "madwide.s32"]
    assert type_of(call(cuda.grid, literal(2))) == "(int64,int64)"
    with pytest.raises(KernelError, match=r"`cuda.grid\(4\)` .*give 1, 2 or 3"):
        call(cuda.grid, literal(4))
    with pytest.raises(KernelError, match="must be a constant integer"):
        call(cuda.grid, unknown(b, "int32"))


def test_indices_are_special_registers() -> None:
    b: Any = Emitted()
    value = library.marker_value(b, cuda.threadIdx.y)
    assert value == Scalar(int32, b.graph.specials["tid.y"])
    assert library.marker_value(b, cuda.warpsize) == Scalar(int32, None, 32)
    assert library.marker_value(b, math.pi) is None


@pytest.mark.parametrize(
    ("function", "arguments", "operation", "operands", "aligned"),
    [
        (cuda.syncthreads, (), "bar.sync", 1, 1), (ptx.bar_sync, (1, 64), "bar.sync", 2, 1),
        (ptx.bar_sync, (1,), "bar.sync", 1, 1), (ptx.bar_arrive, (1, 64), "bar.arrive", 2, 1),
        (ptx.barrier_sync, (1, 64), "bar.sync", 2, 0), (ptx.barrier_arrive, (17, 48), "bar.arrive", 2, 0),
        (ptx.bar_red_popc, (1, 64, 1), "bar.red.popc", 3, 1), (ptx.barrier_red_or, (1, 64, 0), "bar.red.or", 3, 0),
    ],
)  # fmt: skip
def test_barriers(function: Any, arguments: Any, operation: str, operands: int, aligned: int) -> None:
    b: Any = Emitted()
    call(function, *(literal(a) for a in arguments), b=b)
    (details,) = b.details
    assert (b.operations[-1], len(details["operands"]), details["auxiliary"]) == (operation, operands, aligned)


def test_a_barrier_reduction_without_a_count() -> None:
    b: Any = Emitted()
    value = call(ptx.bar_red_and, literal(1), Static(None), unknown(b, "bool"), b=b)
    assert value.type is boolean
    assert len(b.details[0]["operands"]) == 2


def test_arrive_needs_a_count() -> None:
    with pytest.raises(KernelError, match=r"`ptx.bar_arrive` lacks `count` .*bar_arrive\(barrier, count\)"):
        call(ptx.bar_arrive, literal(1))


def test_arguments_by_name() -> None:
    b: Any = Emitted()
    call(ptx.bar_sync, count=literal(64), barrier=literal(2), b=b)
    assert b.operations == ["bar.sync"]
    with pytest.raises(KernelError, match="takes no argument `threads`"):
        call(ptx.bar_sync, literal(1), threads=literal(64))
    with pytest.raises(KernelError, match="got 3 arguments"):
        call(ptx.bar_sync, literal(1), literal(2), literal(3))


@pytest.mark.parametrize(
    ("name", "dtype", "operation"),
    [
        ("add", "i4", "atom.add.b32"), ("add", "f8", "atom.add.f64"), ("sub", "f4", "atom.add.f32"),
        ("max", "f4", "atom.max.f32"), ("nanmax", "f4", "atom.nanmax.f32"), ("min", "u4", "atom.min.u32"),
        ("nanmin", "i4", "atom.min.s32"), ("and_", "i8", "atom.and.b64"), ("exch", "u8", "atom.exch.b64"),
        ("inc", "u4", "atom.inc.u32"),
    ],
)  # fmt: skip
def test_atomics(name: str, dtype: str, operation: str) -> None:
    b: Any = Emitted()
    value = call(getattr(cuda.atomic, name), array(dtype), literal(2), literal(3), b=b)
    assert b.operations[-1] == operation
    assert value.type.name == np.dtype(dtype).name
    details = b.details[0]
    assert (details["immediate"], details["array"]) == (2 * np.dtype(dtype).itemsize, "x")


def test_atomics_refuse_other_types() -> None:
    with pytest.raises(
        KernelError, match=r"`cuda\.atomic\.exch` on array `x` of float32 .*int32, uint32, int64, uint64"
    ):
        call(cuda.atomic.exch, array("f4"), literal(0), literal(1))
    with pytest.raises(KernelError, match=r"`cuda\.atomic\.add` on array `x` of int16"):
        call(cuda.atomic.add, array("i2"), literal(0), literal(1))
    with pytest.raises(KernelError, match="array `x` has 2 dimensions, the index 1"):
        call(cuda.atomic.add, array("i4", 2), literal(0), literal(1))
    with pytest.raises(KernelError, match="constant array `x`"):
        call(cuda.atomic.add, array("i4", writable=False), literal(0), literal(1))


def test_vector_accesses() -> None:
    b: Any = Emitted()
    assert type_of(call(ptx.ld_v4, array("f4"), literal(0), b=b)) == "(float32,float32,float32,float32)"
    assert type_of(call(ptx.ld_v2_cg, array("f8"), literal(0), b=b)) == "(float64,float64)"
    call(ptx.st_v4_cs, array("i4"), literal(0), TupleValue((literal(1),) * 4), b=b)
    assert b.operations == ["ld.v4.b32", "ld.v2.b64", "st.v4.b32"]


def test_vector_accesses_that_cannot_be() -> None:
    for source, message in (
        (array("f8"), "32 bytes .*at most 16"), (array("f4", stride=8), "side by side"),
        (array("f4", 2), "2 dimensions"), (array("c8"), "use an array of integers or floats"),
    ):  # fmt: skip
        with pytest.raises(KernelError, match=message):
            call(ptx.ld_v4, source, literal(0))
    with pytest.raises(KernelError, match="give a tuple of 4 numbers"):
        call(ptx.st_v4, array(), literal(0), TupleValue((literal(1),) * 3))


def test_products_that_are_never_fused() -> None:
    b: Any = Emitted()
    x = unknown(b, "float32")
    call(cuda.libdevice.fmul_rn, x, x, b=b)
    call(cuda.libdevice.fadd_rn, x, x, b=b)
    assert b.operations == ["mul.f32", "add.f32"]
    assert [d["auxiliary"] for d in b.details] == [1, 1]


def test_two_floats_compare_as_numbers_and_three_as_in_python() -> None:
    b: Any = Emitted()
    x, y = unknown(b, "float32"), unknown(b, "float32")
    call(max, x, y, b=b)
    assert b.operations == ["max.f32"]
    call(max, TupleValue((x, y)), b=b)
    assert b.operations[1:] == ["setp.gt.f32", "selp.f32"]


def test_range_types() -> None:
    b: Any = Emitted()
    for names, expected in ((("int32",), "int32"), (("uint32",), "uint64"), (("int32", "int64"), "int64")):
        made = call(range, *(unknown(b, name) for name in names), b=b)
        assert isinstance(made, RangeValue)
        assert {made.start.type.name, made.stop.type.name, made.step.type.name} == {expected}
    assert call(len, call(range, literal(10), literal(0), literal(-3))).literal == 4
    with pytest.raises(KernelError, match="step of 0"):
        call(range, literal(0), literal(1), literal(0))


def test_what_numba_lacks_has_a_remedy() -> None:
    with pytest.raises(KernelError, match=r"`np.sqrt` is not part of Numba-CUDA \(help: write `math.sqrt\(x\)`\)"):
        call(np.sqrt, literal(2.0))
    with pytest.raises(KernelError, match=r"write `np\.int32"):
        call(cuda.shfl_sync, literal(-1), constant(NUMBERS["uint32"], 1), literal(0))


def test_numbas_types_convert() -> None:
    numba = pytest.importorskip("numba")
    assert call(numba.float32, literal(1.5)) == Scalar(float32, None, 1.5)
    assert call(cuda.types.int32, literal(1.5)) == Scalar(int32, None, 1)


def test_members_of_numbers() -> None:
    b: Any = Emitted()
    assert library.attribute(b, literal(3), "imag") == Scalar(int64, None, 0)
    viewed = library.method(library.Call(b, [Static(np.int32)]), constant(float32, 1.0), "view")
    assert viewed == Scalar(int32, None, 0x3F800000)
    with pytest.raises(KernelError, match="cannot be viewed"):
        library.method(library.Call(b, [Static(np.int8)]), constant(float32, 1.0), "view")


# -- the names on the host ---------------------------------------------------------------------------------------------


def test_names_mean_nothing_outside_a_kernel() -> None:
    with pytest.raises(UsageError, match=r"`cuda.syncthreads` can be called only inside a kernel"):
        cuda.syncthreads()
    with pytest.raises(UsageError, match=r"`cuda.threadIdx.x` has a value only inside a kernel"):
        cuda.threadIdx.x + 1
    assert repr(ptx.bar_sync) == "<kernel function ptx.bar_sync(barrier, count=None)>"


@pytest.mark.parametrize(
    ("space", "name", "nearest"),
    [(cuda, "synthreads", "syncthreads"), (ptx, "bar_snyc", "bar_sync"), (cuda.atomic, "ad", "add")],
)  # fmt: skip
def test_unknown_names_bring_the_nearest(space: Any, name: str, nearest: str) -> None:
    with pytest.raises(AttributeError, match=f"did you mean `{nearest}`"):
        getattr(space, name)


def test_importing_the_names_loads_nothing_heavy() -> None:
    code = "import sys, wsemu.cuda, wsemu.ptx; print({'numpy', 'numba', 'rich', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_device_arrays() -> None:
    x = np.arange(6.0).reshape(2, 3)
    device = cuda.to_device(x)
    device[0, 0] = 7
    assert x[0, 0] == 0
    assert type(device.copy_to_host()) is np.ndarray
    target = np.zeros_like(x)
    assert device.copy_to_host(target) is target
    assert target[0, 0] == 7
    assert cuda.device_array_like(x).shape == (2, 3)
    assert isinstance(cuda.device_array(4, np.int32), host.DeviceArray)
    with pytest.raises(UsageError, match="does not fit"):
        device.copy_to_device(np.zeros(3))
    with cuda.stream().auto_synchronize():
        cuda.synchronize()
