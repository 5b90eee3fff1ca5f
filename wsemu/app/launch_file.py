"""A launch of a PTX kernel in a file: `wsemu check kernel.ptx --like launch.json`, or `launch.json` alone if it names
the PTX; a folder of them is checked whole.

    {"ptx": "kernels.ptx", "entry": "saxpy", "grid": [8], "block": [256], "dynamic_shared": 0, "cluster": [2],
     "args": ["i32:2048", "f32:2", "f32[2048]:random", "x.npy"], "set": {"scale": "f32:2"}, "link": ["more.ptx"]}

Arguments are those of `--arg`; files lie beside the launch's own.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from wsemu.app.ptx_launch import REPEATED, TYPES, Options, argument, setting
from wsemu.launch.check import check
from wsemu.launch.ptx.launch_form import LaunchForm
from wsemu.launch.ptx.module import load_ptx
from wsemu.model.errors import UsageError
from wsemu.model.tensor_map import FILLS, INTERLEAVES, SWIZZLES, TensorMap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.launch.result import Report

_FILE = re.compile(r"[^\s:,({\[]+\.npy")


class LaunchFile(LaunchForm):
    """A launch file."""

    @classmethod
    def read(cls, path: Path) -> LaunchFile:
        """From a file; UsageError says what is wrong with it."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"`{path}` cannot be read: {getattr(error, 'strerror', '') or error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"`{path}`{f': `{where}`' if where else ''}: {first['msg']}") from None

    def options(self, path: Path, given: Mapping[str, Any]) -> Options:
        """The options of the launch; those that are given go before those of the file."""
        own: dict[str, Any] = {
            "entry": self.entry, "grid": ",".join(map(str, self.grid)), "block": ",".join(map(str, self.block)),
            "dynamic_shared": str(self.dynamic_shared), "arg": tuple(_beside(text, path) for text in self.args),
            "cluster": ",".join(map(str, self.cluster)), "link": tuple(str(path.parent / file) for file in self.link),
            "set": tuple(f"{name}={_beside(text, path)}" for name, text in self.set.items()),
        }  # fmt: skip
        return Options(**own | {name: tuple(v) if name in REPEATED else v for name, v in given.items()})


def _beside(text: str, path: Path) -> str:
    """An argument whose files lie beside a launch file."""
    return _FILE.sub(lambda found: str(path.parent / found[0]), text)


def ptx_of(path: Path, launch: LaunchFile) -> Path:
    """The PTX file that a launch file names."""
    if not launch.ptx:
        raise UsageError(
            f'`{path}` names no PTX: add `"ptx": "kernels.ptx"`, or `wsemu check kernels.ptx --like {path}`'
        )
    return path.parent / launch.ptx


def launches(path: Path) -> list[tuple[Path, list[str]]]:
    """(PTX file, words of the launch) of a launch file, or of all in a folder."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    found = []
    for file in files:
        launch = LaunchFile.read(file)
        found.append((ptx_of(file, launch), launch.options(file, {}).words()))
    return found


def check_like(file: str | Path, ptx: str | Path | None = None, **options: Any) -> Report:
    """Check the launch that a file describes, of the kernel in `ptx` if the file does not name it; `options` are those
    of `wsemu.check`.  UsageError says what is wrong with the file."""
    path = Path(file)
    launch = LaunchFile.read(path)
    module = load_ptx(Path(ptx) if ptx else ptx_of(path, launch), *(path.parent / other for other in launch.link))
    values = (f"{name}={_beside(text, path)}" for name, text in launch.set.items())
    module.set(dict(setting(text, number) for number, text in enumerate(values)))
    kernel = module[launch.entry] if launch.entry else module.only()
    if not (block := launch.block or kernel.block):
        raise UsageError(f'`{path}` says no block, nor does `{kernel.__name__}`: add `"block": [256]`')
    arguments = [argument(_beside(text, path), number) for number, text in enumerate(launch.args)]
    given: dict[str, Any] = {"dynamic_shared": launch.dynamic_shared, "cluster": launch.cluster or None, **options}
    return check(kernel, launch.grid, block, arguments, **given)


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
    """Write a launch file, the PTX (a path, or its text) and the arrays beside it, so that `wsemu check FILE` makes the
    launch again: for hooks that see launches of a compiler's kernels.  `args` are what `wsemu.check` takes, `variables`
    what `PtxModule.set` does."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".ptx")
    if isinstance(ptx, Path) or "\n" not in ptx:
        if Path(ptx).resolve() != beside.resolve():
            shutil.copyfile(ptx, beside)
    else:
        beside.write_text(ptx, encoding="utf-8")
    names = iter(range(1 << 30))
    texts = [_written(value, path, names) for value in args]
    extents = [[int(n) for n in (x if isinstance(x, (tuple, list)) else (x,))] for x in (grid, block, cluster or ())]
    launch: dict[str, Any] = {
        "ptx": beside.name, "entry": entry, "grid": extents[0], "block": extents[1], "dynamic_shared": dynamic_shared,
        "args": texts,
    }  # fmt: skip
    if cluster:
        launch["cluster"] = extents[2]
    if variables:
        launch["set"] = {name: _written(value, path, names) for name, value in variables.items()}
    LaunchFile.model_validate(launch)
    path.write_text(json.dumps(launch, indent=2) + "\n", encoding="utf-8")


_SCALARS = {numpy: ptx for ptx, numpy in reversed(TYPES.items())}


def _written(value: Any, path: Path, names: Any) -> str:
    """An argument as text; arrays go to files."""
    if isinstance(value, TensorMap):
        return _tensor_map(value, path, names)
    if isinstance(value, np.ndarray):
        name = f"{path.stem}.{next(names)}.npy"
        np.save(path.with_name(name), value, allow_pickle=False)
        return name
    if isinstance(value, tuple):
        return "{" + ", ".join(_written(part, path, names) for part in value) + "}"
    if value is None:
        return "null"
    if isinstance(value, (bytes, bytearray)):
        return f"bytes:{bytes(value).hex()}"
    if isinstance(value, (bool, int, float)):
        value = np.float64(value) if isinstance(value, float) else np.int64(value)
    if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
        return f"{_SCALARS[value.dtype.name]}:{value.item()}"
    raise UsageError(f"an argument of type {type(value).__name__} cannot be written to `{path}`: give NumPy numbers")


def _tensor_map(map_: TensorMap, path: Path, names: Any) -> str:
    fields, array = map_.fields, np.ascontiguousarray(map_.array)
    if fields.strides != TensorMap(array, fields.box[::-1]).fields.strides or fields.address:
        raise UsageError(f"a tensor map of parts of its array cannot be written to `{path}`: pass a contiguous one")
    options = [f"box={[*fields.box[::-1]]}", f"element_strides={[*fields.steps[::-1]]}", f"type={fields.type}"]
    options += [f"swizzle={SWIZZLES[fields.swizzle]}"] * bool(fields.swizzle)
    options += [f"interleave={INTERLEAVES[fields.interleave]}"] * bool(fields.interleave)
    options += [f"fill={FILLS[fields.nan]}"] * fields.nan
    return f"tmap({_written(array, path, names)}, {', '.join(options)})"
