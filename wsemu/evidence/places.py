"""Locations: an instruction in the source, an address in an array, a warp by its role."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.evidence.shared_names import SharedNames, find_frames
from wsemu.evidence.source_view import CUDA, Loop, SourceView, view
from wsemu.model.control_flow import ENDS, loop_numbers, successors
from wsemu.model.data import dataclass, field
from wsemu.model.device_memory import RAW
from wsemu.model.effects import find_opcodes
from wsemu.model.file_names import short
from wsemu.model.finding import Site, Step, with_role
from wsemu.model.grid import Grouping
from wsemu.model.heap import mistake
from wsemu.model.isa import (
    ANYWHERE,
    AS_LOAD,
    AS_STORE,
    CP_ASYNC,
    FIELDS,
    FIRST_ARRAY,
    FORBIDS_SHIFT,
    LOCAL,
    LOCAL_SHIFT,
    NAMES,
    ON_STACK,
    OPERATIONS,
    SEGMENT_SHIFT,
    SERVED,
    SHARED,
    STACK_UNIT,
    access_shape,
    step_word,
)
from wsemu.model.outcome import OF_GROUPS
from wsemu.model.own import HARNESS, PATTERNS, is_own
from wsemu.model.program import Program, SharedArray, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wsemu.model.bound import BoundArray
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.outcome import Outcome


_ROLES = {
    "wait_for_dma_start": "DMA",
    "finish_async_dma": "DMA",
    "start_async_dma": "compute",
    "wait_for_dma_finish": "compute",
    "start": "compute",
    "finish": "DMA",
}
"""role of a warp that executes this method of a transfer pattern"""
_OF_ALL = "pipeline"
"""the module of patterns whose `start` is called by warps of every role"""
CALLS = {"DMA": ("finish_async_dma", "wait_for_dma_finish"), "compute": ("start_async_dma", "wait_for_dma_start")}
"""for each role, the call with which its warps arrive, and the call with which the other side waits"""
_PUTS = find_opcodes(lambda row: row.event == "copy" and row.moves.writes != "" and not row.moves.combines)
"""asynchronous copies, and stores of zeros, that initialize memory whatever it contained"""
_OF_ASM = 2
"""maximum number of lines of a function that consists of a single `asm` statement, including its first and last line"""
INSIDE = ("through this call", "the instruction itself")
"""labels of sites inside the call that is shown for an instruction"""
_LONGEST = 40
"""maximum characters of an index expression that is shown as written in the source"""


@dataclass(slots=True)
class Places:
    """The geometry of a launch, for explanations of findings."""

    program: Program
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    outcome: Outcome
    arrays: list[BoundArray] = field(default_factory=list)
    segment_of: dict[int, int] = field(default_factory=dict)
    """segment of the array whose address is in a register row"""
    memory: DeviceMemory | None = None
    """the device memory of the launch, if it was in any"""
    describe_arguments: Callable[[], Iterable[tuple[str, str]]] = tuple
    """returns the name of each argument of the launch, and its value or its type"""
    find_united_masks: Callable[[Iterable[int]], dict[int, int]] = lambda masks: {}
    """returns the masks of active lanes whose lanes took the same path from a barrier, each with the barrier"""
    united: dict[int, int] = field(default_factory=dict)
    """such masks on which the verdict rests"""
    _views: dict[str, SourceView] = field(default_factory=dict)
    """the files' contents when the findings arose, because explanations may be requested later"""
    _shown: dict[int, Span] = field(default_factory=dict)
    _names: SharedNames | None = None
    _steered: bool | None = None
    _syncs: list[tuple[str, int]] | None = None
    _loops: list[int] | None = None
    _inlined: dict[tuple[int, ...], set[int]] | None = None
    """lines of code that was inlined through the same calls"""
    derived: dict[str, Any] = field(default_factory=dict)
    """results about the launch as a whole that several checkers share"""

    def share_a_loop(self, one: int, two: int) -> bool:
        """Return whether control can go from an instruction to another one and back."""
        if self._loops is None:
            self._loops = loop_numbers(self.program)
        return self._loops[one] >= 0 and self._loops[one] == self._loops[two]

    def depends_on_races(self) -> bool:
        """Return whether values that depend on racing accesses may influence the launch's control flow or addresses."""
        if self._steered is None:
            from wsemu.proof.taint import is_influenced

            races = [raw for raw in self.outcome.findings if raw.code == "race"]
            racing = [pc for raw in races for pc in (raw.pc, raw.other_pc)]
            self._steered = is_influenced(self.program, self.outcome.executions, racing, self.segment_of.get)
        return self._steered

    def span(self, pc: int) -> Span:
        """Return the source location of an instruction.  For an instruction inside a transfer pattern, it is the
        location of the pattern's call; for one in a function that consists of a single `asm` statement, that of the
        function's call."""
        if pc not in self._shown:
            self._shown[pc] = self._find_shown(pc)
        return self._shown[pc]

    def _find_shown(self, pc: int) -> Span:
        frames = find_frames(self.program, pc)
        if frames[0].file.endswith(CUDA):
            return frames[self._shown_call(pc, frames)]
        shown = next((frame for frame in frames if not frame.file.startswith(PATTERNS)), frames[-1])
        return frames[0] if shown.file == HARNESS else shown

    def _shown_call(self, pc: int, frames: list[Span]) -> int:
        """Return the number of the frame that is shown for an instruction of C++.

        It is the call that names the object of the instruction, or the call of a function that only wraps `asm`.  Code
        from another folder than the kernel's is shown at the kernel's call."""
        own = len(self.program.inner_spans.get(self.program.span_of[pc], ()))
        found = self.names.find_object(pc) if len(frames) > 1 else None
        wraps = not own and len(frames) > 1 and self._is_of_asm(pc)
        if found is not None and (found.depth >= own or _folder(frames[found.depth]) == _folder(frames[own])):
            return max(found.depth, int(wraps))
        return 1 if wraps else own

    @property
    def names(self) -> SharedNames:
        """Return the names of objects in shared memory, as the source spells them."""
        if self._names is None:
            self._names = SharedNames(self.program)
        return self._names

    def origin(self, pc: int) -> object:
        """Return the source location of an instruction for comparison; for PTX without its source, the location in the
        PTX."""
        return self.program.origins.get(self.program.span_of[pc]) or self.span(pc)

    def _is_of_asm(self, pc: int) -> bool:
        """Return whether an instruction is of a function in C++ that was inlined, and is an `asm` statement and no
        more."""
        span, stack = self.program.spans[self.program.span_of[pc]], self.program.stack_of[pc]
        if not span.file.endswith(CUDA) or not self._view(span.file).has_asm(span.line):
            return False
        if self._view(span.file).wraps_asm(span.line):
            return True
        if self._inlined is None:
            self._inlined = defaultdict(set)
            for number, calls in zip(self.program.span_of, self.program.stack_of, strict=True):
                self._inlined[calls].add(self.program.spans[number].line)
        return len(self._inlined[stack]) <= _OF_ASM

    def cta(self, number: int) -> tuple[int, int, int]:
        """Return the coordinates of a CTA from its linear index."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def site(self, pc: int, text: str, *, cta: int | None = None, warp: int | None = None, **fields: Any) -> Site:
        """Return the site of an instruction, with a text that describes what happened there."""
        return Site.at(
            self.span(pc),
            text,
            cta=None if cta is None else self.cta(cta),
            warp=warp,
            array=self.program.array_of[pc],
            **fields,
        )

    def step(self, pc: int, cta: int, warp: int, does: str, **fields: Any) -> Step:
        """Return a step of a schedule for a warp of a CTA, given by its linear index."""
        return Step(cta=self.cta(cta), warp=warp, does=does, instruction=pc, line=self.line(pc), **fields)

    def who(self, cta: int, warp: int, role: str = "") -> str:
        """Return `warp 1`, with its role if known, and with its CTA if the launch has several."""
        return with_role(f"warp {warp}", role) + self.cta_text(cta)

    def cta_text(self, cta: int) -> str:
        """Return ` of CTA (3, 0, 0)`, or an empty text in a launch with one CTA."""
        return "" if self.grid == (1, 1, 1) else f" of CTA {self.cta(cta)}"

    def role(self, pcs: Iterable[int]) -> str:
        """Return the role of a warp that executed these instructions, as far as its calls of transfer patterns show
        it."""
        found = {_ROLES[name] for pc in pcs for name in self._calls(pc)}
        return found.pop() if len(found) == 1 else ""

    def call(self, pc: int) -> str:
        """Return the call of a transfer pattern, such as `wait_for_dma_start`, to which a wait or arrive belongs, even
        inside `execute_dma`; an empty text if there is none."""
        return next(reversed(list(self._calls(pc))), "")

    def patterns(self, pc: int) -> set[str]:
        """Return the modules of transfer patterns, such as `halo`, through which an instruction was reached."""
        spans = (self.program.spans[n] for n in (*self.program.stack_of[pc], self.program.span_of[pc]))
        return {Path(span.file).stem for span in spans if span.file.startswith(PATTERNS)}

    def calls(self) -> dict[str, list[int]]:
        """Return the executed calls of transfer patterns, each with its barrier operations."""
        found: dict[str, list[int]] = {}
        for pc in np.flatnonzero(self.outcome.executions).tolist():
            if self.verb(pc) == "barrier" and (name := self.call(pc)):
                found.setdefault(name, []).append(pc)
        return found

    def asynchronous(self) -> bool:
        """Return whether the program has any operation of kind `async`: then each lane and each copy has clocks of its
        own."""
        return self.program.asynchronous

    def syncs(self, file: str) -> list[int]:
        """Return the executed barriers of the whole CTA in a file, one for each location."""
        if self._syncs is None:
            count = FIELDS.index("b")
            found = {
                self.span(pc): pc
                for pc in np.flatnonzero(self.outcome.executions).tolist()
                if self.verb(pc) == "barrier" and not self.program.code[pc, count]
            }
            self._syncs = [(span.file, pc) for span, pc in found.items()]
        return [pc for other, pc in self._syncs if other == file]

    def _calls(self, pc: int) -> Iterable[str]:
        for number in (*self.program.stack_of[pc], self.program.span_of[pc]):
            span = self.program.spans[number]
            if span.file.startswith(PATTERNS):
                name = view(span.file).function(span)
                if name in _ROLES and Path(span.file).stem != _OF_ALL:
                    yield name

    def callers(self, pc: int, who: str = "") -> list[Site]:
        """Return sites for the calls through which an instruction was inlined, outermost first, without the
        instruction's own location.  The `asm` statement that contains it comes before them.  `who` names the thread,
        because other threads may reach the instruction through other calls."""
        come = "come" if who.startswith("warps") else "comes"
        label = f"{who} {come} from here" if who else "called from here"
        frames = find_frames(self.program, pc)
        outer = reversed(frames[frames.index(self.span(pc)) + 1 :])
        calls = [Site.at(span, label, primary=False) for span in outer if not is_own(span.file)]
        return [*self.asm_sites(pc), *calls]

    def asm_sites(self, pc: int) -> list[Site]:
        """Return the sites of an instruction inside the call that is shown for it, innermost last."""
        frames = find_frames(self.program, pc)
        inside = frames[: frames.index(self.span(pc))]
        sites = [Site.at(span, INSIDE[0], primary=False) for span in reversed(inside[1:])]
        sites += [Site.at(span, INSIDE[1], primary=False) for span in inside[:1]]
        return [site for site in sites if not is_own(site.file)]

    def line(self, pc: int) -> int:
        return self.span(pc).line

    def where(self, pc: int) -> str:
        """Return a text such as `file.py:12`, for notes."""
        span = self.span(pc)
        return f"{short(span.file)}:{span.line}"

    def source(self, pc: int) -> SourceView:
        """Return the view of the file that contains an instruction, at the location that `span` returns."""
        return self._view(self.span(pc).file)

    def keep_sources(self) -> None:
        """Read the current contents of the files that explanations of findings may need."""
        for span in self.program.spans:
            self._view(span.file)

    def _view(self, file: str) -> SourceView:
        if file not in self._views:
            self._views[file] = view(file)
        return self._views[file]

    def counts_bytes(self, pc: int) -> bool:
        """Return whether an access, perhaps inside a pattern, has a distance in bytes instead of an index."""
        span = self.program.spans[self.program.span_of[pc]]
        return self._view(span.file).counts_bytes(span)

    def near(self, pc: int, other: int) -> str:
        """Return a text such as `line 24`.  It includes the file if the instruction `other` is in another file."""
        span, beside = self.span(pc), self.span(other)
        return f"line {span.line}" if span.file == beside.file else f"{short(span.file)}:{span.line}"

    def line_text(self, pc: int, other: int) -> str:
        """Return `line 24`.  If the instruction `other` is on the same line, the text distinguishes the two: the call
        of the pattern that it belongs to, or its own words."""
        if self.near(pc, other) != f"line {self.line(other)}":
            return self.near(pc, other)
        name = self.call(pc)
        text = f"{name}()" if name else self.source(pc).text(self.span(pc))
        return f"`{text}`" if 0 < len(text) <= _LONGEST else f"line {self.line(pc)}"

    def after(self, pc: int, other: int) -> str:
        """Return `after line 24`: after the statement that contains an instruction."""
        statement, text = self.source(pc).statement(self.span(pc)), self.near(pc, other)
        end = (statement and statement.end_lineno) or self.line(pc)
        return f"after {text.removesuffix(str(self.line(pc)))}{end}"

    def is_in_other_branch(self, pc: int, other: int) -> bool:
        """Return whether an instruction is in a branch that does not contain another one, as far as the source
        shows."""
        span, beside = self.span(pc), self.span(other)
        return span.file == beside.file and self.source(pc).is_in_other_branch(span, beside)

    def leaves(self, pc: int, other: int) -> bool:
        """Return whether lanes return after an instruction, in a branch that does not contain another one."""
        span, beside = self.span(pc), self.span(other)
        return span.file == beside.file and self.source(pc).leaves(span, beside)

    def loops(self, pc: int) -> list[Loop] | None:
        """Return the loops around an instruction, outermost first, through all calls.  Return None if it may not run
        exactly once in each."""
        found: list[Loop] = []
        for number in (*self.program.stack_of[pc], self.program.span_of[pc]):
            span = self.program.spans[number]
            loops = view(span.file).loops(span)
            if loops is None:
                return None
            found += loops
        return found

    def barrier(self, pc: int) -> int | None:
        """Return the named barrier of an operation if it is a constant, or -1 for an instruction without a barrier."""
        if OPERATIONS[NAMES[int(self.program.code[pc, 0])]].kind != "barrier":
            return -1
        return self._constant(int(self.program.code[pc, 3]))

    def count(self, pc: int) -> int | None:
        """Return the count of a barrier operation in threads, if it is a constant."""
        return self._constant(int(self.program.code[pc, FIELDS.index("b")]))

    def _constant(self, row: int) -> int | None:
        return next((int(c.value) for c in self.program.constants if c.row == row), None)

    def comes_to(self, pc: int, barrier: int) -> bool | None:
        """Return whether a warp that has last executed an instruction (-1: none yet) reaches an operation on a barrier.
        None means on some paths only."""
        code = self.program.code.tolist()
        queue, seen, found, avoided = [0] if pc < 0 else [*successors(pc, code[pc])], set(), False, False
        while queue:
            current = queue.pop()
            if current in seen:
                continue
            seen.add(current)
            if self.barrier(current) in (barrier, None):
                found = True
                continue
            avoided |= code[current][0] in ENDS
            queue += successors(current, code[current])
        return None if found and avoided else found

    def writers(self, pc: int) -> list[int]:
        """Return the executed instructions that may have written the array which an access names, with a value
        independent of the old one: stores, exchanges and asynchronous copies."""
        named, code = self.program.array_of, self.program.code
        plain = [
            other
            for other in self.outcome.accesses
            if (self.verb(other) == "store" or NAMES[int(code[other, 0])].startswith("atom.exch"))
            and (named[other] == named[pc] or None in (named[other], named[pc]) or self.verb(pc) == "async")
        ]
        executed = np.flatnonzero(self.outcome.executions).tolist()
        return [*plain, *(other for other in executed if int(code[other, 0]) in _PUTS)]

    def size(self, pc: int) -> int:
        """Return the number of bytes per lane of a load, store or atomic, or the number of bytes that an asynchronous
        copy moves at once."""
        name = NAMES[int(self.program.code[pc, 0])]
        return CP_ASYNC.get(name, 16) if OPERATIONS[name].kind == "async" else access_shape(name)[1]

    def access_text(self, pc: int, address: int) -> str:
        """Return the source text of an access, such as `tile[s, lane]`, or else the element at its address."""
        return self.named_access(pc) or self.element(address, pc)

    def named_access(self, pc: int) -> str:
        """Return the source text of an access, or an empty text if the source has none or names two arrays."""
        if self.verb(pc) == "async" or not self.program.array_of[pc]:
            return ""
        text = self.source(pc).access(self.span(pc))
        return text if len(text) <= _LONGEST else ""

    def array_name(self, pc: int) -> str:
        name = self.program.array_of[pc]
        return f"`{name}`" if name else "memory"

    def verb(self, pc: int) -> str:
        """Return `load`, `store` or `atomic`."""
        return OPERATIONS[NAMES[int(self.program.code[pc, 0])]].kind

    def operation(self, pc: int) -> str:
        """Return the name of an instruction.  For an asynchronous one, the name has no type, as in `mbarrier.wait`."""
        name = NAMES[int(self.program.code[pc, 0])]
        return step_word(name) if OPERATIONS[name].kind == "async" else name

    def service(self, pc: int) -> int:
        """Return how the hardware serves an access to shared memory, see `isa.SERVED`."""
        verb = self.verb(pc)
        return int(self.program.code[pc, 7]) & SERVED if verb == "atomic" else AS_STORE if verb == "store" else AS_LOAD

    def forbidden(self, pc: int) -> int:
        """Return the kinds of memory that an access must not reach."""
        return int(self.program.code[pc, 7]) >> FORBIDS_SHIFT & ANYWHERE

    def space(self, segment: int) -> str:
        if segment in (SHARED, LOCAL):
            return "shared" if segment == SHARED else "local"
        return "global"

    def within(self, address: int, pc: int) -> tuple[int, int] | None:
        """Return the distance in bytes of an address from the start of the array that an access names, and the array's
        size.  Return None if the array is unknown, local or dynamic."""
        name = self.program.array_of[pc]
        for array in self.arrays:
            if array.name == name:
                steps = zip(array.shape, array.strides, strict=True)
                size = sum((extent - 1) * max(stride, 0) for extent, stride in steps) + array.dtype.itemsize
                return address - (array.segment << SEGMENT_SHIFT) - array.offset, size
        for shared in self.program.shared:
            if shared.name == name:
                size = int(np.prod(shared.shape, dtype=np.int64)) * shared.dtype.itemsize
                return self.own_shared_address(address) - (SHARED << SEGMENT_SHIFT) - shared.offset, size
        return None

    @property
    def together(self) -> str:
        """Return the name of the group of co-resident CTAs: cluster or grid."""
        return "grid" if self.program.cooperative else "cluster"

    def cluster_index(self, cta: int) -> int:
        """Return the linear index of a CTA's cluster.  Without clusters it is the CTA's own index; it is 0 if the whole
        grid is co-resident."""
        return Grouping(self.grid, self.outcome.group).of(cta)[0]

    def own_shared_address(self, address: int) -> int:
        """Return an address in shared memory as its own CTA uses it, without the CTA's rank in the cluster."""
        if (address >> SEGMENT_SHIFT) & 0xFFFF != SHARED:
            return address
        return address >> SEGMENT_SHIFT << SEGMENT_SHIFT | address & (1 << self.outcome.window) - 1

    def element(self, address: int, pc: int) -> str:
        """Return a text for an address: `tile[3, 4]`, or a byte offset if the array is unknown."""
        wrong = mistake(address)
        if wrong is not None:
            return f"byte {wrong[1]:,} of the heap"
        address = self.own_shared_address(address)
        initialized = self._mbarriers()
        if address in initialized:
            if name := self.names.mbarrier(address, initialized):
                return name
            pc = initialized[address][0]
        elif found := self.copied_object(address, pc):
            return found
        return self._plain_element(address, pc)

    def copied_object(self, address: int, pc: int) -> str:
        """Return the source text of the object that an asynchronous copy writes at an address.  Return an empty text
        for other operations, and if the address belongs to a variable in shared memory."""
        segment, offset = (address >> SEGMENT_SHIFT) & 0xFFFF, address & ((1 << SEGMENT_SHIFT) - 1)
        if segment != SHARED or self.verb(pc) != "async" or offset < self.program.shared_bytes:
            return ""
        found = None if self.operation(pc).startswith("mbarrier") else self.names.find_object(pc)
        return "" if found is None else found.text

    def _mbarriers(self) -> dict[int, tuple[int, int]]:
        """Return the mbarriers that ran last by their addresses in their CTA: initialization and count."""
        known = self.outcome.mbarriers
        return (
            known
            if self.outcome.window >= SEGMENT_SHIFT
            else {self.own_shared_address(at): made for at, made in known.items()}
        )

    def initialization(self, address: int) -> tuple[int, int] | None:
        """Return the instruction that initialized an mbarrier, and its count; None if they are unknown."""
        return self._mbarriers().get(self.own_shared_address(address))

    def may_use(self, pc: int, address: int) -> bool:
        """Return whether an operation may be on an mbarrier: its array is unknown, or is that of the mbarrier."""
        found, name = (
            self.names.find_object(pc),
            self.names.mbarrier(self.own_shared_address(address), self._mbarriers()),
        )
        if found is not None and name:
            return self.names.last_part(found.text) == self.names.last_part(name)
        named = self.program.array_of[pc]
        return named in (None, self._plain_element(self.own_shared_address(address), pc).partition("[")[0])

    def _plain_element(self, address: int, pc: int) -> str:
        """Return an address as an element of the array that PTX or Python has there."""
        segment, offset = (address >> SEGMENT_SHIFT) & 0xFFFF, address & ((1 << SEGMENT_SHIFT) - 1)
        meant = None if self.verb(pc) == "async" or self._may_be_of_heap(pc) else self.within(address, pc)
        if meant is not None and meant[0] < 0 and segment != SHARED:  # no array is located below its own start
            return f"byte {meant[0]} of {self.program.array_of[pc]}"
        if segment >= FIRST_ARRAY:
            return self._global_element(segment, offset, pc)
        declared = self.program.shared if segment == SHARED else self.program.locals
        if segment == LOCAL and self.program.local_bytes:
            offset = (offset & (1 << LOCAL_SHIFT) - 1) % self.program.local_bytes
        if name := _declared_element(declared, offset):
            return name
        if segment == SHARED and self.program.uses_dynamic_shared:
            offset -= _dynamic_start(self.program)
            if name := _dynamic_element(self.program, offset, pc):
                return name
        return f"byte {offset} of {self.space(segment)} memory"

    def local_variable_at(self, address: int, lane: int) -> tuple[str, int, int]:
        """Return three facts about a local address: the variable from which it was computed (empty if unknown), its
        distance in bytes from that variable's start in the lane's memory, and the lane that owns it."""
        number, offset = divmod(address & (1 << SEGMENT_SHIFT) - 1, 1 << LOCAL_SHIFT)
        thread, name, start = self.program.local_bytes, "", 0
        if number & ON_STACK:
            start = (number - ON_STACK) * STACK_UNIT
            number = self._find_declared(start, offset - lane * thread)
        if 0 < number <= len(self.program.locals):
            name, start = self.program.locals[number - 1].name, self.program.locals[number - 1].offset
        owner = offset // thread if thread else lane
        return name, offset - lane * thread - start, owner

    def _find_declared(self, word: int, at: int) -> int:
        """Return the number of the last declared variable that begins at or before a byte of a thread's local memory; 0
        for a variable on the stack.  The word with the extent of a declared variable is before it, or after all."""
        ends = [array.offset + math.prod(array.shape) * array.dtype.itemsize for array in self.program.locals]
        begins = [array.offset for array in self.program.locals]
        if not ends or (word not in begins and not (at < ends[-1] < word)):
            return 0
        return begins.index(word) + 1 if word in begins else max(1, sum(begin <= at for begin in begins))

    def _may_be_of_heap(self, pc: int) -> bool:
        """Return whether an access may be to the heap or to any array, because its address is not before the start of a
        heap block."""
        return self._is_heap(self.program.array_of[pc])

    def _is_heap(self, name: str | None) -> bool:
        """Return whether an array is the memory of the heap, which is counted in bytes."""
        return any(c.heap == "bytes" and c.name == name for c in self.program.constant_arrays)

    def phase(self, address: int, number: int, pc: int) -> str:
        """Return a text such as `full[1] phase 2`.  It is `full[1] new` for the phase before the first, which a wait
        for parity 1 may observe."""
        if address in OF_GROUPS:
            return f"{OF_GROUPS[address]} phase {number}"
        return f"{self.element(address, pc)} {f'phase {number}' if number >= 0 else 'new'}"

    def freed_allocation(self, address: int) -> str:
        """Return the name of the freed allocation that contains an address, or an empty text."""
        near = self.memory.nearest(address) if self.memory is not None else None
        if near is None or not near[0].freed or not 0 <= near[1] < near[0].bytes:
            return ""
        return near[0].name

    def names_live_array(self, pc: int) -> bool:
        """Return whether an access names an argument that is in live memory of the program."""
        array = next((one for one in self.arrays if one.name == self.program.array_of[pc]), None)
        if array is None or self.memory is None:
            return False
        return self.memory.find((array.segment << SEGMENT_SHIFT) + array.offset) is not None

    def beyond(self, address: int) -> tuple[str, str]:
        """Return the name of the object nearest to an address outside of all memory, and the position of the address
        relative to it; empty texts if unknown."""
        room = 1 << SEGMENT_SHIFT
        address = self.own_shared_address(address)
        if self.memory is not None and self.memory.nearest(address) is not None:
            return self._beyond_allocation(address)
        segment, offset = divmod(address + room // 2, room)  # before an array, too
        offset -= room // 2
        if segment == 0:
            return "", f"the address is {address:#x}: a null pointer, or an index into one"
        if segment in (SHARED, LOCAL):
            return f"{self.space(segment)} memory", f"the address is byte {offset:,} of {self.space(segment)} memory"
        inside = [a for a in self.arrays if a.segment == segment]
        array = max(inside, key=lambda a: (a.offset <= offset, a.offset), default=None)
        if array is None:
            return "", f"the address is {address:#x}, in no array"
        spans = ((n - 1) * abs(stride) for n, stride in zip(array.shape, array.strides, strict=True))
        size = 0 if 0 in array.shape else sum(spans) + array.dtype.itemsize
        where = f"the address is byte {offset - array.offset:,} of `{array.name}`, which has {size:,}"
        return f"`{array.name}`", where

    def _beyond_allocation(self, address: int) -> tuple[str, str]:
        """Return the result of `beyond` for the device memory of the launch."""
        assert self.memory is not None
        near = self.memory.nearest(address)
        assert near is not None
        one, offset = near
        passed = (a.name for a in self.arrays if (a.segment, a.offset) == (one.window, one.offset))
        name = one.name if one.freed else next(passed, one.name)
        gone = " and was freed" if one.freed else ""
        return f"`{name}`", f"the address is byte {offset:,} of `{name}`, which has {one.bytes:,}{gone}"

    def _global_element(self, segment: int, offset: int, pc: int) -> str:
        named = self.program.array_of[pc]
        candidates = [a for a in self.arrays if a.segment == segment]
        candidates.sort(key=lambda a: a.name != named)
        for array in candidates:
            index = _unravel(offset - array.offset, array)
            if index is not None:
                if array.dtype == RAW:
                    return f"byte {index[0]:,} of {array.name}"
                of_heap = self._is_heap(array.name)
                return f"byte {index[0]:,} of the heap" if of_heap else f"{array.name}[{', '.join(map(str, index))}]"
        return f"byte {offset} of {named or 'global memory'}"


def _folder(span: Span) -> str:
    return os.path.dirname(span.file)


def name_barrier_objects(program: Program, known: Mapping[int, int]) -> dict[int, str]:
    """Return offset in shared memory -> the name of the mbarrier there, for those that have one.  `known` has the
    instruction that initialized each of them."""
    names, found = SharedNames(program), {}
    initialized = {offset: (pc, 1) for offset, pc in known.items()}
    for offset, pc in known.items():
        name = names.mbarrier(offset, initialized) or _declared_element(program.shared, offset)
        if not name and program.uses_dynamic_shared:
            name = _dynamic_element(program, offset - _dynamic_start(program), pc)
        if name:
            found[offset] = name
    return found


def _declared_element(arrays: Iterable[SharedArray], offset: int) -> str:
    """Return the element of a declared array at an offset, or an empty text."""
    for array in arrays:
        index = _position(array, offset)
        if index is not None:
            return f"{array.name}[{', '.join(map(str, index))}]"
    return ""


def _dynamic_start(program: Program) -> int:
    return -(-program.shared_bytes // 16) * 16


def _dynamic_element(program: Program, offset: int, pc: int) -> str:
    """Return the element at an offset in dynamic shared memory, by the array that the instruction names, or an empty
    text."""
    name, element = program.array_of[pc], program.element_of[pc]
    return f"{name}[{offset // np.dtype(element).itemsize}]" if name and element else ""


def _position(array: SharedArray, offset: int) -> tuple[int, ...] | None:
    element = (offset - array.offset) // array.dtype.itemsize
    if not 0 <= element < int(np.prod(array.shape, dtype=np.int64)):
        return None
    return tuple(int(i) for i in np.unravel_index(element, array.shape))


def _unravel(offset: int, array: BoundArray) -> tuple[int, ...] | None:
    """Return the indices of the element at a byte offset.  Strides are used from the largest to the smallest."""
    index = [0] * len(array.shape)
    for axis in sorted(range(len(array.shape)), key=lambda a: -abs(array.strides[a])):
        if array.strides[axis] > 0:
            index[axis], offset = divmod(offset, array.strides[axis])
    inside = all(0 <= i < extent for i, extent in zip(index, array.shape, strict=True))
    return tuple(index) if inside and 0 <= offset < array.dtype.itemsize else None


def lanes_text(mask: int) -> str:
    """Return a text for a lane mask: `lane 3`, `lanes 0-31`, `lanes 0, 2, 4, ...`."""
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    if not lanes:
        return "no lane"
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]}-{lanes[-1]}"
    shown = ", ".join(map(str, lanes[:4]))
    return f"lanes {shown}{', ...' if len(lanes) > 4 else ''}"
