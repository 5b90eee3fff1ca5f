"""`cuda.jit`: what stands for a kernel on the host, and the shape of its launch."""

from __future__ import annotations

import abc
import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from wsemu.model import settings
from wsemu.model.errors import UsageError, briefly
from wsemu.model.limits import WARP, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FunctionType

    from wsemu.language.signatures import Declared
    from wsemu.model.program import Program

Dimensions = tuple[int, int, int]
OPTIONS = (
    "boundscheck cache cc chip debug device extensions fastmath forceinline fma func_or_sig inline launch_bounds "
    "lineinfo link lto max_registers nopython opt shared_memory_carveout signature target"
).split()
"""the options of Numba-CUDA's `jit`: those that tell a compiler how to build change nothing here"""


@dataclass(frozen=True, slots=True)
class LaunchConfiguration:
    """The shape of a launch, within the limits of `arch`: make one with `configure`."""

    grid: Dimensions
    """CTAs in x, y, z"""
    block: Dimensions
    """threads of a CTA in x, y, z"""
    dynamic_shared: int
    """bytes of dynamic shared memory of a CTA"""
    arch: str

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a CTA; the last may be partial."""
        return -(-self.threads // WARP)

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


def configure(
    grid: Any, block: Any, stream: object = 0, dynamic_shared: Any = 0, *, arch: str | None = None
) -> LaunchConfiguration:
    """Check the parameters of `kernel[grid, block, stream, dynamic_shared]`.

    `grid` counts CTAs and `block` threads: an int or a tuple of one to three.  `dynamic_shared` is in bytes.  Launches
    run one after the other, so that any `stream` will do.  UsageError names what exceeds the limits of `arch`.
    """
    arch = settings.current().arch if arch is None else arch
    limit = limits(arch)
    dimensions = _dimensions(grid, "grid")
    threads = _dimensions(block, "block")
    count = threads[0] * threads[1] * threads[2]
    if count > limit.threads:
        shape = "" if threads[1:] == (1, 1) else f" ({' x '.join(map(str, threads))})"
        raise UsageError(
            f"block of {count:,} threads{shape}: at most {limit.threads:,} on {arch}; "
            "use a smaller block and a larger grid"
        )
    if threads[0] > limit.block[0] or threads[1] > limit.block[1] or threads[2] > limit.block[2]:
        raise UsageError(_too_large("block", threads, limit.block, arch))
    if dimensions[0] > limit.grid[0] or dimensions[1] > limit.grid[1] or dimensions[2] > limit.grid[2]:
        raise UsageError(_too_large("grid", dimensions, limit.grid, arch))
    size = dynamic_shared if type(dynamic_shared) is int else _integer(dynamic_shared, "dynamic shared memory")
    if size < 0:
        raise UsageError(f"dynamic shared memory of {size:,} bytes: give 0 or more")
    if size > limit.shared:
        raise UsageError(
            f"{size:,} bytes of dynamic shared memory: at most {limit.shared:,} on {arch}; "
            "lower the fourth launch parameter `kernel[grid, block, stream, dynamic_shared]`"
        )
    return LaunchConfiguration(dimensions, threads, size, arch)


def _dimensions(value: Any, name: str) -> Dimensions:
    """Three positive ints from an int or a tuple or list of one to three."""
    if type(value) is int:  # the usual case, kept fast
        result = (value, 1, 1)
    elif isinstance(value, (tuple, list)):
        if not 1 <= len(value) <= 3:
            raise UsageError(f"{name} {value!r} has {len(value)} dimensions: give one to three")
        x, y, z = (*(_integer(extent, name) for extent in value), 1, 1)[:3]
        result = (x, y, z)
    else:
        result = (_integer(value, name), 1, 1)
    if result[0] < 1 or result[1] < 1 or result[2] < 1:
        raise UsageError(f"{name} {value!r} is empty: every dimension needs 1 or more")
    return result


def _integer(value: Any, name: str) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    remedy = "give an int"
    if isinstance(value, float):
        remedy = f"write {int(value)}" if value.is_integer() else "use `//` for a whole quotient"
    raise UsageError(f"{name} has {value!r}, of type {type(value).__name__}, where an int belongs: {remedy}")


def _too_large(name: str, extents: Dimensions, most: Dimensions, arch: str) -> str:
    axis = next(i for i in range(3) if extents[i] > most[i])
    text = f"{name}.{'xyz'[axis]} is {extents[axis]:,}: at most {most[axis]:,} on {arch}"
    if axis == 0:
        return f"{text}; use {name}.y too, or let a thread do more"
    return f"{text}; put the larger extent on {name}.x"


class Launchable:
    """What `kernel[grid, block](*arguments)` launches, checked."""

    __name__: str
    __qualname__: str

    @briefly
    def __getitem__(self, parameters: Any) -> Callable[..., None]:
        """The launch of this kernel with `grid, block[, stream[, dynamic_shared]]`."""
        return functools.partial(self._launch, self.configuration(parameters))

    def configuration(self, parameters: Any) -> LaunchConfiguration:
        """The checked form of what stands in the brackets of a launch."""
        name = self.__name__
        if not isinstance(parameters, tuple) or not 2 <= len(parameters) <= 4:
            count = len(parameters) if isinstance(parameters, tuple) else 1
            raise UsageError(
                f"`{name}[...]` has {count} launch parameter{'s' * (count != 1)}: write `{name}[grid, block]`, "
                f"`{name}[grid, block, stream]` or `{name}[grid, block, stream, dynamic_shared]`"
            )
        return configure(*parameters)

    def configure(self, griddim: Any, blockdim: Any, stream: object = 0, sharedmem: int = 0) -> Callable[..., None]:
        """The same by its other name."""
        return self[griddim, blockdim, stream, sharedmem]

    def forall(self, ntasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0) -> Callable[..., None]:
        """The launch of at least `ntasks` threads, `tpb` in a CTA (0: as many as an H200 takes, which is up to the
        kernel's registers there)."""
        tasks, threads = _integer(ntasks, "forall"), _integer(tpb, "tpb") or limits(settings.current().arch).threads
        if tasks < 0:
            raise UsageError(f"`{self.__name__}.forall({tasks})`: give 0 or more tasks")
        if tasks == 0:
            return lambda *_: None
        return self[-(-tasks // threads), threads, stream, sharedmem]

    @briefly
    def _launch(self, configuration: LaunchConfiguration, /, *arguments: Any, **named: Any) -> None:
        if named:
            raise UsageError(f"`{self.__name__}` was launched with `{next(iter(named))}=`: give arguments by position")
        from wsemu.launch.check import launch  # the composition imports this module

        launch(self, configuration, arguments)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """A kernel needs a launch configuration."""
        name = self.__name__
        raise UsageError(f"kernel `{name}` was called without a launch configuration: write `{name}[grid, block](...)`")

    def __repr__(self) -> str:
        return f"<kernel {self.__qualname__}>"


class CodeKernel(Launchable, abc.ABC):
    """A kernel that comes as code of some machine, without a Python function."""

    @abc.abstractmethod
    def fit(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Arguments as the launch passes them, checked by number and type; what has been through it stays as it is."""

    @abc.abstractmethod
    def names(self, arguments: Sequence[Any]) -> tuple[str, ...]:
        """The names of the parameters, of these fitted arguments."""

    @abc.abstractmethod
    def program(self, arguments: Sequence[Any], fma: bool) -> Program:
        """The program for fitted arguments; `fma` contracts a * b + c where that is left to the compiler."""

    @abc.abstractmethod
    def admit(self, configuration: LaunchConfiguration) -> None:
        """UsageError for a launch of a shape that the code excludes."""

    @abc.abstractmethod
    def source(self) -> tuple[str, int, int]:
        """Where the code stands: file, first and last line."""


class Kernel(Launchable):
    """A function of the kernel dialect: `kernel[grid, block](*arguments)` launches it, checked.

    `py_func` is the function as written, `device` whether only kernels call it, `options` what `jit` was given,
    `declared` the signatures among it.
    """

    __wrapped__: FunctionType

    def __init__(
        self,
        py_func: FunctionType,
        *,
        device: bool = False,
        options: dict[str, Any] | None = None,
        declared: tuple[Declared, ...] = (),
    ) -> None:
        functools.update_wrapper(self, py_func)
        self.py_func = py_func
        self.device = device
        self.options = options or {}
        self.declared = declared

    def configuration(self, parameters: Any) -> LaunchConfiguration:
        """The checked form of what stands in the brackets of a launch."""
        if self.device:
            raise UsageError(f"`{self.__name__}` is a device function: call it from a kernel, or drop `device=True`")
        return super().configuration(parameters)

    def specialize(self, *arguments: Any) -> Kernel:
        """This kernel: it is compiled for the arguments of each launch."""
        return self

    def __getattr__(self, name: str) -> Any:
        """What Numba-CUDA tells of its compiled code is told to be missing."""
        if name.startswith(("inspect_", "get_", "max_cooperative_")):
            raise AttributeError(
                f"kernel `{self.__name__}` has no `{name}`: nothing is compiled for a GPU here; "
                'use `wsemu.check` for counters, `.on("gpu")` where there is one'
            )
        raise AttributeError(f"kernel `{self.__dict__.get('__name__', '')}` has no attribute `{name}`")

    def on(self, target: str) -> Any:
        """This kernel on `"emulator"` or `"gpu"`: `kernel.on("gpu")[grid, block](*arguments)` compiles it with
        Numba-CUDA and runs it there, unchecked; `wsemu.crosscheck` is the safe way."""
        if target == "emulator":
            return self
        if target != "gpu":
            raise UsageError(f'no target {target!r}: "emulator" or "gpu"')
        from wsemu.backends.numba_cuda import GpuKernel  # Numba-CUDA, where it is installed

        return GpuKernel(self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """A device function runs as plain Python; a kernel needs a launch configuration."""
        return self.py_func(*arguments, **named) if self.device else super().__call__()

    def __repr__(self) -> str:
        return f"<{'device function' if self.device else 'kernel'} {self.__qualname__}>"


@overload
def jit(signature: Callable[..., Any], /, **options: Any) -> Kernel: ...
@overload
def jit(
    signature: str | tuple[Any, ...] | list[Any] | None = None, /, **options: Any
) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(signature: Any = None, /, **options: Any) -> Any:
    """Declare a kernel, or with `device=True` a function that kernels call: `@jit`, `@jit(...)`, as in Numba-CUDA.

    Without a signature a launch compiles for the arguments it gets; with one, or a list, it converts its numbers to the
    declared types first.  Options for the GPU's compiler are kept for it and change nothing here.
    """
    if isinstance(signature, Kernel):
        signature = signature.py_func
    for name in ("func_or_sig", "signature"):
        signature = options.pop(name, signature)
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(f"`jit` has no option `{unknown[0]}`: the options are {', '.join(OPTIONS)}")
    device = bool(options.pop("device", False))
    if isinstance(signature, staticmethod):
        signature = signature.__func__
    if _is_signature(signature):
        return lambda function: _kernel(function, device, options, signature)
    return _kernel(signature, device, options)


def _is_signature(value: Any) -> bool:
    return value is None or isinstance(value, (str, tuple, list)) or hasattr(value, "return_type")


def _kernel(function: Any, device: bool, options: dict[str, Any], signature: Any = None) -> Kernel:
    if not hasattr(function, "__code__"):
        raise UsageError(f"`jit` decorates a Python function, not {function!r} of type {type(function).__name__}")
    declared: tuple[Declared, ...] = ()
    if signature is not None:
        from wsemu.language import signatures  # on demand: it loads Numba's types

        declared = signatures.parse(signature, function.__name__)
    return Kernel(function, device=device, options=options, declared=declared)
