"""Branches, the ends of threads and functions, barriers and fences (PTX ISA 9.7.12, 9.7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx import tensor_maps
from wsemu.frontend.ptx.cluster import barrier_form
from wsemu.frontend.ptx.emit import Emitter
from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.memory import FENCES, emit_fence
from wsemu.frontend.ptx.syntax import Instruction, Name, Operand
from wsemu.model.isa import ALIGNED, BOTH_WAYS, OPERATIONS, PROXIES, SEQUENTIAL
from wsemu.model.program import GIVES_UP

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Block, Register


# -- flow ------------------------------------------------------------------------------------------------------------
def label(e: Emitter, name: Name) -> Block:
    """Return the block that a label of the function begins."""
    for labels in reversed(e.frames[-1].labels):
        if name.text in labels:
            return labels[name.text]
    raise e.error(name.at, f"there is no label `{name.text}` in this function", "branch to a label of the function")


def check_uniform(e: Emitter, instruction: Instruction) -> None:
    """Check `.uni` of a guarded instruction: it promises that all lanes that execute it together have the same
    predicate."""
    if "uni" not in instruction.modifiers or e.guard == TRUE or _is_polled(e, e.guard):
        return
    kept = e.guard, e.negated
    e.guard, e.negated = TRUE, False
    taken = e.emit("selp.b64", e.constant("b64", 1), e.constant("b64", 0), kept[0])
    (same,) = e.effect("alike.b64", (taken, e.constant("b32", -1)), ("p",))
    e.guard, e.negated = same, True
    e.emit_undefined(
        f"lanes of a warp differ at a guarded `{instruction.opcode}.uni`",
        "PTX: `.uni` guarantees that all active threads of the warp have the same predicate",
        "leave `.uni` out",
    )
    e.guard, e.negated = kept


_POLLED = frozenset({"load", "atomic", "async"})
"""kinds of operations whose results a polling loop reads"""


def _is_polled(e: Emitter, register: Register) -> bool:
    """Return whether a predicate comes from memory, or from a wait, in the same block.  The branch then belongs to a
    polling loop; Triton and CUTLASS write `.uni` there although each lane has its own result."""
    wanted = {register}
    for code in reversed(e.block.instructions):
        if not wanted.isdisjoint(code.results):
            known = OPERATIONS.get(code.operation)
            if known is not None and known.kind in _POLLED:
                return True
            wanted.update(code.operands)
    return False


def branch(e: Emitter, instruction: Instruction) -> None:
    """Lower `bra`."""
    if not set(instruction.modifiers) <= {"uni"}:
        e.emit_unsupported()
        return
    check_uniform(e, instruction)
    if len(instruction.operands) != 1 or not isinstance(instruction.operands[0], Name):
        raise e.error(instruction.at, "`bra` goes to one label", "write `bra $L1;`")
    following = e.new_block()
    e.branch(label(e, instruction.operands[0]), following)
    e.place(following)


def indexed_branch(e: Emitter, instruction: Instruction) -> None:
    """Lower `brx.idx` to a branch for each entry of the table; an index beyond the table is undefined."""
    operands = instruction.operands
    table = e.frames[-1].tables.get(operands[1].text) if len(operands) == 2 and isinstance(operands[1], Name) else None
    if table is None or not table.labels or instruction.guard is not None:
        e.emit_unsupported()
        return
    index = e.read(operands[0], "b32")
    for n, target in enumerate(table.labels):
        e.guard, e.negated = e.emit("setp.eq.b32", index, e.constant("b32", n)), False
        following = e.new_block()
        e.branch(label(e, Name(target, table.at)), following)
        e.place(following)
    e.guard, e.negated = TRUE, False
    count = len(table.labels)
    e.emit_undefined(
        f"`brx.idx` with an index beyond `{table.name}`, which has {count} target{'s' * (count != 1)}",
        "PTX: the behavior is undefined if the index is not less than the number of targets",
        f"keep the index below {count}, or add a target",
    )


def return_(e: Emitter, instruction: Instruction) -> None:
    """Lower `ret`: continue in the caller, or end the thread."""
    check_uniform(e, instruction)
    after = e.frames[-1].after
    if after is None:
        e.leave("exit")
        return
    function = e.frames[-1].function
    if "noreturn" in function.directives:
        e.emit_undefined(
            f"`{function.name}` returns, which is declared `.noreturn`",
            "PTX: a function with `.noreturn` does not return to its caller",
            "end it with `exit` or `trap`, or leave `.noreturn` out",
        )
        return
    following = e.new_block()
    e.branch(after, following)
    e.place(following)


def leave(e: Emitter, instruction: Instruction) -> None:
    """Lower `exit`: end the thread."""
    e.leave("exit")


def abort(e: Emitter, instruction: Instruction) -> None:
    """Lower `trap`: the kernel aborts, and the results of the launch are undetermined."""
    e.emit_unsupported(GIVES_UP)


# -- barriers --------------------------------------------------------------------------------------------------------
_BARRIER = frozenset("cta warp sync arrive red aligned popc and or u32 pred".split())
"""modifiers, of which only a few combinations are valid"""


def barrier(e: Emitter, instruction: Instruction) -> None:
    """Lower `bar` and `barrier`: sync, arrive, red; and `bar.warp.sync`."""
    modifiers = instruction.modifiers
    if modifiers[:1] == ("cluster",) and instruction.opcode == "barrier":
        found = barrier_form(modifiers)
        if found is None:
            e.emit_unsupported()
        else:
            e.effect(found[0], auxiliary=found[1])
        return
    if not _BARRIER.issuperset(modifiers):
        e.emit_unsupported()
        return
    if modifiers[:1] == ("warp",):
        e.effect("syncwarp", (e.read(_operands(e, instruction, 1)[0], "b32"),))
        return
    aligned = ALIGNED if instruction.opcode == "bar" or "aligned" in modifiers else 0
    what = next((m for m in modifiers if m in ("sync", "arrive", "red")), "")
    if not what:
        e.emit_unsupported()
    elif what == "red":
        _reduction(e, instruction, aligned)
    else:
        least = 1 if what == "sync" else 2
        given = _operands(e, instruction, least)
        if len(given) > 2:
            raise UnhandledForm
        operands = tuple([e.read(operand, "b32") for operand in given])
        e.effect(f"bar.{what}", operands, auxiliary=aligned)


def _operands(e: Emitter, instruction: Instruction, least: int) -> tuple[Operand, ...]:
    if len(instruction.operands) < least:
        name = ".".join((instruction.opcode, *instruction.modifiers))
        raise e.error(instruction.at, f"`{name}` has too few operands", f"give {least} or more")
    return instruction.operands


def _reduction(e: Emitter, instruction: Instruction, aligned: int) -> None:
    """Lower `bar.red.popc.u32 %r1, 0, 64, %p1`."""
    destination, number, *count, predicate = _operands(e, instruction, 3)
    what = next((m for m in instruction.modifiers if m in ("popc", "and", "or")), "")
    if not what:
        e.emit_unsupported()
        return
    type_ = "b32" if what == "popc" else "p"
    operands: list[Register] = [e.read(operand, "b32") for operand in (number, *count)]
    operands.append(e.read(predicate, "p"))
    result = e.target(destination, type_)
    e.effect_into(f"bar.red.{what}", tuple(operands), (result,), auxiliary=aligned)
    e.write_register(destination, result)


# -- fences ----------------------------------------------------------------------------------------------------------
_OF_INIT = ["cluster", "mbarrier_init", "release"]


def fence(e: Emitter, instruction: Instruction) -> None:
    """Lower `membar` and `fence`, in both directions."""
    *order, scope = instruction.modifiers or ("",)
    kind = ".".join(instruction.modifiers[1:])
    if instruction.modifiers[:1] == ("proxy",) and kind in PROXIES and kind.startswith("tensormap"):
        tensor_maps.fence(e, kind, instruction.operands)
    elif instruction.modifiers[:1] == ("proxy",) and kind in PROXIES:
        e.effect("fence.proxy", immediate=PROXIES.index(kind))
    elif instruction.opcode == "fence" and sorted(instruction.modifiers) == _OF_INIT:
        e.effect("fence.mbarrier_init")
    elif scope in FENCES and set(order) <= {"sc", "acq_rel"}:
        emit_fence(e, scope, BOTH_WAYS if "acq_rel" in order else SEQUENTIAL)
    else:
        e.emit_unsupported()


def sleep(e: Emitter, instruction: Instruction) -> None:
    """Lower `nanosleep`."""
    e.effect("nanosleep")


def nothing(e: Emitter, instruction: Instruction) -> None:
    """Lower `brkpt`, which has no effect here."""


HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "bra": branch,
    "brx": indexed_branch,
    "ret": return_,
    "exit": leave,
    "trap": abort,
    "brkpt": nothing,
    "bar": barrier,
    "barrier": barrier,
    "membar": fence,
    "fence": fence,
    "nanosleep": sleep,
}
