"""Emission of a graph from PTX instructions: operands to registers, results under the instruction's guard.

A PTX register is a graph register typed by its width alone (`b16`, `b32`, `b64`, `p`): rows are untyped bits, and the
operation determines how it interprets them.  Intermediate results of an instruction go to fresh registers without a
guard; only its last operation, which writes the destination, and operations with an effect carry the guard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from wsemu.frontend.assemble.graph import TRUE, Block, Graph, Register
from wsemu.frontend.assemble.graph import Instruction as GraphInstruction
from wsemu.frontend.ptx.literals import literal_bits
from wsemu.frontend.ptx.refusals import remedy
from wsemu.frontend.ptx.short_addresses import short_address
from wsemu.frontend.ptx.special import SPECIALS
from wsemu.frontend.ptx.steps import BITS, RESULT, Steps
from wsemu.frontend.ptx.syntax import Address, Both, Instruction, Name, Not, Number, Operand, Sink, Vector
from wsemu.model.addresses import LOOKED_UP
from wsemu.model.data import dataclass, field
from wsemu.model.errors import KernelError
from wsemu.model.program import UNDEFINED

if TYPE_CHECKING:
    from wsemu.frontend.ptx.fragment_origins import Origin, Use
    from wsemu.frontend.ptx.heap import Heap
    from wsemu.frontend.ptx.lifetimes import Lifetime
    from wsemu.frontend.ptx.module import Module
    from wsemu.frontend.ptx.multimem import MulticastAccess, MulticastArgument
    from wsemu.frontend.ptx.reach import Reached
    from wsemu.frontend.ptx.recursion import Instance, Region, Stack
    from wsemu.frontend.ptx.syntax import Function, Targets, UnknownDirective
    from wsemu.frontend.ptx.variables import LocalPlace
    from wsemu.model.program import Span

Clusters = Literal["none", "of one", "of several", "of some"]
"""the CTAs of a cluster: `none` if the kernel does not request clusters, `of some` if the launch may
(`.maxclusterrank`)"""
REGISTER_TYPES = {
    "pred": "p",
    **{f"{kind}{bits}": f"b{bits}" for kind in "bus" for bits in (8, 16, 32, 64)},
    "f16": "b16",
    "bf16": "b16",
    "f16x2": "b32",
    "bf16x2": "b32",
    "f32": "b32",
    "f64": "b64",
}
"""type of a PTX register -> type of the graph's register (5.2)"""
AXES, COLORS = "xyzw", "rgba"
"""elements of a register of vector type, by both names"""
_CONTRACTED = frozenset({"add", "sub", "mul", "neg"})
_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})


def _extension(have: int, bits: int, sign: str) -> str:
    """Return how bits are extended or truncated: by sign for signed integers, otherwise with zeros (table 30 of the PTX
    ISA)."""
    return "s" if have > bits or sign == "s" else "u"


class Place(Protocol):
    """A variable or function, as the meaning of a name in an operand."""

    def address(self, e: Emitter) -> Register:
        """Return a b64 register with its address, as `mov` does: the offset in the window for shared memory."""

    def direct(self, e: Emitter) -> tuple[Register, int, str]:
        """Return the register and constant offset for an access that names the variable, and the name of the array that
        contains it."""


@dataclass(slots=True)
class Frame:
    """A function that is being inlined, or the entry function."""

    function: Function
    after: Block | None
    """target of `ret`; None in the entry function, in which it ends the thread"""
    stack: tuple[int, ...] = ()
    """spans of the chain of calls"""
    labels: list[dict[str, Block]] = field(default_factory=list)
    """labels of the open blocks, the innermost last"""
    tables: dict[str, Targets] = field(default_factory=dict)
    inlined: dict[tuple[int, int, int], tuple[int, int, int] | None] = field(default_factory=dict)
    """for each location in the source, the call through which the compiler inlined it"""
    own_file: int | None = None
    """number of the file that contains the function's statements; None until it is looked up, 0 if unknown"""
    region: Region | None = None
    instance: Instance | None = None
    """instance of a function that may be called recursively"""
    variables: list[LocalPlace] = field(default_factory=list)
    """the variables of an inlined function in local memory, which end with it"""


Handler = Callable[["Emitter", Instruction], None]
"""function that lowers one instruction"""


class Emitter(Steps):
    """Appends instructions to `block`, for the PTX instruction given to `begin`."""

    def __init__(self, graph: Graph, module: Module, handlers: Mapping[str, Handler], reached: Reached) -> None:
        super().__init__(graph)
        self.module = module
        self.handlers = handlers
        self.source = module.source
        self.layout: list[Block] = []
        """the blocks in the order in which they are laid out"""
        self.aside: list[Block] = []
        """blocks that are laid out last"""
        self.block = self.open()
        self.names: list[dict[str, Register | Place]] = [{}]
        """meaning of each name, the innermost scope last"""
        self.statics: dict[tuple[str, int], Place] = {}
        """variables that live as long as the CTA or the launch, by their file and offset in its text"""
        self.scopes: dict[str, dict[str, Register | Place]] = {}
        """for each file, the meaning of the names declared outside its functions"""
        self.reached = reached
        self.register_types: dict[Register, str] = {}
        """types of the declared registers, except bit-size types and `pred`"""
        self.carry: Register | None = None
        """register of the carry flag; None: nothing has used it since the last call, which does not preserve it"""
        self.stack_memory: Stack | None = None
        """stack memory of calls that are not inlined, and of `alloca`"""
        self.heap_memory: Heap | None = None
        """heap of a kernel that allocates memory, or that may receive addresses of heap blocks"""
        self.origins: dict[Register, str] = {}
        """registers that hold the address of a variable -> its name"""
        self.generic: set[Register] = set()
        """registers with the results of `cvta`"""
        self.fragments: dict[Register, Origin] = {}
        """registers with the results of `wmma`, and the instructions that make them"""
        self.fragment_uses: list[Use] = []
        """multiplications and stores of fragments by `wmma`"""
        self.relative: list[Register] = []
        """registers with the results of `cvta.to`, and with addresses of constants"""
        self.dynamic: dict[str, None] = {}
        """names of dynamic shared memory"""
        self.workspace: set[Register] = set()
        """registers that hold a half of the address of the grid's workspace"""
        self.clusters: Clusters = "none"
        self.multicasts: list[MulticastArgument] = []
        """the multicast addresses that the launch gets"""
        self.multicast_accesses: list[MulticastAccess] = []
        self.frames: list[Frame] = []
        """the functions that are being inlined"""
        self.calls = 0
        """number of calls that were inlined"""
        self.lifetimes: list[Lifetime] = []
        """the inlined calls of functions with variables in local memory"""
        self.module_bytes = 0
        """total bytes of the variables in global and constant memory"""
        self.located = False
        """true if `span` comes from line information; otherwise it is the location in the PTX text"""
        self.places: dict[tuple[str, int, int, int], int] = {}
        """PTX file, and file, line and column of a `.loc` -> number of its span"""
        self.origin: tuple[Frame, tuple[tuple[int, int, int], ...]] | None = None
        """frame and location of the last `.loc`, with its inlining chain, if its source is not shown"""
        self._spans: dict[tuple[Span, tuple[int, ...]], int] = {}
        self.called: tuple[int, tuple[int, ...]] = (0, ())
        """span and stack of the innermost location in the kernel's own file, for code inlined from a header"""
        self.guard: Register = TRUE
        self.negated = False
        self.instruction: Instruction | None = None
        self.modelled = True
        """true if lanes may execute the current instruction"""
        self.unused = self._unused_next = 0
        """bytes of a load by this instruction and by the next one whose values are never used; bit 0 is the first
        byte"""
        self._wide: dict[Register, Register] = {}
        """b32 registers -> their sign extension to an address, valid in the current block"""

    @contextlib.contextmanager
    def within(self, module: Module) -> Iterator[None]:
        """Attribute the code that is emitted inside to this file."""
        before = self.module, self.source
        self.module, self.source = module, module.source
        try:
            yield
        finally:
            self.module, self.source = before

    def begin(self, instruction: Instruction) -> None:
        """Attribute the following code to this instruction; with line information `span` and `stack` are set
        already."""
        self.instruction, self.modelled = instruction, True
        self.unused, self._unused_next = self._unused_next, 0
        self.exact = int(instruction.opcode not in _CONTRACTED or not _ROUNDINGS.isdisjoint(instruction.modifiers))
        if not self.located:
            at = instruction.at
            self.span = self.span_number(self.source.span(at, self.source.text.find(";", at) + 1))
            if self.origin is not None and self.origin[0] is self.frames[-1]:
                self.graph.origins[self.span] = (self.source.path, *self.origin[1])
        if instruction.guard is None:
            self.guard, self.negated = TRUE, False
        else:
            self.guard, self.negated = self.read(instruction.guard, "p"), instruction.negated

    def used_bytes(self, mask: int) -> None:
        """Record that only these bytes of the next instruction's load matter."""
        self._unused_next = ~mask & 0xFFFF

    def span_number(self, span: Span, inner: tuple[int, ...] = ()) -> int:
        """Return the index of a span among the graph's spans; `inner` are the spans of code inlined there."""
        number = self._spans.get((span, inner))
        if number is None:
            number = self._spans[span, inner] = len(self.graph.spans)
            self.graph.spans.append(span)
            if inner:
                self.graph.inner_spans[number] = inner
        return number

    @contextlib.contextmanager
    def looking_up(self, mark: str = LOOKED_UP) -> Iterator[None]:
        """Mark emitted operations as lookups, which find what an address refers to and accept any number."""
        before, self.about = self.about, mark
        yield
        self.about = before

    # -- names --------------------------------------------------------------------------------------------------------
    def lookup(self, name: Name) -> Register | Place:
        """Return the object that a name refers to; raise KernelError if it was not declared."""
        for scope in reversed(self.names):
            found = scope.get(name.text)
            if found is not None:
                return found
        raise self.error(name.at, f"`{name.text}` is not declared", "declare it before its use")

    def bits(self, register: Register) -> int:
        """Return the bits of a register; 1 for a predicate."""
        return BITS[self.graph.types[register]]

    def error(self, at: int, message: str, remedy: str = "") -> KernelError:
        """Return an error at an offset of the PTX text."""
        return self.source.error(at, message, remedy)

    def excess(self, limit: str, count: int, at: int) -> KernelError:
        """Return the error for a kernel that exceeds a row of INPUT_LIMITS."""
        return self.source.excess(limit, count, at)

    # -- operands -----------------------------------------------------------------------------------------------------
    def read(self, operand: Operand, type_: str) -> Register:
        """Return the register of a source operand as `type_` (b8 b16 b32 b64 f16 f32 f64 p).

        Of a wider register, the low bits are used, as `st` and `cvt` allow (9.4.1); a narrower one is extended with
        zeros.
        """
        if type(operand) is Name:
            for scope in reversed(self.names):
                found = scope.get(operand.text)
                if found is not None:
                    register = found if isinstance(found, int) else self._address(found, type_)
                    break
            else:
                register = self._special(operand)
            return self._as(register, type_, operand.at)
        if type(operand) is Number:
            return self.constant(type_, literal_bits(operand, BITS[type_], is_float=type_[0] == "f"))
        if type(operand) is Address:
            base = self.read(operand.base, "b64")
            if operand.offset:
                base = self.emit("add.b64", base, self.constant("b64", operand.offset))
            return self._as(base, type_, operand.at)
        if type(operand) is Not:
            return self.emit("not.pred", self.read(operand.name, "p"))
        raise self.error(operand.at, "this operand does not go here", f"give a register or a constant of type .{type_}")

    def _address(self, place: Place, type_: str) -> Register:
        """Return the address of a variable; a 32-bit address may be a short one."""
        short = short_address(self, place) if type_ == "b32" else None
        return place.address(self) if short is None else short

    def elements(self, operand: Operand, length: int) -> tuple[Operand, ...]:
        """Return the operands of a vector, which is in braces or a register of vector type (5.4.2), or the single
        operand."""
        if type(operand) is Vector:
            if len(operand.items) != length:
                raise self.error(
                    operand.at,
                    f"{len(operand.items)} elements where {length} belong",
                    f"give {length}, or change the .v",
                )
            return operand.items
        if length == 1:
            return (operand,)
        if type(operand) is Name:
            names = [Name(f"{operand.text}.{axis}", operand.at) for axis in AXES[:length]]
            if names[0].text in SPECIALS or any(names[0].text in scope for scope in self.names):
                return tuple(names)
        raise self.error(operand.at, f"a vector of {length} belongs here", "write `{a, b}`")

    def _special(self, name: Name) -> Register:
        special = SPECIALS.get(name.text)
        if special is None:
            self.lookup(name)  # raises
            raise AssertionError(name)
        return special(self)

    def _as(self, register: Register, type_: str, at: int) -> Register:
        """Return the low bits of a register, or the register extended with zeros, as `type_`."""
        have, want = BITS[self.graph.types[register]], BITS[type_]
        if have == want:
            return register
        if have == 1 or want == 1:
            raise self.error(at, f"a {'predicate' if have == 1 else 'number'} does not go here", f"give a .{type_}")
        return self.resize(register, want)

    def resize(self, register: Register, bits: int, sign: str = "u") -> Register:
        """Return a register of `bits` with the low bits of another register, extended by sign (`s`) or zeros (`u`)."""
        have = BITS[self.graph.types[register]]
        if have == bits:
            return register
        return self.emit(f"cvt.b{bits}.{_extension(have, bits, sign)}{have}", register)

    def special(self, name: str) -> Register:
        """Return a special register of the bytecode: `tid.x`, `laneid`, `shared`, ..."""
        return self.graph.special(name)

    # -- instructions -------------------------------------------------------------------------------------------------
    def assign(self, register: Register, operation: str, *operands: Register) -> None:
        """Emit a pure operation whose result goes to a register that is already assigned, regardless of the guard."""
        code = GraphInstruction(operation, (register,), operands, span=self.span, stack=self.stack)
        self.block.instructions.append(code)

    def effect(
        self,
        operation: str,
        operands: tuple[Register, ...] = (),
        results: tuple[str, ...] = (),
        immediate: int = 0,
        auxiliary: int = 0,
        array: str | None = None,
        element: str | None = None,
    ) -> tuple[Register, ...]:
        """Emit a non-arithmetic operation (memory, warp, barrier, ...) under the guard; return fresh registers of the
        types `results`."""
        made = tuple([self.graph.new(type_) for type_ in results])
        self.effect_into(operation, operands, made, immediate, auxiliary, array, element)
        return made

    def effect_into(
        self,
        operation: str,
        operands: tuple[Register, ...],
        results: tuple[Register, ...],
        immediate: int = 0,
        auxiliary: int = 0,
        array: str | None = None,
        element: str | None = None,
    ) -> None:
        """Emit an operation with side effects into the given result registers."""
        if self._wide:
            for register in results:
                self._wide.pop(register, None)
        self.block.instructions.append(
            GraphInstruction(
                operation, results, operands, immediate, auxiliary, self.guard, self.negated, self.span, self.stack,
                array, element,
            )
        )  # fmt: skip

    def target(self, operand: Operand, type_: str) -> Register:
        """Return the register that a destination names if it has the width of `type_`.  Otherwise, and for a sink,
        return a fresh register, which `write_register` then copies to the destination."""
        if type(operand) is Name:
            found = self.lookup(operand)
            if not isinstance(found, int):
                raise self.error(operand.at, f"`{operand.text}` is no register", "give a register for the result")
            if BITS[self.graph.types[found]] == BITS[type_]:
                return found
        elif type(operand) is not Sink:
            raise self.error(operand.at, "this is no place for a result", "give a register")
        return self.graph.new(type_)

    def write(self, operand: Operand, operation: str, *operands: Register, immediate: int = 0) -> None:
        """Emit the last operation of a PTX instruction, whose result goes to the destination under the guard.

        If the widths differ, the result is truncated or extended with zeros.
        """
        if type(operand) is Sink:
            return
        result = self.target(operand, RESULT[operation])
        self.effect_into(operation, operands, (result,), immediate, self.exact)
        self.write_register(operand, result)

    def write_register(self, operand: Operand, register: Register, sign: str = "u") -> None:
        """Copy a register to the destination, under the guard; a register of another width is truncated or extended."""
        if type(operand) is Sink:
            return
        if type(operand) is Both:
            raise self.error(operand.at, "this instruction has one result", "give one register")
        if type(operand) is not Name:
            raise self.error(operand.at, "this is no place for a result", "give a register")
        found = self.lookup(operand)
        if not isinstance(found, int):
            raise self.error(operand.at, f"`{operand.text}` is no register", "give a register for the result")
        if found == register:
            return
        types = self.graph.types
        have, want = BITS[types[register]], BITS[types[found]]
        if (have == 1) != (want == 1):
            kind = "predicate" if have == 1 else "number"
            raise self.error(operand.at, f"the result is a {kind}, `{operand.text}` is not", "give another register")
        if have != want:
            operation = f"cvt.b{want}.{_extension(have, want, sign)}{have}"
        else:
            operation = "mov.pred" if have == 1 else f"mov.b{have}"
        self.effect_into(operation, (register,), (found,))

    def sign_extend(self, register: Register) -> Register:
        """Return a b32 register sign-extended to b64; emitted once for all accesses of a block through it."""
        wide = self._wide.get(register)
        if wide is None:
            wide = self._wide[register] = self.emit("cvt.b64.s32", register)
        return wide

    # -- control ------------------------------------------------------------------------------------------------------
    def new_block(self) -> Block:
        """Create a block that is not laid out yet."""
        return self.graph.block()

    def place(self, block: Block) -> None:
        """Lay out `block` here; the following instructions go into it."""
        self.layout.append(block)
        self.block, self.code = block, block.instructions
        self._wide = {}

    def open(self) -> Block:
        """Lay out a new block here; the following instructions go into it."""
        block = self.graph.block()
        self.place(block)
        return block

    def jump(self, target: Block) -> None:
        """Jump to `target`; the current block ends."""
        self.block.end, self.block.successors = "jump", (target.index,)
        self.block.span, self.block.stack = self.span, self.stack

    def branch(self, target: Block, other: Block) -> None:
        """Branch to `target` if the guard holds, otherwise to `other`; the current block ends."""
        block = self.block
        block.span, block.stack = self.span, self.stack
        if self.guard == TRUE:
            block.end, block.successors = "jump", ((other if self.negated else target).index,)
            return
        block.end, block.predicate = "bra", self.guard
        block.successors = (other.index, target.index) if self.negated else (target.index, other.index)

    def leave(self, end: str, trap: int = 0) -> None:
        """End the thread (`exit`) or the run (`trap`) if the guard holds; the following code is for the other
        threads."""
        last = self.graph.block()
        last.end, last.trap, last.span, last.stack = end, trap, self.span, self.stack
        self.aside.append(last)
        following = self.graph.block()
        self.branch(last, following)
        self.place(following)

    def emit_unsupported(self, text: str = "", *, partly: bool = False) -> None:
        """End the run as incomplete when a lane reaches this instruction.  `text` names what is not modeled, by default
        the instruction.  With `partly`, only lanes whose guard holds end the run, and the others continue."""
        assert self.instruction is not None
        self.modelled &= partly
        name = ".".join((self.instruction.opcode, *self.instruction.modifiers))
        self._trap(text or f"`{name}`", self.instruction.at)

    def refuse(self, directive: UnknownDirective) -> None:
        """End the run as incomplete when a lane reaches this unknown directive in a function."""
        self.guard, self.negated = TRUE, False
        if not self.located:
            self.span = self.span_number(self.source.span(directive.at, directive.at + len(directive.text)))
        self._trap(f"`{directive.text}`", directive.at)

    def stop(self, why: str) -> None:
        """End the run as incomplete when a lane reaches this instruction."""
        assert self.instruction is not None
        self.graph.traps.append(f"{why} ({self.source.place(self.instruction.at)})")
        self.leave("trap", len(self.graph.traps) - 1)

    def emit_undefined(self, message: str, note: str, remedy: str) -> None:
        """End the run with `undefined-behavior` when a lane reaches this instruction."""
        self.graph.traps.append(UNDEFINED + "\n".join((message, note, remedy)))
        self.leave("trap", len(self.graph.traps) - 1)

    def _trap(self, what: str, at: int) -> None:
        traps = self.graph.traps
        given = self.instruction
        told = remedy(given.opcode, given.modifiers, what) if given is not None else ""
        traps.append(f"{what} is not modelled{f'; {told}' if told else ''} ({self.source.place(at)})")
        self.leave("trap", len(traps) - 1)
