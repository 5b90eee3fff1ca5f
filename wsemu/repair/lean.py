"""Find redundant synchronization: remove each barrier, fence and atomic in turn, and repeat the launch.  Also find a
padding of a shared array, or an order of its indices, that costs fewer wavefronts."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from wsemu.model.data import NamedTuple
from wsemu.repair import ptx, ptx_text
from wsemu.repair.scene import FENCES, Scene, last_name
from wsemu.repair.search import digest
from wsemu.repair.shapes import arrays
from wsemu.repair.text import Piece, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.search import Attempted, Launched

_BARRIERS = frozenset("syncthreads syncwarp bar_sync barrier_sync bar_arrive barrier_arrive".split())
_OF_PTX = re.compile(r"(?:bar|barrier)(?:\.cta|\.warp)?\.(?:sync|arrive|red)\b|fence\b|membar\b")
_UPDATES = {"add": "+=", "sub": "-="}


class Part(NamedTuple):
    """Something that synchronises."""

    file: str
    line: int
    text: str
    becomes: str
    """replacement: nothing, or the plain update of an atomic"""


class Need(NamedTuple):
    """The result for one operation: whether the launch needs it."""

    needed: bool
    saved: int
    """warp instructions that the launch does without it"""


def needs(launched: Launched, steps: int) -> dict[Part, Need]:
    """Return the parts of a verified launch with this number of steps, and which of them the launch needs to be
    verified with the same results."""
    found: dict[Part, Need] = {}
    with launched.again():
        same = launched.rerun_unchanged()
        if same is None or same.report.verdict != "verified":
            return found
        results = digest(same.results)

        def need(done: Attempted | None) -> Need:
            right = done is not None and done.report.verdict == "verified" and digest(done.results) == results
            return Need(not right, steps - done.report.counters.warp_instructions if right and done is not None else 0)

        code = launched.code()
        if code is not None:
            return {part: need(launched.attempt_code(text)) for part, text in _parts_of_ptx(ptx_text.Text.of(*code))}
        for file, (source, lines) in launched.sources().items():
            text = Text(file, source)
            functions = [*dict.fromkeys(f for line in sorted(lines) if (f := text.outermost(line)))]
            for part, piece in _parts(Scene(text, functions, [], [])):
                found[part] = need(launched.attempt({file: (text.tree, text.replace_pieces([piece]))}, lambda _: None))
    return found


class Layout(NamedTuple):
    """Another layout of a shared array."""

    file: str
    line: int
    says: str
    """description of the edit in words"""


def layouts(launched: Launched, wavefronts: int) -> dict[Layout, int]:
    """Return other layouts of the shared arrays of a verified launch that keep the verdict and the results, with the
    number of wavefronts that each saves.  `wavefronts` is the number that the launch needs now."""
    found: dict[Layout, int] = {}
    with launched.again():
        same = launched.rerun_unchanged()
        if same is None or same.report.verdict != "verified":
            return found
        results = digest(same.results)
        for file, (source, lines) in launched.sources().items():
            text = Text(file, source)
            functions = [*dict.fromkeys(f for line in sorted(lines) if (f := text.outermost(line)))]
            for edit, pieces, *_ in arrays(Scene(text, functions, [], ["bank-conflict"])):
                if edit.kind != "pad":
                    continue
                done = launched.attempt({file: (text.tree, text.replace_pieces(pieces))}, lambda _: None)
                if done is None or done.report.verdict != "verified" or digest(done.results) != results:
                    continue
                saved = wavefronts - shared_wavefronts(done.report)
                if saved > 0:
                    found[Layout(file, edit.changes[0].line, edit.says)] = saved
    return found


def shared_wavefronts(report: Any) -> int:
    """Return the wavefronts of all accesses of a launch to shared memory."""
    counted = report.counters
    loads: int = counted.shared_load_wavefronts
    return loads + int(counted.shared_store_wavefronts) + int(counted.shared_atomic_wavefronts)


def _parts_of_ptx(text: ptx_text.Text) -> Iterator[tuple[Part, str]]:
    """Yield the removable parts of a kernel in PTX, each with all unrolled copies of its line, and the text without
    it."""
    for copies in ptx.group_copies([place for place in text.places if _OF_PTX.match(place.text)]):
        first = copies[0]
        part = Part(first.file, first.line, ptx.instruction_text(first.text).strip("`"), "")
        yield part, text.replace_lines({place.at: "\n" for place in copies})


def _parts(scene: Scene) -> Iterator[tuple[Part, Piece]]:
    """Yield the removable parts, each with its replacement."""
    for statement in scene.statements:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
            continue
        call = statement.value
        text = scene.text.of(call)
        if last_name(call) in _BARRIERS | FENCES:
            yield Part(scene.text.file, statement.lineno, text, ""), scene.cut(statement)
        elif last_name(call) in _UPDATES and ".atomic." in scene.text.of(call.func) and len(call.args) == 3:
            array, index, value = map(scene.text.of, call.args)
            index = index[1:-1] if isinstance(call.args[1], ast.Tuple) and index.startswith("(") else index
            plain = f"{array}[{index}] {_UPDATES[last_name(call)]} {value}"
            yield Part(scene.text.file, statement.lineno, text, plain), Piece(*scene.text.span(statement), plain)
