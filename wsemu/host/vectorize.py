"""`@vectorize` and `@guvectorize` with `target="cuda"`: functions of arrays, whose loops are launches.

One thread computes an element, or with `guvectorize` one item of the loop dimensions.  Signatures are selected as in
Numba-CUDA: arrays must have the declared dtypes, and numbers are converted to the remaining ones.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.host.driver import device_array, is_cuda_ndarray
from wsemu.language import cuda_names as cuda
from wsemu.language import signatures
from wsemu.language.promotion import number_type
from wsemu.launch.compiled import type_of_variable
from wsemu.launch.kernel import Kernel, jit
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]
THREADS = 128
"""number of threads of a CTA"""


def vectorize(given: Any = None, /, **options: Any) -> Any:
    """Implement `@cuda.vectorize` and `@numba.vectorize(..., target="cuda")`: apply a function of numbers to arrays."""
    if callable(given) and not hasattr(given, "return_type"):
        return Vectorized(given, [])
    wanted = [] if given is None else given if isinstance(given, list) else [given]
    return lambda function: Vectorized(function, wanted)


def guvectorize(types: Any, signature: str | None = None, /, **options: Any) -> Any:
    """Implement `@guvectorize(types, "(n),()->(n)", target="cuda")`: apply a function of arrays along further
    dimensions, the loop."""
    layout, wanted = (types, []) if signature is None else (signature, types)
    return lambda function: Generalized(function, wanted if isinstance(wanted, list) else [wanted], layout)


class _Function:
    """The base of both kinds: signatures, and a kernel that calls the function for each thread."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = jit(device=True)(getattr(function, "py_func", function))
        functools.update_wrapper(self, self._function.py_func)  # type: ignore[arg-type]
        self._signatures: list[signatures.Declared] = []
        self._kernels: dict[str, Kernel] = {}
        self.nin = 0

    def add(self, signature: Any) -> None:
        """Add a signature."""
        self._signatures += signatures.parse(signature, self.__name__)

    def _fitting(self, fits: Callable[[int, np.dtype[Any]], bool]) -> list[signatures.Declared]:
        """Return the signatures whose operands fit, by their positions and declared dtypes."""
        return [
            one
            for one in self._signatures
            if all(fits(n, _dtype(type_)) for n, type_ in enumerate(one.arguments[: self.nin]))
        ]

    def _unfit(self, operands: Sequence[Array], why: str) -> TypeError:
        given = ", ".join(str(array.dtype) for array in operands)
        return TypeError(f"`{self.__name__}` has {why} for {given}: it has {', '.join(map(str, self._signatures))}")

    def _launch(self, body: str, count: int, arrays: Sequence[Array], stream: object) -> None:
        """Launch a kernel with a thread for each of `count` items; its `body` calls `function` for item `i`."""
        if not count:
            return
        kernel = self._kernels.get(body)
        if kernel is None:
            name = self.__name__ if self.__name__.isidentifier() else "elements"
            names = ", ".join(f"x{n}" for n in range(len(arrays)))
            text = f"def {name}(count, {names}):\n    i = cuda.grid(1)\n    if i < count:\n        {body}\n"
            space: dict[str, Any] = {"cuda": cuda, "function": self._function}
            exec(text, space)
            made = space[name]
            made.__source__ = text
            kernel = self._kernels[body] = jit(made)
        kernel[-(-count // THREADS), THREADS, stream](count, *arrays)


def _dtype(type_: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a declared type, or of its elements."""
    found = number_type(getattr(type_, "dtype", type_))
    if found is None:
        raise UsageError(f"{type_} in a signature: give numbers, and arrays of them")
    return np.dtype(found.name)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.number))


def _host(value: Any) -> Array:
    return np.asarray(value)


def _deliver_result(result: Array, out: Any, operands: Sequence[Any]) -> Any:
    """Return a result to the caller: in `out` if given, on the device if an operand is there, otherwise on the host."""
    if out is not None:
        np.copyto(out, result.reshape(np.shape(out)), casting="unsafe")
        return out
    if any(is_cuda_ndarray(value) for value in operands):
        return result
    host = np.array(result)
    return host if host.ndim or any(np.ndim(value) for value in operands) else host[()]


class Vectorized(_Function):
    """A function of numbers that computes on whole arrays, broadcast as NumPy does."""

    def __init__(self, function: Callable[..., Any], wanted: Sequence[Any]) -> None:
        super().__init__(function)
        self.nin = self._function.py_func.__code__.co_argcount
        for one in wanted:
            self.add(one)

    def add(self, signature: Any) -> None:
        """Add a signature; if it declares no result type, use the type that the function returns."""
        for one in signatures.parse(signature, self.__name__):
            result = self._return_type(one.arguments) if one.result is None else one.result
            self._signatures.append(one._replace(result=result))

    def _return_type(self, types: tuple[Any, ...]) -> Any:
        names = ", ".join(f"x{n}" for n in range(len(types)))
        space: dict[str, Any] = {"function": self._function}
        text = f"def returns({names}):\n    result = function({names})\n"
        exec(text, space)
        space["returns"].__source__ = text
        return type_of_variable(space["returns"], [_dtype(type_) for type_ in types], "result")

    @property
    def types(self) -> list[str]:
        """The signatures in a ufunc's notation: `dd->d`."""
        return [
            f"{''.join(_dtype(t).char for t in one.arguments)}->{_dtype(one.result).char}" for one in self._signatures
        ]

    def _select_signature(self, operands: Sequence[Any], arrays: Sequence[Array]) -> signatures.Declared:
        """Return the signature for these operands: the one with their dtypes, or else the only one that fits the
        arrays."""
        exact = self._fitting(lambda n, wanted: arrays[n].dtype == wanted)
        found = exact or self._fitting(lambda n, wanted: _is_number(operands[n]) or arrays[n].dtype == wanted)
        if not found:
            raise self._unfit(arrays, "no matching version: arrays need the exact types, so no signature")
        if len({(one.arguments, one.result) for one in found}) > 1:
            raise self._unfit(arrays, "an ambiguous signature, so that numbers need a NumPy type,")
        return found[0]

    def __call__(self, *args: Any, out: Any = None, stream: object = 0) -> Any:
        """Apply the function to each element; the result goes into `out`, or into the argument after the operands, if
        given."""
        operands, rest = args[: self.nin], args[self.nin :]
        if len(operands) != self.nin or len(rest) > 1:
            raise UsageError(f"`{self.__name__}` takes {self.nin} operands and an output, not {len(args)} arguments")
        arrays = [_host(value) for value in operands]
        chosen = self._select_signature(operands, arrays)
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        flat = [
            np.ascontiguousarray(np.broadcast_to(array.astype(_dtype(type_), copy=False), shape)).reshape(-1)
            for array, type_ in zip(arrays, chosen.arguments, strict=True)
        ]
        made = device_array(math.prod(shape), _dtype(chosen.result))
        operands_text = ", ".join(f"x{n + 1}[i]" for n in range(self.nin))
        self._launch(f"x0[i] = function({operands_text})", made.size, [made, *flat], stream)
        return _deliver_result(made.reshape(shape), rest[0] if rest else out, operands)

    def reduce(self, array: Any, axis: int = 0, stream: object = 0) -> Any:
        """Combine the items of a 1-D array by a function of two arguments: one half with the other half, until one item
        is left."""
        rest = _host(array)
        if rest.ndim != 1 or self.nin != 2 or not rest.size:
            raise UsageError(f"`{self.__name__}.reduce` takes a 1-D array that is not empty, and a function of two")
        while rest.size > 1:
            half = rest.size // 2
            rest = np.concatenate([_host(self(rest[:half], rest[half : 2 * half], stream=stream)), rest[2 * half :]])
        return rest[0]


class Generalized(_Function):
    """A function of arrays with a layout such as `(m,n),(n)->(m)`; further dimensions of its arguments are the loop."""

    def __init__(self, function: Callable[..., Any], wanted: Sequence[Any], layout: str) -> None:
        super().__init__(function)
        if not re.fullmatch(r"\s*(\([\w,\s]*\)\s*,?\s*)*->\s*(\([\w,\s]*\)\s*,?\s*)+", layout):
            raise UsageError(f"`guvectorize` of `{self.__name__}` has the layout {layout!r}: write `(n),()->(n)`")
        self.signature = layout
        inputs, outputs = ([_names(one) for one in re.findall(r"\(([^)]*)\)", part)] for part in layout.split("->"))
        self._inputs, self._outputs = inputs, outputs
        self.nin, self.nout = len(inputs), len(outputs)
        for one in wanted:
            self.add(one)

    def __call__(self, *args: Any, out: Any = None, stream: object = 0) -> Any:
        """Apply the function to each item of the loop; results go into the arguments after the inputs, or into `out`,
        if given."""
        operands, rest = args[: self.nin], args[self.nin :]
        if len(operands) != self.nin or len(rest) not in (0, self.nout):
            raise UsageError(
                f"`{self.__name__}` takes {self.nin} inputs, and {self.nout} outputs, not {len(args)} arguments"
            )
        arrays = [_host(value) for value in operands]
        chosen = self._select_signature(arrays)
        sizes, shapes = self._sizes(arrays)
        loop = max(shapes, key=math.prod)
        for n, one in enumerate(shapes, 1):
            if one not in (loop, (), (1,)):
                what = f"input {n} has the loop dimensions {one}, another one {loop}: outer dimension mismatch"
                raise UsageError(f"`{self.__name__}`: {what}")
        count = math.prod(loop)
        flat = [
            self._items(array, loop, names, type_)
            for array, names, type_ in zip(arrays, self._inputs, chosen.arguments, strict=False)
        ]
        made = [
            device_array((count, *([sizes[name] for name in names] or [1])), _dtype(type_))
            for names, type_ in zip(self._outputs, chosen.arguments[self.nin :], strict=True)
        ]
        arguments = ", ".join(f"x{n}[i]" for n in range(len(flat) + len(made)))
        self._launch(f"function({arguments})", count, [*flat, *made], stream)
        given = list(rest) or [out] * self.nout
        results = [
            _deliver_result(array.reshape((*loop, *(sizes[name] for name in names))), to, operands)
            for array, names, to in zip(made, self._outputs, given, strict=True)
        ]
        return results[0] if self.nout == 1 else tuple(results)

    def _select_signature(self, arrays: Sequence[Array]) -> signatures.Declared:
        """Return the signature for these operands: the one with their dtypes, or else the first one to which they cast
        safely, as in Numba-CUDA."""
        found = self._fitting(lambda n, wanted: arrays[n].dtype == wanted)
        found = found or self._fitting(lambda n, wanted: np.can_cast(wanted, arrays[n].dtype))
        if not found:
            raise self._unfit(arrays, "no matching signature")
        return found[0]

    def _sizes(self, arrays: Sequence[Array]) -> tuple[dict[str, int], list[tuple[int, ...]]]:
        """Return the extents of the named dimensions, and the loop dimensions of each input."""
        sizes: dict[str, int] = {}
        loops: list[tuple[int, ...]] = []
        for array, names in zip(arrays, self._inputs, strict=True):
            if array.ndim < len(names):
                raise UsageError(f"`{self.__name__}` has {self.signature}: an input has {array.ndim} dimensions")
            first = array.ndim - len(names)
            for name, extent in zip(names, array.shape[first:], strict=True):
                if sizes.setdefault(name, extent) != extent:
                    raise UsageError(f"`{self.__name__}`: dimension `{name}` is {sizes[name]} and {extent}")
            loops.append(array.shape[:first])
        unknown = {name for names in self._outputs for name in names} - sizes.keys()
        if unknown:
            raise UsageError(f"`{self.__name__}`: no input has the dimension `{min(unknown)}` of {self.signature}")
        return sizes, loops

    def _items(self, array: Array, loop: tuple[int, ...], names: list[str], type_: Any) -> Array:
        """Return an input with the loop as its first dimension; a single number gets the shape that the signature
        declares."""
        core = array.shape[array.ndim - len(names) :]
        whole = np.broadcast_to(array.astype(_dtype(type_), copy=False), (*loop, *core))
        if not names and hasattr(type_, "ndim"):
            core = (1,)
        return np.ascontiguousarray(whole).reshape(math.prod(loop), *core)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class _Builder:
    """A builder of functions with the interface of Numba's builders, to which signatures are added in sequence."""

    _made: Any

    def add(self, sig: Any = None) -> None:
        self._made.add(sig)

    def disable_compile(self) -> None:
        """Do nothing: only declared signatures are compiled."""

    def build_ufunc(self) -> Any:
        return self._made


class CUDAVectorize(_Builder):
    """The result of `numba.vectorize(..., target="cuda")`."""

    def __init__(self, func: Callable[..., Any], identity: Any = None, cache: bool = False, **options: Any) -> None:
        self._made = Vectorized(func, [])


class CUDAGUFuncVectorize(_Builder):
    """The counterpart of `CUDAVectorize` for `numba.guvectorize`."""

    def __init__(
        self, func: Callable[..., Any], sig: str, identity: Any = None, cache: bool = False, **options: Any
    ) -> None:
        self._made = Generalized(func, [], sig)
