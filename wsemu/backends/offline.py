"""Compiling for a GPU where there is none: PTX, and the machine code of an sm_90a.

Relies on names that numba-cuda does not promise to keep: the tests pin its version.
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.backends import numba_cuda
from wsemu.model.data import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.language.markers import Declared

HOPPER = (9, 0)
"""compute capability"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What Numba-CUDA makes of a kernel."""

    ptx: str
    types: dict[str, str]
    """variable, with Numba's suffix for its versions -> Numba's name of its type"""
    library: Any

    def cubin(self) -> bytes:
        made = self.library.get_cubin(cc=(*HOPPER, "a"))
        return made if isinstance(made, bytes) else bytes(getattr(made, "code", made))

    def machine_code(self) -> str:
        """The disassembly, by nvdisasm."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.cubin"
            path.write_bytes(self.cubin())
            return subprocess.run(["nvdisasm", "-c", str(path)], capture_output=True, text=True, check=True).stdout


@contextmanager
def _device() -> Iterator[None]:
    """numba-cuda asks the driver what it compiles for: tell it."""
    import numba.cuda.codegen as codegen
    import numba.cuda.dispatcher as dispatcher

    device = SimpleNamespace(compute_capability=HOPPER)
    kept = dispatcher.get_current_device, codegen.devices
    dispatcher.get_current_device = lambda: device
    codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))
    try:
        yield
    finally:
        dispatcher.get_current_device, codegen.devices = kept


_OPTIONS = "debug lineinfo link fastmath opt launch_bounds max_registers extensions forceinline".split()


def compile_kernel(
    kernel: Declared, arguments: tuple[Any, ...], *, lto: bool = True, lineinfo: bool = False
) -> Compiled:
    """Compile a kernel for the types of `arguments`, as a launch on an sm_90 would; `lineinfo` adds the source's lines
    to the PTX."""
    from numba.cuda.dispatcher import _Kernel

    numba_cuda.prepare(arguments)
    with _device():
        dispatcher = numba_cuda.dispatcher(kernel)
        options = {name: value for name, value in dispatcher.targetoptions.items() if name in _OPTIONS}
        options["link"] = list(options.get("link") or [])
        if lineinfo and not options.get("debug"):
            options["lineinfo"] = True
        signature = tuple(numba_cuda.type_of(value) for value in arguments)
        made = _Kernel(dispatcher.py_func, signature, lto=lto, **options)
        library = made._codelibrary
        text = library.get_asm_str()
    found = {str(name): str(type_) for name, type_ in made._type_annotation.typemap.items()}
    return Compiled(text, found, library)


def passed(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a launch passes for the parameters of the PTX, for `wsemu.load_ptx(compiled.ptx).only()`.

    Numba-CUDA makes several parameters of an array: memory and parent, which are 0 on the GPU, the number of elements,
    the bytes of one, the address, and the extents and strides of the axes (its `_Kernel._prepare_args`).
    """
    numba_cuda.prepare(arguments)
    return tuple(part for value in arguments for _, part in _parts(value, numba_cuda.type_of(value)))


def parameter_names(arguments: tuple[Any, ...], names: Sequence[str]) -> tuple[str, ...]:
    """What to call the parameters of the PTX, from the names of the kernel's."""
    pairs = zip(names, arguments, strict=True)
    return tuple(f"{name}{part}" for name, value in pairs for part, _ in _parts(value, numba_cuda.type_of(value)))


def _parts(value: Any, type_: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The parameters of one argument, or of a part of it, each after what its name ends with."""
    from numba import types

    from wsemu.backends.pattern_types import PatternType

    if isinstance(type_, PatternType):
        for field, kind in type_.values:
            yield from _parts(getattr(value, field), kind, f"{name}.{field}")
    elif isinstance(type_, types.Array):
        yield from ((f"{name}.meminfo", 0), (f"{name}.parent", 0))
        yield from ((f"{name}.size", value.size), (f"{name}.itemsize", value.itemsize), (name, value))
        yield from ((f"{name}.shape[{axis}]", extent) for axis, extent in enumerate(value.shape))
        yield from ((f"{name}.strides[{axis}]", stride) for axis, stride in enumerate(value.strides))
    elif isinstance(type_, types.BaseTuple):
        for n, (item, kind) in enumerate(zip(value, type_, strict=True)):
            yield from _parts(item, kind, f"{name}[{n}]")
    elif isinstance(type_, types.Complex):
        part = np.float32 if type_.bitwidth == 64 else np.float64
        yield from ((f"{name}.real", part(value.real)), (f"{name}.imag", part(value.imag)))
    else:
        yield name, np.dtype(str(type_)).type(value)
