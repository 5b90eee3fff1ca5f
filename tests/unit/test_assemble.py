"""The assembler: what it keeps, where registers lie, where lanes meet again, and that programs still mean the same."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from wsemu.frontend.assemble.allocate import Groups, Webs, parallel_copy
from wsemu.frontend.assemble.encode import assemble
from wsemu.frontend.assemble.flow import EXIT, immediate_post_dominators
from wsemu.frontend.assemble.graph import TRUE, Block, Graph, Instruction, Phi, Register
from wsemu.model.isa import FIELDS, LANES, NAMES, OPERATIONS, ROW, SEGMENT_SHIFT, SIZE
from wsemu.model.program import Parameter, Program, Span
from wsemu.reference import run as reference
from wsemu.reference.arithmetic import semantics, to_unsigned

OUT = 3 << SEGMENT_SHIFT


def names(program: Program) -> list[str]:
    return [NAMES[op] for op in program.code[:, 0].tolist()]


def graph_with_output() -> tuple[Graph, Register]:
    """An empty graph and the register with the address of the thread's own 8 bytes of the output array."""
    graph = Graph("test", spans=[Span("test.py", 1, 0, 1, 0)])
    base, wide, place = graph.new("b64"), graph.new("b64"), graph.new("b64")
    graph.parameters[base] = Parameter(0, "b64", 0, (), "address", 0)
    entry = graph.block()
    entry.instructions += [
        Instruction("cvt.b64.u32", (wide,), (graph.special("tid.x"),)),
        Instruction("mad.b64", (place,), (wide, graph.constant("b64", 8), base)),
    ]
    return graph, place


def execute(program: Program, values: int = 1, threads: int = LANES) -> np.ndarray:
    """Run one CTA on the reference interpreter; the output array as [value, thread] of uint64."""
    out = np.zeros(values * LANES, np.uint64)
    rows: reference.Rows = {p.row: ("b64", OUT) for p in program.parameters}
    outcome = reference.run(program, (1, 1, 1), (threads, 1, 1), rows, [(out.view(np.uint8), True)], budget=200_000)
    assert outcome.status == "done", outcome
    assert not outcome.findings
    return out.reshape(values, LANES)


# -- dead code, copies, constants ---------------------------------------------------------------------------------
def test_unused_arithmetic_is_dropped_and_loads_are_kept() -> None:
    graph, place = graph_with_output()
    a, b, c = graph.new("b32"), graph.new("b32"), graph.new("b32")
    graph.blocks[0].instructions += [
        Instruction("ld.b32", (a,), (place,)),
        Instruction("add.b32", (b,), (a, a)),
        Instruction("mul.b32", (c,), (b, b)),
    ]
    assert names(assemble(graph)) == ["cvt.b64.u32", "mad.b64", "ld.b32", "exit"]


def test_a_branch_on_a_constant_and_the_dead_arm_disappear() -> None:
    graph, place = graph_with_output()
    first = graph.blocks[0]
    arm, other = graph.block(), graph.block()
    first.end, first.successors, first.predicate = "bra", (1, 2), graph.constant("p", False)
    arm.instructions.append(Instruction("st.b64", (), (place, graph.constant("b64", 1))))
    arm.successors = (2,)
    other.instructions.append(Instruction("st.b64", (), (place, graph.constant("b64", 2))))
    program = assemble(graph)
    assert names(program) == ["cvt.b64.u32", "mad.b64", "st.b64", "exit"]
    assert [c.value for c in program.constants] == [8, 2]


def test_graph_is_left_as_it_was() -> None:
    graph = counting_loop()
    before = repr(graph)
    first = assemble(graph)
    assert repr(graph) == before
    assert assemble(graph).listing() == first.listing()


# -- loops, phis --------------------------------------------------------------------------------------------------
def counting_loop() -> Graph:
    """for i in range(tid): total += i; out = total"""
    graph, place = graph_with_output()
    tid, zero, one = graph.special("tid.x"), graph.constant("b32", 0), graph.constant("b32", 1)
    i, following, total, sum_, more = (graph.new(t) for t in ("b32", "b32", "b32", "b32", "p"))
    head, body, after = graph.block(), graph.block(), graph.block()
    graph.blocks[0].successors = (1,)
    head.phis = [Phi(i, {0: zero, 2: following}), Phi(total, {0: zero, 2: sum_})]
    head.instructions.append(Instruction("setp.lt.u32", (more,), (i, tid)))
    head.end, head.successors, head.predicate = "bra", (2, 3), more
    body.instructions += [Instruction("add.b32", (sum_,), (total, i)), Instruction("add.b32", (following,), (i, one))]
    body.successors = (1,)
    after.instructions.append(Instruction("st.b32", (), (place, total)))
    after.end = "exit"
    return graph


def test_a_loop_carried_value_costs_no_move() -> None:
    program = assemble(counting_loop())
    assert names(program) == [
        "cvt.b64.u32", "mad.b64", "mov.b32", "mov.b32",
        "setp.lt.u32", "bra", "add.b32", "add.b32", "jump", "join", "st.b32", "exit",
    ]  # fmt: skip
    assert execute(program)[0].tolist() == [t * (t - 1) // 2 for t in range(LANES)]


def test_swapped_phis_go_through_a_scratch_row() -> None:
    graph, place = graph_with_output()
    a, b, n, m, more = (graph.new(t) for t in ("b32", "b32", "b32", "b32", "p"))
    tid, one, zero = graph.special("tid.x"), graph.constant("b32", 1), graph.constant("b32", 0)
    head, after = graph.block(), graph.block()
    graph.blocks[0].successors = (1,)
    head.phis = [Phi(a, {0: one, 1: b}), Phi(b, {0: zero, 1: a}), Phi(n, {0: tid, 1: m})]
    head.instructions += [Instruction("sub.b32", (m,), (n, one)), Instruction("setp.gt.s32", (more,), (n, zero))]
    head.end, head.successors, head.predicate = "bra", (1, 2), more
    after.instructions.append(Instruction("st.b32", (), (place, a)))
    program = assemble(graph)
    assert execute(program)[0].tolist() == [1 - t % 2 for t in range(LANES)]


@pytest.mark.parametrize("seed", range(30))
def test_parallel_copies_read_before_they_write(seed: int) -> None:
    rng = random.Random(seed)
    moves = {target: rng.randrange(8) for target in rng.sample(range(8), rng.randint(1, 8))}
    state = {row: row for row in range(8)}
    for target, source in parallel_copy(moves, [99]):
        state[target] = state[source]
    assert {target: state[target] for target in moves} == moves


# -- rows ---------------------------------------------------------------------------------------------------------
def test_widths_do_not_share_rows_and_constants_are_not_written() -> None:
    program = assemble(random_graph(random.Random(7), phis=True))
    widths: dict[int, set[int]] = {}
    fixed = {c.row for c in program.constants} | set(program.specials.values()) | {p.row for p in program.parameters}
    for fields in program.code.tolist():
        operation = OPERATIONS[NAMES[fields[0]]]
        if operation.kind == "alu":
            for row, type_ in zip((fields[2], *fields[3:7]), (operation.result, *operation.operands), strict=False):
                widths.setdefault(row, set()).add(0 if type_ == "p" else SIZE[type_])
            assert fields[2] not in fixed
    assert all(len(sizes) == 1 for sizes in widths.values())
    assert program.register_bytes % ROW == 0


def test_vector_elements_lie_in_consecutive_rows_without_moves() -> None:
    graph, place = graph_with_output()
    elements = [graph.new("f32") for _ in range(2)]
    doubled = [graph.new("f32") for _ in range(2)]
    graph.blocks[0].instructions += [
        Instruction("ld.v2.b32", tuple(elements), (place,)),
        *(Instruction("add.f32", (d,), (e, e)) for d, e in zip(doubled, elements, strict=True)),
        Instruction("st.v2.b32", (), (place, *doubled)),
    ]
    program = assemble(graph)
    assert names(program) == ["cvt.b64.u32", "mad.b64", "ld.v2.b32", "add.f32", "add.f32", "st.v2.b32", "exit"]
    assert program.code[3, 2] + ROW == program.code[4, 2]
    assert program.code[5, 2] == program.code[3, 2]


def test_vector_store_of_constants_and_repeated_values_gets_moves() -> None:
    graph, place = graph_with_output()
    tid, one = graph.special("tid.x"), graph.constant("b32", 1)
    a = graph.new("b32")
    graph.blocks[0].instructions += [
        Instruction("add.b32", (a,), (tid, one)),
        Instruction("st.v2.b32", (), (place, a, a)),
        Instruction("st.v2.b32", (), (place, a, one)),
    ]
    program = assemble(graph)
    assert names(program).count("mov.b32") == 4
    assert execute(program)[0].tolist() == [(1 << 32) | (t + 1) for t in range(LANES)]


def test_load_result_does_not_share_the_address_row() -> None:
    graph, place = graph_with_output()
    a = graph.new("b64")
    graph.blocks[0].instructions += [
        Instruction("ld.b64", (a,), (place,)),
        Instruction("st.b64", (), (next(iter(graph.parameters)), a)),
    ]
    program = assemble(graph)
    load = program.code[names(program).index("ld.b64")]
    assert load[2] != load[3]


def test_group_members_keep_their_order() -> None:
    groups = Groups()
    assert groups.add([1, 2])
    assert groups.add([1, 2])
    assert not groups.add([2, 3])
    assert not groups.add([4, 4])


def test_webs_join_only_without_overlap() -> None:
    webs = Webs({1: [(0, 4), (10, 12)], 2: [(4, 10)], 3: [(3, 5)]})
    assert webs.join(1, 2)
    assert webs.ranges[webs.find(2)] == [(0, 12)]
    assert not webs.join(2, 3)


# -- reconvergence ------------------------------------------------------------------------------------------------
def test_post_dominators_of_a_diamond_in_a_loop() -> None:
    nearest = immediate_post_dominators({0: (1,), 1: (2, 5), 2: (3, 4), 3: (1,), 4: (1,), 5: ()})
    assert nearest == {0: 1, 1: 5, 2: 1, 3: 1, 4: 1, 5: EXIT}


def test_post_dominators_with_two_exits_and_with_an_endless_loop() -> None:
    assert immediate_post_dominators({0: (1, 2), 1: (), 2: ()}) == {0: EXIT, 1: EXIT, 2: EXIT}
    nearest = immediate_post_dominators({0: (1,), 1: (2, 3), 2: (4,), 3: (4,), 4: (1,)})
    assert nearest[1] == 4
    assert nearest[0] == 1
    rounds = immediate_post_dominators({0: (1,), 1: (2, 3), 2: (1,), 3: (1,)})  # each arm begins the next round
    assert rounds[1] == 1
    assert rounds[0] == 1


def branches(program: Program) -> list[tuple[int, int]]:
    """(target, join) of each branch."""
    columns = FIELDS.index("imm"), FIELDS.index("c")
    return [
        (int(row[columns[0]]), int(row[columns[1]])) for row in program.code if NAMES[row[0]] == "bra"
    ]  # fmt: skip


def test_lanes_of_an_early_return_leave_at_once() -> None:
    graph, place = graph_with_output()
    odd, bit = graph.new("p"), graph.new("b32")
    early, late = graph.block(), graph.block()
    graph.blocks[0].instructions += [
        Instruction("and.b32", (bit,), (graph.special("tid.x"), graph.constant("b32", 1))),
        Instruction("setp.ne.b32", (odd,), (bit, graph.constant("b32", 0))),
    ]
    graph.blocks[0].end, graph.blocks[0].successors, graph.blocks[0].predicate = "bra", (1, 2), odd
    early.end = late.end = "exit"
    late.instructions.append(Instruction("st.b32", (), (place, graph.constant("b32", 5))))
    program = assemble(graph)
    assert branches(program) == []
    assert execute(program)[0].tolist() == [0 if t % 2 else 5 for t in range(LANES)]


def test_a_branch_on_a_negated_predicate_needs_no_negation() -> None:
    graph, place = graph_with_output()
    small, large = graph.new("p"), graph.new("p")
    arm, after = graph.block(), graph.block()
    graph.blocks[0].instructions += [
        Instruction("setp.lt.u32", (small,), (graph.special("tid.x"), graph.constant("b32", 9))),
        Instruction("not.pred", (large,), (small,)),
    ]
    graph.blocks[0].end, graph.blocks[0].successors, graph.blocks[0].predicate = "bra", (1, 2), large
    arm.instructions.append(Instruction("st.b32", (), (place, graph.constant("b32", 5))))
    arm.successors = (2,)
    after.end = "exit"
    program = assemble(graph)
    assert "not.pred" not in names(program)
    assert execute(program)[0].tolist() == [0 if t < 9 else 5 for t in range(LANES)]


# -- whole programs against a direct reading of the graph ---------------------------------------------------------
TYPES = ("b32", "b32", "b32", "b64", "b16", "b8", "b32", "p")
ARITHMETIC = ("add", "sub", "mul", "xor", "and", "or")


class Maker:
    """Random blocks over a few variables, as registers assigned many times or in SSA form with phis."""

    def __init__(self, rng: random.Random, phis: bool) -> None:
        self.rng = rng
        self.phis = phis
        self.graph, self.place = graph_with_output()
        self.variables = [self.graph.new(t) for t in TYPES]
        self.fuel = self.graph.new("b32")
        self.current: dict[int, Register] = {}

    def assign(self, block: Block, operation: str, variable: int, operands: tuple[Register, ...]) -> None:
        type_ = self.graph.types[self.variables[variable] if variable >= 0 else self.fuel]
        result = self.graph.new(type_) if self.phis else (self.variables[variable] if variable >= 0 else self.fuel)
        guard, negated = TRUE, False
        if not self.phis and variable >= 0 and type_ != "p" and self.rng.random() < 0.2:
            guard, negated = self.variables[TYPES.index("p")], self.rng.random() < 0.5
        block.instructions.append(Instruction(operation, (result,), operands, guard=guard, negated=negated))
        self.current[variable] = result

    def value(self, type_: str) -> Register:
        same = [k for k, t in enumerate(TYPES) if t == type_]
        if self.rng.random() < 0.2:
            return self.graph.constant(type_, self.rng.randrange(2) if type_ == "p" else self.rng.randrange(100))
        return self.current[self.rng.choice(same)]

    def fill(self, block: Block) -> None:
        for _ in range(self.rng.randint(0, 6)):
            k = self.rng.randrange(len(TYPES))
            type_ = TYPES[k]
            roll = self.rng.random()
            if type_ == "p":
                self.assign(block, "setp.lt.u32", k, (self.value("b32"), self.value("b32")))
            elif roll < 0.1 and type_ == "b32":
                elements = tuple(self.value("b32") for _ in range(4))
                block.instructions.append(
                    Instruction("st.v2.b32", (), (self.place, *elements[:2]), immediate=8 * LANES)
                )
            elif roll < 0.2 and type_ == "b32":
                pair = self.graph.new("b32"), self.graph.new("b32")
                block.instructions.append(Instruction("ld.v2.b32", pair, (self.place,), immediate=8 * LANES))
                self.assign(block, "add.b32", k, pair)
            elif roll < 0.3:
                self.assign(block, f"mov.{type_}", k, (self.value(type_),))
            elif roll < 0.4:
                self.assign(block, f"selp.{type_}", k, (self.value(type_), self.value(type_), self.value("p")))
            else:
                operation = f"{self.rng.choice(ARITHMETIC)}.{type_}"
                self.assign(block, operation, k, (self.value(type_), self.value(type_)))

    def make(self) -> Graph:
        rng, graph = self.rng, self.graph
        n = rng.randint(2, 9)
        blocks = [graph.blocks[0], *(graph.block() for _ in range(n))]
        before: list[list[int]] = [[] for _ in blocks]
        for k, block in enumerate(blocks[:-1]):
            forward = rng.randint(k + 1, n)
            if k and rng.random() < 0.6:
                block.successors, block.end = (rng.randint(1, n), forward), "bra"
            else:
                block.successors = (forward,)
            for successor in set(block.successors):
                before[successor].append(k)
        blocks[-1].end = "exit"
        alive = self.reachable(blocks)
        versions: dict[int, dict[int, Register]] = {}
        for k, block in enumerate(blocks):
            if k in alive:
                self.enter(block, [b for b in before[k] if b in alive])
                self.body(k, block)
                versions[k] = dict(self.current)
        for block in blocks:
            for phi in block.phis:
                variable = self.phi_variable[phi.result]
                phi.incoming.update({b: versions[b][variable] for b in phi.incoming})
        return graph

    def reachable(self, blocks: list[Block]) -> set[int]:
        seen, stack = {0}, [0]
        while stack:
            for successor in blocks[stack.pop()].successors:
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
        return seen

    def enter(self, block: Block, before: list[int]) -> None:
        """Variables at the start of a block: as they are, or phis (of one value too)."""
        if not self.phis or block.index == 0:
            self.current = dict(enumerate(self.variables)) | {-1: self.fuel}
            return
        self.phi_variable = getattr(self, "phi_variable", {})
        for variable in (-1, *range(len(TYPES))):
            result = self.graph.new("b32" if variable < 0 else TYPES[variable])
            self.phi_variable[result] = variable
            block.phis.append(Phi(result, dict.fromkeys(before, 0)))
            self.current[variable] = result

    phi_variable: dict[Register, int] = {}

    def body(self, k: int, block: Block) -> None:
        graph, rng = self.graph, self.rng
        if k == 0:
            tid = graph.special("tid.x")
            self.assign(block, "mov.b32", -1, (graph.constant("b32", rng.randint(3, 25)),))
            for variable, type_ in enumerate(TYPES):
                if type_ == "p":
                    self.assign(block, "setp.lt.u32", variable, (tid, graph.constant("b32", 11)))
                elif type_ == "b32":
                    operation = "mul.b32" if rng.random() < 0.7 else "mov.b32"
                    operands = (tid, graph.constant("b32", rng.randint(1, 9)))
                    self.initialise(block, operation, variable, operands if operation[:3] == "mul" else operands[1:])
                else:
                    name = f"cvt.{type_}.{'u32' if type_ == 'b64' else 's32'}"
                    self.initialise(block, name, variable, (tid,))
            return
        self.fill(block)
        self.assign(block, "sub.b32", -1, (self.current[-1], graph.constant("b32", 1)))
        if block.end == "bra":
            left, both = graph.new("p"), graph.new("p")
            block.instructions += [
                Instruction("setp.gt.s32", (left,), (self.current[-1], graph.constant("b32", 0))),
                Instruction("and.pred", (both,), (left, self.value("p"))),
            ]
            block.predicate = both
        if block.end == "exit":
            for variable, type_ in enumerate(TYPES):
                at = 8 * LANES * (variable + 2)
                if type_ == "p":
                    bit = graph.new("b32")
                    choice = (graph.constant("b32", 1), graph.constant("b32", 0), self.current[variable])
                    block.instructions.append(Instruction("selp.b32", (bit,), choice))
                    block.instructions.append(Instruction("st.b32", (), (self.place, bit), immediate=at))
                else:
                    value = self.current[variable]
                    block.instructions.append(Instruction(f"st.{type_}", (), (self.place, value), immediate=at))

    def initialise(self, block: Block, operation: str, variable: int, operands: tuple[Register, ...]) -> None:
        type_ = TYPES[variable]
        result = self.graph.new(type_) if self.phis else self.variables[variable]
        block.instructions.append(Instruction(operation, (result,), operands))
        self.current[variable] = result


def random_graph(rng: random.Random, phis: bool) -> Graph:
    return Maker(rng, phis).make()


def read_graph(graph: Graph, tid: int, memory: dict[int, int]) -> None:
    """Execute one thread by walking the graph: registers by number, memory as bytes by address."""
    registers: dict[Register, int] = {TRUE: 1, graph.special("tid.x"): tid}
    registers.update({r: int(v) for (_, v), r in graph.constants.items()})
    registers.update(dict.fromkeys(graph.parameters, OUT))
    index, previous = 0, -1
    while True:
        block = graph.blocks[index]
        arriving = {phi.result: registers[phi.incoming[previous]] for phi in block.phis}
        registers.update(arriving)
        for i in block.instructions:
            if bool(registers[i.guard]) == i.negated:
                continue
            values = [registers.get(r, 0) for r in i.operands]
            if i.operation.startswith("st."):
                size = SIZE[i.operation.rpartition(".")[2]]
                for k, value in enumerate(values[1:]):
                    for byte in range(size):
                        memory[values[0] + i.immediate + k * size + byte] = value >> 8 * byte & 255
            elif i.operation.startswith("ld."):
                for k, result in enumerate(i.results):
                    at = values[0] + i.immediate + 4 * k
                    registers[result] = sum(memory.get(at + byte, 0) << 8 * byte for byte in range(4))
            else:
                registers[i.results[0]] = semantics[i.operation](*values)
        if block.end == "exit":
            return
        previous = index
        index = block.successors[0 if block.end == "jump" or registers[block.predicate] else 1]


@pytest.mark.parametrize("phis", [False, True], ids=["reassigned", "phis"])
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_mean_what_their_graphs_say(seed: int, phis: bool) -> None:
    graph = random_graph(random.Random(seed), phis)
    memory: dict[int, int] = {}
    for tid in range(LANES):
        read_graph(graph, tid, memory)
    values = len(TYPES) + 2
    out = execute(assemble(graph), values)
    expected = np.array([memory.get(OUT + k, 0) for k in range(8 * LANES * values)], np.uint8)
    assert np.array_equal(out.reshape(-1).view(np.uint8), expected)


# -- fma ----------------------------------------------------------------------------------------------------------
def floats(program: Program) -> list[str]:
    return [name for name in names(program) if name.endswith(("f32", "f64"))]


def sums(code: list[tuple[str, str, str, str]], *, split: bool = False, fma: bool = True) -> list[str]:
    """Float operations left of `target = a operation b`; x0, x1, ... are loaded, capital targets stored."""
    graph, place = graph_with_output()
    block = graph.blocks[0]
    registers: dict[str, Register] = {}
    for number, (target, operation, *operands) in enumerate(code):
        if split and number == 1:
            block.successors = (1,)
            block = graph.block()
            other = graph.block()
            graph.blocks[0].end, graph.blocks[0].successors = "bra", (1, 2)
            graph.blocks[0].predicate = graph.new("p")
            graph.blocks[0].instructions.append(
                Instruction("setp.eq.b64", (graph.blocks[0].predicate,), (place, place))
            )
            block.successors = (2,)
            other.end = "exit"
        for name in operands:
            if name and name not in registers:
                registers[name] = graph.new("f32")
                load = Instruction("ld.b32", (registers[name],), (place,), immediate=4 * int(name[1:]))
                graph.blocks[0].instructions.insert(0, load) if split else block.instructions.append(load)
        registers[target] = graph.new("f32")
        used = tuple(registers[name] for name in operands if name)
        block.instructions.append(Instruction(f"{operation}.f32", (registers[target],), used))
        if target.isupper():
            block.instructions.append(Instruction("st.b32", (), (place, registers[target])))
    if split:  # keep the loads behind the address
        head = graph.blocks[0].instructions
        head.sort(key=lambda i: {"cvt.b64.u32": 0, "mad.b64": 1, "ld.b32": 2}.get(i.operation, 3))
    return floats(assemble(graph, fma=fma))


PRODUCT = ("m", "mul", "x0", "x1")
SECOND = ("n", "mul", "x2", "x3")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ([PRODUCT, ("S", "add", "m", "x2")], ["fma.f32"]),
        ([PRODUCT, ("S", "sub", "m", "x2")], ["neg.f32", "fma.f32"]),
        ([PRODUCT, ("S", "sub", "x2", "m")], ["neg.f32", "fma.f32"]),
        ([PRODUCT, SECOND, ("S", "add", "m", "n")], ["mul.f32", "fma.f32"]),
        ([PRODUCT, ("S", "add", "m", "x2"), ("T", "add", "m", "x3")], ["fma.f32", "fma.f32"]),
        ([PRODUCT, ("S", "add", "m", "x2"), ("T", "sub", "x3", "m")], ["fma.f32", "neg.f32", "fma.f32"]),
        ([PRODUCT, *((c, "add", "m", f"x{k + 2}") for k, c in enumerate("ABCDE"))], ["fma.f32"] * 5),
        ([PRODUCT, ("S", "add", "m", "x2"), ("T", "mul", "m", "x3")], ["mul.f32", "add.f32", "mul.f32"]),
        ([PRODUCT, ("S", "add", "m", "m")], ["mul.f32", "fma.f32"]),
        ([PRODUCT, ("S", "sub", "m", "m")], ["mul.f32", "sub.f32"]),
        ([PRODUCT, ("g", "neg", "m", ""), ("S", "add", "g", "x2")], ["neg.f32", "fma.f32"]),
        ([PRODUCT, ("G", "neg", "m", ""), ("S", "add", "m", "x2")], ["mul.f32", "neg.f32", "add.f32"]),
        # n has a use that m takes as addend: it must be computed anyway
        ([PRODUCT, SECOND, ("S", "sub", "n", "x4"), ("T", "sub", "m", "n")],
         ["mul.f32", "sub.f32", "neg.f32", "fma.f32"]),
        # LLVM looks at additions from the last to the first, so here n goes into both
        ([PRODUCT, SECOND, ("S", "add", "m", "n"), ("T", "add", "n", "x4")], ["mul.f32", "fma.f32", "fma.f32"]),
        ([PRODUCT, SECOND, ("S", "add", "n", "x4"), ("T", "add", "m", "n")], ["mul.f32", "add.f32", "fma.f32"]),
    ],
)  # fmt: skip
def test_products_contract_as_on_the_gpu(code: list[tuple[str, str, str, str]], expected: list[str]) -> None:
    assert sums(code) == expected
    assert not [name for name in sums(code, fma=False) if name.startswith("fma")]


def test_a_product_with_one_use_moves_into_the_next_block_and_others_do_not() -> None:
    assert sums([PRODUCT, ("S", "add", "m", "x2")], split=True) == ["fma.f32"]
    assert sums([PRODUCT, ("S", "add", "m", "x2"), ("T", "add", "m", "x3")], split=True) == [
        "mul.f32",
        "add.f32",
        "add.f32",
    ]


def test_auxiliary_forbids_contraction() -> None:
    graph, place = graph_with_output()
    x, m, s = graph.new("f32"), graph.new("f32"), graph.new("f32")
    graph.blocks[0].instructions += [
        Instruction("ld.b32", (x,), (place,)),
        Instruction("mul.f32", (m,), (x, x), auxiliary=1),
        Instruction("add.f32", (s,), (m, x)),
        Instruction("st.b32", (), (place, s)),
    ]
    assert floats(assemble(graph)) == ["mul.f32", "add.f32"]


def test_division_by_a_power_of_two_is_a_product() -> None:
    graph, place = graph_with_output()
    x, m, s = graph.new("f64"), graph.new("f64"), graph.new("f64")
    graph.blocks[0].instructions += [
        Instruction("ld.b64", (x,), (place,)),
        Instruction("div.f64", (m,), (x, graph.constant("f64", 8.0))),
        Instruction("add.f64", (s,), (m, x)),
        Instruction("st.b64", (), (place, s)),
    ]
    program = assemble(graph)
    assert floats(program) == ["fma.f64"]
    assert 0.125 in [c.value for c in program.constants]


# -- tables and speed ---------------------------------------------------------------------------------------------
def test_barrier_and_warp_operands_stand_in_their_fields() -> None:
    graph, place = graph_with_output()
    one, count, full = graph.constant("b32", 1), graph.constant("b32", 64), graph.constant("b32", 0xFFFFFFFF)
    p, total, value, inside = graph.new("p"), graph.new("b32"), graph.new("b32"), graph.new("p")
    graph.blocks[0].instructions += [
        Instruction("setp.eq.b32", (p,), (graph.special("tid.x"), one)),
        Instruction("bar.red.popc", (total,), (one, p), auxiliary=1),
        Instruction("bar.sync", (), (one, count), auxiliary=1),
        Instruction("bar.arrive", (), (one, count)),
        Instruction("shfl.down.b32", (value, inside), (total, one, full), immediate=31),
        Instruction("st.b32", (), (place, value), guard=inside, negated=True),
    ]
    program = assemble(graph)
    row = {c.value: c.row for c in program.constants}
    code = {name: program.code[k].tolist() for k, name in enumerate(names(program))}
    assert code["bar.red.popc"][3:6] == [row[1], 0, code["setp.eq.b32"][2]]
    assert code["bar.red.popc"][7] == 1
    assert code["bar.sync"][3:8] == [row[1], row[64], 0, 0, 1]
    assert code["bar.arrive"][7] == 0
    assert code["shfl.down.b32"][4:8] == [row[1], row[0xFFFFFFFF], 31, code["st.b32"][1] >> 1]
    assert code["st.b32"][1] & 1


def test_every_instruction_has_its_place_in_the_source() -> None:
    graph = counting_loop()
    graph.spans.append(Span("test.py", 2, 0, 2, 0))
    graph.blocks[2].instructions[0].span = 1
    graph.blocks[3].instructions[0].array = "out"
    program = assemble(graph)
    n = len(program.code)
    assert n == len(program.span_of) == len(program.stack_of) == len(program.array_of) == len(program.element_of)
    assert program.span_of[names(program).index("add.b32")] == 1
    assert program.array_of[names(program).index("st.b32")] == "out"


def test_trap_names_its_message() -> None:
    graph, _ = graph_with_output()
    graph.traps.append("recursion")
    graph.blocks[0].end, graph.blocks[0].trap = "trap", 0
    program = assemble(graph)
    assert names(program) == ["trap"]
    assert program.traps == ["recursion"]


def straight_line(n: int) -> Graph:
    graph, place = graph_with_output()
    x = graph.special("tid.x")
    for k in range(n):
        y = graph.new("b32")
        graph.blocks[0].instructions.append(Instruction("add.b32", (y,), (x, graph.constant("b32", k % 17))))
        x = y
    graph.blocks[0].instructions.append(Instruction("st.b32", (), (place, x)))
    return graph


def test_long_programs_assemble_in_linear_time() -> None:
    start = time.perf_counter()
    program = assemble(straight_line(20_000))
    assert len(program.code) > 20_000
    assert time.perf_counter() - start < 10
    assert to_unsigned(-1, 8) == 255
