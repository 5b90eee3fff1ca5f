"""A launch of a PTX kernel in a file: `wsemu check kernel.ptx --like launch.json`, or `launch.json` alone if it names
the PTX; a folder of them is checked whole.

    {"ptx": "kernels.ptx", "entry": "saxpy", "grid": [8], "block": [256], "dynamic_shared": 0, "cluster": [2],
     "args": ["i32:2048", "f32:2", "f32[2048]:random", "x.npy"], "set": {"scale": "f32:2"}, "link": ["more.ptx"]}

Arguments are those of `--arg`.  A launch file is only data: the files that it names are PTX or arrays of numbers,
whatever their suffix, and must be below its folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from wsemu.app import saved_memory
from wsemu.app.expected_results import Expected, find_position
from wsemu.app.handles import format_handle
from wsemu.app.program_file import KERNELS, Target
from wsemu.app.ptx_launch import (
    REPEATED,
    TYPES,
    Options,
    arguments_in_order,
    check_expected,
    parse_arguments,
    parse_expected,
    setting,
)
from wsemu.launch.check import check
from wsemu.launch.hooks import adding_hook, expecting
from wsemu.launch.ptx.launch_form import MAX_LAUNCH_FILE, ExpectForm, LaunchForm
from wsemu.launch.ptx.module import load_ptx
from wsemu.model.errors import UsageError
from wsemu.model.own_files import find_below, read_regular
from wsemu.model.tensor_map import BITS, FILLS, INTERLEAVES, SWIZZLES, TensorMap
from wsemu.model.texture import Surface
from wsemu.model.wrong_value import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from wsemu.launch.ptx.module import PtxKernel
    from wsemu.launch.result import Report

_UNIONS = ("tuple[str, ...]", "dict[str,str]", "ExpectForm", "str")
"""names of union members in the locations of Pydantic's errors"""
MAX_FILES = 10_000
"""maximum number of launch files in a folder"""


class LaunchFile(LaunchForm):
    """A launch file."""

    @classmethod
    def read(cls, path: Path) -> LaunchFile:
        """Return the launch file at a path; raise UsageError, which names the fault, if it is invalid."""
        try:
            return cls.model_validate_json(read_regular(path, MAX_LAUNCH_FILE).decode())
        except (UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"`{path}` cannot be read: {error}") from None
        except ValidationError as error:
            found = [one | {"loc": tuple(part for part in one["loc"] if part not in _UNIONS)} for one in error.errors()]
            wrong = sorted(found, key=lambda one: (one["type"] != "extra_forbidden", -len(one["loc"])))  # typos first
            keys = [field.alias or name for name, field in cls.model_fields.items()]
            raise UsageError(f"`{path}`{error_text(wrong[0], keys[1:])}") from None

    @classmethod
    def of(cls, options: Options) -> LaunchFile:
        """Return the launch file for these options; raise UsageError for an invalid value."""
        try:
            form: dict[str, Any] = {
                "entry": options.entry, "grid": _extents(options.grid), "block": _extents(options.block),
                "dynamic_shared": options.dynamic_shared, "cluster": _extents(options.cluster), "args": options.arg,
                "set": dict(one.split("=", 1) for one in options.set), "link": options.link,
                "nvcc": " ".join(options.nvcc),
            }  # fmt: skip
            return cls.model_validate(form)
        except ValidationError as error:
            raise UsageError(f"it{error_text(error.errors()[0], [*cls.model_fields][1:])}") from None
        except ValueError as error:
            raise UsageError(f"it cannot be read: {error}") from None

    def options(self, path: Path, given: Mapping[str, Any]) -> Options:
        """Return the options of the launch; options in `given` take precedence over those in the file."""
        own: dict[str, Any] = {
            "entry": self.entry, "grid": ",".join(map(str, self.grid)), "block": ",".join(map(str, self.block)),
            "dynamic_shared": str(self.dynamic_shared), "arg": self.texts, "cluster": ",".join(map(str, self.cluster)),
            "set": tuple(f"{name}={text}" for name, text in self.set.items()),
            "link": () if "link" in given else tuple(map(str, linked_files(path, self))),
            "nvcc": (flags,) if (flags := checked_flags(path, self)) else (),
        }  # fmt: skip
        if self.memory or self.expect or isinstance(self.args, dict):
            own["launch_file"] = str(path)
        if "nvcc" in given:
            given = {**given, "nvcc": (*own["nvcc"], *given["nvcc"])}
        folders = {f"{name}_folder": str(path.parent) for name in ("arg", "set") if name not in given}
        return Options(**own | folders | {name: tuple(v) if name in REPEATED else v for name, v in given.items()})


def _extents(text: str) -> tuple[int, ...]:
    """Parse `8,4`; an empty text gives no extents."""
    return tuple(int(part) for part in text.split(",")) if text else ()


def checked_flags(path: Path, launch: LaunchFile) -> str:
    """Return the flags of `nvcc` in a launch file; raise UsageError for flags that a launch file must not have."""
    if not launch.nvcc:
        return ""
    from wsemu.launch.ptx.nvcc import check_flags

    return check_flags(launch.nvcc, path.parent, f"`{path}`")


def linked_files(path: Path, launch: LaunchFile) -> list[Path]:
    """Return the PTX files that a launch file is linked with; raise UsageError for one that is not below its folder."""
    return [find_below(path.parent, file, f"`link` of `{path}`") for file in launch.link]


def ptx_file(path: Path, launch: LaunchFile) -> Path:
    """Return the file of kernels that a launch file names, or `kernel.cu` for `kernel.launch.json`; raise UsageError
    for one that is not below its folder."""
    stem = path.name.removesuffix(".launch.json")
    beside = [found for suffix in KERNELS if stem != path.name and (found := path.with_name(stem + suffix)).is_file()]
    if not launch.ptx and beside:
        return beside[-1]
    if not launch.ptx:
        raise UsageError(
            f'`{path}` names no PTX: add `"ptx": "kernels.ptx"`, or `wsemu check kernels.ptx --like {path}`'
        )
    return find_below(path.parent, launch.ptx, f"`ptx` of `{path}`")


def launches(path: Path) -> list[Target]:
    """Return the launches that a launch file, or a folder of launch files, describes."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    read = ((file, LaunchFile.read(file)) for file in files)
    return [Target(ptx_file(file, launch), launch.options(file, {}).words(), True) for file, launch in read]


def check_like(
    file: str | Path,
    ptx: str | Path | None = None,
    *,
    expected: Callable[..., Mapping[str, npt.ArrayLike]] | None = None,
    **options: Any,
) -> Report:
    """Check the launch that a file describes, of the kernel in `ptx` if the file does not name it; `options` are those
    of `wsemu.check`.  `expected` computes results with NumPy: a function of the arguments that returns arrays by the
    names of their parameters.  Raise UsageError for an invalid file, and ResultError if the launch does not fail but
    its results differ from these or from `expect` in the file."""
    path = Path(file)
    launch = LaunchFile.read(path)
    files, entries = (Path(ptx) if ptx else ptx_file(path, launch), *linked_files(path, launch)), (launch.entry,)
    module = load_ptx(*files, nvcc=checked_flags(path, launch), entries=entries)
    values = (f"{name}={text}" for name, text in launch.set.items())
    module.set(dict(setting(text, number, path.parent) for number, text in enumerate(values)))
    kernel = module[launch.entry] if launch.entry else module.only()
    if not (block := launch.block or kernel.block):
        raise UsageError(f'`{path}` says no block, nor does `{kernel.__name__}`: add `"block": [256]`')
    arguments = parse_arguments(arguments_in_order(launch, launch.texts, kernel), path.parent)
    results = parse_expected(launch, kernel, path.parent)
    given: dict[str, Any] = {"dynamic_shared": launch.dynamic_shared, "cluster": launch.cluster or None, **options}
    if launch.memory:
        given.setdefault("memory", saved_memory.restore(path, launch, module))
    if expected is not None:
        results += _computed_results(kernel, arguments, expected)
    with adding_hook(expecting, lambda: {one.name: one.accepts for one in results}):
        report = check(kernel, launch.grid, block, arguments, **given)
    if report.verdict != "failed":
        check_expected(results, arguments)
    return report


def _computed_results(kernel: PtxKernel, arguments: Sequence[Any], expected: Any) -> list[Expected]:
    """Return the results that a function computes from copies of the arguments."""
    names = kernel.names(())
    wanted = expected(*(value.copy() if isinstance(value, np.ndarray) else value for value in arguments))
    numbers = {name: find_position(name, names, "`expected`") for name in wanted}
    return [
        Expected(names[number], number, ExpectForm(value=""), np.asarray(wanted[name]))
        for name, number in numbers.items()
    ]


# -- recording ---------------------------------------------------------------------------------------------------------


def save_launch(
    file: str | Path,
    ptx: str | Path,
    entry: str,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    dynamic_shared: int = 0,
    cluster: Any = (),
    variables: Mapping[str, Any] | None = None,
) -> None:
    """Write a launch file, with the PTX (a path, or its text) and the arrays next to it, so that `wsemu check FILE`
    repeats the launch.  It is meant for hooks that observe launches of a compiler's kernels.  `args` are those of
    `wsemu.check`, `variables` those of `PtxModule.set`."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".ptx")
    if isinstance(ptx, Path) or "\n" not in ptx:
        if os.path.realpath(ptx) != os.path.realpath(beside):
            shutil.copyfile(ptx, beside)
    else:
        beside.write_text(ptx, encoding="utf-8")
    names = iter(range(1 << 30))
    texts = _texts(_type_arguments(args, beside, entry), path, names)
    extents = [[int(n) for n in (x if isinstance(x, (tuple, list)) else (x,))] for x in (grid, block, cluster or ())]
    launch: dict[str, Any] = {
        "ptx": beside.name, "entry": entry, "grid": extents[0], "block": extents[1], "dynamic_shared": dynamic_shared,
        "args": texts,
    }  # fmt: skip
    if cluster:
        launch["cluster"] = extents[2]
    if variables:
        launch["set"] = {name: _texts([value], path, names)[0] for name, value in variables.items()}
    LaunchFile.model_validate(launch)
    path.write_text(json.dumps(launch, indent=2) + "\n", encoding="utf-8")


_SCALARS = {numpy: ptx for ptx, numpy in reversed(TYPES.items())}


def _type_arguments(args: Sequence[Any], file: Path, entry: str) -> list[Any]:
    """Return the arguments, with Python numbers converted to the types of the kernel's parameters."""
    if not any(isinstance(value, (int, float)) and not isinstance(value, np.generic) for value in args):
        return [*args]
    types = [parameter.type for parameter in load_ptx(file)[entry].entry.parameters]
    return [_number(value, type_) for value, type_ in zip_longest(args, types[: len(args)], fillvalue="")]


def _number(value: Any, type_: str) -> Any:
    """Return a Python number converted to the type of its parameter; return anything else unchanged."""
    known = TYPES.get(type_.replace("b", "i" if isinstance(value, int) and value < 0 else "u"))
    fits = isinstance(value, int) or (isinstance(value, float) and type_[:1] == "f")
    if known is None or isinstance(value, np.generic) or not fits:
        return value
    with contextlib.suppress(OverflowError):
        return np.dtype(known).type(value)
    return value


def _texts(values: Sequence[Any], path: Path, names: Iterator[int]) -> list[str]:
    """Return arguments as text; arrays are written to files."""
    ways = [(str(number), value) for number, value in enumerate(values)]
    arrays = _arrays([found for way, value in ways for found in _arrays_with_paths(value, way)], path, names)
    return [_format_argument(value, way, path, arrays) for way, value in ways]


def _arrays_with_paths(value: Any, way: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the arrays in an argument, and the path to each."""
    if isinstance(value, (TensorMap, Surface)):
        yield way, value.array
    elif isinstance(value, np.ndarray):
        yield way, value
    elif isinstance(value, (tuple, list)):
        for n, part in enumerate(value):
            yield from _arrays_with_paths(part, f"{way}.{n}")


def _arrays(held: Sequence[tuple[str, npt.NDArray[Any]]], path: Path, names: Iterator[int]) -> dict[str, str]:
    """Return the text of each array by its path; arrays that share memory also share it in the texts."""
    bounds = {way: np.lib.array_utils.byte_bounds(array) for way, array in held}
    groups: list[tuple[int, int, list[tuple[str, npt.NDArray[Any]]]]] = []
    for way, array in sorted(held, key=lambda item: bounds[item[0]]):
        low, high = bounds[way]
        if groups and low < groups[-1][1]:
            groups[-1] = (groups[-1][0], max(high, groups[-1][1]), [*groups[-1][2], (way, array)])
        else:
            groups.append((low, high, [(way, array)]))
    order = {way: n for n, (way, _) in enumerate(held)}
    texts: dict[str, str] = {}
    for low, high, members in sorted(groups, key=lambda group: min(order[way] for way, _ in group[2])):
        texts |= _format_shared_arrays(sorted(members, key=lambda member: order[member[0]]), low, high, path, names)
    return texts


def _format_shared_arrays(
    members: Sequence[tuple[str, npt.NDArray[Any]]], low: int, high: int, path: Path, names: Iterator[int]
) -> dict[str, str]:
    """Return the texts of arrays in one range of memory, which is saved in the file of the first one."""
    (first, array), *others = members
    name = f"{path.stem}.{next(names)}.npy"
    if array.flags.c_contiguous and all(_share_memory(array, other) for _, other in others):
        np.save(path.with_name(name), array, allow_pickle=False)
        return {first: name} | {way: f"same:{first}" for way, _ in others}
    held = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
    np.save(path.with_name(name), held, allow_pickle=False)
    return {way: _view(one, low, name if way == first else f"same:{first}", path) for way, one in members}


def _share_memory(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    interfaces = [array.__array_interface__ for array in (one, other)]
    return interfaces[0] == interfaces[1]


def _view(array: npt.NDArray[Any], low: int, memory: str, path: Path) -> str:
    """Return the text of an array as a part of memory that begins at `low`."""
    if array.dtype.name not in _SCALARS or min(array.strides, default=0) < 0:
        what = "records" if array.dtype.name not in _SCALARS else "axes that run backwards"
        raise UsageError(f"an array of {what} that shares memory cannot be written to `{path}`: pass a copy")
    shape, offset = ",".join(map(str, array.shape)), array.__array_interface__["data"][0] - low
    return f"view({memory}, {_SCALARS[array.dtype.name]}[{shape}], offset={offset}, strides={[*array.strides]})"


def _format_argument(value: Any, way: str, path: Path, arrays: Mapping[str, str]) -> str:
    """Return an argument, or a field of one, as text."""
    if isinstance(value, TensorMap):
        return _tensor_map(value, arrays[way], path)
    if isinstance(value, Surface):
        return format_handle(value, arrays[way])
    if isinstance(value, np.ndarray):
        return arrays[way]
    if isinstance(value, (tuple, list)):
        inside = ", ".join(_format_argument(part, f"{way}.{n}", path, arrays) for n, part in enumerate(value))
        return f"{{{inside}}}" if isinstance(value, tuple) else f"[{inside}]"
    if value is None:
        return "null"
    if isinstance(value, (bytes, bytearray)):
        return f"bytes:{bytes(value).hex()}"
    if isinstance(value, (bool, int, float)):
        value = np.float64(value) if isinstance(value, float) else np.int64(value)
    if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
        return f"{_SCALARS[value.dtype.name]}:{value.item()}"
    raise UsageError(f"an argument of type {type(value).__name__} cannot be written to `{path}`: give NumPy numbers")


def _tensor_map(map_: TensorMap, array: str, path: Path) -> str:
    fields = map_.fields
    if fields.im2col or fields.wide or fields.type in BITS:
        raise UsageError(
            f"a tensor map of im2col mode, of 4-bit or 6-bit elements, or with a swizzle of 32 bytes cannot be written "
            f"to `{path}`"
        )
    if fields.address or fields.extents != map_.array.shape[::-1]:
        raise UsageError(f"a tensor map of parts of its array cannot be written to `{path}`: pass that part")
    options = [f"box={[*fields.box[::-1]]}", f"element_strides={[*fields.steps[::-1]]}", f"type={fields.type}"]
    options += [f"strides={[*fields.strides[::-1]]}"] * (fields.strides != map_.array.strides[-2::-1])
    options += [f"swizzle={SWIZZLES[fields.swizzle]}"] * bool(fields.swizzle)
    options += [f"interleave={INTERLEAVES[fields.interleave]}"] * bool(fields.interleave)
    options += [f"fill={FILLS[fields.nan]}"] * fields.nan
    return f"tmap({array}, {', '.join(options)})"
