"""The parts in which the VM is compiled: the source of each part, and the parts that a launch needs.

Parts are compiled separately, when a launch first needs them, and call each other by address: the entries are fields of
the machine, and a table has the families of arithmetic operations. So new instructions do not make a start slower.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wsemu.machine.arithmetic.families import CORE, FAMILIES, family_of
from wsemu.machine.memory.cell_bits import WIDTHS
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    FIRST_GROUP_OPERATION,
    FIRST_MATRIX,
    N_ALU,
    N_ATOMIC,
    N_CONTROL,
    N_MEMORY,
    N_OPERATIONS,
    N_WARP,
    NAMES,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wsemu.machine.lowering import Part

_HERE = __name__.rpartition(".")[0]


class Made(NamedTuple):
    """The source of a compiled part."""

    module: str
    function: str
    family: str = ""
    """family of operations for which the function creates an entry"""
    rare: bool = False
    """true if it runs rarely: its functions are not inlined, and its code is not optimized"""
    loops: bool = False
    """true if it spends its time in loops over numbers, where all optimizations of the compiler are profitable"""
    width: int = 0
    """an index of `cell_bits.WIDTHS`"""


ENTRIES = {
    "run": Made("scheduler", "run"),
    "warp_entry": Made("scheduler", "run_warp"),
    "collective_entry": Made("scheduler", "collective"),
    "exchange_entry": Made("warp_operations", "warp_operation"),
    "access_entry": Made("scheduler", "access"),
    "matrix_entry": Made("matrix.multiply", "matrix_operation", loops=True),
    "exact_entry": Made("matrix.exact", "add_exactly", rare=True),
    "group_entry": Made("matrix.wgmma", "group_operation", loops=True),
    "tensor_memory_entry": Made("matrix.tensor_memory", "tensor_memory_operation", loops=True),
    "atomic_entry": Made("memory.lane_access", "atomic"),
    "atomic_cost_entry": Made("memory.costs", "packed_atomic_cost"),
    "noted_entry": Made("memory.read_only", "access_noted"),
    "window_entry": Made("memory.window", "access_in_group"),
    "report_entry": Made("memory.bounds", "enter_finding"),
    "shadow_entry": Made("memory.shadow", "track"),
    "conflict_entry": Made("memory.shadow", "conflict"),
    "planned_entry": Made("memory.plans", "as_planned", loops=True),
    "plan_entry": Made("memory.plans", "make_plan"),
    "lanes_entry": Made("memory.lane_order", "judge_lanes"),
    "known_entry": Made("memory.shadow", "not_known_one_by_one"),
    "trace_entry": Made("sync.clocks", "log_event"),
    "async_entry": Made("asynchronous", "asynchronous"),
    "copy_entry": Made("agents.copies", "copy_operation"),
    "tensor_entry": Made("agents.tensor_copy", "tensor_operation"),
    "cluster_entry": Made("between_ctas", "between_ctas", rare=True),
    "guarded_entry": Made("sync.clobber", "access_guarded"),
    "ordered_entry": Made("memory.ordered", "access_ordered"),
    "joined_entry": Made("memory.joined", "track_joined", rare=True),
    "any_way_entry": Made("tier.accesses", "any_way"),
    "some_entry": Made("tier.accesses", "some_side_by_side"),
    "within_entry": Made("tier.sections", "judge_in_section"),
    "section_entry": Made("tier.sections", "enter_section_event"),
}
"""name -> source of the part; all except `run` are fields of the machine"""
OF_TIME = {
    "logged_entry": Made("steps", "run_warp_logged"),
    "multiprocessor": Made("multiprocessor.model", "run", loops=True),
}
"""parts that only the prediction of times needs: `warp_entry` with a log of each instruction, and the model of a
multiprocessor"""
PARTS = ENTRIES | {family: Made("arithmetic.operations", "family", family) for family in FAMILIES} | OF_TIME
OF_WIDTH = (
    "run", "warp_entry", "collective_entry", "exchange_entry", "matrix_entry", "group_entry", "shadow_entry",
    "conflict_entry", "lanes_entry", "known_entry", "async_entry", "copy_entry", "tensor_entry", "cluster_entry",
    "tensor_memory_entry", "planned_entry", "joined_entry", "logged_entry",
)  # fmt: skip
"""parts that read clocks or cells, whose format differs for groups of many warps; such groups have several co-resident
CTAs and no blocks"""


def part_for_width(name: str, width: int) -> str:
    """Return the name of a part for machines of a width."""
    return f"{name}.{WIDTHS[width]}" if width and name in OF_WIDTH else name


WIDE_PARTS = {
    part_for_width(name, width): PARTS[name]._replace(width=width)
    for width in range(1, len(WIDTHS))
    for name in OF_WIDTH
}
ALL_PARTS = PARTS | WIDE_PARTS
SLOWEST = (
    "access_entry", "collective_entry", "warp_entry", "narrow", "shadow_entry", "exchange_entry", "atomic_entry",
    "lanes_entry", "library",
)  # fmt: skip
"""the first parts to be compiled, in this order, so that two processes finish at the same time"""
ALWAYS = ("run", "warp_entry", "collective_entry", "access_entry", "report_entry", "trace_entry")
ASYNCHRONOUS = ("async_entry", "copy_entry", "guarded_entry")
RACES = ("shadow_entry", "conflict_entry", "known_entry", "planned_entry", "plan_entry")


def roots(name: str) -> tuple[str, ...]:
    """Return the modules that a part is compiled from, and the compiler's; the cache adds all that these import."""
    return __name__, f"{_HERE}.lowering", f"{_HERE}.{ALL_PARTS[name].module}"


@lru_cache(maxsize=1 << 12)
def _part_of(opcode: int) -> tuple[str, ...]:
    """Return the parts that one operation needs besides ALWAYS."""
    if opcode < N_ALU:
        family = family_of(NAMES[opcode])
        return () if family == CORE else (family,)
    if N_MEMORY <= opcode < N_ATOMIC:
        return "atomic_entry", "atomic_cost_entry"
    if FIRST_GROUP_OPERATION <= opcode < N_OPERATIONS:
        return (*ASYNCHRONOUS, "group_entry")
    if opcode >= N_CONTROL:
        if NAMES[opcode].startswith("tcgen05."):
            return (*ASYNCHRONOUS, "tensor_memory_entry")
        if NAMES[opcode].startswith(("cluster.", "async.", "grid.")):
            return (*ASYNCHRONOUS, "cluster_entry")
        return (*ASYNCHRONOUS, "tensor_entry") if NAMES[opcode].startswith(("tensor.", "map.")) else ASYNCHRONOUS
    if FIRST_MATRIX <= opcode < N_WARP:
        return ("matrix_entry",)
    return ("exchange_entry",) if N_ATOMIC <= opcode < N_WARP else ()


def needed_parts(
    opcodes: Iterable[int],
    *,
    races: bool,
    exact: bool,
    noted: bool,
    grouped: bool = False,
    ordered: bool = False,
    joined: bool = False,
    clusters: bool = False,
    asynchronous: bool = False,
    sums: bool = False,
) -> frozenset[str]:
    """Return the parts that a launch needs, by the operations of its program.

    `races` checks for races, `exact` also between the lanes of a warp. `noted` records loads through the read-only
    cache. `grouped` means that several CTAs are co-resident, `clusters` that they form clusters. `ordered` waits for
    the host before ordered accesses, `joined` joins stores of one value, `asynchronous` gives each lane a clock from
    the start, and `sums` rounds the sums of matrices once.
    """
    found = {part for opcode in opcodes for part in _part_of(opcode)}
    found.update(ALWAYS, RACES if races else (), ("lanes_entry",) if exact else (), ("noted_entry",) if noted else ())
    found.update(("window_entry",) if grouped else (), ("cluster_entry",) if clusters else ())
    found.update(ASYNCHRONOUS if asynchronous else (), ("ordered_entry",) if ordered else ())
    found.update(("exact_entry",) if sums else (), ("joined_entry",) if joined else ())
    return frozenset(found)


def compilation_order(names: Collection[str]) -> list[str]:
    """Return parts in the order in which they are compiled."""
    place = {name: at for at, name in enumerate(SLOWEST)}
    return sorted(names, key=lambda name: (place.get(name.partition(".")[0], len(place)), name))


def compile_part(name: str, cpu: str = "") -> Part:
    """Return a part's symbol, the functions that it needs from elsewhere, and its object code.

    `cpu` is the name of a baseline's CPU, or empty for this CPU.
    """
    from wsemu.machine.lowering import compile_function

    function, made = find_source(name)
    return compile_function(function, name, rare=made.rare, loops=made.loops, width=made.width, cpu=cpu)


def find_source(name: str) -> tuple[Any, Made]:
    """Return the function of a part, and the options with which to compile it."""
    made = ALL_PARTS[name]
    function = getattr(importlib.import_module(f"{_HERE}.{made.module}"), made.function)
    return (function(made.family) if made.family else function), made
