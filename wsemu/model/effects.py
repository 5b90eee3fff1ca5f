"""All facts about each operation's effects on memory and on synchronization objects, in one row each.

The table only names the facts; the code that implements them is elsewhere.  An engine may take names, nouns and sets of
operations from here.  The reference engine takes no rule from here, so that the two engines stay independent.

A row must have every field, and every asynchronous operation must have a row: otherwise this module fails to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from wsemu.model.data import NamedTuple
from wsemu.model.isa import N_OPERATIONS, OPCODE, OPERATIONS, step_word

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from wsemu.model.outcome import EventKind

Meets = Literal["", "barrier", "mbarrier", "cluster", "grid", "warp", "registers", "fence", "columns"]
Waits = Literal["", "phase", "all", "groups", "registers", "columns"]
Memory = Literal["", "shared", "global", "any"]
Unit = Literal["", "bytes", "zeros", "value", "tile", "matrix", "columns"]
Group = Literal["", "cp.async", "bulk", "wgmma", "tcgen05"]
Proxy = Literal["", "generic", "async"]
Reach = Literal["warp", "cta", "cluster", "grid"]
Counter = Literal["", "accesses", "barriers", "tiles"]


class Family(NamedTuple):
    """The operations that one generation of the hardware introduced."""

    since: int
    """first compute capability with the operations, times 10; 0: the architecture is not checked"""
    called: str
    """their name in the error for another architecture, in the plural"""
    until: int = 1000
    """first compute capability, times 10, of later hardware that lacks them again"""
    instead: str = ""
    """their substitutes on that hardware"""


class Moves(NamedTuple):
    """The effect of an operation on memory."""

    reads: Memory
    writes: Memory
    combines: bool
    """true if it combines the value with the contents of memory, as an atomic does"""
    credits: bool
    """true if it credits an mbarrier with the bytes that it moves"""
    proxy: Proxy
    """proxy that performs its memory accesses"""
    agent: bool
    """true if it runs asynchronously, while its warp continues"""
    unit: Unit
    """unit of one transfer: a range of bytes, zeros, a value of each lane, a tile of a tensor map, a matrix"""


class Effects(NamedTuple):
    """One row of the table.  No field has a default, so that each new operation decides each of them."""

    family: Family
    noun: str
    """name of an execution in reports; if empty, the name of its kind (`load`)"""
    verb: str
    """verb in reports for a thread that executes it on an object"""
    event: EventKind | Literal[""]
    """trace event that represents the operation itself, which may cause other events as well"""
    meets: Meets
    """the object through which it orders threads, warps or asynchronous operations"""
    waits: Waits
    """condition for which its lanes wait: a phase, all other threads, groups of copies, registers"""
    group: Group
    """kind of group that it joins, commits or waits for"""
    reach: Reach
    """the largest group of threads that it may reach, whatever its operands are"""
    counter: Counter
    """counter of a report that includes it, besides the mix of instructions"""
    moves: Moves

    @property
    def orders(self) -> bool:
        """Return whether it orders threads, warps or asynchronous operations."""
        return self.meets not in ("", "registers") or self.waits == "groups"


_MBARRIER, _EXPECTATION = Family(80, "mbarriers"), Family(90, "expectations of bytes")
_CP_ASYNC, _ASYNC = Family(80, "`cp.async`"), Family(90, "`st.async` and `red.async`")
_BULK, _TENSOR, _MAP = (
    Family(90, "bulk copies"),
    Family(90, "tensor copies"),
    Family(90, "fences of the tensormap proxy"),
)
_WGMMA = Family(90, "`wgmma`", 100, "`tcgen05.mma` on sm_100, `mma.sync` on sm_120, or `--arch sm_90`")
_REGISTERS, _CLUSTER = Family(90, "`setmaxnreg`"), Family(90, "barriers of clusters")
_ZERO, _ANY = Family(100, "stores of zeros (`st.bulk`)"), Family(0, "")
_TENSOR_MEMORY = Family(100, "`tcgen05`", 120, "`mma.sync`, or `--arch sm_100`")
_CANCELLATION = Family(100, "`clusterlaunchcontrol`")

_STILL = Moves("", "", False, False, "", False, "")
_BYTES_OF_THREADS = Moves("global", "shared", False, False, "generic", True, "bytes")
_BYTES_IN = Moves("global", "shared", False, True, "async", True, "bytes")
_BYTES_OUT = Moves("shared", "global", False, False, "async", True, "bytes")
_BYTES_COMBINED = Moves("shared", "global", True, False, "async", True, "bytes")
_BYTES_AHEAD = Moves("", "", False, False, "", False, "bytes")
_ZEROS = Moves("", "shared", False, False, "generic", False, "zeros")
_BYTES_ACROSS = Moves("shared", "shared", False, True, "async", True, "bytes")
_BYTES_COMBINED_ACROSS = Moves("shared", "shared", True, True, "async", True, "bytes")
_TILE_IN = Moves("global", "shared", False, True, "async", True, "tile")
_TILE_OUT = Moves("shared", "global", False, False, "async", True, "tile")
_TILE_COMBINED = Moves("shared", "global", True, False, "async", True, "tile")
_TILE_AHEAD = Moves("", "", False, False, "", False, "tile")
_VALUE_ACROSS = Moves("", "shared", False, True, "generic", True, "value")
_VALUE_COMBINED = Moves("", "shared", True, True, "generic", True, "value")
_MATRIX = Moves("shared", "", False, False, "async", True, "matrix")
_LOADED = Moves("any", "", False, False, "generic", False, "value")
_STORED = Moves("", "any", False, False, "generic", False, "value")
_CHANGED = Moves("any", "any", True, False, "generic", False, "value")
_FRAGMENTS = Moves("", "", False, False, "", False, "matrix")
_COLUMNS = Moves("", "shared", False, False, "generic", False, "columns")
_TENSOR_WORDS = Moves("", "", False, False, "", True, "columns")
_TENSOR_COPY = Moves("shared", "", False, False, "async", True, "columns")

# fmt: off
_BY_WORD: Final[dict[str, Effects]] = {
    # columns: since and family; noun, verb; event; meets, waits; group; reach; counter; memory effects
    "mbarrier.init": Effects(_MBARRIER, "initialisation", "initialises",
        "init", "mbarrier", "", "", "cta", "", _STILL),
    "mbarrier.inval": Effects(_MBARRIER, "end", "ends", "inval", "mbarrier", "", "", "cta", "", _STILL),
    "mbarrier.arrive": Effects(_MBARRIER, "arrive", "arrives on", "arrive_on", "mbarrier", "", "", "cta", "", _STILL),
    "mbarrier.expect_tx": Effects(_EXPECTATION, "expectation", "expects bytes on",
        "expect", "mbarrier", "", "", "cta", "", _STILL),
    "mbarrier.complete_tx": Effects(_EXPECTATION, "completion of bytes", "completes bytes of",
        "credit", "mbarrier", "", "", "cta", "", _STILL),
    "mbarrier.wait": Effects(_MBARRIER, "wait", "waits on", "await", "mbarrier", "phase", "", "cta", "", _STILL),
    "mbarrier.pending_count": Effects(_MBARRIER, "count of missing arrivals", "uses",
        "", "", "", "", "cta", "", _STILL),
    "mbarrier.phase": Effects(_MBARRIER, "number of a phase", "uses", "", "", "", "", "cta", "", _STILL),

    "cp.async": Effects(_CP_ASYNC, "asynchronous copy", "uses",
        "copy", "", "", "cp.async", "cta", "", _BYTES_OF_THREADS),
    "cp.async.commit": Effects(_CP_ASYNC, "commit of asynchronous copies", "uses",
        "commit", "", "", "cp.async", "cta", "", _STILL),
    "cp.async.wait": Effects(_CP_ASYNC, "wait for asynchronous copies", "uses",
        "landed", "", "groups", "cp.async", "cta", "", _STILL),
    "cp.async.arrive": Effects(_CP_ASYNC, "arrival of asynchronous copies", "lets its copies arrive on",
        "arrive_on", "mbarrier", "", "cp.async", "cta", "", _STILL),

    "bulk.load": Effects(_BULK, "bulk copy", "copies with", "copy", "", "", "", "cta", "", _BYTES_IN),
    "bulk.store": Effects(_BULK, "bulk store", "uses", "copy", "", "", "bulk", "cta", "", _BYTES_OUT),
    "bulk.reduce": Effects(_BULK, "bulk reduction", "uses", "copy", "", "", "bulk", "cta", "", _BYTES_COMBINED),
    "bulk.commit": Effects(_BULK, "commit of bulk copies", "uses", "commit", "", "", "bulk", "cta", "", _STILL),
    "bulk.wait": Effects(_BULK, "wait for bulk copies", "uses", "landed", "", "groups", "bulk", "cta", "", _STILL),
    "bulk.prefetch": Effects(_BULK, "prefetch", "uses", "", "", "", "", "cta", "", _BYTES_AHEAD),
    "bulk.zero": Effects(_ZERO, "store of zeros", "uses", "copy", "", "", "", "cta", "", _ZEROS),
    "bulk.send": Effects(_BULK, "bulk copy", "copies with", "copy", "", "", "", "cluster", "", _BYTES_ACROSS),
    "bulk.send_reduce": Effects(_BULK, "bulk reduction", "copies with",
        "copy", "", "", "", "cluster", "", _BYTES_COMBINED_ACROSS),
    "bulk.multicast": Effects(_BULK, "multicast copy", "copies with", "copy", "", "", "", "cluster", "", _BYTES_IN),

    "tensor.load": Effects(_TENSOR, "tensor copy", "copies with", "copy", "", "", "", "cta", "tiles", _TILE_IN),
    "tensor.multicast": Effects(_TENSOR, "multicast tensor copy", "copies with",
        "copy", "", "", "", "cluster", "tiles", _TILE_IN),
    "tensor.store": Effects(_TENSOR, "tensor store", "uses", "copy", "", "", "bulk", "cta", "tiles", _TILE_OUT),
    "tensor.reduce": Effects(_TENSOR, "tensor reduction", "uses",
        "copy", "", "", "bulk", "cta", "tiles", _TILE_COMBINED),
    "tensor.prefetch": Effects(_TENSOR, "tensor prefetch", "uses", "", "", "", "", "cta", "", _TILE_AHEAD),
    "map.release": Effects(_MAP, "release of tensor maps", "uses", "proxy", "fence", "", "", "cta", "", _STILL),
    "map.acquire": Effects(_MAP, "acquire of a tensor map", "uses", "proxy", "fence", "", "", "cta", "", _STILL),

    "async.store": Effects(_ASYNC, "asynchronous store", "copies with",
        "copy", "", "", "", "cluster", "", _VALUE_ACROSS),
    "async.reduce": Effects(_ASYNC, "asynchronous reduction", "copies with",
        "copy", "", "", "", "cluster", "", _VALUE_COMBINED),

    "setmaxnreg.inc": Effects(_REGISTERS, "request for registers", "uses",
        "", "registers", "registers", "", "cta", "", _STILL),
    "setmaxnreg.dec": Effects(_REGISTERS, "release of registers", "uses", "", "registers", "", "", "cta", "", _STILL),
    "cluster.arrive": Effects(_CLUSTER, "arrive at the cluster's barrier", "uses",
        "arrive_on", "cluster", "", "", "cluster", "", _STILL),
    "cluster.wait": Effects(_CLUSTER, "wait at the cluster's barrier", "uses",
        "await", "cluster", "all", "", "cluster", "", _STILL),
    "grid.arrive": Effects(_ANY, "arrive at the grid's barrier", "uses",
        "arrive_on", "grid", "", "", "grid", "", _STILL),
    "grid.wait": Effects(_ANY, "wait at the grid's barrier", "uses", "await", "grid", "all", "", "grid", "", _STILL),

    "cluster.request": Effects(_CANCELLATION, "request for a cluster", "uses",
        "", "", "", "", "cta", "", _STILL),
    "cluster.check": Effects(_CANCELLATION, "decoded response", "uses", "", "", "", "", "warp", "", _STILL),

    "tcgen05.alloc": Effects(_TENSOR_MEMORY, "allocation of tensor memory", "uses",
        "", "columns", "columns", "", "cta", "", _COLUMNS),
    "tcgen05.dealloc": Effects(_TENSOR_MEMORY, "release of tensor memory", "uses",
        "", "columns", "", "", "cta", "", _STILL),
    "tcgen05.relinquish": Effects(_TENSOR_MEMORY, "end of allocations", "uses",
        "", "columns", "", "", "cta", "", _STILL),
    "tcgen05.ld": Effects(_TENSOR_MEMORY, "load from tensor memory", "uses",
        "copy", "", "", "tcgen05", "warp", "tiles", _TENSOR_WORDS),
    "tcgen05.st": Effects(_TENSOR_MEMORY, "store to tensor memory", "uses",
        "copy", "", "", "tcgen05", "warp", "tiles", _TENSOR_WORDS),
    "tcgen05.wait": Effects(_TENSOR_MEMORY, "wait for tensor memory", "uses",
        "landed", "", "groups", "tcgen05", "warp", "", _STILL),
    "tcgen05.fence": Effects(_TENSOR_MEMORY, "fence of `tcgen05`", "uses", "", "fence", "", "", "warp", "", _STILL),
    "tcgen05.cp": Effects(_TENSOR_MEMORY, "copy to tensor memory", "uses",
        "copy", "", "", "tcgen05", "cluster", "tiles", _TENSOR_COPY),
    "tcgen05.mma": Effects(_TENSOR_MEMORY, "`tcgen05.mma`", "uses",
        "copy", "", "", "tcgen05", "cluster", "tiles", _TENSOR_COPY),
    "tcgen05.commit": Effects(_TENSOR_MEMORY, "commit of `tcgen05` operations", "lets its operations arrive on",
        "arrive_on", "mbarrier", "", "tcgen05", "cluster", "", _STILL),

    "wgmma": Effects(_WGMMA, "`wgmma`", "uses", "copy", "", "", "wgmma", "cta", "tiles", _MATRIX),
    "wgmma.fence": Effects(_WGMMA, "fence of `wgmma`", "uses", "", "fence", "", "wgmma", "warp", "", _STILL),
    "wgmma.commit": Effects(_WGMMA, "commit of `wgmma`", "uses", "", "", "all", "wgmma", "cta", "", _STILL),
    "wgmma.wait": Effects(_WGMMA, "wait for `wgmma`", "uses", "landed", "", "groups", "wgmma", "warp", "", _STILL),
    "wgmma.track": Effects(_WGMMA, "`wgmma`", "uses", "", "", "", "", "warp", "", _STILL),
    "wgmma.touch": Effects(_WGMMA, "register of `wgmma`", "uses", "", "", "", "", "warp", "", _STILL),
    "wgmma.check": Effects(_WGMMA, "register of `wgmma`", "uses", "", "", "", "", "warp", "", _STILL),
}
"""rows of asynchronous operations, by `isa.step_word`"""
_BY_KIND: Final[dict[str, Effects]] = {
    "alu": Effects(_ANY, "", "uses", "", "", "", "", "warp", "", _STILL),
    "load": Effects(_ANY, "", "uses", "access", "", "", "", "cta", "accesses", _LOADED),
    "store": Effects(_ANY, "", "uses", "access", "", "", "", "cta", "accesses", _STORED),
    "atomic": Effects(_ANY, "", "uses", "atomic", "", "", "", "cta", "accesses", _CHANGED),
    "warp": Effects(_ANY, "", "uses", "warp", "", "all", "", "warp", "", _STILL),
    "matrix": Effects(_ANY, "", "uses", "warp", "", "all", "", "warp", "", _FRAGMENTS),
    "barrier": Effects(_ANY, "", "uses", "sync", "barrier", "all", "", "cta", "barriers", _STILL),
    "fence": Effects(_ANY, "", "uses", "", "fence", "", "", "cta", "", _STILL),
    "control": Effects(_ANY, "", "uses", "", "", "", "", "warp", "", _STILL),
}
"""all other operations, by kind; `_apart` has those that differ from their kind"""
# fmt: on
OUTSIDE: Final = Effects(_ANY, "", "uses", "", "", "", "", "cta", "", _STILL)
"""row for an operation that a plug-in registers without a row"""


def _apart() -> dict[str, dict[str, Any]]:
    """Return the rows of operations that differ from their kind."""
    apart: dict[str, dict[str, Any]] = {
        "bar.arrive": {"event": "arrive", "waits": ""},
        "exit": {"event": "exit"},
        "elect.sync": {"family": Family(90, "`elect.sync`")},
        "nanosleep": {"family": Family(70, "`nanosleep`"), "meets": ""},
        "show": {"meets": ""},
        "forget": {"meets": ""},
        "syncwarp": {"meets": "warp"},
        "fence.mbarrier_init": {"family": Family(90, "`fence.mbarrier_init`")},
        "fence.proxy": {"event": "proxy"},
    }
    apart |= {f"fence.{scope}": {"event": f"fence.{scope}"} for scope in ("cta", "gpu", "sys")}
    apart |= {name: {"event": "", "waits": ""} for name in ("activemask", "alike.b64")}
    families = {"collect.": (90, "`stmatrix`"), "redux.": (80, "`redux.sync`"), "match.": (70, "`match.sync`")}
    for beginning, family in families.items():
        apart |= {name: {"family": Family(*family)} for name in OPERATIONS if name.startswith(beginning)}
    return apart


def _row(name: str, apart: dict[str, dict[str, Any]]) -> Effects:
    operation = OPERATIONS[name]
    row = _BY_WORD[step_word(name)] if operation.kind == "async" else _BY_KIND[operation.kind]
    return row._replace(**apart[name]) if name in apart else row


def _make_table() -> dict[str, Effects]:
    apart = _apart()
    unknown = (apart.keys() - OPERATIONS.keys()) | (_BY_WORD.keys() - {step_word(name) for name in OPERATIONS})
    if unknown:
        raise ValueError(f"rows of operations that do not exist: {', '.join(sorted(unknown))}")
    return {name: _row(name, apart) for name in OPERATIONS}


EFFECTS: Final = _make_table()
"""the row of each operation, by name"""


def effects_of(name: str) -> Effects:
    """Return the row of an operation, which may come from a plug-in.  An asynchronous operation may be named without
    its type."""
    return EFFECTS.get(name) or _BY_WORD.get(name, OUTSIDE)


def enter(name: str, row: Effects) -> None:
    """Add the row of an operation from a plug-in, which `isa.enter` has added."""
    if name in EFFECTS:
        raise ValueError(f"operation {name!r} has a row")
    EFFECTS[name] = row


def leave(name: str) -> None:
    """Remove a row that was entered."""
    if OPCODE.get(name, N_OPERATIONS) < N_OPERATIONS:
        raise ValueError(f"operation {name!r} was not entered")
    del EFFECTS[name]


def find_names(wanted: Callable[[Effects], bool]) -> frozenset[str]:
    """Return the operations whose rows are wanted."""
    return frozenset(name for name, row in EFFECTS.items() if wanted(row))


def find_words(wanted: Callable[[Effects], bool]) -> frozenset[str]:
    """Return the names of the selected asynchronous operations, without their types."""
    return frozenset(word for word, row in _BY_WORD.items() if wanted(row))


def find_opcodes(wanted: Callable[[Effects], bool]) -> frozenset[int]:
    """Return the numbers of the selected operations."""
    return frozenset(OPCODE[name] for name in find_names(wanted))


BRINGS: Final = find_words(lambda row: row.moves.credits)
"""copies that credit an mbarrier with the bytes that they transfer"""
PUTS: Final = find_words(lambda row: row.group == "bulk" and row.moves.agent and not row.moves.combines)
"""copies out of shared memory that do not change the bytes"""
COMBINES: Final = find_opcodes(lambda row: row.moves.combines and row.moves.agent)
"""asynchronous operations that combine a value with the contents of memory"""
ASYNCHRONOUS_PROXY: Final = find_opcodes(lambda row: row.moves.proxy == "async")
