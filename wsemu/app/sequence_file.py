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
array goes `to` another one, or to a new one of a kind of memory; without a stream the host waits.  Events have `record`
and `wait`, and `sync` waits for a stream, an event or the "device".  Arrays have `memset`, `malloc` and `free`, in
`stream` if there is one, and `read` and `write` by the host.  Graphs have `capture` and `end-capture`, of `stream`, and
`graph` launches one.  `[streams]` has the kinds of streams, `[memory]` those of arrays.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.app.ptx_launch import argument
from wsemu.between.operations import Where
from wsemu.launch.ptx.module import load_ptx
from wsemu.launch.sequence import Sequence
from wsemu.model.errors import UsageError
from wsemu.model.own_files import find_below, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]
    Op = dict[str, Any]

LARGEST = 4 << 20
"""number of bytes of a file"""
KINDS = ("device", "pool", "pinned", "mapped", "managed", "pageable")
"""names of the kinds of memory"""
TOP = ("ptx", "managed", "arrays", "streams", "memory", "op")
"""names of the keys of a file"""


def run(file: Path) -> None:
    """Run the operations of a file; UsageError for an invalid one."""
    text = read_regular(file, LARGEST).decode(errors="replace")
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"`{file}` is not TOML: {error}") from None
    if unknown := sorted(given.keys() - {*TOP}):
        raise UsageError(f"`{file}` has the key {unknown[0]!r}: one of {', '.join(TOP)}")
    if not isinstance(given.get("op"), list):
        raise UsageError(f"`{file}` has no operations: add `[[op]]` tables")
    lines = [number for number, line in enumerate(text.split("\n"), 1) if re.match(r"\s*\[\[\s*op\s*\]\]", line)]
    steps = Steps(file, given)
    for number, op in enumerate(given["op"]):
        line = lines[number] + 1 if number < len(lines) else 1
        width = len(text.split("\n")[line - 1]) if line <= text.count("\n") + 1 else 1
        steps.sequence.where = Where(str(file), line, 0, line, width)
        steps.run(op)


class Steps:
    """The operations of a file, as they run."""

    def __init__(self, file: Path, given: Op) -> None:
        self.file = file
        self.sequence = Sequence(managed=given.get("managed"))
        self.module = load_ptx(find_below(file.parent, given["ptx"], f"`ptx` of `{file}`")) if "ptx" in given else None
        self.arrays: dict[str, Array] = {}
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

    def run(self, op: Op) -> None:
        """Run one operation."""
        verb = next((name for name in _VERBS if name in op), None)
        if verb is None:
            raise UsageError(f"an operation of `{self.file}` has only {', '.join(op)}: name one of {', '.join(_VERBS)}")
        _VERBS[verb](self, op, op[verb])

    def _array(self, name: str) -> Array:
        if name not in self.arrays:
            raise UsageError(f"`{self.file}` has no array {name!r}: they are {', '.join(self.arrays) or 'none'}")
        return self.arrays[name]

    def _launch(self, op: Op, name: str) -> None:
        if self.module is None:
            raise UsageError(f'`{self.file}` launches {name!r} and names no PTX: add `ptx = "kernels.ptx"`')
        arguments = [
            self.arrays[text] if text in self.arrays else argument(str(text), number)
            for number, text in enumerate(op.get("args", ()))
        ]
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
        self.sequence.synchronize(None if name == "device" else name)


_VERBS: dict[str, Callable[[Steps, Op, Any], None]] = {
    "launch": Steps._launch,
    "copy": Steps._copy,
    "memset": lambda s, op, name: s.sequence.memset(s._array(name), op.get("value", 0), stream=op.get("stream")),
    "record": lambda s, op, name: s.sequence.record(name, stream=op.get("stream", "")),
    "wait": lambda s, op, name: s.sequence.wait(name, stream=op.get("stream", "")),
    "sync": Steps._synchronize,
    "malloc": lambda s, op, name: s.sequence.allocate(s._array(name), name, stream=op.get("stream")),
    "free": lambda s, op, name: s.sequence.free(s._array(name), stream=op.get("stream")),
    "read": lambda s, op, name: s.sequence.read(s._array(name)),
    "host-read": lambda s, op, name: s.sequence.read(s._array(name)),
    "write": lambda s, op, name: s.sequence.write(s._array(name)),
    "host-write": lambda s, op, name: s.sequence.write(s._array(name)),
    "capture": lambda s, op, name: s.sequence.begin_capture(op.get("stream", ""), name, op.get("mode", "global")),
    "end-capture": lambda s, op, name: s.sequence.end_capture(op.get("stream", ""), name),
    "graph": lambda s, op, name: s.sequence.launch_graph(name, stream=op.get("stream", "")),
}
