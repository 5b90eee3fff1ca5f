"""Random products in tensor memory that keep operands in collector buffers, and whether each finds its operand there.

One thread issues the products, which happen in the order of their issue.  `fill` keeps the operand of a product in a
buffer; `use` and `lastuse` need the same operand there.  After `lastuse` or `discard` the buffer has no operand.  A
product that names no buffer discards the first one.  Products with `.ws` have four buffers for operand B; others have
one for operand A (PTX ISA, "tcgen05.mma").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu
from tests.unit.ring_program import STAGE
from tests.unit.tensor_programs import ISSUE, descriptor, dump, instruction, program, with_descriptors

if TYPE_CHECKING:
    import random

    from wsemu.model.settings import Engine

UNFILLED = "collector-without-fill"
A, B = descriptor(0, 128, 256), descriptor(4096, 128, 256)
NEEDS = ("use", "lastuse")
OPERANDS = ("%rd6", "%rd12"), ("%rd7", "%rd12")
"""operand A of products, and operand B of those with `.ws`: one place of shared memory, and one 16 bytes beside it"""


class Product(NamedTuple):
    """A product: its buffer, what it does with it (empty: it names none), and its operand."""

    buffer: int
    use: str
    operand: int

    def __str__(self) -> str:
        return f"{self.use or 'nothing'} {self.buffer} {self.operand}"


class CollectorProgram(NamedTuple):
    """The products of a thread; `apart` are those with `.ws`."""

    apart: bool
    products: tuple[Product, ...]

    def __str__(self) -> str:
        return f"{'.ws: ' * self.apart}{'; '.join(map(str, self.products))}"

    def fails(self) -> bool:
        """Return whether a product does not find its operand."""
        kept: dict[int, int] = {}
        for buffer, use, operand in self.products:
            if use in NEEDS and kept.get(buffer) != operand:
                return True
            if use == "fill":
                kept[buffer] = operand
            elif use != "use":
                kept.pop(buffer, None)
        return False

    def ptx(self) -> str:
        """Return a kernel that issues the products."""
        issued = "\n  ".join(self._text(product) for product in self.products)
        other = "  add.u64 %rd12, %rd6, 1;\n" if not self.apart else "  sub.u64 %rd12, %rd7, 1;\n"
        columns = 64 if self.apart else 8
        described = with_descriptors(A, B, instruction(128, columns))
        more = {"columns": columns} if self.apart else {}
        return program(described, other + ISSUE.format(issued=issued), dump(8), **more)

    def _text(self, product: Product) -> str:
        operands = ["%rd6", "%rd7"]
        operands[self.apart] = OPERANDS[self.apart][product.operand]
        name = f"b{product.buffer}" if self.apart else "a"
        form = f".collector::{name}::{product.use}" if product.use else ""
        kind = f"tcgen05.mma{'.ws' * self.apart}.cta_group::1.kind::f16{form}"
        return f"{kind} [%r11], {operands[0]}, {operands[1]}, %r15, %p5;"


class JudgedCollectors(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    program: CollectorProgram
    fails: bool
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}: {self.program}"


def draw_collectors(source: random.Random) -> CollectorProgram:
    """Draw products that mostly find their operands."""
    apart = source.random() < 0.5
    kept: dict[int, int] = {}
    products = []
    for _ in range(source.randint(2, 6)):
        buffer = source.randrange(4) if apart and source.random() < 0.4 else 0
        use = source.choice(("fill", "fill", "use", "use", "lastuse", "discard", ""))
        buffer = buffer if use else 0
        operand = source.randrange(2)
        if use in NEEDS and source.random() < 0.85:
            if buffer not in kept:
                use = "fill"
            operand = kept.get(buffer, operand)
        products.append(Product(buffer, use, operand))
        if use == "fill":
            kept[buffer] = operand
        elif use != "use":
            kept.pop(buffer, None)
    return CollectorProgram(apart, tuple(products))


def judge_collectors(program: CollectorProgram, engines: tuple[Engine, ...]) -> JudgedCollectors:
    """Compare the verdicts of engines with what the products find."""
    fails, verdicts, complaints = program.fails(), [], []
    kernel = wsemu.load_ptx(program.ptx())["k"]
    for engine in engines:
        source = np.random.default_rng(1).standard_normal(4 * STAGE).astype(np.float16)
        given = source, np.zeros((128, 16), np.uint32), np.zeros((384, 16), np.float32)
        report = wsemu.check(kernel, 1, 128, given, engine=engine)
        codes = {finding.code for finding in report.findings if finding.severity == "error"}
        verdicts.append(report.verdict)
        if codes != ({UNFILLED} if fails else set()) or report.verdict != ("failed" if fails else "verified"):
            wanted = "a product does not find its operand" if fails else "all products find their operands"
            complaints.append(f"{engine}: {wanted}, and the verdict is {report.verdict}, {sorted(codes)}")
    return JudgedCollectors(program, fails, tuple(verdicts), tuple(complaints))
