"""`cuda.jit`: the object that represents a kernel on the host, and the shape of its launch."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, overload

from wsemu.language.markers import Declared as DeclaredFunction
from wsemu.launch import hooks
from wsemu.launch.configured import ConfiguredLaunch
from wsemu.model import settings
from wsemu.model.arch import limits
from wsemu.model.errors import UsageError, hide_internal_frames
from wsemu.model.launch_shape import LaunchConfiguration, configure, integer

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

    from wsemu.language.signatures import Declared
    from wsemu.launch.overloads import Overloads
    from wsemu.model.launch_shape import Brackets, Size

OPTIONS = (
    "boundscheck cache cc chip debug device extensions fastmath forceinline fma func_or_sig inline launch_bounds "
    "lineinfo link lto max_registers nopython opt shared_memory_carveout signature target"
).split()
"""options of Numba-CUDA's `jit`; compiler options have no effect here, except `max_registers`, the count with which
`setmaxnreg` starts"""


class Launchable:
    """A kernel that `kernel[grid, block](*arguments)` launches, checked."""

    __name__: str
    __qualname__: str

    @hide_internal_frames
    def __getitem__(self, parameters: Brackets) -> ConfiguredLaunch:
        """Return the launch of this kernel with `grid, block[, stream[, dynamic_shared[, cluster]]]`."""
        configuration = self.configuration(parameters)
        for watch in hooks.configuring:
            watch(configuration)
        return ConfiguredLaunch(self, configuration, parameters[2] if len(parameters) > 2 else 0)

    def configuration(self, parameters: Any) -> LaunchConfiguration:
        """Return the checked form of the brackets of a launch."""
        name = self.__name__
        if not isinstance(parameters, tuple) or not 2 <= len(parameters) <= 5:
            count = len(parameters) if isinstance(parameters, tuple) else 1
            raise UsageError(
                f"`{name}[...]` has {count} launch parameter{'s' * (count != 1)}: write `{name}[grid, block]`, "
                f"`{name}[grid, block, stream]`, `{name}[grid, block, stream, dynamic_shared]` or "
                f"`{name}[grid, block, stream, dynamic_shared, cluster]`"
            )
        return configure(*parameters)

    def configure(self, griddim: Size, blockdim: Size, stream: object = 0, sharedmem: int = 0) -> ConfiguredLaunch:
        """Return the configured launch, as `kernel[griddim, blockdim, stream, sharedmem]` does."""
        return self[griddim, blockdim, stream, sharedmem]

    def forall(self, ntasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0) -> Callable[..., None]:
        """Return a launch of at least `ntasks` threads, with `tpb` threads per CTA. 0 selects the maximum that an H200
        supports for the kernel's registers."""
        tasks, threads = integer(ntasks, "forall"), integer(tpb, "tpb") or limits(settings.current().arch).threads
        if tasks < 0:
            raise UsageError(f"`{self.__name__}.forall({tasks})`: give 0 or more tasks")
        if tasks == 0:
            return lambda *_: None
        return self[-(-tasks // threads), threads, stream, sharedmem]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Raise an error, because a kernel needs a launch configuration."""
        name = self.__name__
        raise UsageError(
            f"kernel `{name}` was called without a launch configuration: write `{name}[grid, block](...)` "
            "(launch configuration was not specified)"
        )

    def __repr__(self) -> str:
        return f"<kernel {self.__qualname__}>"


class Kernel(DeclaredFunction, Launchable):
    """A function of the kernel dialect: `kernel[grid, block](*arguments)` launches it, checked.

    `py_func` is the Python function, `device` is true if only kernels call it, `options` are the arguments of `jit`,
    and `declared` are the signatures among them.
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
        self.extensions: list[Any] = list(self.options.get("extensions") or ())
        """objects whose `prepare_args` changes the arguments of a launch first"""
        self.declared = declared
        self.specialized = False
        """true if `specialize` created it"""

    def configuration(self, parameters: Any) -> LaunchConfiguration:
        """Return the checked form of the brackets of a launch."""
        if self.device:
            raise UsageError(f"`{self.__name__}` is a device function: call it from a kernel, or drop `device=True`")
        return super().configuration(parameters)

    @property
    def registers(self) -> int:
        """Return the number of registers of a thread at launch, from the option `max_registers`; 0 if unknown."""
        given = self.options.get("max_registers")
        return 0 if given is None else integer(given, "max_registers")

    @property
    def overloads(self) -> Overloads:
        """Return the kernels for the types of each signature, or, without signatures, of each launch."""
        from wsemu.launch.overloads import Overloads  # few ask for it

        return Overloads(self)

    @property
    def signatures(self) -> list[tuple[Any, ...]]:
        """Return Numba's types of the arguments of each signature, or, without signatures, of each launch."""
        if self.declared:
            return [one.arguments for one in self.declared]
        from wsemu.launch import compiled, overloads  # few ask for it

        return [tuple(map(overloads.numba_type, types)) for types in compiled.compiled_signatures(self.py_func)]

    def mark_launch_config_sensitive(self) -> None:
        """Do nothing, because the launch shape is taken into account in each launch."""

    def specialize(self, *arguments: Any) -> Kernel:
        """Return this kernel in a form that describes its compiled code without a signature."""
        made = Kernel(self.py_func, device=self.device, options=self.options, declared=self.declared)
        made.specialized = True
        made.extensions = self.extensions
        return made

    def __getattr__(self, name: str) -> Any:
        """Handle other attributes of Numba-CUDA's kernels, most of which concern compiled code."""
        if not name.startswith("_"):
            from wsemu.launch import inspection  # few ask for it

            if inspection.has(name):
                return inspection.attribute(self, name)
        raise AttributeError(f"kernel `{self.__dict__.get('__name__', '')}` has no attribute `{name}`")

    def on(self, target: str) -> Any:
        """Return this kernel on `"emulator"` or `"gpu"`.  `kernel.on("gpu")[grid, block](*arguments)` compiles it with
        Numba-CUDA and runs it there, unchecked; `wsemu.crosscheck` is the safe alternative."""
        if target == "emulator":
            return self
        if target != "gpu":
            raise UsageError(f'no target {target!r}: "emulator" or "gpu"')
        from wsemu.backends.numba_cuda import GpuKernel  # Numba-CUDA's version, if it is installed

        return GpuKernel(self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run a device function as plain Python.  Raise an error for a kernel, which needs a launch configuration."""
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

    Without a signature, a launch compiles the kernel for the arguments that it gets.  With one signature or a list of
    them, the launch first converts its numbers to the declared types.  Options for the GPU's compiler are kept and have
    no effect here.
    """
    if isinstance(signature, Kernel):
        signature = signature.py_func
    for name in ("func_or_sig", "signature"):
        signature = options.pop(name, signature)
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(f"`jit` has no option `{unknown[0]}`: the options are {', '.join(OPTIONS)}")
    for watch in hooks.declaring:
        watch(options)
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
        from wsemu.language import signatures  # imported on demand, because it loads Numba's types

        declared = signatures.parse(signature, function.__name__)
    return Kernel(function, device=device, options=options, declared=declared)
