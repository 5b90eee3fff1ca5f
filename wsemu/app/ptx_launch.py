"""A launch of a PTX kernel as the command line has it: `--entry`, `--grid`, `--block`, an `--arg` for each parameter.

`i32:7`  `f64:-1.5`  `u64:0xff`    A number of this type.
`f32[64,64]:zeros`                 An array: zeros, ones, arange, a number, empty (uninitialized) or random.
`f32[64,64]:random:5`              An array of random numbers with a seed.
`f32[64,64]:x.npy`                 An array with the contents of a file.
`bf16[64]:random` `e4m3[64]:x.npy` Numbers of a format that NumPy lacks, rounded; a file of integers has their bits.
`x.npy`                            An array as it is in the file.
`{i32:7, f32[8]:zeros}`            A structure by value, of such fields; an array is a pointer in it.
`bytes:0700000000000000`           A structure by its bytes, in hexadecimal.
`[f32[8]:zeros, f32[4]:ones]`      A pointer to memory with such consecutive fields; an array is a pointer in it.
`same:0`  `same:2.1`               The array of argument 0, or of field 1 of argument 2, again.
`view(same:0, f32[4,8], offset=64, strides=[128,4])`
                                   A part of an array's memory, in bytes.
`tmap(f16[64,64], box=[64,8], swizzle=128B)`
                                   A tensor map of an array, with the options of `wsemu.TensorMap`.
`tex(f32[64,64]:random, filter=linear)`  `surf(same:0)`
                                   A texture or surface of an array, with the options of `wsemu.Texture`.
`null`                             A null pointer.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.app.array_file import read_array
from wsemu.app.expected_results import Expected, find_position, order_arguments
from wsemu.app.small_floats import FORMATS, encode
from wsemu.launch.hooks import adding_hook, expecting
from wsemu.launch.ptx.launch_form import MAX_LAUNCH_FILE, ExpectForm, LaunchForm
from wsemu.launch.ptx.module import load_ptx
from wsemu.model.data import dataclass
from wsemu.model.errors import UsageError
from wsemu.model.input_limits import INPUT_LIMITS
from wsemu.model.own_files import find_below, read_regular
from wsemu.model.tensor_map import TensorMap
from wsemu.model.texture import Surface

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from wsemu.launch.ptx.module import PtxKernel, PtxModule

TYPES = {
    **{f"{letter}{bits}": f"{word}{bits}" for letter, word in (("i", "int"), ("s", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
    "f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool",
}  # fmt: skip
"""PTX type -> NumPy type, whose name is also accepted"""
LARGEST = INPUT_LIMITS["arg-bytes"].most
"""maximum bytes of an array that is created here"""
_LONGEST, _DEEPEST = INPUT_LIMITS["arg-text"], INPUT_LIMITS["arg-nesting"]
_SHOWN = 60
"""maximum characters of an argument in a message about its size"""
RANDOM = 100
"""upper limit of random integers, exclusive"""
_EXTENT = re.compile(r"\d+(?:[,xX]\d+){0,2}$")
_ARGUMENT = re.compile(r"(?P<type>\w+)\s*(?:\[(?P<shape>[^\]]*)\])?\s*(?::(?P<value>.*))?$", re.S)
_GRAMMAR = "write TYPE:VALUE, TYPE[SHAPE]:FILL or FILE.npy, such as `i32:7` and `f32[64,64]:random`"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that describe a launch, under the names of the command line."""

    entry: str = ""
    """name of the kernel; empty: the only kernel of the file"""
    grid: str = ""
    block: str = ""
    arg: tuple[str, ...] = ()
    dynamic_shared: str = "0"
    """size of dynamic shared memory in bytes"""
    cluster: str = ""
    """size of clusters; empty: as the kernel declares"""
    set: tuple[str, ...] = ()
    """NAME=VALUE for variables"""
    link: tuple[str, ...] = ()
    """further files, which define symbols of this file"""
    nvcc: tuple[str, ...] = ()
    """flags of `nvcc`, for CUDA C++"""
    out: str = ""
    """file for the arrays after the launch"""
    arg_folder: str = ""
    """folder below which the files of `arg` are, for a launch file; empty: anywhere"""
    set_folder: str = ""
    """folder below which the files of `set` are"""
    launch_file: str = ""
    """launch file with names of arguments, expected results, and the initial memory of the launch"""

    def words(self) -> list[str]:
        """Return the options as words of a command line."""
        return [*_words(self)]

    @classmethod
    def read(cls, words: Sequence[str]) -> Options:
        """Parse `words`; raise UsageError for words that are not options."""
        known = {f"--{field.name.replace('_', '-')}": field.name for field in fields(cls)}
        given: dict[str, Any] = {}
        for option, value in zip(words[::2], (*words[1::2], ""), strict=False):
            if option not in known:
                raise UsageError(f"`{option}` is no option of a launch: they are {', '.join(known)}")
            name = known[option]
            given[name] = (*given.get(name, ()), value) if name in REPEATED else value
        return cls(**given)


class Arrays(dict[str, "npt.NDArray[Any]"]):
    """Path to an argument, or to a field of one -> its array."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self.folder = folder
        """folder below which files are; None: anywhere"""


_DIGITS = INPUT_LIMITS["arg-digits"]
_OF_ARRAYS = (TensorMap, Surface)
"""types of arguments that refer to an array"""
REPEATED = frozenset(field.name for field in fields(Options) if field.default == ())
"""options that may be repeated"""


def _words(options: Options) -> Iterator[str]:
    for field in fields(options):
        value = getattr(options, field.name)
        if value != field.default:
            for one in value if isinstance(value, tuple) else (value,):
                yield from (f"--{field.name.replace('_', '-')}", one)


def run(file: Path, words: Sequence[str]) -> None:
    """Launch the kernel of `file` that `words` describe, and check it; write the requested results.

    UsageError and KernelError describe errors in the file or the options.
    """
    options = Options.read(words)
    entries = (options.entry,) if options.entry else ()
    module = load_ptx(file, *map(Path, options.link), nvcc=" ".join(options.nvcc), entries=entries)
    folder = Path(options.set_folder) if options.set_folder else None
    module.set(dict(setting(text, number, folder) for number, text in enumerate(options.set)))
    kernel = module[options.entry] if options.entry else module.only()
    block = options.block or ",".join(map(str, kernel.block))
    wanted = (("grid", options.grid, "CTAs", "4", "8,4"), ("block", block, "threads of a CTA", "128", "32,4"))
    for name, value, what, line, plane in wanted:
        if not value:
            raise UsageError(
                f"`{kernel.__name__}` needs `--{name}`, how many {what}: `--{name} {line}` or `--{name} {plane}`"
                f"{_comment(file)}"
            )
    _check_out(options.out)
    grid, threads = _extent(options.grid, "grid"), _extent(block, "block")
    dynamic = _bytes(options.dynamic_shared)
    folder = Path(options.arg_folder) if options.arg_folder else None
    form = _read_form(options)
    arguments = parse_arguments(arguments_in_order(form, options.arg, kernel), folder)
    if form is not None and form.memory:
        if form.expect:
            raise UsageError("`expect` does not work with `memory`: compare with `wsemu.check_like(expected=...)`")
        _launch_in_memory(options, form, module, kernel, grid, threads, dynamic, arguments)
        return
    expected = parse_expected(form, kernel, folder)
    if options.cluster:
        launch = kernel[grid, threads, 0, dynamic, _extent(options.cluster, "cluster")]
    else:
        launch = kernel[grid, threads, 0, dynamic]
    with adding_hook(expecting, lambda: {one.name: one.accepts for one in expected}):
        launch(*arguments)
    if options.out:
        _save(Path(options.out), kernel, arguments)
    check_expected(expected, arguments)


def _read_form(options: Options) -> LaunchForm | None:
    if not options.launch_file:
        return None
    return LaunchForm.model_validate_json(read_regular(options.launch_file, MAX_LAUNCH_FILE))


def arguments_in_order(form: LaunchForm | None, given: Sequence[str], kernel: PtxKernel) -> Sequence[str]:
    """Return the texts of the arguments: the given ones, or those of the launch file by name."""
    if form is None or not isinstance(form.args, dict) or tuple(given) != form.texts:
        return given
    return order_arguments(form.args, kernel.names(()), "`args`")


def parse_expected(form: LaunchForm | None, kernel: PtxKernel, folder: Path | None) -> list[Expected]:
    """Return the results that a launch file expects."""
    found = []
    for key, given in (form.expect if form is not None else {}).items():
        asked = ExpectForm(value=given) if isinstance(given, str) else given
        names = kernel.names(())
        number = find_position(key, names, "`expect`")
        array = argument(asked.value, number, Arrays(folder))
        if not isinstance(array, np.ndarray):
            raise UsageError(f"`expect` of `{key}` needs an array: write `f32[64]:out.npy`")
        found.append(Expected(names[number], number, asked, array))
    return found


def check_expected(expected: Sequence[Expected], arguments: Sequence[Any]) -> None:
    """Raise ResultError for the first argument whose contents differ."""
    for one in expected:
        value = arguments[one.number]
        array = value.array if isinstance(value, _OF_ARRAYS) else value
        if not isinstance(array, np.ndarray):
            raise UsageError(f"`expect` names `{one.name}`, which holds no elements")
        one.check(array)


def _launch_in_memory(
    options: Options,
    form: LaunchForm,
    module: PtxModule,
    kernel: PtxKernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    dynamic: int,
    arguments: Sequence[Any],
) -> None:
    """Run a launch in the memory of its launch file."""
    from wsemu.app.saved_memory import restore
    from wsemu.launch.check import launch
    from wsemu.model.launch_shape import configure

    path = Path(options.launch_file)
    cluster = _extent(options.cluster, "cluster") if options.cluster else None
    memory = restore(path, form, module)
    launch(kernel, configure(grid, block, 0, dynamic, cluster), kernel.fit(arguments), memory)


def _comment(file: Path) -> str:
    """Return advice to write the launch into the file itself, for CUDA C++."""
    if file.suffix.lower() != ".cu":
        return ""
    return ", or write the launch into the file: `// wsemu: launch --grid 4 --block 128 --arg ...`"


def setting(text: str, number: int = 0, folder: Path | None = None) -> tuple[str, Any]:
    """Parse `NAME=VALUE`: the name of a variable, and its value in the syntax of arguments, with files below
    `folder`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"`--set {text}` is not understood: write NAME=VALUE, such as `--set scale=f32:2`")
    try:
        return name.strip(), argument(value, number, Arrays(folder), "0")
    except UsageError as error:
        raise UsageError(str(error).replace("`--arg ", f"`--set {name}=", 1)) from None


def _extent(text: str, name: str) -> tuple[int, ...]:
    text = text.replace(" ", "")
    if not _EXTENT.match(text):
        raise UsageError(f"`--{name} {text}` is no extent: give one to three numbers, `8` or `8,4,2`")
    return tuple(_number_text(part, f"`--{name}`") for part in re.split("[,xX]", text))


def _number_text(digits: str, what: str) -> int:
    """Return a number in full; raise UsageError if it has more digits than a message can show."""
    if len(digits) > _DIGITS.most:
        raise UsageError(f"{what}: {_DIGITS.excess(len(digits))}; {_DIGITS.remedy}")
    return int(digits)


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"`--dynamic-shared {text}` is no number of bytes: write `--dynamic-shared 4096`")
    return _number_text(text, "`--dynamic-shared`")


# -- arguments ---------------------------------------------------------------------------------------------------------


def parse_arguments(texts: Iterable[str], folder: Path | None = None) -> list[Any]:
    """Parse the arguments of a launch, in which `same:0` refers to an array of another argument, with files below
    `folder`."""
    made = Arrays(folder)
    return [argument(text, number, made, str(number)) for number, text in enumerate(texts)]


def argument(text: str, number: int = 0, made: Arrays | None = None, way: str = "") -> Any:
    """Return the argument that a text describes.  `number` is its position, which is also the default seed of random
    numbers.

    `made` has the launch's arrays so far; the arrays of this argument are added under the path `way`.  A UsageError
    names the text and the accepted forms.
    """
    made = Arrays() if made is None else made
    for limit, count in ((_LONGEST, len(text)), (_DEEPEST, way.count("."))):
        if count > limit.most:
            raise UsageError(f"`--arg {text[:_SHOWN]}...`: {limit.excess(count)}; {limit.remedy}")
    value = _argument(text.strip(), number, made, way)
    if isinstance(value, (np.ndarray, *_OF_ARRAYS)):
        made[way] = value.array if isinstance(value, _OF_ARRAYS) else value
    return value


def _argument(text: str, number: int, made: Arrays, way: str) -> Any:
    if text.startswith("{"):
        return tuple(_fields(text, "}", number, made, way))
    if text.startswith("["):
        return _fields(text, "]", number, made, way)
    if text.startswith("tmap("):
        return _tensor_map(text, number, made, way)
    if text.startswith(("tex(", "surf(")):
        return _handle(text, number, made, way)
    if text.startswith("view("):
        return _view(text, number, made, way)
    if text.startswith("same:"):
        return _earlier_array(text, made)
    if text == "null":
        return None
    if text.startswith("bytes:"):
        try:
            return bytes.fromhex(text.removeprefix("bytes:"))
        except ValueError:
            raise UsageError(f"`--arg {text}`: give the bytes as pairs of hexadecimal digits") from None
    if text.endswith(".npy") and not _ARGUMENT.match(text.removesuffix(".npy")):
        return _load_array(text, text, made)
    match = _ARGUMENT.match(text)
    if match is None or (match["value"] is None and match["shape"] is None):
        if text.endswith(".npy"):
            return _load_array(text, text, made)
        raise UsageError(f"`--arg {text}` is not understood: {_GRAMMAR}")
    dtype = _dtype(match["type"], text)
    if match["type"] in FORMATS:
        return _small_floats(match, text, number, made)
    if match["shape"] is None:
        return _scalar(dtype, match["value"], text)
    return _array(dtype, _shape(match["shape"], dtype, text), match["value"] or "zeros", text, number, made)


def _dtype(name: str, text: str) -> np.dtype[Any]:
    known = {**TYPES, **{numpy: numpy for numpy in TYPES.values()}, **{name: f.bits for name, f in FORMATS.items()}}
    if name not in known:
        raise UsageError(f"`--arg {text}` has the type `{name}`: the types are {', '.join((*TYPES, *FORMATS))}")
    return np.dtype(known[name])


def _scalar(dtype: np.dtype[Any], value: str, text: str) -> np.generic:
    if len(value) > _DIGITS.most:
        raise UsageError(f"`--arg {text[:_SHOWN]}...`: {_DIGITS.excess(len(value))}; {_DIGITS.remedy}")
    try:
        number: int | float = float(value) if dtype.kind == "f" else int(value.strip(), 0)
    except ValueError:
        words = {"true": 1, "false": 0}
        if dtype.kind != "b" or value.strip().lower() not in words:
            raise UsageError(f"`--arg {text}`: `{value}` is no {dtype}; {_GRAMMAR}") from None
        number = words[value.strip().lower()]
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if not bounds.min <= number <= bounds.max:
            raise UsageError(f"`--arg {text}`: an {dtype} is {bounds.min} to {bounds.max}")
    with np.errstate(over="ignore"):
        made: np.generic = dtype.type(number)
    return made


def _shape(written: str, dtype: np.dtype[Any], text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in written.split(",")]
    if not all(part.isdecimal() for part in parts) or len(parts) > 32:
        raise UsageError(f"`--arg {text}` has the shape `{written}`: give extents, `f32[64]` or `f32[64,64]`")
    size = dtype.itemsize
    for part in parts:
        size *= _number_text(part, f"`--arg {text[:40]}`")
    if size > LARGEST:
        raise UsageError(f"`--arg {text}` has {size:,} bytes: at most {LARGEST:,}")
    return tuple(int(part) for part in parts)


def _array(
    dtype: np.dtype[Any], shape: tuple[int, ...], fill: str, text: str, number: int, made: Arrays
) -> npt.NDArray[Any]:
    name, _, rest = fill.strip().partition(":")
    if fill.endswith(".npy"):
        return _matching(_load_array(fill.strip(), text, made), dtype, shape, text)
    if name == "random":
        if rest and not rest.isdecimal():
            raise UsageError(f"`--arg {text}`: the seed `{rest}` is no number; write `random` or `random:5`")
        return _random(dtype, shape, _number_text(rest, "`--arg`") if rest else number)
    if fill in ("zeros", "ones"):
        return np.full(shape, int(fill == "ones"), dtype)
    if fill == "empty":
        from wsemu.model.device_array import device_array

        return device_array(shape, dtype)
    if fill == "arange":
        return np.arange(np.prod(shape, dtype=np.int64)).astype(dtype).reshape(shape)
    try:
        value = _scalar(dtype, fill, text)
    except UsageError:
        fills = "zeros, ones, arange, random, random:SEED, empty, a number, or FILE.npy"
        raise UsageError(f"`--arg {text}`: no fill `{fill}`; the fills are {fills}") from None
    return np.full(shape, value, dtype)


def _small_floats(match: re.Match[str], text: str, number: int, made: Arrays) -> Any:
    """Return the bits of a number, or of an array, in a format that NumPy lacks; a file contains numbers, or bits."""
    name, fill = match["type"], (match["value"] or "zeros").strip()
    float32 = np.dtype(np.float32)
    if match["shape"] is None:
        return encode(name, np.asarray(_scalar(float32, fill, text)))[()]
    shape = _shape(match["shape"], float32, text)
    if fill == "empty":
        return _array(np.dtype(FORMATS[name].bits), shape, fill, text, number, made)
    if fill.endswith(".npy"):
        array = _load_array(fill, text, made)
        if array.dtype.kind != "f":
            return _matching(array, np.dtype(FORMATS[name].bits), shape, text)
        return encode(name, _matching(array, array.dtype, shape, text))
    return encode(name, _array(float32, shape, fill, text, number, made))


def _random(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
    """Return random floats from 0 to 1, or integers from 0 to 99."""
    generator = np.random.default_rng(seed)
    if dtype.kind == "f":
        return generator.random(shape, np.float64 if dtype.itemsize == 8 else np.float32).astype(dtype)
    return generator.integers(0, 2 if dtype.kind == "b" else RANDOM, shape).astype(dtype)


def _load_array(path: str, text: str, made: Arrays) -> npt.NDArray[Any]:
    """Read an array from a file; the path in a launch file is relative to its folder and must stay below it."""
    try:
        return read_array(path if made.folder is None else find_below(made.folder, path, "it"), LARGEST)
    except UsageError as error:
        raise UsageError(f"`--arg {text}`: {error}") from None


def _matching(array: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...], text: str) -> npt.NDArray[Any]:
    if array.dtype != dtype or array.shape != shape:
        extents = ",".join(map(str, array.shape))
        raise UsageError(f"`--arg {text}`: the file has an array {array.dtype}[{extents}]")
    return array


def _fields(text: str, end: str, number: int, made: Arrays, way: str) -> list[Any]:
    """Parse the fields of `{...}` or `[...]`, separated by commas, which may be structures themselves."""
    if not text.endswith(end):
        raise UsageError(f"`--arg {text}` lacks `{end}` at its end")
    parts = enumerate(_parts(text, text[1:-1]))
    return [argument(part, RANDOM * (number + 1) + n, made, f"{way}.{n}") for n, part in parts]


def _earlier_array(text: str, made: Arrays) -> npt.NDArray[Any]:
    """Parse `same:1.0`: an array of an earlier argument."""
    found = made.get(text.removeprefix("same:").strip())
    if found is None:
        known = ", ".join(f"same:{way}" for way in made) or "none"
        raise UsageError(f"`--arg {text}`: no such array was given before; there is {known}")
    return found


def _view(text: str, number: int, made: Arrays, way: str) -> npt.NDArray[Any]:
    """Parse `view(same:0, f32[4,8], offset=64, strides=[128,4])`: a view of the memory of an array, from its first byte
    on."""
    example = "write `view(same:0, f32[4,8], offset=64, strides=[128,4])`"
    parts = _parts(text, text[len("view(") : -1]) if text.endswith(")") else []
    options = dict(_option(part, ("offset", "strides"), text, example) for part in parts[2:])
    match = _ARGUMENT.match(parts[1].strip()) if len(parts) > 1 else None
    array = argument(parts[0], number, made, f"{way}.of") if match else None
    if match is None or match["shape"] is None or match["value"] or not isinstance(array, np.ndarray):
        raise UsageError(f"`--arg {text}`: a view has an array, and a type with a shape: {example}")
    dtype = _dtype(match["type"], text)
    shape, offset = _shape(match["shape"], dtype, text), options.get("offset", "0")
    strides = tuple(_extents(options["strides"], text)) if "strides" in options else None
    while isinstance(array.base, np.ndarray):
        array = array.base
    reach = max(sum((n - 1) * step for n, step in zip(shape, strides, strict=False)) if strides else 0, 0)
    whole = dtype.itemsize + reach if strides else int(np.prod(shape)) * dtype.itemsize
    if (
        (strides and len(strides) != len(shape))
        or not offset.isdecimal()
        or _number_text(offset, f"`--arg {text[:40]}`") + whole > array.nbytes
    ):
        raise UsageError(f"`--arg {text}`: it does not lie in the {array.nbytes:,} bytes of that array")
    return np.ndarray(shape, dtype, array.reshape(-1).view(np.uint8), int(offset), strides)


def _option(part: str, known: Sequence[str], text: str, example: str) -> tuple[str, str]:
    """Parse `name=value`."""
    name, equals, value = (word.strip() for word in part.partition("="))
    if not equals or name not in known:
        raise UsageError(f"`--arg {text}`: no option `{part.strip()}`: {', '.join(known)}; {example}")
    return name, value


def _parts(text: str, inside: str) -> list[str]:
    """Split the text in brackets at its commas; `text` is the whole argument."""
    depth, start, parts = 0, 0, []
    for place, character in enumerate(inside):
        depth += (character in "{[(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append(inside[start:place])
            start = place + 1
    parts.append(inside[start:])
    if depth:
        raise UsageError(f"`--arg {text[:_SHOWN]}`: its brackets do not match")
    return parts


_LISTS, _WORDS = ("box", "strides", "element_strides"), ("swizzle", "interleave", "fill", "type", "promotion")
"""options of a tensor map that take lists of numbers, and options that take words"""


def _tensor_map(text: str, number: int, made: Arrays, way: str) -> TensorMap:
    """Parse `tmap(...)`: an array, then options."""
    example = "write `tmap(f16[64,64], box=[64,8], swizzle=128B)`"
    if not text.endswith(")"):
        raise UsageError(f"`--arg {text}` lacks `)` at its end: {example}")
    first, *others = _parts(text, text[len("tmap(") : -1])
    options: dict[str, Any] = {}
    for part in others:
        name, value = _option(part, (*_LISTS, *_WORDS), text, example)
        options[name] = _extents(value, text) if name in _LISTS else None if value == "none" else value
    array = argument(first, number, made, way)
    if first.strip().startswith("bf16"):
        options.setdefault("type", "bf16")
    if not isinstance(array, np.ndarray) or "box" not in options:
        raise UsageError(f"`--arg {text}`: a tensor map has an array and a box: {example}")
    return TensorMap(array, options.pop("box"), **options)


def _handle(text: str, number: int, made: Arrays, way: str) -> Surface:
    """Parse `tex(...)` or `surf(...)`: an array, then options."""
    from wsemu.app.handles import EXAMPLES, handle, option_names

    kind, _, inside = text.partition("(")
    if not text.endswith(")"):
        raise UsageError(f"`--arg {text}` lacks `)` at its end: {EXAMPLES[kind]}")
    first, *others = _parts(text, inside[:-1])
    options = dict(_option(part, option_names(kind), text, EXAMPLES[kind]) for part in others)
    array = argument(first, number, made, way)
    if not isinstance(array, np.ndarray):
        raise UsageError(f"`--arg {text}`: it is of an array: {EXAMPLES[kind]}")
    return handle(kind, array, options, text)


def _extents(value: str, text: str) -> list[int]:
    """Parse `[64,8]`."""
    inside = value[1:-1].split(",") if value[:1] == "[" and value[-1:] == "]" else ["?"]
    if not all(part.strip().isdecimal() for part in inside):
        raise UsageError(f"`--arg {text}`: `{value}` is no list of numbers: write `[64,8]`")
    return [_number_text(part.strip(), f"`--arg {text[:40]}`") for part in inside]


# -- results -----------------------------------------------------------------------------------------------------------


def _check_out(out: str) -> None:
    """Raise UsageError, before the launch, for a file that cannot be written."""
    if not out:
        return
    path = Path(out)
    if path.suffix != ".npz":
        raise UsageError(f"`--out {out}` is no .npz: its name says what is written")
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(f"`--out {out}` cannot be written: {'a folder' if path.is_dir() else 'no such folder'}")


def _save(path: Path, kernel: PtxKernel, arguments: Sequence[Any]) -> None:
    """Save the arrays among the arguments, as `arg0`, `arg1`, ... by position; the file is written as a whole or not at
    all."""
    arrays: Mapping[str, Any] = {
        f"arg{number}": np.asarray(array)
        for number, value in enumerate(arguments)
        if isinstance(array := value.array if isinstance(value, _OF_ARRAYS) else value, np.ndarray)
    }
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".wsemu-")
        try:
            with os.fdopen(handle, "wb") as stream:
                np.savez(stream, **arrays)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"the arrays of `{kernel.__name__}` cannot be written to `{path}`: {error.strerror}") from None
