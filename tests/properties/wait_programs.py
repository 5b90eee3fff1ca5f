"""Loops of one thread, and whether they end: every round is executed here, until a state comes again.

A loop has four registers and three words of memory, which only this thread touches.  It loads, stores, computes and
makes atomics, and leaves where a register compares as its end says.  If memory at its head, and the registers that may
ever decide something or be stored, are those of an earlier round, it never ends, and the launch cannot be `verified`.
Other registers only count the rounds.  wsemu decides that without a copy of the state,
by what its instructions read and write (proof/idle.py), on both engines; nothing here knows of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random

    from wsemu.model.settings import Engine

REGISTERS, WORDS, ROUNDS = 4, 3, 600
LIMIT = 1 << 32
HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 m)
{
.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d;
ld.param.u64 %d, [m]; cvta.to.global.u64 %d, %d;
"""
COMPUTES = {"add": lambda a, b: a + b, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}
COMPARES = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "ge": lambda a, b: a >= b}


class Step(NamedTuple):
    """One instruction; of each kind some of the fields count."""

    kind: str
    to: int = 0
    of: int = 0
    word: int = 0
    number: int = 0
    when: int = -1
    """a register that is not 0 where the instruction is executed; -1: it always is"""


class Loop(NamedTuple):
    """Registers and words as they are at first, the steps of a round, and when the loop is left."""

    registers: tuple[int, ...]
    words: tuple[int, ...]
    steps: tuple[Step, ...]
    compare: str
    left: int
    number: int


class Known(NamedTuple):
    """What a loop does: `ends` is None where that is not known after so many rounds."""

    ends: bool | None
    words: tuple[int, ...]


def draw(random_: random.Random) -> Loop:
    """Draw a loop."""
    few = lambda: random_.randrange(4)  # noqa: E731
    kinds = ["load", "strong", "load", "strong", "move", *COMPUTES, "store", "cas", "exch", "atom.or", "atom.add"]
    steps = [
        Step(
            random_.choice(kinds),
            few(),
            few(),
            random_.randrange(WORDS),
            random_.choice((0, 0, 1, 2)),
            few() if random_.random() < 0.15 else -1,
        )
        for _ in range(random_.choice((1, 2, 2, 3, 4)))
    ]
    registers, words = tuple(few() for _ in range(REGISTERS)), tuple(few() for _ in range(WORDS))
    return Loop(registers, words, tuple(steps), random_.choice([*COMPARES]), few(), few())


def execute(loop: Loop) -> Known:
    """Execute rounds until the loop is left, or its state comes again."""
    registers, words, seen = [*loop.registers], [*loop.words], set[tuple[int, ...]]()
    used = _used(loop)
    for _ in range(ROUNDS):
        state = (*(registers[n] for n in used), *words)
        if state in seen:
            return Known(False, tuple(words))
        seen.add(state)
        for step in loop.steps:
            if step.when < 0 or registers[step.when]:
                _execute(step, registers, words)
        if COMPARES[loop.compare](registers[loop.left], loop.number):
            return Known(True, tuple(words))
    return Known(None, ())


def _used(loop: Loop) -> list[int]:
    """Return the registers on which the end of the loop, a guard or a word may depend, in any round."""
    used = {loop.left, *(step.when for step in loop.steps if step.when >= 0)}
    used |= {step.of for step in loop.steps if step.kind in ("store", "cas", "exch", "atom.or", "atom.add")}
    for _ in range(REGISTERS):
        used |= {step.of for step in loop.steps if step.kind in COMPUTES and step.to in used}
    return sorted(used)


def _execute(step: Step, registers: list[int], words: list[int]) -> None:
    old, value = words[step.word], registers[step.of]
    match step.kind:
        case "load" | "strong":
            registers[step.to] = old
        case "move":
            registers[step.to] = step.number
        case "store":
            words[step.word] = value
        case "cas":
            words[step.word] = value if old == step.number else old
            registers[step.to] = old
        case "exch":
            words[step.word], registers[step.to] = value, old
        case "atom.or":
            words[step.word], registers[step.to] = old | value, old
        case "atom.add":
            words[step.word], registers[step.to] = (old + value) % LIMIT, old
        case kind:
            registers[step.to] = COMPUTES[kind](value, step.number) % LIMIT


def _text(step: Step) -> str:
    place, to, of = f"[%d+{4 * step.word}]", f"%r{step.to}", f"%r{step.of}"
    plain = {
        "load": f"ld.global.u32 {to}, {place};",
        "strong": f"ld.relaxed.gpu.global.u32 {to}, {place};",
        "move": f"mov.b32 {to}, {step.number};",
        "store": f"st.global.u32 {place}, {of};",
        "cas": f"atom.global.cas.b32 {to}, {place}, {step.number}, {of};",
        "exch": f"atom.global.exch.b32 {to}, {place}, {of};",
        "atom.or": f"atom.global.or.b32 {to}, {place}, {of};",
        "atom.add": f"atom.global.add.u32 {to}, {place}, {of};",
    }.get(step.kind) or f"{step.kind}.{'u' if step.kind == 'add' else 'b'}32 {to}, {of}, {step.number};"
    return plain if step.when < 0 else f"setp.ne.u32 %p, %r{step.when}, 0; @%p {plain}"


def ptx(loop: Loop) -> str:
    """Return the loop as a kernel."""
    before = [f"mov.b32 %r{n}, {value};" for n, value in enumerate(loop.registers)]
    leave = f"setp.{loop.compare}.u32 %p, %r{loop.left}, {loop.number}; @!%p bra LOOP;"
    return HEAD + "\n".join([*before, "LOOP:", *map(_text, loop.steps), leave, "ret;", "}"])


def judge(loop: Loop, engine: Engine, budget: int) -> tuple[Known, str, str]:
    """Compare the verdict with what the loop does: what is known, the verdict, and what is wrong with it."""
    known = execute(loop)
    if known.ends is None:
        return known, "", ""
    memory = np.array(loop.words, np.uint32)
    report = wsemu.check(wsemu.load_ptx(ptx(loop))["k"], 1, 1, (memory,), engine=engine, budget=budget)
    hangs = any(finding.code == "deadlock" for finding in report.findings)
    endless = "a loop waits for memory to change", "a loop has no end"
    waits = any(text in note for note in report.notes for text in endless)
    wrong = ""
    if known.ends:
        if hangs or waits or report.verdict != "verified":
            wrong = f"it ends, and the verdict is {report.verdict}: {report.notes}"
        elif tuple(memory.tolist()) != known.words:
            wrong = f"it leaves {known.words}, and here {memory.tolist()}"
    elif report.verdict == "verified":
        wrong = "it never ends, and is verified"
    elif not hangs and not waits and report.verdict == "failed":
        wrong = f"it never ends, and fails for another reason: {[f.code for f in report.findings]}"
    return known, report.verdict, wrong
