"""`record_launch`: a launch file of a compiled kernel, from the objects that compilers in Python return.

Triton and Gluon (`triton.compile`, or what a launch returns), cuda.core (`ObjectCode` of PTX), CuTe DSL (what
`cute.compile` returns if it keeps PTX) and TileLang (`tilelang.compile`) compile without a GPU.  None of them is
imported here: an object's attributes show what it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsemu.app.launch_file import save_launch
from wsemu.launch.ptx.module import load_ptx
from wsemu.model.data import dataclass
from wsemu.model.errors import UsageError
from wsemu.model.tensor_map import SWIZZLES, TensorMap

_NUMBERS = {"f32": np.float32, "f64": np.float64, "f16": np.float16}
_INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class _Made:
    """The parts of a compiled kernel that a launch file needs."""

    ptx: str
    entry: str = ""
    block: tuple[int, ...] = ()
    dynamic_shared: int = 0
    cluster: tuple[int, ...] = ()
    grid_of_clusters: bool = False
    """true if the first extent of the grid counts clusters, not CTAs"""
    signature: Mapping[str, Any] | None = None
    """name -> type of the source's arguments, a tuple of types for a tuple; a `constexpr` is not a parameter"""
    descriptors: Sequence[Mapping[str, Any]] = ()
    """tensor maps that replace arguments which are tensor descriptors, in their order; without them, the descriptors
    become pointers"""
    scratch: int = 0
    """bytes of memory that the compiler's runtime allocates for each CTA"""


def record_launch(
    file: str | Path,
    made: Any,
    grid: Any,
    args: Sequence[Any] | Mapping[str, Any],
    *,
    entry: str = "",
    block: Any = None,
    dynamic_shared: int | None = None,
    cluster: Any = None,
) -> None:
    """Write the launch of a compiled kernel to `file`, a `.json`, with its PTX and arrays next to it: `wsemu check
    FILE` runs it, `wsemu check FOLDER` runs all launches of a folder.

    `made` is a compiled kernel of Triton or Gluon, an `ObjectCode` of cuda.core, a compiled function of CuTe DSL that
    keeps its PTX, a kernel of TileLang, the text of PTX or a path.  `grid` is one to three extents, or a `LaunchConfig`
    of cuda.core, which has all extents.  `args` are NumPy arrays, or arrays of other libraries, which are copied,
    `TensorMap` objects and numbers, as in `wsemu.check`, or for Triton a mapping from names.  Pass what the compiler
    does not provide by name: `entry`, `block`, `dynamic_shared` in bytes, `cluster`.  Raise UsageError if something is
    missing.
    """
    found = _describe_compiled(made)
    if hasattr(grid, "shmem_size"):
        block, dynamic_shared, cluster = block or grid.block, dynamic_shared or grid.shmem_size, cluster or grid.cluster
        grid = grid.grid
    module = load_ptx(found.ptx)
    name = entry or found.entry
    kernel = module[name] if name else module.only()
    threads = block or found.block or kernel.block
    if not threads:
        raise UsageError(f"`{kernel.__name__}` does not say how many threads a CTA has: give block=")
    ctas = _extents(grid)
    shape = tuple(cluster or found.cluster)
    if found.grid_of_clusters and shape:
        ctas = (ctas[0] * int(np.prod(shape)), *ctas[1:])
    bytes_ = found.dynamic_shared if dynamic_shared is None else dynamic_shared
    values = _values(found, kernel.entry.parameters, args, int(np.prod(ctas)))
    save_launch(file, found.ptx, kernel.entry.name, ctas, threads, values, bytes_, shape)


def _extents(grid: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in (grid if isinstance(grid, (tuple, list)) else (grid,)))


# -- compilers ---------------------------------------------------------------------------------------------------------


def _describe_compiled(made: Any) -> _Made:
    """Return the parts of a compiler's object; UsageError if it has no PTX."""
    if isinstance(made, Path) or (isinstance(made, str) and "\n" not in made):
        return _Made(Path(made).read_text(encoding="utf-8"))
    if isinstance(made, str):
        return _Made(made)
    if isinstance(getattr(made, "asm", None), Mapping) and "ptx" in made.asm:
        return _describe_triton(made)
    if getattr(made, "code_type", None) == "ptx":
        return _Made(_text(made.code))
    if getattr(made, "__ptx__", None):
        return _Made(_text(made.__ptx__))
    if hasattr(made, "_get_ptx"):  # returns the PTX that TileLang's `export_ptx` writes
        return _Made(_text(made._get_ptx()))
    raise UsageError(
        f"a {type(made).__name__} has no PTX: give a compiled kernel of Triton, an `ObjectCode` that was compiled to "
        '"ptx", a function of CuTe DSL compiled with CUTE_DSL_KEEP_PTX=1, a kernel of TileLang, or the text'
    )


def _text(ptx: Any) -> str:
    return ptx.decode() if isinstance(ptx, (bytes, bytearray)) else str(ptx)


def _describe_triton(made: Any) -> _Made:
    told = made.metadata
    count = int(getattr(told, "num_ctas", 1))
    shape = tuple(getattr(told, "cluster_dims", None) or (count, 1, 1))
    signature = getattr(getattr(made, "src", None), "signature", None)
    return _Made(
        _text(made.asm["ptx"]), told.name, _threads(made), int(told.shared), shape if count > 1 else (), count > 1,
        signature, getattr(told, "tensordesc_meta", None) or (), int(getattr(told, "global_scratch_size", 0) or 0),
    )  # fmt: skip


def _threads(made: Any) -> tuple[int, ...]:
    """Return the threads of a CTA if the PTX does not declare them; with specialized warps, there are more than the
    source requests."""
    return () if ".reqntid" in _text(made.asm["ptx"]) else (int(made.metadata.num_warps) * 32,)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _values(
    made: _Made, parameters: Sequence[Any], args: Sequence[Any] | Mapping[str, Any], ctas: int
) -> list[Any]:  # fmt: skip
    """Return an argument for each parameter.  The last parameters point to memory that the compiler's own runtime
    passes, or are missing."""
    given = _order_arguments(made, args)
    if len(given) > len(parameters):
        raise UsageError(f"{len(given)} arguments for {len(parameters)} parameters: leave out constants")
    hidden = made.signature is not None
    if len(given) < len(parameters) and not hidden:
        raise UsageError(f"{len(given)} arguments for {len(parameters)} parameters: give one for each")
    values = [_value(value, parameter) for value, parameter in zip(given, parameters, strict=False)]
    behind: list[Any] = [None] * (len(parameters) - len(given))
    if behind and made.scratch:
        behind[0] = np.zeros(made.scratch * ctas, np.uint8)
    return values + behind


def _order_arguments(made: _Made, args: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """Return the arguments that are parameters."""
    signature = made.signature
    if signature is None:
        if isinstance(args, Mapping):
            raise UsageError("this compiler does not say how parameters are called: give args as a list")
        return list(args)
    passed = {name: type_ for name, type_ in signature.items() if type_ != "constexpr"}
    if isinstance(args, Mapping):
        missing = [name for name in passed if name not in args]
        if missing:
            raise UsageError(f"args has no `{missing[0]}`: the kernel takes {', '.join(passed)}")
        given = [args[name] for name in passed]
    elif len(args) == len(signature):
        given = [value for value, type_ in zip(args, signature.values(), strict=True) if type_ != "constexpr"]
    else:
        given = list(args)
    maps = iter(made.descriptors)
    return [part for value, type_ in zip(given, passed.values(), strict=False) for part in _flat(value, type_, maps)]


def _flat(value: Any, type_: Any, maps: Iterator[Mapping[str, Any]]) -> list[Any]:
    """Return the parameters that result from an argument of Triton."""
    if isinstance(type_, tuple):
        return [
            part for one, of in zip(value, type_, strict=True) if of != "constexpr" for part in _flat(one, of, maps)
        ]
    if not str(type_).startswith("tensordesc"):
        return [value]
    shape, strides = ([int(n) for n in numbers] for numbers in (value.shape, value.strides))
    told = next(maps, None)
    if told is None:
        flags = [value.padding == "nan", bool(getattr(value, "round_f32_to_tf32", False))]
        return [value.base, *shape, *strides, *flags, *shape, *strides]
    return [_describe_tensor_map(value, told, shape, strides), *shape, *strides]


_DESCRIBED = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16")
"""element types, in the order of PTX's codes"""


def _describe_tensor_map(value: Any, told: Mapping[str, Any], shape: list[int], strides: list[int]) -> TensorMap:
    """Return the tensor map of a descriptor, as Triton's runtime creates it."""
    if told.get("is_im2col"):
        raise UsageError("a descriptor of im2col mode, which cannot be recorded: give a tiled one")
    type_ = "tf32" if getattr(value, "round_f32_to_tf32", False) else _DESCRIBED[told["elem_type"]]
    size = int(told["elem_size"])
    base = np.ascontiguousarray(_array(value.base))
    bytes_ = [stride * size for stride in strides]
    reach = size + sum((extent - 1) * stride for extent, stride in zip(shape, bytes_, strict=True))
    if reach > base.nbytes:
        raise UsageError(f"a descriptor of shape {shape} reaches beyond its tensor of {base.nbytes} bytes")
    array: np.ndarray[Any, Any] = np.ndarray(shape, base.dtype, base, strides=bytes_)
    return TensorMap(
        array, [int(n) for n in told["block_size"]], type=type_, swizzle=SWIZZLES[int(told["swizzle"])],
        fill="nan" if value.padding == "nan" else "zero",
    )  # fmt: skip


def _value(value: Any, parameter: Any) -> Any:
    """Return a value in the form of a launch file.  A Python number is converted to the type of the parameter; a
    structure of 8 bytes, as CuTe DSL passes a tensor of known shape, holds the array's address."""
    if isinstance(value, np.ndarray) and (parameter.type, parameter.bytes) == ("b8", 8):
        return (value,)
    if isinstance(value, (np.ndarray, np.generic, TensorMap, tuple, bytes, type(None))):
        return value
    if isinstance(value, (bool, int, float)):
        if parameter.type in _NUMBERS or isinstance(value, float):
            return _NUMBERS.get(parameter.type, np.float32 if parameter.bytes == 4 else np.float64)(value)
        return np.array(int(value) & (1 << 8 * parameter.bytes) - 1, f"u{parameter.bytes}").view(
            _INTEGERS[parameter.bytes]
        )[()]
    return _array(value)


def _array(value: Any) -> Any:
    """Return a copy of an array of PyTorch, CuPy, Numba or JAX."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.view(sys.modules["torch"].uint16)
        return value.numpy()
    for name in ("copy_to_host", "get"):
        if hasattr(value, name):
            return np.asarray(getattr(value, name)())
    made = np.asarray(value)
    if made.dtype == object:
        raise UsageError(f"an argument of type {type(value).__name__} is no array: give one, or a number")
    return made
