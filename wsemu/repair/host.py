"""Edits of the line that launches a kernel: other grids, blocks and arguments for the unchanged kernel.

An edit is tried by another launch of the same kernel; its text is that of the launching line.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from wsemu.model.cure import Edit
from wsemu.model.data import NamedTuple
from wsemu.repair.scene import Candidate, last_name
from wsemu.repair.text import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.repair.search import Launched
    from wsemu.repair.text import Text

FIRST = frozenset("out-of-bounds oversubscribed count-mismatch read-only-written".split())
"""codes for which edits of the launch are tried before edits of the kernel"""
_OF_NUMBERS = frozenset("deadlock count-mismatch oversubscribed barrier-divergence dangling-arrive all-arrive".split())
"""codes for which a count in the findings may be the intended number of threads"""
_OF_CTAS = frozenset(("race", "same-value-store"))
"""codes of stores that CTAs repeat if there are more CTAs than tiles of the arrays"""
_WARP, _MOST_THREADS = 32, 1024
_MOST = 24
"""maximum number of launches that are tried"""
_AXES = "xyz"


class Launch(NamedTuple):
    """A launching line in the source."""

    grid: ast.expr
    block: ast.expr
    arguments: Sequence[ast.expr]
    line: int


class Other(NamedTuple):
    """A launch that is tried."""

    candidate: Candidate
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Any, ...]


def find_launch(text: Text, line: int, kernel: str) -> Launch | None:
    """Return the launch of a kernel on a line, found by the kernel's name; None if there is none, or several."""
    found = []
    for node in ast.walk(text.tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0):
            match node:
                case ast.Call(func=ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[grid, block, *_]))):
                    found += [Launch(grid, block, node.args, node.lineno)] if name == kernel else []
                case ast.Call(args=[ast.Name(id=name), grid, block, ast.Tuple(elts=given)]) if name == kernel:
                    found += [Launch(grid, block, given, node.lineno)] if last_name(node) == "check" else []
    return found[0] if len(found) == 1 and not any(isinstance(a, ast.Starred) for a in found[0].arguments) else None


def others(text: Text, launch: Launch, report: Any, launched: Launched, numbers: list[int]) -> list[Other]:
    """Return the launches to try, the likeliest first."""
    made = _Others(text, launch, report, [*launched.arguments_given()], numbers, {f.code for f in report.findings})
    found = sorted(made.all(), key=lambda other: other.candidate.near)
    return found[:_MOST]


class _Others(NamedTuple):
    text: Text
    launch: Launch
    report: Any
    given: list[Any]
    numbers: list[int]
    codes: set[str]

    def all(self) -> Iterator[Other]:
        """Yield all launches to try."""
        if "out-of-bounds" in self.codes:
            yield from self.smaller_grids()
            yield from self.smaller_blocks()
            yield from self.axes()
            yield from self.arrays()
            yield from self.larger()
        elif self.is_between_ctas():
            yield from self.smaller_grids(exact=True)
        if self.codes & _OF_NUMBERS:
            yield from self.threads()
        yield from self.exchange_shapes()
        yield from self.scalars()

    def put(self, pieces: list[Piece], says: str, near: float, **other: Any) -> Other:
        changes = [self.text.change(piece) for piece in sorted(pieces)]
        candidate = Candidate(Edit(kind="launch", says=says, changes=changes), tuple(pieces), near)
        base = {"grid": self.report.grid, "block": self.report.block, "arguments": tuple(self.given)}
        return Other(candidate, **{**base, **other})

    def replace_expression(self, node: ast.expr, new: str, near: float, value: Any, **other: Any) -> Other:
        """Return a launch with one expression replaced."""
        says = f"write `{new}`{'' if new == str(value) else f', {value},'} in place of `{self.text.of(node)}`"
        says += f" in line {node.lineno}, where the kernel is launched"
        return self.put([Piece(*self.text.span(node), new)], says, near, **other)

    def part(self, node: ast.expr, axis: int) -> ast.expr | None:
        """Return the expression for one axis of a grid or block."""
        if isinstance(node, ast.Tuple):
            return node.elts[axis] if axis < len(node.elts) else None
        return node if axis == 0 else None

    def extents(self) -> dict[int, str]:
        """Return an expression in the host's source for each extent of an array."""
        found: dict[int, str] = {}
        for node, value in zip(self.launch.arguments, self.given, strict=False):
            shape = getattr(value, "shape", ())
            for axis, extent in enumerate(shape):
                if isinstance(node, ast.Name):
                    short = f"{node.id}.size" if len(shape) == 1 else f"{node.id}.shape[{axis}]"
                    found.setdefault(int(extent), short)
                else:
                    found.setdefault(int(extent), str(extent))
        return found

    def is_between_ctas(self) -> bool:
        """Return whether accesses of two CTAs conflict."""
        findings = [f for f in self.report.findings if f.code in _OF_CTAS]
        return any(len({site.cta for site in f.sites if site.cta is not None}) > 1 for f in findings)

    def smaller_grids(self, *, exact: bool = False) -> Iterator[Other]:
        """Yield grids whose threads match the elements of an array, and, unless `exact`, a grid with one CTA less."""
        for axis, (count, threads) in enumerate(zip(self.report.grid, self.report.block, strict=True)):
            node, by = self.part(self.launch.grid, axis), self.part(self.launch.block, axis)
            if node is None:
                continue
            written: dict[int, str] = {} if exact else {count - 1: str(count - 1)}
            for extent, name in self.extents().items():
                simple = isinstance(by, (ast.Name, ast.Constant, ast.Attribute)) and not name.isdigit()
                size = self.text.of(by) if by is not None else ""
                whole = f"({name} + {size} - 1) // {size}" if simple else str(-(-extent // threads))
                written[-(-extent // threads)] = whole
                written.setdefault(extent, name)
            for needed, text in written.items():
                if 0 < needed < count:
                    new = str(needed) if isinstance(node, ast.Constant) else text
                    far = 0.1 * (count - needed)
                    yield self.replace_expression(
                        node, new, far, needed, grid=_replace_value(self.report.grid, axis, needed)
                    )

    def smaller_blocks(self) -> Iterator[Other]:
        """Yield blocks whose threads match the elements of an array."""
        for axis, threads in enumerate(self.report.block):
            node = self.part(self.launch.block, axis)
            extent, name = max(self.extents().items(), default=(0, ""))
            if node is not None and 0 < extent < threads and self.report.grid[axis] == 1:
                new = str(extent) if isinstance(node, ast.Constant) else name
                yield self.replace_expression(
                    node, new, 1.0, extent, block=_replace_value(self.report.block, axis, extent)
                )

    def threads(self) -> Iterator[Other]:
        """Yield blocks whose threads match the count of a barrier in the findings."""
        node, block = self.part(self.launch.block, 0), self.report.block
        wanted = [n for n in self.numbers if n % _WARP == 0 and _WARP <= n <= _MOST_THREADS and n != block[0]]
        for rank, count in enumerate(
            dict.fromkeys([*wanted, *(block[0] + n * _WARP for n in (1, 2, 3))]) if block[1:] == (1, 1) else ()
        ):
            if node is not None and count <= _MOST_THREADS:
                yield self.replace_expression(node, str(count), 0.5 * rank, count, block=(count, 1, 1))

    def exchange_shapes(self) -> Iterator[Other]:
        """Yield the launch with grid and block exchanged."""
        grid, block = self.report.grid, self.report.block
        threads = grid[0] * grid[1] * grid[2]
        if grid != block and threads <= _MOST_THREADS and threads % _WARP == 0:
            one, other = self.launch.grid, self.launch.block
            says = f"exchange the grid `{self.text.of(one)}` and the block `{self.text.of(other)}` in line {one.lineno}"
            pieces = [
                Piece(*self.text.span(one), self.text.of(other)),
                Piece(*self.text.span(other), self.text.of(one)),
            ]
            yield self.put(pieces, says, 1.5, grid=block, block=grid)

    def axes(self) -> Iterator[Other]:
        """Yield launches with x and y exchanged, in the grid, the block, or both."""
        nodes = [("grid", self.launch.grid), ("block", self.launch.block)]
        pairs = [(name, n.elts[:2]) for name, n in nodes if isinstance(n, ast.Tuple) and len(n.elts) > 1]
        values = {"grid": self.report.grid, "block": self.report.block}
        pairs = [(name, parts) for name, parts in pairs if values[name][0] != values[name][1]]
        for chosen in ([[pair] for pair in pairs] + [pairs]) if len(pairs) > 1 else [pairs] if pairs else []:
            pieces, other = [], {}
            for name, (x, y) in chosen:
                pieces += [Piece(*self.text.span(x), self.text.of(y)), Piece(*self.text.span(y), self.text.of(x))]
                other[name] = (values[name][1], values[name][0], values[name][2])
            says = (
                f"exchange x and y of the {' and of the '.join(name for name, _ in chosen)} in line {self.launch.line}"
            )
            yield self.put(pieces, f"{says}, where the kernel is launched", 0.5, **other)

    def scalars(self) -> Iterator[Other]:
        """Yield launches with a number changed by one or replaced by an array's extent, and with two numbers
        exchanged."""
        numbers = [
            (n, node, value)
            for n, (node, value) in enumerate(zip(self.launch.arguments, self.given, strict=False))
            if isinstance(value, int) and not isinstance(value, bool)
        ]
        for k, (n, node, value) in enumerate(numbers):
            for m, other, second in numbers[k + 1 :]:
                if value != second and self.may_be_misplaced(n, node, m, other):
                    yield self.swap_arguments(n, node, m, other, 1.2)
            if any(value > 1 and extent % value == 0 for extent in self.extents()):
                continue  # the number is an extent, or divides one
            for extent, name in self.extents().items():
                if abs(extent - value) <= max(value, extent) // 2:
                    far = 0.8 + 0.1 * min(abs(extent - value), 9)
                    yield self.replace_expression(
                        node, name, far, extent, arguments=_replace_value(tuple(self.given), n, extent)
                    )
            for by in (-1, 1) if value > 1 else (1,):
                text = str(value + by)
                if not isinstance(node, ast.Constant):
                    text = f"{self.text.of(node)} {'+' if by > 0 else '-'} 1"
                far = 1.0 + 0.2 * (by > 0)
                yield self.replace_expression(
                    node, text, far, value + by, arguments=_replace_value(tuple(self.given), n, value + by)
                )

    def arrays(self) -> Iterator[Other]:
        """Yield launches with two arrays exchanged that have one type and different shapes."""
        known = [
            (n, node, value)
            for n, (node, value) in enumerate(zip(self.launch.arguments, self.given, strict=False))
            if hasattr(value, "shape") and hasattr(value, "dtype")
        ]
        for k, (n, node, value) in enumerate(known):
            for m, other, second in known[k + 1 :]:
                alike = value.dtype == second.dtype and len(value.shape) == len(second.shape)
                if alike and value.shape != second.shape and self.may_be_misplaced(n, node, m, other):
                    yield self.swap_arguments(n, node, m, other, 0.7)

    def may_be_misplaced(self, n: int, node: ast.expr, m: int, other: ast.expr) -> bool:
        """Return whether two arguments may be in the wrong order: not if the kernel's parameters have the same
        names."""
        here = (self.report_name(n), self.report_name(m))
        given = (self.text.of(node), self.text.of(other))
        return here[0] != given[0] and here[1] != given[1]

    def swap_arguments(self, n: int, node: ast.expr, m: int, other: ast.expr, near: float) -> Other:
        """Return the launch with two arguments exchanged."""
        given = list(self.given)
        given[n], given[m] = given[m], given[n]
        one, two = self.text.of(node), self.text.of(other)
        says = f"exchange the arguments `{one}` and `{two}` in line {node.lineno}, where the kernel is launched"
        pieces = [Piece(*self.text.span(node), two), Piece(*self.text.span(other), one)]
        return self.put(pieces, says, near, arguments=tuple(given))

    def larger(self) -> Iterator[Other]:
        """Yield launches with a larger array, as long as another one, for an array with stores beyond its end."""
        import numpy as np

        stored = [f for f in self.report.findings if f.code == "out-of-bounds"]
        names = {s.array for f in stored for s in f.sites if s.array}
        kinds = {s.text.partition(" ")[0] for f in stored for s in f.sites if s.primary}
        if len(names) != 1 or kinds != {"store"}:
            return
        arrays = [(n, v) for n, v in enumerate(self.given) if isinstance(v, np.ndarray)]
        for n, small in arrays:
            node = self.launch.arguments[n]
            if not isinstance(node, ast.Name) or f"`{self.report_name(n)}`" not in {f"`{name}`" for name in names}:
                continue
            for shape in dict.fromkeys(v.shape for _, v in arrays if v.ndim == small.ndim and v.size > small.size):
                if 2 * (np.prod(shape) - small.size) > small.size:
                    continue
                more = np.zeros(shape, small.dtype)
                more[tuple(slice(0, extent) for extent in small.shape)] = small
                what = f"{shape[0]} elements" if len(shape) == 1 else f"the shape {shape}"
                had = small.size if len(shape) == 1 else small.shape
                says = f"make `{node.id}`, which line {self.launch.line} hands over, with {what} in place of {had}"
                yield self.put([], says, 0.2, arguments=_replace_value(tuple(self.given), n, more))

    def report_name(self, n: int) -> str:
        """Return the kernel's name of an argument."""
        return str(self.report._launched.bound.names[n])


def _replace_value(values: tuple[Any, ...], n: int, new: Any) -> tuple[Any, ...]:
    return (*values[:n], new, *values[n + 1 :])
