"""The issue slots and pipes that operations use, derived from the machine code that ptxas generates for them.

An operation of the bytecode may need no machine code (moves, conversions between integer widths) or several
instructions (64-bit integers, division).  `find_work` returns the counts; `timing/constants.py` has the cycles of a
device.
"""

from __future__ import annotations

from functools import cache

from wsemu.model.data import NamedTuple
from wsemu.model.isa import NARROW, OPERATIONS, PROXIES, RELAXED, REMOTE, UNSCOPED, memory_shape
from wsemu.model.matrix import COLLECT, COLUMNS, SPREAD, WGMMA

WIDE = 0.8
"""fraction of PTX's 64-bit integer work that remains in machine code; fitted to one third of the SAXPY launches"""
MUCH = 40
"""number of issue slots of a division of doubles"""


class Work(NamedTuple):
    """The use of a multiprocessor by one operation of a warp."""

    kind: str
    """kind of item, one of `multiprocessor.layout.KINDS`"""
    slots: float = 1.0
    pipe: str = ""
    """one of `constants.PIPES`; empty for an operation without a pipe"""
    times: float = 0.0
    """number of uses of the pipe by each execution"""


NOTHING = Work("none", 0.0)
"""the work of an operation without machine code"""
_INTEGER = ("mad", "mul", "madwide", "mulwide", "mulhi")
_QUICK = ("sqrt", "rcp", "rsqrt", "exp2", "log2", "sin", "cos")
_BY_NAME = {
    "bar.sync": "bar_sync", "bar.arrive": "bar_arrive", "bar.red.popc": "bar_sync", "bar.red.and": "bar_sync",
    "bar.red.or": "bar_sync", "cp.async.commit": "group_close", "cp.async.wait": "group_wait",
    "bulk.commit": "group_close", "bulk.wait": "group_wait", "wgmma.commit": "product_close",
    "wgmma.wait": "product_wait", "cp.async.arrive": "arrive_copies",
}  # fmt: skip
_EVENTS = ("mbarrier.", "bulk.", "tensor.", "cluster.", "async.")
"""name prefixes of operations whose effects are the events of the run"""
_STORES = ("bulk.store", "bulk.reduce", "tensor.store", "tensor.reduce")
_ORDERING = ("fence.gpu", "fence.sys", "fence.proxy")
"""fences over which nothing is moved"""
_FREE = ("wgmma.track", "wgmma.touch", "wgmma.check", "wgmma.fence")
APART = ("cluster.request", "cluster.check", "grid.")
"""name prefixes of operations of several CTAs together, whose times are not predicted"""


@cache
def find_work(name: str) -> Work:
    """Return the work of an operation."""
    kind = OPERATIONS[name].kind
    if kind == "alu":
        return _arithmetic(name)
    base = name.split(".")[0]
    if kind == "control":
        return NOTHING if base == "join" else Work("end" if base == "exit" else "branch")
    if kind == "warp":
        return Work("plain") if base == "syncwarp" else Work("plain", 1.0, "shuffle", 1.0)
    if kind == "matrix":
        if base in (SPREAD, COLLECT):  # the access of `ldmatrix` or `stmatrix` is an operation of its own
            return NOTHING
        return Work("matrix") if base == "mma" else Work("shared")
    if kind in ("load", "store", "atomic"):
        return Work(kind)
    if name in _BY_NAME:
        return Work(_BY_NAME[name])
    if kind == "async":
        return _asynchronous(name)
    return Work("events" if name in _ORDERING else "plain")


def _asynchronous(name: str) -> Work:
    if name.startswith(_FREE):
        return NOTHING
    if name.startswith("cp.async."):
        return Work("cp_async")
    if name.startswith("wgmma."):
        return Work("product")
    if name.startswith(_STORES):
        return Work("bulk_store")
    return Work("events" if name.startswith(_EVENTS) else "plain")


def _arithmetic(name: str) -> Work:
    base = name.split(".")[0]
    group = OPERATIONS[name].group
    wide = name.endswith("64")
    if base in ("mov", "varying") or name.endswith("pred"):
        return NOTHING
    if group in ("f32", "f64") or (base in ("fma", "add", "sub", "mul") and ".f" in name):
        if name.endswith("f64"):
            return Work("plain", MUCH if base == "div" else 1, "fp64", 1)
        return Work("plain", 10, "fma", 10) if base == "div" else Work("plain", 1, "fma", 1)
    if group == "special":
        return Work("plain", 2 if base in _QUICK else 20, "special", 1)
    if base == "cvt":
        if ".f" in name:
            return Work("plain", 1, "convert", 1)
        narrows = name.startswith(("cvt.b32.", "cvt.b16", "cvt.b8"))
        return Work("plain", 1, "alu", 1) if not narrows and ".s" in name else NOTHING
    return _integer(base, wide)


def _integer(base: str, wide: bool) -> Work:
    if base == "index":
        return Work("plain", 1, "fma", 2)
    if base in _INTEGER:
        return Work("plain", 3 if wide and base in ("mad", "mul", "mulhi") else 1, "fma", 2)
    if base in ("div", "rem", "floordiv", "floormod"):
        return Work("plain", 70 if wide else 22, "fma", 40)
    if base == "setp":
        return Work("plain", 2, "alu", 2) if wide else Work("plain", 1, "alu", 1)
    if not wide:
        return Work("plain", 1, "alu", 1)
    if base in ("min", "max"):
        return Work("plain", 4 * WIDE, "alu", 4 * WIDE)
    return Work("plain", 2 * WIDE, "alu", (1.5 if base in ("add", "sub") else 2) * WIDE)


def waits_for_accesses(name: str, immediate: int, auxiliary: int) -> bool:
    """Return whether ptxas puts a MEMBAR of GPU scope here: the warp waits until its earlier accesses are visible to
    other CTAs."""
    if name == "fence.proxy":
        return PROXIES[immediate] in ("async", "async.global")
    if name in _ORDERING:
        return True
    if auxiliary & RELAXED:
        return False
    narrow = NARROW | UNSCOPED
    return name == "cluster.arrive" or (name == "mbarrier.arrive" and auxiliary & (REMOTE | narrow) == REMOTE)


def product_columns(auxiliary: int) -> int:
    """Return the number of columns of `d` of a wgmma."""
    return 8 * (auxiliary & COLUMNS)


def takes_registers(name: str) -> bool:
    """Return whether a wgmma has `a` in registers."""
    return not WGMMA[name].shared


def is_double(name: str) -> bool:
    """Return whether an mma multiplies doubles."""
    return name.endswith("f64")


def find_rows(name: str, first: int, row: int) -> list[int]:
    """Return the register rows that a load fills or a store reads."""
    return [first + k * row for k in range(memory_shape(name)[2])]


def is_wide_sum(name: str) -> bool:
    """Return whether an operation adds 64-bit numbers, as address computations do."""
    return name.endswith("b64") and name.split(".")[0] in ("add", "sub", "shl", "mul", "selp", "and")


def keeps_offsets(name: str) -> bool:
    """Return whether the result of an operation stays a foldable offset if its operand is one."""
    base = name.split(".")[0]
    return base in ("index", "shl", "mad", "madwide", "mulwide", "cvt") and ".f" not in name


def is_sum(name: str) -> bool:
    """Return whether an operation is an integer sum or difference of 32 or 64 bits."""
    return name.split(".")[0] in ("add", "sub") and name.endswith(("b64", "b32"))


def leads_to_addresses(name: str) -> bool:
    """Return whether an operation may be part of an address computation."""
    steps = ("add", "sub", "index", "shl", "mul", "mad", "selp", "and", "cvt", "mov", "mulwide", "madwide")
    return OPERATIONS[name].kind == "alu" and name.split(".")[0] in steps


DIVIDED_BY_CONSTANT = Work("plain", 6, "fma", 3)
"""the work of a division by a constant, which becomes a multiplication and shifts in machine code"""


def is_division(name: str) -> bool:
    """Return whether an operation divides integers."""
    return OPERATIONS[name].group == "integer" and name.split(".")[0] in ("div", "rem", "floordiv", "floormod")


def is_branch(name: str) -> bool:
    """Return whether an operation jumps, conditionally or always."""
    return name in ("bra", "jump")


def is_jump(name: str) -> bool:
    """Return whether an operation is a conditional branch."""
    return name == "bra"


def is_copy(name: str) -> bool:
    """Return whether an operation copies to shared memory asynchronously."""
    return find_work(name).kind == "cp_async" or name in ("bulk.load", "tensor.load")
