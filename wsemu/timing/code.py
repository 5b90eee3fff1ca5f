"""Machine-like code: an approximation of the instructions that ptxas generates for a program.

Moves are eliminated by renaming, constants become offsets of accesses, address sums for shared memory have 32 bits, and
short forward branches become predicates.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wsemu.machine.multiprocessor.layout import KINDS, PIPES
from wsemu.model.data import NamedTuple
from wsemu.model.isa import NAMES, OPERATIONS, ROW, access_shape
from wsemu.model.matrix import VECTORS
from wsemu.model.wait_reasons import REASONS
from wsemu.model.work import (
    DIVIDED_BY_CONSTANT,
    NOTHING,
    Work,
    find_rows,
    find_work,
    is_branch,
    is_division,
    is_double,
    is_jump,
    is_sum,
    is_wide_sum,
    keeps_offsets,
    leads_to_addresses,
    product_columns,
    takes_registers,
    waits_for_accesses,
)
from wsemu.timing import constants
from wsemu.timing.schedule import ALONE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wsemu.model.program import Program
    from wsemu.timing.constants import Device

NO_PIPE = PIPES - 1
SHORT_BRANCH = 8
"""maximum number of instructions that a branch skips to be converted into a predicate"""
FAR = 400
"""number of following instructions in which uses of a result are searched"""
DEEP = 40
KIND = {name: number for number, name in enumerate(KINDS)}
REASON = {name: number for number, name in enumerate(REASONS)}
_OF_MEMORY = ("load", "store", "atomic")


class Instruction(NamedTuple):
    """One instruction of the model; registers are small numbers."""

    name: str
    kind: str
    cost: float
    """issue slots of one execution, in cycles"""
    pipe: int
    hold: float
    """cycles for which the pipe is busy; of a store, cycles until the warp's next access"""
    latency: float
    reason: int
    sources: tuple[int, ...]
    results: tuple[int, ...]
    product: tuple[float, float] = (0.0, 0.0)
    """cycles of a matrix multiplication on the tensor cores, and the latency of its result"""
    membar: float = 0.0
    """cycles that a warp waits first, until its earlier accesses are visible to other CTAs"""


class Code:
    """A program in machine-like code."""

    def __init__(self, program: Program, device: Device, of_shared: Collection[int]) -> None:
        """`of_shared` are the instructions that access only shared memory."""
        self.rows: list[list[int]] = program.code.tolist()
        self.names = [NAMES[row[0]] for row in self.rows]
        self.work = [find_work(name) for name in self.names]
        self._constants = {constant.row for constant in program.constants}
        self._of_shared = of_shared
        self._numbers: dict[tuple[str, int], int] = {}
        self._narrows: dict[int, bool] = {}
        self.merges: set[int] = set()
        """branches to where other branches also lead, so that they cannot become predicates"""
        self._fold()
        self._narrow()
        self.outer = self._find_outer_loops()
        self.instructions = [self._instruction(pc, device) for pc in range(len(self.rows))]
        self.kept = self._find_kept_loops()

    @property
    def registers(self) -> int:
        """Return the number of registers."""
        return len(self._numbers)

    def _find_outer_loops(self) -> frozenset[int]:
        """Return the back branches of loops that contain other loops: a compiler unrolls only innermost loops."""
        back = [
            (row[6], pc)
            for pc, row in enumerate(self.rows)
            if self.work[pc].kind == "branch" and is_branch(self.names[pc]) and row[6] <= pc
        ]
        return frozenset(pc for first, pc in back if any(first <= inner and last < pc for inner, last in back))

    def _find_kept_loops(self) -> frozenset[int]:
        """Return the back branches of loops that a compiler does not unroll, because they synchronize."""
        alone = [pc for pc, one in enumerate(self.instructions) if one.kind in ALONE]
        return frozenset(
            pc
            for pc, row in enumerate(self.rows)
            if self.work[pc].kind == "branch" and row[6] <= pc and any(row[6] <= inner <= pc for inner in alone)
        )

    # -- registers

    def _register(self, space: str, field: int) -> int:
        return self._numbers.setdefault((space, field), len(self._numbers))

    def _sources(self, pc: int) -> list[int]:
        """Return the registers that an instruction reads; for vectors, the first register."""
        row, name = self.rows[pc], self.names[pc]
        operation = OPERATIONS[name]
        found = []
        if not name.startswith("wgmma."):
            for field, type_ in zip(row[3:7], operation.operands, strict=False):
                if type_:
                    found.append(self._register("p" if type_ == "p" else "r", field))
        if operation.kind == "store":
            found += [self._register("r", one) for one in find_rows(name, row[2], ROW)][:3]
        if row[1]:
            found.append(self._register("p", row[1] >> 1))
        return found[:4]

    def _results(self, pc: int) -> list[int]:
        row, name = self.rows[pc], self.names[pc]
        operation = OPERATIONS[name]
        if operation.kind == "load":
            return [self._register("r", one) for one in find_rows(name, row[2], ROW)][:4]
        if operation.kind == "store" or not operation.result or name.startswith("wgmma."):
            return []
        if name in VECTORS:
            return [self._register("r", row[2] + k * ROW) for k in range(4)]
        return [self._register("p" if operation.result == "p" else "r", row[2])]

    # -- reduction to machine code --------

    def _fold(self) -> None:
        """Turn sums of addresses and constants into offsets of accesses."""
        folded: dict[int, bool] = {}
        targets = Counter(row[6] for row, name in zip(self.rows, self.names, strict=True) if is_branch(name))
        for pc, row in enumerate(self.rows):
            name = self.names[pc]
            result, a, b = row[2:5]
            fold = False
            if is_sum(name) and not row[1]:
                fold = (b in self._constants and result != a) or (a in self._constants and result != b)
                if not fold and result not in (a, b):
                    fold = folded.get(a, False) or folded.get(b, False)
            elif keeps_offsets(name) and not row[1]:
                fold = folded.get(a, False)
            if is_division(name) and b in self._constants:
                self.work[pc] = DIVIDED_BY_CONSTANT
            kind = OPERATIONS[name].kind
            if kind == "alu":
                folded[result] = fold
            elif kind == "load":
                folded[result] = False
            if is_jump(name) and 0 < row[6] - pc <= SHORT_BRANCH:
                fold = targets[row[6]] == 1
                if not fold:
                    self.merges.add(pc)
            if fold:
                self.work[pc] = NOTHING

    def _narrow(self) -> None:
        """Halve the cost of 64-bit sums that are used only as addresses in shared memory."""
        for pc, name in enumerate(self.names):
            if self.work[pc].slots > 1 and is_wide_sum(name) and self._leads_to_shared(pc, 0):
                self.work[pc] = Work("plain", 1, "alu", 1)

    def _leads_to_shared(self, pc: int, depth: int) -> bool:
        if pc in self._narrows:
            return self._narrows[pc]
        self._narrows[pc] = False
        result, used = self.rows[pc][2], False
        for user in range(pc + 1, min(len(self.rows), pc + FAR) if depth <= DEEP else 0):
            row, name = self.rows[user], self.names[user]
            operation = OPERATIONS[name]
            if operation.kind in ("load", "store"):
                stored = operation.kind == "store" and result in find_rows(name, row[2], ROW)
                if stored or (row[3] == result and user not in self._of_shared):
                    return False
                used = used or row[3] == result
            elif result in self._read_rows(row, operation.operands):
                if not leads_to_addresses(name) or not self._leads_to_shared(user, depth + 1):
                    return False
                used = True
            overwrites = operation.result not in ("", "p") and row[2] == result and operation.kind != "store"
            if overwrites and not row[1]:
                break
        self._narrows[pc] = used
        return used

    @staticmethod
    def _read_rows(row: list[int], types: Sequence[str]) -> list[int]:
        return [field for field, type_ in zip(row[3:7], types, strict=False) if type_ and type_ != "p"]

    # -- items

    def _instruction(self, pc: int, device: Device) -> Instruction:
        work, name = self.work[pc], self.names[pc]
        pipe = constants.PIPES.index(work.pipe) if work.pipe else NO_PIPE
        hold = device.pipes[pipe] * work.times if work.pipe else 0.0
        cost = work.slots * device.issue
        latency = device.latencies[pipe] + cost - 1 if work.pipe else cost
        reason = REASON["short_scoreboard" if work.pipe in ("special", "shuffle", "convert") else "wait"]
        product = (0.0, 0.0)
        if work.kind == "matrix":
            product = (device.mma_f64, device.mma_f64_latency) if is_double(name) else (device.mma, device.mma_latency)
            reason = REASON["wait"]
        elif work.kind == "product":
            least, beyond = device.wgmma_registers if takes_registers(name) else device.wgmma_shared
            product = max(product_columns(self.rows[pc][7]) / 2, least), beyond
        elif work.kind in _OF_MEMORY and access_shape(name)[0]:
            hold = device.store[0] + device.store[1] * access_shape(name)[1] / 4
        sources, results = tuple(self._sources(pc)), tuple(self._results(pc))
        membar = device.membar if waits_for_accesses(name, *self.rows[pc][6:8]) else 0.0
        return Instruction(name, work.kind, cost, pipe, hold, latency, reason, sources, results, product, membar)
