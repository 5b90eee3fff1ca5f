"""Inputs of edits: the functions of a kernel, the locations of findings, and the words that its source uses."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from wsemu.language.cuda_names import FUNCTIONS as CUDA
from wsemu.language.ptx_names import FUNCTIONS as PTX
from wsemu.model.cure import Edit
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.repair.text import Piece, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.cure import Kind

WAITS = frozenset(
    "syncthreads syncthreads_and syncthreads_count syncthreads_or syncwarp bar_sync barrier_sync mbarrier_wait "
    "mbarrier_wait_parity cp_async_wait_group cp_async_wait_all cp_async_bulk_wait_group cp_async_bulk_wait_group_read "
    "wait_for_dma_finish wait_for_dma_start consumer_wait producer_acquire cluster_wait cluster_sync sync".split()
)
GIVES = frozenset(
    "bar_arrive barrier_arrive mbarrier_arrive mbarrier_arrive_relaxed mbarrier_arrive_expect_tx mbarrier_expect_tx "
    "mbarrier_arrive_drop mbarrier_arrive_no_complete cp_async_mbarrier_arrive cp_async_mbarrier_arrive_noinc "
    "cp_async_commit_group cp_async_bulk_commit_group consumer_release producer_commit start_async_dma "
    "finish_async_dma cluster_arrive cluster_arrive_relaxed mbarrier_arrive_cluster mbarrier_arrive_drop_cluster "
    "mbarrier_arrive_expect_tx_cluster mbarrier_expect_tx_cluster".split()
)
FENCES = frozenset(
    "threadfence threadfence_block threadfence_system fence_proxy_async fence_proxy_async_shared_cta "
    "fence_proxy_async_global fence_mbarrier_init nanosleep".split()
)
MAKES = frozenset("mbarrier_init mbarrier_inval start finish setmaxnreg_inc setmaxnreg_dec".split())
SYNCHRONISES = WAITS | GIVES | FENCES | MAKES
"""last names of calls that are edited as synchronisation: of `wsemu.cuda`, `wsemu.ptx` and of patterns"""
_ORDERING = frozenset("race intra-warp-race phase-alias proxy barrier-recycling deadlock async-outlives-cta".split())
_PLAIN = (ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.Tuple, ast.Call)
_LEAVES = (ast.Return, ast.Break, ast.Continue)


class Candidate(NamedTuple):
    """An edit to be tried."""

    edit: Edit
    pieces: tuple[Piece, ...]
    near: float
    """distance from the findings, plus the size of the change; edits with smaller values are tried first"""
    waits: int = 0
    """number of additional operations that wait or arrive"""
    odd: int = 0
    """1: correct, but unusual code; -1: simple code that the kernel already contains elsewhere"""


_LAST = (ast.Return, ast.Raise, ast.Break, ast.Continue)
"""statements after which nothing is executed"""


class Gap(NamedTuple):
    """A position between two statements."""

    at: int
    """byte offset in the file"""
    indent: str
    says: str
    line: int
    """line of the source above the gap"""
    suite: list[ast.stmt]
    position: int
    """position of the gap in the suite"""
    beside: str = ""
    """text around inserted code, which replaces `{}`, if the position shares a line with other statements"""


@dataclass(eq=False)
class Scene:
    """One file of a kernel with findings."""

    text: Text
    functions: list[ast.FunctionDef]
    """outermost functions from which the kernel's code comes"""
    lines: list[int]
    """lines of the findings, in their order"""
    codes: list[str]
    said: str = ""
    """the texts of the findings"""
    threads: int = 32
    """number of threads of a CTA"""
    numbers: list[int] = field(default_factory=list)
    """numbers that the findings mention"""

    def __post_init__(self) -> None:
        found = [int(word.replace(",", "")) for word in re.findall(r"\b\d[\d,]*\b", self.said)]
        missing = re.findall(r"\b(\d[\d,]*) of (\d[\d,]*)\b", self.said)
        found += [int(whole.replace(",", "")) - int(part.replace(",", "")) for part, whole in missing]
        self.numbers = [*dict.fromkeys(n for n in found if 0 < n < 1 << 20)]

    # -- names ---------------------------------------------------------------------------------------------------------
    @cached_property
    def modules(self) -> dict[str, str]:
        """Return the names under which the file uses `cuda` and `ptx`."""
        found: dict[str, str] = {}
        for node in ast.walk(self.text.tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("wsemu", "numba"):
                for alias in node.names:
                    if alias.name in ("cuda", "ptx"):
                        found[alias.name] = alias.asname or alias.name
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    package, _, name = alias.name.rpartition(".")
                    if package in ("wsemu", "numba") and name in ("cuda", "ptx"):
                        found.setdefault(name, alias.asname or alias.name)
        return found

    def call(self, name: str, *arguments: str) -> str | None:
        """Return a call of a function of `wsemu.cuda` or `wsemu.ptx` in the form that this file uses; None if the file
        imports neither."""
        module = self.modules.get("cuda" if name in CUDA else "ptx")
        return None if module is None else f"{module}.{name}({', '.join(arguments)})"

    @cached_property
    def thread_variables(self) -> dict[str, bool]:
        """Return the variables that differ between threads, each with whether its values are unique per thread: sums
        and products keep this, divisions and selections of bits do not."""
        found: dict[str, bool] = {}
        for statement in self.statements:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pairs = [(name, value)]
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                    values = value.elts if isinstance(value, ast.Tuple) else [value] * len(names)
                    pairs = [(n.id, v) for n, v in zip(names, values, strict=False) if isinstance(n, ast.Name)]
                case ast.For(target=ast.Name(id=name), iter=ast.Call(args=[value, *_])):
                    pairs = [(name, value)]
                case _:
                    continue
            for name, value in pairs:
                if self.depends_on_thread(value, found) is not None:
                    found.setdefault(name, self.depends_on_thread(value, found) or False)
        return found

    def depends_on_thread(self, node: ast.expr, known: dict[str, bool]) -> bool | None:
        """Return whether an expression has different values in different threads, as far as can be determined; None if
        it has the same value in all threads."""
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & {*known}
        attributes = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        if not names and not attributes & {"threadIdx", "grid", "laneid"}:
            return None
        parts = [n for n in ast.walk(node) if not isinstance(n, (ast.expr_context, ast.operator))]
        plain = all(isinstance(n, _PLAIN) for n in parts)
        sums = all(isinstance(n.op, (ast.Add, ast.Sub, ast.Mult)) for n in parts if isinstance(n, ast.BinOp))
        return plain and sums and all(known[name] for name in names)

    @cached_property
    def loaded_variables(self) -> set[str]:
        """Return variables computed from values that each thread loads at an index of its own."""
        found: set[str] = set()
        for statement in self.statements:
            if isinstance(statement, (ast.Assign, ast.AugAssign)) and self.is_loaded(statement.value, found):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = (n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
                found |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
        return found

    def is_loaded(self, node: ast.expr, known: set[str]) -> bool:
        """Return whether an expression depends on values that each thread loads at its own index."""
        return any(
            (isinstance(n, ast.Name) and n.id in known)
            or (isinstance(n, ast.Subscript) and self.depends_on_thread(n.slice, self.thread_variables) is not None)
            for n in ast.walk(node)
        )

    @cached_property
    def uses_cluster(self) -> bool:
        """Return whether the kernel uses other CTAs of its cluster."""
        names = {last_name(call) for call in self.calls_named()}
        return any("cluster" in name for name in names) or "mapa" in names

    def number(self, node: ast.expr) -> int | None:
        """Return the value of a number, or of a name that gets one at the top of the file."""
        if isinstance(node, ast.Name) and node.id in self.text.constant_values:
            node = self.text.constant_values[node.id].node
        return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None

    @cached_property
    def uses(self) -> Counter[str]:
        """Return the number of uses of each name in the functions."""
        return Counter(n.id for f in self.functions for n in ast.walk(f) if isinstance(n, ast.Name))

    # -- statements ----------------------------------------------------------------------------------------------------
    @cached_property
    def statements(self) -> list[ast.stmt]:
        """Return all statements of the functions in their order, without the functions themselves."""
        found = [node for f in self.functions for node in ast.walk(f) if isinstance(node, ast.stmt) and node is not f]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def hot(self) -> list[ast.stmt]:
        """Return the statements to which the findings point, in their order."""
        found = [self.text.at(line) for line in self.lines]
        return [*dict.fromkeys(node for node in found if node is not None and node in set(self.statements))]

    @cached_property
    def synchronising(self) -> list[ast.Expr]:
        """Return the statements that are synchronizing calls."""
        return [s for s in self.statements if isinstance(s, ast.Expr) and synchronises(s)]

    def calls_named(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls with these last names, or all calls."""
        for function in self.functions:
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and (not names or last_name(node) in names):
                    yield node

    def distance(self, node: ast.AST) -> float:
        """Return the number of lines between a node and the nearest location of a finding.  Locations later in the list
        count as farther away."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        return self.line_distance(first, last)

    def line_distance(self, first: int, last: int) -> float:
        """Return the number of lines between these lines and the nearest location of a finding."""
        far = (max(first - line, line - last, 0) + min(n, 8) / 8 for n, line in enumerate(self.lines))
        return min(min(far, default=9.0), 12.0)

    # -- gaps ----------------------------------------------------------------------------------------------------------
    @cached_property
    def gaps(self) -> list[Gap]:
        """Return all positions between statements of the functions."""
        suites = {id(self.text.suites[s]): self.text.suites[s] for s in self.statements}
        return [gap for suite in suites.values() for gap in self._gaps(suite)]

    def _gaps(self, suite: list[ast.stmt]) -> Iterator[Gap]:
        text = self.text
        for position, statement in enumerate(suite):
            if text.leads(statement):
                first, _ = text.lines(statement)
                yield Gap(first, text.indent(statement), f"before line {statement.lineno}", statement.lineno - 1,
                          suite, position)  # fmt: skip
            else:
                yield self._gap_within_line("before", statement, suite, position)
        last = suite[-1]
        if isinstance(last, _LAST):
            return
        if text.leads(suite[0]) and text.trails(last):
            _, end = text.lines(last)
            says = f"after line {last.end_lineno}{self._outside_text(last)}"
            yield Gap(end, text.indent(suite[0]), says, last.end_lineno or 0, suite, len(suite))
        elif not self._outside_text(last):
            yield self._gap_within_line("after", last, suite, len(suite))

    def _gap_within_line(self, where: str, statement: ast.stmt, suite: list[ast.stmt], position: int) -> Gap:
        """Return a position on a line that it shares with other statements."""
        start, end = self.text.span(statement)
        words = self.text.of(statement).split("\n")
        says = f"{where} `{words[0]}{'...' * (len(words) > 1)}` in line {statement.lineno}"
        at, beside = (start, "{}; ") if where == "before" else (end, "; {}")
        return Gap(at, "", says, statement.lineno, suite, position, beside)

    def _outside_text(self, statement: ast.stmt) -> str:
        """Return ` (outside the `if`)` for a position after a statement that contains others."""
        words = {ast.If: "if", ast.For: "for", ast.While: "while", ast.With: "with"}
        word = words.get(type(statement))
        return f" (outside the `{word}`)" if word else ""

    def put(self, gap: Gap, *lines: str) -> Piece:
        """Return the piece that inserts lines of code at a position."""
        data = self.text.data
        if gap.beside:
            return Piece(gap.at, gap.at, gap.beside.format("; ".join(lines)))
        start = "\n" if gap.at == len(data) and not data.endswith(b"\n") else ""
        return Piece(gap.at, gap.at, start + "".join(f"{gap.indent}{line}\n" for line in lines))

    def cut(self, statement: ast.stmt) -> Piece:
        """Return the piece that removes a statement; it leaves `pass` instead of the only statement of a block."""
        if len(self.text.suites[statement]) == 1 or not self.text.alone(statement):
            return Piece(*self.text.span(statement), "pass")
        return Piece(*self.text.lines(statement), "")

    def candidate(self, kind: Kind, says: str, pieces: list[Piece], near: float, waits: int = 0) -> Candidate:
        """Return an edit of pieces of this file."""
        changes = [self.text.change(piece) for piece in sorted(pieces)]
        return Candidate(Edit(kind=kind, says=says, changes=changes), tuple(pieces), near, waits)

    @property
    def ordering(self) -> bool:
        """Return whether the findings are about the order of accesses, not about their locations."""
        return bool(_ORDERING & {*self.codes}) and "out-of-bounds" not in self.codes

    def fresh(self, *names: str) -> str:
        """Return the first of some names that the functions do not use, or one with a number."""
        used = {n.id for f in self.functions for n in ast.walk(f) if isinstance(n, ast.Name)}
        return next(name for name in (*names, *(f"{names[0]}_{n}" for n in range(2, 99))) if name not in used)

    def replacement(self, kind: Kind, node: ast.AST, new: str, near: float = 0.0, waits: int = 0) -> Candidate | None:
        """Return the piece that replaces an expression by another one; None if they are equal."""
        old = self.text.of(node)
        if old == new:
            return None
        line = getattr(node, "lineno", 0)
        says = f"write `{new}` in place of `{old}` in line {line}"
        return self.candidate(kind, says, [Piece(*self.text.span(node), new)], near + self.distance(node), waits)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return an argument of a call, given by position or by name."""
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def last_name(call: ast.Call) -> str:
    """Return the last name of the called function."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def synchronises(statement: ast.stmt) -> bool:
    """Return whether a statement is a call that synchronises."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and (
        last_name(statement.value) in SYNCHRONISES
    )  # fmt: skip


def leaves(statement: ast.stmt) -> bool:
    """Return whether a statement is a `return`, `break` or `continue`, or an `if` around nothing else."""
    if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
        statement = statement.body[0]
    return isinstance(statement, _LEAVES)


assert not SYNCHRONISES & {"add", "array"}
KNOWN = frozenset(CUDA) | frozenset(PTX)
