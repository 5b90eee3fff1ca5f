"""Conversion of host arguments to the parameters of a PTX kernel, which declare a size but rarely a type.

An array needs a parameter of 64 bits, which gets its address.  A Python number takes the type of the parameter; a NumPy
number is passed as its bytes and must have the parameter's size.  A structure passed by value is given as bytes, a
NumPy record, or a tuple of fields, which are laid out as in C; an array in it becomes a pointer.  A list becomes memory
that contains such fields, like a table of pointers, and its address is passed.  A tensor map is passed by its address
if the parameter is a pointer.  The handle of a texture or surface is the address of its description.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.binding import Block, Packed, packed_map
from wsemu.model.data import replace
from wsemu.model.errors import UsageError
from wsemu.model.multicast import MOST_FIELDS, Multicast, Replicated
from wsemu.model.tensor_map import MAP_ALIGNMENT, MAP_BYTES, TensorMap
from wsemu.model.texture import Surface

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.frontend.ptx import Parameter
    from wsemu.launch.binding import Way
    from wsemu.model.device_memory import DeviceMemory

    Arrays = list[tuple[int, Way, Any]]
    """(offset in bytes, path of field numbers, value) of each array, tensor map or list in a structure"""

POINTER = 8
"""size of an address in bytes"""
_FLOATS: dict[int, type[np.floating[Any]]] = {2: np.float16, 4: np.float32, 8: np.float64}


def marshal_arguments(
    parameters: Sequence[Parameter], names: Sequence[str], arguments: Sequence[Any], kernel: str
) -> tuple[npt.NDArray[Any] | Packed, ...]:
    """Return the arguments in passed form: arrays, for which addresses are passed, and bytes.  Raise UsageError for the
    first argument that does not fit, or for a missing one."""
    count, wanted = len(arguments), len(parameters)
    if count != wanted:
        listed = ", ".join(f"{name} {parameter_text(p)}" for name, p in zip(names, parameters, strict=True))
        raise UsageError(
            f"`{kernel}` takes {wanted} argument{'s' * (wanted != 1)}, not {count}: {listed or 'it has no parameters'}"
        )
    places = (f"argument `{name}`, {parameter_text(p)} in PTX," for name, p in zip(names, parameters, strict=True))
    return tuple(fit(*found) for found in zip(parameters, places, arguments, strict=True))


def parameter_text(parameter: Parameter) -> str:
    """Return the type of a parameter in PTX: `.u64`, or `.b8[16]` for a structure."""
    is_structure = parameter.type == "b8" and parameter.bytes > 1
    return f".{parameter.type}[{parameter.bytes}]" if is_structure else f".{parameter.type}"


def fit(parameter: Parameter, where: str, value: Any) -> npt.NDArray[Any] | Packed:
    """Return a value in the form in which a parameter of this type is passed; `where` begins the error message if the
    value does not fit."""
    if isinstance(value, Packed):
        return _check_size(value, parameter, where)
    if hasattr(value, "__array_interface__") and not isinstance(value, np.generic):
        return _array(parameter, where, np.asarray(value) if not isinstance(value, np.ndarray) else value)
    if value is None and parameter.bytes == POINTER:
        return Packed(bytes(POINTER))
    if isinstance(value, (bytes, bytearray)):
        return _check_size(Packed(bytes(value)), parameter, where)
    if isinstance(value, TensorMap) and parameter.bytes != POINTER:
        return _check_size(packed_map(value), parameter, where)
    if isinstance(value, tuple):
        return _structure(parameter, where, value)
    if (
        isinstance(value, (list, TensorMap, Surface, Multicast))
        and parameter.bytes == POINTER
        and parameter.type[0] in "bus"
    ):
        if isinstance(value, Surface):
            return _pack_structure(bytearray(POINTER), [_handle(value, (), where)])
        if isinstance(value, Multicast):
            return _pack_structure(bytearray(POINTER), [(0, (), value)])
        held = value if isinstance(value, list) else [value]  # a map in global memory
        return Packed(bytes(POINTER), blocks=((0, (), _block(held, (), where)),))
    if isinstance(value, np.generic):
        return _numpy(parameter, where, value)
    if isinstance(value, (bool, int, float)):
        return Packed(_number(parameter, where, value))
    what = "None" if value is None else f"a {type(value).__name__}"
    raise UsageError(f"{where} is {what}: {_remedy(parameter)}")


def find_pointers(parameter: Parameter, given: Any, memory: DeviceMemory) -> Any:
    """Return a view of device memory for an argument that is a single address, mark an argument that contains addresses
    of allocations, and return any other argument unchanged."""
    if not isinstance(given, Packed):
        return given
    words = np.frombuffer(given.data, np.uint64, len(given.data) // POINTER).tolist()
    if len(words) == 1 and parameter.type in ("u64", "s64", "b64"):
        view = memory.raw_view(words[0])
        if view is not None:
            return view
    return replace(given, has_pointers=True) if any(memory.nearest(word) for word in words) else given


def _array(parameter: Parameter, where: str, array: npt.NDArray[Any]) -> npt.NDArray[Any] | Packed:
    if parameter.type[1:] == "64" and parameter.type[0] in "bus":
        if array.dtype.hasobject:
            raise UsageError(f"{where} is an array of Python objects: give one of numbers, or of records")
        if not array.dtype.isnative:
            native = array.dtype.newbyteorder("=")
            raise UsageError(
                f"{where} is an array {array.dtype}: a GPU has its bytes in the other order; give {native}"
            )
        return array
    if array.nbytes == parameter.bytes and parameter.type == "b8" and not array.dtype.hasobject:
        return Packed(array.tobytes())  # a structure of equal parts
    shape = ", ".join(map(str, array.shape))
    raise UsageError(f"{where} is an array {array.dtype}[{shape}]: {_remedy(parameter)}")


def _numpy(parameter: Parameter, where: str, value: np.generic) -> Packed:
    """Return the bytes of a NumPy number or record."""
    given = value.dtype
    allowed = {"f": "f", "u": "iubMm", "s": "iubMm"}.get(parameter.type[0])
    if given.hasobject or (allowed and given.kind not in allowed):
        raise UsageError(f"{where} is {value!r}: {_remedy(parameter)}")
    if given.kind == "b":
        return Packed(int(value).to_bytes(parameter.bytes, "little"))
    if given.itemsize != parameter.bytes:
        sizes = f"of {given.itemsize * 8} bits, not of {parameter.bytes * 8}"
        raise UsageError(f"{where} is {value!r}, {sizes}: {_remedy(parameter)}")
    return Packed(value.tobytes())


def _number(parameter: Parameter, where: str, value: float) -> bytes:
    """Convert a Python number to the type of the parameter."""
    size, kind = parameter.bytes, parameter.type[0]
    if parameter.type == "b8" and size > 1:
        raise UsageError(f"{where} is {value!r}: {_remedy(parameter)}")
    if kind == "f" or (kind == "b" and isinstance(value, float)):
        if size not in _FLOATS or parameter.type.startswith("bf"):
            raise UsageError(f"{where} is {value!r}: {_remedy(parameter)}")
        return _float_bytes(value, size, where)
    if isinstance(value, float):
        remedy = f"write {int(value)}" if value.is_integer() else "give an int"
        raise UsageError(f"{where} is {value!r}: {remedy}")
    if not -(1 << (8 * size - 1)) <= value < 1 << 8 * size:
        raise UsageError(f"{where} is {value}, which does not fit into {8 * size} bits")
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _float_bytes(value: float, size: int, where: str) -> bytes:
    """Return a number as a float of `size` bytes."""
    try:
        with np.errstate(over="ignore"):  # a number beyond the largest is infinite, as in C
            return np.array(float(value), _FLOATS[size]).tobytes()
    except OverflowError:
        raise UsageError(f"{where} is an int of more than 1,024 bits: too large for a float") from None


def _structure(parameter: Parameter, where: str, fields: tuple[Any, ...]) -> Packed:
    """Return a structure by value from a tuple of fields, each at the next multiple of its alignment."""
    data = bytearray()
    arrays: Arrays = []
    of_map = 2 * MAP_ALIGNMENT if parameter.alignment >= 2 * MAP_ALIGNMENT else MAP_ALIGNMENT
    alignment = _lay_out(fields, (), data, arrays, where, of_map)
    data.extend(bytes(-len(data) % alignment))
    return _check_size(_pack_structure(data, arrays), parameter, where)


def _pack_structure(data: bytearray, held: Arrays) -> Packed:
    """Return the bytes of a structure with its arrays, tensor maps and lists, by kind."""
    kinds: dict[type, Arrays] = {np.ndarray: [], TensorMap: [], Block: [], Multicast: []}
    for entry in held:
        kinds[next(kind for kind in kinds if isinstance(entry[2], kind))].append(entry)
    found, maps, blocks, several = (tuple(entries) for entries in kinds.values())
    multicasts: list[Replicated] = []
    replicas: list[npt.NDArray[Any]] = []
    for at, _, value in several:
        multicasts.append(Replicated(at, len(replicas), len(value.replicas)))
        replicas.extend(value.replicas)
    if len(multicasts) > MOST_FIELDS:
        raise UsageError(f"a structure has {len(multicasts)} multicast addresses: it may have {MOST_FIELDS}")
    return Packed(bytes(data), found, maps, blocks, False, tuple(multicasts), tuple(replicas))


def _block(values: list[Any], way: Way, where: str) -> Block:
    """Return memory that holds these values consecutively, as a structure of C does."""
    if not values:
        raise UsageError(f"{where} is an empty list: give what stands in that memory, or None for a null pointer")
    data = bytearray()
    held: Arrays = []
    alignment = _lay_out(tuple(values), way, data, held, where, 2 * MAP_ALIGNMENT)
    data.extend(bytes(-len(data) % alignment))
    if any(isinstance(value, Multicast) for _, _, value in held):
        raise UsageError(f"{where} is a list with a multicast address: pass that as an argument, or in a structure")
    return Block(np.zeros(len(data), np.uint8), _pack_structure(data, held))


def _lay_out(fields: tuple[Any, ...], path: Way, data: bytearray, arrays: Arrays, where: str, of_map: int) -> int:
    """Append fields to the bytes of a structure, and return its alignment.  `of_map` is the alignment of tensor maps:
    128 bytes since CUDA 13, 64 before."""
    alignment = 1
    for number, value in enumerate(fields):
        way = (*path, number)
        if isinstance(value, tuple):
            inner = bytearray()
            start: Arrays = []
            own = _lay_out(value, way, inner, start, where, of_map)
            inner.extend(bytes(-len(inner) % own))
        else:
            inner, start, own = _field(value, way, where)
            own = of_map if isinstance(value, TensorMap) else own
        data.extend(bytes(-len(data) % own))
        arrays.extend((len(data) + at, at_path, array) for at, at_path, array in start)
        data.extend(inner)
        alignment = max(alignment, own)
    return alignment


def _handle(value: Surface, way: Way, where: str) -> tuple[int, Way, Block]:
    """Return the description of a texture or surface as an entry of a structure; findings name its array after the
    argument."""
    block = _block(value.held(), way, where)
    ((at, _, array),) = block.packed.arrays
    return 0, (*way, "handle"), Block(block.memory, Packed(block.packed.data, ((at, way, array),)))


def _field(value: Any, way: Way, where: str) -> tuple[bytearray, Arrays, int]:
    """Return the bytes of a field, the arrays in it, and its alignment."""
    if value is None or (isinstance(value, np.ndarray) and not value.dtype.hasobject):
        return bytearray(POINTER), [] if value is None else [(0, way, value)], POINTER
    if isinstance(value, Surface):
        return bytearray(POINTER), [_handle(value, way, where)], POINTER
    if isinstance(value, Multicast):
        return bytearray(POINTER), [(0, way, value)], POINTER
    if isinstance(value, list):
        return bytearray(POINTER), [(0, way, _block(value, way, where))], POINTER
    if isinstance(value, TensorMap):
        return bytearray(MAP_BYTES), [(0, way, value)], MAP_ALIGNMENT
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        own = _alignment(value.dtype)
        return bytearray(value.tobytes()) + bytes(-value.nbytes % own), [], own
    place = "".join(f"[{n}]" for n in way)
    raise UsageError(
        f"{where} has a field {place} {value!r}, of type {type(value).__name__}: give fields as NumPy numbers, "
        "`np.int32(7)`, which have a size, and pointers as arrays"
    )


def _alignment(given: np.dtype[Any]) -> int:
    """Return the alignment in C of a field with this NumPy type.

    NumPy aligns the fields of a record only on request.  A record with unaligned fields has alignment 1, like a packed
    structure of C.
    """
    if given.fields:
        fields = [(_alignment(entry[0]), entry[1]) for entry in given.fields.values()]
        return 1 if any(at % own for own, at in fields) else max(own for own, _ in fields)
    if given.subdtype:
        return _alignment(given.subdtype[0])
    return 1 if given.kind in "SV" else max(min(given.itemsize, 16), 1)


def _check_size(packed: Packed, parameter: Parameter, where: str) -> Packed:
    if len(packed.data) != parameter.bytes:
        held = f"{parameter.bytes}, aligned to {parameter.alignment}"
        raise UsageError(f"{where} got {len(packed.data)} bytes: it has {held}")
    return packed


_REMEDIES: dict[str, Callable[[int], str]] = {
    "f": lambda size: f"give a number, or `np.{_FLOATS[size].__name__}(...)`" if size in _FLOATS else "give its bytes",
    "u": lambda size: "give an array, whose address is passed, or an int" if size == POINTER else "give an int",
}


def _remedy(parameter: Parameter) -> str:
    """Return the values that a parameter accepts."""
    if parameter.type == "b8" and parameter.bytes > 1:
        return f"give the structure's {parameter.bytes} bytes, a NumPy record, or a tuple of its fields"
    return _REMEDIES.get(parameter.type[0], _REMEDIES["u"])(parameter.bytes)
