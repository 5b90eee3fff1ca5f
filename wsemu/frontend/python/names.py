"""Meaning of names and attributes in a kernel."""

# mypy: disable-error-code="misc"
# (the methods of each part of `Walker` have the whole of it as self)
from __future__ import annotations

import ast
import builtins
import enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from wsemu.frontend.python import arithmetic, arrays, enumerations, joining, views
from wsemu.frontend.python.library import lookup as library
from wsemu.frontend.python.pruning import decide_branch, unmark_value
from wsemu.frontend.python.scalars import constant, describe, literal
from wsemu.frontend.python.values import (
    ArrayValue,
    Bound,
    ComplexValue,
    EnumValue,
    PatternValue,
    RecordValue,
    Scalar,
    Static,
    TupleValue,
    Value,
)
from wsemu.language import cuda_names as cuda
from wsemu.language.markers import Foreign, KernelFunction, KernelValue, Namespace
from wsemu.language.numbers import bfloat16, int64
from wsemu.language.pattern_objects import has_methods
from wsemu.model.device_array import DeviceArray, as_cuda_array, is_foreign
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.file_names import short
from wsemu.model.own import PATTERNS, is_own
from wsemu.model.program import ConstantArray

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker

BUILTINS = vars(builtins)
_BY_ANY_NAME = frozenset(
    "grid gridsize syncthreads syncthreads_and syncthreads_count syncthreads_or shfl_sync shfl_up_sync shfl_down_sync "
    "shfl_xor_sync all_sync any_sync eq_sync ballot_sync ldca ldcg ldcs ldlu ldcv stcg stcs stwb stwt libdevice types "
    "bf16 cg".split()
)
"""names that Numba-CUDA also accepts if they are imported from `numba.cuda` directly"""
_QUALIFIED = {
    id(getattr(cuda, name)): f"cuda.{name}"
    # types are excluded: they are not markers, and reading some of them imports Numba
    for name in (*cuda.FUNCTIONS, *cuda.VALUES)
    if name not in _BY_ANY_NAME
    if isinstance(getattr(cuda, name), (KernelFunction, KernelValue, Namespace))
}
"""id of a marker -> the qualified name that a kernel must use"""


_NO_PATTERNS = (
    type, ModuleType, FunctionType, BuiltinFunctionType, Foreign, Namespace, KernelFunction, KernelValue,
)  # fmt: skip


def is_pattern(obj: Any) -> bool:
    """Return whether a kernel may call methods of an object, with the object as `self`."""
    kind: Any = type(obj)
    return not isinstance(obj, _NO_PATTERNS) and not hasattr(obj, "py_func") and has_methods(kind)


class Names:
    """Names, host objects and attributes."""

    def get_Name(self: Walker, node: ast.Name) -> Value:
        return self.read_name(node, node.id)

    def is_own_library(self: Walker) -> bool:
        """Return whether a function is part of wsemu and written for this front end: Numba never types it."""
        file = self.frame.source.file
        return is_own(file) and not file.startswith(PATTERNS)

    def side(self: Walker, test: ast.expr, condition: Scalar) -> bool | None:
        """Return the side of a branch that remains if Numba drops the other one; None if Numba types both.  In wsemu's
        own functions, a known condition decides."""
        if self.is_own_library():
            return None if condition.literal is None else bool(condition.literal)
        return decide_branch(self, test)

    def read_name(self: Walker, node: ast.AST, name: str) -> Value:
        """Return the variable, the variable of an enclosing function, or the host object with this name."""
        found = self.env.get(name)
        if found is not None:
            if self.b.partial:
                self.doubt(node, found)
            return found if type(found) is Scalar else joining.used(found, name)
        frame = self.frame
        if name in frame.assigned:
            if any(name in loop.names for loop in frame.loops):  # assigned further down, and so known in the next walk
                frame.undefined.add(name)
                return literal(0)
            if name in frame.last:  # assigned only on other paths: zero, as in Numba
                self.b.graph.doubts[self.doubtful(node, name)] = None
                return joining.blank(self.b, frame.last[name])
            raise self.error(node, f"`{name}` is used before it is assigned", "assign it first")
        maker, outer = frame.maker, frame.outer
        while maker is not None:  # search the enclosing functions
            if name in outer:
                return joining.used(outer[name], name)
            outer, maker = maker.outer, maker.maker
        return self.read_host_name(node, name)

    def doubt(self: Walker, node: ast.AST, value: Value) -> None:
        """Record a use of a variable that some path does not assign."""
        name = self.b.partial.get(id(value), ("", value))[0]
        if name and not self.b.block.dead:
            self.b.graph.doubts[self.doubtful(node, name)] = None

    def doubtful(self: Walker, node: ast.AST, name: str) -> str:
        """Return the note for a use of a variable that some path does not assign."""
        span = self.frame.source.span(node)
        where = f"{short(span.file)}:{span.line}"
        return f"{where}: not all paths to this use of `{name}` assign it: it is 0 on the others, as in Numba-CUDA"

    def read_host_name(self: Walker, node: ast.AST, name: str) -> Value:
        """Return a closure cell, a global or a builtin."""
        frame = self.frame
        known = frame.constants.get(name)
        if known is not None:
            return known
        for place in (frame.cells, frame.globals, BUILTINS):
            if name in place:
                self.refuse_bare(node, name, place[name])
                value = self.host_value(place[name], name)
                if isinstance(value, Static):
                    frame.constants[name] = value
                return value
        raise self.error(
            node, f"unknown name `{name}`", "define it before the kernel is launched, or check the spelling"
        )

    def refuse_bare(self: Walker, node: ast.AST, name: str, value: Any) -> None:
        """Reject a `threadIdx` that is imported by its own name: Numba-CUDA only accepts `cuda.threadIdx`."""
        full = _QUALIFIED.get(id(library.canonical(value)))
        if full is not None:
            what = f"`{name}` is `{full}` under a name that Numba-CUDA lacks"
            raise self.error(node, what, f"write `{full}`, with `cuda` imported")

    def host_value(self: Walker, value: Any, name: str) -> Value:
        """Return the value of a host object that a kernel names: numbers and arrays become constants."""
        if isinstance(value, (FunctionType, ModuleType, BuiltinFunctionType)):
            return Static(value)
        if isinstance(value, enum.Enum) and not isinstance(value, int):
            return Static(value)
        if isinstance(value, (bool, int, float, complex, np.generic)):
            return self.host_number(value, name)
        if isinstance(value, DeviceArray) or (is_foreign(value) and not isinstance(value, type)):
            return self.captured_array(value, name)
        if isinstance(value, np.ndarray):
            return self.constant_array(value, name)
        if isinstance(value, tuple) and library.find(value) is None:
            names = tuple(getattr(value, "_fields", ()))
            if not names or not has_methods(type(value)):
                items = (unmark_value(self.host_value(item, f"{name}[{n}]")) for n, item in enumerate(value))
                return TupleValue(tuple(items), names, value)
        made = library.marker_value(self.b, library.canonical(value))
        return Static(value) if made is None else made

    def host_number(self: Walker, value: Any, name: str) -> Value:
        """Return the value of a number known on the host, which must fit into 64 bits."""
        if isinstance(value, (np.str_, np.bytes_, np.void)):
            return Static(value)
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise self.error(self.node, f"{name} is {value}, which does not fit into 64 bits", "use a smaller number")
        return literal(value)

    def constant_array(self: Walker, array: Any, name: str) -> Value:
        """Return a host array as constant memory: its current contents become part of the program."""
        found = self.constant_arrays.get(id(array))
        if found is None:
            data = np.array(array, order="C")
            arrays.check_elements(data.dtype, name)
            register = self.b.graph.new("b64")
            self.b.graph.constant_arrays[register] = ConstantArray(
                0, name, data, origin=array, named_at=self.frame.source.span(self.node) if self.node else None
            )
            shape = tuple(Scalar(int64, None, extent) for extent in data.shape)
            strides = arrays.row_major(self.b, shape, data.dtype.itemsize)
            bounds = Scalar(int64, register), Scalar(int64, None, data.nbytes)
            found = ArrayValue(data.dtype, register, shape, strides, name, "constant", bounds, False)
            self.constant_arrays[id(array)] = found
        return found

    def captured_array(self: Walker, value: Any, name: str) -> Value:
        """Return a device array that a kernel names: its memory is part of every launch, like that of an argument."""
        try:
            array = as_cuda_array(value)
        except UsageError as error:  # the memory does not belong to this process
            raise self.unsupported_error(self.node, f"`{name}`: {error}", "pass it as a NumPy array") from error
        arrays.check_elements(array.dtype, name)
        register = self.captured.get(id(value))
        if register is None:
            register = self.captured[id(value)] = self.b.graph.new("b64")
            writable = bool(array.flags.writeable)
            self.b.graph.constant_arrays[register] = ConstantArray(0, name, array, writable, live=True)
        if array.ndim == 0 and array.dtype.names:
            return RecordValue(array.dtype, register, 0, name, "global", array.flags.writeable)
        low, high = byte_bounds(array)
        before = array.__array_interface__["data"][0] - low  # for an axis with a negative stride
        first = arrays.add_offset(self.b, register, -before)
        shape, strides = (tuple(Scalar(int64, None, n) for n in part) for part in (array.shape, array.strides))
        bounds = Scalar(int64, first), Scalar(int64, None, high - low if array.size else 0)
        return ArrayValue(array.dtype, register, shape, strides, name, "global", bounds, array.flags.writeable)

    # -- attributes ---------------------------------------------------------------------------------------------------
    def get_Attribute(self: Walker, node: ast.Attribute) -> Value:
        value = self.evaluate(node.value)
        self.at(node)
        found = self.attribute(value, node.attr, node)
        if found is None:
            what = f"{describe(value)} has no attribute `{node.attr}`"
            if isinstance(value, ArrayValue) and (
                hasattr(np.ndarray, node.attr) or node.attr in (value.dtype.names or ())
            ):
                raise self.unsupported_error(node, f"{what} here", "load its elements one by one")
            raise self.error(node, what, "check the spelling")
        return found

    def attribute(self: Walker, value: Value, name: str, node: ast.AST) -> Value | None:
        match value:
            case Static():
                return self.static_attribute(value.object, name, node)
            case ArrayValue():
                return views.attribute(self.b, value, name)
            case RecordValue():
                return arrays.read(self.b, *arrays.field(self.b, value, name), value)
            case TupleValue() if name in value.names:
                return value.items[value.names.index(name)]
            case EnumValue() if name == "value":
                return self.member_value(value)
            case PatternValue():
                return self.pattern_attribute(value, name, node)
            case Scalar() | ComplexValue():
                if name in library.METHODS:
                    return Bound(value, name)
                return library.attribute(self.b, value, name)
        return None

    def member_value(self: Walker, value: EnumValue) -> Value | None:
        """Return `.value` of a member that the launch chooses."""
        known = enumerations.member_values(value.cls)
        if not known:
            return None
        found = known[0]
        for n, other in enumerate(known[1:], 1):
            is_it = arithmetic.compare(self.b, "==", value.index, constant(int64, n))
            found = self.select(is_it, lambda v=other: v, lambda v=found: v, simple=True)
        return found

    def static_attribute(self: Walker, obj: Any, name: str, node: ast.AST) -> Value:
        """Return an attribute of a host object, read when the kernel is compiled."""
        obj = library.canonical(obj)
        if is_pattern(obj):
            member = getattr(type(obj), name, None)
            if callable(member) and not isinstance(member, property):
                return Bound(Static(obj), name)
        try:
            found = getattr(obj, name)
        except UnsupportedError as error:
            raise self.unsupported_error(node, error.message, "check the kernel without it") from error
        except Exception as error:  # a property may raise anything
            what = f"`{getattr(obj, '__name__', type(obj).__name__)}`" if obj is not None else "`None`"
            said, _, near = str(error).partition("; ")  # modules of wsemu add similar names
            text = said if said.startswith(("`", "module `wsemu")) else f"{what} has no attribute `{name}`"
            raise self.error(node, text, near if near.startswith("did you mean") else "check the spelling") from error
        return self.host_value(found, name)

    def pattern_attribute(self: Walker, value: PatternValue, name: str, node: ast.AST) -> Value | None:
        """Return a field, property, method or class attribute of a pattern object of the kernel."""
        if name in value.fields:
            return value.fields[name]
        member = getattr(value.cls, name, None)
        if isinstance(member, property) and isinstance(member.fget, FunctionType):
            return self.walk_function(member.fget, [value], {}, node)
        if callable(member):
            return Bound(value, name)
        return None if member is None else self.host_value(member, name)

    def to_host(self: Walker, value: Value) -> tuple[bool, Any]:
        """Return (whether a value is known at compile time, the host object)."""
        if isinstance(value, Static):
            return True, value.object
        if isinstance(value, Scalar) and value.literal is not None:
            exact = value.is_python_literal or value.type.kind in "biu" or value.type is bfloat16
            return True, value.literal if exact else np.dtype(value.type.name).type(value.literal)
        if isinstance(value, TupleValue):
            parts = [self.to_host(item) for item in value.items]
            return all(ok for ok, _ in parts), tuple(host for _, host in parts)
        return False, None
