"""Contraction of products and sums into fma, as the compiler behind Numba-CUDA does it.

Two compilers contract, first LLVM and then ptxas.  The rules were derived from the machine code that they generated for
sm_90 (CUDA 13.0, link-time optimization as in a launch).  They hold for f32 and f64.  The rules of ptxas also hold for
halves, pairs of halves, and operations that flush subnormals (`.ftz`); ptxas does not mix the latter with others.

LLVM's NVPTX back end contracts only additions, from the last one of a block to the first.  Operands are in the order of
its Reassociate pass, with values from later loads last.  It fuses the first operand that is a product whose uses are
all additions in this block, at most four.

ptxas then contracts the remaining sums and differences: first with products that have one use, then, in order, with
products whose uses are all such sums in this block.

Before that, negations move into the sums (`-(a * b) + c` is `c - a * b`), and a division by a power of two becomes a
product.  A product with one use moves into the next block if no other path leads there.

Of 400 random blocks with several products in several sums, ptxas treated 4 differently: blocks in which a sum uses the
same product twice, directly and through another sum.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.compound import TYPES
from wsemu.frontend.assemble.flow import ALU, predecessors
from wsemu.frontend.assemble.graph import Graph, Instruction, Register
from wsemu.frontend.assemble.simplify import Blocks, assignments, remove_dead_code
from wsemu.model.data import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROW = {"f32": "f32", "f64": "f64", **TYPES}
"""type of a sum -> type of its register"""
_ROLE = {f"{what}.{t}": what for what in ("mul", "add", "sub", "neg", "div") for t in _ROW}
_SMALLEST = {"f32": 2.0**-126, "f64": 2.0**-1022}
_LLVM_MOST_USES = 4


def _type(instruction: Instruction) -> str:
    return instruction.operation.partition(".")[2]


class _Sum:
    """One addition or subtraction, as a sum of two signed terms."""

    __slots__ = ("at", "block", "factor", "instruction", "terms", "type")

    def __init__(self, block: int, at: int, instruction: Instruction, terms: list[tuple[int, Register]]) -> None:
        self.block = block
        self.at = at
        self.instruction = instruction
        self.terms = terms
        self.type = _type(instruction)
        self.factor: int | None = None
        """index of the term that is the product of the fma, once decided"""

    @property
    def is_addition(self) -> bool:
        return self.terms[0][0] > 0 and self.terms[1][0] > 0


def contract(graph: Graph, blocks: Blocks, *, optimised: bool = False) -> None:
    """Replace additions and subtractions of products by fma as the GPU compiler does; `blocks` is changed in place.

    With `optimised`, the code is PTX that LLVM has processed already, so only ptxas contracts it.  Instructions with
    auxiliary 1 are unchanged.  New constants and registers are entered into `graph`.
    """
    roles = {_ROLE[i.operation] for block in blocks.values() for i in block.instructions if i.operation in _ROLE}
    if not roles & {"mul", "div"} or not roles & {"add", "sub"}:
        return
    contraction = _Contraction(graph, blocks, optimised=optimised)
    if not optimised:
        contraction.llvm()
    contraction.ptxas()
    if contraction.rewrite():
        remove_dead_code(blocks)


class _Contraction:
    """The products and sums of a graph, and their uses."""

    def __init__(self, graph: Graph, blocks: Blocks, *, optimised: bool) -> None:
        self.graph = graph
        self.blocks = blocks
        self.optimised = optimised
        self.assigned = assignments(blocks.values())
        self.literals = {r: value for (type_, value), r in graph.constants.items() if type_ in ("f32", "f64")}
        self.products: dict[Register, tuple[int, Instruction]] = {}
        self.negations: dict[Register, Register] = {}
        self.types: dict[Register, str] = {}
        """types of products and negations"""
        self.sums: dict[int, list[_Sum]] = {}
        self.uses: dict[Register, list[_Sum]] = {}
        self.other: set[Register] = set()
        """products and negations that are also used elsewhere"""
        self._collect()
        self._find_uses()

    def _is_unguarded(self, instruction: Instruction) -> bool:
        """Return whether an instruction has no guard, and its registers are assigned once."""
        assigned = self.assigned
        return (
            not instruction.guard
            and instruction.auxiliary != 1
            and assigned[instruction.results[0]] == 1
            and all(assigned.get(register, 0) <= 1 for register in instruction.operands)
        )

    def _collect(self) -> None:
        for index, block in self.blocks.items():
            for at, instruction in enumerate(block.instructions):
                role = _ROLE.get(instruction.operation)
                if role is None or not self._is_unguarded(instruction):
                    continue
                if role == "div":
                    product = None if self.optimised else self._as_product(instruction)
                    if product is None:
                        continue
                    block.instructions[at] = instruction = product
                    role = "mul"
                operands = instruction.operands
                if role in ("mul", "neg"):
                    self.types[instruction.results[0]] = _type(instruction)
                if role == "mul":
                    self.products[instruction.results[0]] = (index, instruction)
                elif role == "neg":
                    self.negations[instruction.results[0]] = operands[0]
                else:
                    terms = [(1, operands[0]), (1 if role == "add" else -1, operands[1])]
                    self.sums.setdefault(index, []).append(_Sum(index, at, instruction, terms))

    def _as_product(self, instruction: Instruction) -> Instruction | None:
        """Return x / c as x * (1 / c) if that is exact for every x."""
        literal = self.literals.get(instruction.operands[1])
        if literal is None:
            return None
        value = float.fromhex(literal) if isinstance(literal, str) else float(literal)
        type_ = instruction.operation[-3:]
        if not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5 or abs(1 / value) < _SMALLEST[type_]:
            return None
        factor = self.graph.constant(type_, 1 / value)
        self.literals[factor] = (1 / value).hex()
        return replace(instruction, operation=f"mul.{type_}", operands=(instruction.operands[0], factor))

    def _find_uses(self) -> None:
        sums = {id(s.instruction): s for block in self.sums.values() for s in block}
        interesting = self.products.keys() | self.negations.keys()
        for block in self.blocks.values():
            for phi in block.phis:
                self.other.update(interesting.intersection(phi.incoming.values()))
            for instruction in block.instructions:
                if id(instruction) not in sums and (
                    not instruction.results or instruction.results[0] not in self.negations
                ):
                    self.other.update(interesting.intersection(instruction.operands))
        for s in sums.values():
            self.other.update(r for _, r in s.terms if not self._goes_with(r, s.type))
        for result in reversed(self.negations):  # a negation that remains is another use of its operand
            if result in self.other:
                self.other.add(self.negations[result])
        for s in sums.values():
            s.terms = [self._resolve(sign, register, s.type) for sign, register in s.terms]
            s.terms.sort(key=lambda term: -term[0])
            self.other.update(r for _, r in s.terms if not self._goes_with(r, s.type))
            for _, register in s.terms:
                if register in self.products:
                    self.uses.setdefault(register, []).append(s)
        before = predecessors(self.blocks)
        for register, users in self.uses.items():
            home = self.products[register][0]
            sinks = len(users) == 1 and before[users[0].block] == [home]
            if not sinks and any(s.block != home for s in users):
                self.other.add(register)

    def _resolve(self, sign: int, register: Register, type_: str) -> tuple[int, Register]:
        """Return a term without the negations that can be removed."""
        while register in self.negations and register not in self.other and self._goes_with(register, type_):
            sign, register = -sign, self.negations[register]
        return sign, register

    def _goes_with(self, register: Register, type_: str) -> bool:
        """Return whether a product or negation has the type of a sum; a negation also matches a sum that flushes its
        terms."""
        own = self.types.get(register, type_)
        return own == type_ or (own == "f32" and type_ == "ftz.f32" and register in self.negations)

    def _open(self) -> Iterator[_Sum]:
        """Yield the sums that are not yet fma, in order."""
        for block in self.sums.values():
            yield from [s for s in block if s.factor is None]

    def _free(self, register: Register) -> bool:
        """Return whether a register is a product whose remaining uses are all sums."""
        return register in self.products and register not in self.other

    def _fuse(self, s: _Sum, factor: int) -> None:
        """Make `s` an fma whose product is term `factor`; the other term, if a product, must then be computed."""
        s.factor = factor
        self.uses[s.terms[factor][1]].remove(s)
        addend = s.terms[1 - factor][1]
        if addend in self.products:
            self.uses[addend].remove(s)
            self.other.add(addend)

    def llvm(self) -> None:
        """Contract additions as LLVM does, the last one first."""
        ranks: dict[Register, int] | None = None
        for block in self.sums.values():
            for s in reversed(block):
                if not s.is_addition:
                    continue
                if all(register in self.products for _, register in s.terms):
                    if ranks is None:
                        ranks = self._ranks()
                    if ranks[s.terms[1][1]] < ranks[s.terms[0][1]]:
                        s.terms.reverse()
                for factor in (0, 1):
                    register = s.terms[factor][1]
                    if self._free(register):
                        users = self.uses[register]
                        if len(users) <= _LLVM_MOST_USES and all(user.is_addition for user in users):
                            self._fuse(s, factor)
                            break

    def ptxas(self) -> None:
        """Contract the rest: products with a single use first, then the others."""
        self.other.update(s.terms[0][1] for s in self._open() if s.terms[0][1] == s.terms[1][1])
        for single in (True, False):
            for s in self._open():
                for factor, (_, register) in enumerate(s.terms):
                    if self._free(register) and (len(self.uses[register]) == 1 or not single):
                        self._fuse(s, factor)
                        break

    def _ranks(self) -> dict[Register, int]:
        """Return the ranks by which LLVM's Reassociate pass orders operands.

        The rank of a value from memory or a phi is its position in the program; the rank of any other value is higher
        than those of its operands.
        """
        ranks: dict[Register, int] = {}
        for place, register in enumerate(self.graph.parameters, 3):
            ranks[register] = place
        counter = len(ranks) + 3
        for block in self.blocks.values():
            counter = (counter | 0xFFFF) + 1
            for phi in block.phis:
                counter += 1
                ranks[phi.result] = counter
            for instruction in block.instructions:
                if instruction.operation in ALU:
                    highest = max((ranks.get(register, 0) for register in instruction.operands), default=0)
                    rises = not instruction.operation.startswith(("neg.", "not."))
                    ranks[instruction.results[0]] = highest + rises
                else:
                    for register in instruction.results:
                        counter += 1
                        ranks[register] = counter
        return ranks

    def rewrite(self) -> bool:
        """Put the fma into the code; return whether there is one."""
        found = False
        for index, sums in self.sums.items():
            fused = {s.at: s for s in sums if s.factor is not None}
            if not fused:
                continue
            found = True
            code: list[Instruction] = []
            negated: dict[Register, Register] = {}
            for at, instruction in enumerate(self.blocks[index].instructions):
                if at in fused:
                    instruction = self._fma(fused[at], code, negated)
                code.append(instruction)
            self.blocks[index].instructions = code
        return found

    def _fma(self, s: _Sum, code: list[Instruction], negated: dict[Register, Register]) -> Instruction:
        """Return the fma for `s`; negations that it needs are appended to `code`."""
        assert s.factor is not None
        (sign, product), (addend_sign, addend) = s.terms[s.factor], s.terms[1 - s.factor]
        a, b = self.products[product][1].operands
        if sign < 0:
            if b in self.literals or b in self.negations:
                a, b = b, a
            a = self._negative(a, s.instruction, code, negated)
        if addend_sign < 0:
            addend = self._negative(addend, s.instruction, code, negated)
        return replace(s.instruction, operation=f"fma.{s.type}", operands=(a, b, addend))

    def _negative(
        self, register: Register, user: Instruction, code: list[Instruction], negated: dict[Register, Register]
    ) -> Register:
        """Return a register that holds -register: a constant, the operand of a negation, an existing one, or a new
        one."""
        type_ = _type(user)
        literal = self.literals.get(register)
        if literal is not None:
            value = float.fromhex(literal) if isinstance(literal, str) else float(literal)
            return self.graph.constant(type_, -value)
        if register in self.negations and self._goes_with(register, type_):
            return self.negations[register]
        result = negated.get(register)
        if result is None:
            result = negated[register] = self.graph.new(_ROW[type_])
            code.append(Instruction(f"neg.{type_}", (result,), (register,), span=user.span, stack=user.stack))
        return result
