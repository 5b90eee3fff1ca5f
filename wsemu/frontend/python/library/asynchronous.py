"""The asynchronous instructions of `wsemu.ptx` in kernels: mbarriers, copies that run asynchronously, fences between
proxies.

An array and an index specify an address, as in `ptx.ld_v4`.  Everything that is known when the kernel is compiled is
checked here: the memory of arrays, counts, sizes.  The engines check the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import arrays
from wsemu.frontend.python.library.calls import NOTHING, array, integer, known_integer, means, result
from wsemu.frontend.python.scalars import compute, describe, register, scalar_cast
from wsemu.frontend.python.values import ArrayValue, Scalar, TensorMapValue, TupleValue, Value
from wsemu.language import async_names as names
from wsemu.language.numbers import boolean, int32, int64, uint32, uint64
from wsemu.language.promotion import number_type
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ALL,
    BULK_REDUCTIONS,
    DROP,
    EXPECT,
    GRID_TRIGGER,
    GRID_WAIT,
    NO_COMPLETE,
    NOINC,
    ONLY_READ,
    PROXIES,
    RELAXED,
    TENSOR_REDUCTIONS,
    TRY,
)

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction

_EVERY_BYTE = (1 << 16) - 1
"""byte mask of a 16-byte bulk store that writes every byte"""
ONE = Scalar(int32, None, 1)
_WHERE = {"generic": "memory of more than one kind"}

REMEDIES = {
    "shared": "copy it to a shared array first: `cuda.shared.array(...)`",
    "global": "pass the array as an argument",
}
"""required memory -> remedy for an array in other memory"""


# -- operands --------------------------------------------------------------------------------------------------------
class _Place(NamedTuple):
    """An element of an array; its address is a register plus a constant number of bytes."""

    array: ArrayValue
    base: int
    offset: int

    def address(self, call: Any) -> int:
        """Return the whole address in a register."""
        moved: int = arrays.add_offset(call.b, self.base, self.offset)
        return moved

    def effect(
        self, call: Any, operation: str, *operands: int, results: tuple[str, ...] = (), auxiliary: int = 0
    ) -> Any:
        """Emit an operation on this address and other operands; return its result if it has one."""
        made = call.b.effect(
            operation, (self.base, *operands), results=results, immediate=self.offset, auxiliary=auxiliary,
            array=self.array.name, element=str(self.array.dtype),
        )  # fmt: skip
        return made[0] if made else None


def placed_array(call: Any, function: KernelFunction, ary: Value, space: str, remedy: str) -> ArrayValue:
    """Return an array that must be in `space`."""
    target = array(call, ary, f"`{function.name}`")
    if target.space != space:
        where = _WHERE.get(target.space, f"{target.space} memory")
        raise call.error(f"`{function.name}` needs `{target.name}` in {space} memory; it is in {where}", remedy)
    return target


def element_place(call: Any, function: KernelFunction, ary: Value, index: Value, space: str, remedy: str) -> _Place:
    """Return an element of such an array; an index out of range is flagged."""
    target = placed_array(call, function, ary, space, remedy)
    indices = list(index.items) if isinstance(index, TupleValue) else [index]
    if len(indices) != target.ndim:
        raise call.error(
            f"`{function.name}`: array `{target.name}` has {target.ndim} dimensions, the index {len(indices)}",
            "give one index for each dimension, as a tuple",
        )
    for item in indices:
        integer(call, item, f"the index of `{function.name}`")
    return _Place(target, *arrays.element_address(call.b, target, indices))


def byte_place(call: Any, function: KernelFunction, ary: Value, index: Value, space: str, written: bool) -> _Place:
    """Return the start of a copy: an element of an array whose last axis is contiguous, or a number of bytes after the
    first element."""
    if function.__name__.endswith("_bytes"):
        target = placed_array(call, function, ary, space, REMEDIES[space])
        distance = integer(call, index, f"the offset of `{function.name}`", int64)
        place = _Place(target, *arrays.byte_address(call.b, target, distance, 1))
    else:
        place = element_place(call, function, ary, index, space, REMEDIES[space])
        target = place.array
        if target.strides[-1:] and target.strides[-1].literal != target.dtype.itemsize:
            raise call.error(
                f"`{function.name}`: the elements of `{target.name}` do not lie side by side", "use a contiguous array"
            )
    if number_type(target.dtype) is None:
        raise call.error(f"`{function.name}` on array `{target.name}` of {target.dtype}", "use an array of numbers")
    if written and not target.writable:
        raise call.error(f"`{function.name}` on the read-only array `{target.name}`", "pass an array that is writable")
    return place


def mbarrier_place(call: Any, function: KernelFunction, bar: Value, index: Value) -> _Place:
    remedy = "make it with `cuda.shared.array(n, np.uint64)`: each element can be an mbarrier"
    place = element_place(call, function, bar, index, "shared", remedy)
    if str(place.array.dtype) not in ("uint64", "int64"):
        raise call.error(f"`{function.name}` on array `{place.array.name}` of {place.array.dtype}", remedy)
    return place


def integer_register(
    call: Any, function: KernelFunction, parameter: str, x: Value, allowed: range | tuple[int, ...] | None = None
) -> int:
    """Return the register of a 32-bit integer; a known value must be in `allowed`."""
    what = names.operand_text(function.__name__, parameter)
    number = integer(call, x, what)
    allowed = allowed or names.ALLOWED[function.__name__][parameter]
    if number.literal is not None and number.literal not in allowed:
        raise call.error(f"{what} is {number.literal}", names.operand_range_text(allowed))
    return register(call.b, scalar_cast(call.b, number, uint32))


def _constant(call: Any, function: KernelFunction, parameter: str, x: Value) -> int:
    """Return an integer that is part of the instruction."""
    number = known_integer(call, x, names.operand_text(function.__name__, parameter))
    integer_register(call, function, parameter, x)
    return number


def _token(call: Any, function: KernelFunction, x: Value) -> int:
    what = names.operand_text(function.__name__, "token")
    token = integer(call, x, what)
    if token.type.bits != 64:
        raise call.error(f"{what} is a {token.type}", "give what an arrive returned, a uint64")
    return register(call.b, scalar_cast(call.b, token, uint64))


# -- mbarriers -------------------------------------------------------------------------------------------------------
def _enter_initialisation(function: KernelFunction) -> None:
    @means(function)
    def initialise(call: Any, bar: Value, index: Value, count: Value) -> Value:
        place = mbarrier_place(call, function, bar, index)
        place.effect(call, "mbarrier.init", integer_register(call, function, "count", count))
        return NOTHING


def _enter_end(function: KernelFunction) -> None:
    @means(function)
    def end(call: Any, bar: Value, index: Value) -> Value:
        mbarrier_place(call, function, bar, index).effect(call, "mbarrier.inval")
        return NOTHING


def _arrival(call: Any, place: _Place, count: int, size: int, auxiliary: int) -> Value:
    token = place.effect(call, "mbarrier.arrive", count, size, results=("b64",), auxiliary=auxiliary)
    return result(uint64, token)


def _enter_arrival(function: KernelFunction, auxiliary: int) -> None:
    @means(function)
    def arrive(call: Any, bar: Value, index: Value, count: Value | None) -> Value:
        place = mbarrier_place(call, function, bar, index)
        number = ONE if count is None else count
        arrivals = integer_register(call, function, "count", number)
        return _arrival(call, place, arrivals, call.b.constant("b32", 0), auxiliary)


def _enter_expecting_arrival(function: KernelFunction, auxiliary: int) -> None:
    @means(function)
    def arrive(call: Any, bar: Value, index: Value, size: Value) -> Value:
        place = mbarrier_place(call, function, bar, index)
        return _arrival(
            call, place, call.b.constant("b32", 1), integer_register(call, function, "bytes", size), auxiliary
        )


def _enter_transaction(function: KernelFunction, operation: str) -> None:
    @means(function)
    def transaction(call: Any, bar: Value, index: Value, size: Value) -> Value:
        place = mbarrier_place(call, function, bar, index)
        place.effect(call, operation, integer_register(call, function, "bytes", size))
        return NOTHING


def _phase(call: Any, function: KernelFunction, x: Value) -> tuple[str, int]:
    """Return the operation of a wait, and the operand that specifies a phase: a parity or a token."""
    if function.__name__.endswith("_parity"):
        return "mbarrier.wait.parity", integer_register(call, function, "parity", x)
    return "mbarrier.wait", _token(call, function, x)


def _enter_test(function: KernelFunction, auxiliary: int) -> None:
    @means(function)
    def test(call: Any, bar: Value, index: Value, phase: Value, hint: Value | None = None) -> Value:
        place = mbarrier_place(call, function, bar, index)
        operation, operand = _phase(call, function, phase)
        if hint is not None:
            integer(call, hint, names.operand_text(function.__name__, "hint"))
        return result(boolean, place.effect(call, operation, operand, results=("p",), auxiliary=auxiliary))


def _enter_wait(function: KernelFunction) -> None:
    @means(function)
    def wait(call: Any, bar: Value, index: Value, phase: Value) -> Value:
        """Emit a block that tests, and repeats itself until the test succeeds."""
        place, b = mbarrier_place(call, function, bar, index), call.b
        operation, operand = _phase(call, function, phase)
        before, again = b.block, b.open()
        b.jump(before, again)
        completed = place.effect(call, operation, operand, results=("p",), auxiliary=TRY)
        b.branch(again, completed, b.open(), again)
        return NOTHING


_NAMES = names.FUNCTIONS
_enter_initialisation(_NAMES["mbarrier_init"])
_enter_end(_NAMES["mbarrier_inval"])
for _name, _auxiliary in {"": 0, "_relaxed": RELAXED, "_no_complete": NO_COMPLETE, "_drop": DROP}.items():
    _enter_arrival(_NAMES[f"mbarrier_arrive{_name}"], _auxiliary)
for _name, _auxiliary in {"_expect_tx": EXPECT, "_drop_expect_tx": DROP | EXPECT}.items():
    _enter_expecting_arrival(_NAMES[f"mbarrier_arrive{_name}"], _auxiliary)
for _name in ("expect_tx", "complete_tx"):
    _enter_transaction(_NAMES[f"mbarrier_{_name}"], f"mbarrier.{_name}")
for _name in ("", "_parity"):
    _enter_test(_NAMES[f"mbarrier_test_wait{_name}"], 0)
    _enter_test(_NAMES[f"mbarrier_try_wait{_name}"], TRY)
    _enter_wait(_NAMES[f"mbarrier_wait{_name}"])


@means(_NAMES["mbarrier_pending_count"])
def pending_count(call: Any, token: Value) -> Value:
    operand = _token(call, _NAMES["mbarrier_pending_count"], token)
    (count,) = call.b.effect("mbarrier.pending_count", (operand,), results=("b32",))
    return result(int32, count)


# -- copies of a few bytes -------------------------------------------------------------------------------------------
def _enter_copy(function: KernelFunction) -> None:
    sizes = names.COPY_BYTES[function.__name__]

    @means(function)
    def copy(
        call: Any, dst: Value, i: Value, src: Value, j: Value, width: Value, source_bytes: Value | None
    ) -> Value:  # fmt: skip
        size = known_integer(call, width, names.operand_text(function.__name__, "bytes"))
        if size not in sizes:
            raise call.error(f"`{function.name}` of {size} bytes", f"it copies {' or '.join(map(str, sizes))} bytes")
        to = byte_place(call, function, dst, i, "shared", True)
        source = byte_place(call, function, src, j, "global", False)
        some = width if source_bytes is None else source_bytes
        read = integer_register(call, function, "src_bytes", some, range(size + 1))
        to.effect(call, f"cp.async.b{8 * size}", source.address(call), read)
        return NOTHING


for _name in names.COPY_BYTES:
    _enter_copy(_NAMES[_name])


def _enter_plain(name: str, operation: str, immediate: int = 0, auxiliary: int = 0) -> None:
    """Enter an operation without operands."""

    @means(_NAMES[name])
    def plain(call: Any) -> Value:
        call.b.effect(operation, immediate=immediate, auxiliary=auxiliary)
        return NOTHING


def _enter_constant(name: str, operation: str, parameter: str, auxiliary: int = 0) -> None:
    """Enter an operation with one number, which must be a constant."""
    function = _NAMES[name]

    @means(function)
    def constant(call: Any, number: Value) -> Value:
        immediate = _constant(call, function, parameter, number)
        call.b.effect(operation, immediate=immediate, auxiliary=auxiliary)
        return NOTHING


_enter_plain("cp_async_commit_group", "cp.async.commit")
_enter_constant("cp_async_wait_group", "cp.async.wait", "n")
_enter_plain("cp_async_wait_all", "cp.async.wait", auxiliary=ALL)


def _enter_arrival_of_copies(function: KernelFunction, auxiliary: int) -> None:
    @means(function)
    def arrive(call: Any, bar: Value, index: Value) -> Value:
        mbarrier_place(call, function, bar, index).effect(call, "cp.async.arrive", auxiliary=auxiliary)
        return NOTHING


_enter_arrival_of_copies(_NAMES["cp_async_mbarrier_arrive"], 0)
_enter_arrival_of_copies(_NAMES["cp_async_mbarrier_arrive_noinc"], NOINC)


@means(_NAMES["tcgen05_commit"])
def commit_products(call: Any, bar: Value, index: Value) -> Value:
    place = mbarrier_place(call, _NAMES["tcgen05_commit"], bar, index)
    operands = place.address(call), call.b.constant("b32", 0)
    call.b.effect("tcgen05.commit", operands, array=place.array.name, element=str(place.array.dtype))
    return NOTHING


# -- bulk copies -----------------------------------------------------------------------------------------------------
def _enter_bulk_load(function: KernelFunction) -> None:
    @means(function)
    def load(call: Any, dst: Value, i: Value, src: Value, j: Value, size: Value, bar: Value, k: Value) -> Value:
        to = byte_place(call, function, dst, i, "shared", True)
        source = byte_place(call, function, src, j, "global", False)
        told = mbarrier_place(call, function, bar, k)
        operands = (
            to.address(call),
            source.address(call),
            integer_register(call, function, "bytes", size),
            told.address(call),
        )
        call.b.effect("bulk.load", operands, array=to.array.name, element=str(to.array.dtype))
        return NOTHING


def _enter_bulk_store(function: KernelFunction) -> None:
    @means(function)
    def store(call: Any, dst: Value, i: Value, src: Value, j: Value, size: Value) -> Value:
        to = byte_place(call, function, dst, i, "global", True)
        source = byte_place(call, function, src, j, "shared", False)
        length = integer_register(call, function, "bytes", size)
        operands = to.address(call), source.address(call), length, call.b.constant("b32", _EVERY_BYTE)
        call.b.effect("bulk.store", operands, array=to.array.name, element=str(to.array.dtype))
        return NOTHING


def _enter_bulk_reduction(what: str) -> None:
    function = _NAMES[f"cp_reduce_async_bulk_{what}"]
    types = names.REDUCTIONS[what].types

    @means(function)
    def reduce(call: Any, dst: Value, i: Value, src: Value, j: Value, size: Value) -> Value:
        to = byte_place(call, function, dst, i, "global", True)
        source = byte_place(call, function, src, j, "shared", False)
        mine, theirs = str(to.array.dtype), str(source.array.dtype)
        if mine != theirs:
            raise call.error(
                f"`{function.name}` on `{to.array.name}` of {mine} and `{source.array.name}` of {theirs}",
                "give arrays of one type: `.view(...)` of one of them",
            )
        if mine not in types:
            raise call.error(f"`{function.name}` on arrays of {mine}", f"it works on {', '.join(types)}")
        auxiliary = BULK_REDUCTIONS.index((what, types[mine]))
        length = integer_register(call, function, "bytes", size)
        to.effect(call, "bulk.reduce", source.address(call), length, auxiliary=auxiliary)
        return NOTHING


def _enter_alone(name: str, operation: str, space: str) -> None:
    """Enter an operation on bytes of one array."""
    function = _NAMES[name]

    @means(function)
    def alone(call: Any, ary: Value, index: Value, size: Value) -> Value:
        place = byte_place(call, function, ary, index, space, space == "shared")
        place.effect(call, operation, integer_register(call, function, "bytes", size))
        return NOTHING


for _name in ("", "_bytes"):
    _enter_bulk_load(_NAMES[f"cp_async_bulk_global_to_shared{_name}"])
    _enter_bulk_store(_NAMES[f"cp_async_bulk_shared_to_global{_name}"])
for _name in names.REDUCTIONS:
    _enter_bulk_reduction(_name)
_enter_plain("cp_async_bulk_commit_group", "bulk.commit")
_enter_constant("cp_async_bulk_wait_group", "bulk.wait", "n")
_enter_constant("cp_async_bulk_wait_group_read", "bulk.wait", "n", ONLY_READ)
_enter_alone("cp_async_bulk_prefetch_l2", "bulk.prefetch", "global")
_enter_alone("st_bulk", "bulk.zero", "shared")


# -- copies of tiles ---------------------------------------------------------------------------------------------------
def lower_tile_operands(
    call: Any, function: KernelFunction, tmap: Value, coordinates: Value
) -> tuple[int, tuple[int, ...]]:
    """Return the address of a tensor map, and the coordinates of a tile."""
    map_ = _tensor_map(call, function, tmap)
    items = coordinates.items if isinstance(coordinates, TupleValue) else (coordinates,)
    if len(items) != map_.rank:
        raise call.error(
            f"`{function.name}`: tensor map `{map_.name}` has {map_.rank} dimensions, the tile {len(items)} "
            "coordinates",
            "give one for each dimension, the innermost first",
        )
    numbers = [integer(call, item, names.operand_text(function.__name__, "coordinates")) for item in items]
    return map_.address, tuple([register(call.b, scalar_cast(call.b, number, int32)) for number in numbers])


def _tensor_map(call: Any, function: KernelFunction, tmap: Value) -> TensorMapValue:
    if not isinstance(tmap, TensorMapValue):
        raise call.error(
            f"`{function.name}` needs a tensor map, not {describe(tmap)}",
            "pass `wsemu.TensorMap(array, box)` to the kernel",
        )
    return tmap


def _enter_tile_load(function: KernelFunction) -> None:
    @means(function)
    def load(call: Any, dst: Value, i: Value, tmap: Value, coordinates: Value, bar: Value, k: Value) -> Value:
        to = byte_place(call, function, dst, i, "shared", True)
        place, at = lower_tile_operands(call, function, tmap, coordinates)
        operands = to.address(call), place, mbarrier_place(call, function, bar, k).address(call), *at
        call.b.effect("tensor.load", operands, auxiliary=len(at), array=to.array.name, element=str(to.array.dtype))
        return NOTHING


def _enter_tile_store(function: KernelFunction, operation: str, what: int) -> None:
    @means(function)
    def store(call: Any, tmap: Value, coordinates: Value, src: Value, j: Value) -> Value:
        source = byte_place(call, function, src, j, "shared", False)
        place, at = lower_tile_operands(call, function, tmap, coordinates)
        call.b.effect(
            operation, (source.address(call), place, *at), auxiliary=len(at) | what << 3, array=source.array.name,
            element=str(source.array.dtype),
        )  # fmt: skip
        return NOTHING


for _name in ("", "_bytes"):
    _enter_tile_load(_NAMES[f"cp_async_bulk_tensor_global_to_shared{_name}"])
_enter_tile_store(_NAMES["cp_async_bulk_tensor_shared_to_global"], "tensor.store", 0)
for _what, _name in enumerate(TENSOR_REDUCTIONS):
    _enter_tile_store(_NAMES[f"cp_reduce_async_bulk_tensor_{_name}"], "tensor.reduce", _what)


@means(_NAMES["cp_async_bulk_prefetch_tensor"])
def lower_tile_prefetch(call: Any, tmap: Value, coordinates: Value) -> Value:
    place, at = lower_tile_operands(call, _NAMES["cp_async_bulk_prefetch_tensor"], tmap, coordinates)
    call.b.effect("tensor.prefetch", (call.b.constant("b64", 0), place, *at), auxiliary=len(at))
    return NOTHING


@means(_NAMES["prefetch_tensormap"])
def prefetch_map(call: Any, tmap: Value) -> Value:
    _tensor_map(call, _NAMES["prefetch_tensormap"], tmap)
    return NOTHING


# -- fences, elections, registers ------------------------------------------------------------------------------------
for _name, _proxy in {"": "async", "_shared_cta": "async.shared::cta", "_global": "async.global"}.items():
    _enter_plain(f"fence_proxy_async{_name}", "fence.proxy", immediate=PROXIES.index(_proxy))
_enter_plain("fence_mbarrier_init", "fence.mbarrier_init")
for _name in ("inc", "dec"):
    _enter_constant(f"setmaxnreg_{_name}", f"setmaxnreg.{_name}", "count")


@means(_NAMES["elect_sync"])
def elect(call: Any, mask: Value) -> Value:
    members = integer(call, mask, names.operand_text("elect_sync", "mask"), int32)
    (lane,) = call.b.effect("elect.sync", (register(call.b, members),), results=("b32",))
    return compute(call.b, "setp.eq.b32", boolean, result(int32, lane), result(int32, call.b.special("laneid")))


def _enter_grid_operation(name: str, which: int) -> None:
    """Lower a function to a mark for traces: a launch here begins when those before it have ended."""

    def lower(call: Any) -> Value:
        call.b.effect("show", (call.b.constant("b64", 0),), auxiliary=which)
        return NOTHING

    means(_NAMES[name])(lower)


_enter_grid_operation("griddepcontrol_wait", GRID_WAIT)
_enter_grid_operation("griddepcontrol_launch_dependents", GRID_TRIGGER)
