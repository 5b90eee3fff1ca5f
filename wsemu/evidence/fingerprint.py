"""Hashes of the parts of a launch, so that a witness can name the line or argument that has changed since it was saved.

Source is hashed line by line, over the outermost functions from which the kernel's instructions come.  Each argument is
hashed separately, before the launch changes it.  The compiled program, which includes the globals that were copied into
it, is hashed as a whole.
"""

from __future__ import annotations

import linecache
import os
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from wsemu.model.own import own_name
from wsemu.model.record import Record
from wsemu.model.settings import Sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    from pydantic import Field

    from wsemu.model.bound import Bound, BoundArray
    from wsemu.model.program import Program

_LINE, _WHOLE = 8, 32
"""hexadecimal digits kept of a line's and of a larger thing's hash"""
_DTYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "s16": "int16", "s32": "int32", "s64": "int64"}
"""type of a parameter's value for each declared type, except declared types whose value is of the type with the same
bits"""


class Lines(Record):
    """A function's source."""

    file: str
    """name of the file without folders; for wsemu's own patterns, the path from `wsemu/` on"""
    function: str
    first: Annotated[int, Field(ge=1)]
    lines: list[str]
    """hash of each line, without blanks at its end"""


class Value(Record):
    """An argument before the launch."""

    name: str
    what: str
    """`float32[64]`, or a number itself"""
    digest: str = ""
    """digest of an array's contents; empty if the contents were not kept"""


class Inputs(Record):
    """The inputs of a launch."""

    source: list[Lines] = []
    values: list[Value] = []
    program: str = ""
    """hash of the bytecode and its constants"""
    fma: bool = True
    """a * b + c was contracted"""
    mma: Sums = "hardware"
    """rounding mode of the sums of matrix instructions"""
    uninitialized: list[str] = []
    """arrays whose contents counted as not yet written"""


def inputs(bound: Bound, data: Sequence[npt.NDArray[np.uint8] | None] | None = None) -> Inputs:
    """Return the inputs of a launch.  `data` has the bytes of each segment before the launch, or None if they are
    unknown."""
    program = bound.program
    before = [data for data, _ in bound.segments] if data is None else data
    own = bound.heap.segments(bound) if bound.heap is not None else ()  # the system's, numbered launch by launch
    given = [array for array in bound.arrays if array.segment not in own]
    code = (program.code.tolist(), program.constants, program.shared, program.local_bytes)
    return Inputs(
        source=[*_source(program)] if bound.source is None else [_code(program, *bound.source)],
        values=[*dict.fromkeys(_scalars(program, bound.names, bound.rows)), *_arrays(given, before)],
        program=_digest(repr(code).encode()),
        fma=bound.settings.fma,
        mma=bound.settings.mma,
        uninitialized=[array.name for array in bound.arrays if array.segment in bound.uninitialized],
    )


def describe_arguments(bound: Bound, types: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the name of each argument of a launch, and its value or its type: `x`, `float32[64]`.

    `types` are the declared types of the parameters in PTX.
    """
    own = bound.heap.segments(bound) if bound.heap is not None else ()
    arrays = [(array.name, _array_type(array)) for array in bound.arrays if array.segment not in own]
    scalars = dict.fromkeys(_scalars(bound.program, bound.names, bound.rows, types))
    return [*arrays, *((value.name, value.what) for value in scalars)]


def changes(then: Inputs, now: Inputs) -> Iterator[str]:
    """Yield descriptions of the differences.  Those of source lines come first, because they explain the others."""
    lines = [*_changed_lines(then, now)]
    yield from lines
    values = {value.name: value for value in now.values}
    for old in then.values:
        new = values.pop(old.name, None)
        if new is None:
            yield f"argument `{old.name}` is gone"
        elif new.what != old.what:
            yield f"argument `{old.name}` was {old.what}, and is {new.what} now"
        elif old.digest and new.digest and new.digest != old.digest:
            yield f"the contents of argument `{old.name}`, {old.what}, are others now"
    for name in values:
        yield f"argument `{name}` is new"
    if then.program != now.program and not lines:
        yield "the kernel compiles to another program now: a global that it uses, or wsemu, has changed"


def _changed_lines(then: Inputs, now: Inputs) -> Iterator[str]:
    functions = {(lines.file, lines.function): lines for lines in now.source}
    for old in then.source:
        new = functions.pop((old.file, old.function), None)
        if new is None:
            yield f"`{old.function}` of {old.file} is no longer part of the kernel"
            continue
        pairs = enumerate(zip(old.lines, new.lines, strict=False))
        at = next((n for n, (one, other) in pairs if one != other), min(len(old.lines), len(new.lines)))
        if old.lines != new.lines:
            yield f"{new.file}:{new.first + at} in `{new.function}` has changed"
    for file, function in functions:
        yield f"`{function}` of {file} is a new part of the kernel"


def _source(program: Program) -> Iterator[Lines]:
    """Yield the outermost function around each span of the program."""
    from wsemu.evidence.source_view import view

    seen: dict[tuple[str, int], Lines] = {}
    for file, line in sorted({(s.file, s.line) for s in program.spans}, key=lambda s: (os.path.basename(s[0]), s[1])):
        found = view(file).outermost(line)
        if found is None or (file, found[1]) in seen:
            continue
        name, first, last = found
        text = linecache.getlines(file)[first - 1 : last]
        lines = [_digest(line.rstrip().encode(errors="replace"), _LINE) for line in text]
        seen[file, first] = Lines(file=_name(file), function=name, first=first, lines=lines)
    yield from seen.values()


def _code(program: Program, file: str, first: int, last: int) -> Lines:
    """Return the lines of a kernel's code if it is not a Python function."""
    text = linecache.getlines(file)[first - 1 : last]
    lines = [_digest(line.rstrip().encode(errors="replace"), _LINE) for line in text]
    return Lines(file=_name(file), function=program.name, first=first, lines=lines)


def _name(file: str) -> str:
    if file.startswith("<"):
        return file.partition(" ")[0].rstrip(">") + ">"  # without what distinguishes texts of equal code
    return own_name(file) or os.path.basename(os.path.realpath(file))


def _scalars(
    program: Program, names: Sequence[str], rows: dict[int, Any], types: Sequence[str] = ()
) -> Iterator[Value]:
    for parameter in program.parameters:
        if parameter.part == "bytes":
            at = f" at byte {parameter.axis}" if parameter.axis else ""
            value, type_ = rows[parameter.row][1], parameter.type
            declared = types[parameter.argument] if types else ""
            if declared in _DTYPES and declared[1:] == type_[1:]:
                type_, value = declared, _from_bits(value, _DTYPES[declared])
            yield Value(name=f"{names[parameter.argument]}{at} ({type_})", what=repr(value))
        if parameter.part == "value":
            path = "".join(f".{p}" if isinstance(p, str) else f"[{p}]" for p in parameter.component)
            imaginary = ".imag" * (parameter.axis == 1)
            yield Value(name=f"{names[parameter.argument]}{path}{imaginary}", what=repr(rows[parameter.row][1]))


def _from_bits(bits: Any, name: str) -> Any:
    """Return the number with these bits."""
    dtype = np.dtype(name)
    return np.frombuffer(int(bits).to_bytes(dtype.itemsize, "little"), dtype)[0].item()


def _arrays(bound: Sequence[BoundArray], data: Sequence[npt.NDArray[np.uint8] | None]) -> Iterator[Value]:
    from wsemu.model.isa import FIRST_ARRAY

    for array in bound:
        segment = data[array.segment - FIRST_ARRAY]
        digest = ""
        if segment is not None:
            contents = _contents(array, segment)
            where = f"{array.segment} {array.offset} {array.strides}"
            digest = _digest(where.encode() + contents.tobytes())
        yield Value(name=array.name, what=_array_type(array), digest=digest)


def _array_type(array: BoundArray) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _contents(array: BoundArray, segment: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return the array in a copy of its segment: in an arena without the bytes that are past the last allocation."""
    if 0 in array.shape:
        return np.zeros(0, array.dtype)
    last = sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True) if stride > 0)
    if array.offset + last + array.dtype.itemsize > segment.size:
        return segment[array.offset :]
    return np.ndarray(array.shape, array.dtype, np.ascontiguousarray(segment).data, array.offset, array.strides)


def _digest(data: bytes, digits: int = _WHOLE) -> str:
    import hashlib  # only failing launches are hashed

    return hashlib.sha256(data).hexdigest()[:digits]
