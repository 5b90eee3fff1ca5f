"""Programs with asynchronous operations, written by hand as graphs: a builder, and launches on an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.assemble.encode import assemble
from wsemu.frontend.assemble.graph import TRUE, Graph, Instruction, Register
from wsemu.machine.run import Launch
from wsemu.machine.tables import Watch
from wsemu.model.isa import BLOCKS, BULK_REDUCTIONS, EXPECT, FIRST_ARRAY, OPERATIONS, PROXIES, SEGMENT_SHIFT, SHARED
from wsemu.model.outcome import TraceRequest
from wsemu.model.program import Parameter, SharedArray, Span
from wsemu.reference import run as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from wsemu.model.outcome import Event, Outcome, RawFinding
    from wsemu.model.program import Program


def on_vm(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    rows: Any,
    segments: Any,
    *,
    trace: TraceRequest | None = None,
    **options: Any,
) -> Outcome:
    """The compiled machine, with the options of the reference."""
    names = ("races", "recycling", "initialised", "lockstep")
    of_watch = {name: options.pop(name) for name in names if name in options}
    machine = Launch(program, grid, block, rows, segments, watch=Watch(**of_watch), **options)
    outcome = machine.run()
    if trace:
        outcome.trace = machine.trace(trace.accesses)
    return outcome


ENGINES: dict[str, Callable[..., Outcome]] = {"reference": reference.run, "vm": on_vm}
BAR = SHARED << SEGMENT_SHIFT
"""address of the first shared byte; mbarriers lie there in these programs"""
DATA = 1024
"""offset of data in shared memory"""


class Kernel:
    """A program under construction.  Rows of a thread: `tid`, `warp`, `lane`; two arrays, `a` and `b`, in global
    memory.  `pc` of each operation that got a `tag` is known after a run."""

    def __init__(self, shared: int = 8192) -> None:
        self.graph = Graph("test", spans=[Span("test.py", 1, 0, 1, 0)])
        self.graph.shared_bytes = shared
        self.graph.shared.append(SharedArray("s", 0, (shared,), np.dtype(np.uint8), 0))
        self.block = self.graph.block()
        self.tags: dict[str, int] = {}
        self._lines = 1
        self.threads = 0
        """that it is made for, if that matters"""
        self.guard: Register = TRUE
        self.base = self.graph.special("shared")
        self.tid = self.graph.special("tid.x")
        self.a, self.b = self.graph.new("b64"), self.graph.new("b64")
        for n, register in enumerate((self.a, self.b)):
            self.graph.parameters[register] = Parameter(0, "b64", n, (), "address", 0)
        self.warp = self.emit("shr.u32", self.tid, self.c(5))
        self.lane = self.emit("and.b32", self.tid, self.c(31))

    # -- parts of programs --------------------------------------------------------------------------------------------
    def c(self, value: int, type_: str = "b32") -> Register:
        return self.graph.constant(type_, value)

    def emit(self, operation: str, *operands: Register, tag: str = "", **more: Any) -> Register:
        result = self.graph.new(OPERATIONS[operation].result)
        self._append(operation, (result,), operands, tag, more)
        return result

    def do(self, operation: str, *operands: Register, tag: str = "", **more: Any) -> Kernel:
        self._append(operation, (), operands, tag, more)
        return self

    def _append(
        self, operation: str, results: tuple[Register, ...], operands: tuple[Register, ...], tag: str, more: Any
    ) -> None:
        """Each instruction is a line of its own, by which its tag finds it."""
        self._lines += 1
        self.graph.spans.append(Span("test.py", self._lines, 0, self._lines, 0))
        if tag:
            self.tags[tag] = self._lines
        self.block.instructions.append(
            Instruction(operation, results, operands, guard=self.guard, span=self._lines - 1, **more)
        )

    def when(self, predicate: Register, arm: Callable[[], object], other: Callable[[], object] | None = None) -> Kernel:
        """if predicate: arm() else: other()"""
        before, first = self.block, self.graph.block()
        second = self.graph.block() if other else None
        before.end, before.predicate = "bra", predicate
        ends = []
        for block, body in ((first, arm), (second, other)):
            if block is not None and body is not None:
                self.block = block
                body()
                ends.append(self.block)
        after = self.graph.block()
        before.successors = (first.index, (second or after).index)
        for block in ends:
            if block.end != "exit":
                block.successors = (after.index,)
        self.block = after
        return self

    def leave(self) -> Kernel:
        self.block.end = "exit"
        return self

    def is_warp(self, number: int) -> Register:
        return self.emit("setp.eq.b32", self.warp, self.c(number))

    def is_thread(self, number: int) -> Register:
        return self.emit("setp.eq.b32", self.tid, self.c(number))

    def lanes_below(self, n: int) -> Register:
        return self.emit("setp.lt.u32", self.lane, self.c(n))

    def only(self, thread: int, *parts: Callable[[], object]) -> Kernel:
        """One thread of the CTA does some things."""
        self.when(self.is_thread(thread), lambda: [part() for part in parts])
        return self

    def warps(self, *parts: Callable[[], object]) -> Kernel:
        """Warp 0 does the first, warp 1 the second, and so on."""
        for number, part in enumerate(parts):
            self.when(self.is_warp(number), part)
        return self

    # -- operations ---------------------------------------------------------------------------------------------------
    def at(self, offset: int) -> Register:
        """Address of a shared byte."""
        return self.emit("add.b64", self.base, self.c(offset, "b64"))

    def by_thread(self, base: Register, size: int = 4) -> Register:
        """The address of a thread's own element."""
        return self.emit("mad.b64", self.emit("cvt.b64.u32", self.tid), self.c(size, "b64"), base)

    def sync(self) -> Kernel:
        self.do("bar.sync", self.c(0), auxiliary=1)
        return self

    def init(self, bar: int, count: int, tag: str = "init") -> Kernel:
        self.do("mbarrier.init", self.base, self.c(count), immediate=8 * bar, tag=tag)
        return self

    def inval(self, bar: int, tag: str = "inval") -> Kernel:
        self.do("mbarrier.inval", self.base, immediate=8 * bar, tag=tag)
        return self

    def arrive(self, bar: int, count: int = 1, flags: int = 0, bytes_: int = 0, tag: str = "arrive") -> Register:
        flags |= EXPECT if bytes_ else 0
        operands = self.base, self.c(count), self.c(bytes_)
        return self.emit("mbarrier.arrive", *operands, immediate=8 * bar, auxiliary=flags, tag=tag)

    def expect(self, bar: int, count: int, tag: str = "expect") -> Kernel:
        self.do("mbarrier.expect_tx", self.base, self.c(count), immediate=8 * bar, tag=tag)
        return self

    def come(self, bar: int, count: int, tag: str = "complete_tx") -> Kernel:
        self.do("mbarrier.complete_tx", self.base, self.c(count), immediate=8 * bar, tag=tag)
        return self

    def wait(self, bar: int, parity: int, flags: int = BLOCKS, tag: str = "wait") -> Register:
        operands = self.base, self.c(parity)
        return self.emit("mbarrier.wait.parity", *operands, immediate=8 * bar, auxiliary=flags, tag=tag)

    def wait_token(self, bar: int, token: Register, flags: int = BLOCKS, tag: str = "wait") -> Register:
        return self.emit("mbarrier.wait", self.base, token, immediate=8 * bar, auxiliary=flags, tag=tag)

    def fence(self, kind: str = "async") -> Kernel:
        self.do("fence.proxy", immediate=PROXIES.index(kind))
        return self

    def load(self, target: int, source: Register, size: int, bar: int, tag: str = "load") -> Kernel:
        self.do("bulk.load", self.at(target), source, self.c(size), self.at(8 * bar), tag=tag)
        return self

    def store(self, target: Register, source: int, size: int, mask: int = 0xFFFF, tag: str = "store") -> Kernel:
        self.do("bulk.store", target, self.at(source), self.c(size), self.c(mask), tag=tag)
        return self

    def reduce(self, what: str, type_: str, target: Register, source: int, size: int, tag: str = "reduce") -> Kernel:
        which = BULK_REDUCTIONS.index((what, type_))
        self.do("bulk.reduce", target, self.at(source), self.c(size), auxiliary=which, tag=tag)
        return self

    def put(self, offset: int, value: Register, tag: str = "put") -> Kernel:
        """A store to a thread's own word of shared memory."""
        self.do("st.b32", self.by_thread(self.at(offset)), value, tag=tag)
        return self

    def get(self, offset: int, tag: str = "get") -> Register:
        return self.emit("ld.b32", self.by_thread(self.at(offset)), tag=tag)

    def out(self, value: Register, slot: int = 0) -> Kernel:
        """A thread's word of array `b`; 1024 threads a slot."""
        self.do("st.b32", self.by_thread(self.b), value, immediate=4096 * slot)
        return self

    def as_number(self, predicate: Register) -> Register:
        return self.emit("selp.b32", self.c(1), self.c(0), predicate)


class Ran:
    """A launch of such a program."""

    def __init__(
        self, kernel: Kernel, outcome: Outcome, program: Program, a: npt.NDArray[np.uint32], b: npt.NDArray[np.uint32]
    ) -> None:
        self.outcome = outcome
        self.program = program
        self._b = b
        self.arrays = a.tobytes() + b.tobytes()
        line_of = {span.line: n for n, span in enumerate(program.spans)}
        self.pc = {
            tag: next(pc for pc, of in enumerate(program.span_of) if of == line_of[line])
            for tag, line in kernel.tags.items()
            if line_of[line] in program.span_of
        }

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.outcome.findings]

    def finding(self, code: str) -> RawFinding:
        (found,) = [finding for finding in self.outcome.findings if finding.code == code]
        return found

    def events(self, *kinds: str) -> list[Event]:
        assert self.outcome.trace
        return [event for event in self.outcome.trace.events if event.kind in kinds]

    def result(self, slot: int = 0, threads: int = 32) -> list[int]:
        return [int(value) for value in self._b[1024 * slot : 1024 * slot + threads]]

    def is_clean(self) -> bool:
        return (self.status, self.codes) == ("done", [])


def launch(
    kernel: Kernel, threads: int = 64, engine: str = "reference", grid: int = 1, registers: int = 0, **options: Any
) -> Ran:
    """Run a program: `a` holds 0, 1, 2 ... as 32-bit words, `b` gets what it puts out."""
    kernel.block.end = "exit"
    program = assemble(kernel.graph)
    program.registers = registers
    a, b = kernel_arrays()
    rows: dict[int, tuple[str, int | float | bool]] = {
        p.row: ("b64", FIRST_ARRAY + p.argument << SEGMENT_SHIFT) for p in program.parameters
    }
    segments = [(a.view(np.uint8), True), (b.view(np.uint8), True)]
    options = {"budget": 20_000, "trace": TraceRequest(), **options}
    outcome = ENGINES[engine](program, (grid, 1, 1), (threads, 1, 1), rows, segments, **options)
    return Ran(kernel, outcome, program, a, b)


def kernel_arrays() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    return np.arange(4096, dtype=np.uint32), np.zeros(4096, np.uint32)
