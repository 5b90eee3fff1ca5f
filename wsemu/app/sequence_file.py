"""`wsemu check sequence.toml`: launches of PTX kernels, copies, waits and accesses of the host, in a file.

    ptx = "kernels.ptx"
    [arrays]
    x = "f32[128]:empty"  # Memory that nothing has written.
    [[op]]
    launch = "produce"
    block = 64
    args = ["x", "i32:128"]
    stream = "s"
    [[op]]
    sync = "s"  # The host waits for the stream.

A launch has `grid`, `block`, `args`, `stream`, and `pdl = true` for programmatic stream serialization.  A `copy` of an
array goes `to` another array, or to a new array in a named kind of memory; without a stream the host waits.  `record`
and `wait` name an event, and `sync` names a stream, an event or the "device" for which the host waits.  `memset`,
`malloc` and `free` name an array, and may have a `stream`; `read` and `write` are accesses of the host to an array.
`capture` and `end-capture` name a graph, and have the `stream` that is captured; `graph` launches it.  `[streams]`
gives the kinds of streams, and `[memory]` those of arrays.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from wsemu.app.ptx_launch import argument
from wsemu.between.operations import Where
from wsemu.launch.ptx.module import load_ptx
from wsemu.launch.sequence import DEFAULT_STREAMS, Sequence
from wsemu.model.errors import UsageError
from wsemu.model.own_files import find_below, read_regular
from wsemu.model.settings import Managed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]
    Op = dict[str, Any]

LARGEST = 4 << 20
"""maximum number of bytes of a file"""
KINDS = ("device", "pool", "pinned", "mapped", "managed", "pageable")
"""names of the kinds of memory"""
TOP = {"ptx": str, "managed": str, "arrays": dict, "streams": dict, "memory": dict, "op": list}
"""keys of a file, and the types of their values"""


def run(file: Path) -> None:
    """Run the operations of a file; raise UsageError for an invalid operation."""
    text = read_regular(file, LARGEST).decode(errors="replace")
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"`{file}` is not TOML: {error}") from None
    if unknown := sorted(given.keys() - {*TOP}):
        raise UsageError(f"`{file}` has the key {unknown[0]!r}: one of {', '.join(TOP)}")
    for key, value in given.items():
        _check_type(f"`{key}` of `{file}`", value, TOP[key])
    if not given.get("op"):
        raise UsageError(f"`{file}` has no operations: add `[[op]]` tables")
    lines = [number for number, line in enumerate(text.split("\n"), 1) if re.match(r"\s*\[\[\s*op\s*\]\]", line)]
    steps = Steps(file, given)
    for number, op in enumerate(given["op"]):
        line = lines[number] + 1 if number < len(lines) else 1
        width = len(text.split("\n")[line - 1]) if line <= text.count("\n") + 1 else 1
        steps.sequence.where = Where(str(file), line, 0, line, width)
        try:
            steps.run(op)
        except UsageError as error:
            raise UsageError(f"line {line} of `{file}`: {error}") from None


def _check_type(naming: str, value: Any, *types: type) -> None:
    """Raise UsageError for a value of another type."""
    if type(value) not in types:
        raise UsageError(f"{naming} is {value!r}: give {' or '.join(_TYPE_NAMES[one] for one in types)}")


class Steps:
    """Runs the operations of a file."""

    def __init__(self, file: Path, given: Op) -> None:
        self.file = file
        managed = given.get("managed")
        if managed not in (None, *get_args(Managed)):
            raise UsageError(f"`managed` of `{file}` is {managed!r}: give {' or '.join(get_args(Managed))}")
        self.sequence = Sequence(managed=managed)
        self.module = load_ptx(find_below(file.parent, given["ptx"], f"`ptx` of `{file}`")) if "ptx" in given else None
        self.arrays: dict[str, Array] = {}
        ops = [op for op in given["op"] if isinstance(op, dict)]
        self._events = {str(op["record"]) for op in ops if "record" in op}
        self._streams = {
            *DEFAULT_STREAMS,
            *given.get("streams", {}),
            *(str(op["stream"]) for op in ops if "stream" in op),
        }
        for name, kind in given.get("streams", {}).items():
            self.sequence.stream(name, kind)
        for number, (name, text) in enumerate(given.get("arrays", {}).items()):
            made = argument(str(text), number)
            if not isinstance(made, np.ndarray):
                raise UsageError(f"array {name!r} of `{file}` is {text!r}: write TYPE[SHAPE]:FILL, `f32[64]:zeros`")
            self.arrays[name] = made
        kinds = dict.fromkeys(self.arrays, "device") | given.get("memory", {})
        for name, kind in kinds.items():
            if kind not in KINDS:
                raise UsageError(f"memory of {name!r} in `{file}` is {kind!r}: one of {', '.join(KINDS)}")
            self.sequence.declare(self._array(name), name, kind)

    def run(self, op: Any) -> None:
        """Run one operation."""
        _check_type("the operation", op, dict)
        name = next((name for name in _VERBS if name in op), None)
        if name is None:
            raise UsageError(f"the operation has only {', '.join(op) or 'no keys'}: name one of {', '.join(_VERBS)}")
        verb = _VERBS[name]
        _check_type(f"`{name}`", op[name], str)
        for key, value in op.items():
            if key not in (name, *verb.keys):
                raise UsageError(f"`{name}` has no key `{key}`: {', '.join(verb.keys) or 'it takes none'}")
            _check_type(f"`{key}`", value, *_OPTION_TYPES.get(key, (str,)))
        verb.run(self, op, op[name])

    def _array(self, name: str) -> Array:
        if name not in self.arrays:
            raise UsageError(f"no array {name!r}: `[arrays]` has {', '.join(self.arrays) or 'none'}")
        return self.arrays[name]

    def _launch(self, op: Op, name: str) -> None:
        if self.module is None:
            raise UsageError(f'`{self.file}` launches {name!r} and names no PTX: add `ptx = "kernels.ptx"`')
        arguments: list[Any] = []
        for number, text in enumerate(op.get("args", ())):
            _check_type("an argument", text, str)
            arguments.append(self.arrays[text] if text in self.arrays else argument(text, number))
        kernel, block = self.module[name], op.get("block")
        grid = op.get("grid", 1)
        options = {key: op[key] for key in ("dynamic_shared", "cluster") if key in op}
        shape = tuple(block) if isinstance(block, list) else block or kernel.block
        self.sequence.launch(
            kernel, tuple(grid) if isinstance(grid, list) else grid, shape, arguments,
            stream=op.get("stream", ""), pdl=bool(op.get("pdl", False)), **options,
        )  # fmt: skip

    def _copy(self, op: Op, name: str) -> None:
        source, target = self._array(name), op.get("to", "pageable")
        if target not in self.arrays and target in KINDS:
            self.arrays[target] = np.zeros_like(source, subok=False)
            self.sequence.declare(self.arrays[target], target, target)
        self.sequence.copy(source, self._array(target), stream=op.get("stream"))

    def _synchronize(self, op: Op, name: str) -> None:
        if name not in {"device", *self._events, *self._streams}:
            raise UsageError(f"no stream and no event {name!r}: give one that an operation uses or records")
        self.sequence.synchronize(None if name == "device" else name)

    def _wait(self, op: Op, name: str) -> None:
        if name not in self._events:
            raise UsageError(f'no event {name!r}: add an operation with `record = "{name}"`')
        self.sequence.wait(name, stream=op.get("stream", ""))


class Verb(NamedTuple):
    """An operation of a file."""

    run: Callable[[Steps, Op, Any], None]
    keys: tuple[str, ...] = ("stream",)
    """further keys that an operation may have"""


_TYPE_NAMES = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "a table"}
_OPTION_TYPES: dict[str, tuple[type, ...]] = {
    "grid": (int, list), "block": (int, list), "cluster": (int, list), "dynamic_shared": (int,), "args": (list,),
    "pdl": (bool,), "value": (int,),
}  # fmt: skip
"""types of the values of keys; keys that are not listed have strings"""
_VERBS = {
    "launch": Verb(Steps._launch, ("grid", "block", "args", "stream", "pdl", "dynamic_shared", "cluster")),
    "copy": Verb(Steps._copy, ("to", "stream")),
    "memset": Verb(
        lambda s, op, name: s.sequence.memset(s._array(name), op.get("value", 0), stream=op.get("stream")),
        ("value", "stream"),
    ),
    "record": Verb(lambda s, op, name: s.sequence.record(name, stream=op.get("stream", ""))),
    "wait": Verb(Steps._wait),
    "sync": Verb(Steps._synchronize, ()),
    "malloc": Verb(lambda s, op, name: s.sequence.allocate(s._array(name), name, stream=op.get("stream"))),
    "free": Verb(lambda s, op, name: s.sequence.free(s._array(name), stream=op.get("stream"))),
    "read": Verb(lambda s, op, name: s.sequence.read(s._array(name)), ()),
    "host-read": Verb(lambda s, op, name: s.sequence.read(s._array(name)), ()),
    "write": Verb(lambda s, op, name: s.sequence.write(s._array(name)), ()),
    "host-write": Verb(lambda s, op, name: s.sequence.write(s._array(name)), ()),
    "capture": Verb(
        lambda s, op, name: s.sequence.begin_capture(op.get("stream", ""), name, op.get("mode", "global")),
        ("stream", "mode"),
    ),
    "end-capture": Verb(lambda s, op, name: s.sequence.end_capture(op.get("stream", ""), name)),
    "graph": Verb(lambda s, op, name: s.sequence.launch_graph(name, stream=op.get("stream", ""))),
}
