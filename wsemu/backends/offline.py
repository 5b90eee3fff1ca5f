"""Compile for a GPU without having one: PTX, and machine code for sm_90a.

This module uses private names of numba-cuda; the tests pin its version.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.backends import numba_cuda
from wsemu.model.data import dataclass
from wsemu.model.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.language.markers import Declared

HOPPER = (9, 0)
"""compute capability of Hopper GPUs"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of compiling a kernel with Numba-CUDA."""

    ptx: str
    types: dict[str, str]
    """variable name, with Numba's suffix for versions -> Numba's name of its type"""
    library: Any
    linked: tuple[str, ...] = ()
    """PTX of the linked files (`link=`), CUDA C++ compiled"""

    def cubin(self) -> bytes:
        made = self.library.get_cubin(cc=(*HOPPER, "a"))
        return made if isinstance(made, bytes) else bytes(getattr(made, "code", made))

    def registers(self) -> int:
        """Return the registers of a thread, from the ELF section `.nv.info` of a cubin (EIATTR_REGCOUNT)."""
        found = re.search(rb"\x04\x2f\x08\x00.{4}(.{4})", self.cubin(), re.DOTALL)
        if found is None:
            raise UnsupportedError("the cubin does not say how many registers a thread has")
        return int.from_bytes(found[1], "little")

    def linked_ptx(self) -> str:
        """Return the PTX after link-time optimization."""
        with _device():
            return str(self.library.get_lto_ptx(cc=HOPPER))

    def machine_code(self, *options: str) -> str:
        """Return the disassembly by nvdisasm; raise UnsupportedError if nvdisasm is missing."""
        if shutil.which("nvdisasm") is None:
            raise UnsupportedError("machine code is not shown: `nvdisasm` is missing", remedy="install CUDA's toolkit")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.cubin"
            path.write_bytes(self.cubin())
            return subprocess.run(
                ["nvdisasm", *(options or ["-c"]), str(path)], capture_output=True, text=True, check=True
            ).stdout


@contextmanager
def _device() -> Iterator[None]:
    """Provide the compute capability that numba-cuda requests from the driver."""
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


def call_for_sm_90(name: str, *arguments: Any, **named: Any) -> Any:
    """Return the result of a function of `numba.cuda`; if it queries the device, it finds an sm_90."""
    import numba.cuda

    with _device():
        return getattr(numba.cuda, name)(*arguments, **named)


_OPTIONS = "debug lineinfo link fastmath opt launch_bounds max_registers extensions forceinline".split()


def compile_kernel(
    kernel: Declared, arguments: tuple[Any, ...], *, lto: bool = True, lineinfo: bool = False
) -> Compiled:
    """Compile a kernel for the types of `arguments`, as a launch on an sm_90 would; `lineinfo` adds the source's lines
    to the PTX."""
    numba_cuda.prepare(arguments)
    return compile_signature(
        kernel, tuple(numba_cuda.argument_type(value) for value in arguments), lto=lto, lineinfo=lineinfo
    )


def compile_signature(
    kernel: Declared, signature: tuple[Any, ...], *, lto: bool = True, lineinfo: bool = False
) -> Compiled:
    """Compile a kernel for Numba's types of the arguments, as `compile_kernel` does for values."""
    from numba.cuda.dispatcher import _Kernel

    with _device():
        dispatcher = numba_cuda.dispatcher(kernel)
        options = {name: value for name, value in dispatcher.targetoptions.items() if name in _OPTIONS}
        options["link"] = list(options.get("link") or [])
        if lineinfo and not options.get("debug"):
            options["lineinfo"] = True
        made = _Kernel(dispatcher.py_func, signature, lto=lto, **options)
        library = made._codelibrary
        text = library.get_asm_str()
        linked = tuple(_linked_ptx(one, lineinfo) for one in sorted(library._linking_files, key=str))
    found = {str(name): str(type_) for name, type_ in made._type_annotation.typemap.items()}
    return Compiled(text, found, library, tuple(part for part in linked if part))


def _linked_ptx(given: Any, lineinfo: bool) -> str:
    """Return the PTX of the code that is linked with a kernel; raise UnsupportedError for machine code."""
    from numba.cuda.cudadrv.linkable_code import CUSource, LinkableCode, PTXSource
    from numba.cuda.memory_management.nrt import NRT_LIBRARY

    if given == NRT_LIBRARY:
        return ""
    code = LinkableCode.from_path_or_obj(given)
    if isinstance(code, PTXSource):
        return code.data if isinstance(code.data, str) else bytes(code.data).decode()
    if isinstance(code, CUSource):
        return _compile_cuda_source(code.data, code.name, lineinfo)
    raise UnsupportedError(f"linked code of kind `{type(code).__name__}`", remedy="link its PTX or its CUDA C++ source")


def _compile_cuda_source(source: str | bytes, name: str, lineinfo: bool) -> str:
    """Return the PTX of CUDA C++ compiled by NVRTC; raise UsageError with NVRTC's message if there is an error.

    Numba-CUDA's own call of NVRTC is not used, because it gets its PTX version from the driver, which may be missing.
    """
    from cuda.bindings import nvrtc

    def check_nvrtc(result: tuple[Any, ...]) -> Any:
        return result[1] if len(result) > 1 else None

    data = source.encode() if isinstance(source, str) else source
    program = check_nvrtc(nvrtc.nvrtcCreateProgram(data, name.encode(), 0, [], []))
    options = [b"--gpu-architecture=sm_90", b"--relocatable-device-code=true", *([b"--generate-line-info"] * lineinfo)]
    include = _headers()
    options += [f"--include-path={include}".encode()] if include else []
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytearray(check_nvrtc(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise UsageError(f"the CUDA C++ that is linked does not compile: {log.decode(errors='replace').strip()}")
    text = bytearray(check_nvrtc(nvrtc.nvrtcGetPTXSize(program)))
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode().rstrip("\0")


def _headers() -> str | None:
    """Return the folder of CUDA's own headers, if there is one."""
    from cuda import pathfinder

    found: str | None = pathfinder.find_nvidia_header_directory("cudart")
    return found


def pack_arguments(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values that a launch passes for the parameters of the PTX, for `wsemu.load_ptx(compiled.ptx).only()`.

    Numba-CUDA passes an array as several parameters (its `_Kernel._prepare_args`).  They are memory and parent (0 on
    the GPU), the number of elements, the size of an element in bytes, the address, and the extents and strides of the
    axes.
    """
    numba_cuda.prepare(arguments)
    return tuple(part for value in arguments for _, part in _parts(value, numba_cuda.argument_type(value)))


passed = pack_arguments
"""previous name of the function `pack_arguments`"""


def parameter_names(arguments: tuple[Any, ...], names: Sequence[str]) -> tuple[str, ...]:
    """Return names for the parameters of the PTX, derived from those of the kernel's parameters."""
    pairs = zip(names, arguments, strict=True)
    return tuple(f"{name}{part}" for name, value in pairs for part, _ in _parts(value, numba_cuda.argument_type(value)))


def _parts(value: Any, type_: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parameters of one argument, or of a part of it, each with its name."""
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
