"""The output of a front end and input of the assembler: a control-flow graph over typed virtual registers.

A register is assigned any number of times (PTX), or exactly once, with phis at block starts (Python).  A constant is a
register that nothing assigns.  The graph knows nothing of rows, reconvergence or layout: `encode.py` adds those.
"""

from __future__ import annotations

from wsemu.model.data import dataclass, field
from wsemu.model.program import ConstantArray, Parameter, Raised, SharedArray, Span, Stop

Register = int
"""index into `Graph.types`; TRUE is the predicate that always holds"""
TRUE: Register = 0


@dataclass(slots=True)
class Instruction:
    """One instruction: `operation` is in `isa.OPERATIONS`; `results` has one register, n for a vector load, none for a
    store.

    Memory: operands[0] is the address register, `immediate` a byte offset; a store names its values in operands[1:].
    Shuffles and match.all: results[1], if there, is the predicate.  Barriers: operands (id,) or (id, count) or (id,
    count, predicate).  `index`: operands (index, extent, stride, base).  A guarded instruction keeps its old result
    where the guard is false.
    """

    operation: str
    results: tuple[Register, ...] = ()
    operands: tuple[Register, ...] = ()
    immediate: int = 0
    auxiliary: int = 0
    guard: Register = TRUE
    negated: bool = False
    span: int = 0
    stack: tuple[int, ...] = ()
    array: str | None = None
    element: str | None = None


@dataclass(slots=True)
class Phi:
    """A phi: `result` takes the value `incoming[predecessor block]`; all phis of a block execute simultaneously."""

    result: Register
    incoming: dict[int, Register]


@dataclass(slots=True)
class Block:
    """Straight-line code and its successors: none (exit, trap), one (jump), two (branch on `predicate`)."""

    index: int
    phis: list[Phi] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    successors: tuple[int, ...] = ()
    """for a branch: (target if the predicate holds, other target)"""
    predicate: Register = TRUE
    span: int = 0
    stack: tuple[int, ...] = ()
    end: str = "jump"
    """jump, bra, exit or trap"""
    trap: int = 0
    """for a trap, its index in `Graph.traps`; for an exit, its `aux`, such as `ABORTS`"""
    dead: bool = False
    """true if the Python front end knows that control never reaches the block: only the types in it are needed"""


@dataclass(slots=True)
class Graph:
    """One kernel, with every called function inlined."""

    name: str
    types: list[str] = field(default_factory=lambda: ["p"])
    blocks: list[Block] = field(default_factory=list)
    constants: dict[tuple[str, int | float | bool | str], Register] = field(default_factory=dict)
    """(type, value) -> register; floats keyed by `float.hex()` so that -0.0 and nan keep their identity"""
    parameters: dict[Register, Parameter] = field(default_factory=dict)
    """register -> parameter; the assembler sets the parameter's row"""
    specials: dict[str, Register] = field(default_factory=dict)
    undefined: dict[Register, str] = field(default_factory=dict)
    """registers that no instruction writes, each of which represents an uninitialized register of the source -> its
    name there; they hold 0 here"""
    zeros: set[Register] = field(default_factory=set)
    """registers that hold 0 before anything writes them"""
    declared: list[tuple[Register, int, str]] = field(default_factory=list)
    """registers of the source: the first register of a range, its length (0: a single name without a number), its
    name"""
    constant_arrays: dict[Register, ConstantArray] = field(default_factory=dict)
    """arrays in constant memory; their rows, including those in `addresses`, are registers until the assembler assigns
    rows"""
    shared: list[SharedArray] = field(default_factory=list)
    locals: list[SharedArray] = field(default_factory=list)
    shared_bytes: int = 0
    local_bytes: int = 0
    uses_dynamic_shared: bool = False
    dynamic_alignment: int = 16
    """alignment of the first byte of dynamic shared memory"""
    spans: list[Span] = field(default_factory=list)
    traps: list[str] = field(default_factory=list)
    prints: list[tuple[str, ...]] = field(default_factory=list)
    """printed formats, as in `Program`"""
    raises: list[Raised] = field(default_factory=list)
    """exceptions that the kernel can raise, as in `Program`"""
    stops: list[Stop] = field(default_factory=list)
    """instructions that stop the launch, as in `Program`"""
    unmodelled: list[str] = field(default_factory=list)
    """features of the whole kernel that are not modeled, with their locations"""
    shared_locals: list[str] = field(default_factory=list)
    """see `Program.shared_locals`"""
    doubts: dict[str, None] = field(default_factory=dict)
    """notes about valid code that looks like a mistake"""
    hidden_sources: dict[str, None] = field(default_factory=dict)
    """sources that locations of the kernel name, but that must not be shown"""
    origins: dict[int, tuple[object, ...]] = field(default_factory=dict)
    """origin of each register row, as in `Program`"""
    inner_spans: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """map of the same name in `Program`"""
    sources_note: str = ""
    """note on the sources, as in `Program`"""
    registers: int = 0
    """registers per thread, as in `Program`"""
    shows_addresses: bool = False
    """true if addresses may be used as numbers, as in `Program`"""

    def new(self, type_: str) -> Register:
        """Create a register of type `p`, `b8`..`b64`, `f32`, `f64` or `f16`."""
        self.types.append(type_)
        return len(self.types) - 1

    def constant(self, type_: str, value: int | float | bool) -> Register:
        """Return the register that holds `value`; there is one register for each distinct bit pattern."""
        key = (type_, value.hex() if isinstance(value, float) else value)
        register = self.constants.get(key)
        if register is None:
            register = self.constants[key] = self.new(type_)
        return register

    def special(self, name: str) -> Register:
        """Return the register of a special value, such as `tid.x` (b32) or `shared` (b64, a base address)."""
        register = self.specials.get(name)
        if register is None:
            b64 = name in ("shared", "local", "dynamic", "dynamic_bytes")
            register = self.specials[name] = self.new("b64" if b64 else "b32")
        return register

    def block(self) -> Block:
        """Append an empty block to the list, which is in layout order."""
        block = Block(len(self.blocks))
        self.blocks.append(block)
        return block
