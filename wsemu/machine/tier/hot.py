"""Selection of programs that get compiled blocks, and the creation and storage of blocks.

A program that the VM has run for HOT warp instructions gets a block of the stretches that took most of them. A separate
thread compiles the block while the launch continues, and the machine uses it from the next slice on. A block has the
same effects as the VM: no report shows which of them ran.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np

from wsemu.machine import build as native
from wsemu.machine import cache
from wsemu.machine.state import NOTHING, PERMIT, address_of
from wsemu.machine.tier.section_tables import Sections, may_have
from wsemu.machine.tier.shapes import CREDIT, Rows, given_shapes, indices_outside
from wsemu.model.control_flow import changes_flow, successors
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.model.isa import LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.machine.lowering import Part
    from wsemu.machine.tier.shapes import Shape
    from wsemu.machine.vm import Machine
    from wsemu.model.program import Program

Tier = Literal["auto", "off", "always", "restless"]
"""`auto`: programs that run long get blocks; `always`: all programs that are not too long get one before they run;
`restless`: like `always`, but for tests blocks leave to the VM at random instructions"""
TIERS: tuple[str, ...] = get_args(Tier)
VARIABLE = "WSEMU_TIER"
"""environment variable, which child processes inherit"""
HOT = 10_000_000
"""warp instructions of a program, in all its launches, after which it gets a block: some tenths of a second"""
FORESEEABLE = 30_000_000
"""warp instructions so far and expected, estimated from the finished CTAs, from which on a launch need not become
HOT"""
WORTH = 200_000
"""instructions of a machine after which it uses an existing block: the change costs as much as ten thousand of them"""
LONG = 1_000_000
"""instructions of a machine after which the next launch of its program should use the block from the start"""
SEEN = 500_000
"""instructions of a machine that suffice to determine the hot stretches"""
MOST_OF_IT = 0.98
"""share of the VM's executed instructions that a block should cover"""
LARGEST = 1500
"""instructions of a block from which on no stretch is added"""
LOOKS = 4
"""number of times, for each block in use, that a machine examines rows with other shapes than the block assumes"""
MOST_BLOCKS = 8
"""maximum number of blocks of a program; after that, none is rebuilt for other registers"""
LONGEST = 4000
"""maximum number of instructions of a stretch: longer ones take the compiler seconds, and it cannot be interrupted"""
MOST_WHOLE = 4000
"""maximum number of instructions of a program that is compiled as a whole before it runs"""


def resolve_tier() -> Tier:
    """Return the value of the environment variable; for programs that run once, `auto` if it would build blocks
    first."""
    found = os.environ.get(VARIABLE) or "auto"
    if found not in TIERS:
        raise UsageError(f"{VARIABLE} is {found!r}: set it to one of {', '.join(TIERS)}, or to nothing")
    return "auto" if _once.get() and found != "off" else cast("Tier", found)


def tier_of(program: Program) -> Tier:
    """Return the tier of a program: the selected one, or `auto` if the program is too long to be compiled as a
    whole."""
    tier = resolve_tier()
    return tier if tier == "off" or len(program.code) <= MOST_WHOLE else "auto"


_once: ContextVar[bool] = ContextVar("once", default=False)


@contextlib.contextmanager
def run_once() -> Iterator[None]:
    """Inside the block, programs run only once, such as edits that are tried as fixes: no block is built before they
    run."""
    token = _once.set(True)
    try:
        yield
    finally:
        _once.reset(token)


THREAD = "wsemu: a block"
"""name of a thread that compiles a block"""


PLANS = ("planned_entry", "plan_entry")
"""parts that perform planned accesses, and create plans"""
ACCESSES = ("any_way_entry", "some_entry")
"""parts with the accesses of blocks"""
SECTIONS = ("section_entry", "within_entry")
"""parts that record and compare the sections of CTAs"""


class Placed(NamedTuple):
    """A block that is loaded in this process: its entry points, and its address."""

    starts: tuple[int, ...]
    address: int


class Wanted(NamedTuple):
    """Everything that determines a block besides its program."""

    given: tuple[tuple[int, Shape | None], ...]
    width: int
    restless: bool
    outside: tuple[int, ...]
    """`index` instructions whose index may be outside, see `indices_outside`"""


class Heat:
    """Execution profile of a program, and its blocks."""

    def __init__(self) -> None:
        self.instructions = 0
        self.lately = 0
        """instructions of the machine that ran last"""
        self.outside: frozenset[int] = frozenset()
        """instructions that `indices_outside` has returned so far"""
        self.given: dict[tuple[int, int, int], tuple[tuple[int, Shape | None], ...]] = {}
        """results of `given_shapes`, by the threads of a CTA along x, y and z; arguments are uniform"""
        self.blocks: dict[Wanted, Placed | None] = {}
        """the block, or None while it is being compiled or if it cannot be"""


_making = threading.Lock()


def heat_of(program: Program) -> Heat:
    """Return the execution profile of a program."""
    found: Heat | None = program.derived.get("heat")
    return found or program.derived.setdefault("heat", Heat())


def warm(machine: Machine, executed: int) -> None:
    """Record that a machine has executed this number of warp instructions."""
    machine.executed += executed
    machine.work += executed
    heat = heat_of(machine.program)
    heat.instructions += executed
    heat.lately = machine.work


def may_need_block(machine: Machine) -> bool:
    """Return whether a block may soon be used; whether one is possible is tested only after SEEN instructions."""
    return machine.tier == "auto" and machine.permits is None and (machine.work < SEEN or _fit(machine))


def instructions_until_block(machine: Machine, often: int) -> int:
    """Return the warp instructions after which a machine may use an existing block of its program.

    If there is none, return `often`, the number between two checks for a new block.
    """
    known = machine.work < machine.worth and heat_of(machine.program).blocks
    return min(often, machine.worth - machine.work) if known else often


def look(machine: Machine) -> None:
    """Between two slices: make a machine use its program's block, or request one, if it is time."""
    if machine.permits is not None:
        machine.permits["span"] = 0
    auto, heat, there = machine.tier == "auto", heat_of(machine.program), machine.permits is not None
    if machine.work == 0:
        machine.worth = WORTH if heat.lately < LONG else 0
    if auto and machine.work < machine.worth:  # the launch may end before the block is profitable
        return
    if (auto and not _hot(machine, heat)) or (there and not _other_one(machine, heat)) or not _fit(machine):
        return
    if machine.wanted is None:
        machine.wanted = _first_wanted(machine, heat)
    wanted = machine.wanted
    if auto and wanted not in heat.blocks:
        if machine.work < SEEN:
            return
        wanted = machine.wanted = _with_registers(machine, wanted, heat)
    with _making:
        known = wanted in heat.blocks
        if not known:
            heat.blocks[wanted] = None
    if not known:
        starts = _hot_starts(machine) if auto else _all_starts(machine.program)
        if auto:
            _compile_in_thread(machine.program, wanted, starts)
        else:
            _compile_or_load(machine.program, wanted, starts)
    block = heat.blocks[wanted]
    if block is not None:
        _take_up(machine, block)


def _first_wanted(machine: Machine, heat: Heat) -> Wanted:
    """Return the block that fits the machine's CTAs."""
    given = heat.given.get(machine.threads)
    if given is None:
        found = given_shapes(machine.program, machine.registers)
        given = heat.given[machine.threads] = tuple(sorted(found.items()))
    return Wanted(given, machine.width, machine.tier == "restless", tuple(sorted(heat.outside)))


def _with_registers(machine: Machine, wanted: Wanted, heat: Heat) -> Wanted:
    """Return a requested block with the current shapes of the registers."""
    segments = int(machine.state[0]["segment_count"])
    heat.outside |= indices_outside(machine.program, machine.registers, segments)
    return wanted._replace(outside=tuple(sorted(heat.outside)))


def _hot(machine: Machine, heat: Heat) -> bool:
    """Return whether a block for the machine's program is profitable."""
    state = machine.state[0]
    done, left = (abs(int(state[name] - state["group"])) for name in ("group_first", "group_end"))
    to_come = machine.executed * left // done if done else 0
    return bool(heat.blocks) or heat.instructions >= HOT or heat.instructions + to_come >= FORESEEABLE


def _other_one(machine: Machine, heat: Heat) -> bool:
    """Request another block for a machine that has one, if rows have other shapes than the block assumes.

    Return whether one may be built. The first block stays in use until then.
    """
    wanted = machine.wanted
    if machine.tier != "auto" or wanted is None or machine.blocks is None:
        return False
    if (machine.blocks < 0).any() and len(heat.blocks) < MOST_BLOCKS:
        wanted = machine.wanted = _with_registers(machine, wanted, heat)
    return heat.blocks.get(wanted) is not machine.block


def _take_up(machine: Machine, block: Placed) -> None:
    machine.block = block
    blocks = machine.blocks = np.zeros(len(machine.image.code) + 1, np.int64)
    blocks[list(block.starts)] = CREDIT
    state = machine.state[0]
    state["blocks"], state["block_entry"], state["looks"] = address_of(blocks), block.address, LOOKS
    machine.permits = np.zeros(len(machine.plans), PERMIT)
    state["permits"] = address_of(machine.permits)
    machine.ahead = np.zeros((len(machine.plans), machine.warp_count), np.int64)
    state["ahead"] = address_of(machine.ahead)
    machine.warps["known_at"] = 0
    _use(machine, ACCESSES)
    _begin_sections(machine)
    if not machine.watch.races:  # the VM then makes no plans, from which a block learns the layout of lanes
        _use(machine, PLANS)
        state["planned"] = state["shortcuts"]


def _use(machine: Machine, names: tuple[str, ...]) -> None:
    """Make the machine use these parts, and not others that would replace its own."""
    parts = native.load_parts(names, machine.width)
    for name in names:
        machine.state[0][name] = parts[name]


def _begin_sections(machine: Machine) -> None:
    """Start without recorded sections; for CTAs that tier/sections.py does not support, none will be recorded."""
    state = machine.state[0]
    known = machine.sections = Sections()
    state["foreseen"], state["section"], state["beat"], state["sections"] = known.nowhere, NOTHING, 0, 0
    alone = state["members"] == 1 and not state["lockstep"] and may_have(machine.program)
    if alone and state["readers"] and state["clocks"]:
        _use(machine, SECTIONS)
        state["sections"] = known.address


_COSTS = ("shared", "ideal_shared", "sectors", "ideal_sectors")


def settle(machine: Machine) -> None:
    """Add to the counters what a machine's blocks did by permits, and accesses that were not checked again."""
    if machine.permits is None:
        return
    permits, rows = machine.permits[1:], machine.accesses  # accesses are numbered from 1
    number, count = rows["pattern"][:-1], permits["count"]
    pcs = np.searchsorted(number, np.arange(1, len(machine.permits)))
    rows["executions"][pcs] += count
    rows["lanes"][pcs] += LANES * count
    for cost in _COSTS:
        rows[cost][pcs] += count * permits[cost]
    permits["count"] = 0
    if machine.sections is not None:
        machine.sections.settle(rows)


def drop(machine: Machine) -> None:
    """Stop using blocks in a machine, whose log then contains everything that it executes."""
    machine.tier = "off"
    machine.state[0]["blocks"] = machine.state[0]["sections"] = 0


def _fit(machine: Machine) -> bool:
    """Return whether a machine performs accesses by the functions that blocks assume."""
    state = machine.state[0]
    before = (("noted_entry", bool(machine.marks)), ("guarded_entry", machine.image.asynchronous))
    made, usual = native.address("access_entry", machine.width), True
    for name, there in before:
        if there:
            usual &= bool(state[name] == made)
            made = native.address(name, machine.width)
    return bool(usual and state["access_entry"] == made and state["shortcuts"] and not state["trace"] | state["claims"])


def _all_starts(program: Program) -> list[int]:
    """Return all targets of control flow."""
    code = program.code.tolist()
    found = {0}
    for pc, row in enumerate(code):
        if changes_flow(row[0]):
            found.update(successors(pc, row))
    return sorted(pc for pc in found if pc < len(code))


def _hot_starts(machine: Machine) -> list[int]:
    """Return the stretches of whole warps that took most of the executed instructions."""
    flow = machine.flow[:-1]
    work = flow["count"] * flow["length"] * (flow["lanes"] == LANES * flow["count"])
    rest = MOST_OF_IT * int((flow["count"] * flow["length"]).sum())
    chosen, size = [], 0
    for pc in np.argsort(-work, kind="stable").tolist():
        if rest <= 0 or not work[pc] or size > LARGEST:
            break
        rest -= int(work[pc])
        if flow["length"][pc] <= LONGEST:
            chosen.append(pc)
            size += int(flow["length"][pc])
    return sorted(chosen)


def _compile_in_thread(program: Program, wanted: Wanted, starts: list[int]) -> None:
    """Run `_compile_or_load` in a separate thread."""

    def compile_quietly() -> None:
        # SystemExit: see `_stop_making`; if no block can be compiled for another reason, the VM continues without one
        with contextlib.suppress(SystemExit, Exception):
            _compile_or_load(program, wanted, starts)

    _stop_at_exit()
    threading.Thread(target=compile_quietly, name=THREAD, daemon=True).start()


@functools.cache
def _stop_at_exit() -> None:
    """Arrange that compilations of blocks are given up before the interpreter ends: the compiler must not run while its
    modules are removed."""
    atexit.register(_stop_making)


def _stop_making() -> None:
    """Stop the threads that compile blocks, and wait until the compiler lets them end."""
    for thread in _makers():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    wait_for_blocks()


def _makers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def wait_for_blocks() -> None:
    """Wait until no block is being compiled."""
    for thread in _makers():
        thread.join()


if hasattr(os, "register_at_fork"):  # otherwise a child could wait forever for the compiler's locks
    os.register_at_fork(before=wait_for_blocks)


# -- making one --------------------------------------------------------------------------------------------------------


def _compile_or_load(program: Program, wanted: Wanted, starts: list[int]) -> None:
    """Compile a block, or load it from the cache; if that is impossible, the VM continues to run the program."""
    from wsemu.machine.tier.block import leaders

    rows = Rows(program, dict(wanted.given), frozenset(wanted.outside))
    places = tuple(pc for pc in leaders(rows, starts) if rows.before[pc] is not None)
    if not places:
        return
    key = _key(program, wanted, places)
    symbol = f"block_{key}"
    part = cache.read_block(symbol)
    if part is None:
        part = _compile_block(rows, wanted, places, symbol)
        cache.write_block(symbol, part)
    native.load_parts((*PLANS, *ACCESSES, *SECTIONS), wanted.width)  # needed by machines that will use the block
    heat_of(program).blocks[wanted] = Placed(places, native.load_extra_part(symbol, part))


def _compile_block(rows: Rows, wanted: Wanted, places: tuple[int, ...], symbol: str) -> Part:
    from wsemu.machine.lowering import compile_module
    from wsemu.machine.tier.block import Block

    part = compile_module(
        lambda module: Block(module, rows, places, symbol, restless=wanted.restless), symbol, width=wanted.width
    )
    cache.require_imported_text()
    return part


def _key(program: Program, wanted: Wanted, places: tuple[int, ...]) -> str:
    """Return the key of all inputs of a block besides the modules of this package."""
    text = repr((program.code.shape, wanted, places, program.constants))
    return hashlib.sha256(program.code.tobytes() + text.encode()).hexdigest()[:32]
