"""Programs that follow their undefined registers themselves, against the rules of `reference.definedness`."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.unit.test_definedness import operands as drawn
from tests.unit.test_operations import write_row
from wsemu.machine.tier.shapes import bits_of, use_of
from wsemu.machine.vm import Machine
from wsemu.model.isa import FIELDS, LANES, OPCODE, OPERATIONS, ROW
from wsemu.model.program import Program
from wsemu.proof.shadow_program import make_shadow_program
from wsemu.reference.definedness import undefined_result, width

ALU = [name for name, of in OPERATIONS.items() if of.kind == "alu" and not name.startswith(("index.", "varying."))]
UNSURE = {f"{what}.{type_}" for what in ("neg", "abs", "copysign") for type_ in ("f32", "f64")}
"""operations whose result may have more undefined bits here"""
RESULT, WANTED, SHOWN = ROW, 2 * ROW, 3 * ROW


def one_operation(name: str) -> Program:
    """A program that shows some bits of the result of an operation whose operands nothing has written."""
    operation = OPERATIONS[name]
    given = [(ROW * (4 + n), type_, "") for n, type_ in enumerate(operation.operands)]
    code = np.zeros((4, len(FIELDS)), np.int64)
    code[0, 0], code[0, 2], code[0, 3 : 3 + len(given)] = OPCODE[name], RESULT, [row for row, *_ in given]
    shown = "mov.pred" if operation.result == "p" else f"and.b{width(operation.result)}"
    code[1, :5] = OPCODE[shown], 0, SHOWN, RESULT, WANTED
    code[2, 0], code[2, 3] = OPCODE["show"], SHOWN
    code[3, 0] = OPCODE["exit"]
    return Program("one", code, 8 * ROW, undefined=given)


def lanes_that_show(name: str, operands: list[list[tuple[int, int]]], wanted: list[int]) -> tuple[int, bool]:
    """The lanes in which one of the wanted bits of a result is undefined, and whether that is sure."""
    program = one_operation(name)
    made = make_shadow_program(program, [1] * len(program.code), None)
    machine = Machine(made.program, (1, 1, 1), (LANES, 1, 1), {}, [], 0)
    block = machine.registers[0]
    write_row(block, WANTED, OPERATIONS[name].result, wanted)
    masks = {source.place: row for source, row in made.gates.items()}
    for (row, type_, _), of_lanes in zip(program.undefined, zip(*operands, strict=True), strict=True):
        write_row(block, row, type_, [value for value, _ in of_lanes])
        write_row(block, masks[row], "b64", [mask for _, mask in of_lanes])
    outcome = machine.outcome(machine.run(0, 1, 1000))
    sink = made.sinks.get(outcome.fault_pc)
    assert sink is None or (sink.kind, sink.pc) == ("print", 2)
    return sum(raw.lanes for raw in outcome.findings), all(found.sure for found in made.sinks.values())


@pytest.mark.parametrize("name", ALU)
def test_masks_are_those_of_the_reference_engine(name: str) -> None:
    draw = random.Random(f"shadow {name}")
    result = width(OPERATIONS[name].result)
    for _ in range(4):
        operands = [[*zip(*drawn(name, draw), strict=True)] for _ in range(LANES)]
        wanted = [draw.choice((1 << draw.randrange(result), draw.getrandbits(result))) for _ in range(LANES)]
        expected = sum(
            1 << lane
            for lane, given in enumerate(operands)
            if undefined_result(name, [value for value, _ in given], [mask for _, mask in given])
            & (wanted[lane] if result > 1 else 1)
        )
        found, sure = lanes_that_show(name, operands, wanted)
        assert sure == (name not in UNSURE)
        assert found & expected == expected
        assert found == expected or not sure, f"{found ^ expected:#x} of {operands}"


@pytest.mark.parametrize("name", ALU)
def test_registers_are_read_as_they_were_written(name: str) -> None:
    """A block of compiled code keeps the value of a register in a vector of its type."""
    made = make_shadow_program(one_operation(name), [1] * 4, None).program
    types = {constant.row: bits_of(constant.type) for constant in made.constants}
    for fields in made.code.tolist():
        use = use_of(fields)
        for row, type_ in use.reads if fields[0] != OPCODE["show"] else ():
            assert types.setdefault(row, bits_of(type_)) == bits_of(type_), fields
        types.update((row, bits_of(type_)) for row, type_ in use.writes)
