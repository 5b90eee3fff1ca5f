"""Recursive functions, and the stack memory of a thread for `alloca`.

Other functions are inlined.  Functions that may call each other are emitted once for each call site from outside, with
a first and a last block.  A call among them saves the registers that are needed later, on the thread's stack in local
memory.  It also saves a number that selects the block to which the callee returns.  So lanes of one warp may be at
different depths; they reconverge where functions end.

On an H200, lanes no longer converge if a function calls itself more than once and lanes took different paths through
the calls (measured: `fibonacci(lane)`).  Since ptxas assumes convergence, it emits no code that waits for the other
lanes: shuffles read missing lanes, and `bar.sync` lets part of a warp proceed.  This was not observed for a function
with one recursive call, nor if all lanes took the same path.  So each lane records the calls that it made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.flow import Liveness, reachable
from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.assemble.graph import Instruction as GraphInstruction
from wsemu.frontend.assemble.simplify import assignments, fixed_registers
from wsemu.frontend.assemble.ways import APART, FACTOR
from wsemu.frontend.ptx.emit import REGISTER_TYPES, Emitter, Frame, Place
from wsemu.frontend.ptx.outliving import find_outliving
from wsemu.frontend.ptx.provenance import passed_operands, propagate_provenance
from wsemu.frontend.ptx.sizes import variable_size
from wsemu.frontend.ptx.steps import BITS, move
from wsemu.frontend.ptx.variables import LARGEST, ONLY_LOCAL, CallParameter, enter_stack_variable
from wsemu.model.addresses import SAVED
from wsemu.model.data import dataclass, field
from wsemu.model.isa import STACK_UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.frontend.assemble.graph import Block, Register
    from wsemu.frontend.ptx.module import Module
    from wsemu.frontend.ptx.syntax import Function, Variable

MOST = 16 << 10
"""maximum bytes of a thread's stack"""
UNIT = STACK_UNIT
"""allocation unit of the stack in bytes"""
_LINK = -8
"""offset of the word before memory of `alloca` that holds the start of the memory allocated before it"""
Places = Sequence["Place | Register"]
Body = Callable[["Emitter", "Function"], None]
"""function that emits the body of a function"""
Pieces = list[tuple[int, str]]
"""(offset, type) of each register that passes a parameter or result"""


@dataclass(slots=True)
class Stack:
    """A thread's stack, which follows its variables in local memory."""

    top: Register
    """address of the first free byte"""
    frame: Register
    """address of the variables of the running recursive function"""
    way: Register
    """register with the sequence of calls within regions, as one number"""
    returned: Register
    """1 once a call within this region has ended"""
    tree: Register
    """1 once another call followed a call that had ended"""
    last: Register
    """start of the last memory that `alloca` has allocated and that is not freed; 0: none"""
    spent: Register = 0
    """address below which no variable may begin, because one whose address may be in use has begun there"""
    allocated: list[Register] = field(default_factory=list)
    """registers with addresses that `alloca` returns"""
    releases: list[tuple[Block, GraphInstruction]] = field(default_factory=list)
    """instructions that let memory of `alloca` be allocated again, each at the start of its block"""
    restored: dict[Register, int] = field(default_factory=dict)
    """registers that `stackrestore` reads, and its offset in the text"""
    starts: list[tuple[GraphInstruction, int]] = field(default_factory=list)
    """instructions whose second operand is a number of stack bytes, and what is added to the size of the variables"""
    largest: int = 0
    """maximum bytes by which variables may exceed the limit"""
    largest_saved: int = 0
    """maximum bytes by which the registers that a call saves before it may do so"""
    sites: list[_Site] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)


class _Moves(NamedTuple):
    """The instructions that move the end of the stack where a function begins and ends."""

    start: GraphInstruction
    """the instruction that chooses the address of the variables"""
    keep: GraphInstruction
    """the store of the former end after the variables"""
    room: GraphInstruction
    """the instruction that reserves memory for the variables"""
    spend: GraphInstruction
    """the instruction that lets no other variable begin at their addresses"""
    back: GraphInstruction
    """the instruction that restores the former end"""


@dataclass(slots=True)
class Instance:
    """A function of a region, which is emitted once."""

    module: Module
    function: Function
    begin: Block
    end: Block
    names: dict[str, Register | Place]
    """the parameters and results by name"""
    passed: list[tuple[int, str, Register]]
    """(offset, type, register) of its results while they are passed"""
    local_bytes: int = 0
    entered: dict[int, list[Register]] = field(default_factory=dict)
    """offsets of the variables whose extents are stored before them on the stack -> registers with their addresses"""
    named: dict[str, int] = field(default_factory=dict)
    """names of these variables -> their offsets"""
    callers: list[tuple[int, Block]] = field(default_factory=list)
    """(number, block after the call)"""
    moves: _Moves | None = None


@dataclass(slots=True)
class Region:
    """Functions that may call each other, entered from one call site."""

    function: Function
    first: int
    """number of its first block"""
    number: Register
    """selects the block that follows the end of a function"""
    instances: dict[int, Instance] = field(default_factory=dict)
    pending: list[Instance] = field(default_factory=list)
    calls: int = 0


@dataclass(slots=True)
class _Site:
    """A call from a function of a region to another one, with the registers that it saves and their offsets."""

    save: Block
    restore: Block
    behind: Block
    callee: Instance
    region: Region


# -- the stack ---------------------------------------------------------------------------------------------------------
def stack(e: Emitter) -> Stack:
    """Return the kernel's stack; the first call allocates it."""
    if e.stack_memory is None:
        new = e.graph.new
        e.stack_memory = Stack(new("b64"), new("b64"), new("b64"), new("b32"), new("b32"), new("b64"), new("b64"))
    return e.stack_memory


def check(e: Emitter, what: str) -> None:
    """End the run if the stack exceeds its maximum size."""
    own = stack(e)
    with e.looking_up():
        used = e.emit("sub.b64", own.top, e.special("local"))
    limit = GraphInstruction("setp.gt.u64", (e.graph.new("p"),), (used, TRUE), span=e.span, stack=e.stack)
    own.starts.append((limit, MOST))
    e.code.append(limit)
    kept = e.guard, e.negated
    e.guard, e.negated = limit.results[0], False
    e.stop(f"{what} takes more than {MOST:,} bytes of a thread's stack")
    e.guard, e.negated = kept


def allocate(e: Emitter, size: Register, alignment: int) -> Register:
    """Allocate some bytes on the stack under the guard; return the address as a b64 register."""
    own = stack(e)
    mask = e.constant("b64", -max(alignment, UNIT))
    begin = e.emit("and.b64", e.emit("add.b64", own.top, e.constant("b64", max(alignment, UNIT) - 1 + UNIT)), mask)
    most = e.emit("min.u64", size, e.constant("b64", 2 * MOST))
    end = e.emit("add.b64", begin, e.emit("and.b64", e.emit("add.b64", most, e.constant("b64", UNIT - 1)),
                                          e.constant("b64", -UNIT)))  # fmt: skip
    e.effect_into("mov.b64", (end,), (own.top,))
    own.largest = max(own.largest, 3 * MOST)
    check(e, "`alloca`")
    named = enter_stack_variable(e, begin, most)
    e.effect("forget", (begin, most))
    e.effect("st.b64", (begin, own.last), immediate=_LINK, auxiliary=ONLY_LOCAL)
    e.effect_into("mov.b64", (begin,), (own.last,))
    own.allocated.append(named)
    return named


def release(e: Emitter, top: Register) -> None:
    """Free the memory that `alloca` has allocated since the stack ended at `top`: later accesses are out of bounds."""
    own = stack(e)
    again_, inside, done = e.new_block(), e.new_block(), e.new_block()
    e.jump(again_)
    e.place(again_)
    with e.looking_up():
        e.guard, e.negated = e.emit("setp.gt.u64", own.last, top), False
    e.branch(inside, done)
    e.place(inside)
    e.guard = TRUE
    e.effect("st.b64", (own.last, e.constant("b64", 0)), immediate=-UNIT, auxiliary=ONLY_LOCAL)
    (older,) = e.effect("ld.b64", (own.last,), ("b64",), immediate=_LINK, auxiliary=ONLY_LOCAL)
    e.assign(own.last, "mov.b64", older)
    e.jump(again_)
    e.place(done)
    e.assign(own.top, "mov.b64", top)
    if top != own.frame:  # a caller finds the registers that it saved where its frame ends
        own.releases.append((done, done.instructions[-1]))


# -- calls -------------------------------------------------------------------------------------------------------------
def enter(e: Emitter, home: Module, function: Function, arguments: Places, results: Places, body: Body) -> None:
    """Emit a call from outside of a region: the region, with the functions that it may call."""
    region = Region(function, len(e.graph.blocks), e.graph.new("b32"))
    own = stack(e)
    e.assign(own.returned, "mov.b32", e.constant("b32", 0))
    trees = e.emit("setp.ne.b32", own.tree, e.constant("b32", 0))
    e.assign(own.way, "selp.b64", own.way, e.constant("b64", 0), trees)  # otherwise the path does not matter
    instance = _instance(e, region, home, function)
    _pass(e, instance, _values(e, function.parameters, arguments))
    after = _emit_jump(e, region, instance)
    _emit(e, region, body)
    e.place(after)
    _copy_results(e, instance, results)


def again(e: Emitter, home: Module, function: Function, arguments: Places, results: Places) -> None:
    """Emit a call from within a region to a function of the same region."""
    region = e.frames[-1].region
    assert region is not None
    instance = _instance(e, region, home, function)
    values = _values(e, function.parameters, arguments)
    save = e.new_block()
    e.jump(save)
    e.place(save)
    going = e.new_block()
    e.jump(going)
    e.place(going)
    _pass(e, instance, values)
    _note_call(e, region.calls + 1)
    restore = _emit_jump(e, region, instance)
    e.place(restore)
    own = stack(e)
    e.assign(own.returned, "mov.b32", e.constant("b32", 1))
    e.assign(own.way, "mul.b64", own.way, e.constant("b64", FACTOR))  # nested calls differ from consecutive calls
    behind = e.new_block()
    e.jump(behind)
    e.place(behind)
    stack(e).sites.append(_Site(save, restore, behind, instance, region))
    _copy_results(e, instance, results)


def _note_call(e: Emitter, number: int) -> None:
    """Record one more call on the thread's path."""
    own = stack(e)
    longer = e.emit("mul.b64", own.way, e.constant("b64", FACTOR))
    e.assign(own.way, "add.b64", longer, e.constant("b64", number))
    e.assign(own.tree, "or.b32", own.tree, own.returned)


def check_ways(e: Emitter) -> None:
    """Before a warp-wide operation, end the run if the lanes took different paths through calls."""
    own = stack(e)
    trees = e.emit("setp.ne.b32", own.tree, e.constant("b32", 0))
    way = e.emit("selp.b64", own.way, e.constant("b64", 0), trees)
    (same,) = e.effect("alike.b64", (way, e.constant("b32", -1)), ("p",))
    kept = e.guard, e.negated
    within = e.emit("not.pred", e.guard) if e.negated else e.guard
    e.guard, e.negated = e.emit("and.pred", e.emit("not.pred", same), within), False
    e.stop(APART)
    e.guard, e.negated = kept


def _instance(e: Emitter, region: Region, home: Module, function: Function) -> Instance:
    """Return the instance of a function, to be emitted if it is new."""
    found = region.instances.get(id(function))
    if found is None:
        names = {v.name: _place(e, v) for v in function.parameters}
        names |= {v.name: CallParameter(v) if v.space != "reg" else _place(e, v) for v in function.results}
        passed = [(at, type_, e.graph.new(type_)) for v in function.results for at, type_ in pieces(v)]
        found = Instance(home, function, e.new_block(), e.new_block(), names, passed)
        region.instances[id(function)] = found
        region.pending.append(found)
    return found


def _place(e: Emitter, variable: Variable) -> Register | Place:
    if variable.space == "reg":
        return e.graph.new(REGISTER_TYPES[variable.type])
    place = CallParameter(variable)
    for at, type_ in pieces(variable):
        place.store(e, type_, at)
    return place


def pieces(variable: Variable) -> Pieces:
    """Return the pieces of a variable: a number as it is, a structure as words and then bytes."""
    if variable.space == "reg" or not variable.shape:
        return [(0, REGISTER_TYPES[variable.type])]
    size = variable_size(variable)
    words = [(at, "b32") for at in range(0, size - 3, 4)]
    return [*words, *((at, "b8") for at in range(size // 4 * 4, size))]


def _values(e: Emitter, parameters: Sequence[Variable], arguments: Places) -> list[Register]:
    """Return copies of arguments, piece by piece."""
    values = []
    for variable, place in zip(parameters, arguments, strict=True):
        for at, type_ in pieces(variable):
            value = place if isinstance(place, int) else place.load(e, type_, at)  # type: ignore[attr-defined]
            values.append(e.emit(move(type_), value))
    return values


def _pass(e: Emitter, instance: Instance, values: Sequence[Register]) -> None:
    """Copy arguments to the registers from which the function reads them."""
    registers = list(_registers(e, instance.function.parameters, instance))
    for (type_, register), value in zip(registers, values, strict=True):
        e.assign(register, move(type_), value)


def _registers(e: Emitter, declared: Sequence[Variable], instance: Instance) -> Iterator[tuple[str, Register]]:
    for variable in declared:
        place = instance.names[variable.name]
        for at, type_ in pieces(variable):
            yield type_, place if isinstance(place, int) else place.store(e, type_, at)  # type: ignore[attr-defined]


def _emit_jump(e: Emitter, region: Region, instance: Instance) -> Block:
    """Jump to the function; return the block in which its caller continues."""
    back = e.new_block()
    instance.callers.append((region.calls, back))
    e.assign(region.number, "mov.b32", e.constant("b32", region.calls))
    region.calls += 1
    e.jump(instance.begin)
    return back


def _copy_results(e: Emitter, instance: Instance, results: Places) -> None:
    """Copy results to the registers of the caller."""
    passed = iter(instance.passed)
    for variable, place in zip(instance.function.results, results, strict=True):
        for _ in pieces(variable):
            at, type_, register = next(passed)
            into = place if isinstance(place, int) else place.store(e, type_, at)  # type: ignore[attr-defined]
            e.assign(into, move(type_), register)


# -- regions -----------------------------------------------------------------------------------------------------------
def _emit(e: Emitter, region: Region, body: Body) -> None:
    """Emit the functions, then their ends, once all callers are known."""
    for instance in region.pending:  # which grows meanwhile
        _function(e, region, instance, body)
    for instance in region.pending:
        _end(e, region, instance)


def _function(e: Emitter, region: Region, instance: Instance, body: Body) -> None:
    own = stack(e)
    kept = e.names, e.span, e.stack, e.located
    e.place(instance.begin)
    e.guard, e.negated = TRUE, False
    where = f"{SAVED}{instance.begin.index}"
    start = GraphInstruction("max.u64", (own.frame,), (own.top, own.spent), span=e.span, stack=e.stack)
    keep = GraphInstruction("st.b64", (), (own.frame, own.top), span=e.span, stack=e.stack, array=where)
    room = GraphInstruction("add.b64", (own.top,), (own.frame, TRUE), span=e.span, stack=e.stack)
    e.code += [start, keep, room]
    instance.moves = _Moves(start, keep, room, room, room)
    own.instances.append(instance)
    check(e, f"the recursion of `{instance.function.name}`")
    forget, begin = GraphInstruction("forget", (), (own.frame, TRUE), span=e.span, stack=e.stack), e.code
    begin.append(forget)
    e.frames.append(Frame(instance.function, instance.end, (*e.stack, e.span), region=region, instance=instance))
    e.stack, e.located = (*e.stack, e.span), False
    with e.within(instance.module):
        e.names = [e.scopes[instance.module.source.path], dict(instance.names)]
        body(e, instance.function)
    e.names, e.span, e.stack, e.located = kept
    e.frames.pop()
    e.jump(instance.end)
    keep.immediate = instance.local_bytes
    forget.operands = (own.frame, e.constant("b64", instance.local_bytes))
    if not instance.local_bytes:
        begin.remove(forget)
    room.operands = (own.frame, e.constant("b64", instance.local_bytes + UNIT))
    own.largest = max(own.largest, instance.local_bytes + UNIT)


def allocates(home: Module, function: Function) -> bool:
    """Return whether a function uses `alloca`."""
    return home.file.text.find("alloca", function.at, function.end) >= 0


def _end(e: Emitter, region: Region, instance: Instance) -> None:
    """End a function: pass its results, free its variables, and return to the caller."""
    own = stack(e)
    e.place(instance.end)
    e.guard, e.negated = TRUE, False
    passed = iter(instance.passed)
    for variable in instance.function.results:
        place = instance.names[variable.name]
        for _ in pieces(variable):
            at, type_, register = next(passed)
            value = place if isinstance(place, int) else place.load(e, type_, at)  # type: ignore[attr-defined]
            e.assign(register, move(type_), value)
    for offset in sorted(instance.entered):  # the variables end here, even if their addresses are still in use
        e.effect("st.b64", (own.frame, e.constant("b64", 0)), immediate=offset - UNIT, auxiliary=ONLY_LOCAL)
    assert instance.moves is not None
    is_allocating, keep = allocates(instance.module, instance.function), instance.moves.keep
    last = e.emit("add.b64", own.frame, e.constant("b64", max(instance.entered, default=0)))
    e.assign(own.spent, "max.u64", own.spent, own.top if is_allocating else last)
    spend = e.code[-1]
    if is_allocating:
        release(e, own.frame)
    e.code.append(_step("ld.b64", (own.top,), (own.frame,), instance.end, keep.immediate, keep.array))
    instance.moves = instance.moves._replace(spend=spend, back=e.code[-1])
    for number, back in instance.callers[:-1]:
        e.guard, e.negated = e.emit("setp.eq.b32", region.number, e.constant("b32", number)), False
        following = e.new_block()
        e.branch(back, following)
        e.place(following)
    e.guard = TRUE
    e.jump(instance.callers[-1][1])


# -- saved registers ---------------------------------------------------------------------------------------------------
def finish(e: Emitter) -> None:
    """Complete a kernel after all its code is emitted: the values that calls save on the stack, and the start of the
    stack."""
    own = e.stack_memory
    if own is None:
        return
    graph = e.graph
    blocks = {block.index: block for block in graph.blocks}
    kept = reachable(blocks)
    order = [block for block in graph.blocks if block.index in kept]
    again_ = {register for register, count in assignments(order).items() if count > 1}
    begin = GraphInstruction("add.b64", (own.top,), (e.special("local"), TRUE))
    spent = GraphInstruction("mov.b64", (own.spent,), (own.top,))
    own.starts.append((begin, 0))
    nothing = [
        GraphInstruction(f"mov.{graph.types[register]}", (register,), (e.constant(graph.types[register], 0),))
        for register in (own.way, own.returned, own.tree, own.last)
    ]
    order[0].instructions[:0] = [begin, GraphInstruction("mov.b64", (own.frame,), (own.top,)), spent, *nothing]
    _refuse_other_tops(e, own, order)
    _keep_from_reuse(e, own, order)
    _separate_addresses(e, own)
    sites = [site for site in own.sites if site.behind.index in kept]
    for site in sites:  # a register needed after a call is needed before it, because the function may not write it
        site.save.successors = (*site.save.successors, site.behind.index)
    liveness = Liveness(order, fixed_registers(graph), again_)
    for site in sites:
        site.save.successors = site.save.successors[:1]
    for site in sites:
        _keep(e, own, site, liveness.before(site.behind.index), order)
    static = -(-graph.local_bytes // UNIT) * UNIT
    for instruction, more in own.starts:
        instruction.operands = (instruction.operands[0], e.constant("b64", static + more))
    graph.local_bytes = static + MOST + -(-(own.largest + own.largest_saved) // UNIT) * UNIT
    if graph.local_bytes > LARGEST["local"]:
        raise e.error(
            e.frames[0].function.at,
            f"local memory and stack need {graph.local_bytes:,} bytes: at most {LARGEST['local']:,}",
            "make the variables smaller",
        )


def _keep_from_reuse(e: Emitter, own: Stack, order: Sequence[Block]) -> None:
    """Do not allocate memory of `alloca` again if an address in it may be used after it was freed.  Otherwise the old
    address would be one of the new memory, in which an access is not out of bounds."""
    held = set(propagate_provenance(e.graph, dict.fromkeys(own.allocated, 1)))
    if not held or not own.releases:
        return
    stored = any(not held.isdisjoint(passed_operands(code)) for block in order for code in block.instructions)
    several = {register for register, count in assignments(order).items() if count > 1}
    guarded = {register for block in order for code in block.instructions if code.guard for register in code.results}
    used = Liveness(order, fixed_registers(e.graph), several | guarded).before_all(held)
    for block, code in own.releases:
        if stored or used.get(block.index):
            block.instructions = [other for other in block.instructions if other is not code]


def _separate_addresses(e: Emitter, own: Stack) -> None:
    """Let no variable begin where one has begun whose address may be used after its function has returned, because the
    old address would name the new variable."""
    left = _find_left(e, own)
    for instance in own.instances:
        assert instance.moves is not None
        start, keep, room, spend, back = instance.moves
        removed = [] if id(instance) in left else [spend]
        if not left:
            start.operation, start.operands = "mov.b64", (own.top,)
            back.operation, back.operands, back.immediate, back.array = "mov.b64", (own.frame,), 0, None
            room.operands = (own.frame, e.constant("b64", instance.local_bytes))
            removed.append(keep)
        for block in (instance.begin, instance.end):
            block.instructions = [code for code in block.instructions if not any(code is one for one in removed)]


def _find_left(e: Emitter, own: Stack) -> set[int]:
    """Return the identities of the functions with variables whose addresses may be used after they have returned."""
    spots = [(i, at) for i in own.instances for at in sorted({*i.entered, *i.named.values()})]
    mine = {id(i): sum((i is other) << n for n, (other, _) in enumerate(spots)) for i in own.instances}
    given = {row: 1 << n for n, (i, at) in enumerate(spots) for row in i.entered.get(at, ())}
    named = {name: 0 for i in own.instances for name in i.named}
    for n, (i, at) in enumerate(spots):
        named.update((name, named[name] | 1 << n) for name, start in i.named.items() if start == at)
    left, held = find_outliving(
        e.graph, given, [mine[id(i)] for i, _ in spots],
        lambda code: named.get(code.array or "", 0) if code.operands[0] == own.frame else 0,
        [row for i in own.instances for _, row in _registers(e, i.function.parameters, i)],
    )  # fmt: skip
    passed = [row for i in own.instances for *_, row in i.passed]
    for row in passed:
        left |= held.get(row, 0)
    blocks = propagate_provenance(e.graph, dict.fromkeys(own.allocated, 1)).keys()
    codes = (code for block in e.graph.blocks for code in block.instructions)
    stored = any(not blocks.isdisjoint(rows) for rows in (passed, *map(passed_operands, codes)))
    return {id(i) for i in own.instances if left & mine[id(i)] or (stored and allocates(i.module, i.function))}


def _refuse_other_tops(e: Emitter, own: Stack, order: Sequence[Block]) -> None:
    """Let the launch be incomplete if a `stackrestore` may read anything but the result of a `stacksave`."""
    code = [i for block in order for i in block.instructions]
    sources: dict[Register, list[GraphInstruction]] = {}
    for i in code:
        for result in i.results:
            sources.setdefault(result, []).append(i)
    for register, at in own.restored.items():
        pending, seen = [register], {own.top}
        while pending:
            found = pending.pop()
            seen.add(found)
            made = sources.get(found, [])
            if not made or any(i.operation != "mov.b64" for i in made):
                place = e.source.place(at)
                e.graph.unmodelled.append(f"`stackrestore` of a value that may not come from `stacksave` ({place})")
                break
            pending += [i.operands[0] for i in made if i.operands[0] not in seen]


def _keep(e: Emitter, own: Stack, site: _Site, needed: Sequence[Register], order: Sequence[Block]) -> None:
    """Save before a call, and restore after it, the registers that are needed afterwards and that the call may
    change."""
    written = {
        register
        for block in order
        if block.index >= site.region.first
        for instruction in block.instructions
        for register in instruction.results
    }
    written -= {own.top, own.way, own.returned, own.tree, own.last, own.spent}
    written -= {register for _, _, register in site.callee.passed}
    saved = [register for register in needed if register in written]
    size = -(-8 * len(saved) // UNIT) * UNIT
    own.largest_saved = max(own.largest_saved, size + 2 * UNIT)
    amount = e.constant("b64", size)
    into, back = site.save.instructions, site.restore.instructions
    back.append(_step("sub.b64", (own.top,), (own.top, amount), site.restore))
    for n, register in enumerate(saved):
        into += _save_registers(e, own.top, 8 * n, register, site)
        back += _restore_registers(e, own.top, 8 * n, register, site)
    into.append(_step("add.b64", (own.top,), (own.top, amount), site.save))


def _step(
    operation: str,
    results: tuple[Register, ...],
    operands: tuple[Register, ...],
    block: Block,
    at: int = 0,
    array: str | None = None,
) -> GraphInstruction:
    return GraphInstruction(operation, results, operands, at, span=block.span, stack=block.stack, array=array)


def _save_registers(e: Emitter, top: Register, at: int, register: Register, site: _Site) -> Iterator[GraphInstruction]:
    type_, block = e.graph.types[register], site.save
    if type_ == "p":
        number = e.graph.new("b32")
        yield _step("selp.b32", (number,), (e.constant("b32", 1), e.constant("b32", 0), register), block)
        register, type_ = number, "b32"
    yield _step(f"st.b{BITS[type_]}", (), (top, register), block, at, f"{SAVED}{site.save.index}")


def _restore_registers(
    e: Emitter, top: Register, at: int, register: Register, site: _Site
) -> Iterator[GraphInstruction]:
    type_, block, array = e.graph.types[register], site.restore, f"{SAVED}{site.save.index}"
    if type_ != "p":
        yield _step(f"ld.b{BITS[type_]}", (register,), (top,), block, at, array)
        return
    number = e.graph.new("b32")
    yield _step("ld.b32", (number,), (top,), block, at, array)
    yield _step("setp.ne.b32", (register,), (number, e.constant("b32", 0)), block)
