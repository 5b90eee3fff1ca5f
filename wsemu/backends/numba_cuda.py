"""Execution of the same kernels on a GPU: their names are bound to Numba-CUDA's objects, and Numba-CUDA compiles them,
with unchanged code objects.

`wsemu.cuda` becomes the real `numba.cuda`, `wsemu.ptx` a module of intrinsics; device functions and pattern classes
become objects that Numba can call.  Numba-CUDA is imported when a kernel is first compiled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import math
import warnings
from types import CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from wsemu.language import cuda_names, matrix_names, ptx_names, tensor_names
from wsemu.language.markers import Declared, Foreign, KernelFunction, ScalarType
from wsemu.language.pattern_objects import has_methods
from wsemu.model.device_array import DeviceArray
from wsemu.model.errors import UsageError
from wsemu.model.tensor_map import TensorMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_INSTALL = "pip install 'wsemu[gpu]'"
_ALONE = (1, 1, 1)
"""each CTA is a cluster by itself"""


@functools.lru_cache(maxsize=1)
def numba_cuda() -> ModuleType:
    """Return the module `numba.cuda`, from the package numba-cuda; UsageError if it is missing."""
    try:
        from numba import cuda as module
    except Exception as error:  # its import may also fail with an unsupported NumPy version
        raise UsageError(f"Numba-CUDA cannot be imported ({error}): {_INSTALL}") from error
    if not hasattr(module, "__file__") or "numba_cuda" not in (module.__file__ or ""):
        raise UsageError(f"Numba-CUDA is not installed: {_INSTALL}")
    return module


def available() -> bool:
    """Return whether a GPU can be used here."""
    try:
        return bool(numba_cuda().is_available())
    except UsageError:
        return False


@functools.lru_cache(maxsize=1)
def intrinsics() -> ModuleType:
    """Return the replacement of `wsemu.ptx` for Numba-CUDA."""
    numba_cuda()
    from wsemu.backends import async_intrinsics, matrix_intrinsics, tensor_intrinsics
    from wsemu.backends import intrinsics as plain

    made = ModuleType("wsemu_ptx")
    for name in ptx_names.FUNCTIONS:
        module: Any = plain
        if name in async_intrinsics.FORMS or name == "mapa":
            module = async_intrinsics
        elif name in matrix_names.FUNCTIONS:
            module = matrix_intrinsics
        elif name in tensor_names.FUNCTIONS:
            module = tensor_intrinsics
        setattr(made, name, module.make(name))
    return made


_MODULES: dict[str, Callable[[], ModuleType]] = {
    "wsemu.cuda": numba_cuda,
    "wsemu.ptx": intrinsics,
    "wsemu.language.cuda_names": numba_cuda,
    "wsemu.language.ptx_names": intrinsics,
}
"""for each module to which a kernel refers, the module that Numba-CUDA compiles instead"""
_dispatchers: dict[tuple[int, int], tuple[Any, Any]] = {}
"""id of a rebound function and the limit of its CTA size -> the function and the dispatcher"""
_BOUNDS = (512, 1024)
"""CTA sizes that the compiler must know in order to limit registers"""


def dispatcher(kernel: Any, threads: int = 0) -> Any:
    """Return the Numba-CUDA dispatcher of a kernel for CTAs of this number of threads, or of a function that kernels
    call."""
    bound = 0 if threads <= _BOUNDS[0] // 2 else next(bound for bound in _BOUNDS if threads <= bound)
    found = _dispatchers.get((id(kernel), bound))
    if found is None:
        body = rebound(getattr(kernel, "py_func", kernel))
        found = _dispatchers.get((id(kernel), bound))  # already created, if the function calls itself
    if found is None:
        options = dict(getattr(kernel, "options", {}))
        if not isinstance(kernel, Declared) or kernel.device:
            options["device"] = True
        else:
            options["extensions"] = [*options.get("extensions", ()), _Arguments()]
            if bound:
                options.setdefault("launch_bounds", bound)
        found = _dispatchers[id(kernel), bound] = kernel, numba_cuda().jit(**options)(body)
    return found[1]


class _Arguments:
    """The extension by which Numba-CUDA passes a pattern object to a kernel: the values of its fields that are not
    literals, in order."""

    def prepare_args(self, type_: Any, value: Any, stream: Any, retr: Any) -> tuple[Any, Any]:
        from numba import types

        from wsemu.backends.pattern_types import PatternType

        if isinstance(value, TensorMap):
            from wsemu.backends import tensor_maps

            return tensor_maps.lower_tensor_map_argument(value, retr)
        if not isinstance(type_, PatternType):
            return type_, value
        values = type_.values
        return types.Tuple([kind for _, kind in values]), tuple(getattr(value, name) for name, _ in values)


_rebound: dict[int, tuple[FunctionType, FunctionType]] = {}


def rebound(function: FunctionType) -> FunctionType:
    """Return the function with its globals and cells as Numba-CUDA requires them; its code object is the same."""
    found = _rebound.get(id(function))
    if found is not None:
        return found[1]
    used = _names(function.__code__)
    made = FunctionType(
        function.__code__, {}, function.__name__, function.__defaults__,
        tuple(CellType() for _ in function.__closure__ or ()),
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
    # stored before its globals are converted, because functions may refer to each other
    _rebound[id(function)] = function, made
    space = made.__globals__
    space.update(__builtins__=__builtins__, __name__=function.__module__)
    space.update({name: convert_argument(v, name) for name, v in function.__globals__.items() if name in used})
    for cell, own in zip(made.__closure__ or (), function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = convert_argument(own.cell_contents, "a variable")
        except ValueError:  # the cell is not assigned yet
            continue
    return made


def _names(code: CodeType) -> set[str]:
    """Return the names that a function and its nested functions look up."""
    inner = (_names(item) for item in code.co_consts if isinstance(item, CodeType))
    return set(code.co_names).union(*inner)


def convert_argument(value: Any, name: str) -> Any:
    """Return a host object in the form that Numba-CUDA requires."""
    if isinstance(value, ModuleType) and value.__name__ in _MODULES:
        return _MODULES[value.__name__]()
    if isinstance(value, (KernelFunction, ScalarType, type)) and cuda_names.cuda_fp8.has(value):
        return getattr(importlib.import_module("numba.cuda._internal.cuda_fp8"), _type_name(value))
    if isinstance(value, ScalarType):
        return getattr(numba_cuda().types, value.number_name.replace("bool", "boolean"))
    if isinstance(value, KernelFunction):
        if value.name.startswith("ptx."):
            return getattr(intrinsics(), value.__name__)
        raise UsageError(f"`{name}` is {value.name}: write `{value.name}`, Numba-CUDA resolves no other name of it")
    if isinstance(value, Foreign):
        return _numba_object(value)
    if isinstance(value, Declared):
        return dispatcher(value)
    if isinstance(value, DeviceArray):
        raise UsageError(f"`{name}` is a device array of the emulator, which a GPU cannot see: give it as an argument")
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(convert_argument(item, name) for item in value)
    if _is_pattern(value):
        _bridge(value)
        return value
    if isinstance(value, FunctionType) and not _is_numbas(value):
        return dispatcher(value)
    return value


def _type_name(value: Any) -> str:
    return str(value.number_name if isinstance(value, ScalarType) else value.__name__)


def _numba_object(value: Any) -> Any:
    """Return the object of Numba-CUDA that has the name of a `Foreign`, or the result of calling it there."""
    if isinstance(value, (list, tuple)):
        return type(value)(_numba_object(item) for item in value)
    if not isinstance(value, Foreign):
        return value
    if value.made is not None:
        function, arguments, named = value.made
        return _numba_object(function)(
            *_numba_object(arguments), **{name: _numba_object(item) for name, item in named.items()}
        )
    found: Any = numba_cuda()
    for name in value.path.split("."):
        if not hasattr(found, name):
            found = importlib.import_module(f"{found.__name__}.{name}")
        else:
            found = getattr(found, name)
    return found


def _is_numbas(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] in ("numba", "numpy", "math")


def _is_pattern(value: Any) -> bool:
    """Return whether an object, or a class, is a frozen dataclass with methods."""
    kind = value if isinstance(value, type) else type(value)
    return hasattr(kind, "__dataclass_fields__") and has_methods(kind)


def _bridge(value: Any) -> None:
    """Register a pattern class with Numba, or the class of an object and those of its fields."""
    from wsemu.backends import pattern_types

    numba_cuda()
    pattern_types.bridge(value if isinstance(value, type) else type(value), rebound, dispatcher)
    if not isinstance(value, type):
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if _is_pattern(item):
                _bridge(item)


def argument_type(value: Any) -> Any:
    """Return Numba's type of a kernel's argument."""
    from numba.cuda.typing.typeof import typeof

    return typeof(value)


def prepare(arguments: Iterable[Any]) -> None:
    """Make the classes of pattern arguments, and tensor maps, known to Numba."""
    given = tuple(arguments)
    if any(isinstance(value, TensorMap) for value in given):
        from wsemu.backends import tensor_maps

        tensor_maps.apart(given)
    for value in given:
        if _is_pattern(value):
            _bridge(value)


class GpuKernel:
    """A kernel for launches on the GPU: `kernel.on("gpu")[grid, block, stream, dynamic_shared](*arguments)`."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, parameters: Any) -> Callable[..., None]:
        """Return the launch with these parameters, within the limits of sm_90."""
        configuration = self.kernel.configuration(parameters)
        stream = parameters[2] if len(parameters) > 2 else 0

        def run(*arguments: Any) -> None:
            c = configuration
            shared, cluster = c.dynamic_shared, c.cluster
            launch(self.kernel, c.grid, c.block, arguments, dynamic_shared=shared, stream=stream, cluster=cluster)

        return run

    def __repr__(self) -> str:
        return f"<{self.kernel!r} on the GPU>"


def launch(
    kernel: Declared, grid: Any, block: Any, arguments: tuple[Any, ...], *, dynamic_shared: int = 0, stream: Any = 0,
    cluster: tuple[int, int, int] = _ALONE,
) -> None:  # fmt: skip
    """Compile a kernel for the GPU, run it, and wait for it; arrays are copied to the GPU and back."""
    numba_cuda()
    prepare(arguments)
    with quiet(), _launching_in_clusters(cluster):
        configure_kernel(kernel, grid, block, dynamic_shared, stream)(*arguments)
    numba_cuda().synchronize()


def ensure_compiled(kernel: Declared, threads: int, arguments: Iterable[Any]) -> None:
    """Compile a kernel for CTAs of this number of threads and for arguments like these, unless that was already
    done."""
    given = tuple(arguments)
    prepare(given)
    dispatcher(kernel, threads).compile(tuple(argument_type(value) for value in given))


@contextlib.contextmanager
def _launching_in_clusters(cluster: tuple[int, int, int]) -> Iterator[None]:
    """Launch in clusters of this number of CTAs inside the block.  Numba-CUDA launches through cuda.core, but does not
    pass a cluster size; with clusters, the grid of cuda.core counts clusters.  UsageError if cuda.core is too old for
    clusters."""
    if cluster == _ALONE:
        yield
        return
    from numba.cuda import dispatcher as launching

    plain = getattr(launching, "LaunchConfig", None)
    if plain is None:
        raise UsageError(f"this Numba-CUDA does not launch by cuda.core, as clusters need it: {_INSTALL}")

    def launch_config_in_clusters(*, grid: Any, **options: Any) -> Any:
        extents = (*(grid if isinstance(grid, tuple) else (grid,)), 1, 1)[:3]
        return plain(grid=tuple(n // c for n, c in zip(extents, cluster, strict=True)), cluster=cluster, **options)

    launching.LaunchConfig = launch_config_in_clusters
    try:
        yield
    finally:
        launching.LaunchConfig = plain


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress Numba-CUDA's warnings about small launches and copied arrays, which do not matter in a comparison."""
    from numba.cuda.core.errors import NumbaPerformanceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        yield


def configure_kernel(kernel: Declared, grid: Any, block: Any, dynamic_shared: int = 0, stream: Any = 0) -> Any:
    """Return a kernel with its launch shape, for launches that do not wait; pattern arguments must have been converted
    by `prepare`."""
    threads = math.prod(block) if isinstance(block, tuple) else block
    made = dispatcher(kernel, threads)[grid, block, stream, dynamic_shared]
    if dynamic_shared > _PLAIN_SHARED:
        made.pre_launch_callbacks.append(_allow_shared)
    return made


_PLAIN_SHARED = 48 * 1024
"""maximum bytes of shared memory of a CTA without an explicit request"""


def _allow_shared(kernel: Any, configuration: Any) -> None:
    """Request more than the default maximum of shared memory, because Numba-CUDA does not request it."""
    from numba.cuda.cudadrv import driver

    function = kernel._codelibrary.get_cufunc()
    attribute = driver.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.driver.cuKernelSetAttribute(attribute, configuration.sharedmem, function.handle, function.device.id)
