"""Names that a kernel may call and use: Python's builtins, `math`, NumPy, `wsemu.cuda`, `wsemu.ptx`.

`find` returns the handler of a callable, `marker_value` the value of a marker, `attribute` and `method` the members of
a number.  The handlers are in this folder, by topic.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.python.complex_arithmetic import conjugate
from wsemu.frontend.python.library import builtins as library_builtins
from wsemu.frontend.python.library import cuda as library_cuda
from wsemu.frontend.python.library import math as library_math
from wsemu.frontend.python.library import memory as library_memory
from wsemu.frontend.python.library import numpy as library_numpy
from wsemu.frontend.python.library.calls import ATTRIBUTES, FUNCTIONS, Call, Handler, positional
from wsemu.frontend.python.scalars import constant, reinterpret
from wsemu.frontend.python.values import ArrayValue, ComplexValue, Scalar, Static, Value
from wsemu.language import cuda_names as cuda
from wsemu.language.markers import Declared, KernelValue
from wsemu.language.promotion import number_type

if TYPE_CHECKING:
    from types import ModuleType

    from wsemu.frontend.python.builder import Builder

__all__ = ["ATTRIBUTES", "FUNCTIONS", "Call", "Handler", "attribute", "canonical", "find", "marker_value", "method"]

TOPICS: tuple[ModuleType, ...] = (library_builtins, library_math, library_numpy, library_cuda, library_memory)
"""modules that enter what most kernels call into FUNCTIONS and ATTRIBUTES"""
FURTHER = (
    "device", "halves", "ptx", "asynchronous", "cmath", "operators", "reductions", "cluster", "matrix",
    "tensor_memory",
)  # fmt: skip
"""modules that are imported only if a kernel uses any other name: importing all of them takes as long as a small
launch"""

_NUMBA_CUDA = ("numba.cuda", "numba_cuda_mlir.cuda", "numba_cuda.numba.cuda")
_NAMESPACES = ("shared", "local", "const", "atomic", "bf16", "fp16", "libdevice")


@functools.cache
def _numba_objects(module: ModuleType) -> dict[int, object]:
    """Return id of an object of Numba-CUDA -> the object of `wsemu.cuda` with the same name."""
    found: dict[int, object] = {}
    for name in dir(cuda):
        theirs, ours = getattr(module, name, None), getattr(cuda, name)
        if theirs is None:
            continue
        found[id(theirs)] = ours
        if name in _NAMESPACES:
            for member in dir(ours):
                if hasattr(theirs, member):
                    found[id(getattr(theirs, member))] = getattr(ours, member)
    return found


def canonical(obj: object) -> object:
    """Return the object of `wsemu.cuda` that corresponds to `obj`, a module or member of Numba-CUDA; any other object
    is returned unchanged."""
    for module_name in _NUMBA_CUDA:
        module = sys.modules.get(module_name)
        if module is not None:
            if obj is module:
                return cuda
            ours = _numba_objects(module).get(id(obj))
            if ours is not None:
                return ours
    return obj


def _entry(table: dict[object, Handler], key: object) -> Handler | None:
    """Return the entry of a table under a key, after importing the modules that may add it."""
    found = table.get(key)
    if found is None:
        _load_further()
        found = table.get(key)
    return found


@functools.cache
def _load_further() -> None:
    for topic in FURTHER:
        importlib.import_module(f"{__package__}.{topic}")


def find(obj: Any) -> Handler | None:
    """Return the handler of a host object that a kernel calls, or None if it has none."""
    if isinstance(obj, Declared):
        return None
    try:
        handler = _entry(FUNCTIONS, canonical(obj))
    except TypeError:  # unhashable
        return None
    if handler is not None:
        return handler
    if isinstance(obj, np.ufunc):
        return library_numpy.absent(obj)
    type_ = None if isinstance(obj, str) else number_type(obj)
    return None if type_ is None else library_builtins.casting(type_.name, type_)


def marker_value(b: Builder, obj: Any) -> Value | None:
    """Return the value of a marker such as `cuda.threadIdx.x` or `cuda.laneid`; None for any other object."""
    key = canonical(obj)
    try:
        make = _entry(ATTRIBUTES, key) if isinstance(key, KernelValue) else ATTRIBUTES.get(key)
    except TypeError:
        return None
    return None if make is None else make(b)


# -- members of numbers ----------------------------------------------------------------------------------------------


def attribute(b: Builder, x: Value, name: str) -> Value | None:
    """Return `x.real` or `x.imag` of a number; None if it has no such attribute."""
    if isinstance(x, ComplexValue):
        return {"real": x.real, "imag": x.imag}.get(name)
    if isinstance(x, Scalar) and x.type.kind != "b":
        return {"real": x, "imag": constant(x.type, 0)}.get(name)
    return None


def reduce(call: Any, x: ArrayValue, name: str) -> Value:
    """Return a reduction method of an array, such as `x.sum()`."""
    from wsemu.frontend.python.library import reductions as library_reductions

    positional(call, name, 0)
    return library_reductions.reduce(call, name, x)


METHODS = frozenset(("conjugate", "item", "bit_count", "view"))
"""names of the methods of numbers"""


def method(call: Any, x: Scalar | ComplexValue, name: str) -> Value:
    """Lower `x.conjugate()`, `x.item()`, `x.bit_count()` or `x.view(dtype)`."""
    if name == "conjugate":
        positional(call, name, 0)
        return conjugate(call.b, x) if isinstance(x, ComplexValue) else x
    if name == "item":
        positional(call, name, 0)
        return x
    if name == "bit_count" and isinstance(x, Scalar) and x.type.kind in "iu":
        positional(call, name, 0)
        return library_cuda.count_bits(call.b, "popc", x, x.type)
    if name == "view" and isinstance(x, Scalar) and x.type.kind != "b":
        (dtype,) = positional(call, name, 1)
        to = number_type(dtype.object) if isinstance(dtype, Static) else None
        if to is None or to.bits != x.type.bits or to.kind not in "iuf":
            raise call.error(f"a {x.type} cannot be viewed as that", f"give a number type of {x.type.bits} bits")
        return reinterpret(x, to)
    raise call.error(f"a {x.type} has no method `{name}`", f"numbers have {', '.join(sorted(METHODS))}")
