"""Variables of PTX: their memory, and the meaning of their names (chapters 5.1 and 7).

An address in shared memory is the offset in the CTA's window, as in PTX, because compilers keep it in 32 bits.
Addresses in other spaces are the generic addresses of the bytecode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.frontend.ptx.literals import literal_bits
from wsemu.frontend.ptx.sizes import TYPE_BYTES, variable_size
from wsemu.frontend.ptx.syntax import Symbol
from wsemu.model.data import dataclass, field
from wsemu.model.isa import (
    ANYWHERE,
    FORBIDS_SHIFT,
    IN_LOCAL,
    LOCAL_SHIFT,
    MOST_LOCAL,
    OFFSET_MASK,
    ON_STACK,
    SEGMENT_SHIFT,
    SHARED,
    STACK_UNIT,
)
from wsemu.model.program import ConstantArray, SharedArray
from wsemu.model.program import Parameter as RegisterParameter
from wsemu.model.tensor_map import MAP_ALIGNMENT, MAP_BYTES

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Graph, Instruction, Register
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Variable

LARGEST = {"global": 1 << 28, "const": 1 << 16, "local": MOST_LOCAL, "param": 1 << 15}
"""state space -> maximum bytes of a variable; for local memory, of all variables together (512 KiB per thread, as on a
GPU)"""
MOST_BYTES = 16
"""maximum bytes of an access by one lane"""
_SHORT_NUMBERS = 1 << 32 - LOCAL_SHIFT
"""number of variables that 32-bit addresses can distinguish"""
ONLY_LOCAL = (ANYWHERE & ~IN_LOCAL) << FORBIDS_SHIFT
"""`auxiliary` of an access to local memory"""
WINDOW = SHARED << SEGMENT_SHIFT
"""address of offset 0 in the window of shared memory"""


@dataclass(slots=True)
class SharedPlace:
    """A static variable of shared memory."""

    variable: Variable
    offset: int

    def address(self, e: Emitter) -> Register:
        """Return the offset in the window, computed from the base so that the analysis of atomics can distinguish
        arrays."""
        full = e.emit("add.b64", e.special("shared"), e.constant("b64", self.offset))
        e.origins[full] = self.variable.name
        return e.emit("and.b64", full, e.constant("b64", OFFSET_MASK))

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return base and constant offset for an access that names the variable."""
        return e.special("shared"), self.offset, self.variable.name


@dataclass(slots=True)
class DynamicPlace:
    """Shared memory whose size the launch determines: all such variables begin at one address (7.1.7)."""

    variable: Variable

    def address(self, e: Emitter) -> Register:
        """Return the offset in the window."""
        self._used(e)
        offset = e.emit("and.b64", e.special("dynamic"), e.constant("b64", OFFSET_MASK))
        e.origins[offset] = self.variable.name
        return offset

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return base and constant offset for an access that names the variable."""
        self._used(e)
        return e.special("dynamic"), 0, self.variable.name

    def _used(self, e: Emitter) -> None:
        e.dynamic[self.variable.name] = None
        e.graph.uses_dynamic_shared = True
        e.graph.dynamic_alignment = max(e.graph.dynamic_alignment, alignment(self.variable))


@dataclass(slots=True)
class LocalPlace:
    """A variable of a thread's local memory."""

    variable: Variable
    offset: int
    number: int
    """number of the variable in its addresses, from 1"""
    named: list[Instruction] = field(default_factory=list)
    """the instructions that compute addresses with this number"""

    def address(self, e: Emitter) -> Register:
        """Return the address of the thread's own copy."""
        address = self._array_address(e, self.number)
        self.named.append(e.code[-1])
        return address

    def short_address(self, e: Emitter) -> Register:
        """Return an address whose low 32 bits are the whole offset."""
        return self._array_address(e, self.number if self.number < _SHORT_NUMBERS else 0)

    def _array_address(self, e: Emitter, number: int) -> Register:
        offset = self.offset + (number << LOCAL_SHIFT)
        address = e.emit("add.b64", e.special("local"), e.constant("b64", offset))
        e.origins[address] = self.variable.name
        return address

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return base and constant offset for an access that names the variable."""
        return e.special("local"), self.offset, self.variable.name

    def at(self, e: Emitter, distance: int) -> tuple[Register, int, str]:
        """Return the base and constant offset for an access at this distance in bytes from the variable's start."""
        number = 0 if _is_inside(self.variable, distance) else self.number
        return e.special("local"), self.offset + distance + (number << LOCAL_SHIFT), self.variable.name


@dataclass(slots=True)
class FramePlace:
    """A variable in local memory of a recursive function: each call has its own copy, on the stack."""

    variable: Variable
    frame: Register
    offset: int
    entered: dict[int, list[Register]]
    """offsets of the function's variables whose extents are stored before them on the stack -> registers with their
    addresses"""

    def address(self, e: Emitter) -> Register:
        """Return the address in the part of the stack that the call has."""
        start = self.short_address(e)
        address = enter_stack_variable(e, start, e.constant("b64", variable_size(self.variable)))
        self.entered.setdefault(self.offset, []).append(address)
        e.origins[address] = self.variable.name
        return address

    def short_address(self, e: Emitter) -> Register:
        """Return an address that does not name the variable."""
        address = e.emit("add.b64", self.frame, e.constant("b64", self.offset))
        e.origins[address] = self.variable.name
        return address

    def at(self, e: Emitter, distance: int) -> tuple[Register, int, str]:
        """Return base and constant offset for an access at this distance in bytes from the variable's start."""
        if _is_inside(self.variable, distance):
            return self.frame, self.offset + distance, self.variable.name
        return self.address(e), distance, self.variable.name

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return base and constant offset for an access that names the variable."""
        return self.frame, self.offset, self.variable.name


@dataclass(slots=True)
class FunctionPlace:
    """A function as a value: its address."""

    number: int

    def address(self, e: Emitter) -> Register:
        """Return the number that represents the function's address."""
        return e.constant("b64", self.number)

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return the address for an access that names the function."""
        return self.address(e), 0, ""


@dataclass(slots=True)
class ModulePlace:
    """A variable in global or constant memory, with its own segment."""

    variable: Variable
    register: Register

    def address(self, e: Emitter) -> Register:
        """Return the address of the first byte."""
        if self.variable.space == "const":
            e.relative.append(self.register)
        return self.register

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return base and constant offset for an access that names the variable."""
        return self.register, 0, self.variable.name


@dataclass(slots=True)
class UnknownPlace:
    """An object without memory here: a variable defined elsewhere, a texture, a function as a value."""

    what: str

    def address(self, e: Emitter) -> Register:
        """Raise an error, because the object has no address; the run ends if a lane would use it."""
        e.emit_unsupported(self.what)
        return e.constant("b64", 0)

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Raise an error, because the object has no address."""
        return self.address(e), 0, ""


@dataclass(slots=True)
class EntryParameter:
    """A parameter of the kernel: rows with the argument's bytes, or its address."""

    variable: Variable
    number: int
    is_address: bool
    _rows: dict[tuple[str, int], Register] = field(default_factory=dict)
    _kept: Register | None = None

    def load(self, e: Emitter, type_: str, offset: int) -> Register | None:
        """Return the row of `type_` (b8 to b64) at a byte offset; None if there is none."""
        found = self._rows.get((type_, offset))
        if found is None:
            size = variable_size(self.variable)
            if offset < 0 or offset + TYPE_BYTES[type_] > size or (self.is_address and type_ != "b64"):
                return None
            found = self._rows[type_, offset] = e.graph.new(type_)
            part = "address" if self.is_address else "bytes"
            e.graph.parameters[found] = RegisterParameter(0, type_, self.number, (), part, offset)
        return found

    @property
    def stays(self) -> bool:
        """Return whether its address must be that of the argument, which may be a tensor map or contain one."""
        aligned = self.variable.alignment >= MAP_ALIGNMENT
        return not self.is_address and aligned and variable_size(self.variable) >= MAP_BYTES

    def address(self, e: Emitter) -> Register:
        """Copy the parameter to local memory, as ptxas does if it cannot address parameters, or return the address of
        the argument."""
        if not self.stays:
            return _copy_parameter(self, e)
        if self._kept is None:
            self._kept = e.graph.new("b64")
            e.graph.parameters[self._kept] = RegisterParameter(0, "b64", self.number, (), "memory", 0)
        return self._kept

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return the address for an access that names the parameter."""
        return self.address(e), 0, self.variable.name


@dataclass(slots=True)
class CallParameter:
    """A parameter or result of an inlined function: one register for each stored piece."""

    variable: Variable
    pieces: dict[tuple[int, int], Register] = field(default_factory=dict)
    """(offset, bytes) -> register"""

    def store(self, e: Emitter, type_: str, offset: int) -> Register:
        """Return the register for a piece."""
        key = (offset, TYPE_BYTES[type_])
        if key not in self.pieces:
            self.pieces[key] = e.graph.new(type_)
        return self.pieces[key]

    def load(self, e: Emitter, type_: str, offset: int) -> Register | None:
        """Return the bytes at an offset, joined from the pieces there; a register that nothing writes if none of them
        was stored, 0 between pieces."""
        size = TYPE_BYTES[type_]
        exact = self.pieces.get((offset, size))
        if exact is not None:
            return exact
        if offset < 0 or offset + size > variable_size(self.variable):
            return None
        if not self.holds(offset, size):
            return e.graph.new(type_)
        whole = e.constant(type_, 0)
        for (at, length), register in self.pieces.items():
            if at + length <= offset or at >= offset + size:
                continue
            if at < offset:
                wide = e.emit(f"shr.u{8 * length}", register, e.constant(f"b{8 * length}", 8 * (offset - at)))
                part = e.resize(wide, 8 * size)
            else:
                part = e.resize(register, 8 * size)
                part = e.emit(f"shl.{type_}", part, e.constant(type_, 8 * (at - offset)))
            whole = e.emit(f"or.{type_}", whole, part)
        return whole

    def holds(self, offset: int, size: int) -> bool:
        """Return whether some of these bytes were stored."""
        return any(at < offset + size and offset < at + length for at, length in self.pieces)

    def address(self, e: Emitter) -> Register:
        """Copy the parameter to local memory, and return the address."""
        return _copy_parameter(self, e)

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Copy the parameter to local memory, and return the address for an access."""
        return _copy_parameter(self, e), 0, self.variable.name


def _copy_parameter(parameter: EntryParameter | CallParameter, e: Emitter) -> Register:
    """Return the address of a new copy of a parameter in local memory."""
    size = variable_size(parameter.variable)
    place = local(e, parameter.variable, writable=not isinstance(parameter, EntryParameter))
    start, first, _ = place.direct(e)
    offset = 0
    while offset < size:
        width = next(n for n in (8, 4, 2, 1) if offset % n == 0 and offset + n <= size)
        empty = isinstance(parameter, CallParameter) and not parameter.holds(offset, width)
        value = None if empty else parameter.load(e, f"b{8 * width}", offset)
        if value is not None:
            e.effect(f"st.b{8 * width}", (start, value), immediate=first + offset, auxiliary=ONLY_LOCAL)
        offset += width
    return place.address(e)


def _is_inside(variable: Variable, distance: int) -> bool:
    """Return whether an access of any size at this distance is inside."""
    return 0 <= distance <= variable_size(variable) - MOST_BYTES


def enter_stack_variable(e: Emitter, start: Register, size: Register) -> Register:
    """Store the extent of a variable on the stack before it, and return an address that names the variable.

    `start` is its address without a name, a multiple of STACK_UNIT; `size` its bytes; both are 64-bit registers.
    """
    with e.looking_up():
        begin = e.emit("sub.b64", start, e.special("local"))
        unit = encode_extent(STACK_UNIT, 0, STACK_UNIT) // STACK_UNIT
        extent = e.emit("mad.b64", begin, e.constant("b64", unit), size)
        e.effect("st.b64", (start, extent), immediate=-STACK_UNIT, auxiliary=ONLY_LOCAL)
        number = e.emit("mul.b64", begin, e.constant("b64", (1 << LOCAL_SHIFT) // STACK_UNIT))
        named = e.emit("add.b64", number, e.constant("b64", ON_STACK << LOCAL_SHIFT))
    return e.emit("add.b64", start, named)


def encode_extent(start: int, size: int, name: int) -> int:
    """Return the word with the extent of a variable that begins at a byte of the thread's memory.  Its address names
    the word by its location, which is `name` in bytes."""
    return (start << 48 | name << 32) // STACK_UNIT | size


# -- allocation ------------------------------------------------------------------------------------------------------
def alignment(variable: Variable) -> int:
    """Return the alignment of a variable in bytes."""
    return max(variable.alignment, TYPE_BYTES.get(variable.type, 8) * variable.vector, 1)


def allocate_shared(graph: Graph, variable: Variable) -> SharedPlace:
    """Allocate a variable in the CTA's shared memory."""
    offset = -(-graph.shared_bytes // alignment(variable)) * alignment(variable)
    graph.shared_bytes = offset + variable_size(variable)
    graph.shared.append(_array(variable, offset))
    return SharedPlace(variable, offset)


def local(e: Emitter, variable: Variable, *, writable: bool = True) -> LocalPlace | FramePlace:
    """Allocate a variable in each thread's local memory; in a recursive function, for each call."""
    instance, graph = e.frames[-1].instance if e.frames else None, e.graph
    if instance is not None and e.stack_memory is not None:
        unit = max(alignment(variable), STACK_UNIT)
        offset = -(-(instance.local_bytes + STACK_UNIT) // unit) * unit
        instance.local_bytes = -(-(offset + variable_size(variable)) // 16) * 16
        instance.named[variable.name] = offset
        return FramePlace(variable, e.stack_memory.frame, offset, instance.entered)
    ends = len(e.frames) > 1 and variable.space == "local"
    unit = max(alignment(variable), STACK_UNIT * ends)
    offset = -(-(graph.local_bytes + STACK_UNIT * ends) // unit) * unit
    graph.local_bytes = -(-(offset + variable_size(variable)) // 16) * 16
    graph.locals.append(_array(variable, offset)._replace(writable=writable))
    number = len(graph.locals)
    place = LocalPlace(variable, offset, number if number < ON_STACK else 0)
    if ends:
        e.frames[-1].variables.append(place)
    return place


def module(graph: Graph, variable: Variable) -> ModulePlace:
    """Create a segment for a variable of global or constant memory, with its initial contents."""
    register = graph.new("b64")
    graph.constant_arrays[register] = ConstantArray(
        0, variable.name, contents(variable), writable=variable.space == "global", alignment=alignment(variable)
    )
    return ModulePlace(variable, register)


_KINDS = {"s": "i", "u": "u", "b": "u", "f": "f"}


def element_dtype(type_: str) -> np.dtype[np.generic]:
    """Return NumPy's type of the elements of a variable."""
    size = TYPE_BYTES.get(type_, 8)
    return np.dtype(f"{_KINDS.get(type_[0], 'u') if size <= 8 and 'x' not in type_ else 'u'}{min(size, 8)}")


def _array(variable: Variable, offset: int) -> SharedArray:
    element = element_dtype(variable.type)
    shape = tuple(variable.shape) or (1,)
    if variable.vector > 1:
        shape = (*shape, variable.vector)
    return SharedArray(variable.name, offset, shape, element, 0, variable.alignment or element.itemsize)


def contents(variable: Variable) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Return the initial contents of a variable: its initializer, then zeros."""
    size = TYPE_BYTES.get(variable.type, 8)
    data = bytearray(variable_size(variable))
    for n, item in enumerate(variable.initial):
        if not isinstance(item, Symbol):
            data[n * size : (n + 1) * size] = literal_bits(
                item, 8 * size, is_float=variable.type in ("f32", "f64")
            ).to_bytes(size, "little")
    return np.frombuffer(data, np.uint8).view(element_dtype(variable.type))
