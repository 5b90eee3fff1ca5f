"""Bind host arguments to a launch: each array becomes a segment of virtual memory, used in place, and each parameter
row gets its value."""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from wsemu.model.bound import BoundArray, InElements
from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.device_memory import FIRST_WINDOW
from wsemu.model.isa import FIRST_ARRAY, NAMES, OPERATIONS, SEGMENT_SHIFT, SIZE, UNWATCHED
from wsemu.model.program import Program
from wsemu.model.tensor_map import MAP_BYTES, TensorMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from wsemu.machine.image import Bytes, Rows
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.multicast import Replicated
    from wsemu.model.program import ConstantArray, Parameter

    _Arrays = dict[tuple[int, tuple[int | str, ...]], npt.NDArray[Any]]
    _Places = dict[tuple[int, tuple[int | str, ...]], tuple[int, int]]
    """argument and the way into it -> (segment, offset)"""


Way = tuple["int | str", ...]
"""path to a part of an argument: numbers of fields, and a word for the second memory of a texture"""


class Memory:
    """The segments of a launch.  Arrays that overlap share a segment, so that an address names the same byte in all of
    them.  It is writable if one of them is: the front end rejects stores that name a read-only array."""

    def __init__(
        self,
        arrays: Sequence[npt.NDArray[Any]],
        constant: frozenset[int] = frozenset(),
        space: DeviceMemory | None = None,
    ) -> None:
        """`constant` has the numbers of arrays that are never stored to, whatever their NumPy flags are.  The
        allocations of `space` are segments as well; an array inside an allocation uses the allocation's segment."""
        self._writable = [a.flags.writeable and n not in constant for n, a in enumerate(arrays)]
        self.segments: list[tuple[Bytes, bool]] = []
        self._free: deque[int] = deque()
        """numbers of segments before those of a device memory"""
        self._place: dict[int, tuple[int, int]] = {}
        self._first = [int(a.ctypes.data) for a in arrays]
        bounds = sorted([(*_bounds(a, first), n) for n, (a, first) in enumerate(zip(arrays, self._first, strict=True))])
        if space is not None:
            self._enter_allocations(space)
            bounds = [one for one in bounds if one[2] in constant or not self._lies_in_allocation(space, *one)]
        groups: list[tuple[list[int], int, int]] = []
        for start, end, n in bounds:
            if groups and start < groups[-1][2]:
                group, low, high = groups[-1]
                groups[-1] = ([*group, n], low, max(high, end))
            else:
                groups.append(([n], start, end))
        # numbers do not depend on the addresses of arrays
        for group, low, high in sorted(groups, key=lambda g: min(g[0])):
            self._add(arrays, group, low, high)

    def _enter_allocations(self, space: DeviceMemory) -> None:
        """Make a segment of each allocation of a device memory, and none of the numbers between."""
        self.segments += space.layout().segments
        free = (n for n in range(FIRST_ARRAY, FIRST_WINDOW) if n - FIRST_ARRAY < len(self.segments))
        self._free = deque(free)

    def _lies_in_allocation(self, space: DeviceMemory, start: int, end: int, n: int) -> bool:
        """Return whether an array is located in an allocation of a device memory, which it then uses."""
        found = space.window_of(start, end) if start < end else None
        if found is not None:
            self._place[n] = found[0], found[1] + self._first[n] - start
        return found is not None

    def _add(self, arrays: Sequence[npt.NDArray[Any]], group: list[int], low: int, high: int) -> None:
        segment = self._free.popleft() if self._free else FIRST_ARRAY + len(self.segments)
        for n in group:
            self._place[n] = (segment, self._first[n] - low)
        members = [arrays[n] for n in group]
        size = high - low if any(array.size for array in members) else 0
        data = np.zeros(0, np.uint8)
        if size:
            memory = (ctypes.c_uint8 * size).from_address(low)
            memory.keeps = members  # type: ignore[attr-defined]  # as long as it is used
            data = np.frombuffer(memory, np.uint8)  # type: ignore[call-overload]  # ctypes arrays are buffers
        made = data, any(self._writable[n] for n in group)
        if segment - FIRST_ARRAY < len(self.segments):
            self.segments[segment - FIRST_ARRAY] = made
        else:
            self.segments.append(made)

    def unwatch(self, segment: int) -> None:
        """Mark a segment in which races are not checked."""
        number = segment - FIRST_ARRAY
        self.segments[number] = self.segments[number][0], UNWATCHED

    def keep_gaps(self, segment: int, covered: npt.NDArray[np.uint8]) -> None:
        """Allow stores to a writable segment only to these bytes."""
        data, writable = self.segments[segment - FIRST_ARRAY]
        if writable and writable != UNWATCHED:
            self.segments[segment - FIRST_ARRAY] = data, cast("bool", InElements(covered))

    def place(self, n: int) -> tuple[int, int]:
        """Return (segment, offset of the first element) of array n."""
        return self._place[n]


class Block(NamedTuple):
    """Memory that contains addresses and tensor maps.  Paths in `packed` start at the argument."""

    memory: npt.NDArray[np.uint8]
    packed: Packed


@dataclass(frozen=True, slots=True)
class Packed:
    """An argument that is passed as bytes: a number, or a structure by value."""

    data: bytes
    arrays: tuple[tuple[int, Way, npt.NDArray[Any]], ...] = ()
    """arrays whose addresses the memory contains: offset of the address, and the path to the array in the nested
    tuples"""
    maps: tuple[tuple[int, Way, TensorMap], ...] = ()
    """tensor maps that the block contains, in the same form; they are encoded once their arrays have addresses"""
    blocks: tuple[tuple[int, Way, Block], ...] = ()
    """memory whose address it contains, and that holds such bytes itself: a table of pointers"""
    has_pointers: bool = False
    """true if some of the bytes are addresses in the device memory of the launch"""
    multicasts: tuple[Replicated, ...] = ()
    replicas: tuple[npt.NDArray[Any], ...] = ()
    """the arrays to which its multicast addresses lead"""

    @property
    def kind(self) -> Literal["value", "number"]:
        """Return `value` if it contains addresses or tensor maps."""
        return "value" if self.arrays or self.maps or self.blocks or self.has_pointers or self.replicas else "number"

    @property
    def is_plain(self) -> bool:
        """Return whether its bytes are all that is passed."""
        return not (self.arrays or self.maps or self.blocks or self.replicas or self.multicasts)

    def all_blocks(self) -> Iterator[tuple[Way, Block]]:
        """Yield these blocks, and the ones whose addresses are in them."""
        for _, path, block in self.blocks:
            yield path, block
            yield from block.packed.all_blocks()

    def all_arrays(self) -> Iterator[tuple[Way, npt.NDArray[Any]]]:
        """Yield the arrays to which it leads, and the arrays of tensor maps, with the path to each."""
        yield from ((path, array) for _, path, array in self.arrays)
        yield from ((("replicas", n), array) for n, array in enumerate(self.replicas))
        yield from ((path, map_.array) for _, path, map_ in self.maps)
        for _, path, block in self.blocks:
            yield path, block.memory
            yield from block.packed.all_arrays()

    def copied(self) -> Packed:
        """Return a copy with private arrays."""
        return Packed(
            self.data,
            tuple((at, way, np.array(array, order="K")) for at, way, array in self.arrays),
            tuple((at, way, map_.copied()) for at, way, map_ in self.maps),
            tuple((at, way, block._replace(packed=block.packed.copied())) for at, way, block in self.blocks),
            self.has_pointers,
            self.multicasts,
            tuple([np.array(array) for array in self.replicas]),
        )

    def move_arrays(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Packed:
        """Return a copy with its arrays replaced by `move`."""
        return Packed(
            self.data,
            tuple((at, way, move(array)) for at, way, array in self.arrays),
            tuple((at, way, TensorMap.of(move(map_.array), map_.fields)) for at, way, map_ in self.maps),
            tuple((at, way, Block(move(one.memory), one.packed.move_arrays(move))) for at, way, one in self.blocks),
            self.has_pointers,
            self.multicasts,
            tuple([move(array) for array in self.replicas]),
        )

    @property
    def mapped(self) -> Any:
        """Return the array of a tensor map, or any other array unchanged."""
        return self.maps[0][2].array if self.maps and not self.maps[0][1] else self


def _bounds(array: npt.NDArray[Any], first: int) -> tuple[int, int]:
    """Return the address of the first byte of an array's memory, and the address after its last byte.  `first` is the
    address of its first element."""
    if array.flags.c_contiguous:
        return first, first + array.nbytes
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high


def part_name(name: str, way: Way) -> str:
    """Return the name of a part of an argument, which a path leads to: `tiles[0].data`."""
    for step in way:
        name += f".{step}" if isinstance(step, str) else f"[{step}]"
    return name


def component(value: Any, path: tuple[int | str, ...]) -> Any:
    """Return the part of nested tuples and pattern objects at `path`."""
    for step in path:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return value


def bind(
    program: Program,
    arguments: Sequence[Any],
    names: Sequence[str],
    given: Mapping[str, npt.NDArray[Any]] | None = None,
    space: DeviceMemory | None = None,
) -> tuple[Rows, Memory, list[BoundArray]]:
    """Return the rows, the memory and the array descriptions for a launch of `program` with these arguments and with
    the arrays that the launch allocates.  Arguments may be in a device memory."""
    wanted = _needed_arrays(program, arguments)
    kept = {(p.argument, p.component): p.row for p in program.parameters if p.part == "memory"}
    copied = [
        (given or {})[c.heap or c.made] if c.heap or c.made else _program_array(c) for c in program.constant_arrays
    ]
    pointed = [(n, at, array) for n, c in enumerate(program.constant_arrays) for at, array in c.pointers]
    blocks = [np.zeros(len(_pack_argument(arguments, key).data), np.uint8) for key in kept]
    arrays = [*wanted.values(), *copied, *(array for _, _, array in pointed), *blocks]
    constants = enumerate(program.constant_arrays, len(wanted))
    first = len(arrays) - len(blocks)
    read_only = [*(n for n, c in constants if not c.writable), *range(first, len(arrays))]
    if space is not None:
        for argument, path in wanted:
            space.check_argument(wanted[argument, path], part_name(names[argument], path))
    memory = Memory(arrays, frozenset(read_only), space)
    places = {key: memory.place(n) for n, key in enumerate(wanted)}
    _fill_blocks(arguments, places, names)
    rows: Rows = {
        p.row: (p.type, _value(p, arguments[p.argument], wanted, places))
        for p in program.parameters
        if p.part != "memory"
    }
    bound = []
    for (argument, path), array in wanted.items():
        name = part_name(names[argument], path)
        bound.append(BoundArray(name, *places[argument, path], array.shape, array.strides, array.dtype))
    for n, constant in enumerate(program.constant_arrays, len(wanted)):
        segment, offset = memory.place(n)
        rows[constant.row] = ("b64", (segment << SEGMENT_SHIFT) + offset)
        array = arrays[n] if constant.heap or constant.made else constant.array
        bound.append(BoundArray(constant.name, segment, offset, array.shape, array.strides, array.dtype))
        if constant.heap not in ("", "bytes", "info"):
            memory.unwatch(segment)
    for n, (key, row) in enumerate(kept.items(), first):
        blocks[n - first][:] = np.frombuffer(_contents(_pack_argument(arguments, key), key, places, names), np.uint8)
        rows[row] = ("b64", _address(memory.place(n)))
        bound.append(BoundArray(f"{names[key[0]]}.bytes", *memory.place(n), (arrays[n].size,), (1,), arrays[n].dtype))
    for segment in _with_gaps(program, wanted, places):
        if space is not None and space.has_segment(segment):
            continue
        _keep_gaps(memory, segment, [array for array in bound if array.segment == segment])
    for n, constant in enumerate(program.constant_arrays, len(wanted)):
        for at, row, more in constant.addresses:
            address = np.array([int(rows[row][1]) + more], np.int64)
            arrays[n].view(np.uint8)[at : at + 8] = address.view(np.uint8)
    for number, (n, at, array) in enumerate(pointed, len(wanted) + len(copied)):
        place = memory.place(number)
        copied[n].view(np.uint8)[at : at + 8] = np.frombuffer(_address(place).to_bytes(8, "little"), np.uint8)
        name = f"*{program.constant_arrays[n].name}"
        bound.append(BoundArray(name, *place, array.shape, array.strides, array.dtype))
    return rows, memory, bound if space is None else _allocations(space, bound) + bound


def _allocations(space: DeviceMemory, bound: Sequence[BoundArray]) -> list[BoundArray]:
    """Return descriptions of the allocations that no argument and no variable names."""
    named = {(array.segment, array.offset) for array in bound}
    return [array for array in space.layout().arrays if (array.segment, array.offset) not in named]


def _with_gaps(program: Program, wanted: _Arrays, places: _Places) -> set[int]:
    """Return the segments of arrays that have bytes between their elements and whose strides the program does not know.
    Such a program gets only the address, so its stores may reach any byte."""
    gapped = [key for key, array in wanted.items() if not array.flags.c_contiguous and _has_gaps(array)]
    if not gapped:
        return set()
    strides = {(p.argument, p.component) for p in program.parameters if p.part not in ("address", "memory", "bytes")}
    return {places[key][0] for key in gapped if key not in strides}


def _has_gaps(array: npt.NDArray[Any]) -> bool:
    if array.flags.c_contiguous or array.flags.f_contiguous or not array.size:
        return False
    low, high = np.lib.array_utils.byte_bounds(array)
    return high - low > array.nbytes


def _keep_gaps(memory: Memory, segment: int, arrays: Sequence[BoundArray]) -> None:
    covered = np.zeros(memory.segments[segment - FIRST_ARRAY][0].nbytes, np.uint8)
    for array in arrays:
        shape, strides = (*array.shape, array.dtype.itemsize), (*array.strides, 1)
        np.ndarray(shape, np.uint8, covered, array.offset, strides)[...] = 1
    if not covered.all():
        memory.keep_gaps(segment, covered)


def _program_array(c: ConstantArray) -> npt.NDArray[Any]:
    """Return an array of the program, or a copy of it if a launch writes to it."""
    return c.array.copy() if c.addresses or c.pointers or (c.writable and not c.live) else c.array


def _fill_blocks(arguments: Sequence[Any], places: _Places, names: Sequence[str]) -> None:
    """Write addresses of this launch into tables of pointers."""
    for number, value in enumerate(arguments):
        if isinstance(value, Packed):
            for _, block in value.all_blocks():
                block.memory[:] = np.frombuffer(_contents(block.packed, (number, ()), places, names), np.uint8)


def _pack_argument(arguments: Sequence[Any], key: tuple[int, tuple[int | str, ...]]) -> Packed:
    """Return an argument, or a part of it, as bytes."""
    value = component(arguments[key[0]], key[1])
    return packed_map(value) if isinstance(value, TensorMap) else value


def packed_map(value: TensorMap) -> Packed:
    """Return a tensor map as an argument."""
    return Packed(bytes(MAP_BYTES), (), ((0, (), value),))


def _contents(
    given: Packed, key: tuple[int, tuple[int | str, ...]], places: _Places, names: Sequence[str] = ()
) -> bytes:
    """Return the bytes that are passed, with addresses and tensor maps filled in.  `names` are the names of the
    arguments, for messages.

    Raise UsageError for a map whose array has an unsuitable address.
    """
    whole = bytearray(given.data)
    argument, way = key
    for at, path, _ in (*given.arrays, *given.blocks):
        whole[at : at + 8] = _address(places[argument, (*way, *path)]).to_bytes(8, "little")
    for number, replicated in enumerate(given.multicasts):
        at = replicated.offset
        whole[at : at + 8] = replicated.address(argument, number).to_bytes(8, "little")
    for at, path, value in given.maps:
        address = _address(places[argument, (*way, *path)])
        value.admit(address, names[argument] if names else "")
        whole[at : at + MAP_BYTES] = value.encoded(address)
    return bytes(whole)


def _needed_arrays(program: Program, arguments: Sequence[Any]) -> _Arrays:
    """Return the arrays whose addresses or shapes the program needs, including those in structures."""
    wanted: _Arrays = {}
    for p in program.parameters:
        if p.part == "memory":
            value = component(arguments[p.argument], p.component)
            if isinstance(value, TensorMap):
                wanted[p.argument, p.component] = value.array
        elif p.part not in ("value", "bytes"):
            key = (p.argument, p.component)
            if key not in wanted:
                wanted[key] = np.asarray(component(arguments[p.argument], p.component))
    for argument, value in enumerate(arguments):
        if isinstance(value, Packed):
            wanted.update(((argument, path), array) for path, array in value.all_arrays())
    return wanted


def _value(parameter: Parameter, given: Any, wanted: _Arrays, places: _Places) -> int | float | bool:
    """Return the value for the row of a parameter."""
    argument, path = parameter.argument, parameter.component
    match parameter.part:
        case "bytes":
            return _unpack_value(_contents(given, (argument, ()), places), parameter.type, parameter.axis)
        case "value":
            return _scalar(component(given, path), parameter.axis)
        case "address":
            return _address(places[argument, path])
        case "first":
            return _address(places[argument, path]) - _leading_bytes(wanted[argument, path])
        case "size":
            low, high = np.lib.array_utils.byte_bounds(wanted[argument, path])
            return high - low if wanted[argument, path].size else 0
        case "shape":
            return int(wanted[argument, path].shape[parameter.axis])
    return int(wanted[argument, path].strides[parameter.axis])


def _leading_bytes(array: npt.NDArray[Any]) -> int:
    """Return the number of bytes of an array's memory before its first element: an axis with a negative stride has
    some."""
    first: int = array.__array_interface__["data"][0]
    return first - np.lib.array_utils.byte_bounds(array)[0]


def _address(place: tuple[int, int]) -> int:
    """Return the virtual address for (segment, offset)."""
    return (place[0] << SEGMENT_SHIFT) + place[1]


def address_rows(
    program: Program, rows: Rows, names: Sequence[str] = (), arrays: Sequence[BoundArray] = ()
) -> dict[int, int]:
    """Return the segment for each register row that holds the address of an array, or of a tensor map of an array."""
    holding = _rows_with_addresses(program)
    found = {row: int(rows[row][1]) >> SEGMENT_SHIFT for row in holding.always}
    if not holding.maps and not holding.sometimes:
        return found
    segments = {array.name: array.segment for array in arrays}
    mapped = {row: segments[names[n]] for row, n in holding.maps if names and names[n] in segments}
    passed = {row: int(rows[row][1]) >> SEGMENT_SHIFT for row in holding.sometimes}
    return mapped | found | {row: segment for row, segment in passed.items() if segment in segments.values()}


class _AddressRows(NamedTuple):
    """The register rows of a program that hold addresses."""

    always: list[int]
    """rows of array arguments, and of arrays of the program"""
    sometimes: list[int]
    """rows of numbers of 64 bits that are passed as bytes"""
    maps: list[tuple[int, int]]
    """rows of tensor maps, each with the number of its argument"""


def _rows_with_addresses(program: Program) -> _AddressRows:
    """Return the register rows of a program that hold addresses."""
    if "address rows" not in program.derived:
        always = [p.row for p in program.parameters if p.part in ("address", "first")]
        always += [constant.row for constant in program.constant_arrays]
        sometimes = [p.row for p in program.parameters if p.part == "bytes" and p.type == "b64"]
        maps = [(p.row, p.argument) for p in program.parameters if p.part == "memory" and not p.component]
        program.derived["address rows"] = _AddressRows(always, sometimes, maps)
    found: _AddressRows = program.derived["address rows"]
    return found


def stored_segments(program: Program, bound: Sequence[BoundArray]) -> frozenset[int] | None:
    """Return the segments that the program's stores name, or None if a store names something that is not an argument.

    This is a guess, because a parameter of a device function may have the same name as another argument of the kernel.
    `machine.run.Launch` restarts if it proves wrong.
    """
    named: dict[str | None, int] = {array.name: array.segment for array in bound}
    stored = _stored_names(program)
    return frozenset(map(named.__getitem__, stored)) if stored <= named.keys() else None


def _stored_names(program: Program) -> frozenset[str | None]:
    """Return the names of the arrays that its stores write, except arrays of its own."""
    if "stored" not in program.derived:
        own = {array.name for array in (*program.shared, *program.locals)}
        writing = zip(program.array_of, program.code[:, 0].tolist(), strict=True)
        names = {name for name, op in writing if OPERATIONS[NAMES[op]].kind in ("store", "atomic")}
        program.derived["stored"] = frozenset(names - own)
    found: frozenset[str | None] = program.derived["stored"]
    return found


def _unpack_value(data: bytes, type_: str, at: int) -> int | float:
    """Return the value at a byte of an argument."""
    found = data[at : at + SIZE[type_]]
    if type_ in ("f32", "f64"):
        value: float = struct.unpack("<f" if type_ == "f32" else "<d", found)[0]
        return value
    return int.from_bytes(found, "little")


def _scalar(value: Any, axis: int) -> int | float | bool:
    """Return a number for a row.  `axis` 0 and 1 select the real and the imaginary part of a complex number."""
    if isinstance(value, (complex, np.complexfloating)):
        return float(value.imag if axis == 1 else value.real)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return int(value.view(np.int64))
    if isinstance(value, np.generic) and value.dtype.kind == "V":  # a bfloat16, whose register holds its bits
        return int(value.view(np.uint16))
    return int(value)
