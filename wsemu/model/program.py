"""The form of a program: a kernel as flat bytecode, with information about its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import FIELDS, N_CONTROL, NAMES, OPCODE
from wsemu.model.tensor_memory import ALLOC, COMMIT, COPY, MULTIPLY, OPERATIONS, PAIR

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy.typing as npt

_T = TypeVar("_T")
REMEMBERED = "remembered"
"""key of `Program.derived` for the results of `Program.remember`"""
_MAX_REMEMBERED = 16
"""maximum number of results of one analysis that a program remembers"""
GIVES_UP = "the end of the launch by `trap`"
"""part of a reason in `Program.traps` for a program that ends itself deliberately"""
TOO_DEEP = "recursion deeper than"
"""first words of a reason in `Program.traps` for a call beyond the maximum depth"""
UNDEFINED = "undefined: "
"""first word of a reason in `Program.traps` for undefined behavior; message, note and help follow, one per line"""
SYSTEM = "%reserved_smem_"
"""prefix of shared arrays that the system reserves"""
_OF_GRID = frozenset((OPCODE["grid.arrive"], OPCODE["grid.wait"]))
_OF_PAIRS = (ALLOC, COPY, MULTIPLY, COMMIT)
_WITH_TIMES = frozenset((OPCODE["fence.proxy"], OPCODE["fence.mbarrier_init"]))
"""operations, not of kind `async`, for which the order of earlier operations in time matters"""


class Span(NamedTuple):
    """A range of source text: 1-based line, 0-based columns as in `ast`."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class Constant(NamedTuple):
    """A row that holds one value in all lanes for the whole launch."""

    row: int
    type: str
    value: int | float | bool


class Parameter(NamedTuple):
    """A row filled from an argument: with its value, its address, its memory, or one of its extents or strides.

    `part` is `value`, `address` (of the first element), `first` (the address of the first byte of its memory), `size`
    (of its memory, in bytes), `shape` or `stride` (in bytes).  `axis` is the dimension, and `component` a path into
    nested tuples and pattern objects: positions and names of fields.  If an argument is passed as bytes, `part` is
    `bytes`, and `axis` is the byte at which the row's value starts.  If the bytes are in read-only memory, like those
    of a tensor map, `part` is `memory`, and the value is their address.
    """

    row: int
    type: str
    argument: int
    component: tuple[int | str, ...]
    part: str
    axis: int


RESPONSES = "responses"
"""the array that receives the responses to requests for clusters (`clusterlaunchcontrol`)"""


class ConstantArray(NamedTuple):
    """A global NumPy array used by the kernel, or a variable of its module; `row` gets its address.

    It is read-only unless it is `writable`; then each launch starts with a fresh copy.  A device array is `live`: a
    launch uses its current contents, and keeps what it stores there.
    """

    row: int
    name: str
    array: npt.NDArray[np.generic]
    writable: bool = False
    addresses: tuple[tuple[int, int, int], ...] = ()
    """parts that are known only at the launch: (byte offset, row of another such array, bytes after its address)"""
    live: bool = False
    pointers: tuple[tuple[int, npt.NDArray[Any]], ...] = ()
    """(byte offset, host array whose address is stored there)"""
    heap: str = ""
    """name of the array of the device heap (`model.heap.Part`); the launch allocates it"""
    alignment: int = 0
    """alignment in bytes that its declaration requests; 0: the alignment of an element"""
    origin: npt.NDArray[np.generic] | None = None
    """host array that was copied when the kernel was compiled"""
    made: str = ""
    """name of an array that each launch allocates (`RESPONSES`)"""
    named_at: Span | None = None
    """the first expression of the kernel that names it"""

    @property
    def has_changed(self) -> bool:
        """Return whether the bytes of the origin differ from the copied bytes."""
        if self.origin is None:
            return False
        return self.origin.dtype != self.array.dtype or self.origin.tobytes() != self.array.tobytes()


class SharedArray(NamedTuple):
    """A static shared or local array, with its position in its segment."""

    name: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    span: int
    alignment: int = 1
    """alignment in bytes: the number in the declaration, or else that of an element"""
    writable: bool = True
    """true if stores through its addresses are allowed"""


class Raised(NamedTuple):
    """An exception that a kernel compiled with `debug=True` raises."""

    type: type[BaseException]
    arguments: tuple[Any, ...]
    function: str


class Shown(NamedTuple):
    """The layout of a variable in one or more of the values that a stop shows to a debugger."""

    kind: str
    """`number`, `complex`, `tuple`, `array` or `known`"""
    what: Any
    """the NumPy dtype of a number or of an array's elements, the items of a tuple, or a known value itself"""
    dimensions: int = 0
    """number of dimensions of an array, whose address, extents and strides are shown"""


class Stop(NamedTuple):
    """A statement at which a debugger may stop: the function, and its variables in the order of their values."""

    function: str
    variables: tuple[tuple[str, Shown], ...]
    breaks: bool = False
    """true if it is a `breakpoint()`"""


@dataclass(slots=True)
class Program:
    """A kernel as flat bytecode, ready for a VM.  Row numbers are byte offsets into a warp's register block."""

    name: str
    code: npt.NDArray[np.int64]
    """[instructions, 8], columns as in FIELDS"""
    register_bytes: int
    """register bytes of a warp; a multiple of ROW"""
    constants: list[Constant] = field(default_factory=list)
    undefined: list[tuple[int, str, str]] = field(default_factory=list)
    """(row, type, name in the source) of registers that some path reads before any instruction writes them; their rows
    also count as constants"""
    parameters: list[Parameter] = field(default_factory=list)
    constant_arrays: list[ConstantArray] = field(default_factory=list)
    specials: dict[str, int] = field(default_factory=dict)
    """row of each special register used (b32): tid.x ctaid.x ntid.x nctaid.x (and y, z), laneid; b64: shared, local,
    dynamic (base addresses of the segments; that of `local` differs between lanes), dynamic_bytes"""
    shared_bytes: int = 0
    local_bytes: int = 0
    """bytes of local memory per thread"""
    shared: list[SharedArray] = field(default_factory=list)
    locals: list[SharedArray] = field(default_factory=list)
    uses_dynamic_shared: bool = False
    spans: list[Span] = field(default_factory=list)
    """distinct source spans of the code"""
    span_of: list[int] = field(default_factory=list)
    """index into spans for each instruction"""
    stack_of: list[tuple[int, ...]] = field(default_factory=list)
    """spans of the calls through which each instruction was inlined, outermost first"""
    origins: dict[int, tuple[object, ...]] = field(default_factory=dict)
    """for the span of a PTX instruction, its location in source that reports do not show; copies of one statement have
    equal locations"""
    inner_spans: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """for the span of a call, shown for an instruction of a helper in a header: spans of the code that was inlined
    there, outermost first"""
    array_of: list[str | None] = field(default_factory=list)
    """source name of the array that each instruction accesses"""
    element_of: list[str | None] = field(default_factory=list)
    """dtype name of the elements of that array, for each instruction"""
    registers: int = 0
    """number of registers of a thread at launch; 0: unknown"""
    traps: list[str] = field(default_factory=list)
    prints: list[tuple[str, ...]] = field(default_factory=list)
    """output of each `print`: texts, with `%` and a type for each value"""
    raises: list[Raised] = field(default_factory=list)
    """exceptions that the host raises for threads that end by a raising exit"""
    stops: list[Stop] = field(default_factory=list)
    """statements of a program compiled for a debugger, in the order in which they were compiled"""
    unmodelled: list[str] = field(default_factory=list)
    """unsupported parts of the kernel as a whole, with their locations"""
    shared_locals: list[str] = field(default_factory=list)
    """stores that put addresses of local memory where other warps may load them, with their locations"""
    doubts: list[str] = field(default_factory=list)
    """remarks on code that is correct but looks like a mistake"""
    sources_note: str = ""
    """help if reports cannot show sources; empty if they can"""
    shows_addresses: bool = False
    """true if the program may use addresses as numbers, like PTX"""
    derived: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """results derived from the code, which never changes; they are computed once for all launches"""

    def remember(self, analysis: str, key: Hashable, compute: Callable[[], _T]) -> _T:
        """Return the result of an analysis that depends only on the program and on `key`.  It is computed once, also
        for later processes that load the program."""
        known: dict[Hashable, _T] = self.derived.setdefault(REMEMBERED, {}).setdefault(analysis, {})
        if key not in known:
            if len(known) >= _MAX_REMEMBERED:
                del known[next(iter(known))]
            known[key] = compute()
        return known[key]

    @property
    def opcodes(self) -> frozenset[int]:
        """Return the operations that the program contains."""
        if "opcodes" not in self.derived:
            self.derived["opcodes"] = frozenset(self.code[:, 0].tolist())
        found: frozenset[int] = self.derived["opcodes"]
        return found

    @property
    def has_pairs(self) -> bool:
        """Return whether its `tcgen05` operations name `cta_group::2`."""
        if "has_pairs" not in self.derived:
            rows = np.isin(self.code[:, 0], [OPCODE[name] for name in _OF_PAIRS])
            self.derived["has_pairs"] = bool((self.code[rows, 7] & PAIR).any())
        found: bool = self.derived["has_pairs"]
        return found

    @property
    def uses_columns(self) -> bool:
        """Return whether the program contains operations on tensor memory."""
        return not self.opcodes.isdisjoint(OPCODE[name] for name in OPERATIONS)

    @property
    def asynchronous(self) -> bool:
        """Return whether the program contains operations of kind `async`, or accesses the memory of other CTAs.  If so,
        the order of memory accesses is tracked for each lane."""
        if "asynchronous" not in self.derived:
            self.derived["asynchronous"] = max(self.opcodes, default=0) >= N_CONTROL or "window" in self.specials
        found: bool = self.derived["asynchronous"]
        return found

    @property
    def given_shared(self) -> tuple[int, int]:
        """Return the range of shared memory that the system reserves, whose contents are defined when a CTA starts."""
        kept = [array for array in self.shared if array.name.startswith(SYSTEM)]
        return (kept[0].offset, kept[-1].offset + kept[-1].dtype.itemsize * kept[-1].shape[0]) if kept else (0, 0)

    @property
    def cooperative(self) -> bool:
        """Return whether the program uses the grid barrier: then its launches are cooperative, with all CTAs
        co-resident."""
        if "cooperative" not in self.derived:
            self.derived["cooperative"] = not _OF_GRID.isdisjoint(self.opcodes)
        found: bool = self.derived["cooperative"]
        return found

    @property
    def meets_alone(self) -> bool:
        """Return whether the grid barrier is the program's only asynchronous operation, so that it has no phases,
        copies or proxies."""
        if "meets alone" not in self.derived:
            others = any(op >= N_CONTROL and op not in _OF_GRID for op in self.opcodes)
            alone = not others and _WITH_TIMES.isdisjoint(self.opcodes)
            self.derived["meets alone"] = self.cooperative and alone and "window" not in self.specials
        found: bool = self.derived["meets alone"]
        return found

    def listing(self) -> str:
        """Return the program as text, one instruction per line, for people and tests."""
        lines = []
        for pc, row in enumerate(self.code.tolist()):
            op, guard, *rest = row
            g = "" if not guard else f"@{'!' if guard & 1 else ''}p{guard >> 3} "
            fields = " ".join(f"{n}={v}" for n, v in zip(FIELDS[2:], rest, strict=True) if v)
            lines.append(f"{pc:4} {g}{NAMES[op]} {fields}".rstrip())
        return "\n".join(lines)
